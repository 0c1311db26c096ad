"""Trains a character-level GPT on Tiny Shakespeare, data-parallel, with compressed gradients. Writes losses as CSV.

    python3 train_gpt.py --local-ranks 4 --codec 'ef(power_sgd(4))'          # four ranks inside this process
    torchrun --nproc-per-node 4 train_gpt.py --codec 'two_shot(qsgd<8>)'     # one process per rank, DDP and gloo
    torchrun --nproc-per-node 4 train_gpt.py --hook bf16                     # with a hook of torch
    python3 train_gpt.py --model 10.6M --local-ranks 4 --device cuda         # four ranks on one GPU

The models, optimizer and schedule are those that nanoGPT publishes for this text. The ranks divide each batch, so that
dense training does not depend on the number of ranks but for rounding. Columns of the CSV: the step, the seconds of
training, the training loss on rank 0, and, every few steps, the validation loss of 20 random batches, as nanoGPT
estimates it, and of the whole validation split.
"""

import argparse
import contextlib
import csv
import dataclasses
import gzip
import math
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn import functional

import pith_torch

TEXT = pathlib.Path(__file__).parents[1] / "data" / "shakespeare.txt.gz"


@dataclasses.dataclass
class Setting:
    layers: int
    heads: int
    width: int
    context: int
    batch: int
    dropout: float
    steps: int


SETTINGS = {
    "0.8M": Setting(layers=4, heads=4, width=128, context=64, batch=12, dropout=0.0, steps=2000),
    "10.6M": Setting(layers=6, heads=6, width=384, context=256, batch=64, dropout=0.2, steps=5000),
}


# The model.


class LayerNorm(nn.Module):
    """Layer normalisation without a bias, which torch 1.13 lacks."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight)


def attention(q, k, v, dropout):
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf)
    return functional.dropout(weights.softmax(-1), dropout) @ v


class Block(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.heads, self.dropout = of.heads, of.dropout
        self.attention_norm, self.mlp_norm = LayerNorm(of.width), LayerNorm(of.width)
        self.qkv = nn.Linear(of.width, 3 * of.width, bias=False)
        self.attention_out = nn.Linear(of.width, of.width, bias=False)
        self.mlp_in = nn.Linear(of.width, 4 * of.width, bias=False)
        self.mlp_out = nn.Linear(4 * of.width, of.width, bias=False)

    def forward(self, x):
        x = x + self.dropped(self.attention_out(self.attend(self.attention_norm(x))))
        return x + self.dropped(self.mlp_out(functional.gelu(self.mlp_in(self.mlp_norm(x)))))

    def attend(self, x):
        batch, context, width = x.shape
        heads = (y.view(batch, context, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(width, dim=2))
        y = attention(*heads, self.dropout if self.training else 0.0)
        return y.transpose(1, 2).reshape(x.shape)

    def dropped(self, x):
        return functional.dropout(x, self.dropout, self.training)


class GPT(nn.Module):
    def __init__(self, of, characters):
        super().__init__()
        self.dropout = of.dropout
        self.tokens = nn.Embedding(characters, of.width)  # also the output layer
        self.positions = nn.Embedding(of.context, of.width)
        self.blocks = nn.ModuleList(Block(of) for _ in range(of.layers))
        self.norm = LayerNorm(of.width)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * of.layers) if "_out." in name else 0.02)

    def forward(self, x, y):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        h = functional.dropout(h, self.dropout, self.training)
        for block in self.blocks:
            h = block(h)
        logits = self.norm(h) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


# The data.


class Text:
    """The first 90 % of a text for training, the rest for validation. Tokens are characters."""

    def __init__(self, path, context, seed, device="cpu"):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            text = file.read()
        characters = sorted(set(text))
        number = {c: i for i, c in enumerate(characters)}
        tokens = torch.tensor([number[c] for c in text])
        first = int(0.9 * len(tokens))
        self.characters, self.context, self.device = len(characters), context, device
        self.splits = {"training": tokens[:first], "validation": tokens[first:]}
        self.draws = {name: torch.Generator().manual_seed(seed) for name in self.splits}

    def batch(self, split, size):
        """Random sequences, and the sequences one character later."""
        most = len(self.splits[split]) - self.context
        return self.sequences(split, torch.randint(most, (size,), generator=self.draws[split]))

    def sequences(self, split, first):
        places = first[:, None] + torch.arange(self.context)
        return self.splits[split][places].to(self.device), self.splits[split][places + 1].to(self.device)


@torch.no_grad()
def mean_loss(model, batches):
    model.eval()
    losses = [(model(x, y).item(), len(x)) for x, y in batches]
    model.train()
    return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)


def validation_losses(model, text, size):
    """The losses of 20 random batches, and of all sequences of the validation split, one after another."""
    sample = (text.batch("validation", size) for _ in range(20))
    first = torch.arange(0, len(text.splits["validation"]) - text.context, text.context)
    whole = (text.sequences("validation", part) for part in first.split(64))
    return mean_loss(model, sample), mean_loss(model, whole)


# The training.


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))


def learning_rate(step, steps, most=1e-3, least=1e-4, warm_up=100):
    if step < warm_up:
        return most * (step + 1) / (warm_up + 1)
    part = (step - warm_up) / max(1, steps - warm_up)
    return least + 0.5 * (1 + math.cos(math.pi * part)) * (most - least)


def local_backward(model, state, ranks):
    """A function that computes the mean gradients of ranks inside this process."""
    parameters = list(model.parameters())

    def gradients(x, y):
        model.zero_grad(set_to_none=True)
        loss = model(x, y)
        loss.backward()
        return [p.grad for p in parameters], loss.item()

    def backward(x, y):
        of_ranks, losses = zip(*map(gradients, x.chunk(ranks), y.chunk(ranks)))
        state.all_reduce_mean(of_ranks)
        for p, mean in zip(parameters, of_ranks[0]):
            p.grad = mean
        return losses[0]

    return backward


def distributed_backward(ddp):
    """A function that computes the mean gradients of the processes of torchrun."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def backward(x, y):
        ddp.zero_grad(set_to_none=True)
        loss = ddp(x.chunk(ranks)[rank], y.chunk(ranks)[rank])
        loss.backward()
        return loss.item()

    return backward


