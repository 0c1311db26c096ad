"""Writes the tables of docs/training.md from the files of run.sh, links.sh and gpu_training.sh.

    python3 benchmarks/training/report.py RESULTS docs/training.md

Needs torch and pith_torch (docs/pytorch.md), to count the bytes of a step.
"""

import csv
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "torch"))

import torch

import pith_torch
import train_gpt

CODECS = {
    "dense": "identity",
    "bfloat16": "cast<bfloat16>",
    "qsgd8": "two_shot(qsgd<8>)",
    "block_int8": "two_shot(block_int<8>)",
    "block_int4": "ef(block_int<4>)",
    "block_int4_two_shot": "ef(two_shot(block_int<4>,ef(block_int<4>)))",
    "power_sgd_16": "ef(power_sgd(16))",
    "power_sgd_4": "ef(power_sgd(4))",
    "top_k_10": "ef(top_k(0.1))",
    "top_k_1": "ef(top_k(0.01))",
    "top_k_1_qsgd8": "ef(top_k(0.01)|qsgd<8>)",
    "scaled_sign": "ef(scaled_sign)",
    "block_int2": "ef(block_int<2>(32,clip))",
    "block_int2_two_shot": "ef(two_shot(block_int<2>(32,clip),ef(block_int<2>(32,clip))))",
    "scaled_sign_32": "ef(scaled_sign(32))",
    "scaled_sign_32_two_shot": "ef(two_shot(scaled_sign(32),ef(scaled_sign(32))))",
    "jitter": "identity",
}
PEERS = {
    "torch_dense": "DDP without a hook",
    "torch_bfloat16": "torch: `bf16_compress_hook`",
    "torch_power_sgd_one_bucket": "torch: `powerSGD_hook` of rank 1, one bucket",
}
CONTROL = {"jitter": "`identity`, means times 1 + 0.003 u"}
RATES = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s"}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def label(name):
    return {**PEERS, **CONTROL}.get(name) or "`" + CODECS[name].replace("|", "\\|") + "`"


def losses(path):
    """Validation losses of the whole split, by step."""
    return {int(row["step"]): float(row["whole_validation_loss"]) for row in rows_of(path) if row["whole_validation_loss"]}


def seconds_per_step(path):
    """The median, without the first ten steps."""
    ends = [float(row["seconds"]) for row in rows_of(path)][10:]
    return statistics.median(b - a for a, b in zip(ends, ends[1:]))


def gpt():
    return train_gpt.GPT(train_gpt.SETTINGS["0.8M"], 65)


def lstm():
    """Tensors with the shapes of examples/libtorch/lstm.hpp."""
    layers = [torch.nn.Embedding(4000, 96), torch.nn.LSTM(96, 96, 2), torch.nn.Linear(96, 4000)]
    return torch.nn.ModuleList(layers)


def sent_bytes(codec, model):
    """The bytes that one of four ranks sends in a step."""
    state = pith_torch.State(pith_torch.LocalRanks(4), pith_torch.matrices(codec), model.named_parameters())
    state.all_reduce_mean([[torch.randn_like(p) for p in model.parameters()] for _ in range(4)])
    return state.report()[0][-1]["wire_bytes"]


def loss_table(results, model, steps):
    kind = model.__name__
    dense = losses(results / f"{kind}_dense_1.csv")
    yield "| codec of the matrices | MB sent per step | " + " | ".join(f"step {s}" for s in steps) + " | over dense |"
    yield "|---|---|" + "---|" * len(steps) + "---|"
    for name, codec in CODECS.items():
        path = results / f"{kind}_{name}_1.csv"
        if path.exists():
            of = losses(path)
            cells = " | ".join(f"{of[s]:.3f}" for s in steps)
            sent = sent_bytes(codec, model()) / 1e6
            yield f"| {label(name)} | {sent:.3f} | {cells} | {of[steps[-1]] - dense[steps[-1]]:+.3f} |"


def seed_table(results):
    yield "| codec of the matrices | seed | 20 batches | whole split |"
    yield "|---|---|---|---|"
    for name in ("dense", "bfloat16", "block_int4_two_shot", "block_int2_two_shot"):
        for path in sorted(results.glob(f"gpt_{name}_?.csv")):
            last = rows_of(path)[-1]
            seed = path.stem.rsplit("_", 1)[1]
            yield f"| {label(name)} | {seed} | {last['validation_loss']} | {last['whole_validation_loss']} |"


def over_dense(results, name):
    """The difference of the last loss from that of uncompressed gradients; empty for hooks that trained no model."""
    path = results / f"gpt_{name}_1.csv"
    last = lambda of: losses(of)[2000]
    return f"{last(path) - last(results / 'gpt_dense_1.csv'):+.3f}" if path.exists() else ""


def links_table(results):
    names = [name for name in [*PEERS, *CODECS] if any(results.glob(f"links_*bit_{name}.csv"))]
    rates = [rate for rate in RATES if all((results / f"links_{rate}_{name}.csv").exists() for name in names)]
    yield "| exchange | " + " | ".join(f"{RATES[rate]}: ms per step | over bfloat16" for rate in rates) + " | loss over dense |"
    yield "|---|" + "---|---|" * len(rates) + "---|"
    for name in names:
        cells = []
        for rate in rates:
            seconds = seconds_per_step(results / f"links_{rate}_{name}.csv")
            best = min(seconds_per_step(results / f"links_{rate}_{base}.csv") for base in ("torch_bfloat16", "bfloat16"))
            cells.append(f"{1000 * seconds:.0f} | {seconds / best:.2f}")
        yield f"| {label(name)} | " + " | ".join(cells) + f" | {over_dense(results, name)} |"


def gpu_table(results):
    """Trainings may have ended early. So the last steps that all of them have are compared."""
    steps = {row["codec"]: row for row in rows_of(results / "gpu_steps.csv")}
    runs = {name: rows_of(results / f"gpu_{name}.csv") for name in CODECS if (results / f"gpu_{name}.csv").exists()}
    last = min(len(rows) for rows in runs.values()) - 1
    first = max(0, last - 39)
    yield (
        f"| codec of the matrices | validation loss, step 250 | training loss, mean of steps {first} to {last} | "
        "four backward passes, ms | exchange, ms | its work on the GPU, ms | its kernels of pith, ms |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, rows in runs.items():
        training = statistics.mean(float(row["training_loss"]) for row in rows[first : last + 1])
        of = steps[CODECS[name]]
        times = " | ".join(f"{float(of[c]):.1f}" for c in ("backward_ms", "exchange_ms", "exchange_on_device_ms", "pith_kernels_ms"))
        yield f"| {label(name)} | {losses(results / f'gpu_{name}.csv')[250]:.3f} | {training:.3f} | {times} |"


TABLES = {
    "losses": lambda results: loss_table(results, gpt, [500, 1000, 1500, 2000]),
    "lstm": lambda results: loss_table(results, lstm, [250, 500, 750, 1000]),
    "seeds": seed_table,
    "links": links_table,
    "gpu": gpu_table,
}


def main(results, page):
    text = page.read_text()
    for name, table in TABLES.items():
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if marks[0] not in text:
            continue
        body = "\n".join(table(results))
        text = re.sub(f"(?s){marks[0]}\n.*?{marks[1]}", lambda _: f"{marks[0]}\n\n{body}\n\n{marks[1]}", text)
    page.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
