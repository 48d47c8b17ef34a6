"""PyG's graphs in memory: loaders take the place of PyG's own."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from conftest import ROOT, finished, start

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch_geometric.loader  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402
from torch_geometric.utils import k_hop_subgraph  # noqa: E402

import edgecut  # noqa: E402
import edgecut.pyg_loaders  # noqa: E402

LOADERS = ["NeighborLoader", "LinkNeighborLoader"]


def random_data(seed=0, num_nodes=60, num_edges=300):
    """A graph with repeated edges, self loops and isolated nodes, whose attributes have many types and shapes."""
    draw = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes - 5, (2, num_edges), generator=draw)
    edge_index[:, :10] = edge_index[:, 10:20]
    return Data(
        x=torch.randn(num_nodes, 3, dtype=torch.float64, generator=draw),
        y=torch.randint(7, (num_nodes,), generator=draw),
        train_mask=torch.rand(num_nodes, generator=draw) < 0.4,
        position=torch.randn(num_nodes, 2, 2, generator=draw),
        edge_index=edge_index,
        edge_attr=torch.randn(num_edges, 4, generator=draw).half(),
        kind=torch.randint(3, (num_edges,), dtype=torch.int32, generator=draw),
        weight=torch.rand(num_edges, generator=draw) + 0.1,
        created=torch.randint(100, (num_edges,), generator=draw),
        born=torch.randint(100, (num_nodes,), generator=draw),
        name="a graph",
        num_nodes=num_nodes,
    )


def random_hetero(seed=0):
    draw = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for name, number in (("paper", 40), ("author; x=1", 25), ("lonely", 5)):
        data[name].x = torch.randn(number, 2, generator=draw)
        data[name].y = torch.randint(4, (number,), generator=draw)
    for src, relation, dst in [("paper", "cites", "paper"), ("author; x=1", "to", "paper"), ("paper", "rev_to", "author; x=1")]:
        ends = [torch.randint(data[end].num_nodes, (120,), generator=draw) for end in (src, dst)]
        data[src, relation, dst].edge_index = torch.stack(ends)
        data[src, relation, dst].edge_attr = torch.randn(120, 3, generator=draw)
    return data


def check_batch(batch, data):
    """Check that the nodes and edges of a batch are those of the graph, with all attributes."""
    stores = [(batch, data)] if isinstance(data, Data) else [(batch[key], data[key]) for key in data.node_types]
    for sampled, whole in stores:
        for name in whole.keys():
            value = whole[name]
            if name != "num_nodes" and whole.is_node_attr(name):
                assert torch.equal(sampled[name], value[sampled.n_id]), name
                assert sampled[name].dtype == value.dtype
        assert sampled.num_nodes == len(sampled.n_id)
    edges = [(None, batch, data)] if isinstance(data, Data) else [(key, batch[key], data[key]) for key in data.edge_types]
    for key, sampled, whole in edges:
        src, dst = (batch, batch) if key is None else (batch[key[0]], batch[key[2]])
        row, col = sampled.edge_index
        if sampled.get("e_id") is not None:
            assert torch.equal(torch.stack([src.n_id[row], dst.n_id[col]]), whole.edge_index[:, sampled.e_id])
            for name in whole.keys():
                if name != "edge_index" and whole.is_edge_attr(name):
                    assert torch.equal(sampled[name], whole[name][sampled.e_id]), name
                    assert sampled[name].dtype == whole[name].dtype


def check_hops(batch, fan_outs, replace=False):
    """Check the numbers of neighbors of a graph without types."""
    assert sum(batch.num_sampled_nodes) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.num_edges
    ends = np.cumsum([0, *batch.num_sampled_nodes])
    counts = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
    for hop, fan_out in enumerate(fan_outs):
        of_hop = counts[ends[hop] : ends[hop + 1]]
        assert of_hop.sum() == batch.num_sampled_edges[hop]
        if fan_out >= 0:
            assert (of_hop <= fan_out).all()
    assert counts[ends[len(fan_outs)] :].sum() == 0
    if not replace and batch.get("batch") is None:
        assert len(set(batch.e_id.tolist())) == batch.num_edges


@pytest.mark.parametrize("name", LOADERS)
def test_arguments_have_the_order_and_defaults_of_pyg(name):
    theirs = inspect.signature(getattr(torch_geometric.loader, name).__init__).parameters
    ours = [inspect.signature(getattr(edgecut, name).__init__).parameters]
    ours.append(inspect.signature(getattr(edgecut.pyg_loaders, name).__init__).parameters)
    expected = [(p.name, p.default) for p in theirs.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    for parameters in ours:
        found = [(p.name, p.default) for p in parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
        assert found == expected


def test_every_argument_of_pyg_works_with_a_store_or_is_refused(parts):
    """Nothing that PyG's loaders take is ignored silently, and the guide lists all that is missing."""
    guide = (ROOT / "docs" / "src" / "python.md").read_text()
    guide = guide[guide.index("## Replace PyG's loaders") : guide.index("## Predict links")]
    values = {"subgraph_type": "induced", "directed": False, "weight_attr": "w", "time_attr": "t", "neg_sampling_ratio": 0.5}
    values |= {"edge_label": [1], "neg_sampling": {"mode": "triplet", "amount": 1.5}}
    works = {"self", "data", "num_neighbors", "input_nodes", "input_time", "edge_label_index", "edge_label_time", "replace"}
    works |= {"disjoint", "temporal_strategy", "transform", "batch_size", "shuffle", "drop_last", "num_workers", "kwargs"}
    theirs = {"NeighborLoader": [torch_geometric.loader.NodeLoader], "LinkNeighborLoader": [torch_geometric.loader.LinkLoader]}
    with edgecut.open(parts[1]) as store:
        for name, bases in theirs.items():
            classes = [getattr(torch_geometric.loader, name), torch.utils.data.DataLoader, *bases]
            names = {argument for cls in classes for argument in inspect.signature(cls.__init__).parameters}
            for argument in names - works - {"dataset", "node_sampler", "link_sampler"}:
                assert f"`{argument}`" in guide, argument
                arguments = {"num_neighbors": [2], argument: values.get(argument, True)}
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    try:
                        getattr(edgecut, name)(store, output="numpy", **arguments)
                    except (TypeError, ValueError) as error:
                        seen = [error]
                assert len(seen) == 1 and f"`{argument}`" in str(seen[0]), argument


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_is_a_data_loader_of_the_data(name):
    data = random_data()
    loader = getattr(edgecut, name)(data, [3], batch_size=16)
    assert isinstance(loader, torch.utils.data.DataLoader) and str(loader) == f"{name}()"
    assert loader.data is data and loader.batch_size == 16
    assert len(loader.dataset) == (60 if name == "NeighborLoader" else 300)
    assert len(loader) == len(list(loader)) == len(range(0, len(loader.dataset), 16))
    check_batch(loader([4, 7]), data)
    assert loader.collate_fn(torch.tensor([3])).input_id.tolist() == [3]
    # Subclasses would silently lose their methods otherwise.
    derived = type("Derived", (getattr(edgecut, name),), {})
    with pytest.raises(TypeError, match="derive it from edgecut.pyg_loaders"):
        derived(data, [3])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"replace": True},
        {"disjoint": True},
        {"weight_attr": "weight"},
        {"sampler": "labor", "batch_dependency": 2},
        {"num_workers": 2},
        {"num_workers": 3, "persistent_workers": True, "prefetch_factor": 1},
        {"shuffle": True, "drop_last": True},
        {"filter_per_worker": False, "num_workers": 2},
        {"time_attr": "born", "input_time": torch.full((60,), 50)},
        {"time_attr": "created", "input_time": torch.full((60,), 50), "temporal_strategy": "last"},
    ],
)
@pytest.mark.parametrize("fan_outs", [[3], [4, 2], [-1, 3], [0], [2, 0, 2], []])
def test_batches_are_subgraphs(arguments, fan_outs):
    # Workers sample as the process itself does.
    for seed in range(1 if "num_workers" in arguments else 3):
        data = random_data(seed)
        loader = edgecut.NeighborLoader(data, fan_outs, batch_size=13, **arguments)
        num_nodes = 0
        for batch in loader:
            check_batch(batch, data)
            check_hops(batch, fan_outs, arguments.get("replace", False))
            assert batch.name == "a graph"
            assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
            num_nodes += batch.batch_size
            if "input_time" in arguments:
                assert torch.equal(batch.seed_time, torch.full((batch.batch_size,), 50))
                times = batch.created if arguments["time_attr"] == "created" else batch.born[batch.edge_index[0]]
                assert (times <= 50).all()
            else:
                assert "seed_time" not in batch
            if batch.get("batch") is not None:
                assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
        assert num_nodes == (52 if "drop_last" in arguments else 60)


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_all_neighbors_are_the_subgraph_of_pyg(subgraph_type):
    for seed in range(5):
        data = random_data(seed)
        loader = edgecut.NeighborLoader(data, [-1, -1], batch_size=5, subgraph_type=subgraph_type)
        for batch in loader:
            nodes, _, _, mask = k_hop_subgraph(batch.input_id, 2, data.edge_index, num_nodes=60)
            assert sorted(batch.n_id.tolist()) == nodes.tolist()
            check_batch(batch, data)
            if subgraph_type == "induced":
                assert sorted(batch.e_id.tolist()) == mask.nonzero().flatten().tolist()
            else:
                nearer, *_ = k_hop_subgraph(batch.input_id, 1, data.edge_index, num_nodes=60)
                into = torch.isin(data.edge_index[1], nearer).nonzero().flatten()
                assert sorted(batch.e_id.tolist()) == into.tolist()


