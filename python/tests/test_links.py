"""Batches of edges, and what they must not tell."""

import json
import warnings

import numpy as np
import pytest
from conftest import partition

import edgecut


@pytest.fixture(scope="module")
def held_out(folder):
    """Parts with held-out edges, by their number."""
    flags = ("--avg-num-nodes", 600, "--method", "ldg", "--hold-out-edges", "0.1,0.1")
    return {n: partition(folder / f"held-out-{n}", "fake", n, *flags) for n in (1, 2)}


def whole_graph(store):
    """The edges that carry messages, as pairs of ids."""
    batch = next(iter(edgecut.NeighborLoader(store, [-1], batch_size=10**6, output="numpy")))
    return set(zip(*batch["n_id"][batch["edge_index"]].tolist()))


def pairs(batch, index="edge_label_index"):
    return list(zip(*batch["n_id"][batch[index]].tolist()))


def test_an_epoch_has_every_edge_once_and_no_message_over_its_edges(held_out):
    with edgecut.open(held_out[1]) as store:
        messages = whole_graph(store)
        loader = edgecut.LinkNeighborLoader(store, [-1], batch_size=300, shuffle=True, output="numpy")
        seen = []
        for batch in loader:
            edges = pairs(batch)
            assert len(edges) == batch["batch_size"]
            sampled = set(pairs(batch, "edge_index"))
            assert sampled and not sampled & ({*edges} | {(dst, src) for src, dst in edges})
            seen += edges
        assert len(seen) == store.edge_types[0].num_edges and set(seen) == messages
        # As in PyG, on request.
        leaking = edgecut.LinkNeighborLoader(store, [-1], batch_size=300, exclude_seed_edges=False, output="numpy")
        assert all({*pairs(batch)} <= {*pairs(batch, "edge_index")} for batch in leaking)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_negatives_are_no_edges(held_out, split):
    with edgecut.open(held_out[1]) as store:
        messages = whole_graph(store)
        load = lambda name, **more: edgecut.LinkNeighborLoader(store, [5], name, batch_size=100, output="numpy", **more)
        held = {edge for name in ("valid", "test") for batch in load(name) for edge in pairs(batch)}
        assert held and not held & messages
        known = messages if split == "train" else messages | held
        for batch in load(split, neg_sampling={"mode": "binary", "amount": 3}):
            size = batch["batch_size"]
            assert batch["edge_label"].tolist() == [1.0] * size + [0.0] * 3 * size
            edges = pairs(batch)
            assert set(edges[:size]) <= (messages if split == "train" else held)
            assert not set(edges[size:]) & known
            assert [src for src, _ in edges[size:]] == [src for src, _ in edges[:size] for _ in range(3)]
        for batch in load(split, neg_sampling={"mode": "triplet", "amount": 2}):
            assert batch["dst_neg_index"].shape == (batch["batch_size"], 2)
            ends = batch["n_id"][np.stack([np.repeat(batch["src_index"], 2), batch["dst_neg_index"].ravel()])]
            assert not set(zip(*ends.tolist())) & known


@pytest.mark.parametrize("split", ["train", "valid"])
def test_negatives_of_an_edge_depend_on_its_ends_alone(held_out, split):
    drawn = []
    for parts, batch_size, shuffle in [(1, 100, False), (1, 7, True), (2, 64, False)]:
        with edgecut.open(held_out[parts]) as store:
            loader = edgecut.LinkNeighborLoader(
                store, [2], split, neg_sampling="triplet", batch_size=batch_size, shuffle=shuffle, seed=3, output="numpy"
            )
            ends = ["src_index", "dst_pos_index", "dst_neg_index"]
            edges = [np.stack([batch["n_id"][batch[end]] for end in ends]) for batch in loader]
            drawn.append(sorted(map(tuple, np.concatenate(edges, axis=1).T.tolist())))
    assert drawn[0] == drawn[1] == drawn[2]


def test_an_edge_without_negatives_is_left_out_with_a_warning(tmp_path):
    # Node 0 is connected to all nodes.
    np.save(tmp_path / "edge_index.npy", np.array([[0] * 9 + [1, 2], [*range(9), 2, 3]]))
    with edgecut.open(tmp_path) as store:
        loader = edgecut.LinkNeighborLoader(store, [1], neg_sampling="binary", batch_size=6, output="numpy")
        with pytest.warns(UserWarning, match="edges were left out of a batch"):
            batches = list(loader)
        assert sorted(pair for batch in batches for pair in pairs(batch)[: batch["batch_size"]]) == [(1, 2), (2, 3)]


