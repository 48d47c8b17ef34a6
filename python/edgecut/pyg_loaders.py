"""Loaders of PyG's graphs in memory, in place of PyG's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch_geometric.loader
from torch_geometric.data import HeteroData

from .batch_keys import SeededGenerator
from .prefetch import ThreadedLoading
from .pyg_data import PygGraph
from .pyg_sampler import NeighborSampler

__all__ = ["LinkNeighborLoader", "NeighborLoader", "loader_arguments"]

# Arguments of loaders of a Store, and what to do instead.
_OF_STORES = {
    "output": "PyG's data has batches of PyG; open a folder by `edgecut.open` for dicts of arrays",
    "even_batches": "use `sampler=torch.utils.data.DistributedSampler(…)`, or give each process input nodes of its own",
    "edge_index": "batches of PyG's data have `e_id` without it",
}

# Arguments of loaders that their samplers have, with their defaults.
_OF_SAMPLERS = {
    "replace": False,
    "subgraph_type": "directional",
    "disjoint": False,
    "temporal_strategy": "uniform",
    "weight_attr": None,
    "is_sorted": False,
}

# Arguments of samplers that are no arguments of PyG's loaders, with their defaults.
_OWN = {"sampler": "neighbor", "batch_dependency": None}


class NeighborLoader(ThreadedLoading, torch_geometric.loader.NeighborLoader):
    """A loader of the neighborhoods of nodes of a PyG graph. :class:`edgecut.NeighborLoader` describes its arguments."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        whole = _plain(data)
        _check_type("input_nodes", input_nodes, whole, getattr(whole, "node_types", []))
        neighbor_sampler = _sampler(data, num_neighbors, locals(), **_own_arguments(kwargs))
        super().__init__(
            whole,
            num_neighbors,
            input_nodes=input_nodes,
            input_time=input_time,
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **loader_arguments(type(self).__name__, kwargs, seed),
        )
        _check_length("input_time", self.input_data.time, len(self.input_data.node), "input nodes")


class LinkNeighborLoader(ThreadedLoading, torch_geometric.loader.LinkNeighborLoader):
    """A loader of the neighborhoods of edges of a PyG graph. :class:`edgecut.LinkNeighborLoader` describes its arguments."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        exclude_seed_edges: bool | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        whole = _plain(data)
        _check_type("edge_label_index", edge_label_index, whole, getattr(whole, "edge_types", []))
        own = {"exclude_seed_edges": exclude_seed_edges, **_own_arguments(kwargs)}
        neighbor_sampler = _sampler(data, num_neighbors, locals(), **own)
        super().__init__(
            whole,
            num_neighbors,
            edge_label_index=edge_label_index,
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **loader_arguments(type(self).__name__, kwargs, seed),
        )
        for name, values in (("edge_label", self.input_data.label), ("edge_label_time", self.input_data.time)):
            _check_length(name, values, len(self.input_data.row), "edges")


def _sampler(data: Any, num_neighbors: Any, arguments: Mapping[str, Any], **more: Any) -> Any:
    """Return the sampler of a loader: that given, or a new one with the arguments of the loader."""
    settings = {name: arguments[name] for name in _OF_SAMPLERS} | more
    settings["subgraph_type"] = _subgraph_type(settings["subgraph_type"], arguments["directed"])
    given = arguments["neighbor_sampler"]
    if given is None:
        return NeighborSampler(data, num_neighbors, time_attr=arguments["time_attr"], **settings)
    for name, default in {**_OF_SAMPLERS, **dict.fromkeys(more), **_OWN}.items():
        if settings[name] != default:
            raise ValueError(f"`{name}` is a setting of the sampler: pass it to `neighbor_sampler`")
    return given


def _own_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments of the sampler out of the arguments of PyTorch's loader, which may have a sampler as well."""
    own = dict(_OWN)
    if isinstance(kwargs.get("sampler"), str):
        own["sampler"] = kwargs.pop("sampler")
    own["batch_dependency"] = kwargs.pop("batch_dependency", None)
    return own


def _check_length(name: str, values: Any, expected: int, of_what: str) -> None:
    if values is not None and len(values) != expected:
        raise ValueError(f"`{name}` has {len(values)} entries for {expected} {of_what}")


def _check_type(argument: str, given: Any, data: Any, types: list[Any]) -> None:
    """Reject inputs of typed data that name no type, for which PyG has an assertion without a text."""
    if not isinstance(data, HeteroData):
        return
    name = tuple(given) if isinstance(given, list) else given
    if isinstance(name, tuple) and len(name) == 2 and not all(isinstance(part, str) for part in name):
        # A type and its inputs. Edges to predict can have a type of their own.
        name, ids = name
        if isinstance(name, tuple) and ids is not None and {name[0], name[-1]} <= set(data.node_types):
            return
    # As in PyG, two names stand for the edge type between them.
    if name in types or any(name == (key[0], key[-1]) for key in types if isinstance(key, tuple)):
        return
    raise ValueError(f"`{argument}` names none of the types {', '.join(map(str, types))}")


def _plain(data: Any) -> Any:
    """Return the graph as PyG has it."""
    return data.data if isinstance(data, PygGraph) else data


def _subgraph_type(subgraph_type: Any, directed: bool) -> Any:
    if directed:
        return subgraph_type
    warnings.warn("`directed=False` is deprecated: use `subgraph_type='induced'`", stacklevel=5)
    return "induced"


def loader_arguments(loader: str, kwargs: Mapping[str, Any], seed: int | None = None) -> dict[str, Any]:
    """Return the arguments of PyTorch's loader."""
    arguments = dict(kwargs)
    for name, remedy in _OF_STORES.items():
        if arguments.pop(name, None) is not None:
            raise TypeError(f"{loader} of PyG's data has no argument `{name}`: {remedy}")
    if arguments.pop("multiprocessing_context", None) is not None:
        warnings.warn("`multiprocessing_context` has no effect: threads make the batches", stacklevel=4)
    if seed is not None:
        if arguments.get("generator") is not None:
            raise ValueError("`seed` and `generator` exclude each other: both choose the random numbers")
        arguments["generator"] = SeededGenerator()
        arguments["generator"].manual_seed(seed)
    return arguments
