"""Iterators over the batches of a PyTorch loader, which threads make ahead."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from .batch_keys import draw_seed, use_key

__all__ = ["ThreadedLoading", "Threads"]


class Threads:
    """The threads that make the batches of a loader. Each calls `start` with its number first."""

    def __init__(self, number: int, start: Callable[[int], None] | None) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(number, thread_name_prefix="edgecut batches")
        self._start = start
        self._numbers = itertools.count()
        self._local = threading.local()

    def submit(self, make: Callable[..., Any], *arguments: Any) -> concurrent.futures.Future[Any]:
        return self._executor.submit(self._run, make, *arguments)

    def _run(self, make: Callable[..., Any], *arguments: Any) -> Any:
        if self._start is not None and not hasattr(self._local, "is_started"):
            self._local.is_started = True
            self._start(next(self._numbers))
        return make(*arguments)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class Batches(Iterator[Any]):
    """The batches of an epoch, in order. They do not depend on the number of threads."""

    def __init__(self, loader: ThreadedLoading) -> None:
        self._loader = loader
        self._length = len(loader)
        # As in PyTorch, the seed is drawn before the order of the inputs, so that a program sees the same order as with PyG.
        self._indices = enumerate(loader._input_indices())
        self._seed = draw_seed(loader.generator)
        self._threads = loader._take_threads()
        self._pending: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
        if self._threads is not None:
            for _ in range(loader.num_workers * (loader.prefetch_factor or 2)):
                self._submit_next(self._threads)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        if self._threads is None:
            number, index = next(self._indices)
            return self._loader._finished(self._loader._made(index, self._seed, number))
        if not self._pending:
            self.close()
            raise StopIteration
        waiting = self._pending.popleft()
        try:
            made = waiting.result(self._loader.timeout or None)
        except concurrent.futures.TimeoutError:
            self.close()
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds") from None
        except BaseException:
            self.close()
            raise
        self._submit_next(self._threads)
        return self._loader._finished(made)

    def _submit_next(self, threads: Threads) -> None:
        for number, index in itertools.islice(self._indices, 1):
            self._pending.append(threads.submit(self._loader._made, index, self._seed, number))

    def close(self) -> None:
        """Drop the batches that are not made yet."""
        for waiting in self._pending:
            waiting.cancel()
        self._pending.clear()
        if self._threads is not None and not self._loader.persistent_workers:
            self._threads.close()

    def __del__(self) -> None:
        if hasattr(self, "_pending"):
            self.close()


class ThreadedLoading:
    """A ``DataLoader`` of PyG whose workers are threads.

    Batches need no copies between processes, and the graph is in memory once. The arguments of ``DataLoader`` keep their
    meaning: ``num_workers``, ``prefetch_factor``, ``worker_init_fn`` (called in each thread), ``persistent_workers``,
    ``timeout``, ``pin_memory``, ``generator``, ``sampler``, ``batch_sampler`` and ``drop_last``.
    """

    # Attributes of DataLoader and of PyG's loaders.
    num_workers: int
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory: bool
    timeout: float
    generator: Any
    batch_sampler: Any
    sampler: Any
    worker_init_fn: Callable[[int], None] | None
    filter_per_worker: bool
    collate_fn: Callable[[Any], Any]
    filter_fn: Callable[[Any], Any]

    _threads: Threads | None = None

    def __iter__(self) -> Batches:
        return Batches(self)

    def __len__(self) -> int:
        return super().__len__()  # type: ignore[misc]

    def _input_indices(self) -> Iterator[Any]:
        """Return the positions of the inputs of each batch."""
        if self.batch_sampler is not None:
            return iter(self.batch_sampler)
        return ([position] for position in self.sampler)

    def _take_threads(self) -> Threads | None:
        if self.num_workers == 0:
            return None
        if not self.persistent_workers:
            return Threads(self.num_workers, self.worker_init_fn)
        if self._threads is None:
            self._threads = Threads(self.num_workers, self.worker_init_fn)
        return self._threads

    def _made(self, index: Any, seed: int, number: int) -> Any:
        """Make a batch on any thread."""
        with use_key(seed, number):
            return self.collate_fn(index)

    def _finished(self, batch: Any) -> Any:
        """Finish a batch on the thread of the program."""
        if not self.filter_per_worker:
            batch = self.filter_fn(batch)
        if self.pin_memory and torch.cuda.is_available():
            batch = torch.utils.data._utils.pin_memory.pin_memory(batch)
        return batch

    def check_worker_number_rationality(self) -> None:
        """Accept any number of threads, where PyTorch would warn of processes."""

    def enable_cpu_affinity(self, *arguments: Any, **more: Any) -> NoReturn:
        raise NotImplementedError("`enable_cpu_affinity` is for worker processes: choose the cores of this process with `taskset`")

    def enable_multithreading(self, *arguments: Any, **more: Any) -> NoReturn:
        raise NotImplementedError("`enable_multithreading` is for worker processes: `num_workers` is a number of threads")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_threads", None)
        return state
