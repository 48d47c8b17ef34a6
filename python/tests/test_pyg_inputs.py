"""Arguments of loaders of PyG's data, in all the forms that programs give them, and wrong ones."""

import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from test_pyg_data import check_batch, random_data, random_hetero  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402
from torch_geometric.testing.feature_store import MyFeatureStore  # noqa: E402
from torch_geometric.testing.graph_store import MyGraphStore  # noqa: E402

import edgecut  # noqa: E402
import edgecut.pyg_loaders  # noqa: E402
from edgecut.pyg_sampler import NeighborSampler  # noqa: E402


def nodes_of(loader, node_type=None):
    """Return the input nodes of all batches."""
    found = [batch if node_type is None else batch[node_type] for batch in loader]
    return torch.cat([nodes.n_id[: nodes.batch_size] for nodes in found]).tolist()


CONTAINERS = [torch.as_tensor, np.asarray, list, lambda mask: torch.as_tensor(mask).view(-1, 1)]


@pytest.mark.parametrize("container", CONTAINERS)
def test_masks_in_any_container_choose_nodes(container):
    mask = np.arange(60) >= 50
    chosen = list(range(50, 60))
    data, typed = random_data(), random_hetero()
    assert nodes_of(edgecut.NeighborLoader(data, [2], container(mask), batch_size=7)) == chosen
    for load in (edgecut.NeighborLoader, edgecut.HGTLoader):
        loader = load(typed, [2], ("paper", container(mask[20:])), batch_size=7)
        assert nodes_of(loader, "paper") == list(range(30, 40))
        assert torch.cat([batch["paper"].input_id for batch in loader]).tolist() == list(range(30, 40))
    shadow = edgecut.ShaDowKHopSampler(data, 1, 2, container(mask), batch_size=7)
    assert shadow.node_idx.tolist() == chosen and sum(len(batch.root_n_id) for batch in shadow) == 10


def test_masks_of_another_length_are_refused():
    data, typed = random_data(), random_hetero()
    for argument, load in (
        ("input_nodes", lambda mask: edgecut.NeighborLoader(data, [2], mask)),
        ("input_nodes", lambda mask: edgecut.HGTLoader(typed, [2], ("paper", mask))),
        ("node_idx", lambda mask: edgecut.ShaDowKHopSampler(data, 1, 2, mask)),
    ):
        for mask in (torch.tensor([True, False, True]), np.ones(61, bool)):
            with pytest.raises(ValueError, match=f"`{argument}`: the mask has the shape .*, but there are [46]0 nodes"):
                load(mask)


def test_masks_of_numbers_and_masked_entries_are_refused():
    data, typed = random_data(), random_hetero()
    for argument, load in (
        ("input_nodes", lambda nodes: edgecut.NeighborLoader(data, [2], nodes)),
        ("input_nodes", lambda nodes: edgecut.HGTLoader(typed, [2], ("paper", nodes[:40]))),
        ("node_idx", lambda nodes: edgecut.ShaDowKHopSampler(data, 1, 2, nodes)),
    ):
        for mask in (torch.arange(60) % 2, (np.arange(60) == 3).astype(np.uint8)):
            with pytest.raises(ValueError, match=f"`{argument}` has [46]0 entries, all of them 0 or 1, .*: a mask has the type bool"):
                load(mask)
        with pytest.raises(ValueError, match=f"`{argument}` has masked entries"):
            load(np.ma.array(np.arange(60) % 40, mask=np.arange(60) == 3))
    # These are ids.
    assert nodes_of(edgecut.NeighborLoader(data, [2], [0, 1, 1, 0], batch_size=4)) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="`input_time` must .*whole numbers"):
        edgecut.NeighborLoader(data, [2], [3], np.array([1], "timedelta64[s]"), time_attr="born")


def test_two_arguments_for_negatives_exclude_each_other():
    # PyG takes the ratio.
    for ratio in (1.0, 2):
        with pytest.raises(ValueError, match="`neg_sampling_ratio` and `neg_sampling` exclude each other"):
            edgecut.LinkNeighborLoader(random_data(), [2], neg_sampling="triplet", neg_sampling_ratio=ratio)
    assert len(edgecut.LinkNeighborLoader(random_data(), [2], neg_sampling="triplet", neg_sampling_ratio=0.0)) == 300


def test_the_last_neighbors_need_times():
    data = random_data()
    for load in (
        lambda **more: edgecut.NeighborLoader(data, [2], temporal_strategy="last", **more),
        lambda **more: edgecut.LinkNeighborLoader(data, [2], temporal_strategy="last", **more),
    ):
        with pytest.raises(ValueError, match="`temporal_strategy='last'` needs `time_attr`"):
            load()
    assert len(edgecut.NeighborLoader(data, [2], temporal_strategy="last", time_attr="born")) == 60


