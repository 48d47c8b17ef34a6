"""Batches: their content, their layout and the memory that they take."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from conftest import PATIENCE, ROOT, finished, partition, run, start

import edgecut

FAN_OUTS = [5, 3]
# Of edges and nodes of the generated graph, in the middle and at the end.
TIMES = [500, 1000, 10000]


def sampled(parts, out, num_processes, *flags):
    """The batches that `train sample` writes, by number."""
    run(
        *("train", "sample", "--dataset-root-dir", parts, "--num-neighbors", "5,3", "--batch-size", 64, "--out", out),
        *("--nproc-per-node", num_processes, *flags),
    )
    return [np.load(file) for file in sorted(out.glob("batch_*.npz"))]


def coo(archive, before=""):
    indptr = archive[f"{before}indptr"]
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.stack([archive[f"{before}indices"], rows])


def assert_same(batch, archive):
    for name, other in [("n_id", "input_nodes"), ("x", "x"), ("y", "y"), ("time", "time")]:
        assert np.array_equal(batch[name], archive[other]), name
    assert np.array_equal(batch["edge_index"], coo(archive))
    assert batch["edge_index"].shape[1] > 0
    for name in ("edge_weight", "edge_time", "edge_attr"):
        assert np.array_equal(batch[name], archive[name]), name
    assert np.array_equal(np.cumsum(batch["num_sampled_nodes"]), archive["hop_offsets"])
    assert sum(batch["num_sampled_edges"]) == batch["edge_index"].shape[1]
    assert np.array_equal(batch["n_id"][: batch["batch_size"]], archive["seeds"])


def test_batches_are_those_of_train_sample(parts, tmp_path):
    archives = sampled(parts[1], tmp_path, 1, "--seed", 3)
    with edgecut.open(parts[1]) as store:
        loader = edgecut.NeighborLoader(
            store, FAN_OUTS, "train", batch_size=64, shuffle=True, seed=3, output="numpy", even_batches=False
        )
        batches = list(loader)
        assert len(batches) == len(loader) == len(archives) > 3
        for batch, archive in zip(batches, archives):
            assert_same(batch, archive)
        # The second epoch has another order, and the first one can be repeated.
        again = list(loader)
        assert not np.array_equal(again[0]["n_id"][:64], batches[0]["n_id"][:64])
        loader.set_epoch(0)
        assert np.array_equal(next(iter(loader))["n_id"], batches[0]["n_id"])


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ({"replace": True}, ["--replace"]),
        ({"weight_attr": "edge_weight"}, ["--weighted"]),
        ({"disjoint": True}, ["--disjoint"]),
        ({"sampler": "labor"}, ["--sampler", "labor"]),
        ({"sampler": "labor", "batch_dependency": 3}, ["--sampler", "labor", "--batch-dependency", "3"]),
        ({"time_attr": "time"}, ["--time-attr", "node_time"]),
        ({"time_attr": "edge_time"}, ["--time-attr", "edge_time"]),
        ({"time_attr": "edge_time", "temporal_strategy": "last"}, ["--time-attr", "edge_time", "--temporal-strategy", "last"]),
    ],
)
def test_constraints_are_those_of_the_flags(parts, tmp_path, arguments, flags):
    ids = np.random.default_rng(2).permutation(2000)[:150]
    np.save(tmp_path / "seeds.npy", ids)
    if "time_attr" in arguments:
        # Some later than all edges, and some earlier than many.
        arguments["input_time"] = np.repeat(TIMES, 50)
        np.save(tmp_path / "times.npy", arguments["input_time"])
        flags = [*flags, "--seed-times", tmp_path / "times.npy"]
    archives = sampled(parts[1], tmp_path / "sample", 1, "--seed", 3, "--seeds", tmp_path / "seeds.npy", *flags)
    with edgecut.open(parts[1]) as store:
        loader = edgecut.NeighborLoader(store, FAN_OUTS, ids, batch_size=64, seed=3, output="numpy", **arguments)
        assert len(loader) == len(archives) == 3
        for batch, archive in zip(loader, archives):
            assert_same(batch, archive)
            assert ("batch" in batch) == ("batch" in archive.files)
            if "batch" in batch:
                assert np.array_equal(batch["batch"], archive["batch"])


RANKS = """
import pickle, sys, numpy as np, edgecut
edgecut.distributed.init()
with edgecut.open(sys.argv[1]) as store:
    loader = edgecut.NeighborLoader(store, [5, 3], "train", batch_size=64, shuffle=True, seed=3, output="numpy",
                                    even_batches=False)
    batches = list(loader)
    ids = np.arange(300)
    listed = list(edgecut.NeighborLoader(store, [5, 3], ids, batch_size=64, output="numpy"))
    # A second graph of the same job.
    with edgecut.open(sys.argv[1]) as again:
        assert (again.rank, again.world_size) == (store.rank, 2)
    pickle.dump((store.rank, batches, listed), open(sys.argv[2] + str(store.rank), "wb"))
