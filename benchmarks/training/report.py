"""Writes the tables of docs/training.md from the files of run.sh, links.sh and gpu_training.sh.

    python3 benchmarks/training/report.py RESULTS docs/training.md

Needs torch and pith_torch (docs/pytorch.md), to count the bytes of a step if a file lacks them.
"""

import csv
import math
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
    "top_k_1_qsgd8": "ef(top_k(0.01,packed_indices)|qsgd<8>)",
    "top_k_1_elias_fano_qsgd8": "ef(top_k(0.01)|qsgd<8>)",
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
# The methods of GRACE: the name, and the perplexity, volume and throughput of the paper's LSTM, relative to "none".
GRACE = {
    "none": ("none", "100.2 | 1 | 1"),
    "bfloat16": ("`cast<bfloat16>`, not in GRACE", "| | "),
    "eight_bit": ("8-bit", "99.0 | 0.125 | 0.63"),
    "one_bit": ("1-bit SGD", "99.9 | 0.125 | 0.96"),
    "sign": ("signSGD", "294.1 | 0.250 | 0.99"),
    "signum": ("SIGNUM", "642.5 | 0.250 | 0.99"),
    "ef_sign": ("EF-signSGD", "98.9 | 0.125 | 0.98"),
    "qsgd": ("QSGD", "110.1 | 0.125 | 0.99"),
    "terngrad": ("TernGrad", "106.2 | 0.125 | 0.99"),
    "natural": ("natural", "119.2 | 0.250 | 0.79"),
    "inceptionn": ("INCEPTIONN", "110.9 | 0.019 | 0.19"),
    "random_k": ("random-k", "308.1 | 0.010 | 0.65"),
    "top_k": ("top-k", "99.0 | 0.020 | 0.98"),
    "threshold": ("threshold", "99.2 | 0.018 | 2.07"),
    "dgc": ("DGC", "101.7 | 0.020 | 2.13"),
    "adaptive_threshold": ("adaptive threshold", "99.5 | 0.010 | 2.11"),
    "sketch_ml": ("SketchML", "100.6 | 0.125 | 0.56"),
    "power_sgd": ("PowerSGD", "147.8 | 0.003 | 2.68"),
}
RESNET = ("dense", "bfloat16", "top_k_10x", "top_k_100x", "top_k_1000x", "gradiveq")
RESNET_STEPS = {
    "dense": "`identity`",
    "bfloat16": "`cast<bfloat16>`",
    "top_k_10x": "top-k 10x",
    "top_k_100x": "top-k 100x",
    "top_k_1000x": "top-k 1000x",
    "sampling": "`gradiveq`, sampling",
    "compressed": "`gradiveq`, compressed",
}
FACTORS = {"dense": 1, "top_k_10x": 10, "top_k_100x": 100, "top_k_1000x": 1000}
CONTROL = {"jitter": "`identity`, means times 1 + 0.003 u"}
LINKS = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "100mbit+20ms": "100 Mbit/s, 20 ms"}
BFLOAT16 = ("torch_bfloat16", "mpi_bfloat16", "bfloat16", "bfloat16_pairwise")
PAIRWISE = "_pairwise"  # the end of the names of runs of train_libtorch --pairwise
STEPS = {"gpt": [500, 1000, 1500, 2000], "lstm": [500, 1000], "resnet": [390, 780]}
NOISE = 0.005  # between seeds of the GPT; for equal seeds of the LSTM, less (docs/training.md)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def label(name):
    if name.endswith(PAIRWISE):
        return label(name.removesuffix(PAIRWISE)) + ", `--pairwise`"
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
    of, dense = last_losses(results, model, name.removesuffix(PAIRWISE)), last_losses(results, model, "dense")
    return f"{statistics.mean(of[seed] - dense[seed] for seed in of):+.3f} ({len(of)})" if of else ""


def links_table(results, model):
    known = [*PEERS, *(name + end for name in CODECS for end in ("", PAIRWISE))]
    names = [n for n in known if any((results / f"links_{model}_{link}_{n}.csv").exists() for link in LINKS)]
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


def adaptive_table(results, link):
    """Until the last loss of top-k 10x: steps, bytes of one rank, and seconds over the link."""
    paths = {n: results / f"{'whole' if n == 'dense' else 'adaptive'}_lstm_{link}_{n}.csv" for n in ADAPTIVE}
    runs = {n: rows_of(path) for n, path in paths.items() if path.exists()}
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


def phases(path):
    """The phase of each step of gradiveq. The last sampling step of a period ends with the fit of the bases."""
    of = [row["phase"] for row in rows_of(path)]
    return ["fit" if pair == ("sampling", "compressed") else pair[0] for pair in zip(of, of[1:] + of[-1:])]


