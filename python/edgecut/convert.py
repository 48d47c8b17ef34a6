"""Conversion of GraphStorm's tables and DGL's chunks into files that ``partition-graph`` reads.

``python -m edgecut.convert CONF OUT`` converts the tables of a configuration of GraphStorm (``gconstruct-v0.1``): HDF5 and JSON
become Parquet, and features named ``train_mask``, ``val_mask`` and ``test_mask`` become lists of ids. ``OUT/graph.json`` is the
configuration of the new tables. A configuration of GSProcessing is converted to this form. ``python -m edgecut.convert FOLDER OUT`` converts the Parquet files of a graph in DGL's chunks,
whose ``metadata.json`` is in the folder, into arrays of NumPy. GSProcessing's output is such a folder.

``python -m edgecut.convert RUN.yaml FILE`` converts a configuration of a run of GraphStorm (``gs_node_classification --cf``) into
a file for ``train node --config`` or another command of ``train``, which its first line names.

pyarrow must be installed, h5py for HDF5, and PyYAML for YAML: ``pip install edgecut[convert]``. Runs need PyYAML only.
"""

from __future__ import annotations

import argparse
import contextlib
import decimal
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .graphstorm_run import is_run, to_flags
from .gsprocessing import to_gconstruct
from .table_files import format_of, load_module, rows_of, table_files

__all__ = ["convert"]

# The most rows that are in memory at a time.
_ROWS = 1 << 16
# The features that are masks, and the keys of `custom_split_filenames`.
_MASKS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}
# The remedy for edges whose masks cannot become lists.
_ONE_MASK = "lists of a split have pairs of nodes, so let all parallel edges of a pair have the same mask, or use `split_pct`"
# The names of the files that a conversion writes.
_WRITTEN = re.compile(
    r"(graph|metadata)\.json|(nodes|edges)-\d+-(\d+\.parquet|(train|valid|test)\.json)|(node|edge)_data-\d+\.npy|\d{6}-.*\.npy"
)
# The truth values in texts.
_TRUTHS = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}

# The values of some columns of successive rows: NumPy's arrays, or lists.
_Rows = dict[str, Any]


