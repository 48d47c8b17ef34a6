"""Jobs of several processes.

A launcher starts the processes: torchrun, srun, mpirun or ``launch``; or PyTorch's ``init_process_group`` has made a
process group of them. Each process calls :func:`init` and then opens the same parts. It holds its own part and serves it
to the others, until all have called ``Store.close``.
"""

from __future__ import annotations

import os
import pathlib
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from ._edgecut import EdgecutError, MasterSocket
from .arguments import checked

__all__ = ["init", "is_initialized"]


@dataclass(frozen=True)
class _Job:
    master_port: int | None
    timeout: float
    collective_timeout: float
    join: bool
    # A forked process has the settings of its parent, but is no process of its job.
    process: int = field(default_factory=os.getpid)


_Opened = TypeVar("_Opened")
_job: _Job | None = None
_stores = 0
# The number of times that the processes have agreed on a port. A store that could not be opened takes none of the next.
_agreements = 0


@checked
def init(
    *,
    master_port: int | None = None,
    timeout: float = 60.0,
    collective_timeout: float = 600.0,
    join: bool = True,
) -> None:
    """Let stores that are opened from now on join the job of PyTorch or of the launcher.

    If PyTorch's process group exists when a store is opened, the ranks are those of the group. Otherwise the rank, the
    number of processes and the address of rank 0 are those that torchrun, Slurm, MPI or ``launch`` has set in the
    environment. If ``EDGECUT_TOKEN`` or ``EDGECUT_TOKEN_FILE`` is set, only processes with the same secret can join.

    Parameters
    ----------
    master_port : int, optional
        The port on which rank 0 listens. The next store takes the port after it. If it is not given and PyTorch's
        process group exists when a store is opened, rank 0 takes a free port and tells it to the others through PyTorch.
        Otherwise it takes the port after ``MASTER_PORT``, since PyTorch listens on that one itself.
    timeout : float, default 60
        The most seconds to wait for the other processes to join.
    collective_timeout : float, default 600
        The most seconds to wait for the other processes later, when all make a loader or close the store. Set it to more than
        the longest time that one process works alone in between.
    join : bool, default True
        False to let each process open data by itself, although PyTorch's process group exists. Every process then loads
        all nodes, edges or graphs that its own arguments name, so give each process input nodes of its own.

    Raises
    ------
    ValueError
        If the port is not between 1 and 65535.
    """
    global _job
    if master_port is not None and not 1 <= master_port <= 65535:
        raise ValueError(f"`master_port` is {master_port}, but ports are between 1 and 65535")
    _job = _Job(master_port, timeout, collective_timeout, join)


def is_initialized() -> bool:
    """Return whether :func:`init` was called to join a job."""
    return _job is not None and _job.join


def _open_in_job(
    open: Callable[[dict[str, Any]], _Opened], *, encrypt: bool = False, check_traffic: bool = False
) -> _Opened:
    """Call `open` with the settings by which a store joins the job."""
    global _stores
    settings: dict[str, Any] = {
        "is_distributed": False,
        "ranks": None,
        "port": None,
        "num_opened": 0,
        "master": None,
        "timeout": 60.0,
        "collective_timeout": 600.0,
        "encrypt": encrypt,
        "check_traffic": check_traffic,
    }
    if _job is None or not _job.join:
        return open(settings)
    if _job.process != os.getpid():
        raise EdgecutError(
            "`edgecut.distributed.init` was called in the process from which this one was forked: call it in each process "
            "of the job"
        )
    settings["timeout"] = _job.timeout
    settings["collective_timeout"] = _job.collective_timeout
    group = _process_group()
    if group is not None and group.get_world_size() == 1:
        return open(settings)
    settings["is_distributed"] = True
    settings["port"] = _job.master_port
    settings["num_opened"] = _stores
    if group is not None:
        settings |= _agree(group, _job)
    opened = open(settings)
    _stores += 1
    return opened


def _refuse_copies(world_size: int) -> None:
    """Reject a loader by which every process of PyTorch's process group would load the same data."""
    group = _process_group()
    if world_size > 1 or group is None or group.get_world_size() == 1:
        return
    if _job is not None and not _job.join:
        return
    raise EdgecutError(
        f"each of the {group.get_world_size()} processes of PyTorch's process group would load all of the data: call "
        "`edgecut.distributed.init()` before the data is opened, so that the processes share it, or "
        "`edgecut.distributed.init(join=False)` if each process has input nodes of its own"
    )


def _process_group() -> Any:
    """Return the module of PyTorch's process group, or None if there is no process group."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def _agree(dist: Any, job: _Job) -> dict[str, Any]:
    """Return the ranks of PyTorch's process group, and the port of rank 0 if none was given.

    A port that is free now could be taken before it is used, so rank 0 listens first and then tells the others. It gets
    its listening socket instead of the port.
    """
    global _agreements
    _agreements += 1
    store = dist.distributed_c10d._get_default_store()
    prefix = f"edgecut/agreement {_agreements}"

    def told_by(rank: int, what: str) -> str:
        key = f"{prefix}/{what} of rank {rank}"
        try:
            store.wait([key], timedelta(seconds=job.timeout))
        except RuntimeError as error:
            why = f"rank {rank} has not opened its store within {job.timeout} s, or PyTorch has lost it: {error}"
            raise EdgecutError(why) from error
        return store.get(key).decode()

    rank, world_size = dist.get_rank(), dist.get_world_size()
    store.set(f"{prefix}/machine of rank {rank}", _machine())
    machines = [told_by(other, "machine") for other in range(world_size)]
    of_this = [other for other, machine in enumerate(machines) if machine == machines[rank]]
    is_local = len(of_this) == world_size
    ranks = {
        "rank": rank,
        "world_size": world_size,
        "local_rank": of_this.index(rank),
        "local_world_size": len(of_this),
        "master_addr": "127.0.0.1" if is_local else _master_addr(store),
    }
    if job.master_port is not None:
        return {"ranks": ranks}
    if rank > 0:
        return {"ranks": ranks, "master": int(told_by(0, "port"))}
    master = MasterSocket(all_addresses=not is_local)
    store.set(f"{prefix}/port of rank 0", str(master.port))
    return {"ranks": ranks, "master": master}


def _machine() -> str:
    """Return a text that differs between machines, and between containers with a network of their own."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    network = os.readlink("/proc/self/ns/net")
    return f"{boot} {network} {socket.gethostname()}"


def _master_addr(store: Any) -> str:
    """Return the address of rank 0, which other machines have used to reach PyTorch's store."""
    address = os.environ.get("MASTER_ADDR")
    while address is None and hasattr(store, "underlying_store"):
        store = store.underlying_store
    address = address or getattr(store, "host", None)
    if not address:
        raise ValueError("MASTER_ADDR is not set: set it to the host name or IP address of rank 0 in all processes")
    return address
