"""Iterators over the batches of a PyTorch loader, which threads make ahead."""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import itertools
import os
import queue
import random
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch

from .batch_keys import SeededGenerator, draw_seed, use_key

__all__ = ["ThreadedLoading", "Threads"]

# The most seconds that the end of a program waits for the batches that threads are making.
SHUTDOWN_TIMEOUT = 5.0

# All threads, which end before Python does: native code must not meet an interpreter that has ended.
_running: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_queues: weakref.WeakSet[_Tasks] = weakref.WeakSet()


class _Tasks(queue.SimpleQueue):  # type: ignore[type-arg]
    """The tasks of some threads. None ends a thread."""


# The future result of a function, the function and its arguments.
_Task: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class Threads:
    """The threads that make the batches of a loader. Each first calls `worker_init_fn` with its number.

    They are daemons, so that a program can end while a transform waits for something that never comes.

    Attributes
    ----------
    started : list of Future
        The outcome of each call of `worker_init_fn`.
    """

    def __init__(self, number: int, worker_init_fn: Callable[[int], None] | None) -> None:
        self._tasks = _Tasks()
        self._number = number
        self._worker_init_fn = worker_init_fn
        self._has_started = False
        self._may_work = threading.Event()
        self._process = os.getpid()
        self.started: list[Future[Any]] = []
        _queues.add(self._tasks)

    def start(self, timeout: float | None) -> None:
        """Start the threads unless they run, and wait until each has called `worker_init_fn`.

        A warning tells that the random numbers of the program have changed meanwhile.
        """
        if self._has_started:
            return
        self._has_started = True
        try:
            self._start_each(timeout)
        finally:
            # The threads make no batch before, so that no `transform` draws random numbers between the two looks at them.
            self._may_work.set()

    def _start_each(self, timeout: float | None) -> None:
        before = _random_states()
        for i in range(self._number):
            first: list[_Task] = []
            if self._worker_init_fn is not None:
                started: Future[Any] = Future()
                self.started.append(started)
                first.append((started, _started, (self._worker_init_fn, i)))
            # The threads do not refer to this object, which ends them when it is dropped.
            arguments = (self._tasks, first, self._may_work)
            thread = threading.Thread(target=_work, args=arguments, name=f"edgecut batches {i}", daemon=True)
            _running.add(thread)
            thread.start()
        wait(self.started, timeout, FIRST_EXCEPTION)
        if self.started and _random_states() != before:
            warnings.warn(
                "the random numbers of the whole program have changed while `worker_init_fn` ran, which threads share with the "
                "program: the numbers that the program draws next depend on `num_workers`. Let `worker_init_fn` draw from a "
                "generator of its own, and seed none of the whole program",
                stacklevel=5,
            )

    def submit(self, make: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked from one that had used the loader, and a forked process does not have its threads: "
                "make the loader in this process"
            )
        made: Future[Any] = Future()
        self._tasks.put((made, make, arguments))
        return made

    def close(self) -> None:
        for _ in range(self._number):
            self._tasks.put(None)

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            self.close()


def _work(tasks: _Tasks, first: list[_Task], may_work: threading.Event) -> None:
    """Run the first tasks, and then, once the threads may work, the tasks of a queue until it has None."""
    # A thread keeps no task that it has run, nor the loader of the task.
    while first:
        _run(*first.pop())
    may_work.wait()
    for task in iter(tasks.get, None):
        _run(*task)
        del task


