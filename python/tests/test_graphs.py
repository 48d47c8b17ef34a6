"""Batches of whole graphs."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENCE, finished, start

import edgecut


@pytest.fixture(scope="module")
def tu(tmp_path_factory):
    """A set of graphs with attributes and labels of nodes and labels of edges, in a layout that PyG reads as well."""
    folder = tmp_path_factory.mktemp("tu") / "SMALL"
    folder.joinpath("raw").mkdir(parents=True)
    draw = np.random.default_rng(4)
    sizes = draw.integers(1, 9, 40)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    # Among the graphs are some without edges, and nodes without edges.
    edges = [starts[g] + draw.integers(0, n, (2, draw.integers(0, 3 * n))) for g, n in enumerate(sizes)]
    # PyG leaves out self loops and repeated edges.
    edges = np.unique(np.concatenate(edges, axis=1), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    num_nodes, num_edges = starts[-1], edges.shape[1]

    def write(name, rows):
        text = "".join(", ".join(map(str, np.atleast_1d(row))) + "\n" for row in rows)
        folder.joinpath("raw", f"SMALL_{name}.txt").write_text(text)

    write("A", edges.T + 1)
    write("graph_indicator", np.repeat(np.arange(1, len(sizes) + 1), sizes))
    write("graph_labels", draw.choice([-1, 4, 7], len(sizes)))
    write("node_attributes", draw.random((num_nodes, 2)).round(3))
    write("node_labels", np.concatenate([[0, 1, 2], draw.integers(0, 3, num_nodes - 3)]))
    write("edge_labels", np.concatenate([[0, 1], draw.integers(0, 2, num_edges - 2)]))
    return folder


def columns(edge_index, edge_attr):
    """Edges with their features, in an order of their own."""
    return sorted(map(tuple, np.concatenate([edge_index, edge_attr.T]).T.tolist()))


def test_batches_are_those_of_pyg(tu):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.datasets import TUDataset
    from torch_geometric.loader import DataLoader

    expected = TUDataset(str(tu.parent), "SMALL", use_node_attr=True, use_edge_attr=True)
    dataset = edgecut.open_graphs(tu)
    assert len(dataset) == len(expected) == 40
    assert (dataset.num_features, dataset.num_edge_features) == (expected.num_node_features, expected.num_edge_features)
    assert dataset.num_classes == expected.num_classes and dataset.classes.tolist() == [-1, 4, 7]
    assert dataset.y.tolist() == [int(graph.y) for graph in expected]
    loader = edgecut.GraphDataLoader(dataset, batch_size=16)
    assert len(loader) == 3
    for batch, other in zip(loader, DataLoader(expected, batch_size=16), strict=True):
        batch.validate()
        assert type(batch).__name__ == "DataBatch" and batch.num_graphs == other.num_graphs
        for name in ("x", "y", "batch", "ptr"):
            assert torch.equal(batch[name], other[name]) and batch[name].dtype == other[name].dtype, name
        assert columns(batch.edge_index.numpy(), batch.edge_attr.numpy()) == columns(other.edge_index.numpy(), other.edge_attr.numpy())
        # In the order of the targets, as kernels want them.
        assert (batch.edge_index[1].diff() >= 0).all()
        for graph, original in zip(batch.to_data_list(), other.to_data_list(), strict=True):
            assert graph.num_nodes == original.num_nodes and torch.equal(graph.x, original.x)
            assert torch.equal(graph.y, original.y)
            assert columns(graph.edge_index.numpy(), graph.edge_attr.numpy()) == columns(
                original.edge_index.numpy(), original.edge_attr.numpy()
            )


def test_arguments_choose_graphs_sizes_and_order(tu):
    dataset = edgecut.open_graphs(tu)
    load = lambda **more: edgecut.GraphDataLoader(dataset, **{"batch_size": 16, "output": "numpy", **more})
    numbers = lambda loader: np.concatenate([batch["input_id"] for batch in loader])
    assert np.array_equal(numbers(load()), np.arange(40))
    chosen = [7, 3, 31]
    batch = next(iter(load(graphs=chosen)))
    assert batch["input_id"].tolist() == chosen and batch["num_graphs"] == 3
    assert np.array_equal(batch["y"], dataset.y[chosen])
    assert np.array_equal(numbers(load(graphs=dataset.y == 1)), np.flatnonzero(dataset.y == 1))
    shuffled = load(shuffle=True, seed=5)
    first, second = numbers(shuffled), numbers(shuffled)
    assert sorted(first) == sorted(second) == list(range(40)) and not np.array_equal(first, second)
    shuffled.set_epoch(0)
    assert np.array_equal(numbers(shuffled), first)
    assert [batch["num_graphs"] for batch in load(drop_last=True)] == [16, 16]
    with pytest.warns(UserWarning, match="`drop_last` leaves out all batches"):
        assert list(load(drop_last=True, batch_size=41)) == []
    packed = load(max_num_nodes=30)
    sizes = [len(batch["batch"]) for batch in packed]
    assert max(sizes) <= 30 and sum(sizes) == dataset.num_nodes and len(packed) == len(sizes)
    assert [batch for batch in load(transform=lambda batch: batch["num_graphs"])] == [16, 16, 8]
    train, valid, test = dataset.split([0.5, 0.25, 0.25], seed=1)
    assert sorted([*train, *valid, *test]) == list(range(40)) and len(valid) == len(test) == 10
    folds = dataset.folds(4)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(40))
    assert all(sorted([*train, *test]) == list(range(40)) for train, test in folds)


def test_graphs_without_features_have_their_degrees():
    dataset = edgecut.fake_graphs(num_graphs=30, num_classes=3, seed=2)
    assert len(dataset) == 30 and dataset.num_classes == 3
    batch = next(iter(edgecut.GraphDataLoader(dataset, batch_size=30, output="numpy")))
    degrees = np.bincount(batch["edge_index"][1], minlength=len(batch["batch"]))
    distinct = np.unique(degrees)
    assert np.array_equal(batch["x"], (degrees[:, None] == distinct).astype(np.float32))
    assert "edge_attr" not in batch


def test_wrong_arguments_are_value_errors(tu, tmp_path):
    dataset = edgecut.open_graphs(tu)
    for why, arguments in [
        ("40 is not one of the 40 graphs", {"graphs": [40]}),
        ("-1 is not one of", {"graphs": [-1]}),
        ("whole numbers", {"graphs": [0.5]}),
        ("mask has the shape", {"graphs": np.ones(3, bool)}),
        ("a mask has the type bool", {"graphs": np.arange(40) % 2}),
        ("batch size must be", {"batch_size": 0}),
        ("nodes", {"max_num_nodes": 1}),
        ("`output`", {"output": "dgl"}),
    ]:
        with pytest.raises(ValueError, match=why):
            edgecut.GraphDataLoader(dataset, **arguments)
    with pytest.raises(TypeError, match="no argument `bach_size`"):
        edgecut.GraphDataLoader(dataset, bach_size=3)
    with pytest.raises(ValueError, match="`fractions` is \\[0.5, 0.5\\]: give three numbers"):
        dataset.split([0.5, 0.5])
    with pytest.raises(ValueError, match="their sum must be 1"):
        dataset.split([0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="41 folds of 40 graphs"):
        dataset.folds(41)
    with pytest.raises(ValueError, match="there is no folder"):
        edgecut.open_graphs(tmp_path / "missing")
    with pytest.raises(edgecut.EdgecutError, match="no file SET_A.txt"):
        tmp_path.joinpath("SET").mkdir()
        edgecut.open_graphs(tmp_path / "SET")
    broken = tmp_path / "BROKEN"
    broken.mkdir()
    for file in tu.joinpath("raw").iterdir():
        broken.joinpath(file.name.replace("SMALL", "BROKEN")).write_bytes(file.read_bytes())
    broken.joinpath("BROKEN_graph_labels.txt").write_text("1\n2\n")
    with pytest.raises(edgecut.EdgecutError, match="BROKEN_graph_labels.txt"):
        edgecut.open_graphs(broken)


@pytest.mark.parametrize("name", ["A", "node_attributes"])
def test_a_set_that_has_changed_is_an_error_in_another_process(tu, tmp_path, name):
    shutil.copytree(tu, tmp_path / "SMALL")
    sent = pickle.dumps(edgecut.open_graphs(tmp_path / "SMALL"))
    pickle.loads(sent).close()
    file = tmp_path / "SMALL" / "raw" / f"SMALL_{name}.txt"
    first, *others = file.read_text().splitlines()
    # The numbers of graphs, nodes and edges stay the same.
    changed = "9.5, 9.5" if name == "node_attributes" else ", ".join(first.split(", ")[::-1])
    file.write_text("\n".join([changed, *others]) + "\n")
    with pytest.raises(edgecut.EdgecutError, match="have changed since"):
        pickle.loads(sent)


RANKS = """
import pickle, sys, edgecut
edgecut.distributed.init()
with edgecut.open_graphs(sys.argv[1]) as dataset:
    loader = edgecut.GraphDataLoader(dataset, batch_size=7, shuffle=True, seed=3, output="numpy")
    assert len(loader) == 3
    pickle.dump((dataset.rank, dataset.y, list(loader)), open(sys.argv[2] + str(dataset.rank), "wb"))
