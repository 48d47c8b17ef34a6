"""The meaning of a model's outputs: probabilities, classes and their names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

__all__ = ["Decision"]


@dataclass
class Decision:
    """The way from a model's outputs to probabilities and classes, as ``train predict`` goes it.

    Attributes
    ----------
    task : str
        ``"node"``, ``"edge"``, ``"link"`` or ``"graph"``.
    loss : str or None
        The name of the loss.
    kind : str or None
        The meaning of the outputs: ``"classes"``, ``"labels"`` or ``"numbers"``. None for links.
    number : int
        The number of outputs.
    temperature : float
        The number that logits are divided by, from ``--calibrate``.
    thresholds : list of float
        The divided logits above which a label applies, or the positive one of two classes, from ``--threshold``. Empty for the
        greatest logit, and for labels above 0.
    positive_class : int
        The one of two classes that the threshold is about, from ``--positive-class``.
    class_names : list of str or None
        The names of the classes in the tables of the store that the model was loaded for.
    """

    task: str
    loss: str | None = None
    kind: str | None = "classes"
    number: int = 0
    temperature: float = 1.0
    thresholds: list[float] = field(default_factory=list)
    positive_class: int = 1
    class_names: list[str] | None = None

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Parse the metadata ``task`` of a model file."""
        entries = json.loads(text)
        ((kind, number),) = (entries.get("outputs") or {None: 0}).items()
        chosen = entries.get("decision") or {}
        rule = chosen.get("temperature", 1.0), list(chosen.get("logit_thresholds", [])), chosen.get("positive_class", 1)
        return cls(entries["task"], entries.get("loss"), kind, number, *rule)

    def to_json(self) -> str:
        """Return the metadata ``task`` of a model file."""
        entries: dict[str, Any] = {"task": self.task, "loss": self.loss}
        if self.kind is not None:
            entries["outputs"] = {self.kind: self.number}
        if self.temperature != 1.0 or self.thresholds or self.positive_class != 1:
            entries["decision"] = {"temperature": self.temperature, "logit_thresholds": self.thresholds}
            if self.positive_class != 1:
                entries["decision"]["positive_class"] = self.positive_class
        return json.dumps({name: value for name, value in entries.items() if value is not None}, separators=(",", ":"))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probability of each class or label, as ``--output probability``."""
        if self.kind not in ("classes", "labels"):
            raise ValueError("the outputs of the model are not classes or labels, so they have no probabilities")
        divided = (logits.double() / self.temperature).to(logits.dtype)
        return divided.softmax(dim=-1) if self.kind == "classes" else divided.sigmoid()

    def predictions(self, logits: Tensor) -> Tensor:
        """Return the class of each row (-1 if a logit is NaN), 1 for each label that applies and 0 for others, or the numbers
        themselves, as ``--output prediction``."""
        if self.kind == "labels":
            thresholds = logits.new_tensor(self.thresholds or [0.0], dtype=torch.float64)
            applies = (logits.double() / self.temperature > thresholds).to(logits.dtype)
            return torch.where(logits.isnan(), logits, applies)
        if self.kind != "classes":
            return logits
        classes = logits.argmax(dim=-1)
        if self.thresholds:
            positive, negative = self.positive_class, 1 - self.positive_class
            score = logits[..., positive] - logits[..., negative]
            is_positive = score.double() / self.temperature > self.thresholds[0]
            decided = torch.where(is_positive, positive, negative).long()
            classes = torch.where(score.isnan(), classes, decided)
        return classes.masked_fill(logits.isnan().any(dim=-1), -1)