def test_listed_edges_have_the_same_batches_for_any_partitioning(held_out):
    draw = np.random.default_rng(3)
    edges = draw.integers(0, 600, (2, 250))
    made = []
    for parts in held_out.values():
        with edgecut.open(parts) as store:
            loader = edgecut.LinkNeighborLoader(
                store, [4, 3], edges, neg_sampling="binary", batch_size=100, shuffle=True, seed=7, output="numpy"
            )
            made.append(list(loader))
    assert [batch["batch_size"] for batch in made[0]] == [100, 100, 50]
    for one, other in zip(*made):
        assert one.keys() == other.keys()
        for name in one:
            assert np.array_equal(one[name], other[name]), name
        positions = one["input_id"]
        assert pairs(one)[: len(positions)] == list(zip(*edges[:, positions].tolist()))
    positions = np.concatenate([batch["input_id"] for batch in made[0]])
    assert sorted(map(tuple, edges[:, positions].T.tolist())) == sorted(map(tuple, edges.T.tolist()))


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_not_later_than_their_edge(parts, mode):
    with edgecut.open(parts[1]) as store:
        load = lambda edges, **more: edgecut.LinkNeighborLoader(
            store, [2], edges, batch_size=100, time_attr="time", neg_sampling={"mode": mode, "amount": 2}, output="numpy", **more
        )
        draw = np.random.default_rng(4)
        edges = draw.integers(0, 2000, (2, 400))
        node_times = next(iter(edgecut.NeighborLoader(store, [1], batch_size=2000, output="numpy")))
        time_of = dict(zip(node_times["n_id"].tolist(), node_times["time"].tolist()))
        # Every edge has some nodes that are not later.
        times = draw.integers(np.quantile(node_times["time"], 0.2), node_times["time"].max(), 400)
        num_late = 0
        for batch in load(edges, edge_label_time=times):
            size = batch["batch_size"]
            of_edges = np.repeat(times[batch["input_id"]], 2)
            negatives = batch["edge_label_index"][1, size:] if mode == "binary" else batch["dst_neg_index"].ravel()
            negatives = batch["n_id"][negatives]
            assert len(negatives) == len(of_edges) == 2 * size
            assert all(time_of[node] <= time for node, time in zip(negatives.tolist(), of_edges.tolist()))
            num_late += (of_edges < node_times["time"].max()).sum()
        assert num_late > 400
        # The edges of a split have times of their own.
        batch = next(iter(load("train")))
        assert len(batch["n_id"]) > 0


def test_a_listed_pair_is_not_its_own_negative(tmp_path):
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    with edgecut.open(tmp_path) as store:
        # Node 0 has the destinations 0 and 2 left, and the pairs name them.
        for pair, negative in [((0, 0), 2), ((0, 2), 0)]:
            for seed in range(5):
                loader = edgecut.LinkNeighborLoader(store, [1], np.array([pair]).T, neg_sampling="binary", seed=seed, output="numpy")
                assert [pairs(batch) for batch in loader] == [[pair, (0, negative)]]


