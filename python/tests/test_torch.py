"""Models of `train` in PyTorch, and models of PyTorch in `train`: their outputs, and the files that they write."""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, run

import edgecut

MISSING = "torch_geometric or safetensors is missing"
pytest.importorskip("torch_geometric.nn", reason=MISSING)
pytest.importorskip("safetensors.torch", reason=MISSING)

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch.nn.utils.parametrizations import orthogonal
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE, SAGEConv

import edgecut.torch

CORA = pathlib.Path(os.environ.get("EDGECUT_DATA", ROOT.parent / "shared" / "data")) / "cora"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A folder with a homogeneous graph that has self loops and duplicate edges."""
    return homogeneous(tmp_path_factory.mktemp("homogeneous"), np.random.default_rng(1).integers(0, 200, (2, 900)))


@pytest.fixture(scope="module")
def loop_free(graph, tmp_path_factory):
    """The same without self loops, which layers of PyG drop."""
    edges = np.load(graph / "edge_index.npy")
    assert (edges[0] == edges[1]).any()
    return homogeneous(tmp_path_factory.mktemp("loop-free"), edges[:, edges[0] != edges[1]])


def homogeneous(folder, edge_index):
    random = np.random.default_rng(1)
    write(folder, "edge_index", edge_index)
    # Positive, for `--normalize-features`.
    write(folder, "x", random.random((200, 8), np.float32))
    write(folder, "y", random.integers(0, 4, 200))
    for at, name in enumerate(("train_idx", "val_idx", "test_idx")):
        write(folder, name, np.arange(200)[at::3])
    return folder


@pytest.fixture(scope="module")
def typed_graph(tmp_path_factory):
    """A folder with two node types, one of them without features, and three edge types. No edge ends at a tag."""
    folder = tmp_path_factory.mktemp("typed")
    random = np.random.default_rng(2)
    write(folder / "nodes" / "user", "x", random.random((90, 6), np.float32))
    write(folder / "nodes" / "user", "y", random.integers(0, 3, 90))
    for at, name in enumerate(("train_idx", "val_idx", "test_idx")):
        write(folder / "nodes" / "user", name, np.arange(90)[at::3])
    write(folder / "nodes" / "item", "num_nodes", np.array(70))
    write(folder / "nodes" / "tag", "x", random.random((20, 5), np.float32))
    for name, sizes, count in [
        ("user__likes__item", (90, 70), 300),
        ("item__rev_likes__user", (70, 90), 300),
        ("user__knows__user", (90, 90), 200),
        ("tag__marks__item", (20, 70), 100),
    ]:
        write(folder / "edges" / name, "edge_index", np.stack([random.integers(0, size, count) for size in sizes]))
    return folder


def write(folder, name, values):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", values)


def trained(task, dataset, path, *flags):
    """Train a model for an epoch."""
    more = () if task == "graph" else ("--num-neighbors", "5,5")
    run("train", task, "--dataset-root-dir", dataset, "--save-model", path, *TRAINING, *more, *flags)
    return path


TRAINING = ("--hidden-channels", 16, "--num-epochs", 1, "--lr", 0.01)


def predicted(dataset, model, out, *flags):
    """The outputs of `train predict`."""
    run("train", "predict", "--dataset-root-dir", dataset, "--load-model", model, "--out", out, "--format", "npy", *flags)
    return np.load(next(out.glob("*.npy")))


def whole(dataset):
    """The whole graph as a batch, and the order of its nodes by their ids."""
    store = edgecut.open(dataset)
    batch = next(iter(edgecut.NeighborLoader(store, [-1, -1, -1], None, batch_size=store.node_types[0].num_nodes)))
    return batch, np.argsort(batch.n_id.numpy())


def logits_of(model, dataset):
    batch, order = whole(dataset)
    with torch.no_grad():
        return model.eval()(batch.x, batch.edge_index).numpy()[order]


def typed_inputs(folder):
    """The features and edges of a typed graph, from its arrays."""
    x = {path.parent.name: torch.from_numpy(np.load(path)) for path in folder.glob("nodes/*/x.npy")}
    edges = {
        tuple(path.parent.name.split("__")): torch.from_numpy(np.load(path)) for path in folder.glob("edges/*/edge_index.npy")
    }
    return x, edges


def assert_close(found, expected):
    assert found.shape == expected.shape
    # Weights that were not loaded would give the same row for all nodes.
    assert expected.std(axis=0).min() > 1e-4
    difference = (np.abs(found - expected) / np.maximum(np.abs(expected), 1)).max()
    assert difference <= 1e-5, difference


def assert_same_file(path, other):
    """Compare the tensors and the settings of two files."""
    tensors, others = load_file(path), load_file(other)
    assert sorted(tensors) == sorted(others)
    for name, tensor in tensors.items():
        assert tensor.tobytes() == others[name].tobytes() and tensor.shape == others[name].shape, name
    configs = []
    for file in (path, other):
        with safe_open(file, "numpy") as opened:
            configs.append(json.loads(opened.metadata()["config"]))
    assert configs[0] == configs[1]


@pytest.mark.parametrize(
    "flags",
    [
        ("--model", "sage"),
        ("--model", "sage", "--aggregation", "max", "--layer-norm", "--residual", "--num-neighbors", "5,5,5"),
        ("--model", "gcn", "--normalize-features"),
        ("--model", "gat", "--heads", 4),
        ("--model", "gatv2", "--heads", 2, "--layer-norm"),
        ("--model", "gin", "--learn-epsilon"),
        ("--model", "graphconv"),
        ("--model", "graphconv", "--aggregation", "max", "--encoder-decoder"),
        ("--model", "sage", "--encoder-decoder"),
        ("--model", "gatv2", "--residual", "--layer-norm", "--feed-forward", 2, "--num-neighbors", "5,5,5"),
        ("--model", "rgcn"),
        ("--model", "sage", "--batch-norm", "--readout", "jumping-knowledge"),
        ("--model", "gcn", "--batch-norm", "--residual", "--readout", "jumping-knowledge-max", "--num-neighbors", "5,5,5"),
    ],
    ids=lambda flags: "-".join(str(flag).strip("-") for flag in flags if flag != "--model"),
)
def test_models_of_homogeneous_graphs_compute_the_same(graph, tmp_path, flags):
    file = trained("node", graph, tmp_path / "model.safetensors", *flags)
    model = edgecut.torch.load_model(file)
    expected = predicted(graph, file, tmp_path / "out", "--output", "logit")
    assert_close(logits_of(model, graph), expected)
    again = tmp_path / "again.safetensors"
    edgecut.torch.save_model(model, again)
    assert_same_file(file, again)


@pytest.mark.parametrize(
    "flags",
    [
        ("--model", "rgcn"),
        ("--model", "rgcn", "--num-bases", 2, "--residual"),
        ("--model", "rgcn", "--num-blocks", 4, "--layer-norm"),
        ("--model", "sage", "--relation-aggregation", "mean", "--layer-norm", "--residual"),
        ("--model", "gat", "--heads", 2),
        ("--model", "gatv2", "--heads", 2, "--normalize-features"),
        ("--model", "gin", "--mlp-layers", 1, "--feed-forward", 3),
        ("--model", "graphconv", "--relation-aggregation", "mean"),
        ("--model", "sage", "--node-embeddings", "user=4,item=3"),
        ("--model", "sage", "--node-embeddings", "user=4:add,item=3"),
        ("--model", "rgcn", "--node-embeddings", "user:add"),
        ("--model", "sage", "--batch-norm", "--readout", "jumping-knowledge-max"),
        ("--model", "gatv2", "--readout", "jumping-knowledge", "--layer-norm"),
    ],
    ids=lambda flags: "-".join(str(flag).strip("-") for flag in flags if flag != "--model"),
)
def test_models_of_typed_graphs_compute_the_same(typed_graph, tmp_path, flags):
    file = trained("node", typed_graph, tmp_path / "model.safetensors", *flags)
    model = edgecut.torch.load_model(file).eval()
    expected = predicted(typed_graph, file, tmp_path / "out", "--output", "logit")
    with torch.no_grad():
        assert_close(model(*typed_inputs(typed_graph))["user"].numpy(), expected)
    again = tmp_path / "again.safetensors"
    edgecut.torch.save_model(model, again)
    # The new file has the embeddings itself.
    assert predicted(typed_graph, again, tmp_path / "again", "--output", "logit").tobytes() == expected.tobytes()
    edgecut.torch.save_model(edgecut.torch.load_model(again), tmp_path / "third.safetensors")
    assert_same_file(again, tmp_path / "third.safetensors")


@pytest.mark.parametrize("kind", ["sage", "gat", "gin", "rgcn", "hgt"])
def test_edge_types_with_fan_outs_of_0_are_not_read(typed_graph, tmp_path, kind):
    flags = ("--model", kind, "--num-neighbors", "user__knows__user=0,0;5,5")
    file = trained("node", typed_graph, tmp_path / "model.safetensors", *flags)
    expected = predicted(typed_graph, file, tmp_path / "out", "--output", "logit")
    model = edgecut.torch.load_model(file).eval()
    with torch.no_grad():
        assert_close(model(*typed_inputs(typed_graph))["user"].numpy(), expected)
        model.trained_on = None
        assert not np.allclose(model(*typed_inputs(typed_graph))["user"].numpy(), expected, atol=1e-3)


def test_a_model_that_reads_no_edges_reads_none_in_torch(graph, tmp_path):
    file = trained("node", graph, tmp_path / "model.safetensors", "--model", "sage", "--num-neighbors", "0,0")
    model = edgecut.torch.load_model(file)
    assert_close(logits_of(model, graph), predicted(graph, file, tmp_path / "out", "--output", "logit"))


def test_a_model_for_links_leaves_out_edge_types_with_fan_outs_of_0(typed_graph, tmp_path):
    flags = ("--hold-out-edges", "0.1,0.1", "--edge-types", "likes", "--eval-negatives", 10, "--num-neighbors", "knows=0,0;5,5")
    file = trained("link", typed_graph, tmp_path / "model.safetensors", *flags)
    model = edgecut.torch.load_model(file).eval()
    x, edges = typed_inputs(typed_graph)
    expected = predicted(typed_graph, file, tmp_path / "user", "--output", "embedding", "--node-type", "user")
    with torch.no_grad():
        assert_close(model.encode(x, edges)["user"].numpy(), expected)
    edgecut.torch.save_model(model, tmp_path / "again.safetensors")
    again = edgecut.torch.load_model(tmp_path / "again.safetensors")
    assert again.trained_on == model.trained_on is not None


def test_models_of_several_targets_compute_the_same(typed_graph, tmp_path):
    graph = shutil.copytree(typed_graph, tmp_path / "graph")
    items = graph / "nodes" / "item"
    num_items = int(np.load(items / "num_nodes.npy")) if (items / "num_nodes.npy").exists() else len(np.load(items / "x.npy"))
    write(items, "y", np.arange(num_items) % 3)
    write(items, "train_mask", np.arange(num_items) % 2 == 0)
    file = trained("multi", graph, tmp_path / "model.safetensors", "--target", "user,item*0.5")
    model = edgecut.torch.load_model(file).eval()
    edgecut.torch.save_model(model, tmp_path / "again.safetensors")
    with torch.no_grad():
        outputs = model(*typed_inputs(graph))
    for target in ("user", "item"):
        for name, saved in (("out", file), ("again", tmp_path / "again.safetensors")):
            expected = predicted(graph, saved, tmp_path / f"{name}-{target}", "--output", "logit", "--target", target)
            assert_close(model.outputs_of(target, outputs).numpy(), expected)
    with pytest.raises(ValueError, match="no target shop: its targets are user, item"):
        model.outputs_of("shop", outputs)


def test_decisions_of_several_targets_are_those_of_predictions(typed_graph, tmp_path):
    graph = shutil.copytree(typed_graph, tmp_path / "graph")
    items = graph / "nodes" / "item"
    write(items, "y", np.arange(70) // 2 % 2)
    write(items, "train_mask", np.arange(70) % 2 == 0)
    chosen = ("--target-calibrate", "user", "--target-threshold", "item=0.45", "--target-positive-class", "item=0")
    file = trained("multi", graph, tmp_path / "model.safetensors", "--target", "user,item", *chosen)
    model = edgecut.torch.load_model(file).eval()
    decisions = model.decision.of_targets
    assert decisions["user"].temperature != 1.0 and decisions["user"].thresholds == []
    assert decisions["item"].positive_class == 0 and decisions["item"].thresholds == [pytest.approx(np.log(0.45 / 0.55))]
    again, undescribed = tmp_path / "again.safetensors", tmp_path / "undescribed.safetensors"
    edgecut.torch.save_model(model, again)
    model.trained_on = None
    edgecut.torch.save_model(model, undescribed)
    with torch.no_grad():
        outputs = model(*typed_inputs(graph))
    for target, decision in decisions.items():
        logits = model.outputs_of(target, outputs)
        for form, expected in (("prediction", decision.predictions(logits)), ("probability", decision.probabilities(logits))):
            for saved in (file, again):
                found = predicted(graph, saved, tmp_path / f"{saved.stem}-{target}-{form}", "--output", form, "--target", target)
                np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
            # A file that tells nothing of its training takes no --target.
            predicted(graph, undescribed, tmp_path / f"undescribed-{target}-{form}", "--output", form)
            found = np.load(next((tmp_path / f"undescribed-{target}-{form}").glob(f"*{target}*.npy")))
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("flags", [("--model", "sage"), ("--model", "gat", "--heads", 2), ("--model", "gcn", "--layer-norm")])
def test_explanations_are_the_integrated_gradients_of_pytorch(graph, tmp_path, flags):
    file = trained("node", graph, tmp_path / "model.safetensors", *flags)
    np.save(tmp_path / "nodes.npy", np.array([3, 17]))
    flags = ("--explain", "--nodes", tmp_path / "nodes.npy", "--explain-top", 10_000, "--explain-steps", 20, "--format", "csv")
    run("train", "predict", "--dataset-root-dir", graph, "--load-model", file, "--out", tmp_path / "out", *flags)
    model = edgecut.torch.load_model(file).eval()
    batch, order = whole(graph)
    with open(tmp_path / "out" / "explanations.csv", newline="") as opened:
        rows = list(csv.DictReader(opened))
    for node in (3, 17):
        of_node = [row for row in rows if int(row["node_id"]) == node and row["kind"] == "node-feature"]
        output = int(of_node[0]["output"])
        position = int(order[node])
        sums = torch.zeros_like(batch.x)
        for step in range(20):
            x = (batch.x * (step + 0.5) / 20).requires_grad_()
            sums += torch.autograd.grad(model(x, batch.edge_index)[position, output], x)[0]
        expected = (batch.x * sums / 20).numpy()[order]
        found = np.zeros_like(expected)
        for row in of_node:
            found[int(row["input_id"]), int(row["feature"].strip("feature[]"))] = float(row["contribution"])
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
        with torch.no_grad():
            score = model(batch.x, batch.edge_index)[position, output].item()
            baseline = model(torch.zeros_like(batch.x), batch.edge_index)[position, output].item()
        np.testing.assert_allclose([float(of_node[0][name]) for name in ("score", "baseline")], [score, baseline], rtol=1e-4)


@pytest.mark.parametrize(
    "decoder", ["dot", "distmult", "complex", "bilinear", "transe", "transe:norm=2,margin=3", "rotate", "mlp"]
)
def test_models_for_links_compute_the_same(typed_graph, tmp_path, decoder):
    flags = ("--decoder", decoder, "--hold-out-edges", "0.1,0.1", "--edge-types", "likes", "--eval-negatives", 10)
    file = trained("link", typed_graph, tmp_path / "model.safetensors", *flags)
    model = edgecut.torch.load_model(file).eval()
    x, edges = typed_inputs(typed_graph)
    with torch.no_grad():
        rows = model.encode(x, edges)
    for node_type in ("user", "item"):
        flags = ("--output", "embedding", "--node-type", node_type)
        assert_close(rows[node_type].numpy(), predicted(typed_graph, file, tmp_path / node_type, *flags))
    pairs = np.array([[0, 1, 2, 89], [5, 5, 69, 0]])
    np.save(tmp_path / "pairs.npy", pairs)
    flags = ("--output", "score", "--pairs", tmp_path / "pairs.npy", "--edge-type", "likes")
    expected = predicted(typed_graph, file, tmp_path / "scores", *flags)
    number = model.encoder.edge_types.index(("user", "likes", "item"))
    with torch.no_grad():
        assert_close(model(x, edges, torch.from_numpy(pairs), number).numpy(), expected)
    edgecut.torch.save_model(model, tmp_path / "again.safetensors")
    scores = predicted(typed_graph, tmp_path / "again.safetensors", tmp_path / "again", *flags)
    assert scores.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "flags",
    [
        ("--model", "gin", "--mlp-layers", 3, "--learn-epsilon"),
        ("--model", "gin", "--no-batch-norm", "--pooling", "mean", "--readout", "last"),
        ("--model", "gcn", "--pooling", "max"),
        ("--model", "sage", "--aggregation", "sum"),
        ("--model", "gatv2"),
        ("--model", "graphconv", "--aggregation", "mean"),
        ("--model", "gin", "--graph-norm", "--residual"),
        ("--model", "sage", "--graph-norm", "--readout", "jumping-knowledge-max"),
        ("--model", "gcn", "--layer-norm", "--readout", "last"),
        ("--model", "pna", "--no-batch-norm", "--mean-degree", 2),
        ("--model", "gin", "--virtual-node", "--num-layers", 3),
        ("--model", "sage", "--virtual-node", "--readout", "jumping-knowledge-max"),
    ],
    ids=lambda flags: "-".join(str(flag).strip("-") for flag in flags if flag != "--model"),
)
def test_models_for_graphs_compute_the_same(tmp_path, flags):
    data = small_graphs(tmp_path / "SMALL")
    dataset = ("--dataset", "SMALL")
    file = trained("graph", tmp_path, tmp_path / "model.safetensors", *dataset, "--batch-size", 8, *flags)
    model = edgecut.torch.load_model(file).eval()
    of_graphs = (*dataset, "--graphs", "all", "--output", "logit")
    expected = predicted(tmp_path, file, tmp_path / "out", *of_graphs)
    with torch.no_grad():
        assert_close(model(*data).numpy(), expected)
    edgecut.torch.save_model(model, tmp_path / "again.safetensors")
    assert_same_file(file, tmp_path / "again.safetensors")
    if "gcn" in flags:
        # `train` reads the files of PyTorch. Equal settings and tensors of other flags give equal outputs.
        again = predicted(tmp_path, tmp_path / "again.safetensors", tmp_path / "again", *of_graphs)
        assert again.tobytes() == expected.tobytes()


def small_graphs(folder):
    """Write 40 graphs in TUDataset's format. Return their features, edges and graph numbers."""
    random = np.random.default_rng(3)
    folder.mkdir()
    sizes = random.integers(3, 9, 40)
    graphs = np.repeat(np.arange(40), sizes)
    starts = np.cumsum(sizes) - sizes
    edges = np.concatenate([start + random.integers(0, size, (2, 2 * size)) for start, size in zip(starts, sizes)], axis=1)
    x = random.random((len(graphs), 5)).astype(np.float32)
    for name, values in [("A", edges.T + 1), ("graph_indicator", graphs + 1), ("graph_labels", random.integers(0, 2, 40))]:
        np.savetxt(folder / f"SMALL_{name}.txt", values, "%d", delimiter=", ")
    np.savetxt(folder / "SMALL_node_attributes.txt", x, "%.9g", delimiter=", ")
    return torch.from_numpy(x), torch.from_numpy(edges), torch.from_numpy(graphs)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GraphSAGE(8, 12, num_layers=3, out_channels=4),
        lambda: GraphSAGE(8, 12, num_layers=1, out_channels=4, aggr="add"),
        lambda: GCN(8, 12, num_layers=2, out_channels=4, norm="layer_norm", norm_kwargs={"mode": "node"}, act_first=True),
        lambda: GAT(8, 12, num_layers=2, out_channels=4, act="elu"),
        lambda: GAT(8, 12, num_layers=2, out_channels=4, act="elu", v2=True, dropout=0.3),
    ],
    ids=["sage", "sum", "gcn", "gat", "gatv2"],
)
def test_a_model_of_pyg_predicts_the_same_in_train(loop_free, tmp_path, make):
    torch.manual_seed(4)
    model = make()
    for parameter in model.parameters():
        # Biases that are not zero, and no two equal rows.
        torch.nn.init.normal_(parameter, std=0.3)
    file = tmp_path / "model.safetensors"
    edgecut.torch.save_model(model, file)
    assert_close(logits_of(model, loop_free), predicted(loop_free, file, tmp_path / "out", "--output", "logit"))


