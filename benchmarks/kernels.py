#!/usr/bin/env python3
"""benchmarks/kernels.py — counts of the kernels of kernels.cu, from a cubin and the log of ptxas -v.

    kernels.py kernels.cu CUBIN LOG                             prints the counts, one per line
    kernels.py kernels.cu CUBIN LOG --update docs/performance.md   writes their table

Instructions per element are static: those of a loop's body over the elements that a thread processes in it, which
follow from the accesses of the body. Of variants of a loop the most expensive counts. Fails if a kernel spills
registers, or has no such loop.
"""
import argparse
import re
import sys
from collections import Counter
from fractions import Fraction

import sass
from table import code, heading, line, replace

# 60 % of the instructions that an H100 issues in the time of copying a byte: 132 x 4 x 32 lanes at 1.75 GHz, 3.0 TB/s.
MOST_PER_BYTE = 0.6 * 132 * 4 * 32 * 1.75e9 / 3.0e12


class Loop:
    """A name, a number of elements, and the accesses for them; `all` stands for the accesses of the whole kernel."""

    def __init__(self, name, text):
        elements, accesses = text.split(": ")
        self.name, self.elements = name, int(elements)
        self.accesses = Counter()
        for times, access in re.findall(r"(?:(\d+) )?([A-Z]+\.\d+)", accesses):
            self.accesses[access] = int(times or 1)

    def instructions(self, body):
        """Instructions per element, or None if this is another loop."""
        found = sass.accesses(body)
        times = {Fraction(found[a], n) for a, n in self.accesses.items()}
        if found.keys() != self.accesses.keys() or len(times) > 1:
            return None
        return len(body) / float(times.pop() * self.elements)


class Kernel:
    def __init__(self, name, notes):
        self.name = name
        self.bytes = float(notes.pop("bytes"))
        self.by_hand = notes.pop("by_hand", "")
        self.loops = [Loop(*note) for note in notes.items()]

    def measure(self, instructions, said):
        self.size = len(instructions)
        self.registers = int(re.search(r"Used (\d+) registers", said)[1])
        self.shared = int((re.search(r"(\d+) bytes smem", said) or [0, 0])[1])
        bodies = list(sass.loops(instructions))
        for loop in self.loops:
            loop.accesses = loop.accesses or sass.accesses(instructions)
        bodies.append(instructions)
        self.counts = {loop.name: self.dearest(loop, bodies) for loop in self.loops}
        self.in_all = sum(self.counts.values())
        if re.search(r"[1-9]\d* bytes spill", said):
            sys.exit(f"kernels.py: {self.name} spills registers:\n{said}")

    def dearest(self, loop, bodies):
        found = [n for n in map(loop.instructions, bodies) if n is not None]
        if not found:
            seen = "\n".join(f"{len(body)} {dict(sass.accesses(body))}" for body in bodies)
            sys.exit(f"kernels.py: {self.name} has no loop {loop.name} of {dict(loop.accesses)}, but\n{seen}")
        return max(found)

    def lines(self):
        yield f"{self.registers} registers of {self.name}"
        if self.shared:
            yield f"{self.shared} bytes of shared memory of {self.name}"
        yield f"{self.size} instructions of {self.name}"
        for loop, count in self.counts.items():
            yield f"{count:.2f} per element in {loop} of {self.name}"

    def cells(self):
        most = self.bytes * MOST_PER_BYTE
        loops = ", ".join(f"{name} {count:.3g}" for name, count in self.counts.items())
        outside = sorted({a for loop in self.loops for a in loop.accesses if a.startswith(("LDG", "STG", "LD."))})
        total = f"{self.in_all:.3g}" if self.in_all <= most else f"**{self.in_all:.3g}**"
        sizes = [str(self.registers), str(self.shared)]
        return [code(self.name), *sizes, loops, total, f"{most:.0f}", self.by_hand, " ".join(outside)]


def noted(path):
    """The kernels of the source, in order."""
    with open(path, encoding="utf-8") as file:
        for notes, name in re.findall(r"((?://   \w+ .*\n)+)struct (\w+)", file.read()):
            yield Kernel(name, dict(re.findall(r"//   (\w+) +(.*)", notes)))


def named(text):
    """The name in kernels.cu of a kernel with this mangled name; None for kernels of the library."""
    found = re.search(r"_kernelI\d+(\w+?)EEv", text)
    return found and found[1]


def measured(arguments):
    with open(arguments.log, encoding="utf-8") as file:
        said = {named(text): text for text in file.read().split("Compiling entry function")[1:]}
    with open(arguments.cubin, "rb") as file:
        compiled = {named(name): instructions for name, instructions in sass.kernels(file.read())}
    for kernel in noted(arguments.source):
        kernel.measure(compiled[kernel.name], said[kernel.name])
        yield kernel


def table(kernels):
    titles = "kernel, registers, shared bytes, instructions per element, total, at most, by hand, global accesses"
    return [*heading(titles.split(", ")), *(line(kernel.cells()) for kernel in kernels)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "cubin", "log"):
        parser.add_argument(name)
    parser.add_argument("--update", metavar="DOCUMENT")
    arguments = parser.parse_args()
    kernels = list(measured(arguments))
    if not arguments.update:
        return print("\n".join(text for kernel in kernels for text in kernel.lines()))
    with open(arguments.update, encoding="utf-8") as file:
        text = file.read()
    with open(arguments.update, "w", encoding="utf-8") as file:
        file.write(replace(text, "kernels", table(kernels)))


if __name__ == "__main__":
    main()
