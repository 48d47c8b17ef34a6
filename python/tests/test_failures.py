"""Wrong arguments, damaged files, signals and ranks that die."""

import inspect
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import PATIENCE, PROGRAMS, partition, start

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
            ("num_neighbors", {"num_neighbors": [-2]}),
            ("`batch_size` is 0, but must be at least 1", {"batch_size": 0}),
            ("2000 is not one of the 2000 nodes", {"input_nodes": [5, 2000]}),
            ("-1 is not one of", {"input_nodes": [-1]}),
            ("whole numbers", {"input_nodes": [0.5]}),
            ("mask has the shape", {"input_nodes": np.ones(3, bool)}),
            ("no node type 'trian'", {"input_nodes": "trian"}),
            ("whole numbers, not '15,10'", {"num_neighbors": "15,10"}),
            ("`input_time` has 1 entries for 2", {"input_nodes": [1, 2], "input_time": [1], "time_attr": "time"}),
            ("`input_time` needs `time_attr`", {"input_time": [1]}),
            ("has a node twice, which needs `disjoint=True`", {"input_nodes": [5, 6, 5]}),
            ("`time_attr`", {"time_attr": "when"}),
            ("`temporal_strategy`", {"temporal_strategy": "first"}),
            ("`weight_attr`", {"weight_attr": "w"}),
            ("`sampler`", {"sampler": "layer"}),
            ("`batch_dependency`: neighbor sampling draws each batch independently", {"batch_dependency": 4}),
            ("`batch_dependency` is 0", {"sampler": "labor", "batch_dependency": 0}),
            ("labor.* and sampling with replacement exclude each other", {"sampler": "labor", "replace": True}),
            ("`output`", {"output": "dgl"}),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.NeighborLoader(store, **{"num_neighbors": [5], **arguments})
        with pytest.raises(TypeError, match="no argument `bach_size`"):
            edgecut.NeighborLoader(store, [5], bach_size=3)
        with pytest.warns(UserWarning, match="`pin_memory` has no effect"):
            edgecut.NeighborLoader(store, [5], pin_memory=True)
        for nodes, example in ((None, "'train'"), ("test", "'test'"), ([1], "ids")):
            with pytest.raises(ValueError, match=rf"must name one of the node types v0, v1, v2, as in \('v0', {example}\)"):
                edgecut.NeighborLoader(typed, [5], nodes)
        (labeled,) = [t.name for t in typed.node_types if sum(t.split_sizes) > 0]
        other = next(t.name for t in typed.node_types if t.name != labeled)
        with pytest.raises(ValueError, match=f"no node of type {other} is in the split 'train': only {labeled} has"):
            edgecut.NeighborLoader(typed, [5], (other, "train"))


def test_modules_of_the_package_are_attributes():
    code = "import sys, edgecut; assert 'torch' not in sys.modules; print(edgecut.convert.convert.__name__, *dir(edgecut))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    function, *names = done.stdout.split()
    assert function == "convert" and {"torch", "NeighborLoader", "HGTLoader"} <= set(names)
    assert not {"importlib", "Any", "arguments", "loader"} & set(names)
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    code = "import edgecut; print(edgecut.torch.load_model.__name__, edgecut.pyg_sampler.NeighborSampler.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split() == ["load_model", "NeighborSampler"], (done.stderr, torch)