def test_a_model_that_torch_trained_on_cora_predicts_the_same_and_is_fine_tuned(tmp_path):
    if not CORA.exists():
        pytest.skip(f"there is no dataset {CORA} (EDGECUT_DATA)")
    torch.manual_seed(5)
    with edgecut.open(CORA) as store:
        loader = edgecut.NeighborLoader(store, [10, 5], "train", batch_size=64, shuffle=True)
        model = GraphSAGE(store.num_features, 16, num_layers=2, out_channels=store.num_classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(5):
            for batch in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y).backward()
                optimizer.step()
    file = tmp_path / "model.safetensors"
    edgecut.torch.save_model(model, file)
    expected = predicted(CORA, file, tmp_path / "out", "--output", "logit")
    assert_close(logits_of(model, CORA), expected)
    assert_close(logits_of(edgecut.torch.load_model(file), CORA), expected)
    # `train` takes over all tensors.
    flags = ("--init-from", file, "--lr", 0, "--num-neighbors", "10,5", "--hidden-channels", 16, "--num-epochs", 1)
    again = tmp_path / "again.safetensors"
    run("train", "node", "--dataset-root-dir", CORA, *flags, "--save-model", again)
    assert load_file(again)["layers.1.weight_self"].tobytes() == load_file(file)["layers.1.weight_self"].tobytes()


