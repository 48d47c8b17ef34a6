"""Batches of clusters."""

import pickle

import numpy as np
import pytest
from conftest import finished, start
from test_servers import Servers

import edgecut

NUM_NODES = 300


@pytest.fixture(scope="module")
def dataset(folder):
    """The arrays of a dataset with repeated edges and self loops, its folder, and the folders of its parts by their number."""
    draw = np.random.default_rng(6)
    # Every second edge stays among the nodes of one of six groups.
    src, dst = draw.integers(0, NUM_NODES, (2, 4000))
    dst[::2] = dst[::2] // 6 * 6 + src[::2] % 6
    dst %= NUM_NODES
    src[:20], dst[:20] = src[20:40], dst[20:40]
    arrays = {
        "edge_index": np.stack([src, dst]),
        "edge_weight": np.arange(1, 4001, dtype=np.float32),
        "x": draw.random((NUM_NODES, 4), np.float32),
        "y": draw.integers(0, 3, NUM_NODES),
        "train_mask": np.arange(NUM_NODES) % 3 == 0,
        "val_mask": np.arange(NUM_NODES) % 7 == 1,
    }
    arrays["val_mask"] &= ~arrays["train_mask"]
    path = folder / "clusters"
    path.mkdir()
    for name, values in arrays.items():
        np.save(path / f"{name}.npy", values)
    parts = {n: folder / f"clusters-{n}" for n in (1, 3, 12)}
    for number, output in parts.items():
        edgecut.partition(path, number, output)
    return arrays, path, parts


def part_of_nodes(parts):
    """The part of each node on disk."""
    part = np.full(NUM_NODES, -1)
    for ids in parts.glob("part_*/nodes/*/original_ids.npy"):
        part[np.load(ids)] = int(ids.parents[2].name.removeprefix("part_"))
    assert part.min() == 0
    return part


def check(batch, arrays):
    """Check that a batch has all that the dataset has of its nodes, and the edges between them."""
    ids = np.asarray(batch["n_id"])
    for name in ("x", "y", "train_mask", "val_mask"):
        assert np.array_equal(batch[name], arrays[name][ids]), name
    assert batch["train_mask"].dtype == bool and not np.any(batch["test_mask"])
    inside = np.isin(arrays["edge_index"], ids).all(0)
    # The weight of an edge is its position plus 1.
    positions = np.asarray(batch["edge_weight"]).astype(np.int64) - 1
    assert np.array_equal(np.sort(positions), np.flatnonzero(inside))
    assert np.array_equal(ids[np.asarray(batch["edge_index"])], arrays["edge_index"][:, positions])


