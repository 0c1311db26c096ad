"""Small models, their data, and trainings whose gradients are recorded."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pith_torch

README = [
    "identity",
    "cast<bfloat16>",
    "two_shot(qsgd<8>)",
    "qsgd<8>",
    "ef(power_sgd(4))",
    "ef(top_k(0.01)|qsgd<8>)",
    "ef(two_shot(top_k(0.01)|qsgd<8>,ef(top_k(0.01)|qsgd<8>)))",
    "ef(scaled_sign)",
    "bypass(ef(top_k(0.01)))",
]

# Codecs whose ranks send to single ranks, or to a part of the ranks.
RINGS = ["ring(qsgd<8>)", "g_top_k(0.01)"]
if torch.__version__ >= "2.1":
    RINGS.append("hierarchical(qsgd<8>,ef(top_k(0.01)),2)")


def layers(width=256, count=4, seed=1):
    """Linear layers of some 260 KB each, with biases."""
    torch.manual_seed(seed)
    stack = [layer for _ in range(count) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*stack[:-1])


def batch(model, step, rank, size=8):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(size, model[0].in_features, generator=generator)


def wrapped(model, codec, **options):
    """DDP with small buckets and a hook, and the state of the hook."""
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.3)
    state = pith_torch.State(None, codec, model.named_parameters(), **options)
    ddp.register_comm_hook(state, pith_torch.hook)
    return ddp, state


def train(ddp, model, steps, first=0, rate=0.1):
    """Plain SGD. Returns the mean gradients of each step."""
    means = []
    for step in range(first, first + steps):
        ddp.zero_grad(set_to_none=True)
        ddp(batch(model, step, dist.get_rank())).square().mean().backward()
        means.append([p.grad.clone() for p in model.parameters()])
        with torch.no_grad():
            for p in model.parameters():
                p -= rate * p.grad
    return means
