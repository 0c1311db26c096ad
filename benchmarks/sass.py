"""benchmarks/sass.py — the loops of the kernels of an sm_90 cubin, and their memory accesses.

An instruction has 16 bytes: the operation in the low 9 bits, a branch's distance in bits 16-23 and 34-81, the width of
an access in bits 73-75. No disassembler is needed. Each field was compared with nvdisasm.
"""
import struct
from collections import Counter

BRANCH = 0x147
ACCESSES = {0x180: "LD", 0x181: "LDG", 0x183: "LDL", 0x184: "LDS", 0x185: "ST", 0x186: "STG", 0x187: "STL", 0x188: "STS"}
WIDTHS = (8, 8, 16, 16, 32, 64, 128)


def sections(cubin):
    """The bytes of each section by its name."""
    at, size, count, names = *struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, at + i * size) for i in range(count)]
    for name, _, _, _, begin, length in headers:
        start = headers[names][4] + name
        yield cubin[start : cubin.index(b"\0", start)].decode(), cubin[begin : begin + length]


def kernels(cubin):
    """The instructions of each kernel by its mangled name."""
    for name, code in sections(cubin):
        if name.startswith(".text."):
            yield name.removeprefix(".text."), [int.from_bytes(code[i : i + 16], "little") for i in range(0, len(code), 16)]


def target(code, i):
    """The target of a branch, or None."""
    if code[i] & 0x1FF != BRANCH:
        return None
    high = code[i] >> 34 & (1 << 48) - 1
    high -= high >> 47 << 48
    return i + 1 + ((high << 8 | code[i] >> 16 & 0xFF) >> 2)


def access(instruction):
    """The memory access of an instruction, such as LDG.32, or None."""
    name = ACCESSES.get(instruction & 0x1FF)
    return name and f"{name}.{WIDTHS[instruction >> 73 & 7]}"


def accesses(code):
    return Counter(filter(None, map(access, code)))


def loops(code):
    """The instructions of each loop with memory accesses, without those of inner ones."""
    ends = ((target(code, i), i + 1) for i in range(len(code)))
    found = [(a, b) for a, b in ends if a is not None and a < b - 1 and accesses(code[a:b])]
    for a, b in found:
        inside = [(c, d) for c, d in found if (c, d) != (a, b) and a <= c and d <= b]
        yield [code[i] for i in range(a, b) if not any(c <= i < d for c, d in inside)]