"""


def test_two_processes_have_the_batches_of_train_sample(parts, tmp_path):
    import pickle

    archives = sampled(parts[2], tmp_path / "sample", 2, "--seed", 3)
    finished(start(RANKS, 2, parts[2], tmp_path / "rank"))
    made = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(2)]
    assert [rank for rank, _, _ in made] == [0, 1]
    steps = zip(*(batches for _, batches, _ in made))
    with_nodes = [batch for step in steps for batch in step if batch["batch_size"] > 0]
    assert len(with_nodes) == len(archives)
    for batch, archive in zip(with_nodes, archives):
        assert_same(batch, archive)
    # A list of ids has the same batches for any partitioning.
    with edgecut.open(parts[1]) as store:
        alone = list(edgecut.NeighborLoader(store, [5, 3], np.arange(300), batch_size=64, output="numpy"))
    for number, batch in enumerate(alone):
        other = made[number % 2][2][number // 2]
        for name in ("n_id", "edge_index", "x", "input_id"):
            assert np.array_equal(batch[name], other[name]), (number, name)
        assert np.array_equal(batch["input_id"], np.arange(300)[64 * number : 64 * (number + 1)])


OF_THEIR_OWN = """
import sys, numpy as np, edgecut
edgecut.distributed.init()
with edgecut.connect() if sys.argv[1] == "servers" else edgecut.open(sys.argv[1]) as store:
    rank, ids = store.rank, np.arange(100)
    edges = np.stack([ids, ids + 1])
    def refuse(name, load, inputs, num_neighbors=[2], **arguments):
        try:
            load(store, num_neighbors, inputs, output="numpy", **arguments)
        except ValueError as error:
            text = str(error)
            assert f"{name} is " in text and " on rank 0 and " in text and " on rank 1" in text and "whole lists" in text, text
        else:
            raise AssertionError(f"other {name} were accepted")
    nodes, links = edgecut.NeighborLoader, edgecut.LinkNeighborLoader
    refuse("input_nodes", nodes, ids[rank::2])
    refuse("input_nodes", nodes, np.roll(ids, rank))
    refuse("input_nodes", nodes, [ids, "train"][rank])
    refuse("split", nodes, ["valid", "train"][rank])
    refuse("input_time", nodes, ids, time_attr="edge_time", input_time=ids + rank)
    refuse("num_neighbors", nodes, ids, num_neighbors=[2 + rank])
    refuse("num_neighbors", nodes, "train", num_neighbors=[2] * (1 + rank))
    refuse("replace", nodes, ids, replace=rank == 0)
    refuse("disjoint", nodes, ids, disjoint=rank == 0)
    refuse("weight_attr", nodes, ids, weight_attr=[None, "edge_weight"][rank])
    refuse("time_attr", nodes, "train", time_attr=[None, "edge_time"][rank])
    refuse("temporal_strategy", nodes, "train", time_attr="edge_time", temporal_strategy=["uniform", "last"][rank])
    refuse("sampler", nodes, ids, sampler=["neighbor", "labor"][rank])
    refuse("batch_dependency", nodes, ids, sampler="labor", batch_dependency=1 + rank)
    refuse("batch_size", nodes, ids, batch_size=8 + rank)
    refuse("even_batches", nodes, "train", even_batches=rank == 0)
    refuse("shuffle", nodes, ids, shuffle=rank == 0)
    refuse("seed", nodes, "train", seed=rank)
    refuse("drop_last", nodes, ids, drop_last=rank == 0)
    refuse("edge_label_index", links, edges[:, rank::2])
    refuse("edge_label", links, edges, edge_label=ids + rank)
    refuse("num_neighbors", links, edges, num_neighbors=[2 + rank])
    refuse("neg_sampling", links, edges, neg_sampling=["binary", "triplet"][rank])
    refuse("amount", links, edges, neg_sampling={"mode": "binary", "amount": 1 + rank})
    refuse("exclude_seed_edges", links, edges, exclude_seed_edges=rank == 0)
    # The job goes on.
    seen = [batch["input_id"].tolist() for batch in nodes(store, [2], ids, batch_size=50, num_workers=rank, output="numpy")]
    assert seen == [list(range(50 * rank, 50 * rank + 50))]
