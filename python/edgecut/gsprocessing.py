"""Configurations of GraphStorm's GSProcessing in the form of ``gconstruct-v0.1``, which ``partition-graph`` reads."""

from __future__ import annotations

from typing import Any

__all__ = ["to_gconstruct"]

# The transforms without a normalizer or an action.
_TRANSFORMS = {
    "categorical": "to_categorical",
    "multi-categorical": "to_categorical",
    "bucket-numerical": "bucket_numerical",
    "bucket_numerical": "bucket_numerical",
    "edge_dst_hard_negative": "edge_dst_hard_negative",
    "no-op": "no-op",
}
_NORMALIZERS = {"none": "no-op", "min-max": "max_min_norm", "standard": "standard", "rank-gauss": "rank_gauss"}
_ACTIONS = {"tokenize_hf": "tokenize_hf", "embedding_hf": "bert_hf"}
_SPLITS = ("train", "val", "test")


def to_gconstruct(conf: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with the keys of ``gconstruct-v0.1``.

    Parameters
    ----------
    conf : dict
        A configuration of GSProcessing, which has the key ``graph``.

    Raises
    ------
    ValueError
        If it has a key or a value without an equivalent. The message has its path.
    """
    root = _Keys("", conf)
    root.get("version")
    graph = root.keys("graph")
    root.done()
    out: dict[str, Any] = {
        "version": "gconstruct-v0.1",
        "nodes": [_nodes(table) for table in graph.all("nodes")],
        "edges": [_edges(table) for table in graph.all("edges")],
    }
    graph.done()
    return out


class _Keys:
    """The keys of an object that have not been read."""

    def __init__(self, path: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{path}: expected an object, found {value!r}")
        self.path, self.left = path, dict(value)

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, default: Any = None) -> Any:
        return self.left.pop(key, default)

    def needed(self, key: str) -> Any:
        if key not in self.left:
            raise ValueError(f"{self.at(key)}: it is missing")
        return self.left.pop(key)

    def keys(self, key: str) -> _Keys:
        return _Keys(self.at(key), self.needed(key))

    def all(self, key: str) -> list[_Keys]:
        values = self.get(key) or []
        return [_Keys(f"{self.at(key)}[{number}]", value) for number, value in enumerate(values)]

    def choice(self, key: str, default: str | None, names: dict[str, str]) -> str:
        value = self.get(key, default)
        if value not in names:
            raise ValueError(f"{self.at(key)}: {value!r} is not one of {', '.join(names)}")
        return names[value]

    def done(self) -> None:
        if self.left:
            raise ValueError(f"{self.at(next(iter(self.left)))}: the key has no equivalent in gconstruct-v0.1: remove it")


def _nodes(table: _Keys) -> dict[str, Any]:
    out = {"node_type": table.needed("type"), "node_id_col": table.needed("column")}
    return _rest(table, out)


def _edges(table: _Keys) -> dict[str, Any]:
    source, relation, dest = (table.keys(key) for key in ("source", "relation", "dest"))
    out = {
        "relation": [source.needed("type"), relation.needed("type"), dest.needed("type")],
        "source_id_col": source.needed("column"),
        "dest_id_col": dest.needed("column"),
    }
    for keys in (source, relation, dest):
        keys.done()
    return _rest(table, out)


def _rest(table: _Keys, out: dict[str, Any]) -> dict[str, Any]:
    """Add what tables of nodes and of edges have."""
    data = table.keys("data")
    form, separator = {"name": data.needed("format")}, data.get("separator")
    # Only CSV has a separator, but tables of Parquet name one too.
    if separator is not None and form["name"] == "csv":
        form["separator"] = separator
    out |= {"files": data.needed("files"), "format": form}
    data.done()
    features = [_feature(feature) for feature in table.all("features")]
    labels = [_label(label) for label in table.all("labels")]
    table.done()
    return out | ({"features": features} if features else {}) | ({"labels": labels} if labels else {})


def _feature(feature: _Keys) -> dict[str, Any]:
    out = {"feature_col": feature.needed("column")}
    if (name := feature.get("name")) is not None:
        out["feature_name"] = name
    transformation = _Keys(feature.at("transformation"), feature.get("transformation") or {"name": "no-op"})
    feature.done()
    name = transformation.needed("name")
    given = _Keys(transformation.at("kwargs"), transformation.get("kwargs") or {})
    transformation.done()
    takes_numbers = name in ("numerical", "multi-numerical", "bucket-numerical", "bucket_numerical")
    if takes_numbers and (imputer := given.get("imputer", "none")) != "none":
        out["impute"] = imputer
    if (dtype := given.get("out_dtype", "float32")) != "float32":
        out["out_dtype"] = dtype
    if name in ("numerical", "multi-numerical"):
        transform = {"name": given.choice("normalizer", "none", _NORMALIZERS)}
        # A key of the feature, as all transforms of numbers take vectors in texts.
        if (separator := given.get("separator")) is not None:
            out["separator"] = separator
        kept = ["epsilon"]
    elif name == "huggingface":
        transform = {"name": given.choice("action", None, _ACTIONS), "bert_model": given.needed("hf_model")}
        kept = ["max_seq_length"]
    elif name in _TRANSFORMS:
        transform = {"name": _TRANSFORMS[name]}
        kept = ["separator", "truncate_dim", "bucket_cnt", "range", "slide_window_size"]
    else:
        raise ValueError(f"{transformation.at('name')}: the transform {name!r} is not known")
    transform |= {key: given.get(key) for key in kept if key in given.left}
    given.done()
    return out | ({"transform": transform} if transform != {"name": "no-op"} else {})


def _label(label: _Keys) -> dict[str, Any]:
    out = {"task_type": label.needed("type")}
    if column := label.get("column"):
        out["label_col"] = column
    if (rate := label.get("split_rate")) is not None:
        shares = _Keys(label.at("split_rate"), rate)
        out["split_pct"] = [shares.get(split, 0) for split in _SPLITS]
        shares.done()
    if (files := label.get("custom_split_filenames")) is not None:
        raise ValueError(f"{label.at('custom_split_filenames')}: {files} are tables: write lists of ids in JSON, or use `split_rate`")
    for key in ("separator", "mask_field_names"):
        if (value := label.get(key)) is not None:
            out[key] = value
    label.done()
    return out
