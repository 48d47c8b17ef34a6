"""The positions of a batch's edges in the dataset."""

import pickle

import numpy as np
import pytest
from conftest import finished, start
from test_loader import sampled
from test_servers import Servers

import edgecut


@pytest.fixture(scope="module")
def dataset(folder):
    """A dataset with several edges between some nodes, and the folders of the dataset and of its parts."""
    draw = np.random.default_rng(8)
    path = folder / "edge-ids"
    path.mkdir()
    edge_index = draw.integers(0, 200, (2, 3000))
    np.save(path / "edge_index.npy", edge_index)
    np.save(path / "edge_weight.npy", np.arange(1, 3001, dtype=np.float32))
    np.save(path / "x.npy", draw.random((200, 3), np.float32))
    edgecut.partition(path, 3, folder / "edge-ids-3", method="random")
    return edge_index, [path, folder / "edge-ids-3"]


def test_edge_ids_are_positions_in_the_dataset(dataset):
    edge_index, folders = dataset
    made = []
    for path in folders:
        with edgecut.open(path) as store:
            loader = edgecut.NeighborLoader(
                store, [4, 3], np.arange(200), batch_size=60, shuffle=True, output="numpy", edge_index=edge_index
            )
            made.append(list(loader))
            for batch in made[-1]:
                ids = batch["e_id"]
                assert len(ids) > 60 and len(np.unique(ids)) == len(ids)
                assert np.array_equal(edge_index[:, ids], batch["n_id"][batch["edge_index"]])
                # The weight of an edge is its position plus 1, so that edges between the same nodes differ.
                assert np.array_equal(batch["edge_weight"], ids + 1)
                assert "position" not in batch
            whole = next(iter(edgecut.NeighborLoader(store, [-1], batch_size=200, output="numpy", edge_index=edge_index)))
            assert np.array_equal(np.sort(whole["e_id"]), np.arange(3000))
            links = edgecut.LinkNeighborLoader(store, [4], batch_size=200, output="numpy", edge_index=edge_index)
            for batch in links:
                assert np.array_equal(batch["edge_weight"], batch["e_id"] + 1)
    for one, other in zip(*made, strict=True):
        assert np.array_equal(one["e_id"], other["e_id"])


def test_edge_ids_of_typed_graphs_are_by_type(typed_parts):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    with edgecut.open(typed_parts[2]) as store:
        # The edges by destination, which keep their order in the parts.
        _, graph = store.to_pyg()
        row, col, _ = graph.coo()
        edge_index = {t: torch.stack([row[t], col[t]]) for t in row}
        one = next(iter(edge_index))
        loader = edgecut.NeighborLoader(store, [3, 3], "v0", batch_size=50, edge_index=edge_index)
        batch = next(iter(loader))
        for edge_type, edges in edge_index.items():
            sampled = batch[edge_type]
            ids = torch.stack([batch[edge_type[0]].n_id[sampled.edge_index[0]], batch[edge_type[2]].n_id[sampled.edge_index[1]]])
            assert torch.equal(edges[:, sampled.e_id], ids)
        partly = next(iter(edgecut.NeighborLoader(store, [3, 3], "v0", batch_size=50, edge_index={one: edge_index[one]})))
        assert [t for t in partly.edge_types if "e_id" in partly[t]] == [one]
        with pytest.raises(ValueError, match="must be a dict"):
            edgecut.NeighborLoader(store, [3], "v0", edge_index=edge_index[one])
        with pytest.raises(ValueError, match="there is no edge type"):
            edgecut.NeighborLoader(store, [3], "v0", edge_index={("v0", "x", "v1"): edge_index[one]})