def convert(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, unsupported: str | None = None, overwrite: bool = False
) -> pathlib.Path:
    """Convert a graph of GraphStorm or DGL, or a run of GraphStorm.

    Parameters
    ----------
    source : path
        A configuration of GraphStorm of a graph or a run, or the folder of a ``metadata.json``.
    out : path
        The folder to write, or for a run the file. It is complete or absent.
    unsupported : {'error', 'skip'}, optional
        For a run: raise an error that lists the keys without an equivalent, which is the default; or leave them out, with a
        warning that lists them.
    overwrite : bool, default False
        Replace a folder that an earlier conversion has written, or a file.

    Returns
    -------
    path
        The configuration or the folder to give to ``partition-graph``, as ``--conf`` or as ``--dataset-dir``; or the file for
        ``train --config``.

    Raises
    ------
    ValueError
        If a file cannot be converted. The message names it.

    Examples
    --------
    >>> edgecut.convert.convert("graphstorm/graph.json", "converted")    # doctest: +SKIP
    PosixPath('converted/graph.json')
    """
    source, out = pathlib.Path(source), pathlib.Path(out)
    if not source.exists():
        raise ValueError(f"there is no file or folder {source}")
    if unsupported not in (None, "error", "skip"):
        raise ValueError(f"`unsupported` is {unsupported!r}: choose from 'error' and 'skip'")
    conf = None if source.is_dir() else read_conf(source)
    if conf is not None and is_run(conf):
        return _convert_run(source, conf, out, unsupported == "skip", overwrite)
    if unsupported is not None:
        raise ValueError(f"`unsupported` is for runs, and {source} is a graph: use it with partition-graph")
    if out.exists():
        _check_replaceable(source, out, overwrite)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    try:
        if conf is None:
            written = _Chunks(source, partial).convert()
        else:
            written = _Tables(source, conf, partial, out.absolute()).convert()
        partial.chmod(0o755)
        if out.exists():
            old = partial.with_suffix(".old")
            out.rename(old)
            partial.rename(out)
            shutil.rmtree(old)
        else:
            partial.rename(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return out / written


def _check_replaceable(source: pathlib.Path, out: pathlib.Path, overwrite: bool) -> None:
    """Check that a folder exists because an earlier conversion wrote it, and may be replaced."""
    if not overwrite:
        raise ValueError(f"{out} exists: name another folder, or replace it with --overwrite")
    others = [] if not out.is_dir() else [path.name for path in out.iterdir() if not _WRITTEN.fullmatch(path.name)]
    if not out.is_dir() or others:
        raise ValueError(f"{out} is not a folder of an earlier conversion{f', as it has {min(others)}' if others else ''}: name another folder")
    if source.resolve().is_relative_to(out.resolve()):
        raise ValueError(f"{out} has the source {source}, so it cannot be replaced: name another folder")


def _convert_run(path: pathlib.Path, conf: dict[str, Any], out: pathlib.Path, skips: bool, overwrite: bool) -> pathlib.Path:
    """Write the flags of a run of GraphStorm to a file."""
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name the file to write for `train --config`")
    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists: name another file, or replace it with --overwrite")
    with _errors_of(str(path)):
        run = to_flags(conf)
    if run.skipped:
        keys = "".join(f"\n  {key}: {why}" for key, why in sorted(run.skipped.items()))
        if not skips:
            raise ValueError(f"{path}: these keys have no equivalent (--unsupported skip leaves them out):{keys}")
        warnings.warn(f"{path}: these keys have no equivalent and are left out:{keys}", stacklevel=3)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=out.parent, prefix=f".{out.name}.", delete=False) as partial:
        partial.write(run.text(str(out)))
    os.chmod(partial.name, 0o644)
    os.replace(partial.name, out)
    return out


@contextlib.contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Name what cannot be converted in errors, also if it lacks a key or has another form."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{what}: the key {error} is missing") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{what} does not have the form of GraphStorm or DGL: {error}") from error
    except (ValueError, OSError, OverflowError) as error:
        raise ValueError(f"{what}: {error}") from error


class _Table(NamedTuple):
    """A table of a configuration, which `at` names in errors and `name` in names of files."""

    at: str
    name: str
    # `nodes` or `edges`, and the node type or relation.
    of_type: tuple[str, str]
    keys: dict[str, Any]
    # The files in the order of their rows, and paths that name the same files.
    files: list[pathlib.Path]
    paths: list[str]


