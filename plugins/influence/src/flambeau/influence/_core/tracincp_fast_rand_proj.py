"""TracIn on the last linear layer alone, whose gradients are products of two short vectors.

The gradient of its matrix is the outer product of the gradient of the loss at its output and its input, so that scalar
products of gradients are products of two scalar products (Pruthi et al., 2020, arXiv:2002.08484, appendix F). The bias
is left out, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flambeau.influence._core.tracincp import TracInCPBase
from flambeau.influence._utils.approximate_neighbors import default_nearest_neighbors
from flambeau.influence._utils.common import (
    Inputs,
    KMostInfluentialResults,
    LoadFunction,
    Loss,
    _check_loss_fn,
    _device,
    _format_inputs_dataset,
    _load_flexible_state_dict,
    _on_device,
    _require_count,
    _require_order,
    _split,
    _top,
)
from flambeau.influence._utils.nearest_neighbors import NearestNeighbors
from flambeau.influence.errors import InfluenceError, LossError

__all__ = ["TracInCPFast", "TracInCPFastRandProj"]

Factors = tuple[Tensor, Tensor]
"""Gradients at the layer's output (examples, out), and its inputs (examples, in)."""


class TracInCPFast(TracInCPBase):
    """TracIn on the gradients of the last linear layer.

    Args:
        model, train_dataset, checkpoints, checkpoints_load_func, batch_size: see `TracInCPBase`.
        final_fc_layer: the layer, or its name: `nn.Linear`, the last one, on inputs (examples, numbers).
        loss_fn: of reduction "sum" or "mean".
        test_loss_fn: likewise; by default `loss_fn`.
        vectorize: accepted; a batch is differentiated at once in any case.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
        >>> data = torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([0, 1]))
        >>> loss = nn.CrossEntropyLoss(reduction="sum")
        >>> tracin = TracInCPFast(model, "2", data, iter([model.state_dict()]), loss_fn=loss, batch_size=2)
        >>> tracin.influence((torch.eye(2), torch.tensor([0, 1])), k=1).indices.shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        model: nn.Module,
        final_fc_layer: nn.Module | str,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoints: str | list[str] | Iterator[Any],
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        test_loss_fn: Loss = None,
        vectorize: bool = False,
    ) -> None:
        super().__init__(model, train_dataset, checkpoints, checkpoints_load_func, loss_fn, batch_size, test_loss_fn)
        if loss_fn is None:
            raise LossError("loss_fn is None; the method needs the loss of the layer's output and the labels.")
        self.vectorize = vectorize
        self.final_fc_layer = final_fc_layer
        self.reduction_type = _check_loss_fn(loss_fn, "loss_fn", True)
        self.test_reduction_type = _check_loss_fn(self.test_loss_fn, "test_loss_fn", True)

    @property
    def final_fc_layer(self) -> nn.Module:
        """The layer."""
        return self._final_fc_layer

    @final_fc_layer.setter
    def final_fc_layer(self, layer: nn.Module | str) -> None:
        if isinstance(layer, str):
            try:
                layer = self.model.get_submodule(layer)
            except AttributeError as error:
                raise InfluenceError(
                    f"final_fc_layer is {layer!r}, which the model does not have; `model.named_modules()` lists its "
                    "layers."
                ) from error
        self._final_fc_layer = layer

    def influence(  # type: ignore[override]  # captum's signature
        self, inputs: Inputs, k: int | None = None, proponents: bool = True, show_progress: bool = False
    ) -> Tensor | KMostInfluentialResults:
        """Influence of training examples on test examples.

        Args:
            inputs: a batch of test examples, the labels last, or a loader of such.
            k: how many training examples to find for each test example; None gives all scores.
            proponents: the most influential ones; False for the most opposed.
            show_progress: print how far it is.

        Returns:
            Scores (test, train), or the k best.

        Raises:
            InfluenceError: batches without labels, a checkpoint that does not fit, a layer that is not the last.
        """
        scores = self._scores(inputs, show_progress)
        return scores if k is None else _top(scores, k, proponents)

    def self_influence(
        self,
        inputs: Inputs | None = None,
        show_progress: bool = False,
        outer_loop_by_checkpoints: bool = False,
    ) -> Tensor:
        """Influence of each example on itself, (examples,); arguments as of `TracInCP.self_influence`."""
        batches = self.train_dataloader if inputs is None else _format_inputs_dataset(inputs)
        total: Tensor | None = None
        for rate in self._each_checkpoint(show_progress, "self influence"):
            factors = [self._factors(batch, self.loss_fn, self.reduction_type) for batch in batches]
            lengths = torch.cat([a.square().sum(1) * b.square().sum(1) for a, b in factors]) * rate
            total = lengths if total is None else total + lengths
        assert total is not None
        return total

    def _scores(self, inputs: Inputs, show_progress: bool) -> Tensor:
        if isinstance(inputs, DataLoader):
            _require_order(inputs, "inputs")
        batches = _format_inputs_dataset(inputs)
        total: Tensor | None = None
        for rate in self._each_checkpoint(show_progress, "influence"):
            test = [self._factors(batch, self.test_loss_fn, self.test_reduction_type) for batch in batches]
            gradients, values = (torch.cat(parts) for parts in zip(*test, strict=True))
            columns = []
            for batch in self.train_dataloader:
                gradient, value = self._factors(batch, self.loss_fn, self.reduction_type)
                columns.append((gradients @ gradient.T) * (values @ value.T))
            scores = torch.cat(columns, dim=1) * rate
            total = scores if total is None else total + scores
        assert total is not None
        return total

    def _factors(self, batch: Any, loss_fn: Loss, reduction: str) -> Factors:
        """Gradients at the layer's output, and its inputs, of each example of a batch."""
        inputs, labels = _split(batch, loss_fn, "train_dataset or inputs")
        inputs, labels = _on_device(inputs, _device(self.model)), _on_device(labels, _device(self.model))
        # What comes before the layer needs no graph, whose activations would be kept.
        with torch.no_grad(), _watched(self.final_fc_layer) as seen:
            output = self.model(*inputs)
            if len(seen) != 1:
                raise InfluenceError(
                    f"final_fc_layer ran {len(seen)} times for a batch, expected once; pass the model's last layer."
                )
            value, at_output = seen[0]
            _require_matrix(value, at_output, self.final_fc_layer)
            assert callable(loss_fn)
            torch.set_grad_enabled(True)
            loss: Any = loss_fn(output, labels)
            if not isinstance(loss, Tensor) or not loss.requires_grad:
                raise LossError("The loss does not depend on the output of final_fc_layer.")
            (gradient,) = torch.autograd.grad(loss.sum(), at_output)
        # The mean over examples divides each one's gradient by their number.
        scale = len(value) if reduction == "mean" and loss.dim() == 0 else 1
        return gradient.detach() * scale, value.detach()


