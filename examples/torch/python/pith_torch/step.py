"""One step of one rank: its gradients go into the exchange one by one, and come out as means."""

import math

import torch

from . import _core

EXCHANGES = {torch.float32: _core.FloatExchange, torch.bfloat16: _core.BFloat16Exchange}


def element_type(dtypes):
    """The type in which gradients of these types are exchanged: bfloat16 if all are, else float32."""
    return torch.bfloat16 if set(dtypes) == {torch.bfloat16} else torch.float32


def is_dense(gradient):
    """Whether the elements fill a part of memory without gaps, in any order of the dimensions."""
    size = 1
    for stride, count in sorted(zip(gradient.stride(), gradient.shape)):
        if count != 1 and stride != size:
            return False
        size *= count
    return True


def flat(gradient):
    """The elements of a dense gradient in the order of memory, without a copy."""
    return gradient.detach().as_strided((gradient.numel(),), (1,))


class Step:
    """A step of one rank.

    A gradient with other elements than the exchange's is copied. A gradient that is not finite is replaced by zeros, so
    that no NaN reaches a codec's state before restore().
    """

    is_finite = True

    def __init__(self, exchange, dtype):
        self._exchange, self._dtype = exchange, dtype
        self._copies = []
        self.gradients = []
        exchange.begin()

    def add(self, gradients):
        """Adds pairs of a parameter's number and its gradient."""
        for parameter, gradient in gradients:
            self._add(parameter, gradient)

    def _add(self, parameter, gradient):
        values = flat(gradient)
        self.gradients.append(values)
        self._replace_non_finite(values)
        if values.dtype != self._dtype:
            copy = values.to(self._dtype)
            self._copies.append((values, copy))
            values = copy
        self._exchange.ready(parameter, values)

    def _replace_non_finite(self, values):
        if not math.isfinite(torch.linalg.vector_norm(values, math.inf) if values.numel() else 0):
            self.is_finite = False
            values.zero_()

    def wait(self):
        self._exchange.wait()
        for values, copy in self._copies:
            values.copy_(copy)

    def restore(self):
        """Undoes a step in which the gradients of a rank were not finite: after wait()."""
        self._exchange.load(self._exchange.save(1))
        for values in self.gradients:
            values.fill_(math.nan)

    def abandon(self):
        self._exchange.abandon()