def _run(made: Future[Any], make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if not made.set_running_or_notify_cancel():
        return
    try:
        made.set_result(make(*arguments))
    except BaseException as error:
        made.set_exception(error)
    # The error refers to this call.
    del made, make, arguments


@atexit.register
def _end_threads() -> None:
    """End all threads, apart from those that make a batch for too long."""
    threads = list(_running)
    for tasks in list(_queues):
        with contextlib.suppress(queue.Empty):
            while True:
                tasks.get_nowait()
        for _ in threads:
            tasks.put(None)
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _random_states() -> tuple[Any, ...]:
    """Return the states of the generators of the whole program."""
    of_numpy: Any = np.random.get_state()
    name, keys, *rest = of_numpy
    return random.getstate(), keys.tobytes(), rest, torch.get_rng_state().tolist()


# The functions that set random numbers of the whole program.
_SEEDING: list[tuple[Any, tuple[str, ...]]] = [
    (random, ("seed", "setstate")),
    (np.random, ("seed", "set_state")),
    (torch, ("manual_seed", "seed", "set_rng_state")),
    (torch.random, ("manual_seed", "seed", "set_rng_state")),
]

_starting = threading.local()


def _started(start: Callable[[int], None], number: int) -> None:
    """Call `worker_init_fn` on its thread, where it does not seed the random numbers that all threads share.

    Other threads draw from these meanwhile, so that they could not be restored afterwards.
    """
    _ignore_seeds_of_starting_threads()
    _starting.is_starting = True
    try:
        start(number)
    finally:
        _starting.is_starting = False


@functools.cache
def _ignore_seeds_of_starting_threads() -> None:
    """Wrap the functions that seed, which other threads call as before."""
    for module, names in _SEEDING:
        for name in names:
            setattr(module, name, _ignored_at_start(getattr(module, name)))


def _ignored_at_start(seed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(seed)
    def call(*arguments: Any, **more: Any) -> Any:
        if not getattr(_starting, "is_starting", False):
            return seed(*arguments, **more)
        warnings.warn(
            "`worker_init_fn` cannot seed the random numbers of the whole program, since threads make the batches. The call has "
            "no effect: use `seed` for the random choices of a loader, and a generator of your own in `transform`",
            stacklevel=2,
        )
        return None

    return call


class Batches(Iterator[Any]):
    """The batches of an epoch, in order. They do not depend on the number of threads."""

    def __init__(self, loader: ThreadedLoading) -> None:
        self._loader = loader
        # As in PyTorch, the seed is drawn before the order of the inputs, so that a program sees the same order as with PyG.
        is_seeded = isinstance(loader.generator, SeededGenerator)
        if is_seeded:
            loader.generator.begin_epoch()
        self._indices: Iterator[tuple[int, Any]] = enumerate(loader._input_indices())
        self._seed = draw_seed(loader.generator)
        if is_seeded:
            # Samplers draw the order with their first index, which is here before another epoch begins.
            first = list(itertools.islice(self._indices, 1))
            self._indices = itertools.chain(first, self._indices)
        self._threads = loader._take_threads()
        self._pending: collections.deque[Future[Any]] = collections.deque()
        if self._threads is not None:
            for _ in range(loader.num_workers * (loader.prefetch_factor or 2)):
                self._submit_next(self._threads)
            # Samplers draw the order with their first index, so `worker_init_fn`, which may draw as well, comes after it.
            self._threads.start(loader.timeout or None)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        if self._threads is None:
            number, index = next(self._indices)
            return self._loader._finished(self._loader._made(index, self._seed, number, _grad_modes()))
        if not self._pending:
            self.close()
            raise StopIteration
        self._wait_for(self._threads.started, ": `worker_init_fn` has not returned")
        for started in self._threads.started:
            if started.done() and started.exception() is not None:
                # The next epoch starts threads again.
                self._loader._threads = None
                started.result()
        # A batch that is late or interrupted stays the next one.
        waiting = self._pending[0]
        self._wait_for([waiting])
        self._pending.popleft()
        self._submit_next(self._threads)
        try:
            # The epoch goes on after an error, as without threads.
            made = waiting.result()
        finally:
            # The error refers to this call.
            del waiting
        return self._loader._finished(made)

    def _wait_for(self, futures: list[Future[Any]], what_is_late: str = "") -> None:
        done, late = wait(futures, self._loader.timeout or None, FIRST_EXCEPTION)
        if late and not any(future.exception() for future in done):
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds{what_is_late}")

    def _submit_next(self, threads: Threads) -> None:
        try:
            number, index = next(self._indices)
        except StopIteration:
            return
        except Exception as error:
            # The batches before it come first.
            failed: Future[Any] = Future()
            failed.set_exception(error)
            self._pending.append(failed)
            return
        self._pending.append(threads.submit(self._loader._made, index, self._seed, number, _grad_modes()))

    def close(self) -> None:
        """Drop the batches that are not made yet."""
        for waiting in self._pending:
            waiting.cancel()
        self._pending.clear()
        if self._threads is not None and not self._loader.persistent_workers:
            self._threads.close()
            self._threads = None
            self._indices = iter(())

    def __del__(self) -> None:
        if hasattr(self, "_pending"):
            self.close()


def _grad_modes() -> tuple[bool, bool]:
    """Return the modes of PyTorch that a thread has for itself."""
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled()


class ThreadedLoading:
    """A ``DataLoader`` of PyG whose workers are threads.

    Batches need no copies between processes, and the graph is in memory once. The arguments of ``DataLoader`` keep their
    meaning: ``num_workers``, ``prefetch_factor``, ``worker_init_fn`` (called in each thread, before the first batch),
    ``persistent_workers``, ``timeout``, ``pin_memory``, ``generator``, ``sampler``, ``batch_sampler`` and ``drop_last``.

    The threads also call ``transform``, in the program's mode of gradients. A ``transform`` that draws from a generator of
    the whole program gets its numbers in any order, so its batches repeat with ``num_workers=0`` only. For the same reason
    ``random.seed``, ``numpy.random.seed`` and ``torch.manual_seed`` have no effect in ``worker_init_fn``, besides a warning.
    Another warning tells of a ``worker_init_fn`` that changes the program's random numbers in another way.
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

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # DataLoader keeps the method of this object, which would keep the object and its graph until Python collects cycles.
        del self.collate_fn

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

    def _made(self, index: Any, seed: int, number: int, grad_modes: tuple[bool, bool]) -> Any:
        """Make a batch on any thread."""
        is_inference, has_grad = grad_modes
        with use_key(seed, number), torch.inference_mode(is_inference), torch.set_grad_enabled(has_grad):
            return _without_stop(self.collate_fn, index)

    def _finished(self, batch: Any) -> Any:
        """Finish a batch on the thread of the program."""
        if not self.filter_per_worker:
            batch = _without_stop(self.filter_fn, batch)
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


def _without_stop(make: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function. Its StopIteration, which would end the epoch, becomes an error, as in generators."""
    try:
        return make(argument)
    except StopIteration as error:
        raise RuntimeError("`transform` has raised StopIteration: leave the loop over the batches instead") from error
