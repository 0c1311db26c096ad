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


def on_fewer_ranks():
    """Rank 0 belongs to two groups, and makes more States than the others. Returns the sum over a later group."""
    members = [[0, 1], [0, 2]]
    for group, ranks in zip([dist.new_group(ranks) for ranks in members], members):
        if dist.get_rank() in ranks:
            pith_torch.State(group, "identity", models.layers().named_parameters()).close()
    later = dist.new_group([0, 1, 2])
    one = torch.ones(1)
    dist.all_reduce(one, group=later)
    state = pith_torch.State(later, "identity", models.layers(width=4).named_parameters())
    return one.item(), state._ranks.size


@pytest.mark.skipif(torch.__version__ < "2.1", reason="torch 1.13 has no groups that only their ranks make")
def test_states_of_some_ranks_leave_later_groups_alone():
    assert run(3, on_fewer_ranks) == [(3, 3)] * 3


def local_state(codec, parameter, **options):
    return pith_torch.State(pith_torch.LocalRanks(2), codec, [("a", parameter)], **options)


def test_elements_are_those_of_indices_not_of_memory():
    state = local_state("ef(top_k(0.5))", nn.Parameter(torch.zeros(2, 3)))
    plain, transposed = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3).t().contiguous().t()
    assert plain.stride() != transposed.stride()
    state.all_reduce_mean([[plain], [transposed]])
    assert torch.equal(plain, torch.tensor([[0.0, 0, 0], [3, 4, 5]])) and torch.equal(transposed, plain)
    assert state.fed_back("a")[1].tolist() == [0, 1, 2, 0, 0, 0]


def test_a_codec_without_feedback_feeds_back_no_values():
    state = local_state("identity", nn.Parameter(torch.zeros(5)))
    assert [len(of) for of in state.fed_back("a")] == [0, 0]


def test_a_transposed_parameter_is_compressed_as_its_matrix():
    parameter = nn.Parameter(torch.zeros(8, 16).t())
    state = local_state("power_sgd(1)", parameter)
    exact = torch.outer(torch.arange(1.0, 17), torch.arange(1.0, 9))
    gradients = [[exact.t().contiguous().t()] for _ in range(2)]
    state.all_reduce_mean(gradients)
    assert torch.allclose(gradients[0][0], exact, rtol=1e-4)


def test_a_flat_codec_selects_among_all_parameters():
    named = [("a", nn.Parameter(torch.zeros(3))), ("b", nn.Parameter(torch.zeros(5)))]
    state = pith_torch.State(pith_torch.LocalRanks(2), "flat(ef(top_k(0.25)))", named)
    gradients = [[torch.tensor([1.0, 2, 3]), torch.tensor([4.0, 5, 6, 7, 8])] for _ in range(2)]
    state.all_reduce_mean(gradients)
    assert [g.tolist() for g in gradients[0]] == [[0, 0, 0], [0, 0, 0, 7, 8]]
    assert state.fed_back("a")[0].tolist() == [1, 2, 3] and state.fed_back("b")[0].tolist() == [4, 5, 6, 0, 0]


def test_an_empty_parameter():
    for codec in ("power_sgd(1)", "one_bit(row)"):
        state = local_state(codec, nn.Parameter(torch.zeros(0, 3)))
        state.all_reduce_mean([[torch.zeros(0, 3)] for _ in range(2)])


@pytest.mark.parametrize("codec, dtype", [("ef(top_k(0.25))", torch.float16), ("ef(cast<half>)", torch.float32)])
def test_a_mean_that_overflows_changes_no_state(codec, dtype):
    """Finite gradients whose sum with the residual is beyond the largest float16."""
    state = local_state(codec, nn.Parameter(torch.zeros(8, 8, dtype=dtype)))
    spoilt = 0
    for step in range(6):
        gradients = [[torch.full((8, 8), 3e4 + 1e4 * step).to(dtype)] for _ in range(2)]
        before = state.state_dict()
        state.all_reduce_mean(gradients)
        if not gradients[0][0].isfinite().all():
            spoilt += 1
            assert gradients[0][0].isnan().all()
            assert all(torch.equal(a["bytes"], b["bytes"]) for a, b in zip(before, state.state_dict()))
    assert spoilt > 0


