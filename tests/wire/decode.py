#!/usr/bin/env python3
"""tests/wire/decode.py — decodes frames by docs/wire_format.md alone: Python 3 and its standard library.

    decode.py FRAME...     prints each header and value; where FRAME.out lies beside FRAME.frame, compares the bytes
"""
import math, pathlib, struct, sys

M64, KINDS = (1 << 64) - 1, {1: ("f", 4), 2: ("d", 8), 3: ("e", 2), 4: ("bf", 2), 5: ("e8", 1)}  # element kind: format, bytes


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


def philox(counter, key, rounds):
    c, k = list(counter), list(key)
    for _ in range(rounds):
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


def saturated(kind, value):
    """An element: a number beyond the largest half or bfloat16 becomes the largest, with its sign."""
    near = rounded(kind, value)
    if kind < 3 or math.isfinite(near) or not math.isfinite(value):
        return near
    return math.copysign(65504.0 if kind == 3 else float.fromhex("0x1.fep127"), value)


def read(kind, data, count):
    if kind == 5:
        return [math.nan if b == 255 else 2.0 ** (b - 127) for b in data[:count]]
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


def unwrapped(text, name):
    """Whether a text is name(inside), and its inside, or the text."""
    wraps = text.startswith(name + "(")
    return wraps, text[len(name) + 1 : -1] if wraps else text


def accum(kind):
    return 2 if kind == 2 else 1


# Codec and format: mantissa bits, bias, the largest code that is a number.
FLOATS = {("mxfp4", ""): (1, 1, 7), ("mxfp6", ""): (3, 1, 31), ("mxfp6", "e3m2"): (2, 3, 31),
          ("mxfp8", ""): (3, 7, 126), ("mxfp8", "e5m2"): (2, 15, 123)}


def small_float(code, mantissa, bias, largest):
    if code > largest:
        return math.nan
    exponent, fraction = code >> mantissa, code & (1 << mantissa) - 1
    whole = fraction if exponent == 0 else fraction + (1 << mantissa)
    return whole * 2.0 ** (max(exponent, 1) - bias - mantissa)


def points():
    """The 128 points of eight_bit, from 0 to 1."""
    ascending = [0.0]
    for power, h in ((float(f"1e{d - 6}"), 1 << d) for d in range(6)):
        ascending += [rounded(1, power * (1 + 3.5 * ((i + 0.5) / h))) for i in range(h)]
        ascending += [rounded(1, power * (4.5 + 5.5 * ((i + 0.5) / h))) for i in range(h)]
    return ascending + [1.0]


def normal_points():
    """The points of eden, for 1 bit, 2 bits and so on: the list of numbers in docs/wire_format.md."""
    page = (pathlib.Path(__file__).parents[2] / "docs/wire_format.md").read_text()
    _, _, rest = page.partition("counted from 1, and rounded to float:\n\n")
    return [rounded(1, float(number)) for number in rest.partition("\n\n")[0].split()]


POINTS = points()
NORMAL_POINTS = normal_points()