"""


@pytest.mark.parametrize("num_parts", [1, 2])
def test_processes_with_inputs_or_settings_of_their_own_are_refused(parts, num_parts):
    finished(start(OF_THEIR_OWN, 2, parts[num_parts]))


OF_OTHER_DATA = """
import os, sys, edgecut
edgecut.distributed.init()
folder, rank = sys.argv[1], int(os.environ["RANK"])
try:
    if folder == "fake":
        edgecut.fake_graphs(10, seed=rank)
    else:
        edgecut.open(folder, to_undirected=rank == 0)
except edgecut.EdgecutError as error:
    assert "has other run parameters" in str(error), error
else:
    raise AssertionError("other data were accepted")
"""


@pytest.mark.parametrize("is_fake", [False, True])
def test_processes_that_open_other_data_are_refused(tmp_path, is_fake):
    # One process reads the data for all.
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2], [1, 2, 3]]))
    for rank in start(OF_OTHER_DATA, 2, "fake" if is_fake else tmp_path):
        _, errors = rank.communicate(timeout=PATIENCE)
        assert rank.returncode == 0, errors


def test_batches_of_pyg_are_accepted_by_its_models(parts):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import GraphSAGE

    with edgecut.open(parts[1]) as store:
        batch = next(iter(edgecut.NeighborLoader(store, FAN_OUTS, "train", batch_size=64, shuffle=True)))
        assert type(batch).__name__ == "Data"
        assert batch.x.dtype == torch.float32 and batch.edge_index.dtype == batch.y.dtype == torch.int64
        batch.validate()
        model = GraphSAGE(store.num_features, 8, num_layers=2, out_channels=store.num_classes).eval()
        whole = model(batch.x, batch.edge_index)[: batch.batch_size]
        trimmed = model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )[: batch.batch_size]
        assert torch.allclose(whole, trimmed, atol=1e-6) and whole.shape == (64, store.num_classes)
    # The tensors outlive the graph.
    kept = batch.x.clone()
    del store
    assert torch.equal(batch.x, kept)


def test_typed_graphs_have_heterogeneous_batches(typed_parts, tmp_path):
    pytest.importorskip("torch_geometric")
    archives = sampled(typed_parts[1], tmp_path, 1, "--seed", 1, "--seed-type", "v0")
    with edgecut.open(typed_parts[1]) as store:
        assert [t.name for t in store.node_types] == ["v0", "v1", "v2"]
        arguments = {"batch_size": 64, "shuffle": True, "seed": 1}
        loader = edgecut.NeighborLoader(store, FAN_OUTS, ("v0", "train"), **arguments)
        for batch, archive in zip(loader, archives):
            batch.validate()
            assert np.array_equal(batch["v0"].y.numpy(), archive["y"]) and batch["v0"].batch_size == len(archive["seeds"])
            for name in ("v0", "v1", "v2"):
                assert np.array_equal(batch[name].n_id.numpy(), archive[f"{name}/input_nodes"])
                assert batch[name].num_sampled_nodes == list(np.diff(archive[f"{name}/hop_offsets"], prepend=0))
            for name in (t.name for t in store.edge_types):
                assert np.array_equal(batch[name].edge_index.numpy(), coo(archive, "__".join(name) + "/"))
        # Fan-outs by type, of which some are 0.
        fan_outs = {t.name: [2, 0] if t.name[0] == "v1" else [0, 3] for t in store.edge_types}
        batch = next(iter(edgecut.NeighborLoader(store, fan_outs, "v0", batch_size=10)))
        assert batch["v0"].batch_size == 10
        for name, sampled_edges in batch.num_sampled_edges_dict.items():
            assert sampled_edges[1 if name[0] == "v1" else 0] == 0, name


def test_input_nodes_may_be_ids_masks_splits_or_all(parts):
    with edgecut.open(parts[1]) as store:
        num_nodes = store.node_types[0].num_nodes
        load = lambda nodes, **more: list(edgecut.NeighborLoader(store, [2], nodes, batch_size=100, output="numpy", **more))
        seeds = lambda batches: np.concatenate([batch["n_id"][: batch["batch_size"]] for batch in batches])
        assert np.array_equal(seeds(load(None)), np.arange(num_nodes))
        ids = np.random.default_rng(1).permutation(num_nodes)[:250]
        assert np.array_equal(seeds(load(ids)), ids)
        assert np.array_equal(np.concatenate([b["input_id"] for b in load(ids)]), np.arange(250))
        mask = np.zeros(num_nodes, bool)
        mask[ids] = True
        assert np.array_equal(seeds(load(mask)), np.flatnonzero(mask))
        # As in PyG, so that `labels[input_id]` are those of the input nodes.
        assert np.array_equal(np.concatenate([b["input_id"] for b in load(mask)]), np.flatnonzero(mask))
        short = [False, True, True, False, True] + [False] * (num_nodes - 5)
        loader = edgecut.NeighborLoader(store, [2], short, batch_size=2, output="numpy")
        assert [batch["input_id"].tolist() for batch in loader] == [[1, 2], [4]]
        assert len(seeds(load("valid"))) == store.node_types[0].split_sizes[1]
        assert [batch["batch_size"] for batch in load(ids, drop_last=True)] == [100, 100]
        even = [batch["batch_size"] for batch in load("train", drop_last=True, even_batches=True)]
        assert even == [batch["batch_size"] for batch in load("train", even_batches=True)] and sum(even) == len(store.split("train"))
        shuffled = load(ids, shuffle=True)
        assert np.array_equal(ids[np.concatenate([b["input_id"] for b in shuffled])], seeds(shuffled))
        assert not np.array_equal(seeds(shuffled), ids)


def test_arguments_that_would_lose_their_meaning_are_refused(parts):
    with edgecut.open(parts[1]) as store:
        is_even = np.arange(2000) % 2 == 0
        for why, nodes, more in [
            (r"`input_nodes` has masked entries: leave them out by `.compressed\(\)`", np.ma.array([1, 2, 3], mask=[0, 1, 0]), {}),
            ("all of them 0 or 1, and there are 2000 nodes: a mask has the type bool", is_even.astype(np.uint8), {"disjoint": True}),
            ("`input_nodes` must have one dimension and whole numbers", np.array([1, 2], "timedelta64[s]"), {}),
            ("`temporal_strategy='last'` needs `time_attr`", [1, 2], {"temporal_strategy": "last"}),
            ("`input_time` must have one dimension and whole", [1], {"input_time": np.array([1], "timedelta64[s]"), "time_attr": "time"}),
        ]:
            with pytest.raises(ValueError, match=why):
                edgecut.NeighborLoader(store, [2], nodes, output="numpy", **more)
        # Nothing of this array is masked.
        loader = edgecut.NeighborLoader(store, [2], np.ma.array([1, 2, 3], mask=False), output="numpy")
        assert [batch["n_id"][0] for batch in loader] == [1, 2, 3]


def test_times_in_another_unit_than_those_of_tables_are_warned_of(tmp_path):
    days = [f"2024-01-{day:02}" for day in range(1, 21)]
    rows = [f"{number % 4},{number % 3},{day}" for number, day in enumerate(days)]
    (tmp_path / "buys.csv").write_text("\n".join(["who,what,day", *rows]))
    conf = "edges: [{relation: [user, buys, item], files: buys.csv, source_id_col: who, dest_id_col: what, time_col: day}]"
    (tmp_path / "graph.yaml").write_text(conf)
    flags = ("--conf", tmp_path / "graph.yaml", "--dataset", "shop", "--num-partitions", 1, "--output-dir", tmp_path / "parts")
    run("partition-graph", *flags)
    with edgecut.open(tmp_path / "parts") as store:
        items = ("item", np.arange(3))
        pairs = (("user", "buys", "item"), np.array([[0, 1, 2], [1, 2, 0]]))
        for unit in ("ns", "us", "ms", "s"):
            times = np.full(3, np.datetime64("2024-02-01", unit)).astype(np.int64)
            for name, load in [
                ("input_time", lambda: edgecut.NeighborLoader(store, [-1], items, times, time_attr="edge_time", batch_size=3, output="numpy")),
                (
                    "edge_label_time",
                    lambda: edgecut.LinkNeighborLoader(store, [-1], pairs, None, times, time_attr="edge_time", batch_size=3, output="numpy"),
                ),
            ]:
                with warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always")
                    (batch,) = load()
                assert (batch["edge_index"]["user", "buys", "item"].size > 0) == (unit == "ns")
                told = [str(warning.message) for warning in found if warning.filename == __file__]
                assert len(told) == (unit != "ns") and all(f"`{name}` has times up to" in text for text in told), told


def test_a_loader_whose_batches_are_all_left_out_warns(parts):
    with edgecut.open(parts[1]) as store:
        load = lambda number, **more: edgecut.NeighborLoader(store, [2], np.arange(number), batch_size=8, output="numpy", **more)
        with pytest.warns(UserWarning, match="`drop_last` leaves out all batches") as found:
            assert list(load(7, drop_last=True)) == []
        # The warning is about the line of the program.
        assert [warning.filename for warning in found] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (len(load(8, drop_last=True)), len(load(7))) == (1, 1)


def test_input_ids_of_a_split_are_ids_and_a_loader_has_a_name(parts):
    with edgecut.open(parts[1]) as store:
        for nodes in (None, "valid"):
            loader = edgecut.NeighborLoader(store, [2], nodes, batch_size=100, output="numpy")
            assert str(loader) == "NeighborLoader()" and loader.data is store
            for batch in loader:
                assert np.array_equal(batch["input_id"], batch["n_id"][: batch["batch_size"]])


@pytest.mark.parametrize("fan_outs", [[], [0], [2, 0, 2]])
def test_fan_outs_can_be_zero_or_none(parts, fan_outs):
    with edgecut.open(parts[1]) as store:
        for batch in edgecut.NeighborLoader(store, fan_outs, batch_size=500, output="numpy"):
            assert len(batch["num_sampled_nodes"]) == len(fan_outs) + 1
            assert sum(batch["num_sampled_edges"]) == batch["edge_index"].shape[1]
            assert (batch["edge_index"].shape[1] > 0) == (2 in fan_outs)


def test_input_ids_are_the_positions_of_repeated_nodes(parts):
    with edgecut.open(parts[1]) as store:
        nodes = np.array([7, 3, 7, 7, 3, 9])
        loader = edgecut.NeighborLoader(store, [2], nodes, disjoint=True, batch_size=4, shuffle=True, output="numpy")
        batches = list(loader)
        positions = np.concatenate([batch["input_id"] for batch in batches])
        assert sorted(positions) == list(range(6))
        assert np.array_equal(np.concatenate([b["n_id"][: b["batch_size"]] for b in batches]), nodes[positions])


def test_memory_does_not_grow(parts):
    program = """
import sys, edgecut
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
with edgecut.open(sys.argv[1]) as store:
    loader = edgecut.NeighborLoader(store, [10, 10], batch_size=100)
    def load(batches):
        while batches > 0:
            batches -= sum(1 for _ in loader)
    load(300)
    before = resident()
    load(1000)
    print((resident() - before) / 1e6)
"""
    done = subprocess.run([sys.executable, "-c", program, parts[1]], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    # The arrays of 1,000 batches have several hundred megabytes.
    assert float(done.stdout) < 20, done.stdout


@pytest.mark.parametrize("num_processes", [1, 2])
def test_the_example_trains_a_model_of_pyg(tmp_path, num_processes):
    pytest.importorskip("torch_geometric")
    parts = partition(tmp_path / "parts", "fake", 2, "--avg-num-nodes", 1000)
    example = ROOT / "python" / "examples" / "ddp_sage.py"
    outputs = finished(start(example, num_processes, parts, "--num-epochs", 5))
    accuracy = float(outputs[0].split("test accuracy ")[1].split(" %")[0])
    assert accuracy > 80, outputs
