"""Learned embeddings of node types without features, in the files of a model."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ..store import Store

__all__ = ["PREFIX", "check_nodes", "read_embeddings"]

# The names of tables in a model file begin with it.
PREFIX = "embeddings."


def read_embeddings(path: str | os.PathLike[str], metadata: dict[str, str]) -> dict[str, np.ndarray]:
    """Return the table of each node type that has one in files of its own, with a row per node of the dataset.

    Raises
    ------
    FileNotFoundError
        If a file of the folder beside the model is missing.
    ValueError
        If the files do not belong to the model, or lack rows.
    """
    index = json.loads(metadata.get("embeddings", "{}"))
    shards = [shard["file"] for shard in index.get("shards", [])]
    if not shards:
        return {}
    # The folder is beside the file that a link points to.
    folder = pathlib.Path(os.path.realpath(path) + ".embeddings")
    for name in shards:
        if name != os.path.basename(name):
            raise ValueError(f"{os.fspath(path)} lists {name!r} among its embeddings, which is not the name of a file")
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder / name} is missing: copy the files of the model's embeddings to this folder")
    num_bytes = sum((folder / name).stat().st_size for name in shards)
    tables = {t["node_type"]: _table(t, num_bytes, folder) for t in index["tables"]}
    missing = {node_type: np.ones(len(table), bool) for node_type, table in tables.items()}
    for name in shards:
        shard = folder / name
        try:
            # Not as tensors: old versions of PyTorch lack the type of the ids.
            with safe_open(str(shard), "numpy") as file:
                if (file.metadata() or {}).get("save") != index["save"]:
                    raise ValueError(f"{shard} has embeddings of another model than {os.fspath(path)}")
                for node_type, table in tables.items():
                    ids = file.get_tensor(f"original_ids.{node_type}")
                    rows = file.get_tensor(f"{PREFIX}{node_type}")
                    _check_rows(ids, rows, table, f"{shard}: the embeddings of {node_type}")
                    table[ids] = rows
                    missing[node_type][ids] = False
        except SafetensorError as error:
            raise ValueError(f"{shard}: not a valid safetensors file of embeddings: {error}") from error
    for node_type, rows in missing.items():
        if rows.any():
            raise ValueError(f"{folder} lacks the embeddings of {int(rows.sum())} nodes of type {node_type}")
    return tables


def check_nodes(
    path: str | os.PathLike[str], metadata: dict[str, str], num_nodes: Mapping[str, int], store: Store | None
) -> None:
    """Check that the row numbers of a graph's nodes find their embeddings. `num_nodes` has the rows of each table.

    Raises
    ------
    ValueError
        If the nodes, or their order, are not those of the training.
    """
    trained = json.loads(metadata.get("trained_on", "{}")).get("node_types", {})
    if store is None:
        with_ids = [name for name in num_nodes if trained.get(name, {}).get("ids", "none") != "none"]
        if with_ids:
            warnings.warn(
                f"the embeddings of {', '.join(with_ids)} are found by row number: pass `store` to compare the ids of its "
                "nodes with the training",
                stacklevel=3,
            )
        return
    of_store = {t["name"]: t for t in json.loads(store._graph.meta())["node_types"]}
    for name, number in num_nodes.items():
        if name not in of_store:
            raise ValueError(f"model {os.fspath(path)} has embeddings of {name}, which is no node type of {store.name}")
        found, identity = of_store[name], trained.get(name, {})
        remedy = "predict with `train predict`, which matches embeddings by ids"
        digests = found.get("digests", {})
        # Ids that are row numbers have no digest, and parts of earlier versions have none of any ids.
        ids = {"digest": digests["ids"]} if "ids" in digests else "none"
        is_told = "ids" in digests or not found.get("has_id_map", False)
        if is_told and "ids" in identity and identity["ids"] != ids:
            raise ValueError(
                f"model {os.fspath(path)}: the ids of the nodes of type {name}, or their order, are not those of the training: {remedy}"
            )
        if found["book"][-1] != number:
            raise ValueError(
                f"model {os.fspath(path)} has {number} embeddings of {name}, but {store.name} has {found['book'][-1]} nodes: {remedy}"
            )
        if identity.get("content") != digests.get("content") and "content" in identity:
            warnings.warn(
                f"the embeddings of {name} are found by row number, but the features, labels, splits or times of the nodes "
                "are not those of the training",
                stacklevel=3,
            )


def _table(described: dict[str, Any], num_bytes: int, folder: pathlib.Path) -> np.ndarray:
    """Return an empty table. The files in `folder` with `num_bytes` together must be able to fill it."""
    shape = described["num_nodes"], described["dim"]
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError(f"the metadata describes embeddings of {shape[0]!r} nodes with {shape[1]!r} columns")
    # A row takes at least the bytes of its id.
    if 4 * shape[0] * max(shape[1], 1) > num_bytes:
        raise ValueError(
            f"the metadata describes {shape[0]} embeddings with {shape[1]} columns of nodes of type {described['node_type']}, "
            f"but the files in {folder} have {num_bytes} bytes only"
        )
    return np.empty(shape, np.float32)


def _check_rows(ids: np.ndarray, rows: np.ndarray, table: np.ndarray, what: str) -> None:
    num_nodes, dim = table.shape
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer) or rows.dtype != np.float32:
        raise ValueError(f"{what} are {rows.dtype} with ids of {ids.dtype}, expected float32 with a vector of integers")
    if rows.shape != (len(ids), dim):
        raise ValueError(f"{what} have the shape {rows.shape}, expected {(len(ids), dim)}")
    if len(ids) > 0 and not 0 <= ids.min() <= ids.max() < num_nodes:
        raise ValueError(f"{what} have an id that is not one of the {num_nodes} nodes")
