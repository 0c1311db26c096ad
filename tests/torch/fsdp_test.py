"""The reduce-scatter of FSDP2, on two and four processes with gloo."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

import models
import pith_torch
from ranks import run

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    has_reduce_scatter = hasattr(FSDPModule, "set_custom_reduce_scatter")
except ImportError:
    has_reduce_scatter = False

needs_fsdp2 = pytest.mark.skipif(not has_reduce_scatter, reason="this torch lacks set_custom_reduce_scatter")
CODECS = ["reduce_scatter(qsgd<8>)", "ef(reduce_scatter(block_int<8>))", "ef(reduce_scatter(block_int<4>))",
          "ef(reduce_scatter(top_k(0.1)))"]


def sharded(model, codec):
    """A model whose layers with weights are sharded, and the root; and their reduce-scatters."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, pith_torch.compress_reduce_scatter(model, codec) if codec else {}


def backward(model, step):
    model(models.batch(model, step, dist.get_rank())).square().mean().backward()


def gradients(model):
    return [p.grad.full_tensor().clone() for p in model.parameters()]


def residuals(of_modules):
    """The residuals of the modules that have parameters of their own."""
    return {name: of.fed_back() for name, of in of_modules.items() if of.state_dict() is not None}


def trained(codec, steps):
    model, of_modules = sharded(models.layers(width=61), codec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        backward(model, step)
        found.append(gradients(model))
        optimizer.step()
    return found, residuals(of_modules)


def relative_error(found, expected):
    return max(((a - b).norm() / b.norm()).item() for of, to in zip(found, expected) for a, b in zip(of, to))


@needs_fsdp2
@pytest.mark.parametrize("ranks", [2, 4])
def test_identity_equals_fsdp_without_it(ranks):
    plain = run(ranks, trained, None, 3)
    for (found, _), (expected, _) in zip(run(ranks, trained, "reduce_scatter(identity)", 3), plain):
        assert relative_error(found, expected) < 1e-5


@needs_fsdp2
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_ten_steps_give_all_ranks_equal_gradients(ranks, codec):
    (first, kept), *others = run(ranks, trained, codec, 10)
    for other, _ in others:
        assert all(torch.equal(a, b) for of, to in zip(first, other) for a, b in zip(of, to))
    assert len(kept) == 4 and all(r.numel() > 0 for r in kept.values()) == codec.startswith("ef")


def accumulated(codec):
    """Two backward passes, the first without communication, and the residuals before and between them."""
    model, of_modules = sharded(models.layers(width=61), codec)
    backward(model, 0)
    before = residuals(of_modules)
    model.zero_grad()
    model.set_requires_gradient_sync(False)
    backward(model, 1)
    between = residuals(of_modules)
    model.set_requires_gradient_sync(True)
    backward(model, 2)
    return before, between, gradients(model)


@needs_fsdp2
def test_accumulation_without_communication_leaves_residuals_alone():
    exact = [g for _, _, g in run(2, accumulated, "reduce_scatter(identity)")]
    for (before, between, found), expected in zip(run(2, accumulated, "ef(reduce_scatter(qsgd<8>))"), exact):
        assert all(torch.equal(before[name], between[name]) for name in before)
        assert relative_error([found], [expected]) < 0.2


def resumed(codec, steps):
    """The gradients of the last steps, of one run and of a run that saves and loads its states."""
    model, of_modules = sharded(models.layers(width=61), codec)
    for step in range(steps):
        model.zero_grad()
        backward(model, step)
    saved = {name: copy.deepcopy(of.state_dict()) for name, of in of_modules.items()}
    model.zero_grad()
    backward(model, steps)
    expected = gradients(model)
    again, of_again = sharded(models.layers(width=61), codec)
    for name, of in of_again.items():
        of.load_state_dict(saved[name])
    backward(again, steps)
    return expected, gradients(again)


@needs_fsdp2
def test_a_resumed_run_has_the_gradients_of_one_run():
    for expected, found in run(2, resumed, "ef(reduce_scatter(qsgd<8>))", 3):
        assert all(torch.equal(a, b) for a, b in zip(expected, found))


def error_of(codec):
    try:
        model, _ = sharded(models.layers(width=61), codec)
        backward(model, 0)
    except Exception as error:
        return str(error)
    return None


@needs_fsdp2
@pytest.mark.parametrize("codec, words", [
    ("ef(power_sgd(4))", "must contain reduce_scatter"),
    ("reduce_scatter(qsgd<8>,sizes(10,30))", "sizes are refused"),
    ("ef(reduce_scatter(power_sgd(4)))", "compresses only matrices"),
    ("reduce_scatter(two_shot(qsgd<8>))", "is not a stage"),
])
def test_codecs_that_do_not_fit_are_refused(codec, words):
    for error in run(2, error_of, codec):
        assert error is not None and words in error, error


def test_a_model_without_fsdp_is_refused():
    with pytest.raises(ValueError, match="fully_shard was called, found none"):
        pith_torch.compress_reduce_scatter(models.layers(), CODECS[0])


def test_a_torch_without_the_interface_gives_one_error():
    class OldModule(nn.Module):
        def set_reshard_after_backward(self):
            pass

    with pytest.raises(NotImplementedError, match="set_custom_reduce_scatter needs a newer torch than"):
        pith_torch.compress_reduce_scatter(OldModule(), CODECS[0])


class Branches(nn.Module):
    """Two layers of equal size in one FSDP module. A step uses one of them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x, branch):
        return self.layers[branch](x)


def with_a_branch():
    model = Branches()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    (of_module,) = pith_torch.compress_reduce_scatter(model, "ef(reduce_scatter(top_k(0.1)))").values()
    with pytest.raises(RuntimeError, match="before the first backward pass"):
        of_module.fed_back()
    try:
        model(torch.ones(2, 16), 0).sum().backward()
    except ValueError as error:
        return str(error)


@needs_fsdp2
def test_a_vector_without_all_parameters_of_its_module_is_refused():
    for error in run(2, with_a_branch):
        assert error is not None and "must have gradients in each backward pass: expected a shard of 272 elements" in error


@needs_fsdp2
@pytest.mark.parametrize("options", [{"codec": None}, {"codec": "reduce_scatter(top_q)"}, {"sedd": 1}, {"seed": 0.5}])
def test_wrong_arguments_are_refused_at_once(options):
    with pytest.raises((TypeError, ValueError)):
        pith_torch.ReduceScatter(**{"codec": "reduce_scatter(qsgd<8>)", **options})
