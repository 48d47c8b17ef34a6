"""An opened graph as PyG's feature store and graph store."""

import pickle
import traceback
import warnings

import numpy as np
import pytest
from conftest import finished, start

import edgecut

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import EdgeAttr, TensorAttr  # noqa: E402
from torch_geometric.loader import NeighborLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput  # noqa: E402


@pytest.fixture(scope="module")
def dataset(folder):
    """The arrays of a dataset, and the folders of its parts by their number."""
    draw = np.random.default_rng(5)
    arrays = {
        "edge_index": draw.integers(0, 300, (2, 2500)),
        "x": draw.random((300, 4), np.float32),
        "y": draw.integers(0, 3, 300),
        "node_time": draw.integers(0, 100, 300),
    }
    path = folder / "stores"
    path.mkdir()
    for name, values in arrays.items():
        np.save(path / f"{name}.npy", values)
    np.save(path / "train_mask.npy", np.arange(300) % 3 == 0)
    edgecut.partition(path, 3, folder / "stores-3", method="random")
    return arrays, path, folder / "stores-3"


def test_features_are_those_of_the_dataset(dataset):
    arrays, *folders = dataset
    for path in folders:
        with edgecut.open(path) as store:
            features, _ = store.to_pyg()
            attrs = features.get_all_tensor_attrs()
            names = [attr.attr_name for attr in attrs]
            assert names[:2] == ["x", "y"] and all(attr.group_name is None for attr in attrs)
            for name in ("x", "y"):
                whole = features.get_tensor(group_name=None, attr_name=name, index=None)
                assert np.array_equal(whole, arrays[name])
                assert features.get_tensor_size(group_name=None, attr_name=name) == arrays[name].shape
                index = torch.tensor([7, 299, 7, 0])
                assert np.array_equal(features[TensorAttr(None, name, index)], arrays[name][index])
                for one in (7, np.int64(7), torch.tensor(7), np.array(7)):
                    assert np.array_equal(features.get_tensor(None, name, one), arrays[name][[7]])
                assert np.array_equal(features.get_tensor(None, name, slice(5, 50, 3)), arrays[name][5:50:3])
                mask = torch.arange(300) % 7 == 0
                assert np.array_equal(features.get_tensor(None, name, mask), arrays[name][mask.numpy()])
                with pytest.raises(ValueError, match="`index` must be a vector of whole numbers"):
                    features.get_tensor(None, name, torch.tensor([7.5]))
                with pytest.raises(ValueError, match=r"`index`: the mask has the shape \(299,\), but there are 300 nodes"):
                    features.get_tensor(None, name, mask[1:])
            with pytest.raises(KeyError, match="no 'z' of nodes"):
                features.get_tensor(None, "z", None)
            assert not features.put_tensor(torch.ones(3), group_name=None, attr_name="x", index=None)
            with pytest.raises(ValueError, match="has 300, which is not one of the 300 nodes"):
                features.get_tensor(None, "x", torch.tensor([300]))
            assert np.array_equal(store.split("train"), np.arange(0, 300, 3))
            with pytest.raises(ValueError, match="`node_type` is 'paper'"):
                store.split("train", "paper")


def test_edges_are_those_of_the_dataset(dataset):
    arrays, *folders = dataset
    src, dst = arrays["edge_index"]
    order = np.argsort(dst, kind="stable")
    for path in folders:
        with edgecut.open(path) as store:
            _, graph = store.to_pyg()
            (attr,) = graph.get_all_edge_attrs()
            assert attr.edge_type is None and attr.size == (300, 300) and attr.is_sorted
            has_times = store.node_types[0].has_times
            keys = (arrays["node_time"][src], dst) if has_times else (dst,)
            order = np.lexsort(keys)
            row, colptr = graph.get_edge_index(attr)
            assert np.array_equal(row, src[order])
            assert np.array_equal(colptr, np.searchsorted(dst[order], np.arange(301)))
            row, col, perm = graph.coo()
            assert np.array_equal(torch.stack([row, col]), arrays["edge_index"][:, order]) and perm is None
            rowptr, col, perm = graph.csr()
            assert np.array_equal(rowptr.diff(), np.bincount(src, minlength=300)) and len(col) == 2500
            with pytest.raises(KeyError):
                graph.get_edge_index(EdgeAttr(("a", "to", "b"), "csc"))
            assert not graph.put_edge_index((row, col), attr)


