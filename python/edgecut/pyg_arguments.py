"""Arguments of loaders of PyG's data, as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from . import arguments
from .pyg_data import PygGraph, integers

__all__ = ["check_length", "edges_to_predict", "ids_of", "input_nodes", "labels"]


def input_nodes(graph: PygGraph, given: Any, input_id: Any = None, argument: str = "input_nodes") -> dict[str, Any]:
    """Return the arguments of PyG's ``NodeLoader`` that choose the input nodes.

    `given` has ids or a mask in any container, or None for all nodes; with types, a type, or a pair of a type and these.
    """
    node_type, nodes = _with_type(graph, given)
    ids, positions = ids_of(nodes, graph.num_nodes[node_type], argument)
    if positions is None:
        arguments.refuse_numeric_mask(ids, graph.num_nodes[node_type], argument, "nodes")
    if input_id is not None:
        positions = integers(input_id, "input_id")
        check_length("input_id", positions, len(ids), "input nodes")
    return {"input_nodes": ids if node_type is None else (node_type, ids), "input_id": positions}


def _with_type(graph: PygGraph, given: Any) -> tuple[Any, Any]:
    if not graph.is_heterogeneous:
        return None, given
    node_type, nodes = given, None
    if isinstance(given, (tuple, list)) and len(given) == 2:
        node_type, nodes = given
    if not isinstance(node_type, str) or node_type not in graph.node_types:
        raise ValueError(f"`input_nodes` names none of the types {', '.join(graph.node_types)}")
    return node_type, nodes


def ids_of(nodes: Any, num_nodes: int, argument: str) -> tuple[Tensor, Tensor | None]:
    """Return the ids of nodes that are given as ids, as a mask, or as None for all nodes.

    The second result has the number of each node for the batch, if that is not its position among the ids.
    """
    if nodes is None:
        return torch.arange(num_nodes), None
    if isinstance(nodes, Tensor):
        is_mask = nodes.dtype == torch.bool
    else:
        nodes = arguments.array(nodes, argument)
        is_mask = nodes.dtype == np.bool_
    if not is_mask:
        ids = integers(nodes, argument)
        _check_range(argument, ids, num_nodes)
        return ids, None
    if nodes.shape not in ((num_nodes,), (num_nodes, 1)):
        raise ValueError(f"`{argument}`: the mask has the shape {tuple(nodes.shape)}, but there are {num_nodes} nodes")
    ids = torch.as_tensor(nodes).cpu().flatten().nonzero().flatten()
    return ids, ids


def edges_to_predict(graph: PygGraph, given: Any) -> Any:
    """Return ``edge_label_index`` as PyG's ``LinkLoader`` takes it.

    `given` has pairs of ids in any container, or None for all edges; with types, a type, or a pair of a type and these.
    """
    if graph.is_heterogeneous:
        edge_type, edges = _with_edge_type(graph, given)
        return edge_type if edges is None else (edge_type, _pairs(graph, (edge_type[0], edge_type[-1]), edges))
    is_in_store = not isinstance(graph.data, Data)
    if is_in_store and isinstance(given, (tuple, list)) and len(given) == 2 and given[0] is None:
        given = given[1]
    edges = graph.data.edge_index if given is None and not is_in_store else given
    if edges is None:
        raise ValueError("`edge_label_index`: `data` has no `edge_index` with all edges, so pass the edges")
    pairs = _pairs(graph, (None, None), edges)
    return (None, pairs) if is_in_store else pairs


def _with_edge_type(graph: PygGraph, given: Any) -> tuple[tuple[str, ...], Any]:
    name, edges = given, None
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], (tuple, list)):
        name, edges = given
    if isinstance(name, (tuple, list)) and all(isinstance(part, str) for part in name):
        name = arguments.whole_edge_type(tuple(name), graph.edge_types, "edge_label_index")
        if len(name) == 2:
            # As in PyG, a new type between two node types.
            name = (name[0], "to", name[1])
        # Edges to predict can have a type of their own.
        has_ends = len(name) == 3 and {name[0], name[-1]} <= set(graph.node_types)
        if name in graph.edge_types or (edges is not None and has_ends):
            return name, edges
    raise ValueError(f"`edge_label_index` names none of the types {', '.join(map(str, graph.edge_types))}")


def _pairs(graph: PygGraph, ends: tuple[Any, Any], edges: Any) -> Tensor:
    """Return pairs of ids of two node types."""
    if not isinstance(edges, Tensor):
        edges = arguments.array(edges, "edge_label_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"`edge_label_index` has the shape {tuple(edges.shape)}, expected (2, number of edges)")
    pairs = edges
    if not isinstance(edges, Tensor) or edges.dtype != torch.int64:
        pairs = torch.stack([integers(end, "edge_label_index") for end in edges])
    for ids, node_type in zip(pairs, ends):
        _check_range("edge_label_index", ids, graph.num_nodes[node_type])
    return pairs


def _check_range(argument: str, ids: Tensor, num_nodes: int) -> None:
    """Check ids of nodes at once, and not when their batch is made."""
    wrong = ids[(ids < 0) | (ids >= num_nodes)]
    if len(wrong) > 0:
        raise ValueError(f"`{argument}` has {int(wrong[0])}, which is not one of the {num_nodes} nodes")


def labels(edge_label: Any) -> Tensor | None:
    """Return the labels of edges as a tensor. Those of no edges are None, since PyG takes their minimum."""
    if edge_label is None or len(edge_label) == 0:
        return None
    found = torch.as_tensor(edge_label if isinstance(edge_label, Tensor) else arguments.array(edge_label, "edge_label"))
    # PyG adds 1 where it adds negatives, whose label is 0, and the greatest label of a small type would become 0 as well.
    is_full = not found.dtype.is_floating_point and found.dtype != torch.bool and found.max() == torch.iinfo(found.dtype).max
    return found.long() if is_full else found


def check_length(name: str, values: Any, expected: int, of_what: str) -> None:
    """Check the number of entries of an argument."""
    if values is not None and len(values) != expected:
        raise ValueError(f"`{name}` has {len(values)} entries for {expected} {of_what}")
