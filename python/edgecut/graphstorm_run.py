"""Conversion of the files by which GraphStorm runs a training into files for ``train --config``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Run", "is_run", "to_flags"]

# The commands of the sections that describe a task.
_COMMANDS = {
    "node_classification": "node",
    "node_regression": "node",
    "edge_classification": "edge",
    "edge_regression": "edge",
    "link_prediction": "link",
    "multi_task_learning": "multi",
}

# Keys with the values of a flag.
_SAME = {
    "batch_size": "batch-size",
    "dropout": "dropout",
    "hidden_size": "hidden-channels",
    "lr": "lr",
    "max_grad_norm": "grad-clip",
    "num_epochs": "num-epochs",
    "sparse_optimizer_lr": "embedding-lr",
    "wd_l2norm": "weight-decay",
}

# Keys that a training with Edgecut does not need, and why.
_NEEDLESS = {
    "backend": "each process talks to the others over TCP",
    "cache_lm_embed": "no language model is trained",
    "early_stop_strategy": "patience ends the training after validations without a better metric",
    "edge_feat_name": "train reads all features in the parts; the configuration of the tables chooses them",
    "edge_id_mapping_file": "the parts have the ids",
    "eval_batch_size": "it changes no result",
    "eval_negative_sampler": "negatives of the evaluation are drawn uniformly, unless the dataset gives them",
    "freeze_lm_encoder_epochs": "no language model is trained",
    "graph_name": "dataset-root-dir names the parts",
    "infer_all_target_nodes": "train predict writes the predictions",
    "ip_config": "launch --ip-config starts a job on several machines",
    "lm_infer_batch_size": "no language model is trained",
    "lm_train_nodes": "no language model is trained",
    "lm_tune_lr": "no language model is trained",
    "local_rank": "the launcher sets it",
    "log_report_frequency": "log-every sets the seconds between reports",
    "mask_fields": "the parts have the splits",
    "max_seq_len": "no language model is trained",
    "multilabel": "the parts tell it",
    "node_feat_name": "train reads all features in the parts; the configuration of the tables chooses them",
    "node_id_mapping_file": "the parts have the ids",
    "num_classes": "the parts tell it",
    "part_config": "dataset-root-dir names the parts",
    "return_proba": "train predict --output chooses classes or probabilities",
    "save_embed_format": "train predict writes the embeddings",
    "topk_model_to_save": "save-model keeps the best model",
    "use_graphbolt": "sampling has one engine",
    "use_wholegraph_embed": "embeddings have one engine",
}

# Keys without an equivalent: the values by which GraphStorm does what Edgecut does, and a remedy.
_WITHOUT_EQUIVALENT: dict[str, tuple[tuple[Any, ...], str]] = {
    "alpha_l2norm": ((0,), "weight-decay is an L2 penalty"),
    "construct_feat_encoder": ((), "nodes without features have embeddings"),
    "construct_feat_fanout": ((), "nodes without features have embeddings"),
    "construct_feat_ntype": ((), "nodes without features have embeddings"),
    "decoder_bias": ((True,), ""),
    "decoder_edge_feat": ((), "the decoder of train edge reads all features of the edges"),
    "decoder_norm": (("none",), ""),
    "early_stop_burnin_rounds": ((0,), ""),
    "edge_feat_mp_op": ((), "the model decides how edge features enter a message"),
    "eval_etypes_negative_dstnode": ((), "the dataset can give negatives for the evaluation"),
    "eval_frequency": ((), "validations are at the end of epochs (eval-every)"),
    "eval_target_ntype": ((), "the metrics are those of the node type that is trained"),
    "fixed_test_size": ((), "hold out fewer edges when the graph is partitioned"),
    "grad_norm_type": ((2,), ""),
    "input_activate": (("none",), ""),
    "lm_model": ((), "compute the features of texts before, by python -m edgecut.language_models"),
    "lp_embed_normalizer": ((), ""),
    "max_distill_step": ((), ""),
    "model_select_etype": ((), "the metrics cover all edge types that are trained"),
    "multilabel_weights": ((), ""),
    "no_validation": ((False,), "train validates if there are validation data"),
    "num_decoder_basis": ((), "the decoder bilinear has a matrix per output"),
    "num_ffn_layers_in_decoder": ((0,), ""),
    "num_ffn_layers_in_gnn": ((0,), ""),
    "num_ffn_layers_in_input": ((0,), ""),
    "num_train_hard_negatives": ((), "hard-negatives takes the highest scores among drawn negatives"),
    "out_emb_size": ((), "all layers have hidden-channels"),
    "profile_path": ((), "verbose prints the times of the phases"),
    "report_eval_per_type": ((False,), ""),
    "restore_model_layers": ((), "freeze and init-from name tensors of a model of Edgecut"),
    "restore_model_path": ((), "init-from reads models of Edgecut, not of GraphStorm"),
    "restore_optimizer_path": ((), "resume continues a training of Edgecut from its checkpoint"),
    "save_embed_path": ((), "train predict --output embedding --out FOLDER writes them after the training"),
    "save_model_frequency": ((-1,), "save-model writes the best model of all epochs"),
    "save_prediction_path": ((), "train predict --out FOLDER writes them after the training"),
    "textual_data_path": ((), ""),
    "train_etypes_negative_dstnode": ((), "train-negatives names an edge type with known negatives"),
    "training_method": ((), ""),
    "use_pseudolabel": ((False,), ""),
    "use_self_loop": ((True,), "the layers read the node itself"),
}

_ENCODERS = {
    **{name: name for name in ("gat", "gatv2", "hgt", "rgcn", "sage")},
    "rgat": "gat",
    **dict.fromkeys(("learnable_embed", "mlp"), "embedding"),
}
_DECODERS = {"dot_product": "dot", "distmult": "distmult", "rotate": "rotate", "transe_l1": "transe", "transe_l2": "transe"}
_METRICS = {
    "accuracy": "accuracy",
    "f1_score": "macro-f1",
    "mae": "mae",
    "mrr": "mrr",
    # A model with the least mean squared error has the least root of it.
    "mse": "rmse",
    "precision_recall": "average-precision",
    "rmse": "rmse",
    "roc_auc": "roc-auc",
}


def is_run(conf: dict[str, Any]) -> bool:
    """Return whether a configuration describes a run, and not a graph."""
    return "gsf" in conf


@dataclass
class Run:
    """A training with Edgecut.

    Attributes
    ----------
    command : str
        The command of ``train``.
    flags : dict of str to value
        The flags.
    needless, skipped : dict of str to str
        The keys that have no flag, and why they need none or have none.
    """

    command: str
    flags: dict[str, Any] = field(default_factory=dict)
    needless: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the file ``name``, with the command that reads it."""
        lines = [f"# train {self.command} --config {name} --dataset-root-dir PARTS"]
        lines += [f"{flag}: {_yaml(value)}" for flag, value in self.flags.items()]
        for title, keys in (("Keys that train does not need:", self.needless), ("Keys without an equivalent:", self.skipped)):
            if keys:
                lines += ["", f"# {title}", *(f"#   {key}: {why}".rstrip(": ") for key, why in sorted(keys.items()))]
        return "\n".join(lines) + "\n"