@pytest.mark.parametrize("kind", ["sage", "gat"])
def test_layers_compute_only_the_rows_that_the_input_nodes_need(graph, tmp_path, kind):
    flags = ("--model", kind, "--residual", "--layer-norm", "--num-neighbors", "5,5,5")
    model = edgecut.torch.load_model(trained("node", graph, tmp_path / "model.safetensors", *flags)).eval()
    batch = next(iter(edgecut.NeighborLoader(edgecut.open(graph), [3, 2, 2], "train", batch_size=20)))
    with torch.no_grad():
        trimmed = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
        torch.testing.assert_close(trimmed, model(batch.x, batch.edge_index)[:20])
        with pytest.raises(ValueError, match="the batch has 2 hops, but the model has 3 layers"):
            model(batch.x, batch.edge_index, batch.num_sampled_nodes[:3], batch.num_sampled_edges[:2])


@pytest.mark.parametrize("aggregation", ["mean", "sum", "max"])
def test_blocks_give_the_outputs_and_gradients_of_the_whole_batch(graph, aggregation):
    torch.manual_seed(6)
    batch = next(iter(edgecut.NeighborLoader(edgecut.open(graph), [4, 3], "train", batch_size=20)))
    blocks = edgecut.torch.blocks(batch)
    assert [blocks[0].num_src, blocks[0].num_dst] == [len(batch.x), blocks[1].num_src] and blocks[1].num_dst == 20
    model = GraphSAGE(8, 12, num_layers=2, out_channels=4, aggr=aggregation)
    expected = model(batch.x, batch.edge_index)[:20]
    gradients = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    has_csr = aggregation != "max" and int(torch.__version__.split(".")[0]) >= 2
    for edges in [lambda block: block.edge_index, *([lambda block: block.adj_t()] if has_csr else [])]:
        x = batch.x
        for conv, block in zip(model.convs, blocks):
            x = conv((x, x[: block.num_dst]), edges(block))
            x = x.relu() if block is not blocks[-1] else x
        torch.testing.assert_close(x, expected)
        torch.testing.assert_close(torch.autograd.grad(x.square().sum(), list(model.parameters())), gradients)


