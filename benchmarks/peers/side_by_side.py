#!/usr/bin/env python3
"""benchmarks/peers/side_by_side.py — the rows of run.sh as a table: this library's time and each peer's.

    side_by_side.py ROWS.csv                prints the tables
    side_by_side.py ROWS.csv --update docs/peers.md --instructions avx2
                                            puts them between <!-- peers avx2 --> and <!-- end -->

Exits with status 1 and writes nothing if a method's errors differ between a peer and this library: then the work is not
equal. The table marks missed targets.
"""
import argparse
import csv
import datetime
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import code, heading, line, number, replace

# The least ratio of a peer's time to ours for encoding 2^22 normal values.
TARGETS = {
    "one_bit": 5,
    "one_bit_means": 5,
    "ef(one_bit)": 4,
    "qsgd8": 20,
    "top_k": 20,
    "ef(top_k)": 20,
    "power_sgd": 5,
}
TARGETED = "normal", 1 << 22


def read(path):
    """Rows of all turns as one: medians of seconds, by (data, method, verb) and then by (peer, computes)."""
    turns = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = row["data"], row["method"], row["verb"]
            turns.setdefault(key, {}).setdefault((row["peer"], row["computes"]), []).append(row)
    return {key: {who: merged(rows) for who, rows in all_rows.items()} for key, all_rows in turns.items()}


def merged(rows):
    n = int(rows[0]["n"])
    return {
        "peer": rows[0]["peer"],
        "computes": rows[0]["computes"],
        "n": n,
        "ns": statistics.median(float(row["seconds"]) for row in rows) / n * 1e9,
        "bytes": int(rows[0]["bytes"]) / n,
        "error": float(rows[0]["error"]),
    }


def is_ours(row):
    return row["peer"].startswith("pith ")


def pairs(rows):
    """(key, our row, a peer's row), in the order of ours."""
    for key, everyone in rows.items():
        ours = [row for row in everyone.values() if is_ours(row)]
        for row in everyone.values():
            if ours and not is_ours(row):
                yield key, ours[0], row


def is_drawn(method):
    return any(name in method for name in ("qsgd8", "random_k", "power_sgd"))


def tolerance(method, n):
    """The relative difference that the errors of a method may have: six deviations of each of two sides.

    Deterministic methods differ by sums in float, whose error of some 2^-24 sqrt(n) changes a scale, and hardly the
    selection or the residual: far below 1e-4. Stochastic rounding adds f (1 - f) units^2, 1/6 in the mean with a
    variance of 1/30 for uniform f, so a sum over n values deviates by 1.1 / sqrt(n). The energy that random_k keeps of
    normal values deviates by sqrt(2 / k), that of power_sgd in a matrix of normal values by at most 1 / sqrt(rows).
    """
    both = 6 * math.sqrt(2)
    if "qsgd8" in method:
        return both * 1.1 / math.sqrt(n)
    if "random_k" in method:
        return both * math.sqrt(2 / (n / 100))
    if "power_sgd" in method:
        return both / math.sqrt(math.sqrt(n))
    return 1e-4


def compared(method, error):
    """The error; for methods that send little, 1 - error, or 16 - error after four steps with feedback."""
    if not ("random_k" in method or "power_sgd" in method):
        return error
    return (16 if method.startswith("ef(") else 1) - error


def disagreements(rows):
    """Messages for unequal errors. The tolerance of draws is derived for normal values only."""
    for (data, method, verb), ours, theirs in pairs(rows):
        if is_drawn(method) and data != "normal":
            continue
        here, there = compared(method, ours["error"]), compared(method, theirs["error"])
        if not abs(here - there) <= tolerance(method, ours["n"]) * abs(here):
            yield (
                f"{data}, {method}, {verb}: {theirs['peer']} ({theirs['computes']}) has an error of "
                f"{theirs['error']:.6g}, expected {ours['error']:.6g}"
            )


def cells(key, ours, theirs, copy):
    """A line of the table; `copy` is the time of our memcpy per element."""
    data, method, verb = key
    target = TARGETS.get(method) if verb == "encode" and (data, ours["n"]) == TARGETED else None
    times = theirs["ns"] / ours["ns"]
    met = "" if target is None else "yes" if times >= target else "**no**"
    mine, other = ([number(r["ns"] / copy), f"{r['bytes']:.3g}", number(r["error"])] for r in (ours, theirs))
    compared_with = [theirs["peer"], theirs["computes"]]
    return [code(method), verb, *mine, *compared_with, *other, number(times), str(target or ""), met]


def speeds(rows, data):
    """The speed of memcpy in each program."""
    said = []
    for row in rows.get((data, "memcpy", "copy"), {}).values():
        said.append(f"{8 / row['ns']:.1f} GB/s in {row['peer']}")
    return "memcpy: " + ", ".join(said) + "."


def tables(rows):
    titles = "method, operation, pith: x memcpy, B/el, error, peer, computes, x memcpy, B/el, error, times, target, met"
    lines = [f"{cpu()}, {datetime.date.today()}."]
    for data in dict.fromkeys(data for data, _, _ in rows):
        found = [(key, *both) for key, *both in pairs(rows) if key[0] == data and key[1] != "memcpy"]
        lines += ["", f"{found[0][1]['n']} values, {data}; {speeds(rows, data)}", "", *heading(titles.split(", "))]
        copy = next(r["ns"] for r in rows[data, "memcpy", "copy"].values() if is_ours(r))
        lines += [line(cells(*row, copy)) for row in found]
    return lines


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--update", metavar="DOCUMENT")
    parser.add_argument("--instructions", default="avx2", help="of the CPU: which table it is")
    arguments = parser.parse_args()
    rows = read(arguments.rows)
    unequal = list(disagreements(rows))
    if unequal:
        sys.exit("side_by_side.py: not the same work\n  " + "\n  ".join(unequal))
    made = tables(rows)
    if not arguments.update:
        return print("\n".join(made))
    with open(arguments.update, encoding="utf-8") as file:
        text = replace(file.read(), f"peers {arguments.instructions}", made)
    with open(arguments.update, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