@contextmanager
def _watched(layer: nn.Module) -> Iterator[list[Factors]]:
    """Note a layer's input and output, and begin gradients at its output."""
    seen: list[Factors] = []

    def begin_here(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not isinstance(output, Tensor) or not args or not isinstance(args[0], Tensor):
            raise InfluenceError("final_fc_layer does not map a tensor to a tensor; pass the model's last nn.Linear.")
        torch.set_grad_enabled(True)  # until the caller's context ends
        output = output.detach().requires_grad_()
        seen.append((args[0], output))
        return output

    handle = layer.register_forward_hook(begin_here)
    try:
        yield seen
    finally:
        handle.remove()


def _require_matrix(value: Tensor, output: Tensor, layer: nn.Module) -> None:
    if value.dim() != 2 or output.dim() != 2:
        raise InfluenceError(
            f"final_fc_layer takes {tuple(value.shape)} and gives {tuple(output.shape)}, expected (examples, numbers); "
            "use TracInCP for other layers."
        )
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.shape != (output.shape[1], value.shape[1]):
        raise InfluenceError(f"final_fc_layer is a {type(layer).__name__}, expected an nn.Linear.")


class TracInCPFastRandProj(TracInCPFast):
    """TracInCPFast for many queries: gradients of training examples are stored, and searched.

    Args:
        model, final_fc_layer, train_dataset, checkpoints, checkpoints_load_func, loss_fn, batch_size, test_loss_fn,
            vectorize: see `TracInCPFast`.
        nearest_neighbors: how stored gradients are searched; by default exactly, beyond a million examples by usearch
            where it is installed.
        projection_dim: numbers stored for each example and checkpoint, about; None stores gradients as they are. Both
            factors are projected to the root of it by matrices of normal numbers of variance 1 / root.
        seed: of these matrices.
    """

    def __init__(
        self,
        model: nn.Module,
        final_fc_layer: nn.Module | str,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoints: str | list[str] | Iterator[Any],
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        test_loss_fn: Loss = None,
        vectorize: bool = False,
        nearest_neighbors: NearestNeighbors | None = None,
        projection_dim: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            model, final_fc_layer, train_dataset, checkpoints, checkpoints_load_func, loss_fn, batch_size,
            test_loss_fn, vectorize,
        )  # fmt: skip
        if projection_dim is not None and projection_dim < 1:
            raise InfluenceError(f"projection_dim is {projection_dim}, expected 1 or more, or None.")
        self.projection_dim, self.seed = projection_dim, seed
        self._projections: Factors | None = None
        self._stored = self._quantities(self.train_dataloader, self.loss_fn, self.reduction_type)
        self.nearest_neighbors = nearest_neighbors or default_nearest_neighbors(len(self._stored))
        self.nearest_neighbors.setup(self._stored)

    def influence(  # type: ignore[override]  # captum's signature
        self, inputs: Inputs, k: int | None = 5, proponents: bool = True
    ) -> Tensor | KMostInfluentialResults:
        """The training examples with the most influence on test examples, or the most against them.

        Args:
            inputs: a batch of test examples, the labels last, or a loader of such.
            k: how many to find for each test example; None gives all scores.
            proponents: the most influential ones; False for the most opposed.

        Returns:
            The k best, or scores (test, train).
        """
        quantities = self._quantities(_format_inputs_dataset(inputs), self.test_loss_fn, self.test_reduction_type)
        if k is None:
            return quantities @ self._stored.T
        _require_count("k", k)
        sign = 1 if proponents else -1
        positions, products = self.nearest_neighbors.get_nearest_neighbors(sign * quantities, k)
        return KMostInfluentialResults(positions, sign * products)

    def self_influence(
        self,
        inputs: Inputs | None = None,
        show_progress: bool = False,
        outer_loop_by_checkpoints: bool = False,
    ) -> NoReturn:
        """Not offered, as upstream: projected gradients give lengths inexactly.

        Raises:
            NotImplementedError: always; `TracInCPFast.self_influence` gives them exactly.
        """
        raise NotImplementedError(
            "TracInCPFastRandProj has no self influence; `TracInCPFast` takes the same arguments and gives it exactly."
        )

    def compute_intermediate_quantities(self, inputs: Inputs) -> Tensor:
        """Gradients of all checkpoints side by side, projected, each times the root of its learning rate.

        The scalar product of two rows is the influence of one example on the other.

        Args:
            inputs: a batch or a loader.

        Returns:
            (examples, checkpoints * numbers).
        """
        return self._quantities(_format_inputs_dataset(inputs), self.loss_fn, self.reduction_type)

    def _quantities(self, batches: Any, loss_fn: Loss, reduction: str) -> Tensor:
        columns = []
        for rate in self._each_checkpoint(False, "projected gradients"):
            rows = [self._products(self._factors(batch, loss_fn, reduction)) for batch in batches]
            columns.append(torch.cat(rows) * rate**0.5)
        return torch.cat(columns, dim=1)

    def _products(self, factors: Factors) -> Tensor:
        gradient, value = factors
        if self.projection_dim is not None and gradient.shape[1] * value.shape[1] > self.projection_dim:
            if self._projections is None:
                self._projections = self._drawn(gradient, value)
            gradient, value = (part @ matrix for part, matrix in zip(factors, self._projections, strict=True))
        return torch.einsum("bo,bi->boi", gradient, value).flatten(1)

    def _drawn(self, gradient: Tensor, value: Tensor) -> Factors:
        assert self.projection_dim is not None
        generator = torch.Generator().manual_seed(self.seed)
        # Upstream: the seed is set before a loader is asked, which draws a number of its own.
        torch.empty((), dtype=torch.int64).random_(generator=generator)
        root = int(self.projection_dim**0.5)
        first, second = (
            torch.normal(torch.zeros(part.shape[1], size), 1.0 / size**0.5, generator=generator).to(part)
            for part, size in ((part, min(root, part.shape[1])) for part in (gradient, value))
        )
        return first, second
