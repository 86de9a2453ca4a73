"""Influence functions for large models: the Hessian as Kronecker factors with corrected eigenvalues.

Grosse et al., "Studying Large Language Model Generalization with Influence Functions", 2023, arXiv:2308.03296, with the
factors of George et al., "Fast Approximate Natural Gradient Descent in a Kronecker-factored Eigenbasis", 2018,
arXiv:1806.03884. For a linear layer with inputs a (and a 1 for the bias) and gradients g at its outputs, A is the mean
of a a^T and G that of g g^T over examples; in their eigenvectors the diagonal of the Fisher matrix is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flambeau.influence._core.influence_function import InfluenceFunctionBase
from flambeau.influence._gradients import SampleGradients
from flambeau.influence._utils.common import (
    Inputs,
    KMostInfluentialResults,
    LoadFunction,
    Loss,
    _format_inputs_dataset,
    _load_flexible_state_dict,
    _require_order,
    _top,
)
from flambeau.influence.errors import InfluenceError

__all__ = ["EKFACInfluenceFunction"]


class EKFACInfluenceFunction(InfluenceFunctionBase):
    """Influence of training examples on test examples by EK-FAC, over linear layers.

    Scores are `<gradient of loss(test), (F + damping)^-1 gradient of loss(train)>`, F being the sum over
    `hessian_dataset` of the products of the examples' gradients with themselves (the empirical Fisher matrix), block by
    block.

    Args:
        model, train_dataset, checkpoint, checkpoints_load_func, loss_fn, batch_size, hessian_dataset, test_loss_fn,
            sample_wise_grads_per_batch: see `InfluenceFunctionBase`.
        layers: names of `nn.Linear` layers, or patterns of such ("decoder.*.mlp.*"); None for all.
        damping: added to F's eigenvalues, > 0; None takes a tenth of their mean, layer by layer, as the paper does.

    Raises:
        InfluenceError: a pattern that no linear layer has, another damping.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
        >>> data = torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([0, 1]))
        >>> loss = nn.CrossEntropyLoss(reduction="none")
        >>> ekfac = EKFACInfluenceFunction(model, data, model.state_dict(), loss_fn=loss, batch_size=2)
        >>> ekfac.influence((torch.eye(2), torch.tensor([0, 1]))).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoint: Any,
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        hessian_dataset: Dataset[Any] | DataLoader[Any] | None = None,
        test_loss_fn: Loss = None,
        sample_wise_grads_per_batch: bool = False,
        damping: float | None = None,
    ) -> None:
        if damping is not None and not damping > 0:
            raise InfluenceError(f"damping is {damping}, expected a number above 0, or None.")
        chosen = _linear_layers(model, layers)
        super().__init__(
            model, train_dataset, checkpoint, checkpoints_load_func, chosen, loss_fn, batch_size, hessian_dataset,
            test_loss_fn, sample_wise_grads_per_batch,
        )  # fmt: skip
        self.damping = damping
        self._blocks = [_Block(model.get_submodule(name)) for name in chosen]
        self._names = [
            f"{name}.{which}" for name in chosen for which, _ in model.get_submodule(name).named_parameters()
        ]
        self._fit()

    def influence(  # type: ignore[override]  # captum's signature
        self, inputs: Inputs, k: int | None = None, proponents: bool = True, show_progress: bool = False
    ) -> Tensor | KMostInfluentialResults:
        """Influence of training examples on test examples; arguments and results as of `TracInCP.influence`."""
        if isinstance(inputs, DataLoader):
            _require_order(inputs, "inputs")
        test = SampleGradients(self.model, self._names, self.test_loss_fn, "inputs")
        train = SampleGradients(self.model, self._names, self.loss_fn, "train_dataset")
        with self._at_checkpoint():
            queries = self._preconditioned(torch.cat([test(batch) for batch in _format_inputs_dataset(inputs)]))
            scores = torch.cat([queries @ train(batch).T for batch in self.train_dataloader], dim=1)
        return scores if k is None else _top(scores, k, proponents)

    def self_influence(self, inputs_dataset: Inputs | None = None, show_progress: bool = False) -> Tensor:
        """Influence of each example on itself, (examples,); None for the training data."""
        gradients = SampleGradients(self.model, self._names, self.loss_fn, "inputs")
        batches = self.train_dataloader if inputs_dataset is None else _format_inputs_dataset(inputs_dataset)
        with self._at_checkpoint():
            rows = (gradients(batch) for batch in batches)
            return torch.cat([(row * self._preconditioned(row)).sum(1) for row in rows])

    def _fit(self) -> None:
        """Two passes: eigenvectors of the factors, then the diagonal in them."""
        gradients = SampleGradients(self.model, self._names, self.loss_fn, "hessian_dataset")
        with self._at_checkpoint():
            for batch in self.hessian_dataloader:
                for block, (given, gradient) in zip(self._blocks, gradients.factors(batch), strict=True):
                    block.add_factors(given.flatten(0, -2), gradient.flatten(0, -2))
            for block in self._blocks:
                block.find_basis()
            for batch in self.hessian_dataloader:
                for block, part in zip(self._blocks, self._parts(gradients(batch)), strict=True):
                    block.add_diagonal(part)

    def _parts(self, rows: Tensor) -> list[Tensor]:
        """Each layer's gradients as matrices, (examples, out, in and 1 for a bias)."""
        pieces = rows.split([block.numbers for block in self._blocks], dim=1)
        return [block.as_matrices(piece) for block, piece in zip(self._blocks, pieces, strict=True)]

    def _preconditioned(self, rows: Tensor) -> Tensor:
        parts = zip(self._blocks, self._parts(rows), strict=True)
        return torch.cat([block.as_rows(block.solve(part, self.damping)) for block, part in parts], dim=1)


