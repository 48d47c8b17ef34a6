"""Models over features, weights and times of edges: `train` beside PyTorch, and the layers beside those of PyG, forward and
backward."""

import csv
import shutil

import numpy as np
import pytest
from conftest import run

MISSING = "torch_geometric or safetensors is missing"
pytest.importorskip("torch_geometric.nn", reason=MISSING)
pytest.importorskip("safetensors.torch", reason=MISSING)

import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from torch_geometric.nn import GraphConv, HGTConv, PNAConv, RGCNConv, SAGEConv
from torch_geometric.nn.models.tgn import TimeEncoder as PygTimeEncoder
from torch_geometric.utils import add_remaining_self_loops

import edgecut
import edgecut.torch
from edgecut.torch.blocks import Block
from edgecut.torch.edge_layers import EdgeAggregation, EdgeRgcn, Hgt, Pna, TimeEncoder

NODES, EDGES, EDGE_DIM = 120, 500, 3
TYPES = {("user", "likes", "item"): 2, ("item", "rev_likes", "user"): 2, ("user", "knows", "user"): 0}
SIZES = {"user": 90, "item": 70}


def write(folder, name, values):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", values)


def write_edges(folder, random, sizes, count, dim, oldest=0):
    write(folder, "edge_index", np.stack([random.integers(0, size, count) for size in sizes]))
    write(folder, "edge_weight", (random.random(count) * 3).astype(np.float32))
    write(folder, "edge_time", random.integers(oldest, 100, count))
    if dim > 0:
        write(folder, "edge_attr", random.standard_normal((count, dim)).astype(np.float32))


def write_splits(folder, random, count, classes):
    write(folder, "y", random.integers(0, classes, count))
    for at, name in enumerate(("train_idx", "val_idx", "test_idx")):
        write(folder, name, np.arange(count)[at::3])


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("edges"), np.random.default_rng(1)
    write_edges(folder, random, (NODES, NODES), EDGES, EDGE_DIM)
    write(folder, "x", random.random((NODES, 8), np.float32))
    # All edges are earlier than their seeds, so that a batch of all neighbors is the whole graph.
    write(folder, "node_time", np.full(NODES, 150))
    write_splits(folder, random, NODES, 4)
    return folder


