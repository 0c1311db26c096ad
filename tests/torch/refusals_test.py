"""Bad input gives one clear error on every rank, and no hang."""

import inspect

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import models
import pith_torch
from ranks import run


def error_of(call, *arguments):
    try:
        call(*arguments)
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return None


def state_with(codecs, make=models.layers):
    return error_of(pith_torch.State, None, codecs[dist.get_rank()], make().named_parameters())


@pytest.mark.parametrize("codecs", [["ef(top_k(2))"] * 2, ["top_q(0.1)"] * 2, ["top_k(0.1"] * 2, [""] * 2])
def test_unknown_texts(codecs):
    for error in run(2, state_with, codecs):
        assert error is not None and ("parse" in error or "top_k" in error), error


def test_a_text_that_one_rank_does_not_know():
    errors = run(3, state_with, ["ef(top_k(0.1))", "top_q(0.1)", "ef(top_k(0.1))"])
    assert "top_q" in errors[1]
    assert all("rank 1" in errors[rank] for rank in (0, 2)), errors


def test_ranks_with_different_codecs():
    for error in run(3, state_with, ["ef(top_k(0.1))", "ef(top_k(0.2))", "ef(top_k(0.1))"]):
        assert "0.1" in error and "0.2" in error, error


def different_models():
    return state_with(["identity"] * 2, lambda: models.layers(count=3 + dist.get_rank()))


def test_ranks_with_different_models():
    for error in run(2, different_models):
        assert error is not None and "rank" in error


def typed(dtypes):
    return state_with(["identity"] * 2, lambda: models.layers(width=8).to(dtypes[dist.get_rank()]))


@pytest.mark.parametrize("dtypes", [[torch.float64] * 2, [torch.complex64] * 2, [torch.float32, torch.float64]])
def test_other_element_types(dtypes):
    for error in run(2, typed, dtypes):
        assert str(dtypes[1]) in error, error


def test_element_types_that_differ():
    for error in run(2, typed, [torch.float32, torch.bfloat16]):
        assert "float" in error and "bfloat16" in error, error


def sparse():
    model = nn.Sequential(nn.Embedding(100, 8, sparse=True), nn.Linear(8, 4))
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(pith_torch.State(None, "identity", model.named_parameters()), pith_torch.hook)
    return error_of(lambda: ddp(torch.tensor([1, 2])).sum().backward())


def test_sparse_gradients():
    for error in run(2, sparse):
        assert error is not None and "sparse" in error and "0.weight" in error, error


def of_another_model():
    model = models.layers()
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(pith_torch.State(None, "identity", models.layers().named_parameters()), pith_torch.hook)
    return error_of(models.train, ddp, model, 1)


def test_parameters_of_another_model():
    for error in run(2, of_another_model):
        assert error is not None and "named_parameters" in error


def with_an_extra_parameter():
    model = models.layers()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.3)
    named = [*model.named_parameters(), ("extra", nn.Parameter(torch.ones(3)))]
    ddp.register_comm_hook(pith_torch.State(None, "identity", named), pith_torch.hook)
    return error_of(models.train, ddp, model, 1)


def test_parameters_that_ddp_lacks():
    for error in run(2, with_an_extra_parameter):
        assert error is not None and "extra" in error


def local(codec="identity", ranks=2, width=4):
    model = models.layers(width=width)
    return model, pith_torch.State(pith_torch.LocalRanks(ranks), codec, model.named_parameters())


def test_local_ranks():
    model, state = local()
    gradients = [[torch.ones_like(p) for p in model.parameters()] for _ in range(2)]
    assert "expected 2 ranks, got 1" in error_of(state.all_reduce_mean, gradients[:1])
    assert "expected 8 gradients, got 7" in error_of(state.all_reduce_mean, [gradients[0], gradients[1][1:]])
    gradients[1][3] = torch.ones(5)
    error = error_of(state.all_reduce_mean, gradients)
    assert '"2.bias"' in error and "(4,)" in error and "(5,)" in error
    gradients[1][3] = torch.ones(1).expand(4)
    assert "(0,)" in error_of(state.all_reduce_mean, gradients)
    gradients[1][3] = None
    assert '"2.bias" must be a tensor, got None' in error_of(state.all_reduce_mean, gradients)
    gradients[1][3] = torch.ones(8)[::2]
    state.all_reduce_mean(gradients)
    assert all(torch.equal(a, b) for a, b in zip(*gradients))


@pytest.mark.parametrize(
    "arguments, words",
    [({"seed": 1.5}, "seed must be"), ({"bucket_bytes": "1"}, "bucket_bytes must be"), ({"codec": None}, "codec must be"),
     ({"codec": lambda name, shape: 3}, "codec must be"),
     ({"named_parameters": [("a", nn.Parameter(torch.ones(2)))] * 2}, 'each name once, got "a" again')],
)
def test_arguments_of_other_types(arguments, words):
    usual = {"codec": "identity", "named_parameters": [("a", nn.Parameter(torch.ones(2)))]}
    error = error_of(lambda: pith_torch.State(pith_torch.LocalRanks(1), **{**usual, **arguments}))
    assert error is not None and words in error


def with_a_scaler_on_rank_0():
    scaler = torch.cuda.amp.GradScaler(enabled=False) if dist.get_rank() == 0 else None
    return error_of(lambda: pith_torch.State(None, "identity", models.layers().named_parameters(), scaler=scaler))


def test_a_scaler_on_one_rank():
    for error in run(2, with_a_scaler_on_rank_0):
        assert error is not None and "rank 1 differs from rank 0 in has a scaler" in error


def test_a_name_that_no_parameter_has():
    _, state = local()
    assert "no parameter 'x'" in error_of(state.fed_back, "x")


def of_another_group():
    group = dist.new_group([0])
    return error_of(pith_torch.State, group, "identity", models.layers().named_parameters())


def test_a_group_without_this_process():
    assert "that contains this process" in run(2, of_another_group)[1]


def in_descending_order():
    group = dist.new_group([2, 0], sort_ranks=False)
    if dist.get_rank() == 1:
        return None
    return error_of(pith_torch.State, group, "identity", models.layers().named_parameters())


@pytest.mark.skipif("sort_ranks" not in inspect.signature(dist.new_group).parameters, reason="torch sorts all ranks")
def test_a_group_whose_ranks_are_not_in_ascending_order():
    errors = run(3, in_descending_order)
    assert errors[1] is None and all("ascending order, got [2, 0]" in errors[rank] for rank in (0, 2))


@pytest.mark.parametrize("ranks", [-1, 0, 1025])
def test_numbers_of_local_ranks(ranks):
    assert str(ranks) in error_of(pith_torch.LocalRanks, ranks)


def test_a_hook_needs_a_process_group():
    _, state = local()
    assert "process group" in error_of(pith_torch.hook, state, None)


def test_without_a_process_group():
    assert "init_process_group" in error_of(pith_torch.State, None, "identity", models.layers().named_parameters())


def test_states():
    model, state = local("ef(top_k(0.5))")
    saved = state.state_dict()
    damaged = [{**saved[0], "bytes": saved[0]["bytes"][:-1]}, saved[1]]
    for bad in (saved[0], saved[:1] + saved[:1], damaged, [], [{}], {}):
        assert error_of(state.load_state_dict, bad) is not None, bad
        assert all(torch.equal(a["bytes"], b["bytes"]) for a, b in zip(state.state_dict(), saved))
    state.all_reduce_mean([[torch.ones_like(p) for p in model.parameters()] for _ in range(2)])
    state.load_state_dict(saved)