class _Tables:
    """The tables of a configuration. `out` is the folder of the new ones at the end, `folder` meanwhile."""

    def __init__(self, path: pathlib.Path, conf: dict[str, Any], folder: pathlib.Path, out: pathlib.Path) -> None:
        self.path, self.folder, self.out = path, folder, out
        self.conf = conf
        if "graph" in self.conf:
            with _errors_of(str(path)):
                self.conf = to_gconstruct(self.conf)

    def convert(self) -> str:
        tables = [self._find(kind, number) for kind in ("nodes", "edges") for number in range(len(self.conf.get(kind) or []))]
        # The masks first, since the ids of a table may be in the files of another one.
        for table in tables:
            with _errors_of(table.at):
                self._split_by_masks(table, tables)
        for table in tables:
            with _errors_of(table.at):
                self._convert_files(table)
        (self.folder / "graph.json").write_text(json.dumps(self.conf, indent=2) + "\n")
        return "graph.json"

    def _find(self, kind: str, number: int) -> _Table:
        """Return a table with its files."""
        at = f"{self.path}: {kind}[{number}]"
        with _errors_of(at):
            keys = self.conf[kind][number]
            files, paths = table_files(self.path.parent, keys["files"])
            if self.out.exists() and any(file.resolve().is_relative_to(self.out.resolve()) for file in files):
                raise ValueError(f"the table is in {self.out}, so the folder cannot be replaced: name another folder")
            for label in keys.get("labels") or []:
                lists = label.get("custom_split_filenames") or {}
                for split in _MASKS.values():
                    if lists.get(split):
                        lists[split] = [os.path.abspath(file) for file in table_files(self.path.parent, lists[split])[0]]
            of_type = (kind, str(keys["node_type" if kind == "nodes" else "relation"]))
            return _Table(at, f"{kind}-{number}", of_type, keys, files, paths)

    def _convert_files(self, table: _Table) -> None:
        """Write the files that ``partition-graph`` does not read as Parquet, and name all files by absolute paths."""
        if format_of(table.files[0], table.keys).name in ("hdf5", "json"):
            columns = _columns(table.keys)
            schema = _schema(table, columns)
            # As many digits as the last number has, so that the names sort as the numbers.
            digits = max(5, len(str(len(table.files) - 1)))
            written = [f"{table.name}-{number:0{digits}}.parquet" for number in range(len(table.files))]
            for name, file in zip(written, table.files):
                _write_parquet(self.folder / name, schema, _read(file, table.keys, columns), file)
            table.keys["files"] = [str(self.out / name) for name in written]
            table.keys["format"] = {"name": "parquet"}
        else:
            beside = os.path.abspath(self.path.parent)
            table.keys["files"] = [os.path.join(beside, path) for path in table.paths]

    def _split_by_masks(self, table: _Table, tables: list[_Table]) -> None:
        """Write the ids that masks choose, and let the label name these files."""
        features = table.keys.get("features") or []
        masks = {_MASKS[_name(feature)]: feature["feature_col"] for feature in features if _name(feature) in _MASKS}
        if not masks:
            return
        labels = table.keys.get("labels") or []
        if len(labels) != 1 or "split_pct" in labels[0] or "custom_split_filenames" in labels[0]:
            raise ValueError("features that are masks need one label, without `split_pct` and `custom_split_filenames`")
        owner = _table_with_ids(table, tables)
        lines = map(str, itertools.count()) if owner is None else _lines_of_ids(owner)
        found: dict[str, list[str]] = {split: [] for split in masks}
        split_of: dict[str, str] = {}
        # The pairs of edges in no mask. A list has pairs, and so all parallel edges of each.
        outside: set[str] = set()
        is_edges = table.of_type[0] == "edges"
        for file in table.files:
            for rows in _read(file, table.keys, list(masks.values())):
                of_splits = {split: _mask(rows[column], f"{file}: the mask {column!r}") for split, column in masks.items()}
                number = len(next(iter(of_splits.values())))
                of_rows = list(itertools.islice(lines, number))
                if len(of_rows) < number:
                    raise ValueError("the table has more rows than the table of its type that has the ids")
                for split, mask in of_splits.items():
                    for at in np.flatnonzero(mask):
                        line = of_rows[at]
                        if split_of.setdefault(line, split) != split:
                            what = f"{line} is in the masks of {split_of[line]} and {split}"
                            raise ValueError(f"{file}: {what}: {_ONE_MASK if is_edges else 'leave it in one of them'}")
                        found[split].append(line)
                if is_edges:
                    outside.update(of_rows[at] for at in np.flatnonzero(~np.any(list(of_splits.values()), axis=0)))
        if owner is not None and next(lines, None) is not None:
            raise ValueError("the table has fewer rows than the table of its type that has the ids")
        partial = outside & split_of.keys()
        if partial:
            line = min(partial)
            raise ValueError(f"an edge of {line} is in the mask of {split_of[line]}, and another one is in no mask: {_ONE_MASK}")
        lists = {}
        for split, chosen in found.items():
            written = f"{table.name}-{split}.json"
            (self.folder / written).write_text("".join(f"{line}\n" for line in dict.fromkeys(chosen)))
            lists[split] = [str(self.out / written)]
        labels[0]["custom_split_filenames"] = lists
        table.keys["features"] = [feature for feature in features if _name(feature) not in _MASKS]
        if not table.keys["features"]:
            del table.keys["features"]


