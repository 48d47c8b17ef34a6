"""Checks of arguments that loaders share."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["check_output", "integers", "refuse_unknown"]

# Arguments of PyTorch's DataLoader that have no meaning for loaders without worker processes.
_MEANINGLESS = ("filter_per_worker", "is_sorted", "multiprocessing_context", "persistent_workers", "pin_memory", "prefetch_factor")


def refuse_unknown(loader: str, kwargs: Mapping[str, Any], stacklevel: int) -> None:
    """Reject arguments that a loader does not have. Warn of those without effect."""
    for name in kwargs:
        if name not in _MEANINGLESS:
            raise TypeError(f"{loader} has no argument `{name}`")
        warnings.warn(f"`{name}` has no effect: threads make the batches", stacklevel=stacklevel)


def integers(values: Any, name: str) -> np.ndarray:
    """Return a vector of whole numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size > 0 and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"`{name}` must have one dimension and whole numbers, not {array.ndim} of {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def check_output(output: str | None) -> str:
    """Return the type of batches: 'pyg' or 'numpy'. The default is PyG if it is installed."""
    if output not in (None, "pyg", "numpy"):
        raise ValueError(f"`output` is {output!r}: choose from 'pyg' and 'numpy'")
    if output is not None:
        return output
    has_pyg = all(importlib.util.find_spec(package) for package in ("torch", "torch_geometric"))
    return "pyg" if has_pyg else "numpy"
