"""Numbers to predict: several labels per node, and regression."""

import pickle

import numpy as np
import pytest
from conftest import finished, run, start
from test_servers import Servers

import edgecut

NUM_NODES = 400


@pytest.fixture(scope="module")
def graph(folder):
    """The targets of a dataset, its folder, and that of its two parts."""
    draw = np.random.default_rng(8)
    targets = draw.normal(size=(NUM_NODES, 3)).astype(np.float32)
    targets[::7, 1] = np.nan
    path = folder / "targets"
    path.mkdir()
    np.save(path / "edge_index.npy", draw.integers(0, NUM_NODES, (2, 3000)))
    np.save(path / "x.npy", draw.random((NUM_NODES, 4), np.float32))
    np.save(path / "targets.npy", targets)
    np.save(path / "train_mask.npy", np.arange(NUM_NODES) % 3 == 0)
    edgecut.partition(path, 2, folder / "targets-2", method="random")
    return targets, path, folder / "targets-2"


def assert_own_targets(batches, targets):
    seen = 0
    for batch in batches:
        inputs = batch["n_id"][: batch["batch_size"]]
        assert batch["y"].dtype == np.float32 and batch["y"].shape == (len(inputs), 3)
        assert np.array_equal(batch["y"], targets[inputs], equal_nan=True)
        seen += len(inputs)
    return seen


def load(store, nodes="train", **arguments):
    return edgecut.NeighborLoader(store, [5, 3], nodes, batch_size=32, output="numpy", **arguments)


def test_batches_have_the_targets_of_their_input_nodes(graph):
    targets, *folders = graph
    for path in folders:
        with edgecut.open(path) as store:
            assert (store.num_targets, store.num_classes, store.node_types[0].num_targets) == (3, 0, 3)
            assert assert_own_targets(load(store, shuffle=True), targets) == len(store.split("train"))
            ids = np.array([9, 399, 0, 7])
            assert assert_own_targets(load(store, ids), targets) == 4
    with Servers(graph[2], 2) as servers, edgecut.connect(servers.addresses) as store:
        assert assert_own_targets(load(store), targets) == len(store.split("train"))


RANKS = """
import pickle, sys, edgecut
edgecut.distributed.init()
with edgecut.open(sys.argv[1]) as store:
    loader = edgecut.NeighborLoader(store, [5], [9, 12, 15], batch_size=1, output="numpy", even_batches=False)
    pickle.dump(list(loader), open(sys.argv[2] + str(store.rank), "wb"))
"""


def test_a_rank_without_input_nodes_has_targets_of_the_same_shape(graph, tmp_path):
    finished(start(RANKS, 2, graph[2], tmp_path / "rank"))
    batches = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(2)]
    # The ranks share the nodes, and the one with fewer has a batch without any.
    assert len(batches[0]) == len(batches[1])
    assert 0 in [batch["batch_size"] for batch in batches[0] + batches[1]]
    assert assert_own_targets(batches[0] + batches[1], graph[0]) == 3


def test_the_programs_write_targets_and_name_them(graph, tmp_path):
    targets, _, parts = graph
    run("train", "sample", "--dataset-root-dir", parts, "--num-neighbors", "5,3", "--batch-size", 64, "--out", tmp_path)
    archives = [np.load(file) for file in sorted(tmp_path.glob("batch_*.npz"))]
    assert len(archives) > 1
    for archive in archives:
        assert np.array_equal(archive["y"], targets[archive["seeds"]], equal_nan=True)
    model = tmp_path / "model.safetensors"
    train = ["train", "node", "--dataset-root-dir", parts, "--num-neighbors", "5,3", "--num-epochs", "1", "--save-model"]
    run(*train, model, "--loss", "huber", "--quiet")
    run("train", "predict", "--dataset-root-dir", parts, "--load-model", model, "--out", tmp_path / "out")
    predictions = np.load(tmp_path / "out" / "predictions.npy")
    assert predictions.shape == (NUM_NODES, 3) and predictions.dtype == np.float32


def test_pyg_gets_the_targets(graph):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    targets, _, parts = graph
    with edgecut.open(parts) as store:
        batch = next(iter(edgecut.NeighborLoader(store, [5, 3], "train", batch_size=32)))
        assert np.array_equal(batch.y, targets[batch.n_id[:32]], equal_nan=True)
        features, _ = store.to_pyg()
        assert features.get_tensor_size(group_name=None, attr_name="y") == (NUM_NODES, 3)
        found = features.get_tensor(group_name=None, attr_name="y", index=torch.tensor([5, 5, 399]))
        assert np.array_equal(found, targets[[5, 5, 399]], equal_nan=True)


def test_sets_of_graphs_have_numbers_to_predict(tmp_path):
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "node_attributes": "1\n2\n3\n4\n",
        "graph_attributes": "0.5, 1\n-2, 3\n",
    }
    folder = tmp_path / "PAIRS"
    folder.mkdir()
    for name, text in files.items():
        folder.joinpath(f"PAIRS_{name}.txt").write_text(text)
    graphs = edgecut.open_graphs(folder)
    expected = np.array([[0.5, 1], [-2, 3]], np.float32)
    assert np.array_equal(graphs.y, expected) and graphs.num_classes == 0
    batch = next(iter(edgecut.GraphDataLoader(graphs, batch_size=2, output="numpy")))
    assert batch["y"].dtype == np.float32 and np.array_equal(batch["y"], expected[batch["input_id"]])
