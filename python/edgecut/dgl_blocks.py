"""Batches as blocks of DGL."""

from __future__ import annotations

from typing import Any

from .arguments import check_hops

__all__ = ["to_dgl"]

_OF_EDGES = ("edge_attr", "edge_weight", "edge_time", "e_id")


def to_dgl(batch: Any) -> tuple[Any, Any, list[Any]]:
    """Return a batch as DGL's ``DataLoader`` yields it: input nodes, output nodes, and one block per layer.

    Parameters
    ----------
    batch : Data or HeteroData
        A batch of :class:`edgecut.NeighborLoader` or :class:`edgecut.LinkNeighborLoader` with tensors. It must have at
        least one input node.

    Returns
    -------
    tuple of input nodes, output nodes and list of DGLBlock
        The ids in the dataset of the nodes that the first layer reads and of those that the last layer computes, as int64
        tensors, or as dicts by node type for a heterogeneous graph. The blocks have ``dgl.NID``. The first one has ``x``
        and ``time`` of its source nodes if the graph has them, and all have the attributes of their edges.

    Raises
    ------
    ValueError
        If the batch has other edges than the hops have sampled, for example edges of a transform.
    ImportError
        If DGL is not installed.

    Examples
    --------
    >>> for batch in loader:                                        # doctest: +SKIP
    ...     input_nodes, output_nodes, blocks = edgecut.to_dgl(batch)
    ...     out = model(blocks, blocks[0].srcdata["x"])
    """
    import dgl

    is_typed = hasattr(batch, "node_types")
    # A homogeneous graph has the only type of DGL's homogeneous graphs.
    nodes = {t: batch[t] for t in batch.node_types} if is_typed else {"_N": batch}
    edges = {t: batch[t] for t in batch.edge_types} if is_typed else {("_N", "_E", "_N"): batch}
    for of_type in edges.values():
        check_hops(of_type.edge_index, of_type.num_sampled_edges)
    num_layers = max(len(of_type.num_sampled_edges) for of_type in edges.values())
    within = lambda hops: {t: sum(of_type.num_sampled_nodes[: hops + 1]) for t, of_type in nodes.items()}
    blocks = []
    for layer in range(num_layers):
        hops = num_layers - layer
        num_src, num_dst = within(hops), within(hops - 1)
        num_edges = {t: sum(of_type.num_sampled_edges[:hops]) for t, of_type in edges.items()}
        ends = {t: tuple(of_type.edge_index[:, : num_edges[t]]) for t, of_type in edges.items()}
        block = dgl.create_block(ends, num_src, num_dst)
        for t, of_type in nodes.items():
            block.srcnodes[t].data[dgl.NID] = of_type.n_id[: num_src[t]]
            block.dstnodes[t].data[dgl.NID] = of_type.n_id[: num_dst[t]]
            for name in ("x", "time") if layer == 0 else ():
                if name in of_type:
                    block.srcnodes[t].data[name] = of_type[name]
        for t, of_type in edges.items():
            for name in (name for name in _OF_EDGES if name in of_type):
                block.edges[t].data[name] = of_type[name][: num_edges[t]]
        blocks.append(block)
    input_nodes = {t: of_type.n_id for t, of_type in nodes.items()}
    output_nodes = {t: nodes[t].n_id[:number] for t, number in within(0).items()}
    if is_typed:
        return input_nodes, output_nodes, blocks
    return input_nodes["_N"], output_nodes["_N"], blocks
