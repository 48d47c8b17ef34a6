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
    of_targets : dict of str to Decision
        The decision of each target of a model of ``train multi``, for the columns that ``outputs_of`` returns.
    """

    task: str
    loss: str | None = None
    kind: str | None = "classes"
    number: int = 0
    temperature: float = 1.0
    thresholds: list[float] = field(default_factory=list)
    positive_class: int = 1
    class_names: list[str] | None = None
    of_targets: dict[str, Decision] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str, targets: list[dict[str, Any]] | None = None) -> Decision:
        """Parse the metadata ``task`` of a model file. ``targets`` are the targets in its settings."""
        entries = json.loads(text)
        decision = cls._of(entries["task"], entries, entries.get("decision"))
        chosen = entries.get("target_decisions") or {}
        for target in targets or []:
            name = target["name"]
            decision.of_targets[name] = cls._of(decision.task, target, chosen.get(name))
        return decision

    @classmethod
    def _of(cls, task: str, entries: dict[str, Any], chosen: dict[str, Any] | None) -> Decision:
        """Return the decision about the outputs that some entries describe."""
        ((kind, number),) = (entries.get("outputs") or {None: 0}).items()
        chosen = chosen or {}
        rule = chosen.get("temperature", 1.0), list(chosen.get("logit_thresholds", [])), chosen.get("positive_class", 1)
        return cls(task, entries.get("loss"), kind, number, *rule)

    def to_json(self) -> str:
        """Return the metadata ``task`` of a model file."""
        entries: dict[str, Any] = {"task": self.task, "loss": self.loss}
        if self.kind is not None:
            entries["outputs"] = {self.kind: self.number}
        entries["decision"] = self._chosen()
        chosen = {name: decision._chosen() for name, decision in self.of_targets.items()}
        entries["target_decisions"] = {name: rule for name, rule in chosen.items() if rule is not None} or None
        return json.dumps({name: value for name, value in entries.items() if value is not None}, separators=(",", ":"))

    def _chosen(self) -> dict[str, Any] | None:
        """Return the rule as a model file has it, or None for the greatest logit."""
        if self.temperature == 1.0 and not self.thresholds and self.positive_class == 1:
            return None
        rule: dict[str, Any] = {"temperature": self.temperature, "logit_thresholds": self.thresholds}
        if self.positive_class != 1:
            rule["positive_class"] = self.positive_class
        return rule

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
