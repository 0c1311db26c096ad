"""Exchanges on a GPU. Local ranks have the bits of local ranks on the CPU; NCCL is tested with one rank."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import models
import pith_torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")


def gradients(model, ranks, step):
    """Equal values on the CPU and on the GPU."""
    torch.manual_seed(step)
    on_cpu = [[torch.randn_like(p) for p in model.parameters()] for _ in range(ranks)]
    return on_cpu, [[g.cuda() for g in of_rank] for of_rank in on_cpu]


def equal(on_gpu, on_cpu):
    return all(torch.equal(x.cpu(), y) for of, to in zip(on_gpu, on_cpu) for x, y in zip(of, to))


def states(codec, ranks, dtype=torch.float32):
    """A state of each device, of the same parameters."""
    model = models.layers().to(dtype)
    on_cpu = pith_torch.State(pith_torch.LocalRanks(ranks), codec, model.named_parameters())
    moved = models.layers().to(dtype).cuda()
    return model, on_cpu, pith_torch.State(pith_torch.LocalRanks(ranks), codec, moved.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("codec", models.README)
def test_local_ranks_have_the_bits_of_the_cpu(codec, dtype):
    model, on_cpu, on_gpu = states(codec, 4, dtype)
    for step in range(20):
        a, b = gradients(model, 4, step)
        on_cpu.all_reduce_mean(a)
        on_gpu.all_reduce_mean(b)
        assert equal(b, a), f"step {step}"
    for x, y in zip(on_cpu.state_dict(), on_gpu.state_dict()):
        assert torch.equal(x["bytes"], y["bytes"])
    for name in on_cpu.names:
        assert all(torch.equal(x, y) for x, y in zip(on_cpu.fed_back(name), on_gpu.fed_back(name)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite(bad):
    model, _, on_gpu = states("ef(top_k(0.1))", 2)
    on_gpu.all_reduce_mean(gradients(model, 2, 0)[1])
    before = on_gpu.state_dict()
    step = gradients(model, 2, 1)[1]
    step[1][0].view(-1)[3] = bad
    on_gpu.all_reduce_mean(step)
    assert all(x.isnan().all() for of_rank in step for x in of_rank)
    assert all(torch.equal(x["bytes"], y["bytes"]) for x, y in zip(before, on_gpu.state_dict()))


def test_a_state_moves_between_devices():
    model, on_cpu, on_gpu = states("ef(top_k(0.1))", 2)
    on_cpu.all_reduce_mean(gradients(model, 2, 0)[0])
    on_gpu.load_state_dict(on_cpu.state_dict())
    a, b = gradients(model, 2, 1)
    on_cpu.all_reduce_mean(a)
    on_gpu.all_reduce_mean(b)
    assert equal(b, a)


# One rank of NCCL.


@pytest.fixture(scope="module")
def nccl():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def recorded(codec):
    """The gradients before the hook, and the means, of three steps."""
    model = models.layers().cuda()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.3)
    state = pith_torch.State(None, codec, model.named_parameters())
    before = []

    def recording(state, bucket):
        for p, gradient in zip(bucket.parameters(), bucket.gradients()):
            before[-1][id(p)] = gradient.cpu()
        return pith_torch.hook(state, bucket)

    ddp.register_comm_hook(state, recording)
    means = []
    for step in range(3):
        before.append({})
        ddp.zero_grad(set_to_none=True)
        ddp(models.batch(model, step, 0).cuda()).square().mean().backward()
        means.append([p.grad.cpu() for p in model.parameters()])
    return [[of[id(p)] for p in model.parameters()] for of in before], means


@pytest.mark.parametrize("codec", models.README)
def test_one_rank_of_nccl_has_the_bits_of_a_local_rank(nccl, codec):
    steps, means = recorded(codec)
    local = pith_torch.State(pith_torch.LocalRanks(1), codec, models.layers().named_parameters())
    for gradients, mean in zip(steps, means):
        expected = [[g.clone() for g in gradients]]
        local.all_reduce_mean(expected)
        assert equal([mean], expected)
