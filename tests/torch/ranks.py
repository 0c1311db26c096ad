"""Runs a function on several processes, which form a process group of gloo."""

import concurrent.futures
import concurrent.futures.process
import contextlib
import datetime
import multiprocessing
import tempfile

import torch
import torch.distributed as dist

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["torch", "torch.distributed", "pith_torch"])


def run(ranks, function, *arguments, timeout=60):
    """[function(*arguments) of each rank]. An exception of a rank is raised here."""
    return [call.result() for call in futures(ranks, function, *arguments, timeout=timeout)]


def futures(ranks, function, *arguments, timeout=60):
    """The futures of function(*arguments) on each rank."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as pools:
        store = f"file://{folder}/store"
        calls = []
        for rank in range(ranks):  # a pool per rank, because a process that ends breaks its pool
            pool = pools.enter_context(concurrent.futures.ProcessPoolExecutor(1, context))
            calls.append(pool.submit(on_rank, rank, ranks, store, timeout, function, arguments))
        concurrent.futures.wait(calls)
    return calls


def run_and_lose(ranks, lost, function, *arguments, timeout=60):
    """[function(*arguments) of each rank but one], which ends its process."""
    calls = futures(ranks, function, *arguments, timeout=timeout)
    assert isinstance(calls.pop(lost).exception(), concurrent.futures.process.BrokenProcessPool)
    return [call.result() for call in calls]


def on_rank(rank, ranks, store, timeout, function, arguments):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=timeout)
    )
    try:
        return function(*arguments)
    finally:
        dist.destroy_process_group()
