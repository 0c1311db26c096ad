"""The codecs of a model's parameters, and all that the codecs keep from step to step."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _core
from .device import CudaStep, cuda_exchanges, require_cuda
from .hook import Backward
from .ranks import LocalRanks, ProcessGroup
from .step import EXCHANGES, Step, element_type

KEYS = {"rank", "ranks", "scale", "bytes"}  # of a saved state
TIMEOUT = datetime.timedelta(minutes=30)
BUCKET_BYTES = 25 << 20  # on the CPU, as DDP's bucket_cap_mb: collectives of torch cost more than those of MPI


Policy = Callable[[str, torch.Size], str]  # the text of a codec for a parameter's name and shape


def matrices(codec: str) -> Policy:
    """A codec policy: parameters of two and more dimensions by `codec`, the other parameters uncompressed."""
    return lambda name, shape: codec if len(shape) > 1 else "identity"


class State:
    """Averages the gradients of a model's parameters over the ranks, compressed.

    group             a process group of torch.distributed; None means the default group; or LocalRanks(n)
    codec             the text of a codec, such as "ef(top_k(0.01))"; or a function of a parameter's name and shape that
                      returns such a text, for example matrices("ef(power_sgd(4))")
    named_parameters  model.named_parameters(), in the order of forward. Parameters without requires_grad are left out
    scaler            the GradScaler of the training, if it has one: residuals follow the loss scale
    seed              the seed of stochastic codecs
    bucket_bytes      the maximum bytes of gradients that are encoded and sent together; None means 25 MiB on the
                      CPU, and pith's default on a device
    timeout           a datetime.timedelta: the time after which a collective that a lost rank does not join fails

    All arguments must be equal on all ranks; otherwise every rank raises an error. Gradients are on the CPU or on one
    CUDA device, and have elements of float32, bfloat16 or float16. A gradient with rows x columns is compressed as a
    matrix; a convolution has one row per output channel.

    If a gradient of any rank or a mean is not finite, all means of the step are NaN on all ranks, and all residuals and
    other states stay as they were before the step.

    A State with a process group makes groups of its own, with threads and sockets. close() ends them.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | LocalRanks | None,
        codec: str | Policy,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
        *,
        scaler: torch.amp.GradScaler | None = None,
        seed: int = 0,
        bucket_bytes: int | None = None,
        timeout: datetime.timedelta = TIMEOUT,
    ) -> None:
        named_parameters = [(name, p) for name, p in named_parameters if p.requires_grad]
        self.device = device_of(named_parameters)
        made = isinstance(group, (LocalRanks, ProcessGroup))
        self._ranks = group if made else ProcessGroup(group, timeout, self.device)
        self._scaler, self._scale = scaler, 1.0
        parameters = self._ranks.agree(lambda: self._described(codec, named_parameters, seed, bucket_bytes))
        self._ranks.require_equal({"has a scaler": scaler is not None, "timeout": timeout})
        make, self._make_step = makers(self.dtype, self.device)
        communicators = self._ranks.communicators(self.device)
        if bucket_bytes is None and self.device.type == "cpu":
            bucket_bytes = BUCKET_BYTES
        options = {"seed": seed, "bucket_bytes": bucket_bytes, "keeps_last_state": True}
        self._exchanges = self._ranks.each(lambda i: make(communicators[i], parameters, **options))
        self._backward = None if isinstance(group, LocalRanks) else Backward(self)

    def _described(self, codec, named, seed, bucket_bytes):
        require_range("seed", seed, 1 << 64)
        if bucket_bytes is not None:
            require_range("bucket_bytes", bucket_bytes, 1 << 63)
        for name, p in named:
            require_supported(name, p, self.device)
        require_distinct([name for name, _ in named], [id(p) for _, p in named])
        self.names = [name for name, _ in named]
        self.parameters = [p for _, p in named]
        self.dtype = element_type(p.dtype for p in self.parameters)
        policy = codec if callable(codec) else lambda name, shape: codec
        texts = [require_type("codec", policy(name, p.shape), str) for name, p in named]
        for text in texts:
            self._require_means(text)
        return [_core.Parameter(name, *rows_and_columns(p.shape), text) for (name, p), text in zip(named, texts)]

    def _require_means(self, text):
        if "reduce_scatter(" in text.replace(" ", ""):
            raise ValueError(
                "pith_torch: with reduce_scatter, each rank has only the mean of its shard: call compress_reduce_scatter "
                f'with FSDP2, or use two_shot(c), got "{text}"'
            )

    def __deepcopy__(self, memo):
        return self  # a DDP module that is copied has a State among its hooks

    def __reduce__(self):
        raise TypeError("pith_torch: a State cannot be pickled: save state_dict()")

    def close(self) -> None:
        """Ends the threads and the process groups of this State, which must not be used afterwards. All ranks call it."""
        self._abandon_backward()
        if self._backward is not None:
            self._backward.close()
        self._ranks.close()

    # A step.

    @property
    def backward(self):
        """The backward pass of the hook."""
        if self._backward is None:
            raise TypeError("pith_torch: the hook needs a State of a process group, got one of LocalRanks")
        return self._backward

    def all_reduce_mean(self, gradients: Sequence[torch.Tensor] | Sequence[Sequence[torch.Tensor]]) -> None:
        """Replaces gradients, one tensor per parameter, by their means. With LocalRanks: gradients[rank]."""
        self._abandon_backward()
        gradients = gradients if isinstance(self._ranks, LocalRanks) else [gradients]
        require_count("ranks", len(self._exchanges), len(gradients))
        for of_rank in gradients:
            require_count("gradients", len(self.names), len(of_rank))
            for name, p, gradient in zip(self.names, self.parameters, of_rank):
                require_gradient(name, p, gradient, self.device)
        steps = self.begin()
        try:
            self._ranks.each(lambda i: steps[i].add(enumerate(gradients[i])))
            self.finish(steps)
        except BaseException:
            self._undo(steps)
            raise

    def begin(self):
        """A step for each rank of this process."""
        self._follow_scaler()
        steps = []
        try:
            for exchange in self._exchanges:
                steps.append(self._make_step(exchange, self.dtype))
        except BaseException:
            abandon(steps)
            raise
        return steps

    def finish(self, steps):
        """Waits until the gradients of all steps are means."""
        self._ranks.each(lambda i: steps[i].wait())
        if self._ranks.largest([0.0 if step.is_finite else 1.0 for step in steps]) > 0:
            for step in steps:
                step.restore()

    def _undo(self, steps):
        """Undoes steps after an error. If gradients are missing, the steps cannot end."""
        if any(len(step.gradients) < len(self.names) for step in steps):
            abandon(steps)
        else:
            self._ranks.each(lambda i: steps[i].undo())

    def _follow_scaler(self):
        scale = 1.0 if self._scaler is None else self._scaler.get_scale()
        if scale != self._scale:
            self.rescale(scale / self._scale)
        self._scale = scale

    def _abandon_backward(self):
        """Abandons the step of a backward pass that raised an error."""
        if self._backward is not None:
            self._backward.abandon()

    def rescale(self, factor: float) -> None:
        """Multiplies all residuals. All ranks call rescale() when the loss scale or the learning rate changes."""
        for exchange in self._exchanges:
            exchange.rescale(factor)

    def fit_buckets(self) -> None:
        """Divides the parameters into other buckets, by the times of the last step. All ranks call it between steps."""
        self._ranks.each(lambda i: self._exchanges[i].fit_buckets())

    # What the codecs keep.

    def state_dict(self) -> dict[str, Any] | list[dict[str, Any]]:
        """The state of this rank; with LocalRanks, a list of the states of all ranks. All ranks save after the same step,
        and each rank saves its own state. After a step that failed, the state is that before the step."""
        self._abandon_backward()
        return self._per_rank(lambda rank, exchange: {
            "rank": rank, "ranks": self._ranks.size, "scale": self._scale, "bytes": uint8_tensor(exchange.save())})

    def load_state_dict(self, saved: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Restores states; all ranks call it. `saved` is the state that this rank saved, or a list of the states that all
        ranks saved. With a list, the number of ranks may have changed. If a rank raises an error, all ranks do, and keep
        their states."""
        self._abandon_backward()
        before = []
        try:
            self._scale = self._ranks.agree(lambda: self._load(saved, before))
        except Exception:
            for exchange, state in zip(self._exchanges, before):
                exchange.load(state)
            raise

    def _load(self, saved, before):
        """Returns the loss scale of the saved states. Adds the present states to `before`."""
        before += [exchange.save() for exchange in self._exchanges]
        states = [saved] if isinstance(saved, dict) else saved
        if not states or not all(isinstance(state, dict) and state.keys() == KEYS for state in states):
            raise ValueError(f"pith_torch: load_state_dict needs what state_dict() returned, got {type(saved).__name__}")
        states = sorted(states, key=lambda state: state["rank"])
        old = [state["bytes"].cpu().numpy().tobytes() for state in states]
        size = self._ranks.size
        if isinstance(saved, dict):
            new = old
        elif [state["ranks"] for state in states] == [size] * size:
            new = [old[rank] for rank in self._ranks.ranks]
        else:
            new = [_core.reshard(old, size, rank) for rank in self._ranks.ranks]
        require_count("states", len(self._exchanges), len(new))
        self._ranks.each(lambda i: self._exchanges[i].load(new[i]))
        return 1.0 if states[0]["scale"] is None else states[0]["scale"]

    def fed_back(self, name: str) -> torch.Tensor | list[torch.Tensor]:
        """A copy of what feedback keeps for a parameter (pith::fed_back): with ef(...), the residual; without feedback, no
        values. The copy has one dimension. With LocalRanks, a list of copies."""
        if name not in self.names:
            raise ValueError(f"pith_torch: State has no parameter {name!r}")
        parameter = self.names.index(name)
        return self._per_rank(lambda rank, exchange: exchange.fed_back(parameter))

    # Measurements.

    def report(self) -> list:
        """Bytes and times of the last step: one dict per parameter and one for all (pith/exchange/report_lines.hpp)."""
        return self._per_rank(lambda rank, exchange: [json.loads(line) for line in exchange.report().strip("\n").split("\n")])

    def trace(self) -> dict[str, Any] | list[dict[str, Any]]:
        """When each bucket was encoded, sent and decoded since the last call, in Chrome's trace format. "began" is the
        time on time.monotonic() at which the trace begins, in seconds. "dropped" is the number of spans that were not
        recorded: a trace has at most 65,536."""
        return self._per_rank(take_trace)

    def _per_rank(self, call):
        values = [call(rank, exchange) for rank, exchange in zip(self._ranks.ranks, self._exchanges)]
        return values if isinstance(self._ranks, LocalRanks) else values[0]


def makers(dtype, device):
    """The functions that make exchanges and steps."""
    return (cuda_exchanges(dtype, device), CudaStep) if device.type == "cuda" else (EXCHANGES[dtype], Step)


def abandon(steps):
    for step in steps:
        step.abandon()


def take_trace(rank, exchange):
    trace = {"began": exchange.trace_began, "dropped": exchange.trace_dropped, **json.loads(exchange.trace(rank))}
    exchange.clear_trace()
    return trace


def uint8_tensor(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def require_count(what, expected, got):
    if got != expected:
        raise ValueError(f"pith_torch: expected {expected} {what}, got {got}")


def require_type(what, value, expected):
    if not isinstance(value, expected):
        raise TypeError(f"pith_torch: {what} must be {expected}, got {value!r}")
    return value


def require_range(what, value, end):
    if not 0 <= require_type(what, value, int) < end:
        raise ValueError(f"pith_torch: {what} must be at least 0 and less than 2^{end.bit_length() - 1}, got {value}")


def require_distinct(names, parameters):
    for what, values in (("name", names), ("parameter", parameters)):
        seen = set()
        for name, value in zip(names, values):
            if value in seen:
                raise ValueError(f'pith_torch: named_parameters must have each {what} once, got "{name}" again')
            seen.add(value)


def require_gradient(name, parameter, gradient, device):
    if gradient is None:
        raise ValueError(f'pith_torch: the gradient of "{name}" must be a tensor, got None')
    found = gradient.layout, gradient.dtype, tuple(gradient.shape), gradient.device
    expected = parameter.layout, parameter.dtype, tuple(parameter.shape), device
    if found != expected:
        raise ValueError(f'pith_torch: the gradient of "{name}" must be {describe(*expected)}, got {describe(*found)}')
    if any(stride == 0 and count > 1 for stride, count in zip(gradient.stride(), gradient.shape)):
        raise ValueError(f'pith_torch: elements of the gradient of "{name}" share memory, got strides {gradient.stride()}')


def describe(layout, dtype, shape, device):
    return f"{layout} {dtype} of shape {shape} on {device}".replace("torch.", "")


def device_of(named):
    """The device of the first parameter."""
    found = named[0][1].device if named else torch.device("cpu")
    if found.type == "cuda":
        require_cuda()
    return found


def require_supported(name, parameter, device):
    if parameter.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(f'pith_torch: gradients must be float32, bfloat16 or float16, got {parameter.dtype} of "{name}"')
    if parameter.device.type not in ("cpu", "cuda") or parameter.device != device:
        raise TypeError(
            f'pith_torch: parameters must be on the CPU or one CUDA device, got {parameter.device} of "{name}", where '
            f"the first parameter is on {device}"
        )


def rows_and_columns(shape):
    """The shape of a matrix; a vector and an empty parameter have one row."""
    size = math.prod(shape)
    rows = shape[0] if len(shape) > 1 and size > 0 else 1
    return rows, size // rows