def test_bidirectional_subgraphs_have_the_reverse_of_each_edge():
    data = random_data()
    for batch in edgecut.NeighborLoader(data, [3, 3], batch_size=10, subgraph_type="bidirectional"):
        edges = set(map(tuple, batch.edge_index.t().tolist()))
        assert edges == {(dst, src) for src, dst in edges}
        assert torch.equal(batch.x, data.x[batch.n_id])
    hetero = random_hetero()
    for batch in edgecut.NeighborLoader(hetero, [3, 3], ("paper", None), batch_size=10, subgraph_type="bidirectional"):
        to = set(map(tuple, batch["author; x=1", "to", "paper"].edge_index.t().tolist()))
        back = set(map(tuple, batch["paper", "rev_to", "author; x=1"].edge_index.t().tolist()))
        assert to == {(dst, src) for src, dst in back}


def test_inputs_are_masks_ids_lists_and_all_nodes():
    data = random_data()
    mask = data.train_mask
    ids = mask.nonzero().flatten()
    seen = lambda nodes, **more: torch.cat([b.input_id for b in edgecut.NeighborLoader(data, [2], nodes, batch_size=7, **more)])
    assert torch.equal(seen(mask), ids)
    assert seen(ids).tolist() == list(range(len(ids)))
    assert seen(ids.tolist()).tolist() == list(range(len(ids)))
    assert seen(None).tolist() == list(range(60))
    assert torch.equal(seen(ids, input_id=ids + 100), ids + 100)
    # A sampler with replacement repeats nodes, and each has its neighbors.
    repeated = edgecut.NeighborLoader(data, [-1, 2], torch.tensor([3, 9, 3, 3, 9]), batch_size=5)
    batch = next(iter(repeated))
    assert batch.n_id[:5].tolist() == [3, 9, 3, 3, 9] and batch.num_sampled_nodes[0] == 5
    check_batch(batch, data)
    assert sum(batch.num_sampled_edges) == batch.num_edges
    for node in range(5):
        into = batch.edge_index[1] == node
        assert sorted(batch.e_id[into].tolist()) == (data.edge_index[1] == batch.n_id[node]).nonzero().flatten().tolist()
    assert (batch.edge_index[1].diff() >= 0).all()


