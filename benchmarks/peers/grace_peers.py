#!/usr/bin/env python3
"""benchmarks/peers/grace_peers.py — GRACE's torch compressors, unmodified, from a checkout of GRACE.

    grace_peers.py FILE --grace DIR [--rounds N] [--device cuda]     prints the rows of benchmarks/peers/run.sh
"""
import os
import sys
import tempfile

import torch

from contest import STEPS_OF_FEEDBACK, Contest, Method, bytes_of, read_arguments

DENSITY = 0.01
RANK = 4


class Theirs(Method):
    """A compressor. Compressors of matrices get the values as a matrix."""

    def __init__(self, compressor, computes, as_matrix=False):
        self.compressor, self.computes, self.as_matrix = compressor, computes, as_matrix

    def shaped(self, x):
        return x.view(1 << (x.numel().bit_length() - 1) // 2, -1) if self.as_matrix else x

    def encode(self, x, owner):
        return self.compressor.compress(self.shaped(x), str(owner))

    def decode(self, payload):
        return self.compressor.decompress(*payload)

    def size(self, payload):
        """The payload of PowerSGD is in its context, because compress exchanges the factors."""
        sent, context = payload
        return bytes_of(sent) if len(sent) > 0 else bytes_of(t for t in context if isinstance(t, torch.Tensor))


class TheirsFedBack(Theirs):
    """A compressor with GRACE's residual memory."""

    steps = STEPS_OF_FEEDBACK

    def __init__(self, method, memory):
        super().__init__(method.compressor, f"residual memory; {method.computes}", method.as_matrix)
        self.memory = memory

    def encode(self, x, owner):
        p = self.memory.compensate(self.shaped(x), str(owner))
        payload = self.compressor.compress(p, str(owner))
        self.memory.update(p, str(owner), self.compressor, *payload)
        return payload


def join_group_of_one():
    """The group of torch.distributed in which PowerSGD sums its factors."""
    if not torch.distributed.is_available():
        return False
    store = tempfile.NamedTemporaryFile(delete=False)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
    return True


def add_methods(contest):
    from grace_dl.dist.compressor.efsignsgd import EFSignSGDCompressor
    from grace_dl.dist.compressor.fp16 import FP16Compressor
    from grace_dl.dist.compressor.powersgd import PowerSGDCompressor
    from grace_dl.dist.compressor.qsgd import QSGDCompressor
    from grace_dl.dist.compressor.randomk import RandomKCompressor
    from grace_dl.dist.compressor.topk import TopKCompressor
    from grace_dl.dist.memory.residual import ResidualMemory
    from grace_dl.torch.compressor.onebit import OneBitCompressor

    def add(name, method, feeds_back=True):
        contest.add(name, method)
        if feeds_back:
            contest.add(f"ef({name})", TheirsFedBack(method, ResidualMemory()))

    add("one_bit", Theirs(EFSignSGDCompressor(lr=1), "efsignsgd: mean magnitude; one byte per sign"))
    add("one_bit_means", Theirs(OneBitCompressor(), "onebit: two means; one byte per sign"), feeds_back=False)
    add("qsgd8", Theirs(QSGDCompressor(127, 128), "qsgd: buckets of 128; l2; 127 levels"))
    add("top_k", Theirs(TopKCompressor(DENSITY), "topk: 4-byte indices"))
    add("random_k", Theirs(RandomKCompressor(DENSITY), "randomk: 1 % with repeats; no indices"), feeds_back=False)
    add("half", Theirs(FP16Compressor(), "fp16: cast"), feeds_back=False)
    if join_group_of_one():
        add("power_sgd", Theirs(PowerSGDCompressor(RANK), "powersgd: rank 4; a group of one", as_matrix=True))


def main():
    arguments = read_arguments(__doc__, lambda parser: parser.add_argument("--grace", metavar="DIR", required=True))
    if not os.path.isdir(os.path.join(arguments.grace, "grace_dl")):
        sys.exit(f"{arguments.grace}: no checkout of GRACE, which has a folder grace_dl")
    sys.path.insert(0, arguments.grace)
    contest = Contest(f"GRACE on torch {torch.__version__.split('+')[0]}", arguments)
    add_methods(contest)
    contest.print()


if __name__ == "__main__":
    main()
