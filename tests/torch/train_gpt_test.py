"""The trainer of examples/torch runs with the installed package, from a checkout."""

import csv
import pathlib
import subprocess
import sys

TRAINER = pathlib.Path(__file__).parents[2] / "examples" / "torch" / "train_gpt.py"


def run(*arguments):
    options = ["--steps", "3", "--evaluate-every", "0", *arguments]
    return subprocess.run([sys.executable, TRAINER, *options], capture_output=True, text=True)


def losses(*arguments):
    ended = run(*arguments)
    assert ended.returncode == 0, ended.stderr
    return [float(row["training_loss"]) for row in csv.DictReader(ended.stdout.splitlines())]


def test_local_ranks_train():
    dense, compressed = losses("--local-ranks", "2"), losses("--local-ranks", "2", "--codec", "ef(top_k(0.1))")
    assert len(dense) == 4 and dense[-1] < dense[0]
    assert compressed[-1] < compressed[0] and compressed[1:] != dense[1:]


def test_a_training_without_steps_has_the_row_of_step_0():
    assert len(losses("--steps", "0")) == 1


def test_a_batch_that_the_ranks_cannot_divide_is_refused():
    ended = run("--local-ranks", "5")
    assert ended.returncode == 2 and "multiple of the 5 ranks, got 12" in ended.stderr