def _columns_of_ids(table: _Table) -> list[str]:
    return [table.keys[key] for key in ("node_id_col", "source_id_col", "dest_id_col") if key in table.keys]


def _table_with_ids(table: _Table, tables: list[_Table]) -> _Table | None:
    """Return the table that has the ids of a table's rows: itself or another one of the type. Without one, they are row numbers."""
    for other in (table, *tables):
        if other.of_type == table.of_type and _columns_of_ids(other):
            return other
    if table.of_type[0] == "edges":
        raise ValueError("no table of the relation has `source_id_col` and `dest_id_col`")
    return None


def _lines_of_ids(table: _Table) -> Iterator[str]:
    """Yield the line of a list of ids for each row: the id of a node, or both ids of an edge."""
    columns = _columns_of_ids(table)
    for file in table.files:
        for rows in _read(file, table.keys, columns):
            for key in zip(*(_plain(rows[column]) for column in columns)):
                ids = list(map(_id, key))
                yield json.dumps(ids if len(ids) > 1 else ids[0])


def _id(value: Any) -> Any:
    """Return an id as lists have it: floats and decimals that are whole numbers are ids, too."""
    return int(value) if isinstance(value, (float, decimal.Decimal)) and value % 1 == 0 else value


def read_conf(path: pathlib.Path) -> dict[str, Any]:
    """Read a configuration in JSON or YAML."""
    text = path.read_text()
    try:
        conf = json.loads(text)
    except json.JSONDecodeError:
        # YAML also has the trailing commas and single quotes of GraphStorm's examples.
        yaml = load_module("yaml", f"{path}: configurations in YAML")
        try:
            conf = yaml.load(text, _yaml_loader(yaml))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is neither JSON nor YAML: {error}") from error
    if not isinstance(conf, dict):
        raise ValueError(f"{path} is not an object with the keys `nodes` and `edges`")
    return conf


# The scalars of YAML that are no texts, as in ``partition-graph``. Names such as `no` and `007`, dates and times are texts.
_YAML_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0|[1-9][0-9]*)",
    "float": r"[-+]?(?:(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
    "merge": "<<",
}