def test_types_of_nodes_and_edges_can_have_any_name():
    data = random_hetero()
    with pytest.raises(ValueError, match="Missing number of neighbors"):
        edgecut.NeighborLoader(data, {("paper", "cites", "paper"): [2]}, "paper")
    fan_outs = {("paper", "cites", "paper"): [2, 0], ("author; x=1", "paper"): [0, 3], ("paper", "rev_to", "author; x=1"): [1, 1]}
    for nodes in ("paper", ("paper", None), ("paper", torch.arange(40)), ["paper", torch.ones(40, dtype=torch.bool)]):
        loader = edgecut.NeighborLoader(data, fan_outs, nodes, batch_size=8, num_workers=2)
        for batch in loader:
            check_batch(batch, data)
            assert set(batch.node_types) == set(data.node_types) and set(batch.edge_types) == set(data.edge_types)
            assert torch.equal(batch["paper"].n_id[:8], batch["paper"].input_id)
            assert batch["paper"].batch_size == 8
            edges = batch["author; x=1", "to", "paper"]
            assert edges.num_sampled_edges[0] == 0
    lonely = next(iter(edgecut.NeighborLoader(data, [2], "lonely", batch_size=5)))
    assert lonely["lonely"].num_nodes == 5 and lonely["paper"].num_nodes == 0


