"""A compressed reduce-scatter for FSDP2, the function torch.distributed.fsdp.fully_shard."""

from __future__ import annotations

import datetime
from typing import Any

import torch
import torch.distributed as dist

from .ranks import LocalRanks, ProcessGroup
from .state import TIMEOUT, State, require_count, require_type


def compress_reduce_scatter(
    model: torch.nn.Module,
    codec: str,
    *,
    seed: int = 0,
    bucket_bytes: int | None = None,
    timeout: datetime.timedelta = TIMEOUT,
) -> dict[str, ReduceScatter]:
    """Compresses the reduce-scatters of all modules of a model on which fully_shard was called.

    codec      the text of a codec that contains reduce_scatter, such as "ef(reduce_scatter(block_int<4>))"
    seed, bucket_bytes and timeout   as for State

    Returns a dict from the name of a module to its ReduceScatter, whose states a checkpoint needs.
    """
    made = {}
    for name, module in model.named_modules():
        if hasattr(module, "set_reshard_after_backward"):  # a member of FSDPModule in every torch that has FSDP2
            made[name] = ReduceScatter(codec, seed=seed, bucket_bytes=bucket_bytes, timeout=timeout)
            made[name].watch(name, module)
            set_on(module, made[name])
    if not made:
        raise ValueError("pith_torch: the model must have a module on which fully_shard was called, found none")
    return made


def set_on(module, reduce_scatter):
    if not hasattr(module, "set_custom_reduce_scatter"):
        raise NotImplementedError(
            f"pith_torch: FSDPModule.set_custom_reduce_scatter needs a newer torch than {torch.__version__}"
        )
    module.set_custom_reduce_scatter(reduce_scatter)


class ShardState(State):
    """A State whose codec computes the mean of each rank's shard on this rank only."""

    def _require_means(self, text):
        pass


class ReduceScatter:
    """The compressed reduce-scatter of one FSDP module: module.set_custom_reduce_scatter(ReduceScatter(codec)).

    FSDP2 passes the gradients of a module as one vector, which consists of one shard per rank. So the codec has one state
    per module, and codecs of matrices are refused. The call returns when the rank's shard is a mean.

    FSDP2 leaves out parameters without a gradient, so the elements of two vectors could belong to different parameters.
    After watch(name, module), such a vector is refused. compress_reduce_scatter calls watch().
    """

    _groups = {}  # the process groups of pith, by the groups of FSDP, timeouts and devices

    def __init__(
        self,
        codec: str,
        *,
        seed: int = 0,
        bucket_bytes: int | None = None,
        timeout: datetime.timedelta = TIMEOUT,
    ) -> None:
        require_type("codec", codec, str)
        if "reduce_scatter(" not in codec:
            raise ValueError(
                "pith_torch: the codec of ReduceScatter must contain reduce_scatter, such as "
                f'"ef(reduce_scatter(block_int<4>))", got "{codec}"'
            )
        if "sizes(" in codec:
            raise ValueError(f'pith_torch: FSDP2 divides a vector into equal shards, so sizes are refused, got "{codec}"')
        self._codec, self._timeout, self._options = codec, timeout, {"seed": seed, "bucket_bytes": bucket_bytes}
        self._state, self._saved, self._name, self._module = None, None, None, None
        one = torch.empty(1, requires_grad=True, device="cpu")
        ShardState(LocalRanks(1), codec, [("module", one)], **self._options).close()  # raises for wrong arguments

    def watch(self, name: str, module: torch.nn.Module) -> None:
        """Refuses vectors that lack parameters of this FSDP module."""
        self._name, self._module = name, module

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise ValueError(f"pith_torch: ReduceScatter computes means and sums, got {op}")
        ranks = dist.get_world_size(group)
        self._require_all_parameters(output_tensor.numel())
        if self._state is None:
            self._state = self._make_state(input_tensor, group)
        require_count("gradients in a shard", input_tensor.numel() // ranks, output_tensor.numel())
        self._state.all_reduce_mean([input_tensor])
        output_tensor.copy_(input_tensor.chunk(ranks)[dist.get_rank(group)])
        if op == dist.ReduceOp.SUM:
            output_tensor.mul_(ranks)

    def _require_all_parameters(self, elements):
        expected = None if self._module is None else shard_elements(self._module)
        if expected not in (None, elements):
            raise ValueError(
                f'pith_torch: all parameters of the FSDP module "{self._name}" must have gradients in each backward pass: '
                f"expected a shard of {expected} elements, got {elements}"
            )

    def _make_state(self, gradient, group):
        key = group, self._timeout, gradient.device
        if key not in self._groups:
            self._groups[key] = ProcessGroup(*key)
        parameter = gradient.new_empty(1).expand(gradient.shape).requires_grad_()  # a shape without memory
        state = ShardState(self._groups[key], self._codec, [("module", parameter)], timeout=self._timeout, **self._options)
        if self._saved is not None:
            state.load_state_dict(self._saved)
        return state

    def state_dict(self) -> dict[str, Any] | None:
        """The state of this rank, or None before the first backward pass."""
        return self._saved if self._state is None else self._state.state_dict()

    def load_state_dict(self, saved: dict[str, Any] | None) -> None:
        """Restores the state that state_dict() of this rank returned, on as many ranks. All ranks call it."""
        self._saved = saved
        if self._state is not None and saved is not None:
            self._state.load_state_dict(saved)

    def fed_back(self) -> torch.Tensor:
        """A copy of the residual, which has one element per element of the module's vector."""
        return self._required_state().fed_back("module")

    def report(self) -> list[dict[str, Any]]:
        """Bytes and times of the last call: as State.report()."""
        return self._required_state().report()

    def _required_state(self):
        if self._state is None:
            raise RuntimeError("pith_torch: ReduceScatter has no state before the first backward pass of its module")
        return self._state


def shard_elements(module):
    """The number of elements in a rank's shard of an FSDP module in which all parameters have gradients. None if this
    version of torch lacks the sizes, or if the module has several groups of parameters."""
    try:
        state = module._get_fsdp_state()
        (group,) = state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
        return sum(p.padded_sharded_param_size.numel() for p in group.fsdp_params if p.sharded_param.requires_grad)
    except (AttributeError, ValueError):
        return None
