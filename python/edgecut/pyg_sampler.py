"""Edgecut's sampler as a ``BaseSampler`` of PyG."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    NumNeighbors,
    SamplerOutput,
)
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from . import _edgecut, arguments
from .batch_keys import current_key
from .neighborhood import Neighborhood, induced, ranges
from .pyg_data import PygGraph, Structure, as_graph, integers

__all__ = ["GraphSampler", "NeighborSampler", "to_sampler_output"]

_NO_IDS = np.empty(0, np.int64)


class GraphSampler(BaseSampler):
    """A sampler of a PyG graph, which it shares with other samplers. It can be pickled."""

    def __init__(self, graph: PygGraph, time_attr: str | None = None, weight_attr: str | None = None) -> None:
        self.graph = graph
        self.time_attr, self.weight_attr = time_attr, weight_attr
        self._structure: Structure = graph.structure(time_attr, weight_attr)

    @property
    def edge_permutation(self) -> Any:
        perms = {name: edges.perm for name, edges in self._structure.edges.items()}
        return perms if self.graph.is_heterogeneous else perms[None]

    def _check_seeds(self, seeds: list[np.ndarray]) -> None:
        """Check that seeds, by node type, are nodes of the graph, which has not changed."""
        self.graph.check(self._structure, self.time_attr, self.weight_attr)
        for name, ids in zip(self.graph.node_types, seeds):
            num_nodes = self.graph.num_nodes[name]
            if len(ids) > 0 and not 0 <= ids.min() <= ids.max() < num_nodes:
                wrong = ids.min() if ids.min() < 0 else ids.max()
                of_type = "" if name is None else f" of type {name!r}"
                raise ValueError(f"node {wrong} is not one of the {num_nodes} nodes{of_type}")

    def __getstate__(self) -> dict[str, Any]:
        # The process that gets the sampler groups the edges and makes the native sampler itself.
        return {**self.__dict__, "_structure": None, "_native": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._structure = self.graph.structure(self.time_attr, self.weight_attr)


@dataclass
class _SeedEdges:
    """The seed edges of a batch.

    The seeds of a neighborhood are sources with those of negative pairs, then destinations with those of negative pairs:
    `num_pairs` of each. Negatives belong to the edges in turn.
    """

    src: np.ndarray
    dst: np.ndarray
    edge_type: Any
    num_pairs: int

    @classmethod
    def new(cls, graph: PygGraph, inputs: EdgeSamplerInput, negatives: NegativeSampling | None) -> _SeedEdges:
        src, dst = _ids(inputs.row, "edge_label_index"), _ids(inputs.col, "edge_label_index")
        num_pairs = len(src)
        if negatives is not None and negatives.is_binary():
            num_pairs += math.ceil(len(src) * negatives.amount)
        name = inputs.input_type
        edge_type = None if name is None else arguments.whole_edge_type(tuple(name), graph.edge_types, "input_type")
        return cls(src, dst, edge_type, max(num_pairs, 1))

    def excluded(self, graph: PygGraph, reverse_types: list[Any], num_seeds: int | None) -> list[dict[str, Any]]:
        """Return the seed edges and their reverses by edge type.

        With `num_seeds` disjoint neighborhoods, an edge is excluded from the neighborhoods of its own ends and negatives.
        """
        src, dst, batch = self.src, self.dst, None
        if num_seeds is not None:
            batch = np.arange(num_seeds)
            edges = batch % self.num_pairs % max(len(src), 1)
            src, dst = src[edges], dst[edges]
        forth, back = {"src": src, "dst": dst, "batch": batch}, {"src": dst, "dst": src, "batch": batch}
        of_types = {key: back for key in reverse_types}
        of_types[self.edge_type] = forth
        if self.edge_type is None or self.edge_type[0] == self.edge_type[-1]:
            both = {
                "src": np.concatenate([src, dst]),
                "dst": np.concatenate([dst, src]),
                "batch": None if batch is None else np.concatenate([batch, batch]),
            }
            of_types = dict.fromkeys(of_types, both)
        none = {"src": _NO_IDS, "dst": _NO_IDS, "batch": None if batch is None else _NO_IDS}
        return [of_types.get(key, none) for key in graph.edge_types]


class NeighborSampler(GraphSampler):
    """A sampler of the neighborhoods of nodes and edges of a PyG graph, with the arguments of PyG's ``NeighborSampler``.

    It yields PyG's ``SamplerOutput``, or ``HeteroSamplerOutput`` if the graph has types. Threads may use it at the same time.
    Unlike PyG's own, it needs neither ``pyg-lib`` nor ``torch-sparse``.

    Parameters
    ----------
    data : Data, HeteroData, pair of FeatureStore and GraphStore, or PygGraph
        The graph.
    num_neighbors : list of int, dict of edge type to list of int, or NumNeighbors
        The number of neighbors per hop; -1 for all.
    exclude_seed_edges : bool, default False
        Let no message flow over the edges that :meth:`sample_from_edges` gets and their reverses: edges of the same type,
        edges of the type ``rev_X`` for a type ``X``, and edges of the types in ``reverse_types``. With disjoint
        neighborhoods, an edge is excluded from the neighborhoods of its own ends and negatives only.
    reverse_types : list of pairs of edge types, optional
        Edge types that are each other's reverse, besides those that their names tell. An edge type is a tuple, or a text as in the
        configuration of a model.
    sampler, batch_dependency
        As for :class:`edgecut.NeighborLoader`.

    The other parameters are those of :class:`edgecut.NeighborLoader`.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        *,
        exclude_seed_edges: bool | None = False,
        reverse_types: Any = None,
        sampler: str = "neighbor",
        batch_dependency: int | None = None,
    ) -> None:
        arguments.check_strategy(temporal_strategy, time_attr)
        super().__init__(as_graph(data, is_sorted), time_attr, weight_attr)
        self.subgraph_type = SubgraphType(subgraph_type)
        times = self._structure.times
        self.is_temporal = time_attr is not None
        self.disjoint = disjoint or self.is_temporal
        if self.is_temporal and self.subgraph_type == SubgraphType.induced:
            raise ValueError("`subgraph_type='induced'` has edges of any time, so it excludes `time_attr`")
        self.exclude_seed_edges = bool(exclude_seed_edges)
        # An empty list tells that no other types hold reverses.
        self._searches_reverses = reverse_types is None
        types = self.graph.edge_types
        pairs = arguments.reverse_pairs(reverse_types or [], types, self.exclude_seed_edges)
        self.reverse_types = [(types[one], types[other]) for one, other in pairs]
        self.num_neighbors = num_neighbors if isinstance(num_neighbors, NumNeighbors) else NumNeighbors(num_neighbors)
        if batch_dependency is not None:
            batch_dependency = arguments.whole_number(batch_dependency, "batch_dependency", least=1)
        self._settings = {
            "num_neighbors": self._fan_outs(),
            "sampler": sampler,
            "batch_dependency": batch_dependency,
            "replace": replace,
            "disjoint": self.disjoint,
            "weighted": weight_attr is not None,
            "time_attr": ("edge_time" if times.of_nodes is None else "node_time") if self.is_temporal else None,
            "temporal_strategy": temporal_strategy,
        }
        self._native = _edgecut.Sampler(self.graph.native(self._structure), self._settings)

    def _fan_outs(self) -> dict[str, Any]:
        graph = self.graph
        if not graph.is_heterogeneous:
            return {"others": _counts(self.num_neighbors.get_values()), "named": []}
        of_types = self.num_neighbors.get_values(graph.edge_types)
        named = [(f"e{number}", _counts(of_types[name])) for number, name in enumerate(graph.edge_types)]
        return {"others": None, "named": named}

    @property
    def num_nodes(self) -> Any:
        """The number of nodes, by type if there are types."""
        return dict(self.graph.num_nodes) if self.graph.is_heterogeneous else self.graph.num_nodes[None]

    @property
    def node_time(self) -> Any:
        """The times of nodes, by type if there are types."""
        of_nodes = self._structure.times.of_nodes
        return of_nodes if of_nodes is None or self.graph.is_heterogeneous else of_nodes[None]

    def sample_from_nodes(self, inputs: NodeSamplerInput, **kwargs: Any) -> SamplerOutput | HeteroSamplerOutput:
        return self._converted(node_sample(NodeSamplerInput.cast(inputs), self._sample))

    def sample_from_edges(
        self, inputs: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        inputs = EdgeSamplerInput.cast(inputs)
        if neg_sampling is not None:
            neg_sampling = _KeyedNegatives(NegativeSampling.cast(neg_sampling))
        sample = functools.partial(self._sample, seed_edges=_SeedEdges.new(self.graph, inputs, neg_sampling))
        num_nodes = self.num_nodes
        return self._converted(edge_sample(inputs, sample, num_nodes, self.disjoint, self.node_time, neg_sampling))

    def _converted(self, out: Any) -> Any:
        if self.subgraph_type == SubgraphType.bidirectional:
            return out.to_bidirectional()
        return out

    def _sample(self, seed: Any, seed_time: Any = None, *, seed_edges: _SeedEdges | None = None) -> Any:
        """Sample the neighborhood of seeds, which are a dict if the graph has types."""
        of_types = seed if isinstance(seed, Mapping) else {None: seed}
        seeds = [_ids(of_types.get(name), "seeds") for name in self.graph.node_types]
        times = seed_time if isinstance(seed_time, Mapping) or seed_time is None else {None: seed_time}
        excluded = []
        if seed_edges is not None and self.exclude_seed_edges:
            num_seeds = sum(map(len, seeds)) if self.disjoint else None
            excluded = seed_edges.excluded(self.graph, self._reverse_types(seed_edges.edge_type), num_seeds)
        found = self.neighborhood(seeds, times, excluded)
        for nodes in found.nodes:
            if seed_edges is not None and nodes.batch is not None:
                # PyG takes the remainder by the number of edges, which is right for the position of a pair.
                nodes.batch = nodes.batch % seed_edges.num_pairs
        return to_sampler_output(found, self.graph)

    def neighborhood(
        self,
        seeds: list[np.ndarray],
        times: Mapping[Any, Tensor] | None = None,
        excluded: list[dict[str, Any]] | None = None,
    ) -> Neighborhood:
        """Sample the neighborhood of seeds, by node type, without edges that are excluded, by edge type."""
        graph = self.graph
        self._check_seeds(seeds)
        if times is not None and not self.is_temporal:
            raise ValueError("`input_time` and `edge_label_time` need a sampler with `time_attr`, and this one has none")
        key, batch = current_key()
        inputs = {
            "nodes": seeds,
            "times": self._seed_times(seeds, times) if self.is_temporal else None,
            "excluded": excluded or [],
            "seed": key % 2**64,
            "batch": batch,
        }
        found = Neighborhood.sample(self._native, self.disjoint, inputs, graph.ends)
        if self.subgraph_type == SubgraphType.induced:
            found = induced(found, graph.ends, self._structure.arrays, excluded)
        return found

    def _seed_times(self, seeds: list[np.ndarray], times: Mapping[Any, Tensor] | None) -> np.ndarray:
        """Return the time of each seed: that given, or that of the node itself."""
        of_nodes = self._structure.times.of_nodes or {}
        all_times = []
        for name, ids in zip(self.graph.node_types, seeds):
            if len(ids) == 0:
                continue
            if times is not None:
                given = times[name]
                if len(given) != len(ids):
                    raise ValueError(f"`input_time` has {len(given)} entries for {len(ids)} input nodes")
            elif name in of_nodes:
                given = of_nodes[name][torch.from_numpy(ids)]
            else:
                raise ValueError(
                    f"`time_attr`: the input nodes have no times of their own, so pass `input_time` (type {name!r})"
                )
            all_times.append(_ids(given, "input_time"))
        return np.concatenate([_NO_IDS, *all_times])

    def _reverse_types(self, name: Any) -> list[Any]:
        """Return the edge types with the reverses of an edge type, besides the type itself."""
        if name is None:
            return []
        found = [key for key in self.graph.edge_types if _edgecut.are_reverses(name, key)]
        for one, other in self.reverse_types:
            found += [other] * (name == one) + [one] * (name == other)
        back = [key for key in self.graph.edge_types if (key[0], key[-1]) == (name[-1], name[0])]
        is_bidirectional = self.subgraph_type == SubgraphType.bidirectional and name in self.graph.edge_types
        if is_bidirectional and len(back) == 1:
            # PyG adds the reverses of these edges, whatever their name.
            found += back
        return found

    def undeclared_reverses(self, name: Any, src: Tensor, dst: Tensor) -> list[Any]:
        """Return the edge types with the reverses of at least half of some edges of a type, besides the known ones.

        There are none if the sampler was made with `reverse_types`.
        """
        if name is None or not (self.exclude_seed_edges and self._searches_reverses) or len(src) == 0:
            return []
        sources, destinations = src.numpy(), dst.numpy()
        times = self._structure.times.of_edges or {}
        known = {name, *self._reverse_types(name)}
        found = []
        for number, key in enumerate(self.graph.edge_types):
            # Two nodes may meet again, at another time.
            if key in known or (key[0], key[-1]) != (name[-1], name[0]) or {name, key} <= times.keys():
                continue
            starts = self._structure.edges[key].colptr.numpy()
            counts = starts[sources + 1] - starts[sources]
            neighbors = self._structure.sources(number)[ranges(starts[sources], counts)]
            is_reverse = neighbors == np.repeat(destinations, counts)
            num_found = len(np.unique(np.repeat(np.arange(len(sources)), counts)[is_reverse]))
            if 2 * num_found >= len(sources):
                found.append(key)
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._native = _edgecut.Sampler(self.graph.native(self._structure), self._settings)


class _KeyedNegatives(NegativeSampling):
    """Negatives as PyG draws them, from random numbers of the batch."""

    def __init__(self, settings: NegativeSampling) -> None:
        super().__init__(settings.mode, settings.amount, settings.src_weight, settings.dst_weight)
        seed, batch = current_key()
        # Batches of a seed need different numbers.
        mixed = np.random.SeedSequence([seed % 2**64, batch]).generate_state(1, np.uint64)[0]
        self._generator = torch.Generator().manual_seed(int(mixed) % 2**63)

    def sample(self, num_samples: int, endpoint: str = "dst", num_nodes: Any = None) -> Tensor:
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is None:
            return torch.randint(num_nodes, (num_samples,), generator=self._generator)
        if num_nodes is not None and weight.numel() != num_nodes:
            raise ValueError(f"`neg_sampling`: `{endpoint}_weight` has {weight.numel()} entries for {num_nodes} nodes")
        return torch.multinomial(weight.cpu(), num_samples, replacement=True, generator=self._generator)


def _ids(values: Any, name: str) -> np.ndarray:
    return _NO_IDS if values is None else integers(values, name).numpy()


def _counts(numbers: Any) -> list[int]:
    return arguments.integers(numbers, "num_neighbors").tolist()


def to_sampler_output(found: Neighborhood, graph: PygGraph) -> SamplerOutput | HeteroSamplerOutput:
    """Return a neighborhood as PyG has it."""
    if not graph.is_heterogeneous:
        nodes, edges = found.nodes[0], found.edges[0]
        return SamplerOutput(
            node=torch.from_numpy(nodes.ids),
            row=torch.from_numpy(edges.row),
            col=torch.from_numpy(edges.col),
            edge=torch.from_numpy(edges.positions),
            batch=None if nodes.batch is None else torch.from_numpy(nodes.batch),
            num_sampled_nodes=nodes.per_hop,
            num_sampled_edges=edges.per_hop,
        )
    of_nodes = dict(zip(graph.node_types, found.nodes))
    of_edges = dict(zip(graph.edge_types, found.edges))
    batch = {name: torch.from_numpy(nodes.batch) for name, nodes in of_nodes.items() if nodes.batch is not None}
    is_counted = all(nodes.per_hop is not None for nodes in found.nodes)
    return HeteroSamplerOutput(
        node={name: torch.from_numpy(nodes.ids) for name, nodes in of_nodes.items()},
        row={name: torch.from_numpy(edges.row) for name, edges in of_edges.items()},
        col={name: torch.from_numpy(edges.col) for name, edges in of_edges.items()},
        edge={name: torch.from_numpy(edges.positions) for name, edges in of_edges.items()},
        batch=batch or None,
        num_sampled_nodes={name: nodes.per_hop for name, nodes in of_nodes.items()} if is_counted else None,
        num_sampled_edges={name: edges.per_hop for name, edges in of_edges.items()} if is_counted else None,
    )
