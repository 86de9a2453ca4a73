"""Gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class AutogradMethods(CollectionMethods):
    """requires_grad, grad, detach, data, backward."""

    @property
    def requires_grad(self) -> bool:
        """Whether any tensor requires a gradient."""
        return any(leaf.requires_grad for leaf in self._leaves())

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Switch recording of operations on all tensors on or off."""
        for leaf in self._leaves():
            leaf.requires_grad_(requires_grad)
        return self

    @property
    def data(self) -> Self:
        """The tensors without their history, sharing memory."""
        return self._pointwise([leaf.data for leaf in self._leaves()])

    @property
    def grad(self) -> Self | None:
        """The gradients, None where there is none at all."""
        return self._fast_apply(lambda leaf: leaf.grad, propagate_lock=True)

    def detach(self) -> Self:
        """The tensors without their history, sharing memory."""
        return self._pointwise([leaf.detach() for leaf in self._leaves()])

    def detach_(self) -> Self:
        """Cut the tensors from their history."""
        for leaf in self._leaves():
            leaf.detach_()
        return self

    def zero_grad(self, set_to_none: bool = True) -> Self:
        """Drop the gradients of all tensors, or fill them with zeros."""
        for leaf in self._leaves():
            if leaf.grad is None:
                continue
            if set_to_none:
                leaf.grad = None
            else:
                leaf.grad.zero_()
        return self

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Gradients of the graph's leaves from all tensors that require them at once.

        Args:
            gradient: a collection of the same keys with the gradients of these tensors; without it they have
                one element each.
            retain_graph: keep the graph for another pass.
            create_graph: record the pass itself.
            inputs: gather gradients into these tensors, or those of this collection, alone.
        """
        leaves = self._leaves()
        given = [None] * len(leaves) if gradient is None else _in_order(self, gradient)
        pairs = [(leaf, grad) for leaf, grad in zip(leaves, given, strict=True) if leaf.requires_grad]
        into: Sequence[Tensor] | None = inputs._leaves() if isinstance(inputs, TensorCollection) else inputs
        torch.autograd.backward(
            [leaf for leaf, _ in pairs], [grad for _, grad in pairs], retain_graph, create_graph, inputs=into
        )


def _in_order(td: Any, other: Any) -> list[Any]:
    values: list[Any] = []
    td._collect_like(other, values)
    return values