def test_fractions_are_neither_ids_nor_times_nor_numbers():
    data, typed = random_data(), random_hetero()
    half, times = torch.tensor([3.5]), torch.full((60,), -0.5)
    born = {"time_attr": "born"}
    for argument, load in {
        "input_nodes": lambda: edgecut.NeighborLoader(data, [2], half),
        "input_nodes`": lambda: edgecut.NeighborLoader(data, [2], half.numpy()),
        "input_id": lambda: edgecut.NeighborLoader(data, [2], [3], input_id=half),
        "input_time": lambda: edgecut.NeighborLoader(data, [2], input_time=times, **born),
        "num_neighbors": lambda: edgecut.NeighborLoader(data, [2.7]),
        "edge_label_index": lambda: edgecut.LinkNeighborLoader(data, [2], data.edge_index + 0.5),
        "edge_label_time": lambda: edgecut.LinkNeighborLoader(data, [2], edge_label_time=torch.rand(300), **born),
        "node_idx": lambda: edgecut.ShaDowKHopSampler(data, 1, 2, half),
        "input_nodes``": lambda: edgecut.HGTLoader(typed, [2], ("paper", half)),
    }.items():
        with pytest.raises(ValueError, match=f"`{argument.strip('`')}` must .*whole numbers"):
            load()
    # Samplers of programs get them as well.
    from torch_geometric.sampler import NodeSamplerInput

    with pytest.raises(ValueError, match="whole numbers"):
        NeighborSampler(data, [2]).sample_from_nodes(NodeSamplerInput(None, half))


def stores(data, layout, size, edge_index=None):
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    row, col = data.edge_index if edge_index is None else edge_index
    if layout == "csr":
        row, col = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(row, minlength=60).cumsum(0)]), col[row.argsort()]
    graph.put_edge_index((row, col), edge_type=None, layout=layout, size=size)
    return features, graph


def test_features_of_edges_are_no_number_of_nodes():
    data = random_data()
    for first, second in (("edge_time", "x"), ("x", "edge_time")):
        features, graph = MyFeatureStore(), MyGraphStore()
        values = {"x": data.x, "edge_time": torch.arange(300)}
        for name in (first, second):
            features.put_tensor(values[name], group_name=None, attr_name=name, index=None)
        graph.put_edge_index(tuple(data.edge_index), edge_type=None, layout="coo", size=None)
        with pytest.raises(ValueError, match="the number of nodes is unknown: .* `size` of the EdgeAttr"):
            edgecut.NeighborLoader((features, graph), [2])


@pytest.mark.parametrize("wrong", [-1, 60, 10**12])
def test_edges_out_of_range_are_named(wrong):
    """PyTorch would write out of bounds."""
    for end, name in ((0, "source"), (1, "destination")):
        data = random_data()
        data.edge_index[end, 17] = wrong
        why = f"`data`: edge 17 has the {name} {wrong}, which is not one of the 60 nodes"
        for load in (edgecut.NeighborLoader, edgecut.LinkNeighborLoader):
            with pytest.raises(ValueError, match=why):
                load(data, [2])
        typed = random_hetero()
        typed["paper", "cites", "paper"].edge_index[end, 3] = wrong
        for load in (edgecut.NeighborLoader, edgecut.HGTLoader):
            with pytest.raises(ValueError, match=f"edge 3 of type .*'cites'.* has the {name} {wrong}, which is not one of the 40"):
                load(typed, [2], "paper")
    data = random_data()
    for layout, size in (("coo", (60, 60)), ("csr", (60, 60)), ("coo", (60, 30)), ("coo", None)):
        edges = data.edge_index.clone()
        edges[1, 17] = wrong
        with pytest.raises(ValueError, match=f"edge .* has the destination {wrong}"):
            edgecut.NeighborLoader(stores(data, layout, size, edges), [2], torch.arange(60))


