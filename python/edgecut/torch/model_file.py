"""Reading and writing the files of models."""

from __future__ import annotations

import json
import os
import pathlib
import secrets
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch_geometric.nn import GAT, GCN, GraphSAGE

from ..store import Store
from .decision import Decision
from .embeddings import PREFIX, check_nodes, read_embeddings
from .from_pyg import from_pyg
from .link_model import EdgeModel, LinkModel
from .model import Model
from .network import ConvStack, GraphNet, RelationalNet
from .trained_on import check_graph

__all__ = ["load_model", "save_model"]

# The kinds of models whose settings have an entry of their own. Other files have a stack of convolutions.
_KINDS: tuple[type[Model], ...] = (EdgeModel, LinkModel, GraphNet, RelationalNet)
_FORMAT = {"format": "edgecut-model", "version": "1"}
_PYG_LAYERS = "pyg_layers"


def load_model(path: str | os.PathLike[str], store: Store | None = None) -> Model:
    """Return the model of a file that ``train --save-model`` or :func:`save_model` has written.

    Its layers are those of PyG, and its outputs those of ``train predict --output logit``. Its ``decision`` computes
    probabilities and classes, with the threshold and the temperature of the file. It is in training mode like every new
    module: call ``eval()`` before a prediction.

    Parameters
    ----------
    path : path
        The file. The embeddings of node types without features are in a folder beside it.
    store : Store, optional
        The graph to use the model on. It must have the types of nodes and edges, the features with their transforms, and the
        classes of the training, as in ``train predict``. Embeddings are found by ``n_id``, so its nodes with embeddings must
        be those of the training, in the same order. Its tables name the classes.

    Returns
    -------
    ConvStack, RelationalNet, LinkModel, EdgeModel or GraphNet
        A model for nodes of a homogeneous graph, for nodes of typed or encoded graphs, for links, for edges, or for whole
        graphs. A model of ``train multi`` is a RelationalNet, whose ``outputs_of`` finds the outputs of a target.

    Raises
    ------
    FileNotFoundError
        If the file, or one with embeddings, does not exist.
    ValueError
        If the file is damaged, or is not a model of this version, or if the graph of the store has other types, features,
        classes or nodes with embeddings than the training.

    Examples
    --------
    >>> model = edgecut.torch.load_model("model.safetensors").eval()    # doctest: +SKIP
    >>> logits = model(batch.x, batch.edge_index)[:batch.batch_size]    # doctest: +SKIP
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"model {path} does not exist")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"model {path}: not a valid safetensors file: {error}") from error
    for name, expected in _FORMAT.items():
        if metadata.get(name) != expected:
            raise ValueError(f"model {path}: metadata {name} is {metadata.get(name)!r}, expected {expected!r}")
    try:
        config = json.loads(metadata["config"])
        targets = config.get("targets") if "network" in config else None
        config = config.get("network", config)
        pyg_layers = json.loads(metadata.get(_PYG_LAYERS, "null"))
        tables = read_embeddings(path, metadata)
    except KeyError as error:
        raise ValueError(f"model {path}: the metadata lacks {error}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"model {path}: the metadata is not valid JSON: {error}") from error
    tensors |= {PREFIX + node_type: torch.from_numpy(table) for node_type, table in tables.items()}
    try:
        num_nodes = {name[len(PREFIX) :]: len(t) for name, t in tensors.items() if name.startswith(PREFIX)}
        model = _make(config, num_nodes, pyg_layers)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"model {path}: the metadata config is not valid: {error}") from error
    for name, parameter in _tensors(model).items():
        values = tensors.pop(name, None)
        if values is None:
            raise ValueError(f"model {path}: tensor {name} is missing")
        if values.shape != parameter.shape or values.dtype != torch.float32:
            raise ValueError(
                f"model {path}: tensor {name} is {values.dtype} of the shape {list(values.shape)}, expected "
                f"{torch.float32} of the shape {list(parameter.shape)}"
            )
        parameter.copy_(values)
    if tensors:
        raise ValueError(f"model {path}: tensor {min(tensors)} does not belong to this model")
    model.trained_on = metadata.get("trained_on")
    model.targets = targets
    model.decision = Decision.from_json(metadata["task"], targets) if "task" in metadata else None
    if store is not None and model.READS_STORE:
        # Files that do not tell the outputs may have classes.
        may_classify = model.decision is None or model.decision.kind in ("classes", None)
        check_graph(path, model.trained_on, model.graph(), model.CLASSES_OF if may_classify else None, store)
        if model.decision is not None and model.decision.kind == "classes" and targets is None:
            model.decision.class_names = store.class_names(model.classified(store))
        for target in targets or []:
            decision = None if model.decision is None else model.decision.of_targets[target["name"]]
            if decision is not None and decision.kind == "classes":
                decision.class_names = store.class_names(model.label_of(target, store))
    check_nodes(path, metadata, num_nodes, store)
    return model


def save_model(model: torch.nn.Module, path: str | os.PathLike[str], *, normalize_features: bool = False) -> None:
    """Write a model to a file that ``train predict --load-model`` and ``train --init-from`` read.

    The file is complete or absent: an earlier file at ``path`` is replaced at the end.

    Parameters
    ----------
    model : torch.nn.Module
        A model of this module, for example one that :func:`load_model` has returned; PyG's ``GraphSAGE`` or ``GCN``; or
        PyG's ``GAT`` with ``act="elu"`` and one head in its last layer. It can be wrapped in ``DistributedDataParallel``;
        save it in one process then.
    path : path
        The file. Embeddings are stored in it.
    normalize_features : bool, default False
        Tell ``train`` that a model of PyG was trained on features whose rows were divided by their sums, or by 1 if the
        sum is less (PyG's ``NormalizeFeatures``, if the least feature is 0). A model of this module divides them itself.

    Raises
    ------
    TypeError
        If the module has another type, or computes something else: by methods of its own, hooks, or parametrizations.
    ValueError
        If it has settings that ``train`` does not have, or a value that is not finite.
    """
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    _check_computes_the_same(model)
    if isinstance(model, (GraphSAGE, GCN, GAT)):
        model = from_pyg(model, normalize_features)
    elif not isinstance(model, Model):
        raise TypeError(
            f"a {type(model).__name__} cannot be saved: use a model of edgecut.torch, or GraphSAGE, GCN or GAT of PyG"
        )
    elif normalize_features:
        raise ValueError("`normalize_features` is for models of PyG: a model of edgecut.torch has it in its `config`")
    # A copy: the file has the tensors of each parameter in the layout of the file.
    tensors = {name: tensor.cpu().to(torch.float32).contiguous().clone() for name, tensor in _tensors(model).items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"tensor {name} of the model has a value that is not finite")
    path = pathlib.Path(os.path.realpath(path))
    # Beside the destination, so that it can be renamed.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        config = model.config if model.targets is None else {"network": model.config, "targets": model.targets}
        metadata = {**_FORMAT, "config": json.dumps(config, separators=(",", ":"))}
        if model.pyg_layers:
            metadata[_PYG_LAYERS] = json.dumps(model.pyg_layers, separators=(",", ":"))
        if isinstance(model.decision, Decision):
            metadata["task"] = model.decision.to_json()
        if model.trained_on is not None:
            metadata["trained_on"] = model.trained_on
        save_file(tensors, partial, metadata)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _check_computes_the_same(model: torch.nn.Module) -> None:
    """Check that no part of a model changes what its type computes."""
    for name, module in model.named_modules():
        of_user = []
        for of_type in type(module).__mro__:
            if of_type.__module__.split(".")[0] in ("edgecut", "torch", "torch_geometric"):
                break
            of_user += [method for method in vars(of_type) if method == "__call__" or not method.startswith("__")]
        own = [f"its own `{method}`" for method in of_user if hasattr(of_type, method) and method != "reset_parameters"]
        own += ["its own `forward`"] * ("forward" in vars(module))
        own += [f"hooks (`{kind}`)" for kind, hooks in vars(module).items() if "forward" in kind and kind.endswith("hooks") and hooks]
        own += ["parametrizations"] * hasattr(module, "parametrizations")
        if own:
            part = f"{name} of the model" if name else "the model"
            raise TypeError(f"{part}, a {type(module).__name__}, has {own[0]}, and `train` would compute something else: save it without")


def _make(config: dict[str, Any], num_nodes: dict[str, int], pyg_layers: list[dict[str, Any]] | None) -> Model:
    # Networks have encoders by default, but not for one node type in files of earlier versions.
    entries = {"encoders": "graph" in config, **config}
    made: Any = next((kind for kind in _KINDS if entries.get(kind.ENTRY)), ConvStack)
    return made(config, num_nodes, pyg_layers)


def _tensors(model: Model) -> dict[str, Tensor]:
    """Return the tensors of a model and its embeddings by their names in a file."""
    return {**dict(model.named_tensors()), **dict(model.named_embeddings())}
