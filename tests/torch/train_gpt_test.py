"""The trainer of examples/torch runs with the installed package, from a checkout."""

import csv
import pathlib
import subprocess
import sys

TRAINER = pathlib.Path(__file__).parents[2] / "examples" / "torch" / "train_gpt.py"


def losses(*arguments):
    options = ["--steps", "3", "--evaluate-every", "0", *arguments]
    written = subprocess.run([sys.executable, TRAINER, *options], check=True, capture_output=True, text=True).stdout
    return [float(row["training_loss"]) for row in csv.DictReader(written.splitlines())]


def test_local_ranks_train():
    dense, compressed = losses("--local-ranks", "2"), losses("--local-ranks", "2", "--codec", "ef(top_k(0.1))")
    assert len(dense) == 4 and dense[-1] < dense[0]
    assert compressed[-1] < compressed[0] and compressed[1:] != dense[1:]