def test_edges_that_no_hop_has_sampled_are_refused(graph):
    """Blocks would leave out the edges of a transform, which come last."""
    batch = next(iter(edgecut.NeighborLoader(edgecut.open(graph), [4, 3], "train", batch_size=20)))
    sampled, loops = batch.edge_index, torch.arange(20).repeat(2, 1)
    batch.edge_index = torch.cat([sampled, loops], dim=1)
    why = rf"the batch has {sampled.size(1) + 20} edges, but its hops have sampled {sampled.size(1)}: leave out transforms"
    with pytest.raises(ValueError, match=why):
        edgecut.torch.blocks(batch)
    stack = {"kind": "gcn", "in_channels": 8, "hidden_channels": 6, "num_classes": 4, "num_layers": 2, "dropout": 0.0}
    model = edgecut.torch.ConvStack({**stack, "input_dropout": 0.0, "normalize_features": False})
    with pytest.raises(ValueError, match=why):
        model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    batch.edge_index = sampled.flip(1)
    with pytest.raises(ValueError, match="`edge_index` is not ordered by destination"):
        edgecut.torch.blocks(batch)[0].adj_t()


class WithSigmoid(GraphSAGE):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index).sigmoid()


class WithOwnReset(GraphSAGE):
    def reset_parameters(self):
        super().reset_parameters()

    def training_step(self, batch):
        return self(batch.x, batch.edge_index).sum()


