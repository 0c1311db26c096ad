"""What the hook does with the other features of a training: no_sync, frozen parameters, loss scaling, checkpoints."""

import datetime
import math
import os
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import models
import pith_torch
from ranks import run, run_and_lose

CODEC = "ef(top_k(0.1)|qsgd<8>)"


def mean_of(model, backward):
    """The gradients of all ranks' mean loss, in one process."""
    model.zero_grad(set_to_none=True)
    for rank in range(dist.get_world_size()):
        (backward(model, rank) / dist.get_world_size()).backward()
    return [p.grad for p in model.parameters()]


def without_sync():
    model = models.layers()
    ddp, state = models.wrapped(model, "identity")
    loss = lambda called, rank, step: called(models.batch(model, step, rank)).square().mean()
    with ddp.no_sync():
        loss(ddp, dist.get_rank(), 0).backward()
    loss(ddp, dist.get_rank(), 1).backward()
    found = [p.grad.clone() for p in model.parameters()]
    expected = mean_of(model, lambda model, rank: loss(model, rank, 0) + loss(model, rank, 1))
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(found, expected))


def test_no_sync_accumulates():
    assert all(run(2, without_sync))


class Branches(nn.Module):
    """Three layers. A step uses layer 0 or layer 1, and then layer 2, which is frozen."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.layers[2].requires_grad_(False)

    def forward(self, x, branch):
        return self.layers[2](self.layers[branch](x))


def unused_parameters():
    torch.manual_seed(1)
    model = Branches()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    state = pith_torch.State(None, "ef(top_k(0.5))", model.named_parameters())
    ddp.register_comm_hook(state, pith_torch.hook)
    sizes = []
    for step in range(4):
        ddp.zero_grad(set_to_none=True)
        ddp(torch.ones(4, 32), step % 2).square().mean().backward()
        sizes.append([state.fed_back(name).norm().item() for name in state.names])
    return state.names, sizes


def test_unused_and_frozen_parameters():
    for names, sizes in run(2, unused_parameters):
        assert names == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
        assert sizes[0][0] > 0 and sizes[0][2] == 0, "an unused parameter has a residual"
        assert sizes[3][2] > 0


def overflowing(steps, overflow_at):
    """A training in which rank 1 overflows in one step: gradients finite?, scales, residuals, per step."""
    model = models.layers()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.3)
    state = pith_torch.State(None, CODEC, model.named_parameters(), scaler=scaler)
    ddp.register_comm_hook(state, pith_torch.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        x = models.batch(model, step, dist.get_rank())
        if step == overflow_at and dist.get_rank() == 1:
            x[0, 0] = math.inf
        scaler.scale(ddp(x).square().mean()).backward()
        before = model[0].weight.clone()
        scaler.step(optimizer)
        scaler.update()
        rows.append((torch.equal(before, model[0].weight), scaler.get_scale(), state.fed_back("0.weight")))
    return rows


@pytest.mark.skipif(not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"), reason="torch has no GradScaler for CPUs")
def test_all_ranks_skip_a_step_that_overflows():
    for rows in run(2, overflowing, 4, 2):
        assert [skipped for skipped, _, _ in rows] == [False, False, True, False]
        assert [scale for _, scale, _ in rows] == [1024, 1024, 512, 512]
        assert torch.equal(rows[2][2], rows[1][2]), "the residual of a skipped step changed"


def saved(steps):
    model = models.layers()
    ddp, state = models.wrapped(model, CODEC)
    models.train(ddp, model, steps)
    first = state.state_dict(), {name: p.detach().clone() for name, p in model.state_dict().items()}
    return *first, models.train(ddp, model, 3, steps)


def resumed(states, weights, steps, pick):
    model = models.layers(seed=2)
    model.load_state_dict(weights)
    ddp, state = models.wrapped(model, CODEC)
    state.load_state_dict(states[dist.get_rank()] if pick else states)
    fed_back = [state.fed_back(name) for name in state.names]
    return models.train(ddp, model, 3, steps), fed_back


@pytest.mark.parametrize("pick", [True, False])
def test_a_resumed_training_goes_on_bit_for_bit(pick):
    states, weights, means = zip(*run(2, saved, 5))
    for rank, (found, _) in enumerate(run(2, resumed, list(states), weights[0], 5, pick)):
        assert all(torch.equal(a, b) for of, to in zip(found, means[rank]) for a, b in zip(of, to))


def test_states_of_another_number_of_ranks():
    states, weights, _ = zip(*run(2, saved, 5))
    old = pith_torch.State(pith_torch.LocalRanks(2), CODEC, models.layers().named_parameters())
    old.load_state_dict(list(states))
    new = [fed_back for _, fed_back in run(3, resumed, list(states), weights[0], 5, False)]
    for number, name in enumerate(old.names):
        before, after = sum(old.fed_back(name)) / 2, sum(of[number] for of in new) / 3
        assert torch.allclose(before, after, rtol=1e-6, atol=1e-8), "resharding lost a part of the residual"


def losing_a_rank(lost):
    model = models.layers()
    ddp, state = models.wrapped(model, CODEC, timeout=datetime.timedelta(seconds=5))
    models.train(ddp, model, 2)
    if dist.get_rank() == lost:
        os._exit(1)
    begun = time.monotonic()
    try:
        models.train(ddp, model, 1, 2)
    except RuntimeError as error:
        return time.monotonic() - begun, str(error)
    return None


@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_rank_is_an_error_on_every_other_rank(lost):
    ends = run_and_lose(4, lost, losing_a_rank, lost)
    assert len(ends) == 3
    for end in ends:
        assert end is not None and end[0] < 15 and "pith_torch: all_" in end[1], end


ELEMENTS = [torch.float32, torch.bfloat16, torch.float16]


def of_elements(dtype):
    model = models.layers().to(dtype)
    ddp, state = models.wrapped(model, "identity")
    ddp(models.batch(model, 0, dist.get_rank()).to(dtype)).float().square().mean().backward()
    found = [p.grad.clone() for p in model.parameters()]
    parts = []
    for rank in range(dist.get_world_size()):
        model.zero_grad(set_to_none=True)
        model(models.batch(model, 0, rank).to(dtype)).float().square().mean().backward()
        parts.append([p.grad.double() for p in model.parameters()])
    magnitudes = [sum(g.abs() for g in of) / len(parts) for of in zip(*parts)]
    return found, [sum(of) / len(parts) for of in zip(*parts)], magnitudes


@pytest.mark.skipif(torch.__version__ < "2", reason="DDP cannot broadcast bfloat16 on gloo of torch 1.13")
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_element_types(dtype):
    """Four values are added in float, by three sums with an error of at most eps times the sum of magnitudes each. Then
    the mean is rounded once to the type of the gradient. Division by 4 is exact but for subnormals."""
    for found, expected, magnitudes in run(4, of_elements, dtype):
        for a, b, magnitude in zip(found, expected, magnitudes):
            bound = 3 * torch.finfo(torch.float32).eps * magnitude + torch.finfo(dtype).eps * b.abs()
            assert a.dtype == dtype
            assert ((a.double() - b).abs() <= bound + torch.finfo(dtype).tiny).all()


def in_halves():
    group = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][dist.get_rank() // 2]
    model = models.layers(width=16)
    state = pith_torch.State(group, "two_shot(cast<bfloat16>)", model.named_parameters())
    gradients = [torch.full_like(p, dist.get_rank()) for p in model.parameters()]
    state.all_reduce_mean(gradients)
    return gradients[0].unique().tolist()


@pytest.mark.skipif(torch.__version__ < "2.1", reason="new_group needs use_local_synchronization")
def test_a_group_of_some_ranks():
    assert run(4, in_halves) == [[0.5], [0.5], [2.5], [2.5]]


def traced():
    model = models.layers(width=512, count=6)
    ddp = DistributedDataParallel(model, bucket_cap_mb=1)
    state = pith_torch.State(None, "ef(top_k(0.01))", model.named_parameters(), bucket_bytes=1 << 20)
    calls = []

    def timed(state, bucket):
        future = pith_torch.hook(state, bucket)
        calls.append((time.monotonic(), future.done()))
        return future

    ddp.register_comm_hook(state, timed)
    models.train(ddp, model, 2)
    state.trace()
    calls.clear()
    models.train(ddp, model, 1, 2)
    trace = state.trace()
    encoded = [trace["began"] + e["ts"] * 1e-6 for e in trace["traceEvents"] if e["name"] == "encode"]
    return calls, encoded


def test_encoding_begins_during_backward():
    for calls, encoded in run(2, traced):
        assert len(calls) > 2 and not any(done for _, done in calls[:-1])
        assert min(encoded) < calls[-1][0], "no bucket was encoded before DDP passed its last bucket"