class Stage:
    """One stage: what it emits for n elements of a kind, the bytes of its side information, and its inverse."""

    def __init__(self, text, n, rows, kind, head, place):
        self.is_damped, text = unwrapped(text, "damped")
        self.is_trits, text = unwrapped(text, "trits")
        self.name, self.args = arguments(text)
        self.word = self.name.partition("<")[0]
        self.n, self.rows, self.kind, self.head, self.place = n, rows, kind, head, place
        self.out_n, self.out_rows, self.out_kind, self.bits, self.side = n, rows, kind, 0, 0
        self.scale_kind = 4 if self.word in ("block_int", "two_magnitudes") else 5 if self.word.startswith("mx") else accum(kind)
        if self.word == "cast":
            self.out_kind = {"cast<half>": 3, "cast<bfloat16>": 4}[self.name]
        elif self.name == "one_bit":
            axis = self.arg(0, "0")
            self.quantizer(1, n // rows if axis == "row" else rows if axis == "column" else int(axis), 2)
        elif self.word in ("sign", "summed_sign", "natural"):
            self.quantizer(self.angle(1), 0, 0)
        elif self.word == "stochastic_cast":
            self.quantizer(16, 0, 0)
        elif self.word in ("scaled_sign", "eight_bit"):
            self.quantizer(8 if self.name == "eight_bit" else 1, int(self.arg(0, 0)))
        elif self.word in ("block_int", "eden"):
            self.quantizer(self.angle(8), int(self.arg(0, 128 if self.word == "block_int" else 256)))
        elif self.name == "two_magnitudes":
            self.quantizer(2, int(self.arg(0, 64)), 2)
        elif self.name.startswith("mx"):
            self.quantizer({"mxfp4": 4, "mxfp6": 6}.get(self.name, 8), 32)
        elif self.name == "nvfp4":
            self.bits = 4
            self.side = KINDS[self.scale_kind][1] + -(-n // 16) if n else 0
        elif self.word in ("terngrad", "summed_terngrad", "qsgd"):
            self.quantizer(self.angle(2), int(self.arg(1, 128 if self.word == "qsgd" else 0)))
        elif self.name == "chunk_top_k":
            k, chunk = int(self.args[0]), int(self.arg(1, 4096))
            rest = n % chunk
            self.out_n = n // chunk * k + (max(1, (2 * rest * k + chunk) // (2 * chunk)) if rest else 0)
            self.out_rows = 1
            self.bitmap_of(self.out_n)
        elif self.name in ("top_k", "random_k", "random_blocks"):
            self.block = int(self.arg(1, 64)) if self.name == "random_blocks" else 1
            self.sparsifier(float(self.args[0]), self.block)
            self.side = (self.out_n * self.width + 7) // 8 if self.name == "top_k" else 0
            if self.has_bitmap():
                self.bitmap_of(self.out_n)
        elif self.name == "threshold":
            self.sparsifier(float(self.arg(1, 1)))
            self.room, self.dense = self.out_n, self.args[2:] == ["dense"]
            self.out_n, self.side = n if self.dense else self.room, 4 + (self.room * self.width + 7) // 8
        elif self.name in ("redsync", "sidco", "gaussian_k", "redsync_mean"):
            self.sparsifier(float(self.args[0]))
            self.room, self.dense = max(0, min(2 * self.out_n - 1, n)), False
            self.out_n, self.side = self.room, 4 + (self.room * self.width + 7) // 8
            if self.name == "redsync_mean":
                self.out_n, self.side, self.bits = self.side - 4, 8 + KINDS[accum(kind)][1], 8
        elif self.name == "hadamard":
            self.tile = int(self.arg(0, 256))
            self.out_n, self.out_rows = -(-n // self.tile) * self.tile, 1
        elif self.name in ("power_sgd", "one_sided_power_sgd"):
            self.rank = min(int(self.args[0]), max(rows, 1), max(n // rows, 1))
            self.exact = float(self.arg(1, 2)) * (self.rank * (rows + n // rows)) > n
            self.out_n = n if self.exact else self.rank * (rows + n // rows)
            self.out_rows, self.out_kind = 1, accum(kind)

    def arg(self, i, otherwise):
        return self.args[i] if i < len(self.args) else otherwise

    def angle(self, otherwise):
        return int(self.name.partition("<")[2].rstrip(">") or otherwise)

    def quantizer(self, bits, bucket, scales=1):
        self.bits, self.bucket, self.scales = bits, bucket or max(self.n, 1), scales
        self.side = -(-self.n // self.bucket) * scales * KINDS[self.scale_kind][1]

    def sparsifier(self, density, block=1):
        self.blocks = self.n // block
        self.drawn = max(1, int(density * self.blocks)) if self.blocks else 0
        self.out_n, self.out_rows = self.drawn * block + self.n % block, 1
        self.width = (self.n - 1).bit_length() if self.n > 1 else 0

    def values_bytes(self):
        if self.is_trits:
            return -(-self.n // 5)
        return (self.out_n * self.bits + 7) // 8 if self.bits else self.out_n * KINDS[self.out_kind][1]

    def values(self, data):
        """Elements, or symbols."""
        if self.is_trits:
            return [(0, 1, 3)[data[i // 5] // 3 ** (i % 5) % 3] for i in range(self.n)]
        return symbols(data, self.out_n, self.bits) if self.bits else read(self.out_kind, data, self.out_n)

    def decode(self, values, side):
        wide = accum(self.kind)
        x = [saturated(self.kind, v) for v in self.undo(values, side, wide)]
        if not self.is_damped:
            return x
        factor = rounded(wide, 1 / (1 + self.omega()))
        return [saturated(self.kind, rounded(wide, factor * v)) for v in x]

    def undo(self, values, side, wide):
        if self.name == "redsync_mean":
            count = min(int.from_bytes(side[4:8], "little"), self.room)
            return self.scatter(self.indices(bytes(values), count), read(wide, side[8:], 1) * count)
        if self.name == "nvfp4":
            tensor, size = read(wide, side, 1)[0] if self.n else 0.0, KINDS[wide][1]
            units = [small_float(side[size + i // 16], 3, 7, 126) * tensor for i in range(self.n)]
            return [rounded(wide, (1 - 2 * (s >> 3)) * small_float(s & 7, 1, 1, 7) * u) for s, u in zip(values, units)]
        if self.bits:
            scales, m = read(self.scale_kind, side, len(side) // KINDS[self.scale_kind][1]), self.scales
            groups = [i % (self.n // self.rows) if self.args == ["column"] else i // self.bucket for i in range(self.n)]
            return [rounded(wide, self.meaning(s, scales[m * g : m * g + m])) for s, g in zip(values, groups)]
        if self.has_bitmap():
            return self.scatter(self.marked(side, self.out_n), values)
        if self.name == "top_k":
            return self.scatter(self.indices(side, self.out_n), values)
        if self.word in ("random_k", "random_blocks"):
            kept = [i * self.block + b for i in self.draws() for b in range(self.block)]
            return self.scatter([*kept, *range(self.blocks * self.block, self.n)], values)
        if self.name in ("threshold", "redsync", "sidco", "gaussian_k"):
            count = int.from_bytes(side[:4], "little")
            if self.dense and count > self.room:
                return values
            return self.scatter(self.indices(side[4:], min(count, self.room)), values)
        if self.name == "hadamard":
            return self.unrotated(values, wide)
        if self.name in ("power_sgd", "one_sided_power_sgd") and not self.exact:
            return self.product(values, wide)
        return values

    def meaning(self, symbol, scales):
        """The element of a symbol among the scales of its bucket, row or column."""
        high, low = symbol >> self.bits - 1, symbol & (1 << self.bits - 1) - 1
        if self.name == "one_bit":
            return scales[symbol]
        if self.word == "natural":
            return (1 - 2 * high) * 2.0 ** (low - (109 if self.bits == 8 else 127)) if low else (0.0, math.nan)[high]
        if self.word == "stochastic_cast":
            return struct.unpack("<f", struct.pack("<I", symbol << 16))[0]
        if self.name == "two_magnitudes":
            return (1 - 2 * high) * scales[low]
        if self.name == "eight_bit":
            return (1 - 2 * high) * POINTS[low] * scales[0]
        if self.word == "eden":
            return (1 - 2 * high) * NORMAL_POINTS[(1 << self.bits - 1) - 1 + low] * scales[0]
        if self.name.startswith("mxfp"):
            form = FLOATS.get((self.name, self.arg(0, "")), FLOATS[self.name, ""])
            return (1 - 2 * high) * small_float(low, *form) * scales[0]
        if self.name == "mxint8":
            return (symbol - (high << 8)) / 64 * scales[0]
        if self.bits == 1:
            return (1 - 2 * high) * (scales[0] if scales else 1.0)
        return (symbol - (high << self.bits)) * scales[0]

    def scatter(self, indices, values):
        x = [0.0] * self.n
        for i, v in zip(indices, values):
            x[i] = v
        return x

    def indices(self, side, count):
        return [min(i, self.n - 1) for i in symbols(side, count, self.width)]

    def bitmap_of(self, count):
        """The width of the fields before the bitmap, and the bytes of both."""
        bits = lambda w: count * w + count + (self.n - 1 >> w) + 1
        self.low = min(range(32), key=lambda w: (bits(w), w))
        self.side = (bits(self.low) + 7) // 8 if count else 0

    def has_bitmap(self):
        if self.name == "top_k":
            return self.args[1:] == ([] if self.head["version"] else ["elias_fano"])
        return self.name == "chunk_top_k"

    def marked(self, side, count):
        bitmap = int.from_bytes(side, "little") >> count * self.low
        places = [b for b in range(bitmap.bit_length()) if bitmap >> b & 1][:count]
        highs = [b - j for j, b in enumerate(places)] + [self.n] * (count - len(places))
        return [min(h << self.low | l, self.n - 1) for h, l in zip(highs, symbols(side, count, self.low))]

    def draws(self):
        first = [j * self.blocks // max(self.drawn, 1) for j in range(self.drawn + 1)]
        words = [w for b in range(-(-self.drawn // 4)) for w in self.draw(b)]
        return [first[j] + (words[j] * (first[j + 1] - first[j]) >> 32) for j in range(self.drawn)]

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
        rank = self.head["rank"] if self.args[-1:] == ["own"] else 0xFFFF  # of what all ranks draw alike
        seed = self.head["seed"]
        return philox([low, high | tensor << 8, step & 0xFFFFFFFF, step >> 32 & 0xFF | rank << 8 | self.place << 27],
                      [seed & 0xFFFFFFFF, seed >> 32], 7 if self.head["version"] else 10)

    def product(self, values, wide):
        columns, r, x = self.n // self.rows, self.rank, []
        p, q = values[: self.rows * r], values[self.rows * r :]
        for i in range(self.n):
            total = 0.0
            for c in range(r):
                total += p[i // columns * r + c] * q[i % columns * r + c]
            x.append(rounded(wide, total))
        return x

    def omega(self):
        if self.word in ("random_k", "random_blocks"):
            return -(-self.blocks // self.drawn) - 1.0 if self.blocks else 0.0
        if self.word == "natural":
            return 1 / 8 + 2.0**-16
        if self.word == "stochastic_cast":
            return 2.0**-16
        if not self.bits or not self.n:
            return 0.0
        bucket = min(self.bucket, self.n)
        if self.word == "terngrad":
            return (math.sqrt(bucket) - 1) / 2 + 2.0**-16
        levels = int(self.arg(0, (1 << self.bits - 1) - 1)) / (1 + 2.0 / (1 << (16 if self.bits < 10 else 15)))
        return min(bucket / (4 * levels * levels), math.sqrt(bucket) / levels)


def decode(text, kind, n, rows, head, payload):
    """The n elements of a codec's payload."""
    parts, stages = split(text, "|"), []
    name, args = arguments(text) if len(parts) == 1 else ("", [])
    if name == "bypass" and n < int(args[1]):
        return read(kind, payload, n)
    if name == "rated" and args[-1] == "dense":
        return read(kind, payload, n)
    if name in ("bypass", "flat", "rated", "two_shot", "reduce_scatter", "ring", "hierarchical"):
        return decode(args[0], kind, n, rows, head, payload)
    if name in ("ok_top_k", "g_top_k"):
        packed = f"top_k({args[0]},packed_indices)" if head["version"] else f"top_k({args[0]})"
        return decode(packed, kind, n, rows, head, payload)
    if name == "checked":
        return decode(args[0], kind, n, rows, head, payload[16:])
    if name == "ef":
        return [saturated(kind, v) for v in decode(args[0], accum(kind), n, rows, head, payload)]
    for place, part in enumerate(parts):
        stages.append(Stage(part, n, rows, kind, head, place))
        n, rows, kind = stages[-1].out_n, stages[-1].out_rows, stages[-1].out_kind
    last = stages[-1]
    data = payload[: last.values_bytes()]
    values, at, sides = last.values(data), -(-len(data) // 8) * 8, []
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
    if head["magic"] != b"pith" or head["version"] > 1:
        raise ValueError("no frame of version 0 or 1")
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