def resnet_steps(results, link):
    """The median seconds of a step over a link, by exchange; for gradiveq, by phase."""
    paths = {n: results / f"links_resnet_{link}_{n}.csv" for n in RESNET}
    medians = {name: seconds_per_step(path) for name, path in paths.items() if name != "gradiveq"}
    ends = [float(row["seconds"]) for row in rows_of(paths["gradiveq"])]
    steps = list(zip(phases(paths["gradiveq"].with_suffix(".decisions.csv"))[1:], ends, ends[1:]))[10:]
    for phase in ("sampling", "compressed"):
        medians[phase] = statistics.median(b - a for of, a, b in steps if of == phase)
    return medians | {"warm_up": medians["dense"], "fit": fit_seconds(results)}


def fit_seconds(results):
    """The median seconds of a step with the fit of bases, in the training without links."""
    ends = [float(row["seconds"]) for row in rows_of(results / "resnet_gradiveq_1.csv")]
    kinds = phases(results / "resnet_gradiveq.decisions.csv")
    return statistics.median(b - a for of, a, b in zip(kinds[1:], ends, ends[1:]) if of == "fit")


def step_kinds(results, name, n):
    """What the first n steps of a training sent, as resnet_steps names it."""
    path = results / f"resnet_{name}.decisions.csv"
    if name == "gradiveq":
        return phases(path)[:n]
    if path.exists():
        distance = lambda factor, of: abs(math.log(factor / of))
        return [min(FACTORS, key=lambda kind: distance(float(row["factor"]), FACTORS[kind])) for row in rows_of(path)[:n]]
    return [name] * n


def resnet_links_table(results):
    links = {link: resnet_steps(results, link) for link in ("100mbit", "1gbit")}
    yield "| exchange | " + " | ".join(f"{LINKS[link]}: ms per step" for link in links) + " |"
    yield "|---|" + "---|" * len(links)
    for name, text in RESNET_STEPS.items():
        yield f"| {text} | " + " | ".join(f"{1000 * of[name]:.0f}" for of in links.values()) + " |"


def resnet_table(results):
    """Until the last loss of top-k 10x: steps, bytes of one rank, and the predicted seconds over links."""
    runs = {n: rows_of(p) for n in ADAPTIVE if (p := results / f"resnet_{n}_1.csv").exists()}
    links = {link: resnet_steps(results, link) for link in ("100mbit", "1gbit")}
    aim = losses(results / "resnet_top_k_10x_1.csv")[780]
    predicted = " | ".join(f"predicted seconds, {LINKS[link]}" for link in links)
    yield f"| exchange | steps to the loss of top-k 10x | MB sent until then | {predicted} | loss of step 390 | loss of step 780 |"
    yield "|---|---|---|---|---|---|---|"
    for name, rows in runs.items():
        losses_at = losses(results / f"resnet_{name}_1.csv")
        end = step_of(losses_at, aim)
        cells = "never | | | "
        if end:
            kinds = step_kinds(results, name, end)
            seconds = " | ".join(f"{sum(of[kind] for kind in kinds):.0f}" for of in links.values())
            cells = f"{end} | {sum(float(row['sent_bytes']) for row in rows[:end]) / 1e6:.0f} | {seconds}"
        yield f"| {ADAPTIVE[name]} | {cells} | {losses_at[390]:.3f} | {losses_at[780]:.3f} |"


def grace_table(results):
    """Loss, perplexity, bytes and speed of whole trainings, and the figures of the paper."""
    runs = {n: p for n in GRACE if (p := results / f"grace_lstm_1gbit_{n}.csv").exists()}
    sent = {n: sum(float(row["sent_bytes"]) for row in rows_of(p)) for n, p in runs.items()}
    seconds = {n: float(rows_of(p)[-1]["seconds"]) for n, p in runs.items()}
    yield "| method | loss | perplexity | volume | throughput | paper: perplexity | volume | throughput |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, path in runs.items():
        loss = losses(path)[1000]
        yield (
            f"| {GRACE[name][0]} | {loss:.3f} | {math.exp(loss):.1f} | {sent[name] / sent['none']:.3f} | "
            f"{seconds['none'] / seconds[name]:.2f} | {GRACE[name][1]} |"
        )


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
    "adaptive": lambda results: adaptive_table(results, "100mbit"),
    "adaptive 1gbit": lambda results: adaptive_table(results, "1gbit"),
    "resnet": resnet_table,
    "resnet links": resnet_links_table,
    "grace": grace_table,
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
