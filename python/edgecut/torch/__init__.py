"""Models of ``train`` as PyTorch modules, and the reverse.

:func:`load_model` reads a file that ``train --save-model`` has written and returns a module whose layers are those of
PyG. :func:`save_model` writes such a module, or a model of PyG, to a file that ``train predict --load-model`` and
``train --init-from`` read.

>>> import edgecut.torch
>>> model = edgecut.torch.load_model("model.safetensors")       # doctest: +SKIP
>>> logits = model(batch.x, batch.edge_index)                   # doctest: +SKIP
>>> edgecut.torch.save_model(model, "fine-tuned.safetensors")   # doctest: +SKIP

PyTorch, PyG and safetensors must be installed. ``import edgecut`` alone does not import them.
"""

try:
    import safetensors.torch  # noqa: F401
    import torch_geometric.nn  # noqa: F401
except ImportError as error:
    install = "pip install torch torch_geometric safetensors"
    raise ImportError(f"edgecut.torch needs PyTorch, PyG and safetensors: {install} ({error})") from error

from .blocks import Block, blocks
from .decision import Decision
from .inference import inference
from .link_model import EdgeModel, LinkModel
from .model_file import load_model, save_model
from .network import ConvStack, GraphNet, RelationalNet

__all__ = ["Block", "ConvStack", "Decision", "EdgeModel", "GraphNet", "LinkModel", "RelationalNet", "blocks", "inference", "load_model", "save_model"]
