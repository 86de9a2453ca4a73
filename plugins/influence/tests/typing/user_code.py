"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from flambeau.influence import EKFACInfluenceFunction, KMostInfluentialResults, TracInCP, TracInCPFast


def proponents(model: nn.Module, data: Dataset[Any], checkpoints: list[str], test: tuple[Tensor, Tensor]) -> Tensor:
    loss = nn.CrossEntropyLoss(reduction="sum")
    fast = TracInCPFast(model, "fc", data, checkpoints, loss_fn=loss, batch_size=64)
    found = fast.influence(test, k=5)
    assert isinstance(found, KMostInfluentialResults)
    own: Tensor = fast.self_influence()
    return found.influence_scores.sum() + own.sum()


def scores(model: nn.Module, data: Dataset[Any], test: tuple[Tensor, Tensor]) -> list[Any]:
    loss = nn.CrossEntropyLoss(reduction="none")
    tracin = TracInCP(model, data, iter([model.state_dict()]), loss_fn=loss, batch_size=64)
    ekfac = EKFACInfluenceFunction(model, data, model.state_dict(), layers=["*.mlp.*"], loss_fn=loss, damping=1e-3)
    return [tracin.influence(test), ekfac.influence(test)]
