"""Files of runs of GraphStorm that `edgecut.convert` converts: `train` runs with the flags that they stand for."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import PATIENCE, run

yaml = pytest.importorskip("yaml", reason="PyYAML is missing: pip install edgecut[convert]")

from edgecut import convert  # noqa: E402

# The sections of GraphStorm's examples, with their comments and null values.
RUN = """
---
version: 1.0
gsf:
  basic:
    backend: gloo
    verbose: false
    save_perf_results_path: null
  gnn:
    model_encoder_type: {model}
    fanout: "4,6"
    num_layers: 2
    hidden_size: 16
    use_mini_batch_infer: true
  input:
    restore_model_path: null
  output:
  hyperparam:
    dropout: 0.
    lr: 0.001
    lm_tune_lr: 0.0001
    num_epochs: 1
    batch_size: 32
    wd_l2norm: 0
    no_validation: false
  rgcn:
    num_bases: -1
    use_self_loop: true
    sparse_optimizer_lr: 1e-2
    use_node_embeddings: false
{task}
"""
NODE = """
  node_classification:
    target_ntype: customer
    label_field: risk
    num_classes: 2
    eval_metric: [roc_auc, f1_score]
    imbalance_class_weights: 0.4,0.6
"""
EDGE = """
  edge_classification:
    target_etype: ["customer,buys,shop"]
    reverse_edge_types_map: ["customer,buys,buys-rev,shop"]
    label_field: fraud
    num_classes: 2
    class_loss_func: focal
"""
LINK = """
  link_prediction:
    train_etype: ["customer,buys,shop"]
    eval_etype: ["customer,buys,shop"]
    reverse_edge_types_map: ["customer,buys,buys-rev,shop"]
    num_negative_edges: 4
    num_negative_edges_eval: 10
    train_negative_sampler: joint
    eval_metric: [mrr, hit_at_3]
"""
MULTI = """
  multi_task_learning:
    - node_classification: {target_ntype: customer, label_field: risk, task_weight: 0.5, mask_fields: [a, b, c]}
    - node_regression: {target_ntype: customer, label_field: age, eval_metric: mse}
    - node_classification: {target_ntype: shop, label_field: kind}
