"""Jobs of several processes.

A launcher starts the processes: torchrun, srun, mpirun or ``launch``. Each process calls :func:`init` and then opens the
same parts. It holds its own part and serves it to the others, until all have called ``Store.close``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ._edgecut import EdgecutError, MasterSocket

__all__ = ["init", "is_initialized"]


@dataclass(frozen=True)
class _Job:
    master_port: int | None
    timeout: float
    collective_timeout: float


_Opened = TypeVar("_Opened")
_job: _Job | None = None
_stores = 0
# The number of times that the processes have agreed on a port. A store that could not be opened takes none of the next.
_agreements = 0


def init(
    *, master_port: int | None = None, timeout: float = 60.0, collective_timeout: float = 600.0
) -> None:
    """Let stores that are opened from now on join the job of the launcher.

    The rank, the number of processes and the address of rank 0 are those that torchrun, Slurm, MPI or ``launch`` has set
    in the environment. If ``EDGECUT_TOKEN`` or ``EDGECUT_TOKEN_FILE`` is set, only processes with the same secret can
    join.

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

    Raises
    ------
    ValueError
        If the port is not between 1 and 65535.
    """
    global _job
    if master_port is not None and not 1 <= master_port <= 65535:
        raise ValueError(f"`master_port` is {master_port}, but ports are between 1 and 65535")
    _job = _Job(master_port, timeout, collective_timeout)


def is_initialized() -> bool:
    """Return whether :func:`init` was called."""
    return _job is not None


def _open_in_job(open: Callable[[dict[str, Any]], _Opened]) -> _Opened:
    """Call `open` with the settings by which a store joins the job."""
    global _stores
    if _job is None:
        alone = {"is_distributed": False, "port": None, "num_opened": 0, "master": None}
        return open({**alone, "timeout": 60.0, "collective_timeout": 600.0})
    settings = {
        "is_distributed": True,
        "port": _job.master_port,
        "num_opened": _stores,
        "master": _agree_on_port(_job) if _job.master_port is None else None,
        "timeout": _job.timeout,
        "collective_timeout": _job.collective_timeout,
    }
    opened = open(settings)
    _stores += 1
    return opened


def _agree_on_port(job: _Job) -> MasterSocket | int | None:
    """Return the listening socket of rank 0, or its port on the other ranks; None without PyTorch's process group.

    A port that is free now could be taken before it is used, so rank 0 listens first and then tells the others.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    global _agreements
    _agreements += 1
    store = dist.distributed_c10d._get_default_store()
    key = f"edgecut/agreement {_agreements}/port of rank 0"
    if dist.get_rank() == 0:
        is_local = os.environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "::1", "localhost")
        socket = MasterSocket(all_addresses=not is_local)
        store.set(key, str(socket.port))
        return socket
    try:
        store.wait([key], timedelta(seconds=job.timeout))
    except RuntimeError as error:
        why = f"rank 0 has not opened its store within {job.timeout} s, or PyTorch has lost it: {error}"
        raise EdgecutError(why) from error
    return int(store.get(key))
