"""The end of a program, as the other processes of its job see it."""

import pytest
from conftest import PATIENCE, finished, start

WAIT = """
import sys, edgecut
edgecut.distributed.init()
{opened}
{end_of_rank_1}
if store.rank == 0:
    store.close()
"""
GRAPH = 'store = edgecut.open(sys.argv[1])'
GRAPHS = "store = edgecut.fake_graphs(20)"


def run(parts, opened, end):
    """Run two ranks, of which the first waits for the end of the other. Returns their exit statuses and errors."""
    end = "if store.rank == 1:\n    " + end.replace("\n", "\n    ")
    ranks = start(WAIT.replace("{opened}", opened).replace("{end_of_rank_1}", end), 2, parts[2])
    # Without a report, the others would wait for minutes.
    errors = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    return [rank.returncode for rank in ranks], errors


# A store of whole graphs tells the end of its program in the same way as a store of a graph.
@pytest.mark.parametrize(
    ("opened", "end", "status", "reason"),
    [
        (GRAPH, "sys.exit(1)", 1, "exit status 1"),
        (GRAPH, "sys.exit('no more data')", 1, "exit status 1"),
        (GRAPHS, "raise SystemExit(7)", 7, "exit status 7"),
        (GRAPH, "with store:\n    sys.exit(3)", 3, "exit status 3"),
        (GRAPHS, "with store:\n    sys.exit(3)", 3, "exit status 3"),
        (GRAPH, "1 / 0", 1, "ZeroDivisionError"),
        (GRAPHS, "1 / 0", 1, "ZeroDivisionError"),
        (GRAPH, "sys.last_value = ZeroDivisionError()\nsys.exit(3)", 3, "exit status 3"),
        # It ends the program by a signal.
        (GRAPH, "raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
    ],
)
def test_a_failed_program_fails_the_others(parts, opened, end, status, reason):
    statuses, errors = run(parts, opened, end)
    assert statuses == [1, status], errors
    assert "EdgecutError" in errors[0] and "rank 1" in errors[0] and reason in errors[0], errors[0]


@pytest.mark.parametrize(
    ("opened", "end"),
    [
        (GRAPH, "sys.exit()"),
        (GRAPHS, "with store:\n    sys.exit(0)"),
        (GRAPH, "try:\n    sys.exit(1)\nexcept SystemExit:\n    pass"),
        # An interactive session goes on after an exception, and keeps it.
        (GRAPH, "import code\ncode.InteractiveInterpreter().runcode('1 / 0')\nassert sys.last_value"),
        (GRAPHS, "sys.ps1 = 'In: '\nsys.last_value = KeyboardInterrupt()"),
        # A child process ends without an effect on the job of its parent.
        (GRAPH, "import os\nchild = os.fork()\nif child == 0:\n    sys.exit(5)\nassert os.waitpid(child, 0)[1] >> 8 == 5"),
        (GRAPHS, "import os\nchild = os.fork()\nif child == 0:\n    sys.exit(5)\nassert os.waitpid(child, 0)[1] >> 8 == 5"),
    ],
)
def test_a_program_that_ends_well_leaves_the_job(parts, opened, end):
    statuses, errors = run(parts, opened, end)
    assert statuses == [0, 0] and "Error" not in errors[0], errors


def test_a_store_that_nothing_refers_to_stays_in_its_job(parts):
    program = """
import gc, sys, time, edgecut
edgecut.distributed.init()
def main():
    store = edgecut.open(sys.argv[1])
    loader = edgecut.NeighborLoader(store, [5, 5], batch_size=10, even_batches=False, output="numpy")
    time.sleep(1 - store.rank)
    if store.rank == 0:
        print(sum(batch["batch_size"] for batch in loader))
main()
gc.collect()
"""
    outputs = finished(start(program, 2, parts[2]))
    assert 900 < int(outputs[0]) < 1100


def test_processes_that_drop_the_last_batch_have_the_same_number_of_batches(parts):
    program = """
import sys, numpy as np, edgecut
edgecut.distributed.init()
with edgecut.open(sys.argv[1]) as store:
    for nodes, even in ((np.arange(202), None), ("train", False), (None, False), ("train", True)):
        arguments = {"batch_size": 64, "drop_last": True, "even_batches": even, "output": "numpy", "shuffle": True}
        loader = edgecut.NeighborLoader(store, [2], nodes, **arguments)
        sizes = [batch["batch_size"] for batch in loader]
        assert len(sizes) == len(loader) > 0 and (even or set(sizes) == {64}), sizes
        print(len(loader))
"""
    outputs = finished(start(program, 2, parts[2]))
    assert outputs[0] == outputs[1] and outputs[0].splitlines()[0] == "1"


def test_a_rank_serves_the_others_after_the_end_of_its_program(parts):
    program = """
import sys, time, edgecut
edgecut.distributed.init()
store = edgecut.open(sys.argv[1])
loader = edgecut.NeighborLoader(store, [5, 5], batch_size=10, even_batches=False, output="numpy")
if store.rank == 0:
    time.sleep(1)
    print(sum(batch["batch_size"] for batch in loader))
"""
    outputs = finished(start(program, 2, parts[2]))
    assert 900 < int(outputs[0]) < 1100