@pytest.mark.parametrize("dtype, large", [(torch.float32, 1e38), (torch.bfloat16, 1e38), (torch.float16, 6e4)])
def test_gradients_whose_squares_overflow_are_finite(dtype, large):
    state = local_state("identity", nn.Parameter(torch.zeros(300, dtype=dtype)))
    gradients = [[torch.full((300,), large, dtype=dtype)] for _ in range(2)]
    state.all_reduce_mean(gradients)
    for (mean,) in gradients:
        assert torch.equal(mean, torch.full((300,), large, dtype=dtype))


class Scale:
    """The part of GradScaler that State calls."""

    def __init__(self, scale):
        self.scale = scale

    def get_scale(self):
        return self.scale


@pytest.mark.parametrize("before, after", [(None, 1024.0), (1024.0, None), (4.0, 2.0)])
def test_residuals_follow_the_scale_of_the_job_that_loads_them(before, after):
    def state_of(scale):
        return local_state("ef(top_k(0.5))", nn.Parameter(torch.zeros(2)), scaler=scale and Scale(scale))

    first, second = state_of(before), state_of(after)
    first.all_reduce_mean([[torch.tensor([1.0, 3.0]) * (before or 1)] for _ in range(2)])
    second.load_state_dict(first.state_dict())
    second.all_reduce_mean([[torch.zeros(2)] for _ in range(2)])
    gradients = [[torch.zeros(2)] for _ in range(2)]
    third = state_of(after)
    third.load_state_dict(first.state_dict())
    third.all_reduce_mean(gradients)
    assert gradients[0][0].tolist() == [after or 1, 0]


def test_an_interrupted_mean_leaves_a_state_that_can_be_saved_and_loaded(monkeypatch):
    def interrupt(values):
        raise KeyboardInterrupt

    state = local_state(CODEC, nn.Parameter(torch.zeros(1000)))
    gradients = [[torch.randn(1000)] for _ in range(2)]
    state.all_reduce_mean(gradients)
    before = state.state_dict()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(state._ranks, "largest", interrupt)
        state.all_reduce_mean(gradients)
    after = state.state_dict()
    assert all(torch.equal(a["bytes"], b["bytes"]) for a, b in zip(before, after))
    state.load_state_dict(after)
    state.all_reduce_mean(gradients)


def closed_twice():
    groups = dist.distributed_c10d._world.pg_names
    before = len(groups)
    model = models.layers()
    ddp, state = models.wrapped(model, "hierarchical(qsgd<8>,qsgd<8>,2)")
    models.train(ddp, model, 1)
    during = len(groups)
    state.close()
    state.close()
    return during - before, len(groups) - before


@pytest.mark.skipif(torch.__version__ < "2.1", reason="hierarchical needs groups of some ranks")
def test_closing_a_state_ends_its_groups():
    assert run(4, closed_twice) == [(3, 0)] * 4


def after_an_error():
    """An error in backward after the first bucket; then a checkpoint, and a step from it."""
    model = models.layers()
    ddp, state = models.wrapped(model, CODEC)
    models.train(ddp, model, 1)
    before = state.state_dict()

    def fail(gradient):
        raise KeyError("an error of the user")

    handle = model[0].weight.register_hook(fail)
    with pytest.raises(KeyError):
        ddp(models.batch(model, 1, dist.get_rank())).square().mean().backward()
    handle.remove()
    saved = state.state_dict()
    state.load_state_dict(saved)
    return torch.equal(before["bytes"], saved["bytes"])


def test_an_error_in_backward_leaves_a_state_that_can_be_saved_and_loaded():
    assert run(2, after_an_error) == [True, True]


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
