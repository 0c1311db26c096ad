#!/usr/bin/env python3
"""design.py — draws docs/figures/design.svg, the figure of docs/design.md, from the lists below:

    python3 docs/figures/design.py
"""
import pathlib
from html import escape

# The way of a gradient: a box has a title and its contents.
STEP = [
    ("framework", "backward writes", "gradients g"),
    ("feedback policy", "p = g + e", "e = p - D(C(p))"),
    ("codec", "stage | stage | ...", "p to payload, C(p)"),
    ("rounds", "produce, transfer,", "absorb"),
    ("communicator", "MPI, NCCL, threads,", "or yours"),
    ("codec", "decodes payloads", "or their sum, D"),
    ("framework", "the mean", "updates weights"),
]
# Folders of include/pith: a row includes only itself and rows below.
FOLDERS = [
    [("registry", "codecs from text"), ("control", "rates that change"), ("cost_model", "predicted and measured times")],
    [("exchange", "gradient_exchange, all_reduce_mean, reshard, ...")],
    [("collective", "codecs with their own rounds: two_shot, ring, hierarchical, ...")],
    [("quantize   sparsify   transform   lowrank   vector_quantize   feedback   comparison", "methods: one header each")],
    [("adaptor", "codecs around a codec"), ("wire", "frames"), ("comm", "communicators")],
    [("codec", "stages, chains, rounds, states"), ("exec", "seq, par, CUDA, Thrust")],
    [("core", "value views, sources and sinks, shapes, executors, teams, random numbers, sums")],
]
WIDTH, MARGIN, GAP = 1000, 20, 16


def text(x, y, words, size=13, weight="normal"):
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" text-anchor="middle">{escape(words)}</text>'


def box(x, y, width, height, fill):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="5" fill="{fill}" stroke="#555"/>'


def arrow(path):
    return f'<path d="{path}" fill="none" stroke="#555" stroke-width="1.5" marker-end="url(#end)"/>'


def step(top):
    width = (WIDTH - 2 * MARGIN - GAP * (len(STEP) - 1)) / len(STEP)
    for i, (title, *lines) in enumerate(STEP):
        x = MARGIN + i * (width + GAP)
        yield box(x, top, width, 66, "#e8eef7")
        yield text(x + width / 2, top + 20, title, weight="bold")
        for j, line in enumerate(lines):
            yield text(x + width / 2, top + 39 + 16 * j, line, 11)
        if i:
            yield arrow(f"M{x - GAP:g} {top + 33} H{x - 3:g}")
    feedback, codec = (MARGIN + i * (width + GAP) + width / 2 for i in (1, 2))
    yield arrow(f"M{codec:g} {top + 66} V{top + 86} H{feedback:g} V{top + 70}")
    yield text((feedback + codec) / 2, top + 100, "decoded payload", 11)


def folders(top):
    for row, folder in enumerate(FOLDERS):
        width = (WIDTH - 2 * MARGIN - GAP * (len(folder) - 1)) / len(folder)
        for i, (title, line) in enumerate(folder):
            x, y = MARGIN + i * (width + GAP), top + row * 52
            yield box(x, y, width, 42, "#f3efe4")
            yield text(x + width / 2, y + 18, title, weight="bold")
            yield text(x + width / 2, y + 34, line, 11)


def drawing():
    height = 195 + 52 * len(FOLDERS)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" fill="#222">',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(WIDTH / 2, 24, "One step, one tensor", 14, "bold"), *step(40),
        text(WIDTH / 2, 174, "Folders of include/pith: a row includes only itself and rows below", 14, "bold"), *folders(188),
        "</svg>", ""])


def main():
    pathlib.Path(__file__).with_suffix(".svg").write_text(drawing())


if __name__ == "__main__":
    main()