def test_a_graph_of_one_type_keeps_its_type():
    data = HeteroData()
    data["v"].x = torch.arange(10)
    data["v", "e", "v"].edge_index = torch.stack([torch.arange(10), torch.arange(10).roll(1)])
    batch = next(iter(edgecut.NeighborLoader(data, [1], ("v", torch.tensor([4])))))
    assert isinstance(batch, HeteroData) and batch["v"].n_id.tolist() == [4, 5]
    del data["v", "e", "v"]
    batch = next(iter(edgecut.NeighborLoader(data, [1], "v", batch_size=10)))
    assert batch["v"].n_id.tolist() == list(range(10))
    batch = next(iter(edgecut.NeighborLoader(Data(x=torch.arange(4)), [2, 2], batch_size=4)))
    assert batch.x.tolist() == [0, 1, 2, 3] and batch.num_sampled_edges == [0, 0]


def test_the_same_seed_gives_the_same_batches():
    data = random_data()

    def load(num_workers, **more):
        arguments = {"neg_sampling_ratio": 1.5, "batch_size": 32, "shuffle": True, "num_workers": num_workers, **more}
        loader = edgecut.LinkNeighborLoader(data, [3, 2], **arguments)
        return [(b.e_id, b.edge_label_index, b.input_id) for _ in range(2) for b in loader]

    equal = lambda one, other: all(map(lambda a, b: all(map(torch.equal, a, b)), one, other)) and len(one) == len(other)
    assert equal(load(0, seed=5), load(3, seed=5)) and not equal(load(0, seed=5), load(0, seed=6))
    torch.manual_seed(1)
    first = load(2)
    torch.manual_seed(1)
    assert equal(first, load(0)) and not equal(first, load(0))
    half = len(first) // 2
    assert not equal(first[:half], first[half:])
    generator = lambda: torch.Generator().manual_seed(8)
    assert equal(load(0, generator=generator()), load(2, generator=generator()))
    with pytest.raises(ValueError, match="`seed` and `generator` exclude each other"):
        load(0, seed=1, generator=generator())


def test_arguments_of_data_loader_work():
    data = random_data()
    load = lambda **more: edgecut.NeighborLoader(data, [2], **more)
    weighted = torch.utils.data.WeightedRandomSampler(torch.arange(60.0), 100)
    assert sum(batch.batch_size for batch in load(sampler=weighted, batch_size=10)) == 100
    batches = [[1, 2], [3], [5, 5, 4]]
    found = [batch.input_id.tolist() for batch in load(batch_sampler=batches, num_workers=2)]
    assert found == batches
    started = []
    assert len(list(load(num_workers=2, worker_init_fn=started.append, batch_size=1))) == 60
    assert started and set(started) <= {0, 1}

    def wait(batch):
        started.append("waits")
        released.wait(60)
        return batch

    import threading

    released = threading.Event()
    slow = load(num_workers=1, timeout=0.01, transform=wait)
    with pytest.raises(RuntimeError, match="timed out after 0.01 seconds"):
        next(iter(slow))
    released.set()
    halves = [torch.utils.data.DistributedSampler(range(60), 2, rank, shuffle=False) for rank in range(2)]
    of_ranks = [torch.cat([batch.input_id for batch in load(sampler=half, batch_size=8)]) for half in halves]
    assert sorted(torch.cat(of_ranks).tolist()) == list(range(60))
    for name in ("enable_cpu_affinity", "enable_multithreading"):
        with pytest.raises(NotImplementedError, match=f"`{name}` is for worker processes"):
            getattr(load(num_workers=2), name)()
    double = load(transform=lambda batch: (batch, batch.x * 2), batch_size=60)
    batch, x = next(iter(double))
    assert torch.equal(x, data.x[batch.n_id] * 2)
    seen = []
    first = load(transform_sampler_output=lambda out: seen.append(type(out).__name__) or out)([0])
    assert seen == ["SamplerOutput"] and first.n_id[0] == 0

    def fail(batch):
        raise KeyError("not here")

    with pytest.raises(KeyError, match="not here"):
        list(load(num_workers=2, transform=fail))