class WholeNeighborhoods(BaseSampler):
    """A slow sampler of all in-neighbors within one hop, over the interfaces of a store."""

    def __init__(self, data):
        _, graph = data
        self.is_hetero = graph.get_all_edge_attrs()[0].edge_type is not None
        self.row, self.colptr, _ = graph.csc()

    def sample_from_edges(self, index, **_):
        raise NotImplementedError

    def of_type(self, seeds, row, colptr):
        edges = torch.cat([torch.arange(colptr[s], colptr[s + 1]) for s in seeds])
        col = torch.cat([torch.full((int(colptr[s + 1] - colptr[s]),), i) for i, s in enumerate(seeds)])
        return row[edges], col

    def sample_from_nodes(self, index, **_):
        seeds = index.node
        if not self.is_hetero:
            sources, col = self.of_type(seeds, self.row, self.colptr)
            others = sources[~torch.isin(sources, seeds)].unique()
            node = torch.cat([seeds, others])
            number = {int(n): i for i, n in enumerate(node)}
            row = torch.tensor([number[int(n)] for n in sources])
            return SamplerOutput(node, row, col, None, metadata=(index.input_id, index.time))
        node = {index.input_type: seeds}
        edges = {t: self.of_type(seeds, self.row[t], self.colptr[t]) for t in self.row if t[2] == index.input_type}
        for edge_type, (sources, _) in edges.items():
            known = node.get(edge_type[0], torch.empty(0, dtype=torch.int64))
            node[edge_type[0]] = torch.cat([known, sources[~torch.isin(sources, known)].unique()])
        number = {t: {int(n): i for i, n in enumerate(ids)} for t, ids in node.items()}
        row = {t: torch.tensor([number[t[0]][int(n)] for n in sources]) for t, (sources, _) in edges.items()}
        col = {t: col for t, (_, col) in edges.items()}
        return HeteroSamplerOutput(node, row, col, {t: None for t in row}, metadata=(index.input_id, index.time))


def test_notes_of_the_reader_of_a_dataset_are_warnings(tmp_path):
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2], [1, 2, 3]]))
    np.save(tmp_path / "colors.npy", np.zeros(4))
    with pytest.warns(UserWarning) as warned:
        edgecut.open(tmp_path).close()
    assert {warning.filename for warning in warned} == {__file__}
    text = "\n".join(str(warning.message) for warning in warned)
    assert "most messages flow in one direction only: set `to_undirected` if the graph is undirected" in text
    assert "colors.npy is not read" in text
    (tmp_path / "colors.npy").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edgecut.open(tmp_path, to_undirected=True).close()


def test_other_processes_get_the_data_that_were_sent(tmp_path):
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2, 3], [1, 2, 3, 0]]))
    np.save(tmp_path / "x.npy", np.ones((4, 2), np.float32))
    with edgecut.open(tmp_path) as store, edgecut.fake_graphs(10) as graphs:
        sent = pickle.dumps(store)
        with pickle.loads(sent) as again:
            assert repr(again) == repr(store)
        with pickle.loads(pickle.dumps(graphs)) as again:
            assert np.array_equal(again.y, graphs.y)
        np.save(tmp_path / "x.npy", np.zeros((4, 2), np.float32))
        with pytest.raises(edgecut.EdgecutError, match="have changed since the process that has sent them opened them"):
            pickle.loads(sent)


def test_a_warning_that_is_an_error_closes_the_store(tmp_path):
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2], [1, 2, 3]]))
    before = set(edgecut.membership._memberships)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="set `to_undirected`") as raised:
            edgecut.open(tmp_path)
    # The traceback refers to the store.
    (store,) = set(edgecut.membership._memberships) - before
    assert raised.tb is not None and not store._is_open


@pytest.mark.parametrize("method", [None, "spawn"])
def test_a_loader_of_pyg_reads_the_parts(dataset, method):
    arrays, _, path = dataset
    workers = {} if method is None else {"num_workers": 1, "multiprocessing_context": method}
    with edgecut.open(path) as store:
        data = store.to_pyg()
        ids = torch.from_numpy(store.split("train"))
        loader = NodeLoader(data, WholeNeighborhoods(data), input_nodes=ids, batch_size=30, **workers)
        pairs = {}
        for batch in loader:
            assert batch.batch_size <= 30
            assert np.array_equal(batch.x, arrays["x"][batch.n_id]) and np.array_equal(batch.y, arrays["y"][batch.n_id])
            for src, dst in batch.n_id[batch.edge_index].T.tolist():
                pairs[src, dst] = pairs.get((src, dst), 0) + 1
        expected = {}
        for src, dst in arrays["edge_index"].T.tolist():
            if dst % 3 == 0:
                expected[src, dst] = expected.get((src, dst), 0) + 1
        assert pairs == expected