def _yaml_loader(yaml: Any) -> Any:
    """Return a loader that keeps the texts of ``partition-graph``."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}

    for name, pattern in _YAML_SCALARS.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{pattern})$"), None)
    return Loader


def _list(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _name(feature: dict[str, Any]) -> str:
    return str(feature.get("feature_name", feature.get("feature_col")))


def _columns(table: dict[str, Any]) -> list[str]:
    """Return the columns that a table names."""
    keys = ("node_id_col", "source_id_col", "dest_id_col", "edge_id_col", "weight_col", "time_col")
    found = [table.get(key) for key in keys]
    for feature in table.get("features") or []:
        found += _list(feature["feature_col"])
    for label in table.get("labels") or []:
        columns = label.get("label_col")
        found += columns if isinstance(columns, list) else [columns]
        found += [label.get(key) for key in ("split_by", "split_by_group")]
    names = [column["name"] if isinstance(column, dict) else column for column in found if column is not None]
    return list(dict.fromkeys(map(str, names)))


def _read(file: pathlib.Path, table: dict[str, Any], columns: list[str]) -> Iterator[_Rows]:
    """Yield some columns of a file, some rows at a time. Columns of CSV are texts."""
    form = format_of(file, table)
    if form.name == "hdf5":
        yield from _read_hdf5(file, columns)
    elif form.name == "json":
        yield from _read_json(file, columns)
    else:
        for batch in rows_of(file, form, columns, _ROWS):
            yield {name: batch.column(name).to_pylist() for name in columns}


def _read_hdf5(file: pathlib.Path, columns: list[str]) -> Iterator[_Rows]:
    h5py = load_module("h5py", "files in HDF5")
    with h5py.File(file, "r") as opened:
        for name in columns:
            if name not in opened:
                raise ValueError(f"{file} has no dataset {name!r}: it has {', '.join(sorted(opened))}")
        sizes = {name: opened[name].shape[0] for name in columns}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"{file} has datasets of different lengths: {sizes}")
        for start in range(0, max(sizes.values(), default=0), _ROWS):
            yield {name: opened[name][start : start + _ROWS] for name in columns}


def _read_json(file: pathlib.Path, columns: list[str]) -> Iterator[_Rows]:
    """Read a record per line, as GraphStorm does, or a list of records."""
    if not columns:
        raise ValueError(f"the configuration names no column of {file}: add `node_id_col`, features or labels")
    with open(file, encoding="utf8") as opened:
        is_list = opened.read(1) == "["
        opened.seek(0)
        records = enumerate(json.load(opened)) if is_list else _lines(opened, file)
        rows: _Rows = {name: [] for name in columns}
        number = -1
        for number, record in records:
            for name in columns:
                if name not in record:
                    raise ValueError(f"{file}: record {number + 1} has no field {name!r}")
                rows[name].append(record[name])
            if number % _ROWS == _ROWS - 1:
                yield rows
                rows = {name: [] for name in columns}
        if number < 0:
            raise ValueError(f"{file} has no records")
        if len(rows[columns[0]]) > 0:
            yield rows


def _lines(opened: Any, file: pathlib.Path) -> Iterator[tuple[int, Any]]:
    number = 0
    for at, line in enumerate(opened):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{file}: line {at + 1} is not JSON: {error}") from error
            number += 1


def _mask(values: Any, what: str) -> np.ndarray:
    """Return a mask as truth values, one per row."""
    if not isinstance(values, np.ndarray):
        values = [_TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value for value in values]
        # NumPy would turn the numbers beside a text into texts.
        values = np.asarray(values, dtype=object if any(isinstance(value, str) for value in values) else None)
    mask = values.reshape(len(values), -1) if len(values) > 0 else values.reshape(0, 1)
    if mask.shape[1] > 1:
        raise ValueError(f"{what} has {mask.shape[1]} values per row, expected 1")
    if len(mask) > 0 and (mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all()):
        wrong = next((value for value in mask.ravel().tolist() if value not in (0, 1)), mask.dtype)
        raise ValueError(f"{what} has the value {wrong!r}: masks have 0 and 1, or false and true, in each row")
    return mask.ravel().astype(bool)


def _plain(values: Any) -> list[Any]:
    """Return values as JSON has them."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return [value.decode() if isinstance(value, bytes) else value for value in plain]


def _schema(table: _Table, columns: list[str]) -> Any:
    """Return the types of columns, which hold the values of all rows and files: 1 and 0.5 are floats, and null has any type."""
    pyarrow = load_module("pyarrow", "tables")
    schema = None
    for file in table.files:
        batches = _read(file, table.keys, columns)
        # The type of a dataset in HDF5 is the type of all of its rows.
        for rows in itertools.islice(batches, 1) if format_of(file, table.keys).name == "hdf5" else batches:
            of_rows = _arrow_table(pyarrow, rows, file).schema
            try:
                schema = of_rows if schema is None else pyarrow.unify_schemas([schema, of_rows], promote_options="permissive")
            except pyarrow.ArrowException as error:
                raise ValueError(f"{file}: the rows have columns of different types: {error}") from error
    return schema


