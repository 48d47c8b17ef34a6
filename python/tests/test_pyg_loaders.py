"""PyG's other loaders."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from test_pyg_data import check_batch, random_data, random_hetero  # noqa: E402
from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.loader import ImbalancedSampler, LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.utils import k_hop_subgraph, subgraph  # noqa: E402

import edgecut  # noqa: E402


def test_hgt_samples_a_number_of_nodes_per_type_with_all_edges():
    data = random_hetero()
    numbers = {"paper": [4, 3], "author; x=1": [5, 0], "lonely": [1, 1]}
    loader = edgecut.HGTLoader(data, numbers, ("paper", None), batch_size=6, num_workers=2)
    for batch in loader:
        check_batch(batch, data)
        assert torch.equal(batch["paper"].n_id[: batch["paper"].batch_size], batch["paper"].input_id)
        assert batch["paper"].num_nodes <= batch["paper"].batch_size + 7
        assert batch["author; x=1"].num_nodes == 5 and batch["lonely"].num_nodes == 0
        for key in data.edge_types:
            inside = torch.isin(data[key].edge_index[0], batch[key[0]].n_id) & torch.isin(data[key].edge_index[1], batch[key[2]].n_id)
            assert sorted(batch[key].e_id.tolist()) == inside.nonzero().flatten().tolist()
        for nodes in batch.node_stores:
            assert len(nodes.n_id.unique()) == len(nodes.n_id)
    with pytest.raises(ValueError, match="there is no node type 'book'"):
        edgecut.HGTLoader(data, {"book": [1]}, "paper")
    with pytest.raises(ValueError, match="`num_samples` lacks the node types author; x=1, lonely: give a list for each"):
        edgecut.HGTLoader(data, {"paper": [4, 3]}, "paper")
    with pytest.raises(ValueError, match="fewer than 2 layers for the node types author; x=1: give zeros"):
        edgecut.HGTLoader(data, {**numbers, "author; x=1": [5]}, "paper")
    with pytest.raises(ValueError, match="no types of nodes, which HGT needs"):
        edgecut.HGTLoader(random_data(), [1], "paper")


def test_hgt_chooses_by_the_squares_of_the_sums():
    data = HeteroData()
    data["v"].num_nodes = 3
    # Node 1 has two of the three edges to node 0.
    data["v", "e", "v"].edge_index = torch.tensor([[1, 1, 2], [0, 0, 0]])
    loader = edgecut.HGTLoader(data, [1], ("v", torch.zeros(4000, dtype=torch.int64)), generator=torch.Generator().manual_seed(1))
    first = np.mean([batch["v"].n_id[1] == 1 for batch in loader])
    assert abs(first - 4 / 5) < 0.025


def test_shadow_has_a_subgraph_per_node():
    data = random_data()
    nodes = torch.tensor([7, 3, 50, 58])
    loader = edgecut.ShaDowKHopSampler(data, depth=2, num_neighbors=-1, node_idx=nodes, batch_size=4, num_workers=1)
    (batch,) = loader
    assert torch.equal(batch.y, data.y[nodes])
    for number, root in enumerate(nodes.tolist()):
        expected, edges, _, mask = k_hop_subgraph(root, 2, data.edge_index, num_nodes=60)
        inside = batch.batch == number
        assert torch.equal(inside.nonzero().flatten(), torch.arange(batch.ptr[number], batch.ptr[number + 1]))
        assert inside.sum() == len(expected) and torch.equal(batch.x[batch.root_n_id[number]], data.x[root])
        assert torch.equal(batch.x[inside].sort(0).values, data.x[expected].sort(0).values)
        of_edges = inside[batch.edge_index[0]]
        assert torch.equal(of_edges, inside[batch.edge_index[1]]) and of_edges.sum() == mask.sum()
        for name in ("weight", "created"):
            assert torch.equal(batch[name][of_edges].sort().values, data[name][mask].sort().values)
    few = edgecut.ShaDowKHopSampler(data, 2, 2, data.train_mask)
    assert len(few) == data.train_mask.sum() and all(len(batch.ptr) == 2 and batch.ptr[1] <= 7 for batch in few)


def test_the_seed_repeats_the_batches_for_any_number_of_threads():
    data, typed = random_data(), random_hetero()
    for load in (
        lambda **more: edgecut.HGTLoader(typed, [3, 3], "paper", batch_size=9, shuffle=True, **more),
        lambda **more: edgecut.ShaDowKHopSampler(data, 2, 3, batch_size=9, shuffle=True, **more),
    ):
        edges = lambda **more: [str(list(batch.edge_stores[0].edge_index)) for batch in load(**more)]
        assert edges(seed=1) == edges(seed=1, num_workers=2) != edges(seed=2)
        with pytest.warns(UserWarning, match="`multiprocessing_context` has no effect"):
            load(multiprocessing_context="spawn", num_workers=1)


def test_epochs_of_a_seed_do_not_depend_on_those_that_were_left():
    data = random_data()
    load = lambda number: edgecut.NeighborLoader(data, [2], batch_size=10, shuffle=True, seed=5, num_workers=number)
    inputs = lambda batches: [(batch.input_id.tolist(), batch.n_id.tolist()) for batch in batches]
    loader = load(0)
    expected = [inputs(loader) for _ in range(3)]
    assert expected[0] != expected[1]
    for number in (0, 1, 2, 8):
        loader = load(number)
        first = iter(loader)
        next(first)
        # Two epochs at once, and one that ends after three of six batches.
        second = iter(loader)
        assert inputs(batch for _, batch in zip(range(3), second)) == expected[1][:3]
        assert inputs(first) == expected[0][1:]
        again = pickle.loads(pickle.dumps(loader))
        assert inputs(loader) == inputs(again) == expected[2]


def test_clusters_have_each_node_once():
    data = random_data(num_nodes=200, num_edges=800)
    clusters = edgecut.ClusterData(data, num_parts=6, log=False)
    seen = []
    for batch in edgecut.ClusterLoader(clusters, batch_size=2, shuffle=True):
        ids = [(data.x == x).all(1).nonzero().item() for x in batch.x]
        seen += ids
        edges, _ = subgraph(torch.tensor(ids), data.edge_index, num_nodes=200)
        found = torch.tensor(ids)[batch.edge_index]
        assert sorted(map(tuple, found.t().tolist())) == sorted(map(tuple, edges.t().tolist()))
    assert sorted(seen) == list(range(200))
    with pytest.raises(ValueError, match="`recursive=True` is not supported"):
        edgecut.ClusterData(data, num_parts=2, recursive=True, log=False)


def test_loaders_of_pyg_take_the_sampler():
    from edgecut.pyg_sampler import NeighborSampler

    data, typed = random_data(), random_hetero()
    for batch in NodeLoader(data, NeighborSampler(data, [3, 2]), batch_size=20):
        check_batch(batch, data)
    edges = ("author; x=1", "to", "paper")
    for batch in LinkLoader(typed, NeighborSampler(typed, [2]), edges, neg_sampling="binary", batch_size=50):
        check_batch(batch, typed)
    # And the loaders here take any sampler.
    loader = edgecut.NeighborLoader(data, None, neighbor_sampler=NeighborSampler(data, [-1]), batch_size=60)
    check_batch(next(iter(loader)), data)
    for name in ("replace", "disjoint", "exclude_seed_edges", "is_sorted"):
        with pytest.raises(ValueError, match=f"`{name}` is a setting of the sampler: pass it to `neighbor_sampler`"):
            edgecut.LinkNeighborLoader(data, None, neighbor_sampler=NeighborSampler(data, [-1]), **{name: True})
    with pytest.raises(ValueError, match="`is_sorted` is a setting of `edgecut.from_pyg`"):
        edgecut.NeighborLoader(edgecut.from_pyg(data), [2], is_sorted=True)
    ordered = data.clone()
    ordered.edge_index = data.edge_index[:, data.edge_index[1].argsort()]
    for batch in edgecut.NeighborLoader(ordered, [2], is_sorted=True, batch_size=30):
        check_batch(batch, ordered)


def test_imbalanced_sampler_of_pyg_chooses_input_nodes():
    data = random_data()
    data.y = (torch.arange(60) < 5).long()
    sampler = ImbalancedSampler(data.y, num_samples=600)
    loader = edgecut.NeighborLoader(data, [2], batch_size=50, sampler=sampler)
    labels = torch.cat([batch.y[: batch.batch_size] for batch in loader])
    assert len(labels) == 600 and 200 < labels.sum() < 400
    for batch in loader:
        check_batch(batch, data)
