"""Keys of batches, from which threads draw random numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["SeededGenerator", "current_key", "draw_seed", "use_key"]

_thread = threading.local()


class SeededGenerator(torch.Generator):
    """A generator that can be pickled, which PyTorch 1's cannot."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(),)


def _restored(state: torch.Tensor) -> SeededGenerator:
    generator = SeededGenerator()
    generator.set_state(state)
    return generator


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
