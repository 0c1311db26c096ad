#!/usr/bin/env python3
"""benchmarks/gpu_table.py — the results of benchmarks/gpu.sh as one JSON and as Markdown.

    gpu_table.py DIR PARTS TITLE     reads DIR/gpu_bench.json, DIR/gpu_tensors.md, DIR/gpu_peers.csv and PARTS, the
                                     lines "part|result";
                                     writes DIR/gpu.json, prints Markdown without the peers,
                                     whose times include calls of the host
"""
import csv
import json
import os
import sys

from table import code, heading, line, number

PEER = "peer,method,verb,n,seconds,rounds,bytes,error,computes".split(",")


def read_benchmarks(path):
    if not os.path.exists(path):
        return {}, []
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    return result["context"], result["benchmarks"]


def read_peers(path):
    """The rows, without the lines that the build printed."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [dict(zip(PEER, row)) for row in csv.reader(file) if len(row) == len(PEER) and row[3].isdigit()]


def parts_table(parts):
    return [*heading(["part", "result"]), *(line([part["part"], part["result"]]) for part in parts)]


def benchmark_table(rows):
    """One line per operation; a column per size has microseconds and, in parentheses, percents of a copy."""
    sizes = sorted({size_of(row) for row in rows})
    by_operation = {}
    for row in rows:
        by_operation.setdefault(row["name"].rsplit("/", 1)[0], {})[size_of(row)] = row
    titles = ["operation", "B/el", "ratio", "launches", *(f"2^{size}" for size in sizes)]
    return [*heading(titles), *(line(operation_cells(name, of, sizes)) for name, of in by_operation.items())]


def size_of(row):
    return int(row["name"].split("^")[1])


def operation_cells(name, of, sizes):
    """Bytes, ratio and launches are those of the largest size."""
    last = of[max(of)]
    times = [f"{number(of[s]['real_time'])} ({number(100 * of[s]['of_copy'])})" if s in of else "" for s in sizes]
    ratio = f"{last['ratio']:.1f}" if last["ratio"] else ""
    return [code(name), f"{last['bytes_per_element']:.3g}", ratio, str(last["launches"]), *times]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    folder, parts_path, title = sys.argv[1:]
    with open(parts_path, encoding="utf-8") as file:
        parts = [dict(zip(("part", "result"), text.rstrip("\n").split("|"))) for text in file]
    context, rows = read_benchmarks(folder + "/gpu_bench.json")
    peers = read_peers(folder + "/gpu_peers.csv")
    with open(folder + "/gpu.json", "w", encoding="utf-8") as file:
        json.dump({"run": title, "context": context, "parts": parts, "benchmarks": rows, "peers": peers}, file, indent=1)
    tables = [parts_table(parts)]
    if rows:
        tables.append(benchmark_table(rows))
    if os.path.exists(folder + "/gpu_tensors.md"):
        with open(folder + "/gpu_tensors.md", encoding="utf-8") as file:
            tables.append(file.read().splitlines())
    print("\n" + "\n\n".join("\n".join(lines) for lines in [["### " + title], *tables]))


if __name__ == "__main__":
    main()