def to_flags(conf: dict[str, Any]) -> Run:
    """Convert a configuration of a run.

    Raises
    ------
    ValueError
        If it does not describe a training of nodes, edges or links.
    """
    return _Conversion(conf).convert()


class _Conversion:
    """The keys of a configuration that are not converted yet, and the run so far."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self._keys: dict[str, Any] = {}
        tasks = []
        for section, keys in _sections(conf):
            if section in _COMMANDS:
                tasks.append((section, keys))
            if section == "multi_task_learning":
                continue
            for key, value in keys.items():
                if value is None or value == []:
                    continue
                if self._keys.setdefault(key, value) != value:
                    raise ValueError(f"{key} has the values {self._keys[key]!r} and {value!r}: leave one of them")
        if len(tasks) != 1:
            given = " and ".join(section for section, _ in tasks) or "none"
            raise ValueError(f"a run has one of the sections {', '.join(_COMMANDS)}; the file has {given}")
        ((self._task, self._of_task),) = tasks
        self.run = Run(_COMMANDS[self._task])
        # Whether the edges of the target carry no messages.
        self._without_messages: list[str] = []

    def convert(self) -> Run:
        if self._take("num_epochs", 0) == 0:
            raise ValueError(
                "num_epochs is missing or 0, so the file is for inference: run `train predict --dataset-root-dir PARTS --load-model "
                "FILE --out FOLDER`, where the model file tells the rest"
            )
        self._model()
        {"multi": self._targets, "node": self._node_target, "edge": self._edges, "link": self._links}[self.run.command]()
        if self.run.command in ("node", "edge"):
            self._loss_of_labels()
        if self.run.command != "multi":
            self._metric()
        self._features()
        self._fan_outs()
        self._early_stop()
        self._outputs()
        for key, value in self._keys.items():
            self._rest(key, value)
        return self.run

    def _take(self, key: str, default: Any = None) -> Any:
        """Take the value of a key."""
        value = self._keys.pop(key, default)
        if key in _SAME and value is not None:
            self.run.flags[_SAME[key]] = value
        return value

    def _skip(self, key: str, value: Any, remedy: str = "") -> None:
        self.run.skipped[key] = f"{_shown(value)}" + (f" ({remedy})" if remedy else "")

    def _rest(self, key: str, value: Any) -> None:
        """Sort a key that needs no rule of its own."""
        if key in _NEEDLESS:
            self.run.needless[key] = f"{_shown(value)} ({_NEEDLESS[key]})"
        elif key in _WITHOUT_EQUIVALENT:
            neutral, remedy = _WITHOUT_EQUIVALENT[key]
            if value not in neutral:
                self._skip(key, value, remedy)
        else:
            self._skip(key, value, "not a key of this task")

    def _model(self) -> None:
        for key in _SAME:
            self._take(key, 0 if key == "dropout" else None)
        encoder = self._take("model_encoder_type")
        model = _ENCODERS.get(encoder)
        if encoder is None:
            raise ValueError("model_encoder_type is missing: GraphStorm needs it, too")
        if model is None:
            self._skip("model_encoder_type", encoder, f"choose one of {', '.join(_ENCODERS)}")
        else:
            self.run.flags["model"] = model
        for key, flag, models in (("num_bases", "num-bases", ["rgcn"]), ("num_heads", "heads", ["gat", "gatv2", "hgt"])):
            value = self._take(key, -1)
            if value != -1 and model in models:
                self.run.flags[flag] = value
            elif value != -1:
                self.run.needless[key] = f"{_shown(value)} ({model} has none)"
        norm = self._take("gnn_norm", "none")
        if norm in ("batch", "layer"):
            self.run.flags[f"{norm}-norm"] = True
        elif norm != "none":
            self._skip("gnn_norm", norm, "choose batch or layer")
        if self._take("use_node_embeddings", False):
            # The types with features are those that `node_feat_name` names.
            named = [name for name in _items(self._keys.get("node_feat_name")) if ":" in name]
            types = list(dict.fromkeys(name.partition(":")[0] for name in named))
            if types:
                self.run.flags["node-embeddings"] = types
            else:
                self._skip("use_node_embeddings", True, "name the types: node-embeddings: TYPE")

    def _node_target(self) -> None:
        node_type, label = self._take("target_ntype"), self._take("label_field")
        types = _items(node_type)
        if len(types) > 1:
            self._skip("target_ntype", node_type, f"train multi --target {','.join(types)} learns the labels of several types")
        elif types:
            self.run.flags["target"] = types[0]
        if label is not None:
            written = f"{types[0]}:{label}" if len(types) == 1 else label
            self.run.needless["label_field"] = f"{_shown(label)} (of a type with several labels, write target: {written})"

    def _edges(self) -> None:
        target = _edge_types("target_etype", self._take("target_etype"))
        reverses = self._reverse_types()
        if len(target) > 1:
            self._skip("target_etype", target, "train edge learns the labels of one edge type")
        elif target:
            self.run.flags["edge-type"] = target[0]
        if (label := self._take("label_field")) is not None:
            self.run.needless["label_field"] = f"{_shown(label)} (an edge type has one label)"
        removes = self._take("remove_target_edge_type")
        if removes is not False and target:
            self._without_messages = [*target, *(other for one, other in reverses if one in target)]
        elif removes:
            self._skip("remove_target_edge_type", True, "it needs target_etype")
        if not self._take("exclude_training_targets", True) and not self._without_messages:
            self.run.flags["target-edges"] = "include"
        decoder = self._take("decoder_type", "DenseBiDecoder")
        if decoder in ("DenseBiDecoder", "MLPDecoder"):
            self.run.flags["decoder"] = {"DenseBiDecoder": "bilinear", "MLPDecoder": "mlp"}[decoder]
        else:
            self._skip("decoder_type", decoder, "choose DenseBiDecoder or MLPDecoder")

    def _links(self) -> None:
        trained, evaluated = (sorted(_edge_types(key, self._take(key))) for key in ("train_etype", "eval_etype"))
        if trained:
            self.run.flags["edge-types"] = trained
        if evaluated and evaluated != trained:
            self._skip("eval_etype", evaluated, "the edge types of edge-types are trained and evaluated")
        self._reverse_types()
        if not self._take("exclude_training_targets", True):
            self._skip("exclude_training_targets", False, "no message flows over the edges of a batch and their reverses")
        self.run.flags["num-negatives"] = self._take("num_negative_edges", 16)
        self.run.flags["eval-negatives"] = self._take("num_negative_edges_eval", 1000)
        given = self._take("train_negative_sampler", "uniform")
        sampler = str(given).removeprefix("fast_")
        if sampler in ("joint", "inbatch_joint"):
            self.run.flags["shared-negatives"] = True
        if sampler == "inbatch_joint":
            self.run.flags["in-batch-negatives"] = True
        elif sampler not in ("uniform", "joint"):
            self._skip("train_negative_sampler", given, "choose uniform, joint or inbatch_joint")
        if self._take("lp_edge_weight_for_loss") is not None:
            self.run.flags["weighted-loss"] = True
        self._link_decoder()
        self._link_loss()

    def _link_decoder(self) -> None:
        given, gamma = self._take("lp_decoder_type", "distmult"), self._take("gamma")
        decoder = _DECODERS.get(given)
        if decoder is None:
            self._skip("lp_decoder_type", given, f"choose one of {', '.join(_DECODERS)}")
            return
        settings = []
        if decoder in ("rotate", "transe"):
            settings.append(f"margin={12 if gamma is None else gamma}")
        elif gamma is not None:
            self.run.needless["gamma"] = f"{_shown(gamma)} ({given} has no margin)"
        if decoder == "transe":
            settings.append(f"norm={given[-1]}")
        self.run.flags["decoder"] = ":".join([decoder, *([",".join(settings)] if settings else [])])

    def _link_loss(self) -> None:
        loss, temperature = self._take("lp_loss_func", "cross_entropy"), self._take("contrastive_loss_temperature", 1)
        adversarial = self._take("adversarial_temperature")
        if loss == "cross_entropy":
            self.run.flags["loss"] = "bce" if adversarial is None else f"self-adversarial:temperature={adversarial}"
        elif loss == "bpr":
            self.run.flags["loss"] = "bpr"
        elif loss == "contrastive":
            self.run.flags["loss"] = "softmax"
            if temperature != 1:
                self._skip("contrastive_loss_temperature", temperature, "the loss softmax has the temperature 1")
        else:
            self._skip("lp_loss_func", loss, "choose cross_entropy, contrastive or bpr")

    def _reverse_types(self) -> list[tuple[str, str]]:
        """Convert pairs of an edge type and its reverse, and return them."""
        pairs, listed = [], []
        for line in _items(self._take("reverse_edge_types_map")):
            head, relation, reverse, tail = _names(line, 4, "reverse_edge_types_map")
            one, other = _edge_type([head, relation, tail]), _edge_type([tail, reverse, head])
            pairs.append((one, other))
            if reverse == f"{relation}-rev":
                self.run.needless["reverse_edge_types_map"] = "the reverses are paired by their names"
            else:
                listed.append(f"{one}={other}")
        if listed:
            self.run.flags["reverse-types"] = listed
        return pairs

    def _targets(self) -> None:
        """Convert the tasks of a multi-task learning."""
        tasks = [(position, section, keys) for position, task in enumerate(self._of_task) for section, keys in task.items()]
        counts: dict[str, int] = {}
        for _, section, keys in tasks:
            counts[str(keys.get("target_ntype"))] = counts.get(str(keys.get("target_ntype")), 0) + section.startswith("node_")
        targets, losses, metrics = [], [], []
        for position, section, keys in tasks:
            at = f"multi_task_learning[{position}].{section}"
            if _COMMANDS.get(section) != "node":
                self._skip(at, "…", "train multi learns labels of nodes")
                continue
            # A task is a run of its own, but for the keys that all tasks share.
            of_task = _Conversion({"gsf": {"gnn": {"model_encoder_type": "sage", "num_epochs": 1, "fanout": "1"}, section: keys}})
            node_type, label = keys.get("target_ntype"), keys.get("label_field")
            weight = of_task._take("task_weight", 1)
            task = of_task.convert()
            name = f"{node_type}:{label}" if counts[str(node_type)] > 1 else node_type
            if not isinstance(name, str):
                raise ValueError(f"{at}.target_ntype is {node_type!r}, but must be a node type")
            targets.append(name if weight == 1 else f"{name}*{weight}")
            if (loss := task.flags.get("loss")) is not None:
                losses.append(f"{name}={loss}")
            if (metric := task.flags.get("metric")) is not None:
                metrics.append(f"{name}={','.join(metric)}")
            size = task.flags.get("batch-size")
            if size is not None and self.run.flags.setdefault("batch-size", size) != size:
                task.skipped["batch_size"] = f"{size} (all targets have the batch-size {self.run.flags['batch-size']})"
            if (weights := task.flags.get("class-weights")) is not None:
                key = "imbalance_class_weights" if "imbalance_class_weights" in keys else "class_loss_func"
                task.skipped[key] = f"the weights {weights} (write them as class_weights of target-loss)"
            self.run.needless |= {f"{at}.{key}": why for key, why in task.needless.items() if key in keys and key != "label_field"}
            self.run.skipped |= {f"{at}.{key}": why for key, why in task.skipped.items()}
        if not targets:
            raise ValueError("multi_task_learning has no task of nodes: train multi learns labels of nodes")
        self.run.flags["target"] = targets
        if losses:
            self.run.flags["target-loss"] = ";".join(losses)
        if metrics:
            self.run.flags["target-metric"] = ";".join(metrics)

    def _loss_of_labels(self) -> None:
        is_classes = self._task.endswith("classification")
        loss = self._take("class_loss_func", "cross_entropy") if is_classes else self._take("regression_loss_func", "mse")
        weights = self._take("imbalance_class_weights")
        if isinstance(weights, dict):
            weights = weights.get(self.run.flags.get("target"), weights)
        if isinstance(weights, dict):
            self._skip("imbalance_class_weights", weights, "class-weights are of the node type that is trained")
        elif weights is not None:
            self.run.flags["class-weights"] = str(weights)
        if loss == "focal":
            gamma, alpha = self._take("gamma", 2), self._take("alpha", 0.25)
            self.run.flags["loss"] = f"focal:gamma={gamma}"
            if alpha >= 0:
                self.run.flags["class-weights"] = f"{round(1 - alpha, 12)},{alpha}"
        elif loss not in ("cross_entropy", "mse"):
            key = "class_loss_func" if is_classes else "regression_loss_func"
            self._skip(key, loss, "choose cross_entropy or focal" if is_classes else "choose mse")

    def _metric(self) -> None:
        metrics = []
        for given in _items(self._take("eval_metric")):
            if given in _METRICS:
                metrics.append(_METRICS[given])
            elif self.run.command == "link" and re.fullmatch(r"hit_at_\d+", given):
                metrics.append(f"hits@{given.removeprefix('hit_at_')}")
            else:
                known = [name for name in _METRICS if (name == "mrr") == (self.run.command == "link")]
                self._skip("eval_metric", given, f"choose {', '.join(known)}{' or hit_at_K' if 'mrr' in known else ''}")
        if metrics:
            self.run.flags["metric"] = list(dict.fromkeys(metrics))

    def _features(self) -> None:
        """Leave out features that no key names, as GraphStorm does."""
        reads = [key for key in ("edge_feat_name", "decoder_edge_feat") if key in self._keys]
        if not reads:
            self.run.flags["no-edge-features"] = True
        elif self.run.command == "edge" and reads == ["edge_feat_name"]:
            self.run.needless["decoder_edge_feat"] = "missing: GraphStorm's decoder reads no features, train's those of the messages"
        if "node_feat_name" not in self._keys:
            self.run.needless["node_feat_name"] = (
                "missing: GraphStorm reads no features of nodes, train all in the parts; the configuration of the tables chooses them"
            )

    def _fan_outs(self) -> None:
        fan_outs, num_layers = self._take("fanout"), self._take("num_layers")
        evaluated, is_sampled = self._take("eval_fanout"), self._take("use_mini_batch_infer", True)
        if self.run.flags.get("model") == "embedding" or num_layers == 0:
            self.run.flags["model"] = "embedding"
            for key, value in (("fanout", fan_outs), ("eval_fanout", evaluated)):
                if value is not None:
                    self.run.needless[key] = f"{_shown(value)} (the model has no layers)"
            return
        if fan_outs is None and "model" not in self.run.flags:
            return
        if fan_outs is None:
            raise ValueError("fanout is missing: GraphStorm needs it, too")
        found = _fan_outs("fanout", fan_outs, self._without_messages)
        self.run.flags["num-neighbors"] = found.text
        if num_layers is not None and num_layers != found.num_layers:
            raise ValueError(f"num_layers is {num_layers}, but fanout has {found.num_layers} entries: {fan_outs}")
        if not is_sampled and self.run.command in ("node", "link"):
            self.run.flags["eval"] = "layer-wise"
            if evaluated is not None:
                self.run.needless["eval_fanout"] = f"{_shown(evaluated)} (the evaluation reads all neighbors)"
            return
        if not is_sampled or evaluated is None:
            evaluated = ",".join(["-1"] * found.num_layers)
        self.run.flags["eval-num-neighbors"] = _fan_outs("eval_fanout", evaluated, self._without_messages).text

    def _early_stop(self) -> None:
        rounds = self._take("early_stop_rounds", 3)
        if self._take("use_early_stop", False):
            self.run.flags["patience"] = rounds
        elif rounds != 3:
            self.run.needless["early_stop_rounds"] = f"{rounds} (use_early_stop is not true)"

    def _outputs(self) -> None:
        """Convert what a run writes. The folders of GraphStorm get files."""
        for key, flag, name in (("save_model_path", "save-model", "model.safetensors"), ("save_perf_results_path", "metrics", "metrics.jsonl")):
            if (folder := self._take(key)) is not None:
                self.run.flags[flag] = f"{str(folder).rstrip('/')}/{name}"
        # An older name, which GraphStorm ignores.
        if "save_embeds_path" in self._keys:
            self._skip("save_embeds_path", self._keys.pop("save_embeds_path"), _WITHOUT_EQUIVALENT["save_embed_path"][1])
        tracker, _, folder = str(self._take("task_tracker", "sagemaker_task_tracker")).partition(":")
        if tracker == "tensorboard_task_tracker":
            self.run.flags["tensorboard"] = folder or "./runs/"
        elif tracker != "sagemaker_task_tracker":
            self._skip("task_tracker", tracker, "tensorboard names a folder")
        if self._take("verbose", False):
            self.run.flags["verbose"] = True


@dataclass
class _FanOuts:
    """Fan-outs of Edgecut, which start with the seeds."""

    text: str
    num_layers: int


def _fan_outs(key: str, given: Any, without: list[str]) -> _FanOuts:
    """Convert fan-outs of GraphStorm, which end with the seeds. The edge types `without` get no neighbors."""
    layers = [str(layer).strip() for layer in (given if isinstance(given, list) else str(given).split(","))][::-1]
    of_types: dict[str, list[str]] = {}
    for layer in layers:
        for entry in layer.split("@"):
            edge_type, _, number = entry.rpartition(":")
            name = _edge_type(_names(edge_type, 3, key, "/")) if edge_type else ""
            if not re.fullmatch(r"-1|\d+", number.strip()):
                raise ValueError(f"{key}: {entry!r} is not a number of neighbors: write 10,5, or SRC/REL/DST:10@SRC/REL/DST:5,…")
            of_types.setdefault(name, []).append(number.strip())
    wrong = [name for name, numbers in of_types.items() if len(numbers) != len(layers)]
    if wrong:
        raise ValueError(f"{key}: {wrong[0] or 'a number without an edge type'} is not in all of the {len(layers)} layers")
    of_types |= {name: ["0"] * len(layers) for name in without}
    # Edge types before the list for all others.
    lists = [f"{name}={','.join(numbers)}" for name, numbers in of_types.items() if name]
    lists += [",".join(of_types[""])] if "" in of_types else []
    return _FanOuts(";".join(lists), len(layers))


def _sections(conf: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names of the sections and their keys."""
    yield "", {key: value for key, value in conf.items() if key not in ("gsf", "version")}
    gsf = conf["gsf"]
    if not isinstance(gsf, dict):
        raise ValueError("gsf is not a mapping of sections")
    for name, keys in gsf.items():
        is_list = name == "multi_task_learning"
        if keys is not None and not isinstance(keys, list if is_list else dict):
            raise ValueError(f"gsf.{name} is not a {'list of tasks' if is_list else 'mapping of keys to values'}")
        yield name, keys or ([] if is_list else {})


def _items(value: Any) -> list[str]:
    """Return a list of texts, which may be given as one."""
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _names(text: str, number: int, key: str, separator: str = ",") -> list[str]:
    names = [name.strip() for name in text.split(separator)]
    if len(names) != number:
        raise ValueError(f"{key}: {text!r} has {len(names)} names between {separator!r}, expected {number}")
    return names


def _edge_type(names: list[str]) -> str:
    """Return the name of an edge type. The reverses that GraphStorm adds to a graph are named `X-rev`, and those of Edgecut `rev_X`."""
    src, relation, dst = names
    forward = relation.removesuffix("-rev")
    return f"{src}__{relation if relation == forward else f'rev_{forward}'}__{dst}"


def _edge_types(key: str, value: Any) -> list[str]:
    return [_edge_type(_names(text, 3, key)) for text in _items(value)]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    is_word = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value)
    if is_word and value.lower() not in ("true", "false", "null"):
        return value
    return json.dumps(value, ensure_ascii=False)
