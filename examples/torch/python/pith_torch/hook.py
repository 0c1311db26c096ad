"""The communication hook of DistributedDataParallel."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .state import State


def hook(state: "State", bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # DDP reads the annotations
    """A communication hook: ddp.register_comm_hook(pith_torch.State(...), pith_torch.hook).

    The hook passes the gradients of a bucket to pith's exchange and returns. A thread of the exchange encodes them and
    calls the collectives, during the rest of backward; for CUDA tensors, a stream of the exchange replaces the thread.
    All ranks call the collectives in the same order, which does not depend on DDP's buckets. The states belong to
    parameters, so DDP may rebuild its buckets.
    """
    return state.backward.add(bucket)


class Backward:
    """The buckets of one backward pass. Their futures complete together, when the means of all parameters exist."""

    def __init__(self, state):
        self._state = state
        self._numbers = {id(p): number for number, p in enumerate(state.parameters)}
        self._thread = ThreadPoolExecutor(1)
        self._finishing = None
        self._clear()

    def _clear(self):
        self._step, self._missing, self._buckets = None, set(self._numbers.values()), []

    def add(self, bucket):
        numbers = [self._number(p) for p in bucket.parameters()]
        if bucket.buffer().layout != torch.strided:
            names = ", ".join(self._state.names[number] for number in numbers)
            raise TypeError(f"pith_torch: gradients must be dense, got sparse gradients of {names}")
        if bucket.buffer().device != self._state.device:
            raise TypeError(
                f"pith_torch: gradients must be on {self._state.device}, as the parameters were when State was made, got "
                f"{bucket.buffer().device}"
            )
        if not self._missing.issuperset(numbers):  # the last backward pass did not end
            self.abandon()
        if self._step is None:
            self._join()
            (self._step,) = self._state.begin()
        self._step.add(zip(numbers, bucket.gradients()))
        self._missing.difference_update(numbers)
        if bucket.is_last() and self._missing:
            self._refuse_missing()
        future = torch.futures.Future(devices=[d for d in [self._state.device] if d.type == "cuda"])
        self._buckets.append((future, bucket.buffer()))
        if not self._missing:
            self._finishing = self._thread.submit(self._finish, self._step, self._buckets)
            self._clear()
        return future.then(result)

    def abandon(self):
        """Abandons the step of a backward pass that did not end. If all its buckets were ready, waits for their means."""
        self._join()
        if self._step is not None:
            self._step.abandon()
            self._clear()

    def close(self):
        self._thread.shutdown()

    def _join(self):
        """Waits until the thread does not use the exchange."""
        if self._finishing is not None:
            self._finishing.result()
            self._finishing = None

    def _refuse_missing(self):
        names = ", ".join(self._state.names[number] for number in sorted(self._missing))
        self.abandon()
        raise ValueError(f"pith_torch: State has parameters that DDP does not pass to the hook: {names}")

    def _number(self, parameter):
        number = self._numbers.get(id(parameter))
        if number is None:
            raise ValueError(
                "pith_torch: DDP passed a parameter that State does not have: pass model.named_parameters() to State "
                "after the last change of requires_grad"
            )
        return number

    def _finish(self, step, buckets):
        try:
            self._state.finish([step])
            results = [buffer for _, buffer in buckets]
        except Exception as error:
            results = [error for _ in buckets]
        for (future, _), value in zip(buckets, results):
            future.set_result(value)


def result(future):
    """The value of a future, or its exception, raised: DDP expects a tensor."""
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value
