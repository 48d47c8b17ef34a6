"""The positions of a batch's edges in the dataset."""

import numpy as np
import pytest

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