def test_data_without_edges_and_nodes_out_of_range_are_refused_at_once():
    data, typed = random_data(), random_hetero()
    for argument, load in (
        ("input_nodes", lambda ids: edgecut.NeighborLoader(data, [2], ids)),
        ("input_nodes", lambda ids: edgecut.NeighborLoader(typed, [2], ("paper", ids))),
        ("input_nodes", lambda ids: edgecut.HGTLoader(typed, [2], ("paper", ids))),
        ("node_idx", lambda ids: edgecut.ShaDowKHopSampler(data, 1, 2, ids)),
        ("edge_label_index", lambda ids: edgecut.LinkNeighborLoader(data, [2], [[1, 1], ids])),
        ("edge_label_index", lambda ids: edgecut.LinkNeighborLoader(typed, [2], (("paper", "cites", "paper"), [ids, [1, 1]]))),
    ):
        for wrong in (60, -1):
            with pytest.raises(ValueError, match=f"`{argument}` has {wrong}, which is not one of the [46]0 nodes"):
                load([3, wrong])
    for load in (lambda given: edgecut.NeighborLoader(given, [2]), edgecut.from_pyg):
        for name in ("edge_idx", "Edges"):
            misspelt = Data(x=data.x, **{name: data.edge_index})
            with pytest.raises(ValueError, match=f"`data` has `{name}`, but no `edge_index`.*name the edges `edge_index`"):
                load(misspelt)
    edge_type = typed.edge_types[0]
    typed[edge_type].edge_idx = typed[edge_type].edge_index
    del typed[edge_type].edge_index
    with pytest.raises(ValueError, match="`data` has `edge_attr`, `edge_idx` of type .*, but no `edge_index`"):
        edgecut.LinkNeighborLoader(typed, [2], typed.edge_types[1])


def test_edges_that_are_not_sorted_are_refused():
    data = random_data()
    data.edge_index = torch.tensor([[0, 1, 2], [3, 5, 4]])
    data = Data(x=data.x, edge_index=data.edge_index)
    for load in (lambda: edgecut.NeighborLoader(data, [2], is_sorted=True), lambda: edgecut.NeighborLoader(edgecut.from_pyg(data, is_sorted=True), [2])):
        with pytest.raises(ValueError, match="`is_sorted`: edge 2 leads to node 4, after an edge to node 5: sort the edges"):
            load()


def test_settings_beside_a_given_sampler_are_refused():
    data = random_data()
    times = torch.full((60,), 50)
    sampler = NeighborSampler(data, [-1])
    with pytest.raises(ValueError, match="`num_neighbors` is a setting of the sampler"):
        edgecut.NeighborLoader(data, [1], neighbor_sampler=sampler)
    with pytest.raises(ValueError, match="`time_attr` is 'born', but the `neighbor_sampler` has other times or none"):
        edgecut.NeighborLoader(data, None, time_attr="born", input_time=times, neighbor_sampler=sampler)
    # PyG's own loader asks the sampler.
    from torch_geometric.loader import NodeLoader

    with pytest.raises(ValueError, match="`input_time` and `edge_label_time` need a sampler with `time_attr`"):
        next(iter(NodeLoader(data, sampler, input_time=times)))
    with pytest.raises(ValueError, match="the `neighbor_sampler` samples another graph"):
        edgecut.NeighborLoader(random_data(), None, neighbor_sampler=sampler)
    timed = NeighborSampler(data, [-1], time_attr="born")
    loader = edgecut.NeighborLoader(data, [-1], time_attr="born", input_time=times, neighbor_sampler=timed, batch_size=60)
    assert (next(iter(loader)).born[next(iter(loader)).edge_index[0]] <= 50).all()


@pytest.mark.parametrize("scale", [1e-50, 1e-320, 1.0, 1e300])
def test_weights_of_wide_types_keep_their_ratios(scale):
    # Each node has one edge that is a thousand times as likely as the other.
    edges = torch.tensor([[0, 1] * 500, [2] * 1000])
    weights = torch.tensor([1.0, 1000.0] * 500, dtype=torch.float64) * scale
    if scale == 1e-320:
        weights = torch.tensor([1e-320, 1e-317] * 500, dtype=torch.float64)
    data = Data(x=torch.zeros(3, 1), edge_index=edges, weight=weights)
    batch = next(iter(edgecut.NeighborLoader(data, [300], [2], weight_attr="weight", seed=1)))
    assert batch.num_edges == 300 and (batch.n_id[batch.edge_index[0]] == 1).sum() > 290


def test_weights_are_real_numbers_of_any_type():
    data = random_data()
    count = lambda: next(iter(edgecut.NeighborLoader(data, [3], weight_attr="weight", batch_size=60))).num_edges
    expected = count()
    for convert in (torch.Tensor.bfloat16, torch.Tensor.half, lambda weight: (weight * 100).long()):
        plain, data.weight = data.weight, convert(data.weight)
        assert count() == expected
        data.weight = plain
    data.weight = torch.complex(data.weight, data.weight)
    with pytest.raises(ValueError, match="`weight_attr` names weights of torch.complex64"):
        count()
    data.weight = torch.tensor([1e-50] + [1e20] * 299, dtype=torch.float64)
    with pytest.raises(ValueError, match="differ by more than a factor of 1e38"):
        count()


