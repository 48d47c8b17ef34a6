"""Loaders of PyG's graphs in memory, in place of PyG's own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch_geometric.loader
from torch_geometric.sampler import EdgeSamplerInput, NumNeighbors

from . import pyg_arguments
from .arguments import refuse_both_negatives, whole_number
from .batch_keys import SeededGenerator
from .prefetch import ThreadedLoading
from .pyg_data import PygGraph, as_graph, integers
from .pyg_sampler import NeighborSampler

__all__ = ["LinkNeighborLoader", "NeighborLoader", "loader_arguments", "refuse_own_arguments"]

# Arguments of loaders of a Store, and what to do instead.
_OF_STORES = {
    "output": "PyG's data has batches of PyG; open a folder by `edgecut.open` for dicts of arrays",
    "even_batches": "use `sampler=torch.utils.data.DistributedSampler(…)`, or give each process input nodes of its own",
    "edge_index": "batches of PyG's data have `e_id` without it",
}

# The most edges that are looked up in edge types of the opposite direction.
_MAX_LOOKED_UP = 1000

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
        graph = as_graph(data, is_sorted)
        neighbor_sampler = _sampler(graph, num_neighbors, locals(), **_own_arguments(kwargs))
        more = loader_arguments(type(self).__name__, kwargs, seed)
        nodes = pyg_arguments.input_nodes(graph, input_nodes, more.pop("input_id", None))
        super().__init__(
            graph.data,
            num_neighbors,
            **nodes,
            input_time=None if input_time is None else integers(input_time, "input_time"),
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **more,
        )
        self.input_nodes = input_nodes
        pyg_arguments.check_length("input_time", self.input_data.time, len(self.input_data.node), "input nodes")


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
        reverse_types: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_both_negatives(neg_sampling, neg_sampling_ratio)
        graph = as_graph(data, is_sorted)
        own = {"exclude_seed_edges": exclude_seed_edges, "reverse_types": reverse_types, **_own_arguments(kwargs)}
        neighbor_sampler = _sampler(graph, num_neighbors, locals(), **own)
        more = loader_arguments(type(self).__name__, kwargs, seed)
        if more.get("input_id") is not None:
            more["input_id"] = integers(more["input_id"], "input_id")
        super().__init__(
            graph.data,
            num_neighbors,
            edge_label_index=pyg_arguments.edges_to_predict(graph, edge_label_index),
            time_attr=time_attr,
            neighbor_sampler=neighbor_sampler,
            edge_label=pyg_arguments.labels(edge_label),
            edge_label_time=None if edge_label_time is None else integers(edge_label_time, "edge_label_time"),
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **more,
        )
        self.edge_label_index = edge_label_index
        if self.neg_sampling is not None and not math.isfinite(self.neg_sampling.amount):
            raise ValueError(f"`neg_sampling`: the amount is {self.neg_sampling.amount}, but must be a positive number")
        inputs = self.input_data
        for name, values in (("edge_label", edge_label), ("edge_label_time", inputs.time), ("input_id", inputs.input_id)):
            pyg_arguments.check_length(name, values, len(inputs.row), "edges")
        if isinstance(self.link_sampler, NeighborSampler):
            _warn_of_reverses(self.link_sampler, inputs)


def _warn_of_reverses(sampler: NeighborSampler, edges: EdgeSamplerInput) -> None:
    """Warn of edge types that seem to hold the reverses of the edges to predict."""
    name = edges.input_type
    for key in sampler.undeclared_reverses(name, edges.row[:_MAX_LOOKED_UP].cpu(), edges.col[:_MAX_LOOKED_UP].cpu()):
        warnings.warn(
            f"`exclude_seed_edges`: the reverses of most edges of {name} are edges of {key}: if that type holds the reverse edges, "
            f"messages over it tell which edges exist: pass `reverse_types=[({name}, {key})]`, or `reverse_types=[]` if it holds "
            "other edges",
            stacklevel=4,
        )


def _sampler(graph: PygGraph, num_neighbors: Any, arguments: Mapping[str, Any], **more: Any) -> Any:
    """Return the sampler of a loader: that given, or a new one with the arguments of the loader."""
    settings = {name: arguments[name] for name in _OF_SAMPLERS} | more
    settings["subgraph_type"] = _subgraph_type(settings["subgraph_type"], arguments["directed"])
    given, time_attr = arguments["neighbor_sampler"], arguments["time_attr"]
    if given is None:
        # The graph knows whether its edges are sorted.
        settings["is_sorted"] = False
        return NeighborSampler(graph, num_neighbors, time_attr=time_attr, **settings)
    if isinstance(given, NeighborSampler) and given.graph is not graph and given.graph.data is not graph.data:
        raise ValueError("the `neighbor_sampler` samples another graph: make it from the data of the loader")
    for name, default in {**_OF_SAMPLERS, **dict.fromkeys(more), **_OWN}.items():
        if settings[name] != default:
            raise ValueError(f"`{name}` is a setting of the sampler: pass it to `neighbor_sampler`")
    if num_neighbors is not None:
        numbers = num_neighbors if isinstance(num_neighbors, NumNeighbors) else NumNeighbors(num_neighbors)
        if numbers != getattr(given, "num_neighbors", None):
            raise ValueError("`num_neighbors` is a setting of the sampler: pass None with a `neighbor_sampler`")
    if time_attr is not None and not _has_times(given, time_attr):
        raise ValueError(f"`time_attr` is {time_attr!r}, but the `neighbor_sampler` has other times or none: pass it to the sampler")
    return given


def _has_times(sampler: Any, time_attr: str) -> bool:
    """Return whether a sampler has these times, as far as it tells."""
    if isinstance(sampler, NeighborSampler):
        return sampler.time_attr == time_attr
    return getattr(sampler, "node_time", None) is not None or getattr(sampler, "edge_time", None) is not None


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
        arguments["generator"] = SeededGenerator.of(whole_number(seed, "seed"))
    return arguments


def _own_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments of the sampler out of the arguments of PyTorch's loader, which may have a sampler as well."""
    own = dict(_OWN)
    if isinstance(kwargs.get("sampler"), str):
        own["sampler"] = kwargs.pop("sampler")
    own["batch_dependency"] = kwargs.pop("batch_dependency", None)
    return own


def refuse_own_arguments(loader: str, kwargs: dict[str, Any]) -> None:
    """Reject the arguments of a :class:`NeighborSampler` for a loader with another sampler."""
    for name, value in _own_arguments(kwargs).items():
        if value != _OWN[name]:
            raise ValueError(f"`{name}` is {value!r}, but {loader} has no layer-neighbor sampling: use NeighborLoader")
