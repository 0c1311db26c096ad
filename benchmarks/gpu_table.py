#!/usr/bin/env python3
"""benchmarks/gpu_table.py — the results of benchmarks/gpu.sh as one JSON and as Markdown.

    gpu_table.py DIR PARTS TITLE     reads DIR/gpu_bench.json, DIR/gpu_peers.csv and PARTS, the lines "part|result";
                                     writes DIR/gpu.json, prints Markdown
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


def benchmark_cells(row):
    gb = row["bytes_per_element"] * 2.0 ** int(row["name"].split("^")[1]) / row["real_time"] / 1e3
    of_codec = [f"{row['ratio']:.1f}" if row["ratio"] else "", number(row["error"]) if row["error"] else ""]
    times = [number(row["real_time"]), number(row["q10"])]
    rates = [f"{row['bytes_per_element']:.3g}", number(gb), number(100 * row["of_copy"])]
    return [code(row["name"]), *times, *rates, str(row["launches"]), *of_codec]


def benchmark_table(rows):
    titles = "operation, us, us q10, B/el, GB/s, % copy, launches, ratio, error"
    return [*heading(titles.split(", ")), *(line(benchmark_cells(row)) for row in rows)]


def peer_table(rows):
    copies = {row["n"]: float(row["seconds"]) for row in rows if row["method"] == "memcpy"}
    lines = heading(["peer", "operation", "us", "x copy", "error", "computes"])
    for row in rows:
        seconds = float(row["seconds"])
        x_copy = number(seconds / copies[row["n"]]) if row["n"] in copies else ""
        what = code(f"{row['verb']} {row['method']}/{row['n']}")
        lines.append(line([row["peer"], what, number(seconds * 1e6), x_copy, row["error"], row["computes"]]))
    return lines


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
    if peers:
        tables.append(peer_table(peers))
    print("\n" + "\n\n".join("\n".join(lines) for lines in [["### " + title], *tables]))


if __name__ == "__main__":
    main()
