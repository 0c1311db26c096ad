"""benchmarks/peers/contest.py — measurement of a peer's methods: values, residuals, rounds, rows.

A method is an object: `computes` in words; encode(x, owner) makes a payload; decode(payload) makes values of the length
of x; size(payload) counts bytes. `owner` is the key of the residual, for methods with feedback (steps > 1).
"""
import argparse
import random
import statistics
import sys
import time

import numpy
import torch

STEPS_OF_FEEDBACK = 4


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class Method:
    steps = 1

    def size(self, payload):
        return bytes_of(payload)

    def settle(self, p, payload):
        """Turns the encoded tensor into the residual."""
        p.sub_(self.decode(payload).view_as(p))


class FedBack(Method):
    """Residual feedback around a method, in place: residual += gradient, then residual -= decoded payload."""

    steps = STEPS_OF_FEEDBACK

    def __init__(self, method, x, owners):
        self.method = method
        self.computes = f"feedback in place; {method.computes}"
        self.residuals = [x.clone().zero_() for _ in range(owners)]  # Pages that are there.
        self.decode = method.decode

    def encode(self, x, owner):
        p = self.residuals[owner].add_(x)
        payload = self.method.encode(p, owner)
        self.method.settle(p, payload)
        return payload


def last_level_cache():
    """The number of sets, as in yardstick.hpp."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as file:
            return int(file.read().strip().removesuffix("K")) << 10
    except OSError:
        return 64 << 20


class Contest:
    """Copies of the values, enough that each has left the cache before its next use, and the operations on them."""

    def __init__(self, peer, arguments):
        self.peer, self.rounds, self.device = peer, arguments.rounds, torch.device(arguments.device)
        values = torch.from_numpy(numpy.fromfile(arguments.file, dtype="<f4"))
        self.n = values.numel()
        self.sets = max(8, 2 * last_level_cache() // (4 * self.n) + 1)
        self.x = [values.clone().to(self.device) for _ in range(self.sets)]
        self.operations = []
        y = [x.clone() for x in self.x]
        self.add_operation(["memcpy", "copy", 4 * self.n, 0, "copy_"], lambda s: y[s].copy_(self.x[s]))

    def add(self, name, method):
        payloads = [method.encode(self.x[s], s) for s in range(self.sets)] if method.steps == 1 else []
        row = [self.size(method), self.error(method), method.computes]
        self.add_operation([name, "encode", *row], lambda s: method.encode(self.x[s], s))
        if method.steps == 1:
            self.add_operation([name, "decode", *row], lambda s: method.decode(payloads[s]))

    def add_operation(self, row, run):
        self.operations.append((row, run))

    def size(self, method):
        return method.size(method.encode(self.x[-1], self.sets - 1))

    def error(self, method):
        """|steps x - the sum of `steps` decoded payloads of x|^2 / |x|^2."""
        x = self.x[0].double()
        missing = method.steps * x
        for _ in range(method.steps):
            missing -= method.decode(method.encode(self.x[0], 0)).view(-1).double()
        return (missing.square().sum() / x.square().sum()).item()

    def seconds(self, run, owner):
        self.wait()
        begin = time.perf_counter()
        result = run(owner)
        self.wait()
        end = time.perf_counter()
        del result  # Freed when the clock has stopped.
        return end - begin

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def print(self):
        """Runs each operation once per round, in a new random order. The first round is a warm-up."""
        times = [[] for _ in self.operations]
        draw = random.Random(1)
        call = 0
        for turn in range(self.rounds + 1):
            for i in draw.sample(range(len(times)), len(times)):
                time_taken = self.seconds(self.operations[i][1], call % self.sets)
                call += 1
                if turn > 0:
                    times[i].append(time_taken)
        for (row, _), taken in zip(self.operations, times):
            method, verb, size, error, computes = row
            seconds = statistics.median(taken)
            row = [method, verb, self.n, f"{seconds:.6g}", self.rounds, size, f"{error:.8g}", computes]
            print(self.peer, *row, sep=",")


def read_arguments(text, add_more=lambda parser: None):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="floats, their number a power of two")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--device", default="cpu")
    add_more(parser)
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("no CUDA device for torch")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    return arguments