def test_vectors_may_be_columns():
    data = random_data()
    data.born, data.created = data.born.view(-1, 1), data.created.view(-1, 1)
    times = torch.full((300, 1), 50)
    for name in ("born", "created"):
        loader = edgecut.LinkNeighborLoader(
            data, [2], edge_label_time=times, time_attr=name, neg_sampling="binary", batch_size=60
        )
        for batch in loader:
            found = batch.created if name == "created" else batch.born[batch.edge_index[0]]
            assert batch.num_edges > 0 and (found <= 50).all()
    assert sum(batch.batch_size for batch in edgecut.NeighborLoader(data, [2], time_attr="born", batch_size=30)) == 60
    data.born = data.born[:30]
    with pytest.raises(ValueError, match="`time_attr`: 'born' is an attribute of neither|`time_attr` has 30 entries for 60 nodes"):
        edgecut.NeighborLoader(data, [2], time_attr="born")


def test_edges_to_predict_may_be_arrays():
    data = random_data()
    labels = np.arange(300) % 4
    loader = edgecut.LinkNeighborLoader(data, [2], data.edge_index.numpy(), labels, neg_sampling="binary", batch_size=40)
    for batch in loader:
        check_batch(batch, data)
        assert torch.equal(batch.edge_label[: len(batch.input_id)], torch.from_numpy(labels + 1)[batch.input_id])
        assert torch.equal(batch.n_id[batch.edge_label_index[:, : len(batch.input_id)]], data.edge_index[:, batch.input_id])
    empty = edgecut.LinkNeighborLoader(data, [2], np.empty((2, 0)), np.empty(0), neg_sampling="binary")
    assert list(empty) == []
    with pytest.raises(ValueError, match=r"`edge_label_index` has the shape \(300, 2\), expected \(2, number of edges\)"):
        edgecut.LinkNeighborLoader(data, [2], data.edge_index.t())
    for amount in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"`neg_sampling`: the amount is {amount}, but must be a positive number"):
            edgecut.LinkNeighborLoader(data, [2], neg_sampling_ratio=amount)
    with pytest.raises(ValueError, match="`input_id` has 3 entries for 300 edges"):
        edgecut.LinkNeighborLoader(data, [2], input_id=torch.arange(3))
    with pytest.raises(ValueError, match="`input_id` has 3 entries for 60 input nodes"):
        edgecut.NeighborLoader(data, [2], input_id=torch.arange(3))


def test_the_greatest_label_of_a_small_type_is_not_the_label_of_negatives():
    data = random_data()
    labels = torch.tensor([255, 0, 1], dtype=torch.uint8)
    for given in (labels, labels.numpy()):
        loader = edgecut.LinkNeighborLoader(data, [2], data.edge_index[:, :3], given, neg_sampling="binary", batch_size=3)
        assert [batch.edge_label.tolist() for batch in loader] == [[256, 1, 2, 0, 0, 0]]


def test_stores_need_neither_sizes_nor_input_nodes():
    data = random_data()
    for size in (None, (None, None), (60, 60)):
        loader = edgecut.NeighborLoader(stores(data, "coo", size), [2], batch_size=7)
        assert nodes_of(loader) == list(range(60))
    pairs = edgecut.LinkNeighborLoader(stores(data, "coo", None), [2], data.edge_index, batch_size=50)
    assert sum(batch.edge_label_index.shape[1] for batch in pairs) == 300
    with pytest.raises(ValueError, match="`edge_label_index`: `data` has no `edge_index` with all edges, so pass the edges"):
        edgecut.LinkNeighborLoader(stores(data, "coo", None), [2])
    typed = random_hetero()
    assert nodes_of(edgecut.NeighborLoader((typed, typed), [2], ("paper", None)), "paper") == list(range(40))
    for nodes in (None, "book", torch.arange(3)):
        with pytest.raises(ValueError, match="`input_nodes` names none of the types"):
            edgecut.NeighborLoader((typed, typed), [2], nodes)


