"""Layer-wise inference of PyG's models over the parts of a graph."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from ..loader import NeighborLoader
from ..store import Store

__all__ = ["inference"]


@torch.no_grad()
def inference(model: BasicGNN, store: Store, *, batch_size: int = 1024, num_workers: int = 2) -> Tensor:
    """Compute the outputs of a model for all nodes with all their neighbors, layer by layer.

    It takes the place of the method ``inference`` of PyG's models, whose loader needs the features of all nodes in memory.
    Here the parts are read in batches. A process holds the outputs of two layers for all nodes. In a job of several
    processes, all of them must call this: each computes the nodes of its own part, and PyTorch's process group adds them up.

    Parameters
    ----------
    model : BasicGNN
        A model of PyG such as ``GraphSAGE`` or ``GAT``, in evaluation mode.
    store : Store
        A homogeneous graph whose nodes have features.
    batch_size : int, default 1024
        The number of nodes per batch.
    num_workers : int, default 2
        The number of batches that are made at the same time, by threads.

    Returns
    -------
    Tensor, float [num_nodes, out_channels]
        The outputs, ordered by the ids of the dataset, on the device of the model. Each process gets all of them.

    Raises
    ------
    TypeError
        If the model is not one of PyG's.
    ValueError
        If layers of the model cannot be computed one by one, or the graph has no features or several types.
    EdgecutError
        If another process has failed.

    Examples
    --------
    >>> logits = edgecut.torch.inference(model.eval(), store)    # doctest: +SKIP
    >>> predicted = logits.argmax(dim=1)                         # doctest: +SKIP
    """
    _check(model, store)
    device = next(model.parameters()).device
    loader = NeighborLoader(store, [-1], batch_size=batch_size, num_workers=num_workers, output="pyg")
    outputs: Tensor | None = None
    for layer in range(model.num_layers):
        inputs = outputs
        width = model.out_channels if layer == model.num_layers - 1 else model.hidden_channels
        outputs = torch.zeros(store.node_types[0].num_nodes, width, device=device)
        for batch in loader:
            # A process can have no nodes in the last batches.
            if batch.batch_size == 0:
                continue
            n_id = batch.n_id.to(device)
            x = batch.x.to(device) if inputs is None else inputs[n_id]
            outputs[n_id[: batch.batch_size]] = model.inference_per_layer(layer, x, batch.edge_index.to(device), batch.batch_size)
        if store.world_size > 1:
            # The rows of other processes are zeros here.
            torch.distributed.all_reduce(outputs)
    assert outputs is not None
    return outputs


def _check(model: BasicGNN, store: Store) -> None:
    if not isinstance(model, BasicGNN):
        remedy = "`train predict` takes models of other kinds from files"
        raise TypeError(f"`model` must be one of PyG's, such as GraphSAGE, not {type(model).__name__}: {remedy}")
    if type(model).forward is not BasicGNN.forward:
        remedy = "`model.inference_per_layer` of PyG does not call it: call the model on batches of a loader with all neighbors"
        raise TypeError(f"`model`, a {type(model).__name__}, has its own `forward`, and {remedy}")
    if model.training:
        raise ValueError("`model` is in training mode, in which dropout is random: call model.eval()")
    if model.jk_mode not in (None, "last"):
        raise ValueError(f"`model` has jk={model.jk_mode!r}, which reads all layers at once")
    if any(isinstance(layer, GCNConv) and layer.normalize for layer in model.modules()):
        why = "which needs the degrees of all neighbors, but a batch has only its own edges"
        raise ValueError(f"`model` has a GCNConv, {why}: save the model and use `train predict`")
    if any(getattr(conv, "edge_dim", None) is not None for conv in model.convs):
        remedy = "call the model on batches of a loader with all neighbors"
        raise ValueError(f"`model` reads features of edges (`edge_dim`), which a computation layer by layer does not have: {remedy}")
    norms = set(model.norms or [])
    for part in model.modules():
        # Layers have norms of their own, such as those in the MLPs of GIN and EdgeCNN.
        is_norm = part in norms or type(part).__module__.startswith("torch_geometric.nn.norm") or hasattr(part, "track_running_stats")
        if is_norm and _reads_all_nodes(part):
            remedy = "train with mode='node' of LayerNorm, or with BatchNorm"
            raise ValueError(f"`model` has the norm {type(part).__name__} over all nodes of a graph, but a batch has only some: {remedy}")
    if store.is_heterogeneous or store.num_features == 0:
        raise ValueError(f"`store`: {store.name} has several types or no features, but PyG's models read one matrix of features")
    if store.world_size > 1:
        group = torch.distributed
        if not (group.is_available() and group.is_initialized() and group.get_world_size() == store.world_size):
            remedy = "call torch.distributed.init_process_group()"
            raise ValueError(f"the {store.world_size} processes of `store` need PyTorch's process group: {remedy}")


def _reads_all_nodes(norm: torch.nn.Module) -> bool:
    """Return whether the output of a norm for a node depends on the other nodes.

    Such norms of PyG ask for the graph of each node. Others have no statistics of the training, and take those of the batch.
    """
    if any(getattr(part, "track_running_stats", True) is False for part in norm.modules()):
        return True
    return "batch" in inspect.signature(norm.forward).parameters and getattr(norm, "mode", None) != "node"
