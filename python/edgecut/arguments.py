"""Checks of arguments."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import operator
import os
import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = [
    "array", "check_hops", "check_output", "check_strategy", "checked", "integers", "refuse_both_negatives", "refuse_numeric_mask",
    "refuse_unknown", "reverse_pairs", "whole_number",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Arguments of PyTorch's DataLoader that have no meaning for loaders without worker processes.
_MEANINGLESS = ("in_order", "multiprocessing_context", "persistent_workers", "pin_memory", "pin_memory_device", "prefetch_factor")

# Arguments of PyTorch's DataLoader that choose inputs or threads, and what loaders of a Store have instead.
_INSTEAD = {
    "batch_sampler": "`batch_size`, `shuffle` and an array of ids choose the batches",
    "generator": "`seed` chooses the random numbers",
    "sampler": "`shuffle` and an array of ids choose the order",
    "timeout": "a job fails by itself when a process does not answer (`edgecut.distributed.init`)",
    "worker_init_fn": "native threads make the batches, and run no code of Python",
    "collate_fn": "use `transform`",
    "custom_cls": "use `transform`",
    "input_id": "use `transform`, which can index with `batch.input_id`",
}


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Check the arguments of a function against its annotations before each call.

    A wrong type is a TypeError, and a number out of range a ValueError, that names the argument. Scalars of NumPy become
    Python's. Annotations without a class, such as Any, accept everything, and so do sequences and mappings, in whose
    place arrays may be given: the function checks these itself.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        # Not at the definition, when names of the module may be missing.
        return typing.get_type_hints(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if name in hints() and kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                bound.arguments[name] = _converted(value, hints()[name], name)
        return function(*bound.args, **bound.kwargs)

    return call


def _converted(value: Any, hint: Any, name: str) -> Any:
    """Return an argument as the type of its annotation."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if value is None and type(None) in choices:
        return None
    for choice in choices:
        kind = typing.get_origin(choice) or choice
        if kind in (Any, Sequence, Mapping) or not isinstance(kind, type):
            return value
        if kind is int and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return whole_number(value, name)
        if kind is bool and isinstance(value, (bool, np.bool_)):
            return bool(value)
        is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if kind is float and is_number:
            return float(value)
        if kind not in (int, bool, float) and isinstance(value, kind):
            return value
    expected = " or ".join(dict.fromkeys(_name_of(choice) for choice in choices))
    raise TypeError(f"`{name}` must be {expected}, not {_shown(value)}")