"""


def test_two_processes_see_every_graph_once(tu, tmp_path):
    finished(start(RANKS, 2, tu, tmp_path / "rank"))
    made = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(2)]
    assert [rank for rank, _, _ in made] == [0, 1]
    # A step has the graphs of a batch of twice the size in one process, in the same order.
    dataset = edgecut.open_graphs(tu)
    alone = list(edgecut.GraphDataLoader(dataset, batch_size=14, shuffle=True, seed=3, output="numpy"))
    for step, batch in enumerate(alone):
        together = [made[rank][2][step] for rank in range(2)]
        for name in ("x", "y", "input_id", "edge_attr"):
            assert np.array_equal(np.concatenate([other[name] for other in together]), batch[name]), name


def test_processes_with_graphs_or_settings_of_their_own_are_refused(tu):
    program = """
import sys, edgecut
edgecut.distributed.init()
with edgecut.open_graphs(sys.argv[1]) as dataset:
    rank = dataset.rank
    for name, arguments in [
        ("graphs", {"graphs": [rank, 2]}),
        ("batch_size", {"batch_size": 2 + rank}),
        ("max_num_nodes", {"max_num_nodes": 200 + rank}),
        ("shuffle", {"shuffle": rank == 0, "seed": rank}),
        ("seed", {"shuffle": rank == 0, "seed": rank}),
        ("drop_last", {"drop_last": rank == 0}),
    ]:
        try:
            edgecut.GraphDataLoader(dataset, output="numpy", **arguments)
        except ValueError as error:
            assert f"{name} is " in str(error) and " on rank 0 and " in str(error), error
        else:
            raise AssertionError(f"other {name} were accepted")
    assert len(list(edgecut.GraphDataLoader(dataset, graphs=[0, 1], output="numpy"))) == 1
