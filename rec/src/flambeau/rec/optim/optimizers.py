"""The optimizers that tables of embeddings are trained by in their backward pass, as torch's optimizers.

Given to `apply_optimizer_in_backward` or to a fused module they name what trains the table. On parameters that are not
fused they make the same steps: rows without a gradient stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from flambeau.rec.ops.tbe import OptimizerSettings, update_rows

__all__ = [
    "LAMB",
    "SGD",
    "Adagrad",
    "Adam",
    "LarsSGD",
    "PartialRowWiseAdam",
    "PartialRowWiseLAMB",
    "in_backward_optimizer_filter",
]


def in_backward_optimizer_filter(
    named_parameters: Iterator[tuple[str, torch.nn.Parameter]], include: bool = False
) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Those parameters that the backward pass does not train, or only those that it trains.

    Args:
        named_parameters: names and parameters, as `nn.Module.named_parameters` gives them.
        include: whether those are given that `apply_optimizer_in_backward` was called for.
    """
    for name, param in named_parameters:
        if hasattr(param, "_in_backward_optimizers") == include:
            yield name, param


class _ByRows(Optimizer):
    """Steps of table-batched embeddings on parameters by themselves.

    Args:
        params: (rows, columns) each, or (columns,), which is one row.
        kwargs: `lr` and the optimizer's options under the names that table-batched embeddings give them: `eps`,
            `weight_decay`, `beta1` and `beta2` or `betas`, `momentum`, `eta`.
    """

    _kind: str
    _states: tuple[bool, ...] = ()  # whether each of its states has a number for each element

    def __init__(self, params: Iterable[torch.nn.Parameter], **kwargs: Any) -> None:
        self._params, self._kwargs = params, kwargs
        super().__init__(params, {"lr": 0.01, **kwargs})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]
        """Train all parameters that have gradients.

        Args:
            closure: computes the loss and gradients anew.

        Returns:
            What the closure returns.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._train(param, group)
        return loss

    def _train(self, param: Tensor, group: dict[str, Any]) -> None:
        kept = self.state[param]
        table = param.view(-1, param.shape[-1])
        if not kept:
            kept["step"] = 0
            for at, by_element in enumerate(self._states, 1):
                kept[f"momentum{at}"] = torch.zeros_like(table) if by_element else table.new_zeros(len(table))
        kept["step"] += 1
        assert param.grad is not None
        if param.grad.is_sparse:
            gradient = param.grad.coalesce()
            rows, values = gradient.indices()[0], gradient.values()
        else:
            dense = param.grad.view_as(table)
            rows = dense.any(1).nonzero().squeeze(1)
            values = dense[rows]
        options = {name: value for name, value in group.items() if name in _OPTIONS}
        if "betas" in group:
            options["beta1"], options["beta2"] = group["betas"]
        settings = OptimizerSettings(self._kind, iteration=kept["step"], **options)
        update_rows(table, rows, values, [kept[f"momentum{at}"] for at in range(1, len(self._states) + 1)], settings)


_OPTIONS = ("lr", "eps", "weight_decay", "beta1", "beta2", "momentum", "eta")


class SGD(_ByRows):
    """Stochastic gradient descent."""

    _kind = "exact_sgd"


class LarsSGD(_ByRows):
    """LARS (You et al. 2017, arXiv:1708.03888), each row being a layer."""

    _kind, _states = "lars_sgd", (True,)


class LAMB(_ByRows):
    """LAMB (You et al. 2020, arXiv:1904.00962), each row being a layer."""

    _kind, _states = "lamb", (True, True)


class PartialRowWiseLAMB(_ByRows):
    """LAMB with one second moment for each row."""

    _kind, _states = "partial_row_wise_lamb", (True, False)


class Adam(_ByRows):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980)."""

    _kind, _states = "adam", (True, True)


class PartialRowWiseAdam(_ByRows):
    """Adam with one second moment for each row."""

    _kind, _states = "partial_row_wise_adam", (True, False)


class Adagrad(_ByRows):
    """Adagrad (Duchi et al. 2011)."""

    _kind, _states = "exact_adagrad", (True,)
