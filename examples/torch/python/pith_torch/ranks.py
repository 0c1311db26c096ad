"""The ranks among which a State averages gradients: a torch process group, or ranks inside one process."""

import contextlib
import inspect
import itertools
from concurrent.futures import ThreadPoolExecutor, wait

import torch
import torch.distributed as dist

from . import _core


class Works:
    """Several collectives that end together."""

    def __init__(self, works):
        self._works = works

    def wait(self):
        for work in self._works:
            work.wait()

    def is_completed(self):
        return all(work.is_completed() for work in self._works)


class Collectives:
    """The collectives of a process group, as pith's exchange calls them on its own thread.

    The process group is made for the exchange, because torch itself calls collectives during backward, such as those of
    find_unused_parameters and SyncBatchNorm. Calls of two threads have no common order on all ranks.
    """

    def __init__(self, group, timeout, device):
        self.group, self.timeout, self.device = group, timeout, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.backend = dist.get_backend(group)
        self._parts = []  # what split() returned

    def all_gather(self, mine, all):
        if all.numel() == 0:
            return None
        if self.backend == "nccl":
            return dist.all_gather_into_tensor(all, mine, group=self.group, async_op=True)
        return dist.all_gather(list(all.chunk(self.size)), mine, group=self.group, async_op=True)

    def all_to_all(self, mine, all):
        if all.numel() == 0:
            return None
        return dist.all_to_all_single(all, mine, group=self.group, async_op=True)

    def all_reduce(self, x, how):
        if x.numel() == 0:
            return None
        operation = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[how]
        return dist.all_reduce(x, operation, group=self.group, async_op=True)

    def send_recv(self, mine, to, theirs, source):
        works = []
        if mine.numel() > 0 and to != self.rank:
            works.append(dist.isend(mine, self._global(to), group=self.group))
        if theirs.numel() > 0 and source != self.rank:
            works.append(dist.irecv(theirs, self._global(source), group=self.group))
        return Works(works)

    def split(self, color):
        colors = gathered(color, self.group)
        members = [self._global(rank) for rank in range(self.size) if colors[rank] == color]
        group = new_group(members, self.timeout, self.backend, self.group)
        self._parts.append(Collectives(group, self.timeout, self.device))
        return self._parts[-1]

    def close(self):
        """Ends the process group, and those of split(). A second call has no effect."""
        for part in self._parts:
            part.close()
        if hasattr(self, "group"):
            with contextlib.suppress(RuntimeError, ValueError):  # the program has destroyed it
                dist.destroy_process_group(self.group)
            del self.group  # its threads end with the last reference

    def _global(self, rank):
        return dist.get_global_rank(self.group, rank)

    def require(self):
        """Raises NotImplementedError on all ranks if the backend lacks a collective."""
        ones = torch.ones(self.size, dtype=torch.uint8, device=self.device)
        calls = {
            "all_gather": lambda: self.all_gather(ones[:1], torch.empty_like(ones)),
            "all_to_all_single": lambda: self.all_to_all(ones, torch.empty_like(ones)),
            "all_reduce": lambda: self.all_reduce(ones[:1].float(), "sum"),
        }
        for name, call in calls.items():
            try:
                call().wait()
            except RuntimeError as error:
                raise NotImplementedError(f"pith_torch: backend {self.backend} lacks {name}: {error}") from None


def gathered(value, group):
    """The values of all ranks of a group."""
    values = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values


numbers = itertools.count()  # of the groups that new_group() makes


def new_group(ranks, timeout, backend, parent):
    """A process group of these ranks. All ranks of `parent` call new_group(), each with the ranks of its own new group.

    All ranks of a group must give it the same name. torch's name contains the number of groups that this process has
    made or has, which may differ between ranks. So new_group() replaces torch's function for the call. Its name contains a
    number of its own: the largest one that a rank of `parent` has.
    """
    if "use_local_synchronization" not in inspect.signature(dist.new_group).parameters:
        raise NotImplementedError(f"pith_torch: a group of some ranks needs torch 2.1, got {torch.__version__}")
    global numbers
    number = max(gathered(next(numbers), parent))
    numbers = itertools.count(number + 1)
    with replaced(dist.distributed_c10d, "_process_group_name", lambda *_, **__: f"pith_{number}_{min(ranks)}"):
        return dist.new_group(ranks, timeout, backend, use_local_synchronization=True)


