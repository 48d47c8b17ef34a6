"""Threads that make the batches of PyG's data."""

import contextlib
import gc
import os
import random
import subprocess
import sys
import threading
import traceback
import warnings
import weakref

import numpy as np
import pytest
from conftest import PATIENCE

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from test_pyg_data import random_data, random_hetero  # noqa: E402
from torch import manual_seed  # noqa: E402

import edgecut  # noqa: E402


def load(data=None, **more):
    return edgecut.NeighborLoader(random_data() if data is None else data, [2], **{"batch_size": 10, **more})


def outcomes(batches):
    """Return the first input of each batch, or the type of its error, until the epoch ends."""
    found = []
    while True:
        try:
            found.append(int(next(batches).input_id[0]))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error))


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_an_epoch_goes_on_after_an_error(num_workers):
    def transform(batch):
        if batch.input_id[0] == 20:
            raise KeyError("not here")
        if batch.input_id[0] == 30:
            raise StopIteration
        return batch

    loader = load(num_workers=num_workers, transform=transform)
    assert outcomes(iter(loader)) == [0, 10, KeyError, RuntimeError, 40, 50]
    on_program = load(num_workers=num_workers, transform=transform, filter_per_worker=False)
    assert outcomes(iter(on_program)) == [0, 10, KeyError, RuntimeError, 40, 50]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_error_of_a_sampler_comes_after_its_batches(num_workers):
    class Fails(torch.utils.data.Sampler):
        def __init__(self):
            pass

        def __iter__(self):
            yield from range(30)
            raise OSError("the list is lost")

        def __len__(self):
            return 60

    assert outcomes(iter(load(num_workers=num_workers, sampler=Fails()))) == [0, 10, 20, OSError]


def test_the_timeout_of_a_transform_is_not_that_of_the_loader():
    def transform(batch):
        raise TimeoutError("the server of features did not answer")

    with pytest.raises(TimeoutError, match="the server of features did not answer"):
        next(iter(load(num_workers=1, transform=transform)))


def test_a_late_batch_stays_the_next_one():
    released = threading.Event()
    batches = iter(load(num_workers=1, timeout=0.01, transform=lambda batch: released.wait(PATIENCE) and batch))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="timed out after 0.01 seconds"):
            next(batches)
    released.set()
    found = []
    while len(found) < 6:
        try:
            found.append(int(next(batches).input_id[0]))
        except RuntimeError:
            continue
    assert found == list(range(0, 60, 10))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_sampler_needs_no_length(num_workers):
    class Pairs:
        def __iter__(self):
            return iter([[1, 2], [3]])

    loader = load(batch_sampler=Pairs(), num_workers=num_workers, batch_size=1)
    assert [batch.input_id.tolist() for batch in loader] == [[1, 2], [3]]


def test_threads_have_the_gradient_mode_of_the_program():
    data = random_data()
    data.x.requires_grad_(True)
    for num_workers in (0, 2):
        for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
            with mode:
                expected = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
                seen = []

                def transform(batch):
                    seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
                    return batch

                for batch in load(data, num_workers=num_workers, transform=transform):
                    assert batch.x.requires_grad == expected[0]
            assert seen == [expected] * 6


def test_workers_start_once_each_before_the_first_batch():
    started = []
    loader = load(num_workers=3, worker_init_fn=started.append, persistent_workers=True)
    for _ in range(2):
        assert len(list(loader)) == 6
        assert sorted(started) == [0, 1, 2]


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_worker_that_does_not_start_fails_every_epoch(persistent_workers):
    def init(number):
        raise OSError("no disk")

    loader = load(num_workers=2, worker_init_fn=init, persistent_workers=persistent_workers)
    for _ in range(2):
        with pytest.raises(OSError, match="no disk"):
            list(loader)


@pytest.mark.parametrize("module, name", [(random, "seed"), (np.random, "seed"), (torch, "manual_seed")])
def test_workers_do_not_seed_the_program(module, name):
    """The random numbers that another thread draws while a worker starts are neither lost nor repeated."""
    seeded, drawn_meanwhile = threading.Event(), threading.Event()

    def init(number):
        getattr(module, name)(number)
        seeded.set()
        assert drawn_meanwhile.wait(PATIENCE)

    def draw():
        return random.random(), np.random.random(), torch.rand(1).item()

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = [draw(), draw()]
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    found = []

    def draw_meanwhile():
        assert seeded.wait(PATIENCE)
        found.append(draw())
        drawn_meanwhile.set()

    other = threading.Thread(target=draw_meanwhile)
    other.start()
    with pytest.warns(UserWarning, match="`worker_init_fn` cannot seed the random numbers of the whole program") as warned:
        assert len(list(load(num_workers=1, worker_init_fn=init, generator=torch.Generator().manual_seed(1)))) == 6
    other.join()
    assert warned[0].filename == __file__
    assert [*found, draw()] == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda number: torch.rand(1),
        lambda number: np.random.random(),
        lambda number: random.random(),
        lambda number: torch.default_generator.manual_seed(7),
        lambda number: manual_seed(7),
    ],
)
def test_workers_that_change_the_random_numbers_of_the_program_warn_and_leave_the_order(change):
    orders = []
    for more in ({}, *[{"num_workers": 4, "worker_init_fn": change}] * 5):
        torch.manual_seed(0)
        with contextlib.ExitStack() as warned:
            if more:
                why = "have changed while `worker_init_fn` ran"
                found = warned.enter_context(pytest.warns(UserWarning, match=why))
            orders.append(torch.cat([batch.input_id for batch in load(shuffle=True, **more)]).tolist())
        assert not more or [warning.filename for warning in found] == [__file__]
    assert all(order == orders[0] for order in orders)


