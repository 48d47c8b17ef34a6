"""Batches beside PyG's own loaders, argument by argument on random graphs.

PyG needs ``pyg-lib`` or ``torch-sparse`` to sample. Here a slow sampler of all neighbors takes their place, so that the rest
of PyG's loaders runs: inputs, filters, labels, negatives and conversions.
"""

import types
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch_geometric.loader  # noqa: E402
import torch_geometric.typing  # noqa: E402
from test_pyg_data import random_data, random_hetero  # noqa: E402

import edgecut  # noqa: E402

# PyG has these only with `pyg-lib`.
NOT_COMPARED = {"num_sampled_nodes", "num_sampled_edges"}


def all_neighbors(node_types, edge_types, colptr, row, seeds, num_hops, is_directed):
    """Sample all neighbors, hop by hop, each node in the order in which it was found. Edge types are joined by ``__``."""
    nodes = {name: seeds[name].tolist() if name in seeds else [] for name in node_types}
    number = {name: {node: at for at, node in enumerate(ids)} for name, ids in nodes.items()}
    edges = {"__".join(edge_type): [] for edge_type in edge_types}
    first = dict.fromkeys(node_types, 0)
    for _ in range(num_hops):
        end = {name: len(ids) for name, ids in nodes.items()}
        for src, relation, dst in edge_types:
            key = "__".join((src, relation, dst))
            for at in range(first[dst], end[dst]):
                for position in range(colptr[key][nodes[dst][at]], colptr[key][nodes[dst][at] + 1]):
                    source = int(row[key][position])
                    if source not in number[src]:
                        number[src][source] = len(nodes[src])
                        nodes[src].append(source)
                    edges[key].append((number[src][source], at, position))
        first = end
    if not is_directed:
        for src, relation, dst in edge_types:
            key = "__".join((src, relation, dst))
            edges[key] = [
                (number[src][int(row[key][position])], at, position)
                for at, node in enumerate(nodes[dst])
                for position in range(colptr[key][node], colptr[key][node + 1])
                if int(row[key][position]) in number[src]
            ]
    columns = {key: torch.tensor(found, dtype=torch.int64).reshape(-1, 3).t().contiguous() for key, found in edges.items()}
    found = {name: torch.tensor(ids, dtype=torch.int64) for name, ids in nodes.items()}
    return found, *({key: of_type[at] for key, of_type in columns.items()} for at in range(3))


def neighbor_sample(colptr, row, seed, counts, replace, is_directed):
    types = ["v"], [("v", "e", "v")]
    found = all_neighbors(*types, {"v__e__v": colptr}, {"v__e__v": row}, {"v": seed}, len(counts), is_directed)
    return tuple(next(iter(of_types.values())) for of_types in found)


def hetero_neighbor_sample(node_types, edge_types, colptr, row, seeds, counts, num_hops, replace, is_directed):
    return all_neighbors(node_types, edge_types, colptr, row, seeds, num_hops, is_directed)


@pytest.fixture
def beside(monkeypatch):
    """Return a function that compares all batches of Edgecut's and PyG's loader."""
    operations = types.SimpleNamespace(neighbor_sample=neighbor_sample, hetero_neighbor_sample=hetero_neighbor_sample)
    monkeypatch.setattr(torch.ops, "torch_sparse", operations, raising=False)
    monkeypatch.setattr(torch_geometric.typing, "WITH_TORCH_SPARSE", True)
    monkeypatch.setattr(torch_geometric.typing, "WITH_PYG_LIB", False)

    def compare(name, data, *arguments, num_workers=0, **more):
        with warnings.catch_warnings():
            # PyG recommends `pyg-lib`, and a loader with threads is told about processes.
            warnings.simplefilter("ignore")
            theirs = getattr(torch_geometric.loader, name)(data, *arguments, **more)
            ours = getattr(edgecut, name)(data, *arguments, num_workers=num_workers, **more)
        assert len(ours) == len(theirs)
        torch.manual_seed(3)
        expected = list(theirs)
        torch.manual_seed(3)
        found = list(ours)
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_equal(one, other)

    return compare


def assert_equal(one, other):
    assert type(one) is type(other)
    one, other = one.to_dict(), other.to_dict()
    flat = lambda batch: {
        (key, name): value for key, of_key in batch.items() for name, value in (of_key.items() if isinstance(of_key, dict) else [(None, of_key)])
    }
    one, other = flat(one), flat(other)
    names = lambda batch: {key for key in batch if not NOT_COMPARED & set(key)}
    assert names(one) == names(other)
    for key in names(one):
        if isinstance(one[key], torch.Tensor):
            assert one[key].dtype == other[key].dtype and torch.equal(one[key], other[key]), key
        else:
            assert one[key] == other[key], key


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("fan_outs", [[-1], [-1, -1], []])
def test_batches_of_nodes_are_those_of_pyg(beside, subgraph_type, fan_outs):
    for seed in range(2):
        data = random_data(seed)
        for arguments in [
            {},
            {"input_nodes": data.train_mask},
            {"input_nodes": torch.tensor([5, 3, 50]), "input_id": torch.tensor([7, 8, 9])},
            {"input_nodes": [1, 2, 3], "drop_last": True},
            {"shuffle": True, "num_workers": 2},
            {"transform": lambda batch: batch.update({"n": batch.num_nodes}) or batch},
            {"sampler": [4, 2, 9]},
            {"batch_sampler": [[1, 2], [9], [30, 3, 7]], "batch_size": 1},
        ]:
            beside("NeighborLoader", data, fan_outs, **{"batch_size": 7, "subgraph_type": subgraph_type, **arguments})


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_typed_batches_of_nodes_are_those_of_pyg(beside, subgraph_type):
    for seed in range(2):
        data = random_hetero(seed)
        for nodes in ("paper", ("author; x=1", torch.tensor([3, 1, 20])), ("paper", torch.arange(40) % 3 == 0), "lonely"):
            beside("NeighborLoader", data, [-1, -1], nodes, batch_size=6, subgraph_type=subgraph_type, num_workers=seed % 2)


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional"])
def test_batches_of_edges_are_those_of_pyg(beside, subgraph_type):
    for seed in range(2):
        data = random_data(seed)
        labels = torch.arange(80) % 5
        for arguments in [
            {},
            {"edge_label_index": data.edge_index[:, :80], "edge_label": labels},
            {"edge_label_index": data.edge_index[:, :80], "edge_label": labels.float(), "input_id": torch.arange(80) + 5},
            {"edge_label_index": torch.randint(60, (2, 80)), "shuffle": True, "num_workers": 2},
        ]:
            beside("LinkNeighborLoader", data, [-1, -1], batch_size=30, subgraph_type=subgraph_type, **arguments)
        typed = random_hetero(seed)
        cites, to = ("paper", "cites", "paper"), ("author; x=1", "to", "paper")
        for edges in (cites, to, (to, typed[to].edge_index[:, :30]), (("author; x=1", "paper"), typed[to].edge_index)):
            beside("LinkNeighborLoader", typed, [-1], edges, batch_size=25, subgraph_type=subgraph_type)
