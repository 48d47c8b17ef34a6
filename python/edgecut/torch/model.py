"""Models as files store them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ..store import Store
from .decision import Decision

__all__ = ["Model"]


class Model(torch.nn.Module):
    """A model of ``train``. A new kind is a class in a file of its own, and an entry of ``_KINDS`` in ``model_file.py``."""

    # The entry by which files tell the model, the kind of the types whose classes it predicts, and whether its data are a store.
    ENTRY: ClassVar[str]
    CLASSES_OF: ClassVar[str | None] = None
    READS_STORE: ClassVar[bool] = True
    # The description of the training's data in the file.
    trained_on: str | None = None

    def __init__(self, config: dict[str, Any], pyg_layers: list[dict[str, Any]] | None) -> None:
        super().__init__()
        self.config = config
        self.pyg_layers = pyg_layers
        self.decision: Decision | None = None
        self.targets: list[dict[str, Any]] | None = None

    def graph(self) -> dict[str, Any]:
        """Return the types of nodes and edges in the settings."""
        return self.config["graph"]

    def classified(self, store: Store) -> str:
        """Return the type or the label of a store whose classes the model predicts."""
        raise NotImplementedError

    def label_of(self, target: dict[str, Any], store: Store) -> str:
        """Return the name in a store of a target of ``train multi``, which names its label if its node type has several."""
        raise NotImplementedError
