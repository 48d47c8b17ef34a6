"""The files of a table, in the order and with the formats of ``partition-graph``."""

from __future__ import annotations

import csv
import fnmatch
import glob
import io
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Format", "format_of", "load_module", "rows_of", "table_files"]

_CSV_ENDINGS = ("csv", "tsv", "txt")
_PARQUET_ENDINGS = ("parquet", "parq", "pq")
_FORMATS = ("csv", "parquet", "hdf5", "json")


class Format(NamedTuple):
    """The format of a file: ``csv``, ``parquet``, ``hdf5`` or ``json``, and the separator of CSV."""

    name: str
    separator: str = ","


def load_module(name: str, what: str) -> Any:
    """Return a module that is installed separately."""
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        package = {"yaml": "pyyaml"}.get(name, name.partition(".")[0])
        raise ValueError(f"{what} need {package}: pip install {package} ({error})") from error


def table_files(folder: pathlib.Path, patterns: Any) -> tuple[list[pathlib.Path], list[str]]:
    """Return the files of a table, and paths that give ``partition-graph`` the same files in the same order.

    Parameters
    ----------
    folder : path
        The folder of the configuration.
    patterns : str or list of str
        Paths, folders and patterns, which start in this folder, or in the working directory if nothing is found there.

    Raises
    ------
    ValueError
        If there is no file, or if a file is listed twice.
    """
    found: dict[tuple[bytes, ...], pathlib.Path] = {}
    wholes = []
    for pattern in map(str, patterns if isinstance(patterns, list) else [patterns]):
        for start in (pathlib.Path(os.path.abspath(folder)), pathlib.Path.cwd()):
            matched, whole = _expand(start, pattern)
            if matched:
                break
        if not matched:
            raise ValueError(f"there is no file {folder / pattern}")
        wholes.append(whole)
        for file in matched:
            # The components of the path, in which `a/x` comes before `a-b/x`.
            place = tuple(map(os.fsencode, pathlib.Path(os.path.abspath(file)).parts))
            if place in found:
                raise ValueError(f"{file} is listed twice")
            found[place] = file
    files = [found[place] for place in sorted(found)]
    # `partition-graph` reads columns from the names of folders below a pattern, such as `year=2020`. The order of other files is
    # the order of any paths that name each of them, also if the configuration has moved with them.
    if any("=" in name for file in files for name in file.parts[:-1]):
        return files, wholes
    beside = pathlib.Path(os.path.abspath(folder))
    if all(file.is_relative_to(beside) and ".." not in file.parts for file in files):
        return files, [str(file.relative_to(beside)) for file in files]
    return files, list(map(str, files))


def _expand(start: pathlib.Path, pattern: str) -> tuple[list[pathlib.Path], str]:
    """Return the files of a path, folder or pattern, and its absolute form."""
    whole = start / pattern
    if whole.exists():
        return _files_below(whole), str(whole)
    path = pathlib.Path(pattern)
    if path.is_absolute():
        top, parts = pathlib.Path(path.anchor), path.parts[1:]
    else:
        top, parts = start, path.parts
    files = [file for match in _matches(top, parts) for file in _files_below(match)]
    return files, os.path.join(glob.escape(str(start)), pattern)


def _matches(folder: pathlib.Path, parts: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """Yield the paths that match the parts of a pattern. Only a part that starts with a point matches such names."""
    if not parts:
        yield folder
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from _matches(folder, rest)
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from _matches(entry, parts)
    elif not any(letter in first for letter in "*?["):
        if (folder / first).exists():
            yield from _matches(folder / first, rest)
    else:
        for entry in folder.iterdir():
            if entry.name.startswith(".") and not first.startswith("."):
                continue
            if fnmatch.fnmatchcase(entry.name, first) and (not rest or entry.is_dir()):
                yield from _matches(entry, rest)


def _files_below(path: pathlib.Path) -> list[pathlib.Path]:
    """Return a file, or the files in a folder and in its partitions, such as ``year=2020``."""
    if not path.is_dir():
        return [path]
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(("_", "."))]
    for entry in entries:
        if entry.is_dir() and "=" not in entry.name[1:]:
            raise ValueError(f"{path} contains the folder {entry.name}: name the files by a pattern")
    return [file for entry in entries for file in _files_below(entry)]


def format_of(file: pathlib.Path, table: dict[str, Any]) -> Format:
    """Return the format of a file, which the table or the name of the file tells."""
    given = table.get("format")
    if given is not None:
        name = str(given["name"]).lower()
        if name not in _FORMATS:
            raise ValueError(f"the format {name!r} is not known: it is {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
        return Format(name, str(given.get("separator", ",")))
    name = file.name.lower()
    stem = name.removesuffix(".gz") if name.endswith(".gz") else name.removesuffix(".zst")
    ending = stem.rpartition(".")[2] if "." in stem else ""
    if ending in _PARQUET_ENDINGS and stem == name:
        return Format("parquet")
    if ending in _CSV_ENDINGS:
        return Format("csv", "\t" if ending == "tsv" else ",")
    raise ValueError(f"the format of {file} is not known from its name: set `format`, such as {{\"name\": \"csv\"}}")


def rows_of(file: pathlib.Path, form: Format, columns: list[str], num_rows: int) -> Iterator[Any]:
    """Yield columns of a file in CSV or Parquet as record batches of pyarrow. Columns of CSV are texts.

    Batches of Parquet have at most `num_rows` rows, and batches of CSV about a megabyte.
    """
    pyarrow = load_module("pyarrow", "tables")
    try:
        if form.name == "parquet":
            with load_module("pyarrow.parquet", "tables").ParquetFile(file) as opened:
                _check_columns(file, columns, opened.schema_arrow.names)
                for batch in opened.iter_batches(num_rows, columns=columns):
                    # A file may have several columns of a name, and columns in another order.
                    yield batch.select(columns)
            return
        if form.name != "csv":
            raise ValueError(f"{file} is in {form.name}: convert it with `python -m edgecut.convert` before")
        reading = load_module("pyarrow.csv", "tables")
        names = _header(pyarrow, file, form.separator)
        _check_columns(file, columns, names)
        # A field in quotes may have several lines. A blank line of a file with one column is a row without a value.
        parse = reading.ParseOptions(delimiter=form.separator, newlines_in_values=True, ignore_empty_lines=len(names) > 1)
        convert = reading.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pyarrow.string()))
        with _open(pyarrow, file) as stream:
            yield from reading.open_csv(stream, parse_options=parse, convert_options=convert)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{file}: {error}") from error


def _check_columns(file: pathlib.Path, columns: Iterable[str], names: list[str]) -> None:
    for column in columns:
        if column not in names:
            raise ValueError(f"there is no column {column} in {file}; its columns are {', '.join(names)}")


def _header(pyarrow: Any, file: pathlib.Path, separator: str) -> list[str]:
    """Return the names of the columns of a CSV file."""
    with _open(pyarrow, file) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        return next(csv.reader(lines, delimiter=separator), [])


def _open(pyarrow: Any, file: pathlib.Path) -> Any:
    """Open a file that may be compressed, which its content tells."""
    with open(file, "rb") as opened:
        start = opened.read(4)
    compression = "gzip" if start[:2] == b"\x1f\x8b" else "zstd" if start == b"\x28\xb5\x2f\xfd" else None
    return pyarrow.input_stream(str(file), compression=compression)
