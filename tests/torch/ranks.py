"""Runs a function on several processes, which form a process group of gloo."""

import concurrent.futures
import datetime
import multiprocessing
import tempfile

import torch
import torch.distributed as dist

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["torch", "torch.distributed", "pith_torch"])


def run(ranks, function, *arguments, timeout=60):
    """[function(*arguments) of each rank]. An exception of a rank is raised here."""
    return [future.result() for future in futures(ranks, function, *arguments, timeout=timeout)]


def futures(ranks, function, *arguments, timeout=60):
    """The futures of function(*arguments) on each rank."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(ranks, context) as pool:
        store = f"file://{folder}/store"
        calls = [pool.submit(on_rank, r, ranks, store, timeout, function, arguments) for r in range(ranks)]
        concurrent.futures.wait(calls)
    return calls


def on_rank(rank, ranks, store, timeout, function, arguments):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=timeout)
    )
    try:
        return function(*arguments)
    finally:
        dist.destroy_process_group()
