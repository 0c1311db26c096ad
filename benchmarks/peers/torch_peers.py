#!/usr/bin/env python3
"""benchmarks/peers/torch_peers.py — the methods written with torch's operations, on one thread.

    torch_peers.py FILE [--rounds N] [--device cuda]     prints the rows of benchmarks/peers/run.sh
"""
import numpy
import torch

from contest import Contest, FedBack, Method, read_arguments

DENSITY = 0.01
BUCKET = 128
LEVELS = 127 - 2**-14  # Rounding then yields no level larger than 127.
RANK = 4


def pack(bits):
    """Packs eight booleans per byte: by numpy on the CPU, where it is fastest, else as a sum of powers of two."""
    if bits.device.type == "cpu":
        return torch.from_numpy(numpy.packbits(bits.numpy(), bitorder="little"))
    powers = 2 ** torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (bits.view(-1, 8) * powers).sum(1, dtype=torch.uint8)


def unpack(packed):
    if packed.device.type == "cpu":
        return torch.from_numpy(numpy.unpackbits(packed.numpy(), bitorder="little")).bool()
    powers = 2 ** torch.arange(8, dtype=torch.uint8, device=packed.device)
    return (packed.view(-1, 1) & powers).view(-1).bool()


class OneBit(Method):
    computes = "mean magnitude; signs packed by numpy"

    def encode(self, x, _):
        return x.abs().mean(), pack(x < 0)

    def decode(self, payload):
        scale, signs = payload
        return torch.where(unpack(signs), -scale, scale)

    def settle(self, p, payload):
        p.sub_(torch.where(p < 0, -payload[0], payload[0]))


class OneBitBytes(OneBit):
    computes = "mean magnitude; one byte per sign"

    def encode(self, x, _):
        return x.abs().mean(), x < 0

    def decode(self, payload):
        scale, signs = payload
        return torch.where(signs, -scale, scale)


class Qsgd8(Method):
    computes = "buckets of 128; l2; 127 levels; torch's generator"

    def encode(self, x, _):
        buckets = x.view(-1, BUCKET)
        unit = torch.linalg.vector_norm(buckets, dim=1, keepdim=True).div_(LEVELS).clamp_min_(1e-30)
        return unit, (buckets / unit).add_(torch.rand_like(buckets)).floor_().to(torch.int8)

    def decode(self, payload):
        unit, symbols = payload
        return (symbols * unit).view(-1)


class Int8(Method):
    computes = "quantize_per_tensor; the largest / 127"

    def encode(self, x, _):
        least, most = torch.aminmax(x)
        unit = torch.maximum(-least, most) / LEVELS
        return (torch.quantize_per_tensor(x, unit, torch.zeros_like(unit, dtype=torch.int32), torch.qint8),)

    def decode(self, payload):
        return payload[0].dequantize()

    def size(self, payload):
        return super().size(payload) + 4


class TopK(Method):
    computes = "topk unsorted; 4-byte indices"

    def encode(self, x, _):
        self.n = x.numel()
        indices = self.largest(x.abs(), max(1, int(self.n * DENSITY)))
        return x[indices], indices.int()

    def largest(self, magnitudes, k):
        return torch.topk(magnitudes, k, sorted=False).indices

    def decode(self, payload):
        values, indices = payload
        return torch.zeros(self.n, device=values.device).scatter_(0, indices.long(), values)

    def settle(self, p, payload):
        p.index_fill_(0, payload[1].long(), 0)


class TopKByValue(TopK):
    computes = "kthvalue and nonzero; 4-byte indices"

    def largest(self, magnitudes, k):
        bound = magnitudes.kthvalue(magnitudes.numel() - k + 1).values
        return (magnitudes >= bound).nonzero().view(-1)[:k]


class RandomK(Method):
    computes = "1 % from strata; drawn again to decode"

    def indices(self, n, device):
        k = max(1, int(n * DENSITY))
        generator = torch.Generator(device).manual_seed(1)
        drawn = torch.rand(k, dtype=torch.float64, generator=generator, device=device)
        return (drawn.add_(torch.arange(k, device=device)) * (n / k)).long()

    def encode(self, x, _):
        self.n = x.numel()
        return (x[self.indices(self.n, x.device)],)

    def decode(self, payload):
        (values,) = payload
        indices = self.indices(self.n, values.device)
        return torch.zeros(self.n, device=values.device).scatter_(0, indices, values)


class Cast(Method):
    computes = "cast"

    def __init__(self, to):
        self.to = to

    def encode(self, x, _):
        return (x.to(self.to),)

    def decode(self, payload):
        return payload[0].float()


class PowerSgd(Method):
    computes = "rank 4; mm and qr and mm in float"

    def encode(self, x, _):
        matrix = x.view(1 << (x.numel().bit_length() - 1) // 2, -1)
        q = torch.randn(matrix.shape[1], RANK, device=x.device)
        p = torch.linalg.qr(matrix @ q).Q
        return p, matrix.t() @ p

    def decode(self, payload):
        p, q = payload
        return (p @ q.t()).view(-1)

    def settle(self, p, payload):
        left, right = payload
        p.view(left.shape[0], -1).addmm_(left, right.t(), alpha=-1)


def main():
    arguments = read_arguments(__doc__)
    contest = Contest(f"torch {torch.__version__.split('+')[0]}", arguments)

    def add(name, method, feeds_back=True):
        contest.add(name, method)
        if feeds_back:
            contest.add(f"ef({name})", FedBack(method, contest.x[0], contest.sets))

    add("one_bit", OneBit())
    add("one_bit", OneBitBytes())
    add("qsgd8", Qsgd8())
    add("int8", Int8(), feeds_back=False)
    add("top_k", TopK())
    add("top_k", TopKByValue())
    add("random_k", RandomK(), feeds_back=False)
    add("half", Cast(torch.float16), feeds_back=False)
    add("bfloat16", Cast(torch.bfloat16), feeds_back=False)
    add("power_sgd", PowerSgd())
    contest.print()


if __name__ == "__main__":
    main()
