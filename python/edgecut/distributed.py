"""Jobs of several processes.

A launcher starts the processes: torchrun, srun, mpirun or ``launch``. Each process calls :func:`init` and then opens the
same parts. It holds its own part and serves it to the others, until all have called ``Store.close``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["init", "is_initialized"]


@dataclass(frozen=True)
class _Job:
    master_port: int | None
    timeout: float


_job: _Job | None = None
_stores = 0


def init(*, master_port: int | None = None, timeout: float = 60.0) -> None:
    """Let stores that are opened from now on join the job of the launcher.

    The rank, the number of processes and the address of rank 0 are those that torchrun, Slurm, MPI or ``launch`` has set
    in the environment. If ``EDGECUT_TOKEN`` or ``EDGECUT_TOKEN_FILE`` is set, only processes with the same secret can
    join.

    Parameters
    ----------
    master_port : int, optional
        The port on which rank 0 listens. The default is the port after ``MASTER_PORT``, since PyTorch listens on that
        one itself. A second store takes the next port.
    timeout : float, default 60
        The most seconds to wait for the other processes.

    Raises
    ------
    ValueError
        If the port is not between 1 and 65535.
    """
    global _job
    if master_port is not None and not 1 <= master_port <= 65535:
        raise ValueError(f"`master_port` is {master_port}, but ports are between 1 and 65535")
    _job = _Job(master_port, timeout)


def is_initialized() -> bool:
    """Return whether :func:`init` was called."""
    return _job is not None