def jittered(backward, model, size):
    """Multiplies the mean gradients by 1 + size u, with u uniform in [-1, 1). Differences of losses are then noise."""
    draws = torch.Generator().manual_seed(0)

    def jitter(x, y):
        loss = backward(x, y)
        for p in model.parameters():
            p.grad *= 1 + size * (2 * torch.rand(p.shape, generator=draws) - 1).to(p.device)
        return loss

    return jitter


HOOKS = {
    "pith": lambda codec, model, rank: (pith_torch.State(None, codec, model.named_parameters()), pith_torch.hook),
    "none": None,
    "bf16": lambda codec, model, rank: (None, default_hooks.bf16_compress_hook),
    "powersgd": lambda codec, model, rank: (PowerSGDState(None, rank, start_powerSGD_iter=2), powerSGD_hook),
}


def distributed(model, codec, options):
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb)
    make = HOOKS[options.hook]
    if make:
        ddp.register_comm_hook(*make(codec, model, options.power_sgd_rank))
    return ddp


def train(model, backward, text, options, write):
    """Calls write(step, seconds, training loss, validation losses) in each step. Without write, evaluates nothing."""
    optimizer = optimizer_of(model)
    seconds = 0.0
    for step in range(options.steps + 1):
        every = options.evaluate_every
        is_evaluated = write and every > 0 and (step % every == 0 or step == options.steps)
        validation = validation_losses(model, text, options.batch) if is_evaluated else ()
        begun = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps)
        training = backward(*text.batch("training", options.batch))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds += time.monotonic() - begun
        if write:
            write(step, seconds, training, *validation)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SETTINGS, default="0.8M")
    parser.add_argument("--local-ranks", type=int, default=1, help="ranks inside this process, without torchrun")
    parser.add_argument("--codec", default="identity", help="a codec of pith for matrices, such as 'ef(power_sgd(4))'")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--hook", choices=[*HOOKS], default="pith", help="DDP's communication hook, with torchrun")
    parser.add_argument("--steps", type=int, help="default: as published")
    parser.add_argument("--batch", type=int, help="sequences of all ranks together; default: as published")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluate-every", type=int, default=250, help="steps between evaluations; 0: never")
    parser.add_argument("--jitter", type=float, default=0, help="multiplies the means by 1 + jitter u, |u| <= 1")
    parser.add_argument("--power-sgd-rank", type=int, default=1, help="of torch's PowerSGD hook")
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb")
    parser.add_argument("--data", type=pathlib.Path, default=TEXT, help="a text, or a text compressed by gzip")
    parser.add_argument("--out", type=pathlib.Path, help="a CSV file; default: standard output")
    options = parser.parse_args()
    if options.steps is None:
        options.steps = SETTINGS[options.model].steps
    if options.batch is None:
        options.batch = SETTINGS[options.model].batch
    ranks = int(os.environ["WORLD_SIZE"]) if "RANK" in os.environ else options.local_ranks
    if options.batch < 1 or options.batch % max(1, ranks) > 0:
        parser.error(f"--batch must be a positive multiple of the {ranks} ranks, got {options.batch}")
    return options


@contextlib.contextmanager
def csv_writer(path):
    with open(path, "w", newline="") if path else contextlib.nullcontext(sys.stdout) as file:
        rows = csv.writer(file)
        rows.writerow(["step", "seconds", "training_loss", "validation_loss", "whole_validation_loss"])

        def write(step, seconds, *losses):
            rows.writerow([step, f"{seconds:.3f}", *(f"{loss:.4f}" for loss in losses)])
            file.flush()

        yield write


def main():
    options = arguments()
    of = SETTINGS[options.model]
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        torch.set_float32_matmul_precision("high")  # matrix products with TF32
    torch.manual_seed(options.seed)
    text = Text(options.data, of.context, options.seed, options.device)
    model = GPT(of, text.characters).to(options.device)
    codec = pith_torch.matrices(options.codec)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
        backward = distributed_backward(distributed(model, codec, options))
    else:
        ranks = pith_torch.LocalRanks(options.local_ranks)
        backward = local_backward(model, pith_torch.State(ranks, codec, model.named_parameters()), ranks.size)
    if options.jitter:
        backward = jittered(backward, model, options.jitter)
    if int(os.environ.get("RANK", 0)) > 0:
        train(model, backward, text, options, write=None)
        return
    with csv_writer(options.out) as write:
        train(model, backward, text, options, write)


if __name__ == "__main__":
    main()