class Doubled(SAGEConv):
    def message(self, x_j):
        return 2 * x_j


def changed_sage(change):
    """A model that a function has changed."""
    model = GraphSAGE(8, 12, num_layers=2, out_channels=4)
    change(model)
    return model


CHANGES = [
    (lambda: WithSigmoid(8, 12, num_layers=2, out_channels=4), "the model, a WithSigmoid, has its own `forward`"),
    (lambda: changed_sage(lambda model: model.register_forward_hook(print)), "the model, .* has hooks"),
    (lambda: changed_sage(lambda model: model.convs[0].register_forward_pre_hook(print)), "convs.0 of the model, .* has hooks"),
    (lambda: changed_sage(lambda model: model.convs[1].register_message_forward_hook(print)), "convs.1 of the model, .* has hooks"),
    (lambda: changed_sage(lambda model: setattr(model, "forward", print)), "the model, .* has its own `forward`"),
    (lambda: changed_sage(lambda model: model.convs.__setitem__(0, Doubled(8, 12))), "convs.0 of the model, a Doubled, has its own"),
    (lambda: changed_sage(lambda model: orthogonal(model.convs[0].lin_l)), "convs.0.lin_l of the model, .* has parametrizations"),
]


@pytest.mark.parametrize(("make", "error"), CHANGES)
def test_models_that_compute_something_else_are_refused(tmp_path, make, error):
    with pytest.raises(TypeError, match=error):
        edgecut.torch.save_model(make(), tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_subclasses_that_compute_the_same_are_saved(tmp_path):
    edgecut.torch.save_model(WithOwnReset(8, 12, num_layers=2, out_channels=4), tmp_path / "model.safetensors")
    model = edgecut.torch.load_model(tmp_path / "model.safetensors")
    model.register_forward_hook(print)
    with pytest.raises(TypeError, match="has hooks"):
        edgecut.torch.save_model(model, tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: torch.nn.Linear(2, 2), "a Linear cannot be saved"),
        (lambda: GIN(8, 12, num_layers=2, out_channels=4), "a GIN cannot be saved"),
        (lambda: GAT(8, 12, num_layers=2, out_channels=4), "use act='elu'"),
        (lambda: GAT(8, 12, num_layers=2, out_channels=4, act="elu", heads=2), "has several heads"),
        (lambda: GraphSAGE(8, 12, num_layers=2, out_channels=4, jk="cat"), "jumping knowledge"),
        (lambda: GraphSAGE(8, 12, num_layers=2, out_channels=4, norm="batch_norm"), "cannot be saved: `train` has layer norm"),
        (lambda: GraphSAGE(8, 12, num_layers=2, out_channels=4, normalize=True), "use normalize=False"),
        (lambda: GCN(8, 12, num_layers=2, out_channels=4, improved=True), "use improved=False"),
        (lambda: GraphSAGE(8, 12, num_layers=2, out_channels=4, flow="target_to_source"), "use flow=source_to_target"),
        (lambda: GAT(8, 12, num_layers=2, out_channels=4, act="elu", act_kwargs={"alpha": 2.0}), "alpha=1"),
        (lambda: GCN(8, 12, num_layers=2, out_channels=4, bias=False), "it has the parameters bias, lin.weight"),
    ],
)
def test_models_that_train_lacks_are_refused(tmp_path, make, error):
    with pytest.raises((TypeError, ValueError), match=error):
        edgecut.torch.save_model(make(), tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_is_not_finite_keeps_the_earlier_file(tmp_path):
    file = tmp_path / "model.safetensors"
    model = GCN(8, 12, num_layers=1, out_channels=4)
    edgecut.torch.save_model(model, file)
    before = file.read_bytes()
    model.convs[0].bias.data[2] = float("nan")
    with pytest.raises(ValueError, match="tensor layers.0.bias of the model has a value that is not finite"):
        edgecut.torch.save_model(model, file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        edgecut.torch.load_model(file)
    edgecut.torch.save_model(GCN(8, 12, num_layers=1, out_channels=4), file)
    tensors = load_file(file)
    with safe_open(file, "numpy") as opened:
        metadata = opened.metadata()
    config = json.loads(metadata["config"])
    for changed, entries, error in [
        ({}, {"version": "2"}, "metadata version is '2', expected '1'"),
        ({}, {"config": "{"}, "not valid JSON"),
        ({}, {"config": json.dumps({**config, "num_layers": 0})}, "`num_layers` .* must be a whole number from 1"),
        ({}, {"config": json.dumps({**config, "heads": 2})}, "unknown entry `heads`"),
        ({"layers.0.bias": tensors["layers.0.bias"][:3]}, {}, r"tensor layers.0.bias is .* of the shape \[3\], expected"),
        ({"other": tensors["layers.0.bias"]}, {}, "tensor other does not belong to this model"),
    ]:
        save_file({**tensors, **changed}, file, {**metadata, **entries})
        with pytest.raises(ValueError, match=error):
            edgecut.torch.load_model(file)
    del tensors["layers.0.bias"]
    save_file(tensors, file, metadata)
    with pytest.raises(ValueError, match="tensor layers.0.bias is missing"):
        edgecut.torch.load_model(file)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="not a valid safetensors file"):
        edgecut.torch.load_model(file)


def test_damaged_embeddings_are_value_errors(tmp_path):
    from safetensors.numpy import save_file

    from edgecut.torch.embeddings import read_embeddings

    def read(num_nodes=3, dim=2, **more):
        tensors = {"original_ids.user": np.arange(3, dtype=np.uint32), "embeddings.user": np.ones((3, 2), np.float32), **more}
        (tmp_path / "model.embeddings").mkdir(exist_ok=True)
        save_file(tensors, tmp_path / "model.embeddings" / "part", {"save": "1"})
        tables = [{"node_type": "user", "num_nodes": num_nodes, "dim": dim}]
        index = {"save": "1", "tables": tables, "shards": [{"file": "part"}]}
        return read_embeddings(tmp_path / "model", {"embeddings": json.dumps(index)})

    assert np.array_equal(read()["user"], np.ones((3, 2)))
    for why, arguments in [
        # Neither would be an error of memory that the system grants lazily.
        ("bytes only", {"num_nodes": 2**40, "dim": 0}),
        ("bytes only", {"num_nodes": 3, "dim": 2**40}),
        ("-1 nodes", {"num_nodes": -1}),
        ("lacks the embeddings of 1 nodes", {"num_nodes": 4}),
        ("not one of the 2 nodes", {"num_nodes": 2}),
        ("not one of the 3 nodes", {"original_ids.user": np.array([0, 1, -1])}),
        ("have the shape", {"embeddings.user": np.ones((3, 1), np.float32)}),
        ("ids of float32", {"original_ids.user": np.ones(3, np.float32)}),
    ]:
        with pytest.raises(ValueError, match=why):
            read(**arguments)
    (tmp_path / "model.embeddings" / "part").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="part: not a valid safetensors file"):
        read_embeddings(tmp_path / "model", {"embeddings": json.dumps({"save": "1", "tables": [], "shards": [{"file": "part"}]})})


