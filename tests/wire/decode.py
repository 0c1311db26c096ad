#!/usr/bin/env python3
"""tests/wire/decode.py — decodes frames by docs/wire_format.md alone: Python 3 and its standard library.

    decode.py FRAME...     prints each header and value; where FRAME.out lies beside FRAME.frame, compares the bytes
"""
import math, pathlib, re, struct, sys

M64, KINDS = (1 << 64) - 1, {1: ("f", 4), 2: ("d", 8), 3: ("e", 2), 4: ("bf", 2)}  # element kind: format, bytes


def stir(word):
    word = word * 0x9E3779B97F4A7C15 & M64
    return (word ^ word >> 32) * 0xBB67AE8584CAA73B & M64


def checksum(data):
    total = 0
    for index, first in enumerate(range(0, len(data), 16384)):
        block = data[first : first + 16384]
        lanes = [stir(i + 1) for i in range(8)]
        words = struct.unpack(f"<{-(-len(block) // 64) * 8}Q", block + bytes(-len(block) % 64))
        for i, word in enumerate(words):
            lanes[i % 8] = stir(lanes[i % 8] ^ word)
        joined = stir(len(block))
        for i, lane in enumerate(lanes):
            joined = stir((joined ^ lane) + i & M64)
        total += stir((joined ^ joined >> 32) + index & M64)
    return total & M64


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def rounded(kind, value):
    """The nearest number of a kind, as a Python float."""
    if kind == 2 or value != value:
        return value
    if kind == 4:
        bits = struct.unpack("<I", struct.pack("<f", rounded(1, value)))[0]
        return struct.unpack("<f", struct.pack("<I", bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000))[0]
    try:
        return struct.unpack("<" + KINDS[kind][0], struct.pack("<" + KINDS[kind][0], value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def read(kind, data, count):
    if kind == 4:
        return [struct.unpack("<f", b"\0\0" + data[2 * i : 2 * i + 2])[0] for i in range(count)]
    return list(struct.unpack_from(f"<{count}{KINDS[kind][0]}", data))


def write(kind, values):
    if kind == 4:
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}{KINDS[kind][0]}", *values)


def symbols(data, count, bits):
    """`count` fields of `bits` bits, from the least significant bit on."""
    whole = int.from_bytes(data, "little")
    return [whole >> bits * i & (1 << bits) - 1 for i in range(count)]


def split(text, mark):
    """The parts of a text between marks that stand in no parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        parts = parts + [""] if c == mark and depth == 0 else parts[:-1] + [parts[-1] + c]
    return parts


def arguments(text):
    name, _, inside = text.partition("(")
    return name, split(inside[:-1], ",") if inside else []


def accum(kind):
    return 2 if kind == 2 else 1


class Stage:
    """One stage: what it emits for n elements of a kind, the bytes of its side record, and its inverse."""

    def __init__(self, text, n, rows, kind, head, place):
        self.name, self.args = arguments(text)
        self.n, self.rows, self.kind, self.head, self.place = n, rows, kind, head, place
        self.out_n, self.out_rows, self.out_kind, self.bits, self.side = n, rows, kind, 0, 0
        if self.name == "damped":
            self.inner = Stage(self.args[0], n, rows, kind, head, place)
            for field in ("out_n", "out_rows", "out_kind", "bits", "side"):
                setattr(self, field, getattr(self.inner, field))
        elif self.name.startswith("cast"):
            self.out_kind = {"cast<half>": 3, "cast<bfloat16>": 4}[self.name]
        elif self.name == "scaled_sign":
            self.quantizer(1, int(self.args[0]) if self.args else 0)
        elif self.name.startswith("qsgd"):
            self.quantizer(int(re.findall(r"\d+", self.name)[0]), int(self.args[1]) if self.args else 128)
            self.levels = int(self.args[0]) if self.args else (1 << self.bits - 1) - 1
        elif self.name in ("top_k", "random_k"):
            self.sparsifier(float(self.args[0]))
            self.side = (self.out_n * self.width + 7) // 8 if self.name == "top_k" else 0
        elif self.name == "threshold":
            self.sparsifier(float(self.args[1]) if len(self.args) > 1 else 1)
            self.room, self.dense = self.out_n, self.args[2:] == ["dense"]
            self.out_n, self.side = n if self.dense else self.room, 4 + (self.room * self.width + 7) // 8
        elif self.name == "hadamard":
            self.tile = int(self.args[0]) if self.args else 256
            self.out_n, self.out_rows = -(-n // self.tile) * self.tile, 1
        elif self.name in ("power_sgd", "one_sided_power_sgd"):
            self.rank = min(int(self.args[0]), max(rows, 1), max(n // rows, 1))
            self.exact = float((self.args + ["2"])[1]) * self.rank * (rows + n // rows) > n
            self.out_n = n if self.exact else self.rank * (rows + n // rows)
            self.out_rows, self.out_kind = 1, accum(kind)

    def quantizer(self, bits, bucket):
        self.bits, self.bucket = bits, bucket or max(self.n, 1)
        self.side = -(-self.n // self.bucket) * KINDS[accum(self.kind)][1]

    def sparsifier(self, density):
        self.out_n, self.out_rows = max(1, int(density * self.n)) if self.n else 0, 1
        self.width = (self.n - 1).bit_length() if self.n > 1 else 0

    def values_bytes(self):
        return (self.out_n * self.bits + 7) // 8 if self.bits else self.out_n * KINDS[self.out_kind][1]

    def decode(self, values, side):
        wide = accum(self.kind)
        if self.name == "damped":
            factor = rounded(wide, 1 / (1 + self.inner.omega()))
            return [rounded(self.kind, rounded(wide, factor * v)) for v in self.inner.decode(values, side)]
        if self.bits:
            scales = read(wide, side, len(side) // KINDS[wide][1])
            levels = [1 - 2 * s if self.bits == 1 else s - (s >> self.bits - 1 << self.bits) for s in values]
            return [rounded(self.kind, rounded(wide, v * scales[i // self.bucket])) for i, v in enumerate(levels)]
        if self.name == "top_k":
            return self.scatter(self.indices(side, self.out_n), values)
        if self.name == "random_k":
            return self.scatter(self.drawn(), values)
        if self.name == "threshold":
            count = int.from_bytes(side[:4], "little")
            if self.dense and count > self.room:
                return values
            return self.scatter(self.indices(side[4:], min(count, self.room)), values)
        if self.name == "hadamard":
            return [rounded(self.kind, v) for v in self.unrotated(values, wide)]
        if self.name in ("power_sgd", "one_sided_power_sgd") and not self.exact:
            return self.product(values, wide)
        return [rounded(self.kind, v) for v in values]

    def scatter(self, indices, values):
        x = [0.0] * self.n
        for i, v in zip(indices, values):
            x[i] = v
        return x

    def indices(self, side, count):
        return [min(i, self.n - 1) for i in symbols(side, count, self.width)]

    def drawn(self):
        first = [j * self.n // self.out_n for j in range(self.out_n + 1)]
        words = [w for b in range(-(-self.out_n // 4)) for w in self.draw(b)]
        return [first[j] + (words[j] * (first[j + 1] - first[j]) >> 32) for j in range(self.out_n)]

    def unrotated(self, values, wide):
        x, half = [rounded(wide, v / math.sqrt(self.tile)) for v in values], 1
        while half < self.tile:
            for i in range(len(x)):
                if i // half % 2 == 0:
                    x[i], x[i + half] = rounded(wide, x[i] + x[i + half]), rounded(wide, x[i] - x[i + half])
            half *= 2
        words = [w for b in range(-(-self.n // 128)) for w in self.draw(b)]
        return [-v if words[i // 32] >> i % 32 & 1 else v for i, v in enumerate(x[: self.n])]

    def draw(self, block):
        low, high, step, tensor = block & 0xFFFFFFFF, block >> 32 & 0xFF, self.head["step"], self.head["tensor"]
        place = 0xFFFF << 8 | self.place << 27  # all ranks draw alike: the rank is ffff
        seed = self.head["seed"]
        return philox([low, high | tensor << 8, step & 0xFFFFFFFF, step >> 32 & 0xFF | place],
                      [seed & 0xFFFFFFFF, seed >> 32])

    def product(self, values, wide):
        columns, r, x = self.n // self.rows, self.rank, []
        p, q = values[: self.rows * r], values[self.rows * r :]
        for i in range(self.n):
            total = 0.0
            for c in range(r):
                total = rounded(wide, total + rounded(wide, p[i // columns * r + c] * q[i % columns * r + c]))
            x.append(rounded(self.kind, total))
        return x

    def omega(self):
        if self.name in ("identity", "hadamard"):
            return 0.0
        if self.name == "random_k":
            return -(-self.n // self.out_n) - 1.0 if self.n else 0.0
        levels = self.levels / (1 + 2.0 / (1 << (16 if self.bits < 10 else 15)))
        bucket = min(self.bucket, self.n)
        return min(bucket / (4 * levels * levels), math.sqrt(bucket) / levels)


def decode(text, kind, n, rows, head, payload):
    """The n elements of a codec's payload."""
    name, args = arguments(text)
    if name == "bypass" and len(split(text, "|")) == 1:
        return read(kind, payload, n) if n < int(args[1]) else decode(args[0], kind, n, rows, head, payload)
    if name == "checked":
        return decode(args[0], kind, n, rows, head, payload[16:])
    if name == "ef" and len(split(text, "|")) == 1:
        return [rounded(kind, v) for v in decode(args[0], accum(kind), n, rows, head, payload)]
    stages = []
    for place, part in enumerate(split(text, "|")):
        stages.append(Stage(part, n, rows, kind, head, place))
        n, rows, kind = stages[-1].out_n, stages[-1].out_rows, stages[-1].out_kind
    last = stages[-1]
    data = payload[: last.values_bytes()]
    values = symbols(data, last.out_n, last.bits) if last.bits else read(last.out_kind, data, last.out_n)
    at, sides = -(-len(data) // 8) * 8, []
    for stage in stages:
        sides.append(payload[at : at + stage.side])
        at += -(-stage.side // 8) * 8
    for stage, side in reversed(list(zip(stages, sides))):
        values = stage.decode(values, side)
    return values


def read_frame(data):
    """The header of a frame, as a dictionary, and its payload; ValueError if it is not whole."""
    names = "magic version element r name_bytes tensor n rows step seed rank r r r payload_bytes payload_checksum"
    head = dict(zip(names.split(), struct.unpack_from("<4sHBBIIQQQQHHHHQQ", data)))
    if head["magic"] != b"pith" or head["version"] != 0:
        raise ValueError("no frame of version 0")
    size = 72 + -(-head["name_bytes"] // 8) * 8
    head["codec"] = data[72 : 72 + head["name_bytes"]].decode()
    payload = data[size + 8 :]
    if checksum(data[:size]) != struct.unpack_from("<Q", data, size)[0]:
        raise ValueError("wrong checksum of the header")
    if len(payload) != head["payload_bytes"] or checksum(payload) != head["payload_checksum"]:
        raise ValueError("wrong length or checksum of the payload")
    return head, payload


def main(paths):
    wrong = 0
    for path in map(pathlib.Path, paths):
        head, payload = read_frame(path.read_bytes())
        values = decode(head["codec"], head["element"], head["n"], head["rows"], head, payload)
        said = f"{path.name}: {head['codec']}, kind {head['element']}, n {head['n']}, step {head['step']}"
        expected = path.with_suffix(".out")
        if not expected.exists():
            print(said, *values)
        elif write(head["element"], values) == expected.read_bytes():
            print(said, "ok")
        else:
            wrong += 1
            print(said, "DIFFERS from", expected.name, *values)
    if not paths or wrong:
        sys.exit(f"{wrong} of {len(paths)} frames decode to other bytes than expected")


if __name__ == "__main__":
    main(sys.argv[1:])
