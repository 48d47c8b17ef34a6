"""Sampling for heterogeneous graph transformers (HGT), in place of PyG's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import EdgeSamplerInput, HeteroSamplerOutput, NodeSamplerInput

from .arguments import whole_number
from .batch_keys import current_key
from .neighborhood import Neighborhood, Nodes, induced, ranges
from .prefetch import ThreadedLoading
from .pyg_arguments import input_nodes as input_node_arguments
from .pyg_data import as_graph, integers
from .pyg_loaders import loader_arguments, refuse_own_arguments
from .pyg_sampler import GraphSampler, to_sampler_output

__all__ = ["HGTLoader", "HGTSampler"]


class HGTSampler(GraphSampler):
    """A sampler of a fixed number of nodes per type and layer, from the paper `Heterogeneous Graph Transformer
    <https://arxiv.org/abs/2003.01332>`_, algorithm 1.

    A neighbor of the nodes that were sampled so far gets the sum of 1 / in-degree over its edges to them. The squares of these
    sums are the probabilities of the next layer. The batch has all edges between its nodes.

    Parameters
    ----------
    data : HeteroData or PygGraph
        The graph.
    num_samples : list of int, or dict of node type to list of int
        The number of nodes per layer. A dict has a list of the same length for each node type.
    is_sorted : bool, default False
        Take the edges to be sorted by destination.
    """

    def __init__(self, data: Any, num_samples: Any, is_sorted: bool = False) -> None:
        super().__init__(as_graph(data, is_sorted))
        graph = self.graph
        if not graph.is_heterogeneous:
            raise ValueError("`data` has no types of nodes, which HGT needs: pass HeteroData, or use NeighborLoader")
        if not isinstance(num_samples, Mapping):
            num_samples = {name: num_samples for name in graph.node_types}
        for name in num_samples:
            if name not in graph.node_types:
                raise ValueError(f"`num_samples`: there is no node type {name!r}, only {', '.join(graph.node_types)}")
        lacking = [name for name in graph.node_types if name not in num_samples]
        if lacking:
            raise ValueError(f"`num_samples` lacks the node types {', '.join(lacking)}: give a list for each, with zeros to draw no nodes")
        self.num_samples = [[whole_number(number, "num_samples") for number in num_samples[name]] for name in graph.node_types]
        self.num_layers = max(map(len, self.num_samples))
        short = [name for name, numbers in zip(graph.node_types, self.num_samples) if len(numbers) < self.num_layers]
        if short:
            raise ValueError(f"`num_samples` has fewer than {self.num_layers} layers for the node types {', '.join(short)}: give zeros")

    def sample_from_nodes(self, inputs: NodeSamplerInput, **kwargs: Any) -> HeteroSamplerOutput:
        inputs = NodeSamplerInput.cast(inputs)
        if inputs.time is not None:
            raise ValueError("`input_time`: HGT samples nodes of any time, so use NeighborLoader with `time_attr`")
        key, batch = current_key()
        draw = np.random.default_rng([key % 2**64, batch])
        index = self.graph.node_types.index(inputs.input_type)
        sampled = [np.empty(0, np.int64) for _ in self.graph.node_types]
        sampled[index] = integers(inputs.node, "input_nodes").numpy()
        self._check_seeds(sampled)
        added = list(sampled)
        budgets = [(np.empty(0, np.int64), np.empty(0)) for _ in self.graph.node_types]
        arrays = self._structure.arrays
        for layer in range(self.num_layers):
            for (src, dst), (starts, sources) in zip(self.graph.ends, arrays):
                nodes = added[dst]
                counts = starts[nodes + 1] - starts[nodes]
                neighbors = sources[ranges(starts[nodes], counts)]
                budgets[src] = _sum_by_id(budgets[src], neighbors, np.repeat(1 / np.maximum(counts, 1), counts))
            for t, (ids, weights) in enumerate(budgets):
                is_new = ~np.isin(ids, sampled[t])
                ids, weights = ids[is_new], weights[is_new]
                number = self.num_samples[t][layer]
                # The largest of these keys are a sample without replacement (Efraimidis and Spirakis, 2006).
                keys = draw.standard_exponential(len(ids)) / weights**2
                chosen = np.sort(np.argsort(keys, kind="stable")[:number])
                added[t] = ids[chosen]
                sampled[t] = np.concatenate([sampled[t], added[t]])
                budgets[t] = (np.delete(ids, chosen), np.delete(weights, chosen))
        found = Neighborhood([Nodes(ids, None, None) for ids in sampled], [])
        out = to_sampler_output(induced(found, self.graph.ends, arrays), self.graph)
        out.metadata = (inputs.input_id, inputs.time)
        return out

    def sample_from_edges(self, inputs: EdgeSamplerInput, neg_sampling: Any = None) -> HeteroSamplerOutput:
        raise NotImplementedError("HGT samples around nodes: use LinkNeighborLoader for edges")


def _sum_by_id(
    budget: tuple[np.ndarray, np.ndarray], ids: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add weights to those of a budget. Its ids ascend."""
    distinct, numbers = np.unique(np.concatenate([budget[0], ids]), return_inverse=True)
    return distinct, np.bincount(numbers.ravel(), np.concatenate([budget[1], weights]), len(distinct))


class HGTLoader(ThreadedLoading, NodeLoader):
    """A loader with the arguments of PyG's ``HGTLoader``. It needs no ``torch-sparse``. See :class:`HGTSampler`."""

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        filter_per_worker: bool | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        sampler = HGTSampler(data, num_samples, is_sorted)
        refuse_own_arguments(type(self).__name__, kwargs)
        arguments = loader_arguments(type(self).__name__, kwargs, seed)
        nodes = input_node_arguments(sampler.graph, input_nodes, arguments.pop("input_id", None))
        super().__init__(
            sampler.graph.data,
            sampler,
            **nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **arguments,
        )
        self.input_nodes = input_nodes
