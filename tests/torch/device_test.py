"""The Python part of steps on a CUDA device. The streams do nothing, and the tensors are on the CPU."""

import contextlib
import types

import pytest
import torch

import models
import pith_torch
from pith_torch import _core, device, state


class Stream:
    """Records the streams for which it waits."""

    cuda_stream = 0

    def __init__(self, device=None):
        self.device, self.waits = device, []

    def wait_stream(self, other):
        self.waits.append(other)

    def synchronize(self):
        pass


@pytest.fixture
def streams(monkeypatch):
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(_core, "CudaFloatExchange", _core.FloatExchange, raising=False)
    monkeypatch.setattr(_core, "CudaBFloat16Exchange", _core.BFloat16Exchange, raising=False)


def gradients(model, ranks, step):
    torch.manual_seed(step)
    return [[torch.randn_like(p) for p in model.parameters()] for _ in range(ranks)]


def on_streams(model, codec):
    """A State whose exchanges and steps are those of a CUDA device."""
    made = pith_torch.State(pith_torch.LocalRanks(2), codec, model.named_parameters())
    make = device.cuda_exchanges(made.dtype, made.device)
    parameters = made._described(codec, list(model.named_parameters()), 0, None)
    communicators = made._ranks.communicators(made.device)
    options = {"seed": 0, "bucket_bytes": None, "keeps_last_state": True}
    made._exchanges = made._ranks.each(lambda i: make(communicators[i], parameters, **options))
    made._make_step = device.CudaStep
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_means_are_those_of_a_cpu_step(streams, dtype):
    model = models.layers().to(dtype)
    codec = "ef(top_k(0.1)|qsgd<8>)"
    expected, found = pith_torch.State(pith_torch.LocalRanks(2), codec, model.named_parameters()), on_streams(model, codec)
    for step in range(3):
        a, b = gradients(model, 2, step), gradients(model, 2, step)
        expected.all_reduce_mean(a)
        found.all_reduce_mean(b)
        assert all(torch.equal(x, y) for p, q in zip(a, b) for x, y in zip(p, q))
    assert all(torch.equal(x["bytes"], y["bytes"]) for x, y in zip(expected.state_dict(), found.state_dict()))
    assert found._exchanges[0].stream is found._exchanges[1].stream
    assert len(found._exchanges[0].stream.waits) == 3 * 2 * 2  # the begin and the gradients of a step, of each rank


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_that_is_not_finite(streams, bad):
    model = models.layers()
    made = on_streams(model, "ef(top_k(0.1))")
    made.all_reduce_mean(gradients(model, 2, 0))
    before = made.state_dict()
    step = gradients(model, 2, 1)
    step[1][0].view(-1)[3] = bad
    made.all_reduce_mean(step)
    assert all(x.isnan().all() for of_rank in step for x in of_rank)
    assert all(torch.equal(x["bytes"], y["bytes"]) for x, y in zip(before, made.state_dict()))


@pytest.mark.parametrize("device", ["meta", "cuda:1"])
def test_parameters_on_another_device(device):
    parameter = types.SimpleNamespace(dtype=torch.float32, device=torch.device(device))
    expected = f'must be on the CPU or one CUDA device, got {device} of "weight", where the first parameter is on cpu'
    with pytest.raises(TypeError, match=expected):
        state.require_supported("weight", parameter, torch.device("cpu"))


def test_without_nvcc(monkeypatch):
    monkeypatch.delattr(_core, "CudaCommunicator", raising=False)
    parameter = types.SimpleNamespace(device=torch.device("cuda", 0))
    with pytest.raises(RuntimeError, match="pith_torch was built without nvcc"):
        state.device_of([("weight", parameter)])