def test_listed_edges_can_have_labels(parts):
    draw = np.random.default_rng(5)
    edges, labels = draw.integers(0, 2000, (2, 90)), draw.integers(0, 3, 90)
    with edgecut.open(parts[1]) as store:
        load = lambda **more: edgecut.LinkNeighborLoader(store, [2], edges, batch_size=40, shuffle=True, output="numpy", **more)
        for batch in load(edge_label=labels):
            assert np.array_equal(batch["edge_label"], labels[batch["input_id"]])
        # As in PyG, 0 becomes the label of negatives.
        for given in (labels, labels + 1):
            for batch in load(edge_label=given, neg_sampling_ratio=2.0):
                size = batch["batch_size"]
                assert np.array_equal(batch["edge_label"][:size], (labels + 1)[batch["input_id"]])
                assert batch["edge_label"][size:].tolist() == [0] * (2 * size)
        # A loader keeps the edges and their labels, whatever becomes of the arrays.
        pairs_now, labels_now = edges.copy(), labels.copy()
        loader = edgecut.LinkNeighborLoader(store, [2], pairs_now, labels_now, batch_size=90, output="numpy")
        pairs_now[:], labels_now[:] = 0, 0
        (batch,) = loader
        assert np.array_equal(batch["edge_label"], labels) and np.array_equal(batch["n_id"][batch["edge_label_index"]], edges)
        # The greatest label of a type grows as well.
        for batch in load(edge_label=np.where(labels == 2, 255, labels).astype(np.uint8), neg_sampling_ratio=1.0):
            expected = np.where(labels == 2, 256, labels + 1)[batch["input_id"]]
            assert np.array_equal(batch["edge_label"][: batch["batch_size"]], expected)
        for why, arguments in [
            ("`edge_label` has 3 entries for 90 edges", {"edge_label": [1, 2, 3]}),
            ("`edge_label` and triplets exclude each other", {"edge_label": labels, "neg_sampling": "triplet"}),
            ("`neg_sampling_ratio` and `neg_sampling` exclude", {"neg_sampling_ratio": 1, "neg_sampling": "binary"}),
            ("`neg_sampling_ratio`: the amount is 0.5", {"neg_sampling_ratio": 0.5}),
        ]:
            with pytest.raises(ValueError, match=why):
                load(**arguments)
        with pytest.raises(ValueError, match="`edge_label` needs an array in `edge_label_index`"):
            edgecut.LinkNeighborLoader(store, [2], "train", labels)


def test_typed_edges_are_those_of_pyg(typed_parts):
    pytest.importorskip("torch_geometric")
    from torch_geometric.sampler import NegativeSampling

    with edgecut.open(typed_parts[1]) as store:
        edge_type = store.edge_types[0].name
        load = lambda **more: next(iter(edgecut.LinkNeighborLoader(store, [3, 3], (edge_type, "train"), batch_size=20, **more)))
        batch = load(neg_sampling=NegativeSampling("binary", 2))
        batch.validate()
        assert batch[edge_type].edge_label_index.shape == (2, 60) and batch[edge_type].edge_label.sum() == 20
        batch = load(neg_sampling="triplet")
        src, _, dst = edge_type
        assert len(batch[src].src_index) == len(batch[dst].dst_pos_index) == len(batch[dst].dst_neg_index) == 20
        assert batch[dst].dst_neg_index.max() < batch[dst].num_nodes


def test_two_names_stand_for_the_only_edge_type_between_them(tmp_path):
    for name, number in (("user", 4), ("item", 3)):
        (tmp_path / "nodes" / name).mkdir(parents=True)
        np.save(tmp_path / "nodes" / name / "num_nodes.npy", np.array(number))
    for edge_type, edges in (("user__buys__item", [[0, 1, 3], [0, 2, 1]]), ("item__like__item", [[0], [1]]), ("item__with__item", [[1], [2]])):
        (tmp_path / "edges" / edge_type).mkdir(parents=True)
        np.save(tmp_path / "edges" / edge_type / "edge_index.npy", np.array(edges))
    with edgecut.open(tmp_path) as store:
        names = {("user", "item"): [0], ("item", "like", "item"): [-1], "with": [0]}
        loader = edgecut.LinkNeighborLoader(store, names, ("user", "item"), batch_size=3, output="numpy")
        (batch,) = loader
        ends = batch["edge_label_index"]["user", "buys", "item"]
        found = zip(batch["n_id"]["user"][ends[0]].tolist(), batch["n_id"]["item"][ends[1]].tolist())
        assert sorted(found) == [(0, 0), (1, 2), (3, 1)]
        with pytest.raises(ValueError, match="`edge_label_index`: 2 edge types are from 'item' to 'item': name one of"):
            edgecut.LinkNeighborLoader(store, [1], ("item", "item"))
        with pytest.raises(ValueError, match="`num_neighbors`: no edge type is from 'item' to 'user'"):
            edgecut.LinkNeighborLoader(store, {("item", "user"): [1]}, ("user", "item"))


