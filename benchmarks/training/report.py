"""Writes the tables of docs/training.md from the files of run.sh, links.sh and gpu_training.sh.

    python3 benchmarks/training/report.py RESULTS docs/training.md

Needs torch and pith_torch (docs/pytorch.md), to count the bytes of a step if a file lacks them.
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
    "power_sgd_4_bfloat16": "ef(power_sgd(4,2,bfloat16))",
    "power_sgd_16_bfloat16": "ef(power_sgd(16,2,bfloat16))",
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
    "torch_power_sgd_1": "torch: `powerSGD_hook` of rank 1, one bucket",
    "torch_power_sgd_4": "torch: `powerSGD_hook` of rank 4, one bucket",
    "mpi_dense": "`MPI_Allreduce` of float",
    "mpi_bfloat16": "`MPI_Allreduce` of bfloat16",
}
ADAPTIVE = {
    "dense": "`identity`",
    "top_k_10x": "top-k 10x",
    "top_k_100x": "top-k 100x",
    "top_k_1000x": "top-k 1000x",
    "gravac": "`gravac`",
    "gravac_by_gradients": "`gravac_by_gradients`",
    "accordion": "`accordion`, 10x and 1000x",
    "gradiveq": "`gradiveq`",
}
CONTROL = {"jitter": "`identity`, means times 1 + 0.003 u"}
LINKS = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "100mbit+20ms": "100 Mbit/s, 20 ms"}
BFLOAT16 = ("torch_bfloat16", "mpi_bfloat16", "bfloat16")
STEPS = {"gpt": [500, 1000, 1500, 2000], "lstm": [500, 1000], "resnet": [390, 780]}
NOISE = 0.005  # between seeds of the GPT; for equal seeds of the LSTM, less (docs/training.md)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def label(name):
    return {**PEERS, **CONTROL}.get(name) or "`" + CODECS[name].replace("|", "\\|") + "`"


def losses(path):
    """Validation losses of the whole split, by step."""
    return {int(row["step"]): float(row["whole_validation_loss"]) for row in rows_of(path) if row["whole_validation_loss"]}


def last_losses(results, model, name):
    """The last loss of each seed."""
    paths = results.glob(f"{model}_{name}_[0-9].csv")
    return {path.stem[-1]: losses(path)[STEPS[model][-1]] for path in paths}


def seconds_per_step(path):
    """The median, without the first ten steps."""
    ends = [float(row["seconds"]) for row in rows_of(path)][10:]
    return statistics.median(b - a for a, b in zip(ends, ends[1:]))


def with_bfloat16(results, prefix):
    """The seconds per step of the fastest exchange with bfloat16."""
    paths = [results / f"{prefix}_{name}.csv" for name in BFLOAT16]
    return min(seconds_per_step(path) for path in paths if path.exists())


def gpt():
    return train_gpt.GPT(train_gpt.SETTINGS["0.8M"], 65)


def lstm():
    """Tensors with the shapes of examples/libtorch/lstm.hpp."""
    layers = [torch.nn.Embedding(4000, 96), torch.nn.LSTM(96, 96, 2), torch.nn.Linear(96, 4000)]
    return torch.nn.ModuleList(layers)


def sent_bytes(path, codec, model):
    """The bytes that one of four ranks sends in a step: those of the file, if it has them."""
    last = rows_of(path)[-1]
    if "sent_bytes" in last:
        return float(last["sent_bytes"])
    state = pith_torch.State(pith_torch.LocalRanks(4), pith_torch.matrices(codec), model.named_parameters())
    state.all_reduce_mean([[torch.randn_like(p) for p in model.parameters()] for _ in range(4)])
    return state.report()[0][-1]["wire_bytes"]


def loss_table(results, model):
    kind, steps = model.__name__, STEPS[model.__name__]
    dense = losses(results / f"{kind}_dense_1.csv")
    yield "| codec of the matrices | MB sent per step | " + " | ".join(f"step {s}" for s in steps) + " | over dense |"
    yield "|---|---|" + "---|" * len(steps) + "---|"
    for name in [*CODECS, *PEERS]:
        path = results / f"{kind}_{name}_1.csv"
        if path.exists():
            of = losses(path)
            cells = " | ".join(f"{of[s]:.3f}" for s in steps)
            sent = f"{sent_bytes(path, CODECS[name], model()) / 1e6:.3f}" if name in CODECS else ""
            yield f"| {label(name)} | {sent} | {cells} | {of[steps[-1]] - dense[steps[-1]]:+.3f} |"


def seed_table(results, model):
    yield "| codec of the matrices | seed | 20 batches | whole split |"
    yield "|---|---|---|---|"
    for name in CODECS:
        paths = sorted(results.glob(f"{model}_{name}_[0-9].csv"))
        for path in paths if len(paths) > 1 else []:
            last = rows_of(path)[-1]
            seed = path.stem.rsplit("_", 1)[1]
            yield f"| {label(name)} | {seed} | {last['validation_loss']} | {last['whole_validation_loss']} |"


def over_dense(results, model, name):
    """The difference of the last loss from that of uncompressed gradients, a mean over the seeds, and their number. Empty
    if no model was trained with this exchange."""
    of, dense = last_losses(results, model, name), last_losses(results, model, "dense")
    return f"{statistics.mean(of[seed] - dense[seed] for seed in of):+.3f} ({len(of)})" if of else ""


def links_table(results, model):
    names = [n for n in [*PEERS, *CODECS] if any((results / f"links_{model}_{link}_{n}.csv").exists() for link in LINKS)]
    links = [link for link in LINKS if any(results.glob(f"links_{model}_{link}_*.csv"))]
    yield "| exchange | " + " | ".join(f"{LINKS[link]}: ms per step | over bfloat16" for link in links) + " | loss over dense (seeds) |"
    yield "|---|" + "---|---|" * len(links) + "---|"
    for name in names:
        cells = []
        for link in links:
            path = results / f"links_{model}_{link}_{name}.csv"
            if path.exists():
                seconds = seconds_per_step(path)
                cells.append(f"{1000 * seconds:.0f} | {seconds / with_bfloat16(results, f'links_{model}_{link}'):.2f}")
            else:
                cells.append(" | ")
        yield f"| {label(name)} | " + " | ".join(cells) + f" | {over_dense(results, model, name)} |"


def probes(results):
    """What was measured of each link, and on which machine."""
    yield "| link | measured | machine |"
    yield "|---|---|---|"
    for link, text in LINKS.items():
        path = results / f"links_{link}.txt"
        if path.exists():
            machine, measured = path.read_text().strip().split("\n")
            yield f"| {text} | {measured} | {machine} |"


def whole_table(results):
    yield "| model | exchange | steps | seconds of all steps | last loss | seconds to the loss of float + 0.005 |"
    yield "|---|---|---|---|---|---|"
    for path in sorted(results.glob("whole_*_100mbit_*.csv")):
        model, _, name = path.stem.removeprefix("whole_").split("_", 2)
        rows = rows_of(path)
        aim = statistics.mean(last_losses(results, model, "dense").values()) + NOISE
        reached = [float(row["seconds"]) for row in rows if float(row["whole_validation_loss"] or "inf") <= aim]
        yield (
            f"| {model.upper()} | {label(name)} | {len(rows) - 1} | {float(rows[-1]['seconds']):.0f} | "
            f"{list(losses(path).values())[-1]:.3f} | {f'{reached[0]:.0f}' if reached else 'never'} |"
        )


def step_of(losses_at, aim):
    """The step at which the loss reaches the aim, interpolated between evaluations; None if it never does."""
    points = list(losses_at.items())
    for (a, above), (b, below) in zip(points, points[1:]):
        if below <= aim:
            return round(a + (b - a) * max(0, above - aim) / (above - below))
    return None


def adaptive_table(results):
    """Until the last loss of top-k 10x: steps, bytes of one rank, and seconds over the link."""
    runs = {n: rows_of(p) for n in ADAPTIVE if (p := results / f"adaptive_lstm_100mbit_{n}.csv").exists()}
    evaluated = {n: [row for row in rows if row["whole_validation_loss"]] for n, rows in runs.items()}
    aim = float(evaluated["top_k_10x"][-1]["whole_validation_loss"])
    yield "| exchange | steps to the loss of top-k 10x | MB sent until then | seconds until then | loss of step 1000 | loss of step 2000 |"
    yield "|---|---|---|---|---|---|"
    for name, rows in runs.items():
        losses_at = {int(row["step"]): float(row["whole_validation_loss"]) for row in evaluated[name]}
        end = step_of(losses_at, aim)
        cells = "never | | "
        if end:
            sent = sum(float(row["sent_bytes"]) for row in rows[:end])
            cells = f"{end} | {sent / 1e6:.0f} | {float(rows[end - 1]['seconds']):.0f}"
        last = f"{losses_at[2000]:.3f}" if 2000 in losses_at else ""
        yield f"| {ADAPTIVE[name]} | {cells} | {losses_at[1000]:.3f} | {last} |"


def resnet_table(results):
    runs = {n: results / f"resnet_{n}_1.csv" for n in ADAPTIVE if (results / f"resnet_{n}_1.csv").exists()}
    dense = sum(float(row["sent_bytes"]) for row in rows_of(runs["dense"]))
    yield "| exchange | bytes relative to dense | " + " | ".join(f"loss of step {s}" for s in STEPS["resnet"]) + " |"
    yield "|---|---|" + "---|" * len(STEPS["resnet"])
    for name, path in runs.items():
        sent = sum(float(row["sent_bytes"]) for row in rows_of(path))
        cells = " | ".join(f"{losses(path)[s]:.3f}" for s in STEPS["resnet"])
        yield f"| {ADAPTIVE[name]} | {'1' if sent == dense else f'1/{dense / sent:.1f}'} | {cells} |"


def gpu_table(results):
    """Trainings may have ended early. So the last steps that all of them have are compared."""
    steps = {row["codec"]: row for row in rows_of(results / "gpu_steps.csv")}
    runs = {name: rows_of(results / f"gpu_{name}.csv") for name in CODECS if (results / f"gpu_{name}.csv").exists()}
    last = min(len(rows) for rows in runs.values()) - 1
    first = max(0, last - 39)
    yield (
        f"| codec of the matrices | validation loss, step 250 | training loss, mean of steps {first} to {last} | "
        "four backward passes, ms | exchange, ms | GPU time of the exchange, ms | GPU time of pith's kernels, ms |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, rows in runs.items():
        training = statistics.mean(float(row["training_loss"]) for row in rows[first : last + 1])
        of = steps[CODECS[name]]
        times = " | ".join(f"{float(of[c]):.1f}" for c in ("backward_ms", "exchange_ms", "exchange_on_device_ms", "pith_kernels_ms"))
        yield f"| {label(name)} | {losses(results / f'gpu_{name}.csv')[250]:.3f} | {training:.3f} | {times} |"


TABLES = {
    "losses": lambda results: loss_table(results, gpt),
    "seeds": lambda results: seed_table(results, "gpt"),
    "lstm": lambda results: loss_table(results, lstm),
    "lstm seeds": lambda results: seed_table(results, "lstm"),
    "probes": probes,
    "links": lambda results: links_table(results, "gpt"),
    "lstm links": lambda results: links_table(results, "lstm"),
    "whole": whole_table,
    "adaptive": adaptive_table,
    "resnet": resnet_table,
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