def test_a_loader_can_be_pickled():
    data = random_data()
    graph = edgecut.from_pyg(data)
    loader = edgecut.NeighborLoader(graph, [3, 3], data.train_mask, batch_size=8, seed=4, num_workers=2)
    before = [batch.e_id for batch in loader]
    again = pickle.loads(pickle.dumps(edgecut.NeighborLoader(graph, [3, 3], data.train_mask, batch_size=8, seed=4)))
    assert all(map(torch.equal, before, [batch.e_id for batch in again]))
    again = pickle.loads(pickle.dumps(loader))
    assert sum(batch.batch_size for batch in again) == data.train_mask.sum()


def test_a_program_may_change_the_attributes_of_loader_data():
    data = random_data()
    loader = edgecut.NeighborLoader(data, [-1], batch_size=20, num_workers=2)
    del loader.data.x
    loader.data.n_id = torch.arange(60) + 1000
    for batch in loader:
        assert "x" not in batch and torch.equal(batch.n_id[: batch.batch_size], batch.input_id + 1000)


def test_loaders_share_a_graph():
    data = random_data()
    graph = edgecut.from_pyg(data)
    loaders = [edgecut.NeighborLoader(graph, [2], batch_size=60), edgecut.LinkNeighborLoader(graph, [-1], batch_size=300)]
    assert all(loader.data is data for loader in loaders)
    assert loaders[0].node_sampler.graph is loaders[1].link_sampler.graph
    for loader in loaders:
        check_batch(next(iter(loader)), data)


