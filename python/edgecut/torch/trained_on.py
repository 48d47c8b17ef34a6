"""The data of a model's training beside the graph of a store, as ``train predict`` compares them."""

from __future__ import annotations

import functools
import json
from typing import Any

from ..store import Store

__all__ = ["check_graph", "unread_edge_types"]


def check_graph(path: str, trained_on: str | None, graph: dict[str, Any], reads: str | None, store: Store) -> None:
    """Check that the graph of a store is like the one that a model was trained on.

    Parameters
    ----------
    path : str
        The file of the model, for errors.
    trained_on : str or None
        The description of the training's data in the file.
    graph : dict
        The types of nodes and edges in the settings of the model.
    reads : {'node_types', 'edge_types'}, optional
        The types whose classes the model predicts.
    store : Store
        The graph.

    Raises
    ------
    ValueError
        With the first difference: a type of nodes or edges, the number of features, their transforms, or the classes.
    """
    meta = json.loads(store._graph.meta())
    if (difference := _other_types(graph, meta)) is not None:
        raise ValueError(f"model {path} was trained for another graph: {store.name} has {difference}")
    difference = _other_data(json.loads(trained_on or "{}"), meta, reads)
    if difference is not None:
        remedy = "make the parts with partition-graph --transforms and the parts of the training"
        raise ValueError(f"model {path}: {difference}: {remedy}")


@functools.lru_cache
def unread_edge_types(trained_on: str | None, edge_types: tuple[tuple[str, str, str], ...]) -> frozenset[tuple[str, str, str]]:
    """Return the edge types that have fan-outs of 0 in all hops in the evaluation of a training. The model has learned no
    weights of them, and `train predict` does not read them either.

    Parameters
    ----------
    trained_on : str or None
        The description of the training's data in the file of the model.
    edge_types : tuple of edge types
        The edge types of the model.
    """
    # Files of earlier versions lack the fan-outs.
    fan_outs = (json.loads(trained_on or "{}").get("sampler") or {}).get("num_neighbors") or {}
    named = dict(fan_outs.get("named") or [])
    unread = []
    for name in edge_types:
        # As in a sampler, the whole name goes before the relation.
        of_type = named.get("__".join(name), named.get(name[1], fan_outs.get("others")))
        if of_type and all(count == {"Count": 0} for count in of_type):
            unread.append(name)
    return frozenset(unread)


def _other_types(graph: dict[str, Any], meta: dict[str, Any]) -> str | None:
    """Describe the first type of a graph that is not the one of a model. Names do not matter if both have one type."""
    names = [t["name"] for t in graph["node_types"]]
    of_model = [(t["name"], t["feature_dim"]) for t in graph["node_types"]]
    of_graph = [(t["name"], t["feature_dim"]) for t in meta["node_types"]]
    # Values of edges count if the model reads some.
    reads = {name: max(t.get(name, 0) for t in graph["edge_types"]) for name in ("edge_dim", "time_dim", "weighted")}
    for t in graph["edge_types"]:
        values = t.get("edge_dim", 0), t.get("time_dim", 0), t.get("weighted", False)
        of_model.append(("__".join((names[t["src"]], t["relation"], names[t["dst"]])), *values))
    for t in meta["edge_types"]:
        values = (
            t.get("feature_dim", 0) if reads["edge_dim"] else 0,
            reads["time_dim"] if t.get("has_times", False) else 0,
            bool(reads["weighted"] and t.get("has_weights", False)),
        )
        of_graph.append(("__".join((t["src_type"], t["relation"], t["dst_type"])), *values))
    if all(len(types) == 1 for of in (graph, meta) for types in (of["node_types"], of["edge_types"])):
        of_model, of_graph = ([("", *values) for _, *values in described] for described in (of_model, of_graph))
    for at in range(max(len(of_model), len(of_graph))):
        expected, found = (_described(described[at : at + 1]) for described in (of_model, of_graph))
        if expected != found:
            return f"{found} instead of {expected}"
    return None


def _described(types: list[tuple[Any, ...]]) -> str:
    """Return the name of a type and what a model reads of it."""
    if not types:
        return "nothing"
    (name, dim, *of_edges), = types
    what = f"edges {name}" if of_edges else f"nodes {name}"
    values = [f"{dim} features"] if dim > 0 or not of_edges else []
    if of_edges:
        times, weighted = of_edges
        values += [f"times in {times} columns"] * (times > 0) + ["weights"] * weighted
    return what.rstrip() + (f" with {' and '.join(values)}" if values else "")


def _other_data(trained_on: dict[str, Any], meta: dict[str, Any], reads: str | None) -> str | None:
    """Describe the first type whose features or classes are others than in the training. What one side does not tell is
    not compared."""
    edge_types = {"__".join((t["src_type"], t["relation"], t["dst_type"])): t for t in meta["edge_types"]}
    found = {"node_types": {t["name"]: t for t in meta["node_types"]}, "edge_types": edge_types}
    # Parts of tables that earlier versions have made have no digests.
    all_digests = [t.get("digests", {}) for of_kind in found.values() for t in of_kind.values()]
    is_told = not meta.get("has_transforms", False) or any(all_digests)
    for kind, of_kind in found.items():
        for name, trained, t in _pairs(trained_on.get(kind, {}), of_kind):
            digest = t.get("digests", {}).get("transforms")
            if "transforms" in trained and digest is not None and trained["transforms"] != {"digest": digest}:
                return f"the features of {kind[:4]} type {name} have other transforms or columns than in its training"
    if reads is None:
        return None
    labels = {}
    for name, t in found["node_types"].items():
        first = {**t, "name": t.get("label_name", ""), "classes": t.get("digests", {}).get("classes")}
        for label in (first, *t.get("more_labels", [])):
            labels[f"{name}:{label['name']}" if label["name"] else name] = label.get("classes")
    for name, trained, t in _pairs(trained_on.get(reads, {}), found[reads]):
        if reads == "node_types":
            # Of several labels, the file names the one that the model predicts.
            of_type = {label: digest for label, digest in labels.items() if label.partition(":")[0] == name}
            chosen = [digest for label, digest in of_type.items() if label in trained_on.get("labels", [])]
            digests, has_classes = chosen or list(of_type.values()), t["has_labels"]
        else:
            digests, has_classes = [t.get("digests", {}).get("classes")], "labels" in t
        known = [{"digest": digest} if digest else "none" for digest in digests if digest or (is_told and has_classes)]
        if known and "classes" in trained and trained["classes"] not in known:
            return f"the classes of {name} are not those of its training"
    for name, digest in trained_on.get("classes_of_labels", {}).items():
        # The only label of a type may have no name here.
        here = labels.get(name) or labels.get(name.partition(":")[0])
        if here is not None and here != digest:
            return f"the classes of the target {name} are not those of its training"
    return None


def _pairs(trained: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the types of the training with a graph's types, by name. The only types of two graphs belong together."""
    if len(trained) == len(found) == 1:
        (name, t), (of_training,) = *found.items(), trained.values()
        return [(name, of_training, t)]
    return [(name, trained[name], t) for name, t in found.items() if name in trained]