def waits_for_work(name):
    """Return true if a thread of this name waits for an event and not for a batch."""
    frames = sys._current_frames()
    stacks = [traceback.extract_stack(frames[thread.ident]) for thread in threading.enumerate() if thread.name == name]
    return any(stack[-1].name == "wait" and all(frame.name != "_run" for frame in stack) for stack in stacks)


def test_a_transform_that_draws_while_workers_start_is_no_fault_of_theirs():
    has_drawn = threading.Event()

    def transform(batch):
        torch.rand(1)
        has_drawn.set()
        return batch

    def init(number):
        # The first thread has no more to start, and either waits or makes batches.
        while number == 1 and not has_drawn.is_set() and not waits_for_work("edgecut batches 0"):
            os.sched_yield()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(load(num_workers=2, worker_init_fn=init, transform=transform))) == 6


def test_the_error_of_a_worker_does_not_wait_for_the_others():
    released = threading.Event()

    def init(number):
        if number == 1:
            raise OSError("no disk")
        assert released.wait(PATIENCE)

    loader = load(num_workers=2, worker_init_fn=init)
    try:
        with pytest.raises(OSError, match="no disk"):
            next(iter(loader))
        assert not released.is_set()
    finally:
        released.set()


def test_seeds_have_their_effect_on_other_threads():
    list(load(num_workers=1, worker_init_fn=lambda number: None))
    drawn = []
    for _ in range(2):
        random.seed(3)
        np.random.seed(3)
        assert torch.manual_seed(3) is torch.default_generator
        drawn.append((random.random(), np.random.random(), torch.rand(1).item()))
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_the_timeout_holds_for_the_start_of_workers(persistent_workers):
    released, started = threading.Event(), []

    def init(number):
        assert released.wait(PATIENCE)
        started.append(number)

    loader = load(num_workers=2, worker_init_fn=init, timeout=0.01, persistent_workers=persistent_workers)
    batches = iter(loader)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="timed out after 0.01 seconds: `worker_init_fn` has not returned"):
            next(batches)
    loader.timeout = 0
    released.set()
    assert [int(batch.input_id[0]) for batch in batches] == list(range(0, 60, 10))
    assert sorted(started) == [0, 1]


def test_a_dropped_loader_is_freed_at_once():
    """The copy of the edges must not wait for the collector of cycles."""
    data, typed = random_data(), random_hetero()
    gc.collect()
    gc.disable()
    try:
        for make in (
            lambda: load(data),
            lambda: load(data, num_workers=2),
            lambda: load(data, num_workers=2, persistent_workers=True),
            lambda: edgecut.LinkNeighborLoader(data, [2], batch_size=100),
            lambda: edgecut.HGTLoader(typed, [2], "paper", batch_size=20),
            lambda: edgecut.ShaDowKHopSampler(data, 1, 2, batch_size=20),
        ):
            loader = make()
            assert len(list(loader)) > 0
            alive = weakref.ref(loader)
            del loader
            assert alive() is None
    finally:
        gc.enable()


STUCK = """
import os, signal, threading, torch, edgecut, edgecut.prefetch
from torch_geometric.data import Data

edgecut.prefetch.SHUTDOWN_TIMEOUT = 0.1
data = Data(x=torch.randn(60, 3), edge_index=torch.randint(60, (2, 300)))

def stuck(batch):
    {when_stuck}
    threading.Event().wait()

next(iter(edgecut.NeighborLoader(data, [2], batch_size=10, num_workers=1, transform=stuck, timeout={timeout})))
"""


@pytest.mark.parametrize(
    ("when_stuck", "timeout", "error"),
    [("pass", 0.1, "RuntimeError: DataLoader timed out"), ("os.kill(os.getpid(), signal.SIGINT)", 0, "KeyboardInterrupt")],
)
def test_a_program_ends_although_a_transform_is_stuck(when_stuck, timeout, error):
    program = STUCK.replace("{when_stuck}", when_stuck).replace("{timeout}", str(timeout))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0 and error in done.stderr, done.stderr


FORKED = """
import os, torch, edgecut
from torch_geometric.data import Data

data = Data(x=torch.zeros(20, 1), edge_index=torch.arange(20).repeat(2, 1))
loader = edgecut.NeighborLoader(data, [2], batch_size=10, num_workers=1, persistent_workers=True)
list(loader)
child = os.fork()
if child == 0:
    try:
        list(loader)
    except RuntimeError as error:
        os._exit(0 if "was forked" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
list(loader)
"""


def test_a_forked_process_has_no_threads_of_a_loader():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
