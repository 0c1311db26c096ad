#!/usr/bin/python3
"""benchmarks/network/overlap_peer.py — the step of overlap_bench by torch.distributed's DDP over gloo.

    overlap_peer.py COMPUTE_MS ELEMENTS...     a rank of an mpirun, started by overlap_bench

Prints "ready", or "skipped: REASON". Then runs a step for each line of standard input, and prints its seconds and the
CPU seconds of the process.
"""
import os
import sys
import time

try:
    import torch
    import torch.distributed
except ImportError:
    print("skipped: no torch.distributed (Debian: python3-torch)", flush=True)
    sys.exit()


def burn(seconds):
    """Computes for a given CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Layer(torch.autograd.Function):
    """A layer that takes time in both directions; its gradient is ready at the end of backward."""

    @staticmethod
    def forward(context, x, parameter, gradient, seconds):
        context.gradient, context.seconds = gradient, seconds
        burn(seconds)
        return x.clone()

    @staticmethod
    def backward(context, upstream):
        burn(2 * context.seconds)
        return upstream, context.gradient, None, None


class Model(torch.nn.Module):
    def __init__(self, sizes, seconds, rank):
        super().__init__()
        self.parameters_ = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(n)) for n in sizes])
        self.gradients = [torch.full((n,), rank + 1.0) for n in sizes]
        self.seconds = seconds

    def forward(self, x):
        for layer in zip(self.parameters_, self.gradients, self.seconds):
            x = Layer.apply(x, *layer)
        return x


def main():
    compute, sizes = float(sys.argv[1]) / 1e3, [int(n) for n in sys.argv[2:]]
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    if os.path.exists("/sys/class/net/eth0") and "MASTER_ADDR" in os.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29583")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    # The first tensor is an embedding: its transfer takes time, its computation does not. A third is forward.
    seconds = [0.0] + [compute / 3 * n / sum(sizes[1:]) for n in sizes[1:]]
    model = torch.nn.parallel.DistributedDataParallel(Model(sizes, seconds, rank))
    print("ready", flush=True)
    for _ in sys.stdin:
        model.zero_grad(set_to_none=False)
        begun, cpu = time.monotonic(), time.process_time()
        model(torch.ones(1, requires_grad=True)).sum().backward()
        print(time.monotonic() - begun, time.process_time() - cpu, flush=True)
    expected = (ranks + 1) / 2
    if any(p.grad[0] != expected or p.grad[-1] != expected for p in model.parameters()):
        sys.exit("overlap_peer.py: a gradient is not the mean")


main()