def test_wrong_edges_are_value_errors(parts, typed_parts):
    with edgecut.open(parts[1]) as store, edgecut.open(typed_parts[1]) as typed:
        for why, data, arguments in [
            ("no edges of type .* are held out as 'valid': partition the graph with `partition-graph --hold-out", store, {"edge_label_index": "valid"}),
            (r"no edge type is from 'e0' to 'train': name one of .*, as in \(\('v0', .*\), 'train'\)", typed, {"edge_label_index": ("e0", "train")}),
            ("must name one of the edge types", typed, {}),
            ("there is no edge type", typed, {"edge_label_index": ("v0", "likes", "v1")}),
            ("is not a split", store, {"edge_label_index": "trian"}),
            (r"has the shape \(3,\)", store, {"edge_label_index": [1, 2, 3]}),
            ("node 2000 is not one of", store, {"edge_label_index": [[1], [2000]]}),
            ("needs a list of edges", store, {"edge_label_time": [1], "time_attr": "time"}),
            ("has 1 entries for 2 edges", store, {"edge_label_index": [[1, 2], [3, 4]], "edge_label_time": [1], "time_attr": "time"}),
            ("choose from 'binary' and 'triplet'", store, {"neg_sampling": "all"}),
            ("must be a whole number from 1", store, {"neg_sampling": {"mode": "binary", "amount": 0.5}}),
            ("the amount is '2'", store, {"neg_sampling": {"mode": "binary", "amount": "2"}}),
            ("the amount is nan", store, {"neg_sampling": {"mode": "binary", "amount": float("nan")}}),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.LinkNeighborLoader(data, [5], **arguments)


BUYS, SOLD = ("user", "buys", "item"), ("item", "sold", "user")


@pytest.fixture(scope="module")
def bought(tmp_path_factory):
    """A folder with an edge type and its reverses, whose names do not tell this."""
    folder = tmp_path_factory.mktemp("bought")
    edges = np.unique(np.random.default_rng(4).integers(0, 40, (2, 300)), axis=1)
    for name, ends in ((BUYS, edges), (SOLD, edges[::-1])):
        (folder / "edges" / "__".join(name)).mkdir(parents=True)
        np.save(folder / "edges" / "__".join(name) / "edge_index.npy", ends)
    for name in ("user", "item"):
        (folder / "nodes" / name).mkdir(parents=True)
        np.save(folder / "nodes" / name / "num_nodes.npy", np.array(40))
    return folder


def seeds_over_reverses(loader):
    """The number of seed edges over whose reverses messages flow."""
    found = 0
    for batch in loader:
        users, items = (batch["n_id"][name] for name in ("user", "item"))
        src, dst = batch["edge_label_index"][BUYS]
        seeds = set(zip(users[src].tolist(), items[dst].tolist()))
        src, dst = batch["edge_index"][SOLD]
        found += len(seeds & set(zip(users[dst].tolist(), items[src].tolist())))
    return found


def test_reverses_that_no_name_tells_are_declared_or_warned_of(bought, tmp_path):
    load = lambda store, edges=BUYS, **more: edgecut.LinkNeighborLoader(store, [-1], edges, batch_size=30, output="numpy", **more)
    some = np.load(bought / "edges" / "__".join(BUYS) / "edge_index.npy")[:, :50]
    with edgecut.open(bought) as store:
        for edges in (BUYS, (BUYS, some)):
            why = r"the reverse of (\d+) of \1 edges of user__buys__item is an edge of item__sold__user: .* `reverse_types`"
            with pytest.warns(UserWarning, match=why) as warned:
                loader = load(store, edges)
            assert [warning.filename for warning in warned] == [__file__]
            assert seeds_over_reverses(loader) > 0
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert seeds_over_reverses(load(store, edges, reverse_types=[])) > 0
                for declared in ([(BUYS, SOLD)], {SOLD: ("user", "item")}, [["buys", "item__sold__user"]]):
                    assert seeds_over_reverses(load(store, edges, reverse_types=declared)) == 0
                load(store, edges, exclude_seed_edges=False)
        with pytest.raises(ValueError, match="`reverse_types`: there is no edge type .*'sells'"):
            load(store, reverse_types=[(BUYS, ("item", "sells", "user"))])
        with pytest.raises(ValueError, match="`reverse_types` needs `exclude_seed_edges=True`"):
            load(store, reverse_types=[(BUYS, SOLD)], exclude_seed_edges=False)
    flags = ("--dataset-dir", bought, "--method", "random", "--reverse-types", "buys=sold")
    parts = partition(tmp_path / "parts", "bought", 2, *flags)
    assert json.loads((parts / "META.json").read_text())["provenance"]["reverse_types"] == [["buys", "sold"]]
    with warnings.catch_warnings(), edgecut.open(parts) as store:
        warnings.simplefilter("error")
        assert seeds_over_reverses(load(store)) == 0