def test_undirected_edges_are_sorted_by_both_ends(dataset, tmp_path):
    edge_index, (path, _) = dataset
    edgecut.partition(path, 2, tmp_path / "parts", to_undirected=True)
    both = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    with edgecut.open(tmp_path / "parts") as store:
        in_order = np.unique(both, axis=1)
        for batch in edgecut.NeighborLoader(store, [-1, -1], batch_size=50, output="numpy", edge_index=in_order):
            assert np.array_equal(in_order[:, batch["e_id"]], batch["n_id"][batch["edge_index"]])
        order = np.random.default_rng(1).permutation(in_order.shape[1])
        for other in (in_order[:, order], in_order[:, ::-1]):
            loader = edgecut.NeighborLoader(store, [-1], batch_size=50, output="numpy", edge_index=other)
            with pytest.raises(edgecut.EdgecutError, match="or another order: its edge .* instead of .* torch_geometric.utils.to_undirected"):
                next(iter(loader))


def test_other_edges_are_refused(dataset):
    edge_index, folders = dataset
    with edgecut.open(folders[0]) as store:
        for why, other in [
            ("has the shape", edge_index[:, :-1]),
            ("not one of the 200 nodes", edge_index + 1),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.NeighborLoader(store, [3], edge_index=other)
        loader = edgecut.NeighborLoader(store, [-1], batch_size=200, output="numpy", edge_index=edge_index[::-1])
        with pytest.raises(edgecut.EdgecutError, match="does not have the edges of the graph"):
            next(iter(loader))


@pytest.fixture(scope="module")
def numbered(dataset, folder):
    """Parts of the dataset that store the positions, by their number."""
    _, (path, _) = dataset
    out = {n: folder / f"numbered-{n}" for n in (1, 2, 3)}
    for n, parts in out.items():
        assert edgecut.partition(path, n, parts, method="random", edge_ids=True)["provenance"]["edge_ids"]
    return out


def test_parts_store_positions(dataset, numbered):
    edge_index, (path, unnumbered) = dataset
    made = []
    for parts in (numbered[1], numbered[3]):
        with edgecut.open(parts) as store:
            nodes = lambda **more: edgecut.NeighborLoader(store, [4, 3], np.arange(200), batch_size=60, shuffle=True, output="numpy", **more)
            links = edgecut.LinkNeighborLoader(store, [4], batch_size=200, output="numpy")
            made.append(list(nodes()))
            for batch in [*made[-1], *links, *nodes(disjoint=True), *nodes(weight_attr="edge_weight")]:
                assert batch["e_id"].dtype == np.int64 and len(batch["e_id"]) > 60
                assert np.array_equal(edge_index[:, batch["e_id"]], batch["n_id"][batch["edge_index"]])
                # The weight of an edge is its position plus 1, so that edges between the same nodes differ.
                assert np.array_equal(batch["edge_weight"], batch["e_id"] + 1)
            whole = next(iter(edgecut.NeighborLoader(store, [-1], batch_size=200, output="numpy")))
            assert np.array_equal(np.sort(whole["e_id"]), np.arange(3000))
            # Positions in edges that are given.
            for batch in nodes(edge_index=edge_index):
                assert np.array_equal(batch["edge_weight"], batch["e_id"] + 1)
    for one, other in zip(*made, strict=True):
        assert np.array_equal(one["e_id"], other["e_id"])
    for others in (path, unnumbered):
        with edgecut.open(others) as store:
            assert "e_id" not in next(iter(edgecut.NeighborLoader(store, [3], batch_size=10, output="numpy")))


def test_an_added_reverse_has_the_position_of_its_edge(dataset, tmp_path):
    edge_index, (path, _) = dataset
    edgecut.partition(path, 3, tmp_path / "parts", method="random", to_undirected=True, edge_ids=True)
    known = set(zip(*edge_index.tolist()))
    num_reverses = 0
    with edgecut.open(tmp_path / "parts") as store:
        for batch in edgecut.NeighborLoader(store, [-1], batch_size=50, output="numpy"):
            ends = batch["n_id"][batch["edge_index"]]
            is_known = np.array([pair in known for pair in zip(*ends.tolist())])
            expected = np.where(is_known, ends, ends[::-1])
            assert np.array_equal(edge_index[:, batch["e_id"]], expected)
            num_reverses += np.count_nonzero(~is_known)
    assert num_reverses > 1000


def test_parts_of_typed_graphs_store_positions_by_type(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    draw = np.random.default_rng(3)
    sizes = {"u": 80, "v": 50}
    names = [("u", "buys", "v"), ("v", "near", "v")]
    edge_index = {}
    for node_type, size in sizes.items():
        (tmp_path / "graph/nodes" / node_type).mkdir(parents=True)
        np.save(tmp_path / "graph/nodes" / node_type / "x.npy", draw.random((size, 2), np.float32))
    for number, name in enumerate(names):
        edge_index[name] = np.stack([draw.integers(0, sizes[end], 700 + number) for end in (name[0], name[2])])
        at = tmp_path / "graph/edges" / "__".join(name)
        at.mkdir(parents=True)
        np.save(at / "edge_index.npy", edge_index[name])
    # The reverse of an edge has its position.
    for src, relation, dst in names:
        edge_index[dst, f"rev_{relation}", src] = edge_index[src, relation, dst][::-1]
    made = []
    for num_parts in (1, 3):
        parts = tmp_path / f"parts-{num_parts}"
        edgecut.partition(tmp_path / "graph", num_parts, parts, method="random", add_reverse_edges=True, edge_ids=True)
        with edgecut.open(parts) as store:
            assert {t.name for t in store.edge_types} == edge_index.keys()
            load = lambda **more: list(edgecut.NeighborLoader(store, [4, 3], ("v", np.arange(50)), batch_size=20, **more))
            made.append(load())
            # Types that are not given keep the positions of the parts.
            partly = load(edge_index={names[0]: edge_index[names[0]]})
        for batch in [*made[-1], *partly]:
            for name, edges in edge_index.items():
                sampled = batch[name]
                ends = [batch[t].n_id[ids] for t, ids in zip((name[0], name[2]), sampled.edge_index)]
                assert torch.equal(torch.from_numpy(edges.copy())[:, sampled.e_id], torch.stack(ends)), name
    for one, other in zip(*made, strict=True):
        assert all(torch.equal(one[name].e_id, other[name].e_id) for name in edge_index)


LISTED = """
import pickle, sys, numpy as np, edgecut
edgecut.distributed.init()
with edgecut.connect() if sys.argv[1] == "servers" else edgecut.open(sys.argv[1]) as store:
    loader = edgecut.NeighborLoader(store, [4, 3], np.arange(200), batch_size=60, output="numpy")
    pickle.dump([batch["e_id"] for batch in loader], open(sys.argv[2] + str(store.rank), "wb"))
"""


def test_train_sample_writes_positions(numbered, tmp_path):
    np.save(tmp_path / "seeds.npy", np.arange(200))
    archives = sampled(numbered[3], tmp_path / "sample", 1, "--seeds", tmp_path / "seeds.npy", "--seed", 3)
    with edgecut.open(numbered[3]) as store:
        loader = edgecut.NeighborLoader(store, [5, 3], np.arange(200), batch_size=64, seed=3, output="numpy")
        for batch, archive in zip(loader, archives, strict=True):
            assert np.array_equal(batch["e_id"], archive["e_id"])


def test_processes_and_clients_of_servers_have_positions(numbered, tmp_path, monkeypatch):
    with edgecut.open(numbered[1]) as store:
        loader = edgecut.NeighborLoader(store, [4, 3], np.arange(200), batch_size=60, output="numpy")
        expected = [batch["e_id"] for batch in loader]
    with Servers(numbered[2], 2) as servers:
        with edgecut.connect(servers.addresses) as store:
            loader = edgecut.NeighborLoader(store, [4, 3], np.arange(200), batch_size=60, output="numpy")
            for batch, ids in zip(loader, expected, strict=True):
                assert np.array_equal(batch["e_id"], ids)
        finished(start(LISTED, 2, numbered[2], tmp_path / "ranks"))
        monkeypatch.setenv("EDGECUT_SERVERS", ",".join(servers.addresses))
        finished(start(LISTED, 2, "servers", tmp_path / "clients"))
    for name in ("ranks", "clients"):
        made = [pickle.loads((tmp_path / f"{name}{rank}").read_bytes()) for rank in range(2)]
        for number, ids in enumerate(expected):
            assert np.array_equal(made[number % 2][number // 2], ids), (name, number)