"""


def write(path, model="rgcn", task=NODE):
    path.write_text(RUN.replace("{model}", model).replace("{task}", task))
    return path


def changed(tmp_path, **keys):
    """Write the keys of a run as JSON, with its task in the key `task`."""
    task = keys.pop("task", "node_classification")
    of_task = {"multi_task_learning": []}.get(task, {})
    gnn = {"model_encoder_type": "rgcn", "fanout": "10", "num_epochs": 2, "hidden_size": 8, "lr": 0.1, "batch_size": 4}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"gsf": {"gnn": {**gnn, **keys}, task: of_task}}))
    return path


def flags_of(path, out, **arguments):
    return yaml.safe_load(convert.convert(path, out, overwrite=True, **arguments).read_text())


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """Parts of tables with labels of nodes and edges. Those for links hold out edges."""
    folder = tmp_path_factory.mktemp("shops")
    draw = np.random.default_rng(3)
    customers = [f"c{n},{draw.random():.3f},{'high' if n % 3 else 'low'},{20 + n % 50}" for n in range(120)]
    stores = [f"s{n},{draw.random():.3f},{'big' if n % 2 else 'small'}" for n in range(20)]
    buys = [f"c{draw.integers(120)},s{draw.integers(20)},{int(draw.random() < 0.3)}" for _ in range(800)]
    for name, header, rows in (("customers", "id,x,risk,age", customers), ("shops", "id,x,kind", stores), ("buys", "a,b,fraud", buys)):
        (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    label = "{task_type: %s, label_col: %s, split_pct: [0.6, 0.2, 0.2]}"
    risk, kind, fraud = (label % ("classification", name) for name in ("risk", "kind", "fraud"))
    found = {}
    for name, of_customers, of_shops, of_buys, flags in [
        ("labels", [risk], [], [fraud], ()),
        ("several", [risk, label % ("regression", "age")], [kind], [], ()),
        ("links", [], [], [], ("--hold-out-edges", "0.1,0.1")),
    ]:
        tables = [
            ("node_type: customer, files: customers.csv, node_id_col: id, features: [{feature_col: x}]", of_customers),
            ("node_type: shop, files: shops.csv, node_id_col: id, features: [{feature_col: x}]", of_shops),
            ("relation: [customer, buys, shop], files: buys.csv, source_id_col: a, dest_id_col: b", of_buys),
        ]
        lines = []
        for keys, labels in tables:
            of_labels = f", labels: [{', '.join(labels)}]" if labels else ""
            lines.append(f"  - {{{keys}{of_labels}}}\n")
        nodes, more, edges = lines
        (folder / f"{name}.yaml").write_text(f"nodes:\n{nodes}{more}edges:\n{edges}")
        found[name] = folder / name
        made = ("--dataset", "shop", "--num-partitions", 2, "--method", "random", "--output-dir", found[name], "--add-reverse-edges")
        run("partition-graph", "--conf", folder / f"{name}.yaml", *made, *flags)
    return found


@pytest.mark.parametrize(
    ("command", "graph", "model", "task", "expected"),
    [
        ("node", "labels", "rgcn", NODE, {"target": "customer", "metric": ["roc-auc", "macro-f1"], "class-weights": "0.4,0.6"}),
        ("node", "labels", "rgat", NODE, {"model": "gat", "num-neighbors": "6,4", "eval-num-neighbors": "-1,-1"}),
        ("node", "labels", "mlp", NODE, {"model": "embedding", "num-neighbors": None}),
        (
            "edge",
            "labels",
            "sage",
            EDGE,
            {
                "edge-type": "customer__buys__shop",
                "decoder": "bilinear",
                "loss": "focal:gamma=2",
                "class-weights": "0.75,0.25",
                "reverse-types": None,
            },
        ),
        ("edge", "labels", "rgcn", EDGE + "    remove_target_edge_type: false\n    exclude_training_targets: false\n", {"target-edges": "include"}),
        (
            "link",
            "links",
            "rgcn",
            LINK,
            {"decoder": "distmult", "shared-negatives": True, "num-negatives": 4, "eval-negatives": 10, "metric": ["mrr", "hits@3"]},
        ),
        ("link", "links", "hgt", LINK + "    lp_decoder_type: transe_l2\n    gamma: 4\n", {"decoder": "transe:margin=4,norm=2"}),
        (
            "multi",
            "several",
            "rgcn",
            MULTI,
            {"target": ["customer:risk*0.5", "customer:age", "shop"], "target-metric": "customer:age=rmse", "metric": None},
        ),
    ],
)
def test_runs_become_flags_that_train_accepts(shops, tmp_path, command, graph, model, task, expected):
    path = write(tmp_path / "run.yaml", model, task)
    out = tmp_path / "new" / "train.yaml"
    program = [sys.executable, "-m", "edgecut.convert", path, out]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{out}\n", "")
    assert list(out.parent.iterdir()) == [out]
    first, *lines = out.read_text().splitlines()
    assert first == f"# train {command} --config {out} --dataset-root-dir PARTS"
    flags = yaml.safe_load("\n".join(lines))
    assert {key: flags.get(key) for key in expected} == expected
    shared = {"num-epochs": 1, "batch-size": 32, "hidden-channels": 16, "lr": 0.001, "dropout": 0, "weight-decay": 0, "embedding-lr": 0.01}
    assert {key: flags[key] for key in shared} == shared
    assert any(line.startswith("#   backend: gloo (") for line in lines)
    assert json.loads(run("train", command, "--config", out, "--dataset-root-dir", shops[graph], "--json", "--quiet"))


def test_edges_of_the_target_carry_no_messages(shops, tmp_path):
    flags = flags_of(write(tmp_path / "run.yaml", "rgcn", EDGE), tmp_path / "train.yaml")
    none = "customer__buys__shop=0,0;shop__rev_buys__customer=0,0;"
    assert (flags["num-neighbors"], flags["eval-num-neighbors"]) == (f"{none}6,4", f"{none}-1,-1")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"fanout": "a/r/b:20@b/r-rev/a:10,a/r/b:5@b/r-rev/a:4"}, {"num-neighbors": "a__r__b=5,20;b__rev_r__a=4,10"}),
        ({"eval_fanout": "20"}, {"eval-num-neighbors": "20", "eval": None}),
        ({"use_mini_batch_infer": False, "eval_fanout": "20"}, {"eval": "layer-wise", "eval-num-neighbors": None}),
        ({"model_encoder_type": "hgt", "num_heads": 2, "num_bases": 3}, {"heads": 2, "num-bases": None}),
        ({"num_bases": 3, "num_heads": 2}, {"heads": None, "num-bases": 3}),
        ({"dropout": 0.5, "max_grad_norm": 1.0, "gnn_norm": "batch"}, {"dropout": 0.5, "grad-clip": 1, "batch-norm": True}),
        ({"gnn_norm": "layer", "verbose": True}, {"layer-norm": True, "verbose": True}),
        ({"use_early_stop": True}, {"patience": 3}),
        ({"use_early_stop": True, "early_stop_rounds": 7, "early_stop_burnin_rounds": 0}, {"patience": 7}),
        ({"early_stop_rounds": 7}, {"patience": None}),
        ({"save_model_path": "m/", "save_perf_results_path": "p"}, {"save-model": "m/model.safetensors", "metrics": "p/metrics.jsonl"}),
        ({"task_tracker": "tensorboard_task_tracker:logs"}, {"tensorboard": "logs"}),
        ({"node_feat_name": ["u:a,b", "u:c", "v:d"], "use_node_embeddings": True}, {"node-embeddings": ["u", "v"]}),
        ({"task": "node_regression", "eval_metric": "mse", "regression_loss_func": "mse"}, {"metric": ["rmse"], "loss": None}),
        ({"target_ntype": "u", "imbalance_class_weights": {"u": "1,2"}}, {"class-weights": "1,2"}),
        ({"task": "link_prediction"}, {"num-negatives": 16, "eval-negatives": 1000, "decoder": "distmult", "loss": "bce"}),
        ({"task": "link_prediction", "train_negative_sampler": "fast_inbatch_joint"}, {"shared-negatives": True, "in-batch-negatives": True}),
        ({"task": "link_prediction", "adversarial_temperature": 0.5}, {"loss": "self-adversarial:temperature=0.5"}),
        ({"task": "link_prediction", "lp_loss_func": "contrastive", "lp_decoder_type": "dot_product"}, {"loss": "softmax", "decoder": "dot"}),
        ({"task": "link_prediction", "lp_decoder_type": "rotate", "lp_edge_weight_for_loss": ["w"]}, {"decoder": "rotate:margin=12", "weighted-loss": True}),
        ({"task": "link_prediction", "reverse_edge_types_map": ["a,r,back,b"]}, {"reverse-types": ["a__r__b=b__back__a"]}),
        ({}, {"no-edge-features": True}),
        ({"edge_feat_name": ["a,r,b:x"]}, {"no-edge-features": None}),
        ({"task": "edge_regression", "decoder_type": "MLPDecoder"}, {"decoder": "mlp", "target-edges": None, "num-neighbors": "10"}),
    ],
)
def test_keys_have_the_meaning_that_they_have_in_graphstorm(tmp_path, keys, expected):
    flags = flags_of(changed(tmp_path, **keys), tmp_path / "train.yaml")
    assert {key: flags.get(key) for key in expected} == expected


def test_features_that_no_key_names_are_told(tmp_path):
    for keys, told in [
        ({}, ["node_feat_name: missing: GraphStorm reads no features of nodes, train all"]),
        ({"node_feat_name": ["u:a"]}, ["node_feat_name: [\"u:a\"] (train reads all features in the parts"]),
        ({"task": "edge_regression", "edge_feat_name": ["a,r,b:x"]}, ["decoder_edge_feat: missing: ", "node_feat_name: missing: "]),
    ]:
        text = convert.convert(changed(tmp_path, **keys), tmp_path / "train.yaml", overwrite=True).read_text()
        assert all(f"#   {line}" in text for line in told), text


def test_keys_without_an_equivalent_are_one_error_or_left_out(tmp_path):
    keys = {"eval_frequency": 100, "lm_train_nodes": 0, "alpha_l2norm": 0.1, "use_self_loop": False, "eval_metric": ["accuracy", "hit_at_5"]}
    keys |= {"num_ffn_layers_in_gnn": 0, "batchsize": 3, "restore_model_path": "m", "grad_norm_type": 2.0}
    path, out = changed(tmp_path, **keys), tmp_path / "train.yaml"
    with pytest.raises(ValueError) as error:
        convert.convert(path, out)
    first, *lines = str(error.value).splitlines()
    assert first == f"{path}: these keys have no equivalent (--unsupported skip leaves them out):"
    skipped = ["alpha_l2norm", "batchsize", "eval_frequency", "eval_metric", "restore_model_path", "use_self_loop"]
    assert [line.partition(":")[0].strip() for line in lines] == skipped
    assert lines[2] == "  eval_frequency: 100 (validations are at the end of epochs (eval-every))"
    assert not out.exists() and list(tmp_path.iterdir()) == [path]
    program = [sys.executable, "-m", "edgecut.convert", path, out, "--unsupported", "skip"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout == f"{out}\n"
    assert done.stderr == f"warning: {path}: these keys have no equivalent and are left out:\n" + "\n".join(lines) + "\n"
    text = out.read_text()
    assert text.partition("# Keys without an equivalent:\n")[2] == "".join(f"# {line}\n" for line in lines)
    flags = yaml.safe_load(text)
    assert flags["metric"] == ["accuracy"] and "batchsize" not in flags


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"num_epochs": 0}, "num_epochs is missing or 0, so the file is for inference: run `train predict"),
        ({"model_encoder_type": None}, "model_encoder_type is missing"),
        ({"fanout": None}, "fanout is missing"),
        ({"num_layers": 2}, "num_layers is 2, but fanout has 1 entries: 10"),
        ({"fanout": "ten"}, "fanout: 'ten' is not a number of neighbors"),
        ({"fanout": "a/r/b:20,c/r/d:20"}, "fanout: c__r__d is not in all of the 2 layers"),
        ({"task": "edge_classification", "target_etype": ["a,b"]}, "target_etype: 'a,b' has 2 names between ',', expected 3"),
        ({"task": "graph_classification"}, "a run has one of the sections node_classification, .*; the file has none"),
        ({"task": "multi_task_learning"}, "multi_task_learning has no task of nodes"),
    ],
)
def test_runs_that_cannot_be_converted_are_errors(tmp_path, keys, why):
    with pytest.raises(ValueError, match=f"run.json: {why}"):
        convert.convert(changed(tmp_path, **keys), tmp_path / "train.yaml", unsupported="skip")


def test_files_are_replaced_on_request_only(tmp_path):
    path, out = changed(tmp_path), tmp_path / "train.yaml"
    out.write_text("mine")
    with pytest.raises(ValueError, match="train.yaml exists: name another file, or replace it with --overwrite"):
        convert.convert(path, out)
    with pytest.raises(ValueError, match="is a folder: name the file to write"):
        convert.convert(path, tmp_path, overwrite=True)
    assert out.read_text() == "mine"
    assert convert.convert(path, out, overwrite=True) == out and "model: rgcn" in out.read_text()
    two = tmp_path / "two.json"
    two.write_text(json.dumps({"gsf": {"a": {"lr": 1}, "b": {"lr": 2}, "node_classification": {}}}))
    with pytest.raises(ValueError, match="two.json: lr has the values 1 and 2: leave one of them"):
        convert.convert(two, tmp_path / "x.yaml")
    with pytest.raises(ValueError, match="there is no file or folder .*missing.yaml"):
        convert.convert(tmp_path / "missing.yaml", tmp_path / "x.yaml")