@pytest.mark.parametrize("change", ["numpy", "data", "inference"])
def test_a_graph_that_is_prepared_again_has_changes_that_pytorch_does_not_count(change):
    ends = np.array([[1, 2], [0, 0]])
    with torch.inference_mode(change == "inference"):
        edge_index = torch.from_numpy(ends) if change == "numpy" else torch.tensor(ends)
    data = Data(x=torch.zeros(4, 1), edge_index=edge_index)

    def sources(graph):
        return next(iter(edgecut.NeighborLoader(graph, [-1], torch.tensor([0]), batch_size=1))).n_id.tolist()

    assert sources(edgecut.from_pyg(data)) == [0, 1, 2]
    if change == "numpy":
        ends[0, 0] = 3
    elif change == "data":
        edge_index.data[0, 0] = 3
    else:
        with torch.inference_mode():
            edge_index[0, 0] = 3
    assert sources(edgecut.from_pyg(data)) == sources(data) == [0, 3, 2]


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("amount", [0.3, 1, 1.7, 3])
def test_binary_negatives_and_labels(disjoint, amount):
    data = random_data()
    edges = data.edge_index[:, :101]
    labels = torch.arange(101) % 4
    for label in (None, labels, labels + 1):
        loader = edgecut.LinkNeighborLoader(
            data, [3], edges, label, neg_sampling={"mode": "binary", "amount": amount}, disjoint=disjoint, batch_size=20
        )
        for batch in loader:
            check_batch(batch, data)
            size = len(batch.input_id)
            assert torch.equal(batch.n_id[batch.edge_label_index[:, :size]], edges[:, batch.input_id])
            assert batch.edge_label_index.shape[1] == len(batch.edge_label) == size + -(-size * amount // 1)
            expected = torch.ones(size) if label is None else (labels + 1)[batch.input_id]
            assert torch.equal(batch.edge_label[:size], expected) and batch.edge_label.dtype == expected.dtype
            assert (batch.edge_label[size:] == 0).all()
    for batch in edgecut.LinkNeighborLoader(data, [3], edges, labels, batch_size=20):
        assert torch.equal(batch.edge_label, labels[batch.input_id])


@pytest.mark.parametrize("disjoint", [False, True])
def test_triplets(disjoint):
    data = random_data()
    for amount in (1, 2):
        loader = edgecut.LinkNeighborLoader(data, [2], neg_sampling=NegativeSampling("triplet", amount), disjoint=disjoint, batch_size=50)
        for batch in loader:
            check_batch(batch, data)
            found = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
            assert torch.equal(found, data.edge_index[:, batch.input_id])
            assert batch.dst_neg_index.shape == ((50,) if amount == 1 else (50, 2))
    with pytest.raises(ValueError, match="'edge_label' needs to be undefined"):
        edgecut.LinkNeighborLoader(data, [2], edge_label=torch.ones(300), neg_sampling="triplet")


def test_weights_choose_negatives():
    data = random_data()
    weight = torch.zeros(60)
    weight[17] = 1
    loader = edgecut.LinkNeighborLoader(data, [1], neg_sampling=NegativeSampling("triplet", 1, dst_weight=weight), batch_size=300)
    batch = next(iter(loader))
    assert (batch.n_id[batch.dst_neg_index] == 17).all()


def test_edges_between_types():
    data = random_hetero()
    edge_type = ("author; x=1", "to", "paper")
    for edges in (edge_type, (edge_type, None), (("author; x=1", "paper"), data[edge_type].edge_index)):
        for batch in edgecut.LinkNeighborLoader(data, [2, 2], edges, neg_sampling="binary", batch_size=24):
            check_batch(batch, data)
            row, col = batch[edge_type].edge_label_index[:, :24]
            found = torch.stack([batch[edge_type[0]].n_id[row], batch["paper"].n_id[col]])
            assert torch.equal(found, data[edge_type].edge_index[:, batch[edge_type].input_id])


def test_edges_to_predict_can_have_a_type_of_their_own():
    alone = HeteroData(paper={"num_nodes": 40})
    pairs = torch.randint(25, (2, 60), generator=torch.Generator().manual_seed(1))
    for data, name in ((alone, ("paper", "paper")), (random_hetero(), ("author; x=1", "author; x=1"))):
        # PyG calls a type with two names "to".
        edge_type = (name[0], "to", name[1])
        for given in (name, edge_type):
            for batch in edgecut.LinkNeighborLoader(data, [] if data is alone else [2], (given, pairs), batch_size=20):
                row_and_col = batch[name[0]].n_id[batch[edge_type].edge_label_index]
                assert torch.equal(row_and_col, pairs[:, batch[edge_type].input_id])
    data = random_hetero()
    data["paper", "extends", "paper"].edge_index = torch.zeros(2, 0, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"2 edge types are from 'paper' to 'paper': name one of \('paper', 'cites', 'paper'\), "):
        edgecut.LinkNeighborLoader(data, [2], (("paper", "paper"), pairs))
    with pytest.raises(ValueError, match="`edge_label_index` names none of the types"):
        edgecut.LinkNeighborLoader(data, [2], (("paper", "lonesome"), pairs))


def test_times_of_edges_to_predict():
    data = random_data()
    times = torch.randint(30, 100, (300,))
    loader = edgecut.LinkNeighborLoader(data, [4, 4], edge_label_time=times, time_attr="born", batch_size=30, neg_sampling="binary")
    for batch in loader:
        check_batch(batch, data)
        assert torch.equal(batch.edge_label_time[:30], times[batch.input_id])
        limit = times[batch.input_id][batch.batch]
        row, col = batch.edge_index
        assert (batch.born[row] <= limit[col]).all()
    for arguments in ({"edge_label_time": times}, {"time_attr": "born"}):
        with pytest.raises(ValueError, match="'edge_label_time' is .*set while 'time_attr' is"):
            edgecut.LinkNeighborLoader(data, [2], **arguments)


@pytest.mark.parametrize("relation", ["same type", "other types"])
def test_seed_edges_are_kept_as_in_pyg_and_excluded_on_request(relation):
    if relation == "same type":
        data, edges = random_data(), None
        message = lambda batch: batch.n_id[batch.edge_index].t().tolist()
        seeds = lambda batch: batch.n_id[batch.edge_label_index].t().tolist()
    else:
        data, edges = random_hetero(), ("author; x=1", "to", "paper")
        reverse = ("paper", "rev_to", "author; x=1")
        # A reverse edge for each edge.
        data[reverse].edge_index = data[edges].edge_index.flip(0)
        ids = lambda batch, key, ends: torch.stack([batch[key[0]].n_id[ends[0]], batch[key[2]].n_id[ends[1]]])
        message = lambda batch: (
            ids(batch, edges, batch[edges].edge_index).t().tolist() + ids(batch, reverse, batch[reverse].edge_index).flip(0).t().tolist()
        )
        seeds = lambda batch: ids(batch, edges, batch[edges].edge_label_index).t().tolist()
    load = lambda **more: edgecut.LinkNeighborLoader(data, [-1], edges, batch_size=40, **more)
    for batch in load():
        assert set(map(tuple, seeds(batch))) <= set(map(tuple, message(batch)))
    for batch in load(exclude_seed_edges=True):
        assert not set(map(tuple, seeds(batch))) & set(map(tuple, message(batch)))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_stores_of_features_and_edges(layout):
    from torch_geometric.testing.feature_store import MyFeatureStore
    from torch_geometric.testing.graph_store import MyGraphStore

    data = random_data()
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(data.born, group_name=None, attr_name="time", index=None)
    row, col = data.edge_index
    sorted_by = {"coo": torch.arange(300), "csr": row.argsort(), "csc": col.argsort()}[layout]
    row, col = row[sorted_by], col[sorted_by]
    pointers = lambda ends: torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(ends, minlength=60).cumsum(0)])
    stored = {"coo": (row, col), "csr": (pointers(row), col), "csc": (row, pointers(col))}[layout]
    size = None if layout == "coo" else (60, 60)
    graph.put_edge_index(stored, edge_type=None, layout=layout, size=size)
    edges = set(map(tuple, data.edge_index.t().tolist()))
    for more in ({}, {"time_attr": "time"}):
        for batch in edgecut.NeighborLoader((features, graph), [2, 2], torch.arange(60), batch_size=9, **more):
            assert isinstance(batch, Data) and torch.equal(batch.x, data.x[batch.n_id])
            assert set(map(tuple, batch.n_id[batch.edge_index].t().tolist())) <= edges
            if more:
                assert (batch.time[batch.edge_index[0]] <= batch.time[batch.batch[batch.edge_index[1]]]).all()

    whole = random_hetero()
    for edges in ("paper", ("paper", torch.arange(40))):
        for batch in edgecut.NeighborLoader((whole, whole), [2, 2], edges, batch_size=9):
            assert isinstance(batch, HeteroData)
            for key in ("paper", "author; x=1"):
                assert torch.equal(batch[key].x, whole[key].x[batch[key].n_id])