def test_embeddings_of_other_nodes_are_refused(typed_graph, tmp_path):
    file = trained("node", typed_graph, tmp_path / "model.safetensors", "--model", "rgcn")
    with edgecut.open(typed_graph) as store:
        assert edgecut.torch.load_model(file, store)
        with safe_open(file, "numpy") as saved:
            metadata, tensors = saved.metadata(), {name: saved.get_tensor(name) for name in saved.keys()}
        trained_on = json.loads(metadata["trained_on"])
        assert trained_on["node_types"]["item"]["ids"] == "none"
        # As of a table with ids.
        trained_on["node_types"]["item"]["ids"] = {"digest": "0123"}
        save_file(tensors, file, {**metadata, "trained_on": json.dumps(trained_on)})
        with pytest.raises(ValueError, match="the ids of the nodes of type item, or their order, are not those of the training"):
            edgecut.torch.load_model(file, store)
    with pytest.warns(UserWarning, match="the embeddings of item are found by row number: pass `store`"):
        edgecut.torch.load_model(file)
    save_file(tensors, file, metadata)
    other = tmp_path / "other"
    shutil.copytree(typed_graph, other)
    np.save(other / "nodes" / "item" / "num_nodes.npy", np.array(71))
    with edgecut.open(other) as store, pytest.raises(ValueError, match="has 70 embeddings of item, but other has 71 nodes"):
        edgecut.torch.load_model(file, store)