class _Block:
    """A layer's part of the Fisher matrix."""

    def __init__(self, layer: nn.Module) -> None:
        assert isinstance(layer, nn.Linear)
        self.outputs, self.inputs, self.has_bias = layer.out_features, layer.in_features, layer.bias is not None
        self.numbers = self.outputs * (self.inputs + self.has_bias)
        self.left: Tensor | None = None
        self.right: Tensor | None = None
        self.diagonal: Tensor | None = None

    def as_matrices(self, rows: Tensor) -> Tensor:
        weight = rows[:, : self.outputs * self.inputs].view(-1, self.outputs, self.inputs)
        bias = rows[:, self.outputs * self.inputs :].unsqueeze(2)
        return torch.cat([weight, bias], dim=2) if self.has_bias else weight

    def as_rows(self, matrices: Tensor) -> Tensor:
        weight = matrices[..., : self.inputs].flatten(1)
        return torch.cat([weight, matrices[..., -1]], dim=1) if self.has_bias else weight

    def add_factors(self, given: Tensor, gradient: Tensor) -> None:
        """Sums over examples and places; a mean has the same eigenvectors."""
        if self.has_bias:
            given = torch.cat([given, given.new_ones(len(given), 1)], dim=1)
        left, right = gradient.T @ gradient, given.T @ given
        self.left = left if self.left is None else self.left + left
        self.right = right if self.right is None else self.right + right

    def find_basis(self) -> None:
        assert self.left is not None and self.right is not None
        self.left, self.right = torch.linalg.eigh(self.left)[1], torch.linalg.eigh(self.right)[1]

    def add_diagonal(self, matrices: Tensor) -> None:
        squares = self._turned(matrices).square().sum(0)
        self.diagonal = squares if self.diagonal is None else self.diagonal + squares

    def solve(self, matrices: Tensor, damping: float | None) -> Tensor:
        assert self.left is not None and self.right is not None and self.diagonal is not None
        added = self.diagonal.mean().clamp(min=1e-30) / 10 if damping is None else damping
        return self.left @ (self._turned(matrices) / (self.diagonal + added)) @ self.right.T

    def _turned(self, matrices: Tensor) -> Tensor:
        assert self.left is not None and self.right is not None
        return self.left.T @ matrices @ self.right


def _linear_layers(model: nn.Module, patterns: Sequence[str] | None) -> list[str]:
    known = [name for name, module in model.named_modules() if type(module) is nn.Linear]
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            raise InfluenceError(f"layers has {pattern!r}, which no linear layer of the model is called; see {known}.")
    chosen = known if patterns is None else [n for n in known if any(fnmatchcase(n, p) for p in patterns)]
    if not chosen:
        raise InfluenceError("The model has no linear layer; use ArnoldiInfluenceFunction.")
    return chosen