@contextlib.contextmanager
def replaced(module, name, value):
    """The module has another value under this name."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def same_ranks(group, timeout):
    """A new process group with the ranks and the backend of a group."""
    if group is None or group is dist.group.WORLD:
        return dist.new_group(timeout=timeout)
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError("pith_torch: State needs a process group that contains this process")
    ranks = dist.get_process_group_ranks(group)
    if ranks != sorted(ranks):
        raise NotImplementedError(f"pith_torch: the ranks of a process group must be in ascending order, got {ranks}")
    return new_group(ranks, timeout, dist.get_backend(group), group)


class ProcessGroup:
    """This process is one rank of a torch process group."""

    def __init__(self, group, timeout, device):
        if not dist.is_initialized():
            raise RuntimeError("pith_torch: State needs torch.distributed.init_process_group(), or LocalRanks(n)")
        self.collectives = Collectives(same_ranks(group, timeout), timeout, device)
        self.collectives.require()
        self.size = self.collectives.size
        self.ranks = [self.collectives.rank]

    def communicators(self, device):
        """A communicator for each rank of this process, for tensors on the device."""
        if device.type == "cuda":
            return [_core.cuda_communicator(self.collectives, device.index)]
        return [_core.communicator(self.collectives)]

    def each(self, call):
        """[call(i)] for each rank i of this process, counted from 0."""
        return [call(0)]

    def agree(self, call):
        """call(), if it raises on no rank; otherwise every rank raises an error."""
        try:
            value, error = call(), None
        except Exception as raised:
            value, error = None, raised
        errors = gathered(error and str(error), self.collectives.group)
        if error is not None:
            raise error
        for rank, text in enumerate(errors):
            if text is not None:
                raise ValueError(f"pith_torch: rank {rank} failed: {text}")
        return value

    def require_equal(self, values):
        """Raises ValueError on all ranks if one of a rank's named values differs."""
        first, *others = gathered(values, self.collectives.group)
        for rank, its in enumerate(others, 1):
            for name, value in its.items():
                if value != first[name]:
                    raise ValueError(f"pith_torch: rank {rank} differs from rank 0 in {name}: {value}, not {first[name]}")

    def close(self):
        self.collectives.close()

    def largest(self, values):
        """The largest value of all ranks; `values` has those of this process. On gloo, an all-to-all takes one latency, and
        an all-reduce takes 2 (ranks - 1)."""
        mine = torch.full((self.size,), max(values), dtype=torch.float32, device=self.collectives.device)
        all = torch.empty_like(mine)
        self.collectives.all_to_all(mine, all).wait()
        return all.max().item()


class LocalRanks:
    """n ranks inside this process, each with its own state. Gradients are averaged as by n processes.

    A State of LocalRanks has no hook. State.all_reduce_mean takes the gradients of all ranks.
    """

    def __init__(self, size: int) -> None:
        if not 1 <= size <= 1024:
            raise ValueError(f"pith_torch: LocalRanks must have 1 to 1024 ranks, got {size}")
        self.size = size
        self.ranks = list(range(size))
        self._group = _core.LocalGroup(size)
        self._threads = ThreadPoolExecutor(size)

    def communicators(self, device):
        of_host = [self._group.communicator(rank) for rank in self.ranks]
        return [_core.local_cuda_communicator(c) for c in of_host] if device.type == "cuda" else of_host

    def each(self, call):
        """[call(i)] for each rank i, with one thread per rank."""
        calls = [self._threads.submit(call, i) for i in self.ranks]
        try:
            wait(calls)
        finally:  # after an interrupt, the threads still use the exchanges
            wait(calls)
        return [c.result() for c in calls]

    def agree(self, call):
        return call()

    def require_equal(self, values):
        pass

    def close(self):
        self._threads.shutdown()

    def largest(self, values):
        return max(values)