@pytest.fixture(scope="module")
def typed_graph(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("typed-edges"), np.random.default_rng(2)
    for name, size in SIZES.items():
        write(folder / "nodes" / name, "x", random.random((size, 6), np.float32))
        write(folder / "nodes" / name, "node_time", np.full(size, 150))
    write_splits(folder / "nodes" / "user", random, SIZES["user"], 3)
    for name, dim in TYPES.items():
        write_edges(folder / "edges" / "__".join(name), random, (SIZES[name[0]], SIZES[name[2]]), 300, dim)
    return folder


def array(folder, name):
    return torch.from_numpy(np.load(folder / f"{name}.npy"))


def edge_values(folder, names=("edge_attr", "edge_weight")):
    """The arguments of a model that are values of edges."""
    values = {name: array(folder, name) for name in names if (folder / f"{name}.npy").exists()}
    return {**values, "edge_age": 150 - array(folder, "edge_time")}


def inputs(folder):
    """The arguments of a model for the whole graph."""
    if (folder / "edge_index.npy").exists():
        return (array(folder, "x"), array(folder, "edge_index")), edge_values(folder)
    x = {name: array(folder / "nodes" / name, "x") for name in SIZES}
    folders = {name: folder / "edges" / "__".join(name) for name in TYPES}
    of_types = {name: edge_values(path) for name, path in folders.items()}
    values = {
        argument: {name: of_type[argument] for name, of_type in of_types.items() if argument in of_type}
        for argument in ("edge_attr", "edge_weight", "edge_age")
    }
    return (x, {name: array(path, "edge_index") for name, path in folders.items()}), values


def seeds_of(output):
    return output["user"] if isinstance(output, dict) else output


def assert_close(found, expected, tolerance=1e-5):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    difference = (np.abs(found - expected) / np.maximum(np.abs(expected), 1)).max()
    assert difference <= tolerance, difference


PLAIN = [
    ("--model", "sage"),
    ("--model", "sage", "--edge-weights"),
    ("--model", "sage", "--aggregation", "sum", "--edge-weights", "--no-edge-features"),
    ("--model", "sage", "--aggregation", "max"),
    ("--model", "graphconv", "--edge-weights"),
    ("--model", "graphconv", "--aggregation", "mean", "--edge-weights", "--encoder-decoder"),
    ("--model", "gcn", "--edge-weights"),
    ("--model", "gat", "--heads", 2),
    ("--model", "gatv2", "--heads", 2),
    ("--model", "gine", "--learn-epsilon"),
    ("--model", "transformer", "--heads", 2),
    ("--model", "pna"),
    ("--model", "pna", "--mean-degree", 2, "--no-edge-features"),
    ("--model", "pna", "--encoder-decoder"),
    ("--model", "rgcn", "--edge-weights"),
    ("--model", "hgt", "--heads", 2),
]
TYPED = [
    ("--model", "sage", "--edge-weights"),
    ("--model", "graphconv", "--edge-weights", "--relation-aggregation", "mean"),
    ("--model", "gat", "--heads", 2),
    ("--model", "gatv2", "--heads", 2),
    ("--model", "transformer", "--heads", 2),
    ("--model", "pna"),
    ("--model", "rgcn", "--edge-weights"),
    ("--model", "rgcn", "--num-bases", 2),
    ("--model", "rgcn", "--num-blocks", 4, "--edge-weights", "--no-edge-features"),
    ("--model", "hgt", "--heads", 4),
    ("--model", "hgt", "--no-edge-features"),
]
TIMES = ("--time-attr", "edge_time", "--time-encoding", 5)


def names(flags):
    return "-".join(str(flag).strip("-") for flag in flags if flag != "--model")


def train(dataset, *flags):
    common = ("--num-neighbors=-1,-1", "--hidden-channels", 16, "--dropout", 0, "--batch-size", 1000)
    run("train", "node", "--dataset-root-dir", dataset, *common, *flags)


def check(dataset, folder, flags, tmp_path):
    """Compare the logits of `train predict` with those of the loaded model, and one step of SGD with the gradients of
    PyTorch."""
    file, stepped, again = (tmp_path / f"{name}.safetensors" for name in ("model", "stepped", "again"))
    train(dataset, *flags, "--num-epochs", 1, "--lr", 0.01, "--save-model", file)
    model = edgecut.torch.load_model(file)
    arguments, values = inputs(folder)
    out = tmp_path / "out"
    more = ("--load-model", file, "--output", "logit", "--format", "npy", "--out", out)
    run("train", "predict", "--dataset-root-dir", dataset, *more)
    expected = np.load(next(out.glob("*.npy")))
    assert expected.std(axis=0).min() > 1e-4
    with torch.no_grad():
        if flags[:2] == ("--model", "pna") and "--no-edge-features" in flags:
            # PyG subtracts 32-bit squares of messages that are almost equal, `train` squares of smaller numbers.
            doubles = (x.double() if x.is_floating_point() else x for x in arguments)
            assert_close(seeds_of(model.double().eval()(*doubles)), expected)
            model.float()
        else:
            assert_close(seeds_of(model.eval()(*arguments, **values)), expected)
    edgecut.torch.save_model(model, again)
    tensors, others = load_file(file), load_file(again)
    assert sorted(tensors) == sorted(others)
    assert all(tensors[name].tobytes() == others[name].tobytes() for name in tensors)
    # The gradients of all training nodes.
    training = ("--optimizer", "sgd", "--momentum", 0, "--lr", 1, "--num-epochs", 1, "--nproc-per-node", 2)
    train(dataset, *flags, *training, "--init-from", file, "--save-model", stepped)
    of_seeds = folder if (folder / "y.npy").exists() else folder / "nodes" / "user"
    train_idx = array(of_seeds, "train_idx")
    logits = seeds_of(model.train()(*arguments, **values))[train_idx]
    F.cross_entropy(logits, array(of_seeds, "y")[train_idx]).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= parameter.grad
    edgecut.torch.save_model(model, again)
    found, expected = load_file(stepped), load_file(again)
    assert sorted(found) == sorted(expected)
    for name in found:
        # The arguments of the cosine are up to 150, of which 32-bit numbers keep about 1e-5.
        # The derivative of a small standard deviation magnifies the rounding of the variance.
        inexact = 1e-4 if name.startswith("times.") else 1e-5
        assert_close(found[name], expected[name], 1e-3 if "pna" in flags else inexact)
    assert any(np.abs(found[name] - tensors[name]).max() > 1e-3 for name in found)


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_principal_aggregation_is_the_layer_of_pyg(edge_dim):
    torch.manual_seed(3)
    degrees = torch.tensor([0, 0, 0, 1])
    scalers = ["identity", "amplification", "attenuation"]
    settings = {"aggregators": ["mean", "min", "max", "std"], "scalers": scalers, "deg": degrees}
    of_pyg = PNAConv(4, 5, edge_dim=edge_dim or None, **settings)
    layer = Pna((4, 5), edge_dim, 3, is_message=False)
    pairs = [(layer.pre, of_pyg.pre_nns[0][0]), (layer.post, of_pyg.post_nns[0][0]), (layer.lin, of_pyg.lin)]
    if edge_dim > 0:
        pairs.append((layer.edge, of_pyg.edge_encoder))
    for mine, theirs in pairs:
        mine.load_state_dict(theirs.state_dict())
    edge_index = torch.randint(0, 12, (2, 40))
    values = (torch.randn(40, edge_dim),) if edge_dim > 0 else ()
    x = torch.randn(12, 4)
    gradients = []
    for made in (layer, of_pyg):
        of_x = x.clone().requires_grad_()
        output = made(of_x, edge_index, *values)
        output.square().sum().backward()
        gradients.append((output.detach(), of_x.grad))
    for found, expected in zip(*gradients):
        assert_close(found, expected)
    for mine, theirs in pairs:
        assert_close(mine.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("flags", PLAIN, ids=names)
def test_models_of_homogeneous_graphs_compute_the_same(graph, tmp_path, flags):
    check(graph, graph, flags, tmp_path)


@pytest.mark.parametrize("flags", TYPED, ids=names)
def test_models_of_typed_graphs_compute_the_same(typed_graph, tmp_path, flags):
    check(typed_graph, typed_graph, flags, tmp_path)


@pytest.mark.parametrize(
    "flags",
    [("--model", "sage", "--edge-weights"), ("--model", "gatv2", "--no-edge-features"), ("--model", "gine",)],
    ids=names,
)
def test_models_that_read_times_compute_the_same(graph, tmp_path, flags):
    check(graph, graph, (*flags, *TIMES), tmp_path)


@pytest.mark.parametrize("flags", [("--model", "hgt"), ("--model", "rgcn", "--edge-weights")], ids=names)
def test_typed_models_that_read_times_compute_the_same_on_three_parts(typed_graph, tmp_path, flags):
    parts = tmp_path / "parts"
    flags = (*flags, *TIMES)
    named = ("--dataset", "typed", "--dataset-dir", typed_graph)
    run("partition-graph", *named, "--num-partitions", 3, "--output-dir", parts)
    check(parts, typed_graph, flags, tmp_path)


def test_a_model_for_links_reads_features_and_weights(typed_graph, tmp_path):
    file = tmp_path / "model.safetensors"
    common = ("--num-neighbors", "5,5", "--hidden-channels", 16, "--num-epochs", 1, "--eval-negatives", 10)
    links = ("--hold-out-edges", "0.1,0.1", "--edge-types", "likes", "--model", "sage", "--edge-weights")
    run("train", "link", "--dataset-root-dir", typed_graph, *common, *links, "--save-model", file)
    model = edgecut.torch.load_model(file).eval()
    (x, edges), values = inputs(typed_graph)
    out = tmp_path / "out"
    more = ("--output", "embedding", "--node-type", "item", "--format", "npy", "--out", out)
    run("train", "predict", "--dataset-root-dir", typed_graph, "--load-model", file, *more)
    with torch.no_grad():
        assert_close(model.encode(x, edges, **values)["item"], np.load(next(out.glob("*.npy"))))


PAYS = ("payer", "pays", "shop")
PAYERS, SHOPS, THEFT_AT = 50, 12, 0.7


@pytest.fixture(scope="module")
def payments(tmp_path_factory):
    """Parts of a table of payments by their number, and the columns of the table."""
    folder, random = tmp_path_factory.mktemp("payments"), np.random.default_rng(7)
    pairs = random.permutation(PAYERS * SHOPS)[:400]
    columns = {
        "payer": [f"p{pair // SHOPS}" for pair in pairs],
        "shop": [f"s{pair % SHOPS}" for pair in pairs],
        "amount": random.random(400).round(4).tolist(),
        "hour": (random.integers(0, 24, 400) / 24).round(4).tolist(),
    }
    columns["kind"] = ["theft" if amount > THEFT_AT else "honest" for amount in columns["amount"]]
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]
    (folder / "payments.csv").write_text("\n".join(rows))
    (folder / "graph.yaml").write_text(
        """
edges:
  - relation: [payer, pays, shop]
    files: payments.csv
    source_id_col: payer
    dest_id_col: shop
    features: [{feature_col: amount}, {feature_col: hour}]
    labels: [{task_type: classification, label_col: kind, split_pct: [0.6, 0.2, 0.2]}]
"""
    )
    parts = {}
    for number in (1, 3):
        parts[number] = folder / f"parts-{number}"
        named = ("--conf", folder / "graph.yaml", "--dataset", "payments", "--num-partitions", number)
        run("partition-graph", *named, "--output-dir", parts[number], "--add-reverse-edges")
    return parts, columns


def arrays_of(ids, columns):
    """Return the payments as pairs of ids in the dataset, and the features of each of them."""
    ends = np.array([[ids[name][text] for text in columns[name]] for name in ("payer", "shop")])
    features = np.array([columns["amount"], columns["hour"]], np.float32).T
    return torch.from_numpy(ends), torch.from_numpy(features)


def train_edge(parts, file, *flags):
    common = ("--num-neighbors=-1,-1", "--hidden-channels", 8, "--dropout", 0, "--batch-size", 1000, "--num-epochs", 1)
    run("train", "edge", "--dataset-root-dir", parts, *common, "--save-model", file, *flags)


def predicted(parts, file, out, output, *flags):
    """Return the values of all payments by their ends, the names of their classes, and the ids of the dataset by table id."""
    more = ("--edges", "all", "--output", output, "--format", "csv", "--out", out, *flags)
    run("train", "predict", "--dataset-root-dir", parts, "--load-model", file, *more)
    found, names, ids = {}, {}, {"payer": {}, "shop": {}}
    for path in sorted(out.glob("*.csv")):
        for row in csv.DictReader(path.read_text().splitlines()):
            ends = row.pop("src"), row.pop("dst")
            ids["payer"][ends[0]], ids["shop"][ends[1]] = int(row.pop("src_id")), int(row.pop("dst_id"))
            names[ends] = row.pop("class_name", None)
            found[ends] = [float(value) for value in row.values()]
    return found, names, ids


# Each decoder with and without features, which it reads in the same way on one part and on three.
@pytest.mark.parametrize(
    ("num_parts", "decoder", "features"),
    [
        (1, "mlp", ()),
        (3, "dot", ()),
        (3, "bilinear", ()),
        (3, "mlp", ("--no-edge-features",)),
        (1, "dot", ("--no-edge-features",)),
        (1, "bilinear", ("--no-edge-features",)),
    ],
)
def test_models_for_edges_compute_the_same(payments, tmp_path, num_parts, decoder, features):
    parts, columns = payments
    file, again = tmp_path / "model.safetensors", tmp_path / "again.safetensors"
    chosen = ("--threshold", "best-f1", "--calibrate", "--target-edges", "include")
    train_edge(parts[num_parts], file, "--decoder", decoder, "--lr", 0.05, *chosen, *features)
    store = edgecut.open(parts[num_parts])
    model = edgecut.torch.load_model(file, store).eval()
    assert model.decision.class_names == ["honest", "theft"] and len(model.decision.thresholds) == 1
    found, names_of_classes, ids = predicted(parts[num_parts], file, tmp_path / "ids", "logit")
    edges, attr = arrays_of(ids, columns)
    edge_index = {PAYS: edges, ("shop", "rev_pays", "payer"): edges.flip(0)}
    edge_attr = dict.fromkeys(edge_index, attr)
    rows = dict(zip(zip(columns["payer"], columns["shop"]), range(400)))
    with torch.no_grad():
        logits = model({}, edge_index, edges, edge_label_attr=attr, edge_attr=edge_attr)
    edgecut.torch.save_model(model, again)
    # The saved file has the model and its decision.
    for saved, output, values in [
        (file, "logit", logits),
        (file, "probability", model.decision.probabilities(logits)),
        (again, "class", model.decision.predictions(logits)),
        (again, "logit", logits),
    ]:
        if (saved, output) != (file, "logit"):
            found, names_of_classes, _ = predicted(parts[num_parts], saved, tmp_path / f"{saved.stem}-{output}", output)
        assert found.keys() == rows.keys()
        assert_close(list(found.values()), values.view(400, -1)[[rows[ends] for ends in found]])
        if output == "class":
            assert {ends: model.decision.class_names[int(of_edge[0])] for ends, of_edge in found.items()} == names_of_classes


def test_numbers_of_edges_of_one_type_compute_the_same(graph, tmp_path):
    """The model reads features of nodes, and times and weights of the edges that carry messages."""
    folder, file, again = tmp_path / "graph", tmp_path / "model.safetensors", tmp_path / "again.safetensors"
    shutil.copytree(graph, folder)
    random = np.random.default_rng(4)
    write(folder, "edge_target", random.standard_normal((EDGES, 2)).astype(np.float32))
    for at, name in enumerate(("edge_train_idx", "edge_val_idx", "edge_test_idx")):
        write(folder, name, np.arange(EDGES)[at::3])
    for name in ("y", "train_idx", "val_idx", "test_idx"):
        (folder / f"{name}.npy").unlink()
    train_edge(folder, file, "--loss", "huber", "--target-edges", "include", "--edge-weights", "--lr", 0.05)
    with edgecut.open(folder) as store:
        model = edgecut.torch.load_model(file, store).eval()
    assert (model.decision.kind, model.decision.number, model.decision.loss) == ("numbers", 2, "huber")
    edges, attr = array(folder, "edge_index"), array(folder, "edge_attr")
    with torch.no_grad():
        values = {"edge_attr": attr, "edge_weight": array(folder, "edge_weight")}
        outputs = model(array(folder, "x"), edges, edges, edge_label_attr=attr, **values)
    edgecut.torch.save_model(model, again)
    for saved in (file, again):
        out = tmp_path / f"{saved.stem}-out"
        more = ("--edges", "all", "--output", "prediction", "--format", "csv", "--out", out)
        run("train", "predict", "--dataset-root-dir", folder, "--load-model", saved, *more)
        rows = [row for path in sorted(out.glob("*.csv")) for row in csv.DictReader(path.read_text().splitlines())]
        found = sorted([int(row["src_id"]), int(row["dst_id"]), *map(float, [*row.values()][3:])] for row in rows)
        expected = sorted([*pair, *values] for pair, values in zip(edges.T.tolist(), outputs.tolist()))
        assert_close(found, expected)


def test_batches_for_edges_leave_out_the_messages_of_their_edges(payments, tmp_path):
    parts, columns = payments
    file = tmp_path / "model.safetensors"
    train_edge(parts[3], file, "--lr", 0.05)
    expected, _, ids = predicted(parts[3], file, tmp_path / "out", "logit", "--batch-size", 50)
    edges, attr = arrays_of(ids, columns)
    with edgecut.open(parts[1]) as store:
        model = edgecut.torch.load_model(file, store).eval()
        loader = edgecut.LinkNeighborLoader(store, [-1, -1], (PAYS, edges), disjoint=True, batch_size=50)
        for batch in loader:
            of_batch = {name: batch[name].edge_attr for name in batch.edge_types if "edge_attr" in batch[name]}
            at = batch[PAYS].input_id
            ids = {name: batch[name].n_id for name in batch.node_types}
            with torch.no_grad():
                found = model(
                    {}, batch.edge_index_dict, batch[PAYS].edge_label_index, ids, edge_label_attr=attr[at], edge_attr=of_batch
                )
            assert_close(found, [expected[columns["payer"][i], columns["shop"][i]] for i in at])


@pytest.mark.parametrize("decoder", ["mlp", "dot", "bilinear"])
def test_steps_of_models_for_edges_are_those_of_pytorch(payments, tmp_path, decoder):
    parts, columns = payments
    file, stepped, again = (tmp_path / f"{name}.safetensors" for name in ("model", "stepped", "again"))
    flags = ("--decoder", decoder, "--target-edges", "include", "--model", "gatv2", "--heads", 2)
    train_edge(parts[1], file, *flags, "--lr", 0.05)
    model = edgecut.torch.load_model(file, edgecut.open(parts[1]))
    sgd = ("--optimizer", "sgd", "--momentum", 0, "--lr", 1, "--nproc-per-node", 2)
    train_edge(parts[1], stepped, *flags, *sgd, "--init-from", file)
    _, _, ids = predicted(parts[1], file, tmp_path / "ids", "logit")
    edges, attr = arrays_of(ids, columns)
    edge_index = {PAYS: edges, ("shop", "rev_pays", "payer"): edges.flip(0)}
    logits = model({}, edge_index, edges, edge_label_attr=attr, edge_attr=dict.fromkeys(edge_index, attr))
    labels = torch.tensor([int(kind == "theft") for kind in columns["kind"]])
    of_part = parts[1] / "part_0"
    splits = np.load(of_part / "edges" / "payer__pays__shop" / "splits.npy")
    indptr, indices = (np.load(of_part / "edges" / "payer__pays__shop" / f"{name}.npy") for name in ("indptr", "indices"))
    originals = {name: np.load(of_part / "nodes" / name / "original_ids.npy") for name in ("payer", "shop")}
    src, dst = originals["payer"][indices], originals["shop"][np.repeat(np.arange(len(indptr) - 1), np.diff(indptr).astype(np.int64))]
    numbers = {ends: number for number, ends in enumerate(map(tuple, edges.T.tolist()))}
    rows = torch.tensor([numbers[ends] for ends in zip(src.tolist(), dst.tolist())])
    training = rows[torch.from_numpy(splits == 0)]
    assert 200 < len(training) < 300
    F.cross_entropy(logits[training], labels[training]).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= parameter.grad
    edgecut.torch.save_model(model, again)
    found, expected = load_file(stepped), load_file(again)
    compared = [name for name in found if not name.startswith("embeddings.")]
    assert compared == [name for name in expected if not name.startswith("embeddings.")]
    for name in compared:
        assert_close(found[name], expected[name])


def test_thresholds_and_temperatures_decide():
    logits = torch.tensor([[1.0, 2.0], [1.0, 1.2], [2.0, 1.0], [float("nan"), 1.0]])
    two = edgecut.torch.Decision("node", kind="classes", number=2, temperature=2.0, thresholds=[0.2])
    assert two.predictions(logits).tolist() == [1, 0, 0, -1]
    assert edgecut.torch.Decision("node", number=2).predictions(logits).tolist() == [1, 1, 0, -1]
    torch.testing.assert_close(two.probabilities(logits[:3]), (logits[:3] / 2).softmax(dim=1))
    labels = edgecut.torch.Decision("node", kind="labels", number=2, temperature=0.5, thresholds=[3.0, 2.0])
    assert labels.predictions(logits[:3]).tolist() == [[0, 1], [0, 1], [1, 0]]
    torch.testing.assert_close(labels.probabilities(logits[:3]), (logits[:3] * 2).sigmoid())
    first = edgecut.torch.Decision("node", number=2, temperature=2.0, thresholds=[-0.2], positive_class=0)
    assert first.predictions(logits).tolist() == two.predictions(logits).tolist()
    for decision in (two, first, labels, edgecut.torch.Decision("link", kind=None)):
        assert edgecut.torch.Decision.from_json(decision.to_json()) == decision
    numbers = edgecut.torch.Decision("graph", loss="mse", kind="numbers", number=2)
    assert numbers.predictions(logits) is logits
    with pytest.raises(ValueError, match="have no probabilities"):
        numbers.probabilities(logits)


def test_classes_of_other_tables_are_refused(payments, tmp_path, monkeypatch):
    parts, _ = payments
    file = tmp_path / "model.safetensors"
    train_edge(parts[1], file, "--no-edge-features")
    model = edgecut.torch.load_model(file)
    assert model.decision.class_names is None
    with pytest.raises(ValueError, match="the model reads the features of the edges|must have the shape"):
        train_edge(parts[1], file)
        edgecut.torch.load_model(file).decode(torch.zeros(2, 8), torch.zeros(2, 8))
    other = tmp_path / "other"
    other.mkdir()
    table = (parts[1].parent / "payments.csv").read_text().replace("honest", "good")
    (other / "payments.csv").write_text(table)
    (other / "graph.yaml").write_text((parts[1].parent / "graph.yaml").read_text())
    named = ("--conf", other / "graph.yaml", "--dataset", "payments", "--num-partitions", 1)
    run("partition-graph", *named, "--output-dir", other / "parts", "--add-reverse-edges")
    monkeypatch.chdir(other)
    with edgecut.open("parts") as store:
        # The names stay those of the folder.
        monkeypatch.chdir(tmp_path)
        assert store.class_names("payer__pays__shop") == ["good", "theft"] and store.class_names("shop") is None
        with pytest.raises(ValueError, match="`name` is 'cash': choose from payer, shop, payer__pays__shop"):
            store.class_names("cash")
        with pytest.raises(ValueError, match="the classes of payer__pays__shop are not those of its training"):
            edgecut.torch.load_model(file, store)


def test_batches_of_a_loader_have_the_values_of_edges(graph, tmp_path):
    file = tmp_path / "model.safetensors"
    flags = ("--model", "sage", "--edge-weights", *TIMES)
    train(graph, *flags, "--num-epochs", 1, "--save-model", file)
    model = edgecut.torch.load_model(file).eval()
    arguments, values = inputs(graph)
    loader = edgecut.NeighborLoader(edgecut.open(graph), [-1, -1], "test", batch_size=16, time_attr="edge_time")
    for batch in loader:
        seed_times = batch.time[: batch.batch_size]
        ages = seed_times[batch.batch[batch.edge_index[1]]] - batch.edge_time
        of_batch = {"edge_attr": batch.edge_attr, "edge_weight": batch.edge_weight, "edge_age": ages}
        numbers = (batch.num_sampled_nodes, batch.num_sampled_edges)
        with torch.no_grad():
            found = model(batch.x, batch.edge_index, *numbers, **of_batch)
            expected = model(*arguments, **values)[batch.n_id[: batch.batch_size]]
        assert_close(found, expected)


def test_probabilities_of_nodes_are_calibrated_as_in_predictions(graph, tmp_path):
    file, out = tmp_path / "model.safetensors", tmp_path / "out"
    train(graph, "--model", "sage", "--no-edge-features", "--num-epochs", 2, "--calibrate", "--save-model", file)
    model = edgecut.torch.load_model(file, edgecut.open(graph)).eval()
    assert model.decision.kind == "classes" and model.decision.temperature != 1.0 and model.decision.class_names is None
    more = ("--load-model", file, "--output", "probability", "--format", "npy", "--out", out)
    run("train", "predict", "--dataset-root-dir", graph, *more)
    with torch.no_grad():
        logits = model(array(graph, "x"), array(graph, "edge_index"))
    assert_close(model.decision.probabilities(logits), np.load(next(out.glob("*.npy"))))


def test_values_of_edges_that_are_missing_or_of_another_shape_are_named(graph, tmp_path):
    file = tmp_path / "model.safetensors"
    train(graph, "--model", "sage", "--edge-weights", "--num-epochs", 1, "--save-model", file)
    model = edgecut.torch.load_model(file)
    arguments, values = inputs(graph)
    for missing in ("edge_attr", "edge_weight"):
        others = {name: value for name, value in values.items() if name != missing}
        with pytest.raises(ValueError, match=f"pass `{missing}`"):
            model(*arguments, **others)
    with pytest.raises(ValueError, match=r"`edge_weight` of edges of type .* has the shape \[500, 1\], expected \[500\]"):
        model(*arguments, **{**values, "edge_weight": values["edge_weight"].unsqueeze(1)})


@pytest.fixture()
def edges():
    random = torch.Generator().manual_seed(3)
    index = torch.randint(0, 20, (2, 90), generator=random)
    return index, torch.rand(90, generator=random) + 0.1, torch.randn(90, EDGE_DIM, generator=random)


def compare(ours, theirs, inputs, parameters):
    """Compare two computations, and the gradients of their inputs and parameters."""
    results = []
    for compute, of_layer in zip((ours, theirs), parameters):
        given = [x.clone().requires_grad_() for x in inputs]
        output = compute(*given)
        gradients = torch.autograd.grad((output * torch.arange(output.numel()).view_as(output).sin()).sum(), [*given, *of_layer])
        # Layers may keep their parameters in other shapes.
        results.append([output, *gradients[: len(given)], *[gradient.flatten() for gradient in gradients[len(given) :]]])
    for found, expected in zip(*results):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_graphconv_is_that_of_pyg(edges, aggregation):
    index, weight, _ = edges
    theirs = GraphConv(6, 4, aggr=aggregation)
    ours = EdgeAggregation("graphconv", (6, 4), 0, aggregation, is_message=False)
    ours.lin_neighbors.load_state_dict(theirs.lin_rel.state_dict())
    ours.lin_root.load_state_dict(theirs.lin_root.state_dict())
    parameters = ([*ours.lin_neighbors.parameters()], [*theirs.lin_rel.parameters()])
    compare(lambda x: ours(x, index, None, weight), lambda x: theirs(x, index, weight), [torch.randn(20, 6)], parameters)


@pytest.mark.parametrize("aggregation", ["mean", "sum", "max"])
def test_sage_over_edge_features_is_that_of_pyg_over_a_node_per_edge(edges, aggregation):
    index, _, attr = edges
    theirs = SAGEConv((6 + EDGE_DIM, 6), 4, aggr=aggregation)
    ours = EdgeAggregation("sage", (6, 4), EDGE_DIM, aggregation, is_message=False)
    with torch.no_grad():
        ours.lin_neighbors.weight.copy_(theirs.lin_l.weight[:, :6])
        ours.lin_edge.weight.copy_(theirs.lin_l.weight[:, 6:])
        ours.lin_neighbors.bias.copy_(theirs.lin_l.bias)
        ours.lin_root.weight.copy_(theirs.lin_r.weight)
    sources = torch.stack([torch.arange(90), index[1]])

    def of_pyg(x, attr):
        return theirs((torch.cat([x[index[0]], attr], dim=1), x), sources)

    parameters = ([ours.lin_root.weight], [theirs.lin_r.weight])
    compare(lambda x, attr: ours(x, index, attr), of_pyg, [torch.randn(20, 6), attr], parameters)


@pytest.mark.parametrize("sizes", [{}, {"num_bases": 2}, {"num_blocks": 2}])
def test_rgcn_without_values_of_edges_is_that_of_pyg(edges, sizes):
    index, _, _ = edges
    conv = RGCNConv(6, 6, 2, **sizes)
    ours = EdgeRgcn(conv, [(0, 0), (0, 0)], [0, 0])
    blocks = [Block(index[:, :50], 20, 20), Block(index[:, 50:], 20, 20)]
    types = torch.tensor([0] * 50 + [1] * 40)
    parameters = ([conv.root, conv.weight],) * 2
    compare(lambda x: ours([x], blocks)[0], lambda x: conv(x, index, types), [torch.randn(20, 6)], parameters)


def load_hgt(ours, theirs, sources, heads, width):
    """Copy the weights of PyG's layer, whose keys and values of edge type `r` are those of node type `sources[r]`."""
    num_types, d = len(theirs.edge_types), width // heads
    with torch.no_grad():
        for number, t in enumerate(["a", "b"]):
            parts = zip(*(tensor.chunk(3) for tensor in theirs.kqv_lin.lins[t].parameters()))
            for name, (weight, bias) in zip(("keys", "queries", "values"), parts):
                linears = getattr(ours, name)
                if str(number) in linears:
                    linears[str(number)].weight.copy_(weight[:, :width])
                    linears[str(number)].bias.copy_(bias)
            if str(number) in ours.outputs:
                ours.outputs[str(number)].load_state_dict(theirs.out_lin.lins[t].state_dict())
                ours.skips[str(number)].copy_(theirs.skip[t])
        for name, relations in (("key_relations", theirs.k_rel), ("value_relations", theirs.v_rel)):
            weight = relations.weight.view(heads, num_types, d, d)
            for number, parameter in enumerate(getattr(ours, name)):
                parameter.copy_(weight[:, number])
        for prior, name in zip(ours.priors, theirs.edge_types):
            prior.copy_(theirs.p_rel["__".join(name)][0])


def test_hgt_without_features_of_edges_is_that_of_pyg(edges):
    index, _, _ = edges
    heads, width = 2, 8
    edge_types = [("a", "r", "a"), ("b", "s", "a"), ("a", "t", "b")]
    theirs = HGTConv(width, width, (["a", "b"], edge_types), heads)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    ours = Hgt(width, heads, 0.0, [(0, 0), (1, 0), (0, 1)], [0, 0, 0])
    load_hgt(ours, theirs, None, heads, width)
    # Some nodes have no edges.
    of_types = [index[:, :30] % 12, index[:, 30:60] % 12, index[:, 60:] % 12]
    blocks = [Block(of_type, 20, 20) for of_type in of_types]

    def of_pyg(a, b):
        found = theirs({"a": a, "b": b}, dict(zip(edge_types, of_types)))
        return torch.cat([found["a"], found["b"]])

    def of_ours(a, b):
        found = ours([a, b], blocks)
        return torch.cat([found[0], found[1]])

    parameters = ([*ours.priors], [theirs.p_rel["__".join(name)] for name in edge_types])
    compare(of_ours, of_pyg, [torch.randn(20, width), torch.randn(20, width)], parameters)


def test_hgt_over_edge_features_is_that_of_pyg_over_a_node_per_edge(edges):
    """With a source per edge that has the features of the edge beside those of its source, PyG's layer has the keys and values
    of the formula."""
    index, _, attr = edges
    heads, width = 2, 8
    d = width // heads
    edge_types = [("b", "r", "a")]
    theirs = HGTConv({"a": width, "b": width + EDGE_DIM}, width, (["a", "b"], edge_types), heads)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    ours = Hgt(width, heads, 0.0, [(1, 0)], [EDGE_DIM])
    load_hgt(ours, theirs, None, heads, width)
    of_b = theirs.kqv_lin.lins["b"].weight.detach()
    for name, weight, relations in (
        ("edge_keys", of_b[:width], theirs.k_rel),
        ("edge_values", of_b[2 * width :], theirs.v_rel),
    ):
        of_heads = weight[:, width:].T.view(EDGE_DIM, heads, d)
        product = torch.einsum("ehi,hio->eho", of_heads, relations.weight.detach().view(heads, d, d))
        with torch.no_grad():
            getattr(ours, name)["0"].weight.copy_(product.reshape(EDGE_DIM, width).T)
    blocks = [Block(index, 20, 20, attr)]

    def of_pyg(a, b, attr):
        x = {"a": a, "b": torch.cat([b[index[0]], attr], dim=1)}
        return theirs(x, {edge_types[0]: torch.stack([torch.arange(90), index[1]])})["a"]

    def of_ours(a, b, attr):
        return ours([a, b], [Block(index, 20, 20, attr)])[0]

    assert blocks[0].edge_attr is attr
    compare(of_ours, of_pyg, [torch.randn(20, width), torch.randn(20, width), attr], ([], []))


def test_the_encoding_of_times_is_that_of_pyg():
    ours, theirs = TimeEncoder(4), PygTimeEncoder(4)
    with torch.no_grad():
        ours.log_frequencies.copy_(torch.tensor([0.0, -1.0, -3.0, -7.0]))
        ours.phases.copy_(torch.randn(4))
        theirs.lin.weight.copy_(ours.log_frequencies.exp().unsqueeze(1))
        theirs.lin.bias.copy_(ours.phases)
    ages = torch.rand(30) * 50
    compare(ours, theirs, [ages], ([ours.phases], [theirs.lin.bias]))


def test_weights_of_a_gcn_are_normalised_as_in_pyg(edges):
    index, weight, _ = edges
    loop_free = index[:, index[0] != index[1]]
    weight = weight[index[0] != index[1]]
    from torch_geometric.nn import GCNConv

    theirs = GCNConv(6, 4)
    with_loops, weights = add_remaining_self_loops(loop_free, weight, 1.0, 20)
    ours = GCNConv(6, 4, add_self_loops=False)
    ours.load_state_dict(theirs.state_dict())
    parameters = ([*ours.parameters()], [*theirs.parameters()])
    compare(
        lambda x: ours(x, with_loops, weights), lambda x: theirs(x, loop_free, weight), [torch.randn(20, 6)], parameters
    )
