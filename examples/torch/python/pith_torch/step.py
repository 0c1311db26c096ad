"""One step of one rank: its gradients go into the exchange one by one, and come out as means."""

import contextlib
import math

import torch

from . import _core

EXCHANGES = {torch.float32: _core.FloatExchange, torch.bfloat16: _core.BFloat16Exchange}


def element_type(dtypes):
    """The type in which gradients of these types are exchanged: bfloat16 if all are, else float32."""
    return torch.bfloat16 if set(dtypes) == {torch.bfloat16} else torch.float32


def is_finite(values):
    """Whether all values are finite. torch computes the 2-norm with vector instructions, but squares may overflow. Then the
    largest absolute value decides."""
    return values.numel() == 0 or any(math.isfinite(torch.linalg.vector_norm(values, order)) for order in (2, math.inf))


class Step:
    """A step of one rank.

    The exchange reads the elements of a gradient in the order of its indices. A gradient with another order in memory, or
    with other elements than the exchange's, is copied. A gradient that is not finite is replaced by zeros, so that no NaN
    reaches a codec's state before restore().
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
        gradient = gradient.detach()
        self.gradients.append(gradient)
        self._replace_non_finite(gradient)
        values = gradient.to(self._dtype).contiguous()
        if values.data_ptr() != gradient.data_ptr():
            self._copies.append((gradient, values))
        self._exchange.ready(parameter, values.view(-1))

    def _replace_non_finite(self, gradient):
        if not is_finite(gradient):
            self.is_finite = False
            gradient.zero_()

    def wait(self):
        self._exchange.wait()
        for gradient, copy in self._copies:
            gradient.copy_(copy)
        self._look_for_overflow()

    def _look_for_overflow(self):
        """A mean of finite gradients may be infinite, if its type is narrower than the exchange's or the codec's is."""
        self.is_finite = self.is_finite and all(is_finite(gradient) for gradient in self.gradients)

    def undo(self):
        """Ends a step after an error, and restores the states before it. The gradients are unspecified."""
        with contextlib.suppress(ValueError):  # the step has ended
            self._exchange.wait()
        if not self._exchange.has_failed:
            self._exchange.load(self._exchange.save(1))

    def restore(self):
        """Undoes a step in which a gradient of a rank or a mean was not finite: after wait()."""
        self._exchange.load(self._exchange.save(1))
        for gradient in self.gradients:
            gradient.fill_(math.nan)

    def abandon(self):
        self._exchange.abandon()
