"""Runs torch's own compressing hooks and pith's on gloo, with several buckets in flight. Prints how each training ends.

    python3 side_by_side.py [--seconds 30]

Two processes, five Linear layers of 1 MiB, DDP with bucket_cap_mb=2, ten steps. A training that does not end in time
hangs.
"""

import argparse
import tempfile
import time

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, quantization_hooks
from torch.nn.parallel import DistributedDataParallel

import models
import pith_torch
from ranks import context, on_rank


def of_pith(codec):
    return lambda model: (pith_torch.State(None, codec, model.named_parameters()), pith_torch.hook)


def power_sgd(model):
    return powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook


HOOKS = {
    "torch: bf16_compress_hook": lambda model: (None, default_hooks.bf16_compress_hook),
    "torch: powerSGD_hook": power_sgd,
    "torch: quantization_pertensor_hook": lambda model: (None, quantization_hooks.quantization_pertensor_hook),
    "torch: quantization_perchannel_hook": lambda model: (None, quantization_hooks.quantization_perchannel_hook),
    "pith: cast<bfloat16>": of_pith("cast<bfloat16>"),
    "pith: ef(power_sgd(4))": of_pith("ef(power_sgd(4))"),
    "pith: two_shot(qsgd<8>)": of_pith("two_shot(qsgd<8>)"),
}


def train(hook):
    model = models.layers(width=512, count=5)
    ddp = DistributedDataParallel(model, bucket_cap_mb=2)
    ddp.register_comm_hook(*HOOKS[hook](model))
    models.train(ddp, model, 10)


def end_of(hook, seconds):
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, f"file://{folder}/store", seconds, train, (hook,))
        processes = [context.Process(target=on_rank, args=(rank, *arguments)) for rank in range(2)]
        for process in processes:
            process.start()
        end = time.monotonic() + seconds
        for process in processes:
            process.join(max(0, end - time.monotonic()))
        codes = [process.exitcode for process in processes]
        for process in processes:
            process.kill()
            process.join()
    return "ends" if codes == [0, 0] else "hangs" if codes == [None, None] else f"fails, exit codes {codes}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, gloo, 2 processes")
    for hook in HOOKS:
        print(f"{hook:40} {end_of(hook, options.seconds)}", flush=True)
