"""Exchanges of CUDA tensors.

The exchanges of a State have a stream of their own, so that backward overlaps them. The stream waits for the caller's
stream before it reads a gradient. A step ends when the host has read from the stream whether the gradients were finite.
Then the means exist, and any stream may read them.
"""

import math

import torch

from . import _core
from .step import Step


def require_cuda():
    if not hasattr(_core, "CudaCommunicator"):
        raise RuntimeError(
            "pith_torch was built without nvcc: put nvcc of CUDA 12.0 or newer on PATH and install pith_torch again, or "
            "keep the model on the CPU"
        )


def cuda_exchanges(dtype, device):
    """A function that makes exchanges. All of them have one stream."""
    compiled = {torch.float32: "CudaFloatExchange", torch.bfloat16: "CudaBFloat16Exchange"}[dtype]
    stream = torch.cuda.Stream(device)
    return lambda *arguments, **options: CudaExchange(getattr(_core, compiled), stream, *arguments, **options)


class CudaExchange:
    """A compiled exchange, called with its stream as torch's current stream, so that the collectives use this stream."""

    def __init__(self, compiled, stream, *arguments, **options):
        self.stream = stream
        with torch.cuda.stream(stream):
            self._compiled = compiled(*arguments, stream=stream.cuda_stream, **options)

    def __getattr__(self, name):
        if name == "_compiled":  # not set yet
            raise AttributeError(name)
        member = getattr(self._compiled, name)
        if not callable(member):
            return member

        def call(*arguments):
            with torch.cuda.stream(self.stream):
                return member(*arguments)

        return call


class CudaStep(Step):
    """A step whose gradients are CUDA tensors. add() and wait() only enqueue work."""

    def __init__(self, exchange, dtype):
        super().__init__(exchange, dtype)
        self._stream = exchange.stream
        self._largest = []
        self._follow()

    def _follow(self):
        """The exchange's stream waits for the caller's stream."""
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))

    def add(self, gradients):
        self._follow()
        with torch.cuda.stream(self._stream):
            super().add(gradients)

    def _replace_non_finite(self, gradient):
        self._note(gradient)
        torch.nan_to_num_(gradient, 0, 0, 0)

    def _look_for_overflow(self):
        for gradient in self.gradients:
            self._note(gradient)

    def _note(self, gradient):
        if gradient.numel() > 0:
            self._largest.append(torch.linalg.vector_norm(gradient, math.inf, dtype=torch.float32))

    def wait(self):
        with torch.cuda.stream(self._stream):
            super().wait()

    @property
    def is_finite(self):
        """The host waits for the step."""
        with torch.cuda.stream(self._stream):
            return not self._largest or torch.stack(self._largest).isfinite().all().item()

    def restore(self):
        with torch.cuda.stream(self._stream):
            super().restore()
        self._stream.synchronize()

    def abandon(self):
        super().abandon()
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