@pytest.mark.parametrize("num_parts", [1, 3, 12])
def test_batches_are_induced_subgraphs_of_parts(dataset, num_parts):
    arrays, _, parts = dataset
    part = part_of_nodes(parts[num_parts])
    with edgecut.open(parts[num_parts]) as store:
        loader = edgecut.ClusterLoader(store, batch_size=2, shuffle=True, seed=4, output="numpy")
        epochs = [list(loader) for _ in range(2)]
        assert [len(batches) for batches in epochs] == [len(loader)] * 2 == [(num_parts + 1) // 2] * 2
        pairs = []
        for batches in epochs:
            for batch in batches:
                check(batch, arrays)
                assert not {"input_id", "batch_size", "num_sampled_nodes", "num_sampled_edges"} & batch.keys()
            assert np.array_equal(np.sort(np.concatenate([batch["n_id"] for batch in batches])), np.arange(NUM_NODES))
            # A part is in one batch, as a whole.
            of_batches = [np.unique(part[batch["n_id"]]) for batch in batches]
            assert sorted(np.concatenate(of_batches)) == list(range(num_parts))
            pairs.append([of_batch.tolist() for of_batch in of_batches])
        assert num_parts < 12 or pairs[0] != pairs[1]
        # Some edges lead from one part to another.
        if num_parts == 12:
            ends = part[epochs[0][0]["n_id"]][epochs[0][0]["edge_index"]]
            assert (ends[0] != ends[1]).any() and (ends[0] == ends[1]).any()
        loader.set_epoch(0)
        for again, batch in zip(loader, epochs[0], strict=True):
            assert np.array_equal(again["n_id"], batch["n_id"]) and np.array_equal(again["edge_index"], batch["edge_index"])
        in_order = [part[batch["n_id"]] for batch in edgecut.ClusterLoader(store, output="numpy")]
        assert [np.unique(of_batch).tolist() for of_batch in in_order] == [[n] for n in range(num_parts)]


def test_edges_are_those_of_the_subgraph_of_pyg(dataset):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.utils import subgraph

    arrays, _, parts = dataset
    edge_index, weight = torch.from_numpy(arrays["edge_index"]), torch.from_numpy(arrays["edge_weight"])
    with edgecut.open(parts[12]) as store:
        loader = edgecut.ClusterLoader(store, batch_size=5, shuffle=True, edge_index=edge_index, transform=lambda batch: batch.clone())
        batches = list(loader)
        assert sum(batch.num_nodes for batch in batches) == NUM_NODES
        for batch in batches:
            assert isinstance(batch, Data) and batch.validate()
            expected, of_edges = subgraph(batch.n_id, edge_index, weight, num_nodes=NUM_NODES)
            order, expected_order = batch.edge_weight.argsort(), of_edges.argsort()
            assert torch.equal(batch.edge_weight[order], of_edges[expected_order])
            assert torch.equal(batch.n_id[batch.edge_index[:, order]], expected[:, expected_order])
            assert torch.equal(edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
            assert torch.equal(batch.y[batch.train_mask], torch.from_numpy(arrays["y"])[batch.n_id[batch.n_id % 3 == 0]])


def test_batches_have_the_positions_of_edges_that_parts_store(dataset, tmp_path):
    arrays, path, _ = dataset
    edgecut.partition(path, 3, tmp_path / "parts", edge_ids=True)
    with edgecut.open(tmp_path / "parts") as store:
        for batch in edgecut.ClusterLoader(store, output="numpy"):
            ends = batch["n_id"][batch["edge_index"]]
            assert ends.size > 0 and np.array_equal(arrays["edge_index"][:, batch["e_id"]], ends)


RANKS = """
import pickle, sys, numpy as np, edgecut
edgecut.distributed.init()
with edgecut.open(sys.argv[1]) as store:
    clusters = None if sys.argv[2] == "parts" else np.arange(300) % 7
    loader = edgecut.ClusterLoader(store, batch_size=2, shuffle=True, seed=3, clusters=clusters, output="numpy")
    epochs = [list(loader) for _ in range(2)]
    assert [len(batches) for batches in epochs] == [len(loader)] * 2
    try:
        edgecut.ClusterLoader(store, clusters=np.arange(300) // (1 + store.rank), output="numpy")
    except ValueError as error:
        assert "clusters is " in str(error) or "clusters.starts is " in str(error), error
    else:
        raise AssertionError("other clusters were accepted")
    pickle.dump(epochs, open(sys.argv[3] + str(store.rank), "wb"))
"""


def of_processes(tmp_path, world_size, *arguments):
    """The batches with nodes of all processes, in their order, by epoch."""
    finished(start(RANKS, world_size, *arguments, tmp_path / "rank"))
    of_ranks = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(world_size)]
    epochs = []
    for of_epoch in zip(*of_ranks, strict=True):
        steps = zip(*of_epoch, strict=True)
        epochs.append([batch for step in steps for batch in step if len(batch["n_id"]) > 0])
    return epochs


@pytest.mark.parametrize(("num_parts", "world_size"), [(3, 2), (12, 2), (3, 3), (1, 2), (3, 4)])
@pytest.mark.parametrize("clusters", ["parts", "given"])
def test_batches_do_not_depend_on_the_number_of_processes(dataset, tmp_path, num_parts, world_size, clusters):
    arrays, _, parts = dataset
    with edgecut.open(parts[num_parts]) as store:
        given = None if clusters == "parts" else np.arange(NUM_NODES) % 7
        loader = edgecut.ClusterLoader(store, batch_size=2, shuffle=True, seed=3, clusters=given, output="numpy")
        expected = [list(loader) for _ in range(2)]
    made = of_processes(tmp_path, world_size, parts[num_parts], clusters)
    for batches, of_one in zip(made, expected, strict=True):
        for batch, other in zip(batches, of_one, strict=True):
            check(batch, arrays)
            assert batch.keys() == other.keys()
            for name in batch:
                assert np.array_equal(batch[name], other[name]), name


def test_given_clusters_do_not_depend_on_the_parts(dataset):
    arrays, path, parts = dataset
    # Some numbers have no nodes.
    clusters = np.random.default_rng(3).integers(0, 5, NUM_NODES) * 10
    made = []
    for folder in (path, parts[1], parts[3]):
        with edgecut.open(folder) as store:
            made.append(list(edgecut.ClusterLoader(store, 2, True, clusters=clusters, output="numpy", num_workers=0)))
    for batches in made:
        assert len(batches) == 3
        for batch, other in zip(batches, made[0], strict=True):
            check(batch, arrays)
            assert len(np.unique(clusters[batch["n_id"]])) <= 2
            for name in batch:
                assert np.array_equal(batch[name], other[name]), name
    with edgecut.open(parts[3]) as store:
        few = list(edgecut.ClusterLoader(store, batch_size=2, clusters=clusters, drop_last=True, output="numpy"))
        assert [np.unique(clusters[batch["n_id"]]).tolist() for batch in few] == [[0, 10], [20, 30]]


def test_servers_need_given_clusters(dataset, tmp_path):
    arrays, _, parts = dataset
    clusters = np.arange(NUM_NODES) % 7
    with Servers(parts[3], 2) as servers, edgecut.connect(servers.addresses) as store, edgecut.open(parts[1]) as local:
        with pytest.raises(ValueError, match="servers do not tell the parts that they hold: pass the cluster of each node"):
            edgecut.ClusterLoader(store)
        load = lambda s: list(edgecut.ClusterLoader(s, 3, True, clusters=clusters, output="numpy"))
        for batch, other in zip(load(store), load(local), strict=True):
            check(batch, arrays)
            for name in batch:
                assert np.array_equal(batch[name], other[name]), name


def test_what_does_not_fit_is_refused(dataset, typed_parts):
    _, path, parts = dataset
    with edgecut.open(typed_parts[1]) as store:
        with pytest.raises(ValueError, match="`cluster_data` has several types of nodes or edges"):
            edgecut.ClusterLoader(store)
    with edgecut.open(path) as store:
        with pytest.raises(ValueError, match="is a dataset without parts: pass the cluster of each node in `clusters`, or partition"):
            edgecut.ClusterLoader(store)
    with edgecut.open(parts[3]) as store:
        for clusters, why in [
            (np.zeros(299, int), "has 299 entries for 300 nodes"),
            (np.arange(300) - 1, "`clusters` has -1, but clusters are numbered from 0"),
            (np.zeros(300), "must have one dimension and whole numbers"),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.ClusterLoader(store, clusters=clusters)
        with pytest.raises(ValueError, match="`batch_size` is 0"):
            edgecut.ClusterLoader(store, batch_size=0)
        with pytest.raises(TypeError, match="ClusterLoader of a Store has no argument `sampler`"):
            edgecut.ClusterLoader(store, sampler=range(3))
        with pytest.raises(TypeError, match="a ClusterLoader cannot be sent to another process"):
            pickle.dumps(edgecut.ClusterLoader(store))
    with pytest.raises(TypeError, match="must be a Store or a ClusterData, not dict: clusters of PyG's data come from"):
        edgecut.ClusterLoader({})


def test_cluster_data_of_pyg_has_the_loader_of_pyg():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.loader import ClusterLoader

    data = Data(x=torch.ones(20, 2), edge_index=torch.randint(20, (2, 60)))
    clusters = edgecut.ClusterData(data, num_parts=3, log=False)
    for loader in (edgecut.ClusterLoader(clusters, batch_size=2), edgecut.ClusterLoader(cluster_data=clusters, batch_size=2)):
        assert isinstance(loader, ClusterLoader) and sum(batch.num_nodes for batch in loader) == 20

    class Own(edgecut.ClusterLoader):
        """A loader with methods of its own."""

    with pytest.raises(TypeError, match="Own cannot load a ClusterData: derive it from torch_geometric.loader.ClusterLoader"):
        Own(clusters)