def test_forked_workers_of_pyg_are_an_error(dataset):
    with edgecut.open(dataset[2]) as store:
        data = store.to_pyg()
        loader = NodeLoader(data, WholeNeighborhoods(data), input_nodes=torch.arange(60), batch_size=30, num_workers=2, timeout=60)
        with pytest.raises(edgecut.EdgecutError, match="forked") as error:
            next(iter(loader))
        # Otherwise the iterator belongs to a cycle, whose collection waits 5 seconds for each worker.
        traceback.clear_frames(error.tb)


def test_a_loader_of_pyg_reads_typed_parts(typed_parts):
    with edgecut.open(typed_parts[2]) as store:
        data = store.to_pyg()
        features, graph = data
        assert {attr.edge_type for attr in graph.get_all_edge_attrs()} == {t.name for t in store.edge_types}
        ids = torch.from_numpy(store.split("train", "v0"))
        batch = next(iter(NodeLoader(data, WholeNeighborhoods(data), input_nodes=("v0", ids), batch_size=20)))
        batch.validate()
        whole = next(iter(edgecut.NeighborLoader(store, [-1], ("v0", ids[:20]), batch_size=20)))
        for edge_type in graph.csc()[0]:
            if edge_type[2] != "v0":
                continue
            ends = lambda b: torch.stack([b[edge_type[i]].n_id[b[edge_type].edge_index[j]] for i, j in ((0, 0), (2, 1))])
            assert sorted(ends(batch).T.tolist()) == sorted(ends(whole).T.tolist())
        assert {t.name for t in store.node_types if t.num_features == 0} == {"v2"}
        assert features.get_tensor_size(group_name="v2", attr_name="x") is None
        assert features.get_tensor_size(group_name="v2", attr_name="n_id") == (store.node_types[2].num_nodes,)
        assert torch.equal(features.get_tensor("v2", "n_id", torch.tensor([5, 1])), torch.tensor([5, 1]))
        for name in ("v0", "v1"):
            ids = torch.arange(0, features.get_tensor_size(group_name=name, attr_name="x")[0], 7)
            found = features.get_tensor(name, "x", ids)
            loaded = next(iter(edgecut.NeighborLoader(store, [1], (name, ids), batch_size=len(ids))))
            assert torch.equal(found, loaded[name].x[: len(ids)])


def test_a_process_with_a_part_reads_all_features_but_not_all_edges(dataset):
    arrays, _, path = dataset
    program = """
import sys, numpy as np, edgecut, torch
edgecut.distributed.init()
with edgecut.open(sys.argv[1]) as store:
    features, graph = store.to_pyg()
    x = features.get_tensor(None, "x", torch.arange(300))
    assert torch.equal(x, torch.from_numpy(np.load(sys.argv[2])))
    try:
        graph.csc()
    except ValueError as error:
        print(error)
"""
    outputs = finished(start(program, 3, path, dataset[1] / "x.npy"))
    assert all("this process holds a part of the edges only" in out for out in outputs), outputs


def test_pyg_samples_from_the_parts(dataset, typed_parts):
    """PyG's own sampler needs a package with compiled code."""
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE):
        pytest.skip("neither pyg-lib nor torch_sparse is installed")
    arrays, _, path = dataset
    with edgecut.open(path) as store, edgecut.open(typed_parts[2]) as typed:
        ids = torch.from_numpy(store.split("train"))
        for batch in NeighborLoader(store.to_pyg(), [-1, -1], input_nodes=ids, batch_size=30):
            own = next(iter(edgecut.NeighborLoader(store, [-1, -1], batch.n_id[: batch.batch_size], batch_size=30)))
            assert np.array_equal(batch.x, arrays["x"][batch.n_id])
            ends = lambda b: sorted(b.n_id[b.edge_index].T.tolist())
            assert sorted(batch.n_id.tolist()) == sorted(own.n_id.tolist()) and ends(batch) == ends(own)
        ids = torch.from_numpy(typed.split("train", "v0"))
        batch = next(iter(NeighborLoader(typed.to_pyg(), [-1, -1], input_nodes=("v0", ids), batch_size=20)))
        own = next(iter(edgecut.NeighborLoader(typed, [-1, -1], ("v0", ids[:20]), batch_size=20)))
        for edge_type in own.edge_types:
            ends = lambda b: sorted(
                torch.stack([b[edge_type[2 * end]].n_id[b[edge_type].edge_index[end]] for end in (0, 1)]).T.tolist()
            )
            assert ends(batch) == ends(own), edge_type