def _write_parquet(path: pathlib.Path, schema: Any, batches: Iterator[_Rows], source: pathlib.Path) -> None:
    parquet = load_module("pyarrow.parquet", "tables")
    pyarrow = load_module("pyarrow", "tables")
    num_rows = 0
    with contextlib.ExitStack() as opened:
        for rows in batches:
            if num_rows == 0:
                writer = opened.enter_context(parquet.ParquetWriter(path, schema))
            table = _arrow_table(pyarrow, rows, source)
            try:
                writer.write_table(table.cast(schema))
            except pyarrow.ArrowException as error:
                raise ValueError(f"{source}: the rows have columns of different types: {error}") from error
            num_rows += table.num_rows
    if num_rows == 0:
        raise ValueError(f"{source} has no rows")


def _arrow_table(pyarrow: Any, rows: _Rows, source: pathlib.Path) -> Any:
    return pyarrow.table({name: _arrow(pyarrow, values, f"{source}: column {name!r}") for name, values in rows.items()})


def _arrow(pyarrow: Any, values: Any, what: str) -> Any:
    """Return the values of a column for Parquet. Rows of a matrix become lists, unless they have one value, such as a class."""
    try:
        if not isinstance(values, np.ndarray) or values.dtype.kind in "OSU":
            return pyarrow.array(_plain(values))
        if values.dtype.kind not in "biuf" or values.ndim > 2:
            raise ValueError(f"{what} has the type {values.dtype} and {values.ndim} dimensions: numbers and texts in 1 or 2 are read")
        values = values.astype(np.float32 if values.dtype == np.float16 else values.dtype.newbyteorder("="))
        if values.ndim == 1 or values.shape[1] == 1:
            return pyarrow.array(values.ravel())
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), values.shape[1])
    except pyarrow.ArrowException as error:
        raise ValueError(f"{what} has values of different types: {error}") from error
    except OverflowError as error:
        raise ValueError(f"{what} has a whole number beyond 64 bits: write such numbers as texts") from error