def test_hgt_checks_nodes_and_numbers():
    data = random_hetero()
    sampler = edgecut.HGTLoader(data, [2], "paper").node_sampler
    for node in (-2, 40):
        with pytest.raises(ValueError, match=f"node {node} is not one of the 40 nodes of type 'paper'"):
            sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([node]), None, "paper"))
    for number in (-1, 2.5):
        with pytest.raises((TypeError, ValueError), match="`num_samples` "):
            edgecut.HGTLoader(data, [number], "paper")
    with pytest.raises(ValueError, match="`input_nodes` names none of the types"):
        edgecut.HGTLoader(data, [2], torch.arange(3))
    with pytest.raises(ValueError, match="`input_time`: HGT samples nodes of any time"):
        next(iter(edgecut.HGTLoader(data, [2], "paper", input_time=torch.arange(40))))


def test_loaders_of_a_shared_graph_can_be_pickled():
    data = random_hetero()
    graph = edgecut.from_pyg(data)
    for load in (edgecut.NeighborLoader, edgecut.HGTLoader):
        loader = load(graph, [2, 2], "paper", batch_size=9, seed=3)
        again = pickle.loads(pickle.dumps(loader))
        for one, other in zip(loader, again):
            assert torch.equal(one["paper"].n_id, other["paper"].n_id)


def test_shadow_tells_attributes_of_edges_from_those_of_nodes():
    ends = torch.arange(10)
    data = Data(x=ends.clone(), edge_index=torch.stack([ends, ends.roll(3)]), edge_attr=ends.clone())
    for batch in edgecut.ShaDowKHopSampler(data, 1, -1, batch_size=4):
        # An edge has the number of its source.
        assert torch.equal(batch.edge_attr, batch.x[batch.edge_index[0]])
        assert len(batch.x) == batch.num_nodes


def test_a_subclass_of_the_same_name_is_refused():
    class NeighborLoader(edgecut.NeighborLoader):
        def extra(self):
            return 1

    with pytest.raises(TypeError, match="derive it from edgecut.pyg_loaders.NeighborLoader"):
        NeighborLoader(random_data(), [2])


def ends_of(batch, data, edge_type, name="edge_index"):
    """Return the ends of messages or seed edges as pairs of ids, and the neighborhoods of the messages."""
    if edge_type is None:
        row, col = batch[name]
        src = dst = batch
    else:
        row, col = batch[edge_type][name]
        src, dst = batch[edge_type[0]], batch[edge_type[2]]
    pairs = list(zip(src.n_id[row].tolist(), dst.n_id[col].tolist()))
    return pairs, dst.batch[col].tolist() if "batch" in dst and dst.batch is not None else [None] * len(pairs)


@pytest.mark.parametrize("subgraph_type", ["directional", "induced", "bidirectional"])
@pytest.mark.parametrize("graph", ["plain", "typed", "reverse of another name", "types of one node type"])
@pytest.mark.parametrize("negatives", [{}, {"neg_sampling": {"mode": "binary", "amount": 0.3}}, {"neg_sampling": "triplet"}])
def test_no_message_flows_over_seed_edges(subgraph_type, graph, negatives):
    if graph == "plain":
        data, edges, reverses = random_data(), None, [None]
    elif graph == "types of one node type":
        data, edges = random_hetero(), ("paper", "cites", "paper")
        reverses = [edges, ("paper", "rev_cites", "paper")]
        data[reverses[1]].edge_index = data[edges].edge_index.flip(0)
    else:
        data, edges = random_hetero(), ("author; x=1", "to", "paper")
        back = data[edges].edge_index.flip(0)
        del data["paper", "rev_to", "author; x=1"]
        reverses = [("paper", "rev_to" if graph == "typed" else "from", "author; x=1")]
        data[reverses[0]].edge_index = back
    if graph == "reverse of another name" and subgraph_type != "bidirectional":
        # Edges of this type are no reverses, unless PyG makes them so.
        reverses = []
    for disjoint in (False, True):
        loader = edgecut.LinkNeighborLoader(
            data,
            [-1, 3],
            edges,
            exclude_seed_edges=True,
            reverse_types=[],
            subgraph_type=subgraph_type,
            batch_size=20,
            disjoint=disjoint,
            **negatives,
        )
        num_messages = 0
        for batch in loader:
            whole = data.edge_index if edges is None else data[edges].edge_index
            ids = batch.input_id if edges is None else batch[edges].input_id
            seeds = list(map(tuple, whole[:, ids].t().tolist()))
            excluded = {(pair, number if disjoint else None) for number, pair in enumerate(seeds)}
            back = {((dst, src), number) for (src, dst), number in excluded}
            messages = set(zip(*ends_of(batch, data, edges)))
            num_messages += len(messages)
            assert not excluded & messages
            for reverse in reverses:
                assert not back & set(zip(*ends_of(batch, data, reverse)))
        assert num_messages > 0


