#!/usr/bin/env python3
"""tests/exchange/read_state.py — reads saved states by docs/state_format.md alone: Python 3 and its standard library.

    read_state.py STATE...     prints lines and fields, and fails where sizes or checksums are wrong
"""
import pathlib, struct, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "wire"))
from decode import checksum, read  # the checksum and the element kinds of docs/wire_format.md

KINDS = {"agreed", "mean", "share", "estimate", "part", "learned", "fixed"}
ELEMENTS = {"float": (4, 1), "double": (8, 2), "half": (2, 3), "bfloat16": (2, 4)}  # bytes, element kind
INTEGERS = {"uint32": (4, "I"), "uint64": (8, "Q"), "byte": (1, "B")}


def open_state(data):
    """The lines of a state, and the bytes after them."""
    magic, form, kept, words, states = struct.unpack_from("<7scQQQ", data)
    if (magic, form) != (b"pistate", b"2"):
        raise ValueError(f"no state of format 2: {magic + form!r}")
    if len(data) != 32 + words + states or checksum(data[16:]) != kept:
        raise ValueError("wrong length or checksum")
    return data[32 : 32 + words].decode().splitlines(), data[32 + words :]


def values(element, data, at, count):
    if element in ELEMENTS:
        size, kind = ELEMENTS[element]
        return size * count, read(kind, data[at : at + size * count], count)
    size, letter = INTEGERS[element]
    return size * count, struct.unpack_from(f"<{count}{letter}", data, at)


def show_fields(lines, data):
    """Each field with its values; returns where they end."""
    at = 0
    for line in lines:
        print(" ", line)
        if not line.startswith("field "):
            continue
        _, kind, element, count, _, places, _, granule = line.split(" ")
        if kind not in KINDS or int(places) < 1 or (int(granule) > 0) != (kind == "part"):
            raise ValueError(f"no such field: {line}")
        size, numbers = values(element, data, at, int(count))
        print("   ", *numbers)
        at += size
    return at


def show(data):
    lines, states = open_state(data)
    version, kind = lines[:2]
    if not version.startswith("pith "):
        raise ValueError(f"no version: {version}")
    if kind == "adaptive_exchange":
        step, size, rate = struct.unpack_from("<QQd", states)
        print(" ", *lines, f"step {step}, {size} bytes of the controller, learning rate {rate}", sep="\n  ")
        return show(states[24 + size :])
    if kind in ("gradient_exchange", "compressor") and show_fields(lines, states) != len(states):
        raise ValueError("fields and states differ in length")
    if kind == "gradiveq":
        print(" ", *lines, f"{len(states)} bytes", sep="\n  ")


def main(paths):
    for path in map(pathlib.Path, paths):
        print(path.name)
        show(path.read_bytes())
    if not paths:
        sys.exit("no states")


if __name__ == "__main__":
    main(sys.argv[1:])
