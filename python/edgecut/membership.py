"""Memberships in jobs, which end with the program."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ._edgecut import EdgecutError

__all__ = ["Membership"]

_Self = TypeVar("_Self", bound="Membership")


class _Native(Protocol):
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def close(self) -> None: ...
    def abort(self, reason: str) -> None: ...
    def leave_at_exit(self, last_error: str | None) -> None: ...


class Membership:
    """Data that is open in all processes of a job, which close it together.

    A process closes it by :meth:`close`, at the end of a ``with`` block, or at the end of the program. If the block or
    the program ends with an exception, or the program with an exit status other than 0, the other processes raise an
    error with this reason. A process that was forked from it is not in the job, so its end has no effect there.

    Data that one process has opened alone can be sent to processes that the methods ``spawn`` and ``forkserver`` start.
    They open it again.
    """

    _native: Any
    _reopen: Callable[[], Any]

    def __init__(self, native: _Native, reopen: Callable[[], Any]) -> None:
        self._native = native
        self._reopen = reopen
        self._is_open = True
        _memberships.add(self)
        if native.world_size > 1:
            # The job needs this process until the end of the program, also if nothing refers to this any more.
            _of_jobs.add(self)

    @property
    def rank(self) -> int:
        """The number of this process in its job."""
        return self._native.rank

    @property
    def world_size(self) -> int:
        """The number of processes of the job."""
        return self._native.world_size

    def close(self) -> None:
        """Leave the job. Waits until all processes of the job have called this.

        Raises
        ------
        EdgecutError
            If another process has failed, or does not call this in time.
        """
        if self._is_open:
            self._is_open = False
            _of_jobs.discard(self)
            self._native.close()

    def abort(self, reason: str) -> None:
        """End the job. The other processes raise an error with this reason.

        Parameters
        ----------
        reason : str
            The text of the error.
        """
        if self._is_open:
            self._is_open = False
            _of_jobs.discard(self)
            self._native.abort(reason)

    def _identity(self) -> str:
        """Return a text that other data of the same place does not have."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.world_size > 1:
            raise TypeError(
                f"a {type(self).__name__} of a job of several processes cannot be sent to another process: load batches in "
                "the processes of the job, where `num_workers` of an Edgecut loader is a number of threads"
            )
        return _reopened, (self._reopen, self._identity())

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        else:
            self.abort(_text(error))


def _reopened(reopen: Callable[[], Membership], identity: str) -> Membership:
    """Open data in another process, where it must be the same."""
    opened = reopen()
    if opened._identity() == identity:
        return opened
    opened.abort("its data have changed")
    raise EdgecutError(
        f"the data of {opened!r} have changed since the process that has sent them opened them: open them again in that process"
    )


_memberships: weakref.WeakSet[Membership] = weakref.WeakSet()
_of_jobs: set[Membership] = set()


def _text(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the program ended with exit status {error.code}"
    return f"{type(error).__name__}: {error}"


def _forget_all() -> None:
    for membership in _memberships:
        membership._is_open = False
    _of_jobs.clear()


# A forked process has copies of the memberships of its parent.
os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _leave_all() -> None:
    # The last exception that was not caught. An interactive session goes on after it, so the exit status decides later.
    error: BaseException | None = getattr(sys, "last_value", None)
    is_interactive = hasattr(sys, "ps1")
    for membership in list(_memberships):
        if not membership._is_open:
            continue
        if isinstance(error, KeyboardInterrupt) and not is_interactive:
            # It ends the process by a signal, without an exit status.
            membership.abort(_text(error))
        else:
            membership._is_open = False
            membership._native.leave_at_exit(None if error is None else _text(error))