@pytest.mark.parametrize("name", LOADERS)
def test_wrong_arguments_name_the_remedy(name):
    data = random_data()
    load = lambda **more: getattr(edgecut, name)(data, **{"num_neighbors": [2], **more})
    for error, why, arguments in [
        (ValueError, "`num_neighbors`: fan-out \"-2\"", {"num_neighbors": [-2]}),
        (ValueError, "'neither' is not a valid SubgraphType", {"subgraph_type": "neither"}),
        (ValueError, "`weight_attr`: the edges have no attribute 'heavy'", {"weight_attr": "heavy"}),
        (ValueError, "edge 0 has weight -1, which is negative", {"weight_attr": "negative"}),
        (TypeError, "has no argument `output`: PyG's data has batches of PyG", {"output": "numpy"}),
        (TypeError, "has no argument `edge_index`: .*`e_id` without it", {"edge_index": data.edge_index}),
        (TypeError, "has no argument `even_batches`: use `sampler", {"even_batches": True}),
        (TypeError, "unexpected keyword argument 'batchsize'", {"batchsize": 3}),
    ]:
        data.negative = -torch.ones(300)
        with pytest.raises(error, match=why):
            load(**arguments)
    of_nodes = {"input_nodes": torch.tensor([3, 60])}
    with pytest.raises(ValueError, match="has 60, which is not one of the 60 nodes"):
        load(**(of_nodes if name == "NeighborLoader" else {"edge_label_index": torch.tensor([[3], [60]])}))
    with pytest.warns(UserWarning, match="`directed=False` is deprecated"):
        load(directed=False)
    with pytest.raises(TypeError, match="`data` must be a Store"):
        getattr(edgecut, name)("data", [2])