def _name_of(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    known = {
        int: "a whole number",
        bool: "True or False",
        float: "a number",
        str: "a str",
        type(None): "None",
        os.PathLike: "a path",
        Callable: "a function",
    }
    return known.get(kind, f"a {kind.__name__}")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """Return a whole number from `least` on that has at most 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` must have whole numbers, not {_shown(value)}") from None
    if number < least:
        raise ValueError(f"`{name}` is {number}, but must be at least {least}")
    if number >= 2**64:
        raise ValueError(f"`{name}` is {number}, but must be less than 2^64")
    return number


def refuse_unknown(loader: str, kwargs: Mapping[str, Any], stacklevel: int) -> None:
    """Reject arguments that a loader does not have. Warn of those without effect."""
    for name in kwargs:
        if name in _INSTEAD:
            raise TypeError(f"{loader} of a Store has no argument `{name}`: {_INSTEAD[name]}")
        if name not in _MEANINGLESS:
            raise TypeError(f"{loader} has no argument `{name}`")
        warnings.warn(f"`{name}` has no effect: threads make the batches", stacklevel=stacklevel)


def warn_if_empty(loader: Sized, drop_last: bool, stacklevel: int) -> None:
    """Warn of a loader whose batches `drop_last` leaves out."""
    if drop_last and len(loader) == 0:
        warnings.warn(
            "`drop_last` leaves out all batches, since not every process has as many inputs as a batch: take smaller batches, or leave "
            "`drop_last` out",
            stacklevel=stacklevel + 1,
        )


def array(values: Any, name: str) -> np.ndarray:
    """Return an argument as an array."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"`{name}` has masked entries: leave them out by `.compressed()`, or give them a value by `.filled(…)`")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"`{name}` cannot become an array: {error}") from error


def integers(values: Any, name: str) -> np.ndarray:
    """Return a vector of whole numbers."""
    vector = array(values, name)
    # NumPy counts differences of times, which have a unit, among whole numbers.
    if vector.ndim != 1 or (vector.size > 0 and vector.dtype.kind not in "iu"):
        given = _shown(values) if vector.ndim == 0 else f"{vector.ndim} of {vector.dtype}"
        raise ValueError(f"`{name}` must have one dimension and whole numbers, not {given}")
    if vector.dtype == np.uint64 and vector.size > 0 and vector.max() >= 2**63:
        raise ValueError(f"`{name}` has {vector.max()}, which exceeds 64-bit integers")
    return np.ascontiguousarray(vector, np.int64)


def check_strategy(temporal_strategy: str, time_attr: str | None) -> None:
    """Check that a choice among neighbors by their times has times."""
    if temporal_strategy == "last" and time_attr is None:
        raise ValueError("`temporal_strategy='last'` needs `time_attr`, without which neighbors of any time are sampled")


def refuse_both_negatives(neg_sampling: Any, neg_sampling_ratio: float | None) -> None:
    """Reject two arguments that both choose the negatives."""
    if neg_sampling_ratio and neg_sampling is not None:
        raise ValueError("`neg_sampling_ratio` and `neg_sampling` exclude each other: both choose the negatives")


def refuse_numeric_mask(ids: Any, number: int, name: str, of_what: str) -> None:
    """Reject ids that are a mask of whole numbers, which would stand for the ids 0 and 1 again and again.

    `number` is the number of all nodes or graphs. `ids` are a vector of NumPy or PyTorch.
    """
    if len(ids) == number > 2 and ids.min() >= 0 and ids.max() <= 1:
        raise ValueError(
            f"`{name}` has {number} entries, all of them 0 or 1, and there are {number} {of_what}: a mask has the type bool, as by `!= 0`"
        )


def whole_edge_type(name: tuple[str, ...], edge_types: Sequence[Any], argument: str) -> tuple[str, ...]:
    """Return the name of an edge type with its relation. As in PyG, two names stand for the only edge type between them.

    Names without such a type are returned as they are. A graph without types has the edge type None.
    """
    found = [key for key in edge_types if key is not None and (key[0], key[-1]) == name]
    if len(found) > 1:
        raise ValueError(
            f"`{argument}`: {len(found)} edge types are from {name[0]!r} to {name[-1]!r}: name one of {', '.join(map(str, found))}"
        )
    return found[0] if found else name


def reverse_pairs(given: Any, edge_types: Sequence[Any], excludes_seed_edges: bool) -> list[tuple[int, int]]:
    """Return the numbers of pairs of edge types in the argument `reverse_types`."""
    known = ", ".join(str(name) for name in edge_types if name is not None)
    pairs = []
    for pair in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(name, str) or _is_edge_type(name) for name in pair):
            form = "each of them source, relation and destination, or a text"
            raise ValueError(f"`reverse_types` has {_shown(pair)}: give pairs of edge types, {form}")
        names = [_named_edge_type(name, edge_types) for name in pair]
        for name in names:
            if name not in edge_types:
                others = f", only {known}" if known else ", since the graph has no types"
                raise ValueError(f"`reverse_types`: there is no edge type {name!r}{others}")
        one, other = names
        if (one[0], one[-1]) != (other[-1], other[0]):
            raise ValueError(f"`reverse_types`: {one} and {other} do not join the same node types in opposite directions")
        pairs.append((edge_types.index(one), edge_types.index(other)))
    if pairs and not excludes_seed_edges:
        raise ValueError("`reverse_types` needs `exclude_seed_edges=True`, without which messages flow over the edges of a batch and over their reverses")
    return pairs


def _named_edge_type(name: Any, edge_types: Sequence[Any]) -> Any:
    """Return the edge type with a name: two or three names, or a text as in models: `author__writes__paper` or a relation."""
    if not isinstance(name, str):
        return whole_edge_type(tuple(name), edge_types, "reverse_types")
    typed = [key for key in edge_types if key is not None]
    found = [key for key in typed if "__".join(key) == name] or [key for key in typed if key[1] == name]
    if len(found) > 1:
        raise ValueError(f"`reverse_types`: several edge types have the relation {name!r}: name one of {', '.join(map(str, found))}")
    return found[0] if found else name


def _is_edge_type(name: Any) -> bool:
    return isinstance(name, (tuple, list)) and len(name) in (2, 3) and all(isinstance(part, str) for part in name)


def check_hops(edge_index: Any, num_edges: Sequence[int]) -> None:
    """Check that the edges of a batch are those that its hops have sampled, and that no transform has added or removed any."""
    found, expected = edge_index.shape[1], sum(num_edges)
    if found != expected:
        raise ValueError(
            f"the batch has {found} edges, but its hops have sampled {expected}: leave out transforms that add or remove edges, or "
            "call the layers without the numbers of sampled nodes and edges"
        )


def check_output(output: str | None) -> str:
    """Return the type of batches: 'pyg' or 'numpy'. The default is PyG if it is installed."""
    if output not in (None, "pyg", "numpy"):
        raise ValueError(f"`output` is {output!r}: choose from 'pyg' and 'numpy'")
    if output is not None:
        return output
    has_pyg = all(importlib.util.find_spec(package) for package in ("torch", "torch_geometric"))
    return "pyg" if has_pyg else "numpy"