def test_a_damaged_part_is_an_error_that_names_the_file(tmp_path):
    damaged = partition(tmp_path / "parts", "fake", 1, "--avg-num-nodes", 100)
    file = next(damaged.rglob("indices.npy"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(edgecut.EdgecutError, match="indices.npy"):
        edgecut.open(damaged)


def test_distributed_needs_a_launcher(parts):
    program = "import sys, edgecut; edgecut.distributed.init(); edgecut.open(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, parts[1]], capture_output=True, text=True, timeout=PATIENCE)
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
    _, errors = ranks[0].communicate(timeout=PATIENCE)
    # A request that is late, or a silent rank, would be an error as well.
    found = re.search(r"EdgecutError: .*rank 1 at \S+ failed: its process ended before the job was done", errors)
    assert ranks[0].returncode == 1 and found, errors
    ranks[1].communicate()


def test_the_exception_of_a_rank_is_told_to_the_others(parts):
    ranks = start(WORK, 2, parts[2], "fail")
    errors = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "ZeroDivisionError" in errors[1]
    assert "EdgecutError" in errors[0] and "a defect of the program" in errors[0], errors[0]


def test_interrupts_end_the_wait_for_a_batch(tmp_path):
    # To choose one of a million weighted edges for each of two million seeds takes hours.
    dataset = tmp_path / "hub"
    dataset.mkdir()
    np.save(dataset / "edge_index.npy", np.stack([np.arange(1_000_000) % 1000, np.zeros(1_000_000, np.int64)]))
    np.save(dataset / "edge_weight.npy", np.ones(1_000_000, np.float32))
    program = """
import sys, edgecut, numpy as np
store = edgecut.open(sys.argv[1])
seeds = np.zeros(2_000_000, np.int64)
loader = edgecut.NeighborLoader(store, [1], seeds, weight_attr="edge_weight", disjoint=True, batch_size=len(seeds), num_workers=1)
print("working", flush=True)
next(iter(loader))
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, dataset], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "working\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=PATIENCE)
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
    assert subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode == 0
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
    with pytest.raises(ValueError, match="`num_parts` is 0, but must be at least 1"):
        edgecut.partition(dataset, 0, tmp_path / "other")


@pytest.mark.parametrize(
    "waits",
    [
        "edgecut.open(sys.argv[1])",
        "edgecut.fake_graphs(20)",
        f"edgecut.connect('127.0.0.1:1', timeout={2 * PATIENCE})",
    ],
)
def test_interrupts_end_the_wait_for_other_processes(parts, waits):
    """The first rank of two waits for the second one, which is not started, for longer than this test waits."""
    program = f"import sys, edgecut\nedgecut.distributed.init(timeout={2 * PATIENCE})\nprint('waiting', flush=True)\n{waits}"
    (rank,) = start(program, 2, parts[2], only=[0])
    assert rank.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    rank.send_signal(signal.SIGINT)
    _, errors = rank.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors, errors


@pytest.mark.parametrize("waits", ["store.close()", "edgecut.NeighborLoader(store, [3])"])
def test_interrupts_end_the_wait_for_a_call_of_other_processes(parts, waits):
    program = f"""
import sys, time, edgecut
edgecut.distributed.init(collective_timeout={2 * PATIENCE})
store = edgecut.open(sys.argv[1])
print("waiting", flush=True)
if store.rank == 0:
    {waits}
time.sleep({2 * PATIENCE})
"""
    ranks = start(program, 2, parts[2])
    assert [rank.stdout.readline() for rank in ranks] == ["waiting\n"] * 2
    time.sleep(0.5)
    ranks[0].send_signal(signal.SIGINT)
    _, errors = ranks[0].communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors, errors
    ranks[1].kill()
    ranks[1].communicate()


FORKED = """
import gc, os, sys, edgecut, numpy as np
from edgecut import _edgecut

path = sys.argv[1]
store, graphs = edgecut.open(path), edgecut.fake_graphs(20)
graph, native_set = store._graph, graphs._set
loader = edgecut.NeighborLoader(store, [3], batch_size=50, output="numpy")
links = edgecut.LinkNeighborLoader(store, [3], batch_size=50, output="numpy")
of_graphs = edgecut.GraphDataLoader(graphs, batch_size=5, output="numpy")
epoch = iter(loader)
next(epoch)
batches = loader._loader.epoch(0)
socket = _edgecut.MasterSocket(False)
settings = {"method": "random", "seed": 0, "to_undirected": False, "add_reverse_edges": False, "split": None,
            "assignment": None, "edge_ids": False, "overwrite": False}
of_sampler = {"num_neighbors": {"others": [2], "named": []}, "replace": False, "disjoint": False, "weighted": False,
              "time_attr": None, "temporal_strategy": "uniform", "sampler": "labor", "batch_dependency": 2}
sampler = _edgecut.Sampler(graph, of_sampler)
seeds = {"nodes": [np.arange(5)], "times": None, "excluded": [], "seed": 1, "batch": 0}
assert len(sampler.sample(seeds)["nodes"][0][0]) >= 5
# By entry of the native module, calls that reach it.
entries = {
    "Graph.open": [lambda: edgecut.open(path)],
    "Graph.connect": [lambda: edgecut.connect("127.0.0.1:1")],
    "Graph.rank": [lambda: store.rank],
    "Graph.world_size": [lambda: store.world_size],
    "Graph.num_parts": [lambda: graph.num_parts],
    "Graph.meta": [graph.meta],
    "Graph.warnings": [graph.warnings],
    "Graph.close": [graph.close],
    "Graph.abort": [lambda: graph.abort("a reason")],
    "Graph.leave_at_exit": [lambda: graph.leave_at_exit(None)],
    "Graph.in_memory": [lambda: _edgecut.Graph.in_memory([{"num_nodes": 3, "times": None}], [], None)],
    "Sampler": [lambda: _edgecut.Sampler(graph, of_sampler)],
    "Sampler.sample": [lambda: sampler.sample(seeds)],
    "Loader.epoch": [lambda: next(iter(loader)), lambda: list(links)],
    "Loader.warnings": [loader._loader.warnings],
    "Loader": [lambda: edgecut.NeighborLoader(store, [3]), lambda: len(loader)],
    "Batches": [lambda: next(epoch), lambda: next(batches)],
    "GraphSet.open": [lambda: edgecut.open_graphs(path)],
    "GraphSet.generate": [lambda: edgecut.fake_graphs(5)],
    **{f"GraphSet.{name}": [lambda name=name: getattr(native_set, name)] for name in (
        "rank", "world_size", "name", "num_nodes", "num_edges", "num_features", "num_edge_features", "fingerprint", "classes",
        "labels", "targets")},
    "GraphSet.split": [graphs.split],
    "GraphSet.folds": [graphs.folds],
    "GraphSet.close": [native_set.close],
    "GraphSet.abort": [lambda: native_set.abort("a reason")],
    "GraphSet.leave_at_exit": [lambda: native_set.leave_at_exit(None)],
    "GraphLoader": [lambda: edgecut.GraphDataLoader(graphs)],
    "GraphLoader.num_batches": [lambda: len(of_graphs)],
    "GraphLoader.epoch": [lambda: next(iter(of_graphs))],
    "MasterSocket": [lambda: _edgecut.MasterSocket(False)],
    "MasterSocket.port": [lambda: socket.port],
    "node_attribute": [lambda: _edgecut.node_attribute(graph, 0, "x", np.arange(3))],
    "split_nodes": [lambda: store.split("train")],
    "whole_edges": [lambda: _edgecut.whole_edges(graph, 0)],
    "are_reverses": [lambda: _edgecut.are_reverses(("a", "x", "b"), ("b", "rev_x", "a"))],
    "partition": [lambda: _edgecut.partition("x", 1, "y", settings)],
}
natives = {name: value for name, value in vars(_edgecut).items() if not name.startswith("_") and name != "EdgecutError"}
named = set(natives)
for name, value in natives.items():
    if isinstance(value, type):
        named |= {f"{name}.{member}" for member in vars(value) if not member.startswith("_")}
# Opened by static methods only.
named -= {"Graph", "GraphSet"}
assert named == set(entries), named ^ set(entries)
child = os.fork()
if child == 0:
    for name, calls in entries.items():
        for call in calls:
            try:
                call()
            except edgecut.EdgecutError as error:
                assert "forked" in str(error) and "spawn" in str(error), (name, error)
            else:
                raise AssertionError(f"{name} works in a forked process")
    # A forked process is no process of the job, so that it has nothing to leave.
    with store, graphs:
        pass
    del entries, store, graphs, graph, native_set, sampler, loader, links, of_graphs, epoch, batches, socket, calls, call
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert sum(batch["batch_size"] for batch in loader) == 2000 and len(list(of_graphs)) == 4
store.close()
"""


def test_every_entry_is_an_error_in_a_forked_process(parts):
    done = subprocess.run([sys.executable, "-c", FORKED, parts[1]], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "forked process" not in done.stderr, done.stderr


def test_a_forked_process_can_use_what_its_parent_has_not_used(parts):
    program = """
import os, sys, edgecut
child = os.fork()
if child == 0:
    with edgecut.open(sys.argv[1]) as store:
        loader = edgecut.NeighborLoader(store, [3], batch_size=100, output="numpy")
        assert sum(batch["batch_size"] for batch in loader) == 2000
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
edgecut.distributed.init()
child = os.fork()
if child == 0:
    try:
        edgecut.open(sys.argv[1])
    except edgecut.EdgecutError as error:
        os._exit(0 if "call it in each process of the job" in str(error) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program, parts[1]], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


WORKERS = """
import sys, traceback, edgecut, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Batches(IterableDataset):
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        return iter(self.loader)

class OpenedInWorkers(IterableDataset):
    def __init__(self, path):
        self.path = path
    def __iter__(self):
        with edgecut.open(self.path) as store:
            yield from edgecut.NeighborLoader(store, [3], batch_size=1000, output="numpy")

class Rows(Dataset):
    def __init__(self, features):
        self.features = features
    def __len__(self):
        return 100
    def __getitem__(self, row):
        return self.features.get_tensor(group_name=None, attr_name="x", index=torch.tensor([row]))[0]

def outcome(dataset, num_workers, **more):
    try:
        loader = DataLoader(dataset, num_workers=num_workers, multiprocessing_context=method, timeout=60, **more)
        return [batch for batch in loader]
    except (edgecut.EdgecutError, TypeError) as error:
        # PyTorch's frames refer to the error, and a collection of such a cycle waits 5 seconds for each worker.
        traceback.clear_frames(error.__traceback__)
        return str(error)

if __name__ == "__main__":
    path, method = sys.argv[1:]
    # Other processes than forked ones import PyTorch again, which takes seconds.
    num_workers = 2 if method == "fork" else 1
    opened = outcome(OpenedInWorkers(path), 1, batch_size=None)
    assert sum(batch["batch_size"] for batch in opened) == 2000, opened
    store = edgecut.open(path)
    refused = outcome(Batches(edgecut.NeighborLoader(store, [3], batch_size=50)), num_workers, batch_size=None)
    features, _ = store.to_pyg()
    rows = outcome(Rows(features), num_workers, batch_size=10)
    if method == "fork":
        assert "forked" in refused and "spawn" in rows, (refused, rows)
    else:
        assert "a NeighborLoader cannot be sent to another process" in refused, refused
        assert torch.equal(torch.cat(rows), features.get_tensor(None, "x", slice(0, 100))), rows
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_of_pytorch_work_or_fail_at_once(parts, tmp_path, method):
    pytest.importorskip("torch_geometric")
    program = tmp_path / "workers.py"
    program.write_text(WORKERS)
    done = subprocess.run([sys.executable, program, parts[1], method], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_wrong_types_are_named_as_the_caller_wrote_them(parts, tmp_path):
    """Each argument with a type is checked, in every public function."""
    with edgecut.open(parts[1]) as store:
        graphs = edgecut.fake_graphs(5)
        folder = tmp_path / "parts"
        cases = [
            (lambda **more: edgecut.NeighborLoader(store, [5], **more), edgecut.NeighborLoader),
            (lambda **more: edgecut.LinkNeighborLoader(store, [5], **more), edgecut.LinkNeighborLoader),
            (lambda **more: edgecut.GraphDataLoader(graphs, **more), edgecut.GraphDataLoader),
            (lambda **more: edgecut.open(**{"path": parts[1], **more}), edgecut.open),
            (lambda **more: edgecut.connect(**{"servers": "127.0.0.1:1", "timeout": 0.1, **more}), edgecut.connect),
            (lambda **more: edgecut.open_graphs(**{"path": parts[1], **more}), edgecut.open_graphs),
            (edgecut.fake_graphs, edgecut.fake_graphs),
            (lambda **more: edgecut.partition(**{"path": parts[1], "num_parts": 1, "output_dir": folder, **more}), edgecut.partition),
            (edgecut.distributed.init, edgecut.distributed.init),
            (lambda **more: store.split(**{"name": "train", **more}), edgecut.Store.split),
            (graphs.split, edgecut.GraphDataset.split),
            (graphs.folds, edgecut.GraphDataset.folds),
        ]
        named = set()
        for call, function in cases:
            for parameter in inspect.signature(function).parameters.values():
                kinds = str(parameter.annotation).replace(" | None", "").split(" | ")
                if not {"int", "bool", "float", "str", "Callable[[Any], Any]"} & set(kinds) or "Sequence[str]" in kinds:
                    continue
                # No argument takes a complex number.
                with pytest.raises(TypeError, match=f"^`{parameter.name}` must be .*, not 1j"):
                    call(**{parameter.name: 1j})
                named.add((function.__name__, parameter.name))
                if kinds == ["int"]:
                    for wrong in (True, 1.5):
                        with pytest.raises(TypeError, match=f"^`{parameter.name}` must be a whole number"):
                            call(**{parameter.name: wrong})
                    for wrong in (-1, 2**64):
                        with pytest.raises(ValueError, match=f"^`{parameter.name}` is {wrong}"):
                            call(**{parameter.name: wrong})
        assert len(named) > 50
        with pytest.raises(TypeError, match="^`data` must be a Store, not 'graph'"):
            edgecut.NeighborLoader("graph", [5])
        for why, wrong in [("whole numbers", [1.5]), ("whole numbers", ["a"]), ("one dimension", 5), ("cannot become", [[1], [2, 3]])]:
            with pytest.raises(ValueError, match=f"`num_neighbors` .*{why}"):
                edgecut.NeighborLoader(store, wrong)
        with pytest.raises(ValueError, match="`input_nodes` cannot become an array"):
            edgecut.NeighborLoader(store, [5], [[1], [2, 3]])
        with pytest.raises(TypeError, match="`servers` must be"):
            edgecut.connect([5])
        # Scalars of NumPy are numbers.
        loader = edgecut.NeighborLoader(store, np.array([5]), batch_size=np.int64(7), disjoint=np.bool_(True), output="numpy")
        assert next(iter(loader))["batch_size"] == 7


def test_settings_that_do_not_fit_the_graph_are_value_errors(typed_parts):
    with edgecut.open(typed_parts[1]) as typed:
        known = ", ".join("__".join(t.name) for t in typed.edge_types)
        for arguments in [
            {"num_neighbors": {("v0", "likes", "v1"): [5]}},
            {"num_neighbors": {"likes": [5]}},
        ]:
            with pytest.raises(ValueError, match=f"num_neighbors names edge type .*likes.*, but the graph has {known}"):
                edgecut.NeighborLoader(typed, input_nodes="v0", **arguments)
        with pytest.raises(ValueError, match="^num_neighbors has nothing for edge type"):
            edgecut.NeighborLoader(typed, {typed.edge_types[0].name: [5]}, "v0")
        with pytest.raises(ValueError, match="^weighted sampling needs a weight"):
            edgecut.NeighborLoader(typed, [5], "v0", weight_attr="edge_weight")
        with pytest.raises(TypeError, match="neither a relation nor a triple"):
            edgecut.NeighborLoader(typed, {5: [5]}, "v0")