def test_inputs_of_typed_data_name_a_type():
    data = random_hetero()
    for nodes in (None, "book", ("book", torch.arange(3)), torch.arange(3)):
        with pytest.raises(ValueError, match="`input_nodes` names none of the types paper, author; x=1, lonely"):
            edgecut.NeighborLoader(data, [2], nodes)
    edges = data["paper", "cites", "paper"].edge_index
    for given in (None, ("paper", "likes", "paper"), ("book", "paper"), (("paper", "likes", "book"), edges), edges):
        with pytest.raises(ValueError, match="`edge_label_index` names none of the types"):
            edgecut.LinkNeighborLoader(data, [2], given)
    # Edges to predict can have a type of their own.
    loader = edgecut.LinkNeighborLoader(data, [2], (("paper", "likes", "paper"), edges), exclude_seed_edges=True, batch_size=9)
    assert next(iter(loader))["paper", "likes", "paper"].edge_label_index.shape == (2, 9)
    with pytest.raises(ValueError, match="`input_time` has 3 entries for 60 input nodes"):
        edgecut.NeighborLoader(random_data(), [2], time_attr="born", input_time=torch.arange(3))
    with pytest.raises(ValueError, match="`edge_label` has 3 entries for 300 edges"):
        edgecut.LinkNeighborLoader(random_data(), [2], edge_label=torch.arange(3))


def test_wrong_times_name_the_remedy():
    data = random_data()
    data.broken = torch.rand(60)
    load = lambda **more: edgecut.NeighborLoader(data, [2], **more)
    with pytest.raises(ValueError, match="'input_time' is set while 'time_attr' is not set"):
        load(input_time=torch.arange(60))
    with pytest.raises(ValueError, match="`time_attr`: 'died' is an attribute of neither nodes nor edges"):
        load(time_attr="died")
    with pytest.raises(ValueError, match=r"`time_attr` .*float32: convert it with `.long\(\)`"):
        load(time_attr="broken")
    with pytest.raises(ValueError, match="'induced'` has edges of any time, so it excludes `time_attr`"):
        load(time_attr="born", subgraph_type="induced")
    with pytest.raises(ValueError, match="have no times of their own, so pass `input_time`"):
        load(time_attr="created")([0])
    # A node without a given time has its own.
    for batch in load(time_attr="born", batch_size=6):
        assert (batch.born[batch.edge_index[0]] <= batch.born[batch.batch[batch.edge_index[1]]]).all()


def test_layer_wise_inference_of_pyg_takes_a_loader():
    from torch_geometric.nn import GraphSAGE

    data = random_data()
    data.x = data.x.float()
    model = GraphSAGE(3, 8, num_layers=2, out_channels=4).eval()
    whole = edgecut.NeighborLoader(data, [-1], batch_size=17)
    with torch.no_grad():
        expected = model(data.x, data.edge_index)
        torch.testing.assert_close(model.inference(whole), expected)


RANKS = """
import torch, torch.distributed as dist, edgecut
from torch_geometric.data import Data
dist.init_process_group("gloo")
torch.manual_seed(0)
data = Data(x=torch.arange(90.0), edge_index=torch.randint(90, (2, 400)))
own = torch.arange(90).split(45)[dist.get_rank()]
loader = edgecut.NeighborLoader(data, [3, 2], own, batch_size=10, shuffle=True, num_workers=2)
seen = torch.zeros(90)
for batch in loader:
    seen[batch.n_id[: batch.batch_size]] += 1
    assert torch.equal(batch.x, data.x[batch.n_id])
dist.all_reduce(seen)
assert (seen == 1).all()
"""


def test_processes_of_a_job_have_loaders_of_their_own():
    finished(start(RANKS, 2))
