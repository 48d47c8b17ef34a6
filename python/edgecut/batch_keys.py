"""Keys of batches, from which threads draw random numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["SeededGenerator", "current_key", "draw_seed", "use_key"]

_thread = threading.local()


class SeededGenerator(torch.Generator):
    """The generator of a loader with a ``seed``. It can be pickled, which PyTorch 1's cannot.

    Each epoch begins with numbers of its own. They do not depend on the number of batches that threads had made ahead when the
    program left the epoch before.
    """

    _seed: int
    _epoch: int

    @classmethod
    def of(cls, seed: int, epoch: int = 0) -> SeededGenerator:
        """Return a generator whose next epoch is ``epoch``."""
        generator = cls()
        generator._seed, generator._epoch = seed, epoch
        return generator

    def begin_epoch(self) -> None:
        """Take the random numbers of the next epoch."""
        key = np.random.SeedSequence([self._seed, self._epoch]).generate_state(1, np.uint64)[0]
        self.manual_seed(int(key))
        self._epoch += 1

    def __reduce__(self) -> tuple[Any, ...]:
        return SeededGenerator.of, (self._seed, self._epoch)


def draw_seed(generator: Any = None) -> int:
    """Draw a number from PyTorch's generator, so that ``torch.manual_seed`` repeats a program."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


@contextmanager
def use_key(seed: int, batch: int) -> Iterator[None]:
    """Set the key of the batch that this thread makes."""
    _thread.key = (seed, batch)
    try:
        yield
    finally:
        _thread.key = None


def current_key() -> tuple[int, int]:
    """Return the key of the batch that this thread makes: a seed, and the number of the batch.

    The batches of an epoch have one seed, so their random numbers do not depend on the thread. Outside of an epoch a key
    is drawn.
    """
    key = getattr(_thread, "key", None)
    return (draw_seed(), 0) if key is None else key
