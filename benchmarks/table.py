#!/usr/bin/env python3
"""benchmarks/table.py — the JSON of codec_bench and overhead_bench as Markdown tables.

    codec_bench --benchmark_format=json > codecs.json
    table.py codecs.json overheads.json                          prints the tables
    table.py --update docs/performance.md codecs.json ...        puts each between <!-- NAME --> and <!-- end -->

A page has a table of codecs for each set of instructions, <!-- codecs avx2 --> and <!-- codecs avx512 -->.
"""
import argparse
import json
import re

OVERHEADS = {
    "call": ("compressing 8 elements, in copied elements", ["copied"]),
    "resnet50": ("161 tensors, x memcpy | over one tensor", ["x_memcpy", "x_one"]),
    "transformer": ("292 tensors, x memcpy | over one tensor", ["x_memcpy", "x_one"]),
    "small": (
        "325 tensors, x memcpy | over one tensor | difference per tensor, in copied elements",
        ["x_memcpy", "x_one", "copied_a_tensor"],
    ),
    "mean": ("`all_reduce_mean`, x memcpy | over compress and decompress", ["x_memcpy", "x_parts"]),
    "sharded": ("`reduce_scatter`, x memcpy | over its parts", ["x_memcpy", "x_parts"]),
    "memory": ("workspace, bytes per element | state | payload", ["workspace", "state", "payload"]),
}
# Speeds of loops written by hand for one operation, on a CPU with AVX-512, in % of memcpy.
TARGETS = {
    "encode": {
        "sign": 110,
        "scaled_sign": 110,
        "ef(scaled_sign)": 105,
        "qsgd<8>": 60,
        "ef(qsgd<8>)": 100,
        "nearest4": 105,
        "top_k(0.01)": 50,
        "ef(top_k(0.01))": 75,
        "cast<half>": 110,
        "cast<bfloat16>": 110,
    },
    "decode": {"sign": 115, "scaled_sign": 115, "qsgd<8>": 120, "top_k(0.01)": 104},
    "decode_sum4": {"scaled_sign": 80, "qsgd<8>": 107, "top_k(0.01)": 83},
}


def read_rows(path):
    """The machine and date, its instructions, and the rows by name, in order."""
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    context = result["context"]
    machine = f"{context['cpu']} with {context['instructions']}, {context['compiler']}, {context['date'][:10]}."
    rows = {}
    for row in result["benchmarks"]:
        rows[re.sub(r"/iterations:.*", "", row["name"])] = row
    return machine, context["instructions"], rows


def number(value):
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}"


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def heading(titles):
    return [line(titles), "|---" * len(titles) + "|"]


def operation_cells(row, target):
    of_memcpy = number(100 * row["of_memcpy"])
    return [
        f"{row['bytes_per_element']:.3g}",
        number(row["x_memcpy"]),
        f"{of_memcpy} ({target})" if target else of_memcpy,
        number(100 * row["of_bound"]),
    ]


def memory_line(group, rows):
    speeds = []
    for what in ("memcpy", "read", "write"):
        row = rows[f"memory/{what}/{group}"]
        speeds.append(f"{what} {row['bytes_per_element'] / row['ns_per_element']:.1f} GB/s")
    return f"{group}: " + ", ".join(speeds) + "."


def codec_tables(machine, rows):
    """One table per type, executor and size."""
    groups = {name.removeprefix("memory/memcpy/"): None for name in rows if name.startswith("memory/memcpy/")}
    lines = []
    for group in groups:
        titles = ["codec", "ratio", "error"]
        for verb in TARGETS:
            titles += [f"{verb}: B/el", "x memcpy", "% memcpy (target)", "% bound"]
        lines += [f"{machine} {memory_line(group, rows)}", "", *heading(titles)]
        for name, row in rows.items():
            if not name.endswith("/encode/" + group):
                continue
            codec = name.removesuffix("/encode/" + group)
            cells = []
            for verb, targets in TARGETS.items():
                operation = rows.get(f"{codec}/{verb}/{group}")
                cells += operation_cells(operation, targets.get(codec)) if operation else [""] * 4
            lines.append(line([code(codec), f"{row['ratio']:.1f}", number(row["error"]), *cells]))
        lines.append("")
    return lines[:-1]


def overhead_table(kind, machine, rows):
    titles, columns = OVERHEADS[kind]
    lines = [machine, "", *heading(["codec", *titles.split(" | ")])]
    for name, row in rows.items():
        if name.startswith(kind + "/"):
            lines.append(line([code(name.removeprefix(kind + "/")), *(number(row[c]) for c in columns)]))
    return lines


def tables(machine, instructions, rows):
    """Lines by the name of their table."""
    made = {}
    if any(name.startswith("memory/memcpy/") for name in rows):
        made[f"codecs {instructions}"] = codec_tables(machine, rows)
        return made
    for kind in OVERHEADS:
        if any(name.startswith(kind + "/") for name in rows):
            made[kind] = overhead_table(kind, machine, rows)
    return made


def replace(text, name, lines):
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"table.py: no <!-- {name} --> in the document")
    return pattern.sub(lambda found: found[1] + "\n".join(["", *lines, "", found[2]]), text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", metavar="DOCUMENT")
    parser.add_argument("json", nargs="+")
    arguments = parser.parse_args()
    made = {}
    for path in arguments.json:
        made.update(tables(*read_rows(path)))
    if not arguments.update:
        print("\n\n".join("\n".join(lines) for lines in made.values()))
        return
    with open(arguments.update, encoding="utf-8") as file:
        text = file.read()
    for name, lines in made.items():
        text = replace(text, name, lines)
    with open(arguments.update, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