def test_names_tell_reverses_in_both_directions():
    data, edges = random_hetero(), ("author; x=1", "rev_by", "paper")
    data[edges].edge_index = data["author; x=1", "to", "paper"].edge_index
    # `train link` takes both for reverses as well.
    names = ("by", "rev_rev_by")
    for name in names:
        data["paper", name, "author; x=1"].edge_index = data[edges].edge_index.flip(0)
    loader = edgecut.LinkNeighborLoader(data, [-1], edges, exclude_seed_edges=True, reverse_types=[], batch_size=20)
    for batch in loader:
        wanted = {(dst, src) for src, dst in ends_of(batch, data, edges, "edge_label_index")[0]}
        for name in names:
            assert not wanted & set(ends_of(batch, data, ("paper", name, "author; x=1"))[0])


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_no_message_flows_over_declared_reverses(subgraph_type):
    data = random_hetero()
    edges, reverse = ("author; x=1", "to", "paper"), ("paper", "from", "author; x=1")
    del data["paper", "rev_to", "author; x=1"]
    data[reverse].edge_index = data[edges].edge_index.flip(0)

    def load(**more):
        return edgecut.LinkNeighborLoader(
            data, [-1], edges, exclude_seed_edges=True, batch_size=20, subgraph_type=subgraph_type, **more
        )

    with pytest.warns(UserWarning, match="the reverses of most edges of .*'to'.* are edges of .*'from'.*`reverse_types=") as warned:
        load()
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(reverse_types=[])
        sampler = NeighborSampler(data, [-1], subgraph_type, exclude_seed_edges=True, reverse_types=[])
        edgecut.LinkNeighborLoader(data, None, edges, neighbor_sampler=sampler)
        # Other types hold few reverses of these edges.
        edgecut.LinkNeighborLoader(random_hetero(1), [-1], ("paper", "cites", "paper"), exclude_seed_edges=True)
        of_tuples = [(edges, reverse)], [(reverse, list(edges))], {edges: reverse}, [(("author; x=1", "paper"), reverse)]
        of_texts = [["to", "from"]], {"to": "paper__from__author; x=1"}
        for declared in (*of_tuples, *of_texts):
            for batch in load(reverse_types=declared):
                seeds = set(map(tuple, data[edges].edge_index[:, batch[edges].input_id].t().tolist()))
                back = {(dst, src) for src, dst in ends_of(batch, data, reverse)[0]}
                assert back and not seeds & back


@pytest.mark.parametrize(
    ("reverse_types", "why"),
    [
        ([(("paper", "cites", "paper"), ("author; x=1", "to", "paper"))], "do not join the same node types in opposite directions"),
        ([(("paper", "cites", "paper"), ("paper", "likes", "paper"))], "there is no edge type .*'likes'"),
        ((("paper", "cites", "paper"), ("paper", "cites", "paper")), "has .*: give pairs of edge types"),
        (["cites"], "has 'cites'.*: give pairs of edge types"),
        ([("cites", "likes")], "there is no edge type 'likes'"),
        # The default of PyG's data is that messages flow over the edges to predict.
        ([("to", "rev_to")], "needs `exclude_seed_edges=True`"),
    ],
)
def test_wrong_reverse_types_are_refused(reverse_types, why):
    with pytest.raises(ValueError, match=f"`reverse_types`.*{why}"):
        edgecut.LinkNeighborLoader(random_hetero(), [2], ("paper", "cites", "paper"), reverse_types=reverse_types)


@pytest.mark.parametrize("name", [("paper", "paper"), ("paper", "cites", "paper")])
def test_a_graph_without_types_has_no_reverse_types(name):
    with pytest.raises(ValueError, match="`reverse_types`: there is no edge type .* since the graph has no types"):
        edgecut.LinkNeighborLoader(random_data(), [2], reverse_types=[(name, name)])
    edgecut.LinkNeighborLoader(random_data(), [2], reverse_types=[])


def stores_of(data):
    """Return typed data as a pair of stores."""
    features, graph = MyFeatureStore(), MyGraphStore()
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    for name in data.edge_types:
        size = (data[name[0]].num_nodes, data[name[2]].num_nodes)
        graph.put_edge_index(data[name].edge_index, edge_type=name, layout="coo", size=size)
    return features, graph


