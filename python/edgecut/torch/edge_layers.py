"""Layers over features and weights of edges that PyG lacks, and the encoding of times.

The names of their tensors in a model file are in ``edgecut_tensors``, as in the layers that :mod:`.convs` describes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.nn import RGCNConv
from torch_geometric.nn.aggr import DegreeScalerAggregation
from torch_geometric.utils import scatter, softmax

from .blocks import Block
from .convs import NamedTensors, tensors_of

__all__ = ["EdgeAggregation", "EdgeRgcn", "Hgt", "Pna", "TimeEncoder", "aggregate_edges"]

Blocks = "list[Block]"


def aggregate_edges(
    rows: Tensor, index: Tensor, num_dst: int, aggregation: str, weight: Tensor | None, divides_by_weights: bool
) -> Tensor:
    """Return the aggregated rows of the edges of each destination.

    Parameters
    ----------
    rows : Tensor
        A row per edge.
    index : Tensor
        The destination of each edge.
    num_dst : int
        The number of destinations.
    aggregation : str
        ``"mean"``, ``"sum"`` or ``"max"``.
    weight : Tensor or None
        A factor per edge, for means and sums.
    divides_by_weights : bool
        Divide a weighted mean by the sum of the weights, not by the number of edges.
    """
    if weight is None:
        return scatter(rows, index, 0, num_dst, reduce=aggregation)
    rows = rows * weight.unsqueeze(1)
    if aggregation != "mean" or not divides_by_weights:
        return scatter(rows, index, 0, num_dst, reduce=aggregation)
    total = scatter(weight, index, 0, num_dst, reduce="sum").unsqueeze(1)
    # Without edges, or with weights of 0, the sum is 0.
    return scatter(rows, index, 0, num_dst, reduce="sum") / total.masked_fill(total == 0, 1.0)


class EdgeAggregation(torch.nn.Module):
    """The layers ``sage`` and ``graphconv`` over features and weights of edges: they aggregate the concatenated rows of
    neighbors and edges.

    Parameters
    ----------
    kind : str
        ``"sage"`` or ``"graphconv"``.
    channels : tuple of int
        The columns of the input and of the output.
    edge_dim : int
        The features of an edge, 0 without.
    aggregation : str
        ``"mean"``, ``"sum"`` or ``"max"``.
    is_message : bool
        Leave out the rows of the nodes themselves and the bias, for the messages of an edge type.
    """

    def __init__(self, kind: str, channels: tuple[int, int], edge_dim: int, aggregation: str, is_message: bool) -> None:
        super().__init__()
        self.kind = kind
        self.aggregation = aggregation
        fan_in, fan_out = channels
        self.lin_neighbors = torch.nn.Linear(fan_in, fan_out, bias=not is_message)
        self.lin_root = None if is_message else torch.nn.Linear(fan_in, fan_out, bias=False)
        self.lin_edge = torch.nn.Linear(edge_dim, fan_out, bias=False) if edge_dim > 0 else None
        root = "weight_self" if kind == "sage" else "weight_root"
        self.edgecut_tensors = {
            "weight_neighbors": "lin_neighbors.weight",
            "bias": "lin_neighbors.bias",
            root: "lin_root.weight",
            "weight_edge": "lin_edge.weight",
        }

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        src, dst = x if isinstance(x, tuple) else (x, x)
        rows = src[edge_index[0]]
        if self.lin_edge is not None:
            rows = torch.cat([rows, edge_attr], dim=1)
        # PyG's GraphConv divides by the number of edges.
        by_weights = self.kind == "sage"
        rows = aggregate_edges(rows, edge_index[1], len(dst), self.aggregation, edge_weight, by_weights)
        output = self.lin_neighbors(rows[:, : src.size(1)])
        if self.lin_edge is not None:
            output = output + self.lin_edge(rows[:, src.size(1) :])
        return output if self.lin_root is None else output + self.lin_root(dst)


class Pna(torch.nn.Module):
    """The layer ``pna``: PyG's ``PNAConv`` with one tower, also between two sets of nodes, and for the messages of an edge
    type.

    Parameters
    ----------
    channels : tuple of int
        The columns of the input and of the output.
    edge_dim : int
        The features of an edge, 0 without.
    mean_degree : int
        The typical number of edges of a node, at which the scale by degrees is 1.
    is_message : bool
        Leave out the rows of the nodes themselves and the last layer, for the messages of an edge type.
    """

    def __init__(self, channels: tuple[int, int], edge_dim: int, mean_degree: int, is_message: bool) -> None:
        super().__init__()
        fan_in, fan_out = channels
        self.is_message = is_message
        self.pre = torch.nn.Linear((3 if edge_dim > 0 else 2) * fan_in, fan_in)
        self.edge = torch.nn.Linear(edge_dim, fan_in) if edge_dim > 0 else None
        self.post = torch.nn.Linear((12 if is_message else 13) * fan_in, fan_out, bias=not is_message)
        self.lin = None if is_message else torch.nn.Linear(fan_out, fan_out)
        # The histogram of a graph whose nodes have the same degree.
        degrees = torch.zeros(mean_degree + 1, dtype=torch.long)
        degrees[mean_degree] = 1
        scalers = ["identity", "amplification", "attenuation"]
        self.aggregation = DegreeScalerAggregation(["mean", "min", "max", "std"], scalers, degrees)
        self.edgecut_tensors = {
            "pre.weight": "pre.weight",
            "pre.bias": "pre.bias",
            "edge.weight": "edge.weight",
            "edge.bias": "edge.bias",
            "post": "post.weight",
            "post_bias": "post.bias",
            "lin.weight": "lin.weight",
            "lin.bias": "lin.bias",
        }

    def forward(
        self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        src, dst = x if isinstance(x, tuple) else (x, x)
        columns = [dst[edge_index[1]], src[edge_index[0]]]
        if self.edge is not None:
            columns.append(self.edge(edge_attr))
        rows = self.aggregation(self.pre(torch.cat(columns, dim=1)), edge_index[1], dim_size=len(dst))
        if self.lin is None:
            return self.post(rows)
        return self.lin(self.post(torch.cat([dst, rows], dim=1)))


class EdgeRgcn(torch.nn.Module):
    """An ``RGCNConv`` over the nodes of all types, whose means are also over the features of edges, with their weights.

    Parameters
    ----------
    conv : RGCNConv
        The parameters besides the weights of features of edges.
    ends : list of tuple of int
        The node types of the sources and the destinations of each edge type.
    edge_dims : list of int
        The features of the edges of each type, 0 without.
    """

    def __init__(self, conv: RGCNConv, ends: list[tuple[int, int]], edge_dims: list[int]) -> None:
        super().__init__()
        self.conv = conv
        self.ends = ends
        out = conv.out_channels
        self.edge_weights = torch.nn.ModuleDict(
            {str(r): torch.nn.Linear(dim, out, bias=False) for r, dim in enumerate(edge_dims) if dim > 0}
        )

    def _weight(self, relation: int) -> Tensor:
        weight = self.conv.weight
        if self.conv.num_bases is not None:
            return torch.einsum("b,bio->io", self.conv.comp[relation], weight)
        return weight[relation] if self.conv.num_blocks is None else torch.block_diag(*weight[relation])

    def forward(self, rows: list[Tensor], blocks: Blocks) -> dict[int, Tensor]:
        outputs = {dst: rows[dst] @ self.conv.root + self.conv.bias for _, dst in self.ends}
        for relation, ((src, dst), block) in enumerate(zip(self.ends, blocks)):
            source, index = block.edge_index
            means = aggregate_edges(rows[src][source], index, len(rows[dst]), "mean", block.edge_weight, True)
            outputs[dst] = outputs[dst] + means @ self._weight(relation)
            if str(relation) in self.edge_weights:
                means = aggregate_edges(block.edge_attr, index, len(rows[dst]), "mean", block.edge_weight, True)
                outputs[dst] = outputs[dst] + self.edge_weights[str(relation)](means)
        return outputs

    def named_tensors(self, before: str) -> NamedTensors:
        yield from tensors_of(self.conv, f"{before}conv.rgcn.")
        for relation, linear in self.edge_weights.items():
            yield f"{before}conv.rgcn.edge_weights.{relation}", linear.weight.detach()


class Hgt(torch.nn.Module):
    """A layer of a heterogeneous graph transformer, PyG's ``HGTConv`` with features of edges in keys and values.

    Parameters
    ----------
    channels : int
        The columns of the input and of the output.
    heads : int
        The number of attention heads.
    dropout : float
        The probability of dropout of the attention weights.
    ends : list of tuple of int
        The node types of the sources and the destinations of each edge type.
    edge_dims : list of int
        The features of the edges of each type, 0 without.
    """

    def __init__(
        self, channels: int, heads: int, dropout: float, ends: list[tuple[int, int]], edge_dims: list[int]
    ) -> None:
        super().__init__()
        if channels % heads != 0:
            raise ValueError(f"{heads} heads do not divide {channels} channels")
        self.heads, self.of_head, self.dropout, self.ends = heads, channels // heads, dropout, ends
        sources, destinations = {src for src, _ in ends}, {dst for _, dst in ends}
        self.keys = _linears(sources, channels)
        self.values = _linears(sources, channels)
        self.queries = _linears(destinations, channels)
        self.outputs = _linears(destinations, channels)
        self.skips = torch.nn.ParameterDict({str(t): torch.nn.Parameter(torch.ones(1)) for t in sorted(destinations)})
        self.key_relations = self._relations()
        self.value_relations = self._relations()
        self.priors = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(heads)) for _ in ends])
        with_features = [(str(r), dim) for r, dim in enumerate(edge_dims) if dim > 0]
        self.edge_keys = torch.nn.ModuleDict({r: torch.nn.Linear(d, channels, bias=False) for r, d in with_features})
        self.edge_values = torch.nn.ModuleDict({r: torch.nn.Linear(d, channels, bias=False) for r, d in with_features})

    def _relations(self) -> torch.nn.ParameterList:
        shape, bound = (self.heads, self.of_head, self.of_head), self.of_head**-0.5
        return torch.nn.ParameterList([torch.nn.Parameter(torch.empty(shape).uniform_(-bound, bound)) for _ in self.ends])

    def forward(self, rows: list[Tensor], blocks: Blocks) -> dict[int, Tensor]:
        outputs = {}
        for number, output in self.outputs.items():
            t = int(number)
            queries = self.queries[number](rows[t]).view(-1, self.heads, self.of_head)
            edges = [
                (*self._edges(r, rows[src], queries, block), block.edge_index[1])
                for r, ((src, dst), block) in enumerate(zip(self.ends, blocks))
                if dst == t
            ]
            scores, values, index = (torch.cat(parts) for parts in zip(*edges))
            weights = softmax(scores, index, num_nodes=len(queries))
            weights = torch.nn.functional.dropout(weights, self.dropout, self.training)
            attended = torch.zeros_like(queries).index_add(0, index, values * weights.unsqueeze(2))
            share = self.skips[number].sigmoid()
            x = output(torch.nn.functional.gelu(attended.flatten(1)))
            outputs[t] = share * x + (1 - share) * rows[t]
        return outputs

    def _edges(self, relation: int, x: Tensor, queries: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Return the scores and the values of the edges of one type."""
        src, dst = block.edge_index
        name, source = str(relation), str(self.ends[relation][0])
        found = []
        for linears, relations, of_edges in (
            (self.keys, self.key_relations, self.edge_keys),
            (self.values, self.value_relations, self.edge_values),
        ):
            of_nodes = linears[source](x).view(-1, self.heads, self.of_head)
            of_type = torch.einsum("nhi,hio->nho", of_nodes, relations[relation])[src]
            if name in of_edges:
                of_type = of_type + of_edges[name](block.edge_attr).view(-1, self.heads, self.of_head)
            found.append(of_type)
        keys, values = found
        return (queries[dst] * keys).sum(dim=2) * self.priors[relation] / math.sqrt(self.of_head), values

    def named_tensors(self, before: str) -> NamedTensors:
        before = f"{before}conv.hgt."
        for name in ("keys", "values", "queries", "outputs"):
            for number, linear in getattr(self, name).items():
                yield from tensors_of(linear, f"{before}{name}.{number}.")
        for number, skip in self.skips.items():
            yield f"{before}skips.{number}", skip.detach()
        for name in ("key_relations", "value_relations", "priors"):
            for number, parameter in enumerate(getattr(self, name)):
                yield f"{before}{name}.{number}", parameter.detach()
        for name in ("edge_keys", "edge_values"):
            for number, linear in getattr(self, name).items():
                yield f"{before}{name}.{number}", linear.weight.detach()


def _linears(node_types: set[int], channels: int) -> torch.nn.ModuleDict:
    return torch.nn.ModuleDict({str(t): torch.nn.Linear(channels, channels) for t in sorted(node_types)})


class TimeEncoder(torch.nn.Module):
    """The encoding of times, ``cos(w t + b)``, with the logarithms of ``w`` as parameters.

    Parameters
    ----------
    dim : int
        The number of columns.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        # As in `train`: from 1 to 1e-18, in equal ratios.
        exponents = torch.arange(dim) * (-18.0 / max(dim - 1, 1))
        self.log_frequencies = torch.nn.Parameter(exponents * math.log(10))
        self.phases = torch.nn.Parameter(torch.zeros(dim))

    def forward(self, ages: Tensor) -> Tensor:
        """Return the encoding of each time."""
        return torch.cos(ages.to(self.phases.dtype).view(-1, 1) * self.log_frequencies.exp() + self.phases)

    def named_tensors(self, before: str) -> NamedTensors:
        yield f"{before}log_frequencies", self.log_frequencies.detach()
        yield f"{before}phases", self.phases.detach()
