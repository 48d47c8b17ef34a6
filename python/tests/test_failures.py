"""Wrong arguments, damaged files, signals and ranks that die."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import PROGRAMS, partition, start

import edgecut


def test_wrong_arguments_are_value_errors(parts, typed_parts, tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        edgecut.open(tmp_path / "missing")
    with pytest.raises(ValueError, match="`to_undirected` and `split` are for a dataset"):
        edgecut.open(parts[1], to_undirected=True)
    tmp_path.joinpath("empty").mkdir()
    with pytest.raises(ValueError, match="META.json is missing"):
        edgecut.open(tmp_path / "empty")
    with edgecut.open(parts[1]) as store, edgecut.open(typed_parts[1]) as typed:
        for why, arguments in [
            ("num_neighbors", {"num_neighbors": [0]}),
            ("`batch_size` must be at least 1", {"batch_size": 0}),
            ("2000 is not one of the 2000 nodes", {"input_nodes": [5, 2000]}),
            ("-1 is not one of", {"input_nodes": [-1]}),
            ("whole numbers", {"input_nodes": [0.5]}),
            ("mask has the shape", {"input_nodes": np.ones(3, bool)}),
            ("no node type 'trian'", {"input_nodes": "trian"}),
            ("`input_time` has 1 entries for 2", {"input_nodes": [1, 2], "input_time": [1], "time_attr": "time"}),
            ("`input_time` needs", {"input_time": [1]}),
            ("`time_attr`", {"time_attr": "when"}),
            ("`temporal_strategy`", {"temporal_strategy": "first"}),
            ("`weight_attr`", {"weight_attr": "w"}),
            ("`output`", {"output": "dgl"}),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.NeighborLoader(store, **{"num_neighbors": [5], **arguments})
        with pytest.raises(TypeError, match="no argument `bach_size`"):
            edgecut.NeighborLoader(store, [5], bach_size=3)
        with pytest.warns(UserWarning, match="`pin_memory` has no effect"):
            edgecut.NeighborLoader(store, [5], pin_memory=True)
        with pytest.raises(ValueError, match="must name one of the node types v0, v1, v2"):
            edgecut.NeighborLoader(typed, [5])


def test_a_damaged_part_is_an_error_that_names_the_file(tmp_path):
    damaged = partition(tmp_path / "parts", "fake", 1, "--avg-num-nodes", 100)
    file = next(damaged.rglob("indices.npy"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(edgecut.EdgecutError, match="indices.npy"):
        edgecut.open(damaged)


def test_distributed_needs_a_launcher(parts):
    program = "import sys, edgecut; edgecut.distributed.init(); edgecut.open(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, parts[1]], capture_output=True, text=True, timeout=60)
    assert "ValueError: no launcher has set RANK and WORLD_SIZE" in done.stderr, done.stderr
    with pytest.raises(ValueError, match="between 1 and 65535"):
        edgecut.distributed.init(master_port=70000)


WORK = """
import sys, edgecut
edgecut.distributed.init()
store = edgecut.open(sys.argv[1])
loader = edgecut.NeighborLoader(store, [5, 5], batch_size=10, output="numpy")
step = 0
while True:
    for batch in loader:
        step += 1
        if step == 20:
            print("working", flush=True)
        if step == 40 and len(sys.argv) > 2 and store.rank == 1:
            raise ZeroDivisionError("a defect of the program")
"""


# A loader of whole graphs, which needs nothing from other processes.
WORK_ON_GRAPHS = """
import sys, time, edgecut
edgecut.distributed.init()
store = edgecut.fake_graphs(200)
loader = edgecut.GraphDataLoader(store, batch_size=10, output="numpy")
print("working", flush=True)
while True:
    for batch in loader:
        time.sleep(0.01)
"""


@pytest.mark.parametrize("program", [WORK, WORK_ON_GRAPHS])
def test_the_death_of_a_rank_is_an_error_of_the_others(parts, program):
    ranks = start(program, 2, parts[2])
    for rank in ranks:
        assert rank.stdout.readline() == "working\n", rank.communicate()
    ranks[1].kill()
    killed = time.monotonic()
    _, errors = ranks[0].communicate(timeout=15)
    assert time.monotonic() - killed < 15
    assert ranks[0].returncode == 1 and "EdgecutError" in errors and "rank 1" in errors, errors
    ranks[1].communicate()


def test_the_exception_of_a_rank_is_told_to_the_others(parts):
    ranks = start(WORK, 2, parts[2], "fail")
    errors = [rank.communicate(timeout=30)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "ZeroDivisionError" in errors[1]
    assert "EdgecutError" in errors[0] and "a defect of the program" in errors[0], errors[0]


def test_interrupts_end_the_wait_for_a_batch(parts):
    program = """
