"""The epochs of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import _edgecut
from .arguments import checked

__all__ = ["EpochLoader"]


class EpochLoader:
    """A loader whose native part yields the batches of an epoch as dicts of arrays."""

    _loader: _edgecut.Loader | _edgecut.GraphLoader
    _transform: Callable[[Any], Any] | None
    _epoch: int = 0

    @checked
    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which selects its order and its random choices. It counts from 0."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of the next epoch."""
        epoch = self._epoch
        self._epoch += 1
        return self._batches(epoch)

    def _batches(self, epoch: int) -> Iterator[Any]:
        for arrays in self._loader.epoch(epoch):
            batch = self._as_batch(arrays)
            yield batch if self._transform is None else self._transform(batch)

    def _as_batch(self, arrays: dict[str, Any]) -> Any:
        """Return a batch of the native loader as the loader yields it."""
        raise NotImplementedError

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be sent to another process: make the loader there, or load batches in this "
            "process, where `num_workers` is a number of threads"
        )
