"""Gradient compression for PyTorch: a communication hook of DistributedDataParallel, a reduce-scatter of FSDP2, and ranks
inside one process.

    state = pith_torch.State(None, "ef(power_sgd(4))", model.named_parameters())
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    ddp.register_comm_hook(state, pith_torch.hook)
"""

from importlib.metadata import version

from .fsdp import ReduceScatter, compress_reduce_scatter
from .hook import hook
from .ranks import LocalRanks
from .state import State, matrices

__all__ = ["LocalRanks", "ReduceScatter", "State", "compress_reduce_scatter", "hook", "matrices"]
__version__ = version("pith-torch")