def test_embeddings_of_a_batch_need_ids(typed_graph, tmp_path):
    file = trained("node", typed_graph, tmp_path / "model.safetensors", "--model", "sage")
    x, edges = typed_inputs(typed_graph)
    with edgecut.open(typed_graph) as store:
        model = edgecut.torch.load_model(file, store).eval()
        batch = next(iter(edgecut.NeighborLoader(store, [3, 3], ("user", np.arange(50, 60)), batch_size=10)))
    ids = batch.n_id_dict
    with torch.no_grad():
        whole = model(x, edges, {"item": torch.arange(70)})
        # Without ids, the nodes are all nodes.
        assert torch.equal(model(x, edges)["user"], whole["user"])
        assert len(model(batch.x_dict, batch.edge_index_dict, ids)["user"]) == len(ids["user"])
    with pytest.raises(ValueError, match="`n_id` is missing, and there are .* nodes of type item, which has embeddings of 70"):
        model(batch.x_dict, batch.edge_index_dict)
    with pytest.raises(ValueError, match="`n_id` lacks the node type item, which has embeddings: pass the ids"):
        model(batch.x_dict, batch.edge_index_dict, {"user": ids["user"]})


def test_a_missing_file_of_embeddings_is_named(typed_graph, tmp_path):
    file = trained("node", typed_graph, tmp_path / "model.safetensors", "--model", "sage")
    shard, = (tmp_path / "model.safetensors.embeddings").iterdir()
    shard.unlink()
    with pytest.raises(FileNotFoundError, match=shard.name):
        edgecut.torch.load_model(file)


def test_import_of_edgecut_needs_no_torch():
    code = "import sys, edgecut; assert not {'torch', 'torch_geometric', 'safetensors'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
