"""Measures one training step of the 10.65 M GPT with four local ranks on one GPU. Writes a row of CSV per codec.

    python3 benchmarks/training/gpu_step.py 'cast<bfloat16>' 'ef(top_k(0.01))'

Columns: the codec of the matrices; the milliseconds of four forward and backward passes; of the exchange of all four
ranks; and of clipping and AdamW. These are medians of 30 steps. The host waits for the device after each part. The last
two columns are milliseconds on the device during the exchange of one step (torch.profiler): of pith's kernels, and of
all kernels and copies.
"""

import pathlib
import statistics
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "torch"))

import pith_torch
import train_gpt

RANKS = 4
COLUMNS = ["codec", "backward_ms", "exchange_ms", "optimizer_ms", "pith_kernels_ms", "exchange_on_device_ms"]


class Training:
    def __init__(self, codec):
        of = train_gpt.SETTINGS["10.6M"]
        torch.manual_seed(1)
        self.text = train_gpt.Text(train_gpt.TEXT, of.context, 1, "cuda")
        self.batch = of.batch
        self.model = train_gpt.GPT(of, self.text.characters).cuda()
        self.parameters = list(self.model.parameters())
        self.optimizer = train_gpt.optimizer_of(self.model)
        ranks = pith_torch.LocalRanks(RANKS)
        self.state = pith_torch.State(ranks, pith_torch.matrices(codec), self.model.named_parameters())

    def backward(self):
        x, y = self.text.batch("training", self.batch)
        self.gradients = []
        for part in zip(x.chunk(RANKS), y.chunk(RANKS)):
            self.model.zero_grad(set_to_none=True)
            self.model(*part).backward()
            self.gradients.append([p.grad for p in self.parameters])

    def exchange(self):
        self.state.all_reduce_mean(self.gradients)

    def optimize(self):
        for p, mean in zip(self.parameters, self.gradients[0]):
            p.grad = mean
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()


def milliseconds(call):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begun)


def on_device(call):
    """The milliseconds of pith's kernels, and of all kernels and copies."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        milliseconds(call)
    events = [e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    times = [(e.name, e.device_time_total / 1000) for e in events]
    return sum(t for name, t in times if "pith" in name), sum(t for _, t in times)


def measure(codec):
    training = Training(codec)
    steps = [[milliseconds(part) for part in (training.backward, training.exchange, training.optimize)] for _ in range(35)]
    medians = [statistics.median(times) for times in zip(*steps[5:])]
    training.backward()
    return [*medians, *on_device(training.exchange)]


def main():
    torch.set_float32_matmul_precision("high")  # TF32, as engines train
    print(",".join(COLUMNS))
    for codec in sys.argv[1:]:
        print(f'"{codec}",' + ",".join(f"{ms:.2f}" for ms in measure(codec)), flush=True)


if __name__ == "__main__":
    main()