"""
    finished(start(program, 2, tu))


def test_a_set_without_graphs_for_a_process_has_an_empty_batch(tu, tmp_path):
    program = """
import sys, edgecut
edgecut.distributed.init()
with edgecut.open_graphs(sys.argv[1]) as dataset:
    batches = list(edgecut.GraphDataLoader(dataset, batch_size=2, graphs=[0], output="numpy"))
    print(*(batch["num_graphs"] for batch in batches))
"""
    ranks = start(program, 2, tu)
    outputs = [rank.communicate(timeout=PATIENCE) for rank in ranks]
    assert sorted(out for out, _ in outputs) == ["0\n", "1\n"], outputs


def test_memory_does_not_grow_and_arrays_outlive_the_loader():
    program = """
import numpy as np, edgecut
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
dataset = edgecut.fake_graphs(2000)
loader = edgecut.GraphDataLoader(dataset, batch_size=50, shuffle=True)
def load(batches):
    while batches > 0:
        batches -= sum(1 for _ in loader)
load(300)
before = resident()
load(1000)
grown = (resident() - before) / 1e6
batch = next(iter(loader))
kept, copy = batch["x"], np.array(batch["x"])
del batch, loader, dataset
edgecut.GraphDataLoader(edgecut.fake_graphs(2000), batch_size=50)
assert np.array_equal(kept, copy)
print(grown)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    # The arrays of 1,000 batches have several hundred megabytes.
    assert float(done.stdout) < 20, done.stdout


def test_a_model_of_pyg_learns_from_the_batches():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import GIN, global_add_pool

    torch.manual_seed(0)
    dataset = edgecut.fake_graphs(300)
    train, _, test = dataset.split(seed=1)
    model = GIN(dataset.num_features, 16, num_layers=3)
    head = torch.nn.Linear(16, dataset.num_classes)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
    predict = lambda batch: head(global_add_pool(model(batch.x, batch.edge_index), batch.batch, batch.num_graphs))
    loader = edgecut.GraphDataLoader(dataset, batch_size=32, shuffle=True, graphs=train)
    for _ in range(15):
        for batch in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(predict(batch), batch.y).backward()
            optimizer.step()
    model.eval()
    right = [(predict(b).argmax(1) == b.y).float().mean() for b in edgecut.GraphDataLoader(dataset, batch_size=99, graphs=test)]
    assert right[0] > 0.75, right
