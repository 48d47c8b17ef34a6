"""The ids that nodes have in the tables of a graph."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from ._edgecut import EdgecutError
from .arguments import integers
from .table_files import load_module

__all__ = ["TableIds"]


class TableIds:
    """The ids of a node type, in the order of the numbers of its nodes. ``id_map.parquet`` of all parts has them."""

    def __init__(self, folder: pathlib.Path, node_type: str, num_nodes: int) -> None:
        self._node_type = node_type
        self._pyarrow = load_module("pyarrow", "ids of tables")
        self._compute = load_module("pyarrow.compute", "ids of tables")
        self._column = self._read(folder, num_nodes)
        self._array: np.ndarray | None = None

    def _read(self, folder: pathlib.Path, num_nodes: int) -> Any:
        parquet = load_module("pyarrow.parquet", "ids of tables")
        # A store may have joined parts, so the number of folders is in the file.
        num_parts = json.loads((folder / "META.json").read_text())["num_parts"]
        tables = []
        for part in range(num_parts):
            path = folder / f"part_{part}" / "nodes" / self._node_type / "id_map.parquet"
            if not path.exists():
                raise EdgecutError(f"{path} is missing: read the ids of {self._node_type} on a machine that has the folders of all parts")
            try:
                tables.append(parquet.read_table(path, columns=["id", "original_id"]))
            except (self._pyarrow.ArrowException, OSError) as error:
                raise EdgecutError(f"{path} cannot be read: copy or partition it again ({error})") from error
        table = self._pyarrow.concat_tables(tables)
        numbers = table["original_id"].to_numpy()
        order = np.argsort(numbers)
        if not np.array_equal(numbers[order], np.arange(num_nodes)):
            raise EdgecutError(
                f"{folder}: the files id_map.parquet of {self._node_type} do not have each of the {num_nodes} nodes once: copy or "
                "partition the parts again"
            )
        ids = table["id"]
        if not self._pyarrow.types.is_integer(ids.type):
            # The offsets of other texts have 32 bits.
            ids = ids.cast(self._pyarrow.large_string())
        return ids.take(self._pyarrow.array(order))

    @property
    def array(self) -> np.ndarray:
        """The ids as an array, which is read-only since all calls share it."""
        if self._array is None:
            self._array = self._column.to_numpy()
            self._array.flags.writeable = False
        return self._array

    def numbers_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of the nodes with some ids."""
        has_texts = not self._pyarrow.types.is_integer(self._column.type)
        if has_texts != all(isinstance(value, str) for value in ids.tolist()):
            kind = "texts" if has_texts else "whole numbers"
            example = self._column[:1].to_pylist()
            raise ValueError(f"`ids` are {ids.dtype}, but the ids of {self._node_type} are {kind}, such as {example}")
        if not has_texts:
            ids = integers(ids, "ids")
        wanted, position = np.unique(ids, return_inverse=True)
        # One pass over the nodes, without a hash table of all of them.
        found = self._compute.index_in(self._column, value_set=self._pyarrow.array(wanted.tolist(), self._column.type))
        nodes = np.flatnonzero(found.is_valid().to_numpy())
        numbers = np.full(len(wanted), -1)
        numbers[found.drop_null().to_numpy()] = nodes
        missing = np.flatnonzero(numbers[position] < 0)
        if len(missing) > 0:
            example = ids.tolist()[missing[0]]
            raise ValueError(f"{len(missing)} of {len(ids)} `ids` are no ids of {self._node_type}, the first of them {example!r}")
        return numbers[position]