@pytest.mark.parametrize("name", [("author; x=1", "to", "paper"), ("author; x=1", "paper")])
def test_an_edge_type_of_stores_has_two_or_three_names(name):
    data = random_hetero()
    whole, reverse = ("author; x=1", "to", "paper"), ("paper", "rev_to", "author; x=1")
    edges = data[whole].edge_index
    data[reverse].edge_index = edges.flip(0)
    for batch in edgecut.LinkNeighborLoader(stores_of(data), [-1], (name, edges), exclude_seed_edges=True, batch_size=20):
        seeds = set(map(tuple, edges[:, batch[whole].input_id].t().tolist()))
        messages, back = ends_of(batch, data, whole)[0], ends_of(batch, data, reverse)[0]
        assert messages and back and not seeds & {*messages, *((dst, src) for src, dst in back)}
    data["author; x=1", "edits", "paper"].edge_index = edges
    if len(name) == 2:
        with pytest.raises(ValueError, match="2 edge types are from .*: name one of .*'to'.*'edits'"):
            edgecut.LinkNeighborLoader(stores_of(data), [-1], (name, edges))


def test_disjoint_neighborhoods_keep_the_seed_edges_of_others():
    data = Data(x=torch.arange(4.0).view(-1, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    for subgraph_type in ("directional", "induced"):
        loader = edgecut.LinkNeighborLoader(
            data, [-1, -1], exclude_seed_edges=True, disjoint=True, subgraph_type=subgraph_type, batch_size=3
        )
        (batch,) = loader
        messages = set(zip(*ends_of(batch, data, None)))
        # The edge from 0 to 1 is a message to the second edge, from 1 to 2.
        assert {((0, 1), 1), ((1, 2), 2), ((0, 1), 2)} <= messages and not {((0, 1), 0), ((1, 2), 1)} & messages


@pytest.mark.parametrize("amount", [0.3, 1, 1.7])
def test_the_neighborhoods_of_an_edge_have_its_number(amount):
    data, typed = random_data(), random_hetero()
    edge_type = ("author; x=1", "to", "paper")
    negatives = {"mode": "binary", "amount": amount}
    for batch in edgecut.LinkNeighborLoader(data, [1], neg_sampling=negatives, disjoint=True, batch_size=10):
        numbers = torch.arange(batch.edge_label_index.shape[1]) % 10
        assert torch.equal(batch.batch[batch.edge_label_index], torch.stack([numbers, numbers]))
    for batch in edgecut.LinkNeighborLoader(typed, [1], edge_type, neg_sampling=negatives, disjoint=True, batch_size=10):
        row, col = batch[edge_type].edge_label_index
        numbers = torch.arange(len(row)) % 10
        assert torch.equal(batch[edge_type[0]].batch[row], numbers) and torch.equal(batch["paper"].batch[col], numbers)


CHANGED = r"`data` has changed \(nodes, `edge_index`.*\) since the loader or sampler was made: make it again"


def in_place(data):
    data.edge_index.copy_(data.edge_index.flip(0))


def of_another_tensor(data):
    data.edge_index = data.edge_index.flip(0)


def of_fewer_edges(data):
    data.edge_index = data.edge_index[:, :100]


@pytest.mark.parametrize("change", [in_place, of_another_tensor, of_fewer_edges])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_loaders_have_the_edges_that_the_data_has_now(change, is_sorted):
    data = random_data().sort(sort_by_row=False) if is_sorted else random_data()
    graph = edgecut.from_pyg(data, is_sorted=is_sorted)
    earlier = edgecut.NeighborLoader(graph, [-1], batch_size=60)
    assert_edges(next(iter(earlier)), data)
    change(data)
    if is_sorted and change is not of_fewer_edges:
        with pytest.raises(ValueError, match="`is_sorted`"):
            edgecut.NeighborLoader(graph, [-1], batch_size=60)
        return
    for num_workers in (0, 2):
        earlier.num_workers = num_workers
        with pytest.raises(RuntimeError, match=CHANGED):
            next(iter(earlier))
    for load in (edgecut.NeighborLoader, lambda *arguments, **more: edgecut.NeighborLoader(data, *arguments[1:], **more)):
        assert_edges(next(iter(load(graph, [-1], batch_size=60))), data)
    shadow = edgecut.ShaDowKHopSampler(graph, 1, -1, batch_size=60)
    data.edge_index = data.edge_index[:, :90]
    with pytest.raises(RuntimeError, match=CHANGED):
        next(iter(shadow))


def assert_edges(batch, data):
    """Check that a batch of all nodes with all neighbors has the edges of the data."""
    found = batch.n_id[batch.edge_index]
    assert torch.equal(found, data.edge_index[:, batch.e_id])
    assert sorted(batch.e_id.tolist()) == list(range(data.num_edges))


def test_loaders_have_the_nodes_times_and_weights_that_the_data_has_now():
    def younger(data):
        data.created = data.created - 1

    def younger_in_place(data):
        data.created.sub_(1)

    def heavier(data):
        data.weight.mul_(torch.rand(300))

    def more_nodes(data):
        data.num_nodes = 70
        for name in ("x", "y", "train_mask", "position", "born"):
            data[name] = data[name].repeat_interleave(2, dim=0)[:70]

    for change, settings in (
        (younger, {"time_attr": "created", "input_time": torch.full((60,), 50)}),
        (younger_in_place, {"time_attr": "created", "input_time": torch.full((60,), 50)}),
        (heavier, {"weight_attr": "weight"}),
        (more_nodes, {}),
    ):
        data = random_data()
        graph = edgecut.from_pyg(data)
        loader = edgecut.NeighborLoader(graph, [2], batch_size=60, **settings)
        assert next(iter(loader)).batch_size == 60
        change(data)
        with pytest.raises(RuntimeError, match=r"`data` has changed \(nodes, .*make it again"):
            next(iter(loader))
        if "input_time" not in settings:
            assert next(iter(edgecut.NeighborLoader(graph, [2], batch_size=100, **settings))).batch_size == data.num_nodes


def test_loaders_go_on_after_a_change_of_what_they_do_not_read():
    data, typed = random_data(), random_hetero()
    loader = edgecut.NeighborLoader(edgecut.from_pyg(data), [-1], batch_size=60)
    of_types = edgecut.HGTLoader(edgecut.from_pyg(typed), [5], "paper", batch_size=40)
    expected = next(iter(loader))
    list(of_types)
    # Features come from the data at the time of a batch. Copies of the edges, as on another device, are the same edges.
    data.x = data.x + 1
    data.edge_index = data.edge_index.clone()
    typed["paper"].x.zero_()
    typed["paper", "cites", "paper"].edge_index = typed["paper", "cites", "paper"].edge_index.clone()
    found = next(iter(loader))
    assert torch.equal(found.edge_index, expected.edge_index) and torch.equal(found.x, expected.x + 1)
    assert all((batch["paper"].x == 0).all() for batch in of_types)
    del data.x
    assert torch.equal(next(iter(loader)).edge_index, expected.edge_index)


def test_a_typed_graph_notices_other_edges_and_types():
    typed = random_hetero()
    graph = edgecut.from_pyg(typed)
    loader = edgecut.HGTLoader(graph, [5], "paper", batch_size=40)
    typed["paper", "cites", "paper"].edge_index = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=CHANGED):
        list(loader)
    typed["paper", "by", "lonely"].edge_index = torch.zeros(2, 3, dtype=torch.int64)
    batch = next(iter(edgecut.NeighborLoader(graph, [-1], "lonely", batch_size=5)))
    assert batch["paper", "by", "lonely"].edge_index.size(1) == 3


def test_settings_of_layer_neighbor_sampling_have_a_meaning():
    data, typed = random_data(), random_hetero()
    own = [{"sampler": "labor"}, {"batch_dependency": 4}]
    for settings in own:
        (name,) = settings
        for loader, load in (
            ("HGTLoader", lambda **more: edgecut.HGTLoader(typed, [2], "paper", **more)),
            ("ShaDowKHopSampler", lambda **more: edgecut.ShaDowKHopSampler(data, 1, 2, **more)),
        ):
            with pytest.raises(ValueError, match=f"`{name}` is .*, but {loader} has no layer-neighbor sampling"):
                load(**settings)
    order = torch.utils.data.SequentialSampler(range(40))
    assert len(list(edgecut.HGTLoader(typed, [2], "paper", sampler=order, batch_size=10))) == 4
    for wrong, error in ((2.5, TypeError), (0, ValueError), (2**70, ValueError), (2**40, ValueError), (2**63, ValueError)):
        with pytest.raises(error, match="`batch_dependency`"):
            edgecut.NeighborLoader(data, [2], sampler="labor", batch_dependency=wrong)


def test_seeds_have_64_bits():
    data, typed = random_data(), random_hetero()
    for load in (
        lambda seed: edgecut.NeighborLoader(data, [2], seed=seed),
        lambda seed: edgecut.LinkNeighborLoader(data, [2], seed=seed),
        lambda seed: edgecut.HGTLoader(typed, [2], "paper", seed=seed),
        lambda seed: edgecut.ShaDowKHopSampler(data, 1, 2, seed=seed),
    ):
        assert len(list(load(2**64 - 1))) > 0
        for wrong, error in ((2**70, ValueError), (-1, ValueError), (2.5, TypeError)):
            with pytest.raises(error, match="`seed`"):
                load(wrong)