import sys, edgecut
store = edgecut.open(sys.argv[1])
loader = edgecut.NeighborLoader(store, [100, 100, 100, 100], batch_size=2000, disjoint=True, num_workers=1)
print("working", flush=True)
while True:
    list(loader)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, parts[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "working\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=15)
    assert "KeyboardInterrupt" in errors, errors


def test_partition_writes_what_the_program_writes(tmp_path):
    dataset = tmp_path / "graph"
    dataset.mkdir()
    draw = np.random.default_rng(0)
    np.save(dataset / "edge_index.npy", draw.integers(0, 50, (2, 400)))
    np.save(dataset / "x.npy", draw.random((50, 4), np.float32))
    np.save(dataset / "y.npy", draw.integers(0, 3, 50))
    made = edgecut.partition(dataset, 2, tmp_path / "by-python", seed=5)
    flags = ["--dataset", "graph", "--dataset-dir", dataset, "--num-partitions", 2, "--seed", 5]
    command = [PROGRAMS / "partition-graph", *map(str, flags), "--output-dir", tmp_path / "by-program"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    files = lambda name: {f.relative_to(tmp_path / name): f.read_bytes() for f in (tmp_path / name).rglob("*") if f.is_file()}
    assert files("by-python") == files("by-program")
    assert made["num_parts"] == 2 and made["provenance"]["method"] == "metis"
    # A dataset and its parts have the same batches.
    with edgecut.open(dataset) as whole, edgecut.open(tmp_path / "by-python") as parts:
        for one, other in zip(*(edgecut.NeighborLoader(s, [3], np.arange(50), batch_size=20, output="numpy") for s in (whole, parts))):
            assert np.array_equal(one["n_id"], other["n_id"]) and np.array_equal(one["x"], other["x"])
    with pytest.raises(edgecut.EdgecutError, match="exists already"):
        edgecut.partition(dataset, 2, tmp_path / "by-python")
    with pytest.raises(ValueError, match="choose from metis, semi-external, ldg and random"):
        edgecut.partition(dataset, 2, tmp_path / "other", method="kahip")
    with pytest.raises(ValueError, match="`num_parts` is 0"):
        edgecut.partition(dataset, 0, tmp_path / "other")


@pytest.mark.parametrize(
    "waits",
    [
        "edgecut.open(sys.argv[1])",
        "edgecut.fake_graphs(20)",
        "edgecut.connect('127.0.0.1:1', timeout=100)",
    ],
)
def test_interrupts_end_the_wait_for_other_processes(parts, waits):
    """The first rank of two waits for the second one, which is not started."""
    program = f"import sys, edgecut\nedgecut.distributed.init()\nprint('waiting', flush=True)\n{waits}"
    (rank,) = start(program, 2, parts[2], only=[0])
    assert rank.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    rank.send_signal(signal.SIGINT)
    _, errors = rank.communicate(timeout=15)
    assert "KeyboardInterrupt" in errors, errors


@pytest.mark.parametrize("waits", ["store.close()", "edgecut.NeighborLoader(store, [3])"])
def test_interrupts_end_the_wait_for_a_call_of_other_processes(parts, waits):
    program = f"""
import sys, time, edgecut
edgecut.distributed.init()
store = edgecut.open(sys.argv[1])
print("waiting", flush=True)
if store.rank == 0:
    {waits}
time.sleep(100)
"""
    ranks = start(program, 2, parts[2])
    assert [rank.stdout.readline() for rank in ranks] == ["waiting\n"] * 2
    time.sleep(0.5)
    ranks[0].send_signal(signal.SIGINT)
    _, errors = ranks[0].communicate(timeout=15)
    assert "KeyboardInterrupt" in errors, errors
    ranks[1].kill()
    ranks[1].communicate()
