"""Runs examples/libtorch's trainer on small data, on several ranks of MPI."""

import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

TRAINER = os.environ["PITH_TRAIN_LIBTORCH"]
CODEC = "ef(power_sgd(4))"
COLUMNS = ["step", "seconds", "sent_bytes", "training_loss", "validation_loss", "whole_validation_loss"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of a text for the GPT, of words for the LSTM and of images for the ResNet."""
    folder = tmp_path_factory.mktemp("data")
    draws = random.Random(1)
    words = ["".join(draws.choices("abcdefgh", k=3)) for _ in range(300)]
    for name, n in (("train.txt", 4000), ("valid.txt", 400)):
        lines = (" ".join(["<unk>", *draws.choices(words, k=9)]) for _ in range(n // 10))
        (folder / name).write_text("\n".join(lines) + "\n")
    for name in ("data_batch_1.bin", "test_batch.bin"):
        records = (bytes([draws.randrange(10)]) + draws.randbytes(3072) for _ in range(40))
        (folder / name).write_bytes(b"".join(records))
    return folder


def start(ranks, *arguments):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), TRAINER, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def train(ranks, *arguments):
    """The rows of the CSV, and the digest of the parameters."""
    ended = start(ranks, *arguments)
    assert ended.returncode == 0, ended.stderr
    rows = list(csv.reader(ended.stdout.splitlines()))
    assert rows[0] == COLUMNS
    return [dict(zip(COLUMNS, row)) for row in rows[1:]], re.search(r"parameters: (\w{16})", ended.stderr)[1]


def error(ranks, *arguments):
    ended = start(ranks, *arguments)
    assert ended.returncode != 0
    return ended.stderr


def gpt(data, steps, *arguments):
    return "--data", data / "train.txt", "--steps", steps, "--evaluate-every", 0, "--batch", 4, *arguments


def test_two_ranks_equal_one_process_with_micro_steps(data):
    rows, digest = train(2, *gpt(data, 8))
    _, same = train(1, *gpt(data, 8, "--micro-steps", 2))
    _, halved = train(1, *gpt(data, 8))
    assert digest == same  # a + b = b + a, and halves are exact
    assert digest != halved  # products of whole batches round in another order
    assert len(rows) == 9


def test_dense_floats_equal_identity(data):
    dense, digest = train(2, *gpt(data, 4, "--dense", "float"))
    rows, same = train(2, *gpt(data, 4))
    assert digest == same
    assert 1 <= int(rows[-1]["sent_bytes"]) / int(dense[-1]["sent_bytes"]) < 1.01  # padding


def test_swaps_of_pairs_have_the_same_means(data):
    options = gpt(data, 4, "--codec", CODEC)
    assert train(2, *options, "--pairwise")[1] == train(2, *options)[1]


def test_dense_bfloat16_rounds(data):
    assert train(2, *gpt(data, 4, "--dense", "bfloat16"))[1] != train(2, *gpt(data, 4))[1]


@pytest.mark.parametrize("codec", [CODEC, "two_shot(qsgd<8>)", "ef(top_k(0.01)|qsgd<8>)", "ef(sketch_ml<6>,unverified)"])
def test_layout_and_overlap_do_not_change_bits(data, codec):
    options = gpt(data, 4, "--codec", codec)
    digest = train(4, *options)[1]
    assert digest == train(4, *options, "--scattered")[1]
    assert digest == train(4, *options, "--no-overlap")[1]
    assert digest == train(4, *options, "--scattered", "--no-overlap")[1]


MODELS = {
    "gpt": ["--bucket-bytes", 200_000],
    "lstm": [],  # with dropout
    "resnet": ["--codec-of", "output.weight=cast<bfloat16>"],
    "bfloat16": ["--bfloat16"],
}


def options_of(model, data, steps):
    path = data / "train.txt" if model in ("gpt", "bfloat16") else data
    name = "gpt" if model == "bfloat16" else model
    return ["--model", name, "--data", path, "--steps", steps, "--batch", 8, "--codec", CODEC, *MODELS[model]]


@pytest.mark.parametrize("model", MODELS)
def test_a_resumed_training_has_the_same_bits(data, tmp_path, model):
    options = [*options_of(model, data, 6), "--evaluate-every", 4]
    rows, digest = train(2, *options, "--save", tmp_path, "--save-every", 4)
    resumed, same = train(2, *options, "--resume", tmp_path / "4")
    assert same == digest
    losses = [[row.get(name) for name in COLUMNS if name != "seconds"] for row in rows[4:]]
    assert losses == [[row.get(name) for name in COLUMNS if name != "seconds"] for row in resumed]


def test_a_controller_chooses_densities_and_is_resumed(data, tmp_path):
    decisions = tmp_path / "decisions.csv"
    options = ["--model", "lstm", "--data", data, "--steps", 7, "--batch", 8, "--evaluate-every", 0]
    options += ["--controller", "gravac", "--min-gain", 0.01, "--decisions", decisions]
    rows, digest = train(2, *options, "--save", tmp_path, "--save-every", 4)
    with decisions.open(newline="") as file:
        chosen = list(csv.DictReader(file))
    assert [(int(row["step"]), float(row["factor"])) for row in chosen] == [(1, 1), *((step, 20) for step in range(2, 9))]
    assert int(rows[-1]["sent_bytes"]) < int(rows[0]["sent_bytes"])
    assert train(2, *options, "--resume", tmp_path / "4")[1] == digest


def test_gradiveq_learns_bases_and_is_resumed(data, tmp_path):
    decisions = tmp_path / "decisions.csv"
    options = ["--model", "resnet", "--data", data, "--steps", 7, "--batch", 8, "--evaluate-every", 0]
    options += ["--controller", "gradiveq", "--decisions", decisions]
    rows, digest = train(2, *options, "--save", tmp_path, "--save-every", 3)
    with decisions.open(newline="") as file:
        phases = [row["phase"] for row in csv.DictReader(file)]
    assert phases == ["warm_up"] * 2 + ["sampling"] * 2 + ["compressed"] * 4
    sent = [int(row["sent_bytes"]) for row in rows]
    assert sent[0] == sent[1] > sent[2] == sent[3] > sent[4] == sent[7]
    for step in (3, 6):  # while sampling, and with bases
        assert train(2, *options, "--resume", tmp_path / str(step))[1] == digest
    assert "needs the state of 1 ranks, got 2" in error(1, *options, "--resume", tmp_path / "6")


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_another_number_of_ranks_resumes(data, tmp_path, ranks):
    options = [*options_of("gpt", data, 6), "--evaluate-every", 4]
    rows, _ = train(4, *options, "--save", tmp_path, "--save-every", 4)
    resumed, digest = train(ranks, *options, "--resume", tmp_path / "4")
    assert [row["step"] for row in resumed] == ["4", "5", "6"]
    for name in ("validation_loss", "whole_validation_loss"):  # of the same parameters
        assert resumed[0][name] == rows[4][name]
    assert digest == train(ranks, *options, "--resume", tmp_path / "4")[1]


def test_residuals_are_resharded(data, tmp_path):
    """With the residuals of an earlier step, the resumed training has other bits."""
    options = [*options_of("gpt", data, 5), "--evaluate-every", 0]
    train(4, *options, "--save", tmp_path, "--save-every", 2)
    digest = train(2, *options, "--resume", tmp_path / "4")[1]
    for rank in range(4):
        shutil.copy(tmp_path / "2" / f"exchange_of_rank_{rank}", tmp_path / "4")
    assert digest != train(2, *options, "--resume", tmp_path / "4")[1]


def test_a_checkpoint_with_other_codecs_is_refused(data, tmp_path):
    train(2, *gpt(data, 2, "--codec", CODEC, "--save", tmp_path, "--save-every", 2))
    assert "the state must be of" in error(2, *gpt(data, 2, "--resume", tmp_path / "2"))
    assert "--dense must have no state" in error(2, *gpt(data, 2, "--dense", "float", "--resume", tmp_path / "2"))
    (tmp_path / "2" / "exchange_of_rank_1").unlink()
    assert "exchange_of_rank_1" in error(2, *gpt(data, 2, "--codec", CODEC, "--resume", tmp_path / "2"))


def test_report_and_trace(data, tmp_path):
    report, trace = tmp_path / "report.jsonl", tmp_path / "trace.json"
    options = ["--report", report, "--trace", trace, "--fit-buckets"]
    train(2, *options_of("gpt", data, 4), "--evaluate-every", 2, *options)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["step"] for line in lines if "tensors" in line] == [0, 2, 4]
    by_tensor = {line["tensor"]: line for line in lines if "tensor" in line}
    assert by_tensor["blocks.0.qkv.weight"]["ratio"] > 10
    assert by_tensor["norm.weight"]["ratio"] == pytest.approx(1, abs=0.1)
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"encode", "transfer", "decode"}


WRONG = {
    "--codec top_q(0.1)": "did you mean top_k?",
    "--codec-of tokens.weight": "--codec-of: must be NAME=CODEC, got tokens.weight",
    "--codec-of token.weight=identity": "--codec-of: the model has no parameter token.weight",
    "--batch 3": "--batch: must be a multiple of 2, which is ranks x micro-steps, got 3",
    "--dense float --codec identity": "--codec excludes --dense",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_arguments(data, arguments):
    assert WRONG[arguments] in error(2, "--data", data / "train.txt", "--steps", 2, *arguments.split())
