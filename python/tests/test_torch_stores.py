"""Models of `train` on the graph of a store: types, features and classes as in the training."""

import json

import numpy as np
import pytest
from conftest import run

import edgecut

MISSING = "torch_geometric or safetensors is missing"
pytest.importorskip("torch_geometric.nn", reason=MISSING)
pytest.importorskip("safetensors.torch", reason=MISSING)

import torch

import edgecut.torch

NODES = 60
REL = ("user", "knows", "user")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with tables of users, whose classes have other names in the second one."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(1)
    for table, colors in (("users", ("red", "green", "blue")), ("others", ("cyan", "green", "blue"))):
        rows = (f"U{i},{i % 7},{i % 5},{colors[i % 3]},{('yes', 'no')[i % 2]}" for i in range(NODES))
        (folder / f"{table}.csv").write_text("\n".join(["id,a,b,color,answer", *rows]) + "\n")
    ends = random.integers(0, NODES, (300, 2))
    (folder / "knows.csv").write_text("\n".join(["src,dst", *(f"U{src},U{dst}" for src, dst in ends)]) + "\n")
    return folder


def parts(folder, name, table="users", features=({"feature_col": "a"}, {"feature_col": "b"}), labels=("color",), flags=()):
    """Make parts of a table."""
    out = folder / name
    split = {"task_type": "classification", "split_pct": [0.6, 0.2, 0.2]}
    users = {
        "node_type": "user",
        "files": [f"{table}.csv"],
        "node_id_col": "id",
        "features": list(features),
        "labels": [{"label_col": label, **split} for label in labels],
    }
    knows = {"relation": REL, "files": ["knows.csv"], "source_id_col": "src", "dest_id_col": "dst"}
    csv = {"format": {"name": "csv"}}
    conf = folder / f"{name}.json"
    conf.write_text(json.dumps({"version": "gconstruct-v0.1", "nodes": [users | csv], "edges": [knows | csv]}))
    run("partition-graph", "--conf", conf, "--dataset", "g", "--num-partitions", 1, "--output-dir", out, *flags)
    return out


def trained(task, dataset, *flags):
    file = dataset.with_name(f"{dataset.name}-{task}.safetensors")
    more = ("--num-neighbors", "5,5", "--hidden-channels", 8, "--num-epochs", 1, "--save-model", file)
    run("train", task, "--dataset-root-dir", dataset, "--model", "sage", *more, *flags)
    return file


def refused(file, dataset, why):
    with edgecut.open(dataset) as store, pytest.raises(ValueError, match=why):
        edgecut.torch.load_model(file, store)


def test_other_columns_transforms_and_types_are_refused(tables):
    file = trained("node", parts(tables, "same"))
    with edgecut.open(tables / "same") as store:
        assert edgecut.torch.load_model(file, store).decision.class_names == ["blue", "green", "red"]
    other = "the features of node type user have other transforms or columns than in its training"
    refused(file, parts(tables, "swapped", features=({"feature_col": "b"}, {"feature_col": "a"})), other)
    scaled = ({"feature_col": "a"}, {"feature_col": "b", "transform": {"name": "max_min_norm"}})
    refused(file, parts(tables, "scaled", features=scaled), other)
    refused(file, parts(tables, "fewer", features=({"feature_col": "a"},)), "has nodes with 1 features instead of nodes with 2")
    reversed_too = parts(tables, "reversed", flags=("--add-reverse-edges",))
    # A model of one type, and a graph with two.
    refused(file, reversed_too, "has nodes user with 2 features instead of nodes with|instead of nothing")
    typed = trained("node", reversed_too)
    refused(typed, tables / "same", "has nothing instead of edges user__rev_knows__user")


def test_other_classes_are_refused(tables):
    labels = ("color", "answer")
    file = trained("multi", parts(tables, "both", labels=labels), "--target", "user:color,user:answer")
    with edgecut.open(tables / "both") as store:
        model = edgecut.torch.load_model(file, store)
    assert model.targets[1]["name"] == "user:answer"
    names = {"user:color": ["blue", "green", "red"], "user:answer": ["no", "yes"]}
    assert {name: decision.class_names for name, decision in model.decision.of_targets.items()} == names
    other = parts(tables, "both-others", "others", labels=labels)
    refused(file, other, "the classes of the target user:color are not those of its training")
    refused(trained("node", parts(tables, "one")), parts(tables, "one-other", "others"), "the classes of user are not those")
    # The model predicts one label of a graph with several.
    answer = trained("node", tables / "both", "--target", "user:answer")
    for dataset in (tables / "both", other):
        with edgecut.open(dataset) as store:
            assert edgecut.torch.load_model(answer, store).decision.class_names == ["no", "yes"]


def test_edges_of_all_types_of_the_model_are_needed(tables):
    parts(tables, "typed", flags=("--add-reverse-edges",))
    with edgecut.open(tables / "typed") as store:
        model = edgecut.torch.load_model(trained("node", tables / "typed"), store).eval()
        batch = next(iter(edgecut.NeighborLoader(store, [-1, -1], ("user", np.arange(NODES)), batch_size=NODES)))
    edges = batch.edge_index_dict
    with torch.no_grad():
        assert len(model(batch.x_dict, edges)["user"]) == NODES
    with pytest.raises(ValueError, match=r"`edge_index` lacks the edge type \('user', 'rev_knows', 'user'\)"):
        model(batch.x_dict, {REL: edges[REL]})
    with pytest.raises(ValueError, match=r"`edge_index`: the model has no edge type \('user', 'meets', 'user'\)"):
        model(batch.x_dict, {**edges, ("user", "meets", "user"): edges[REL]})