class _Chunks:
    """The arrays of a graph in DGL's chunks, and the folder for those that become NumPy's."""

    def __init__(self, source: pathlib.Path, folder: pathlib.Path) -> None:
        self.source, self.folder = source, folder

    def convert(self) -> str:
        path = self.source / "metadata.json"
        if not path.exists():
            raise ValueError(f"{self.source} has no metadata.json: name a configuration of GraphStorm, or a folder in DGL's chunks")
        with _errors_of(str(path)):
            metadata = json.loads(path.read_text())
            for name, array in metadata["edges"].items():
                self._convert_array(array, f"edges of {name}", 2)
            for kind in ("node_data", "edge_data"):
                for name, of_type in metadata.get(kind, {}).items():
                    for attribute, array in of_type.items():
                        self._convert_array(array, f"{kind} {attribute!r} of {name}", 1)
            if "graph_info" in metadata:
                self._name_attributes(metadata)
        (self.folder / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
        return ""

    def _name_attributes(self, metadata: dict[str, Any]) -> None:
        """Join the features of each type, and name features and labels as in DGL, by the notes that GSProcessing adds."""
        info = metadata["graph_info"]
        labels = info.get("ntype_label", [])
        for name in labels:
            if labels.count(name) > 1:
                raise ValueError(f"`ntype_label` names {labels.count(name)} labels of {name}: leave one, as a type has one label")
        for name, label in zip(info.get("etype_label", []), info.get("etype_label_property", [])):
            # Link prediction has no property.
            if label:
                raise ValueError(
                    f"`etype_label` names the label {label!r} of the edges {name}: labels of edges are read from tables only. "
                    "Convert the configuration of the tables, or remove `etype_label` and `etype_label_property`"
                )
        # All features and labels are taken out before any gets its new name, which another one may have.
        taken: list[tuple[dict[str, Any], str, Any, str]] = []
        for kind, sizes in (("node_data", "nfeat_size"), ("edge_data", "efeat_size")):
            for number, (name, of_type) in enumerate(info.get(sizes, {}).items()):
                given = metadata[kind][name]
                arrays = [self._whole(given.pop(feature)) for feature in of_type]
                if arrays:
                    written = f"{kind}-{number}.npy"
                    np.save(self.folder / written, np.concatenate(arrays, axis=1).astype(np.float32))
                    feat = {"format": {"name": "numpy"}, "data": [written]}
                    taken.append((given, "feat", feat, f"{kind} of {name}: `{sizes}` does not name"))
        for name, label in zip(labels, info.get("ntype_label_property", [])):
            given = metadata["node_data"][name]
            if label in info.get("nfeat_size", {}).get(name, {}):
                raise ValueError(f"`nfeat_size` names the label {label!r} of {name}, which would be its feature too: remove it there")
            taken.append((given, "label", given.pop(label), f"node_data of {name}: `ntype_label_property` does not name"))
        for given, attribute, array, what in taken:
            if attribute in given:
                raise ValueError(f"{what} {attribute!r}, and the name is needed: rename this array")
            given[attribute] = array

    def _whole(self, array: dict[str, Any]) -> np.ndarray:
        """Return all rows of a converted array as a matrix."""
        rows = np.concatenate([np.load(self.folder / file) for file in array["data"]])
        return rows.reshape(len(rows), -1)

    def _convert_array(self, array: dict[str, Any], what: str, num_columns: int) -> None:
        is_parquet = array["format"]["name"] == "parquet"
        written = []
        for file in array["data"]:
            path = self.source / file
            if not is_parquet:
                written.append(os.path.abspath(path))
                continue
            # Names that lead out of the folder stay in it.
            name = f"{len(list(self.folder.iterdir())):06}-{path.stem}.npy"
            np.save(self.folder / name, _matrix(path, what, num_columns))
            written.append(name)
        if is_parquet:
            array["format"] = {"name": "numpy"}
        array["data"] = written


def _matrix(path: pathlib.Path, what: str, num_columns: int) -> np.ndarray:
    """Return the columns of a Parquet file side by side, or the rows of its only column."""
    table = load_module("pyarrow.parquet", "chunks in Parquet").read_table(path)
    if table.num_columns != num_columns:
        raise ValueError(f"{path}: the {what} have {table.num_columns} columns, expected {num_columns}: {table.column_names}")
    columns = [column.to_numpy() for column in table.columns]
    if num_columns == 2:
        for name, column in zip(table.column_names, columns):
            # Whole numbers with empty values are floats.
            if column.dtype.kind not in "iu":
                raise ValueError(f"{path}: the column {name!r} of the {what} has {column.dtype}, and not whole numbers in each row")
        return np.stack(columns, axis=1).astype(np.int64)
    values = columns[0]
    if values.dtype == object:
        if len({np.shape(row) for row in values}) != 1:
            raise ValueError(f"{path}: the lists of {what} have different lengths")
        values = np.stack(values.tolist())
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{path}: the {what} are {values.dtype}, and not numbers")
    return values


def main() -> None:
    """Convert the graph or the run that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m edgecut.convert", description="Converts graphs of GraphStorm and DGL, and runs of GraphStorm.")
    parser.add_argument("source", help="configuration of GraphStorm, of a graph or of a run, or folder with the metadata.json of DGL's chunks")
    parser.add_argument("out", help="folder to write the graph to (graph.json is its configuration), or for a run the file")
    parser.add_argument("--unsupported", choices=["error", "skip"], help="for a run: fail at keys without an equivalent, or leave them out [default: error]")
    parser.add_argument("--overwrite", action="store_true", help="replace the output of an earlier conversion")
    given = parser.parse_args()
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            written = convert(given.source, given.out, unsupported=given.unsupported, overwrite=given.overwrite)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    for warning in warned:
        print(f"warning: {warning.message}", file=sys.stderr)
    print(written)


if __name__ == "__main__":
    main()
