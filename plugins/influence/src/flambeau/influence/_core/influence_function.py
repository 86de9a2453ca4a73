"""Influence functions: what a training example's weight changes in the loss of a test example.

Koh and Liang, "Understanding Black-box Predictions via Influence Functions", 2017, arXiv:1703.04730: the influence of z
on z' is `<gradient of loss(z'), H^-1 gradient of loss(z)>`, H being the Hessian of the loss of all training data. With
the largest eigenvalues and vectors of H alone (Schioppa et al., "Scaling Up Influence Functions", 2022,
arXiv:2112.03052), it is a scalar product of projected gradients.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev
from torch.utils.data import DataLoader, Dataset

from flambeau.core.progress import progress
from flambeau.influence._core.influence import DataInfluence
from flambeau.influence._gradients import SampleGradients, chosen_parameters
from flambeau.influence._utils.common import (
    Inputs,
    KMostInfluentialResults,
    LoadFunction,
    Loss,
    _borrowed,
    _check_loss_fn,
    _device,
    _format_inputs_dataset,
    _load_flexible_state_dict,
    _loaded,
    _loader,
    _on_device,
    _require_fixed_statistics,
    _require_order,
    _size,
    _split,
    _top,
)
from flambeau.influence.errors import InfluenceError

__all__ = ["InfluenceFunctionBase", "IntermediateQuantitiesInfluenceFunction", "NaiveInfluenceFunction"]

# Parameters whose Hessian is written down whole: 400 million numbers of float32 are 1.6 GB.
_MOST_PARAMETERS = 20_000


class InfluenceFunctionBase(DataInfluence):
    """What influence functions share.

    Args:
        model: the model; each call gives it back with the parameters that it had.
        train_dataset: a dataset of tuples whose last element is the label, or a loader of batches of such that keeps
            the order.
        checkpoint: the trained model's, as `checkpoints_load_func` takes it.
        checkpoints_load_func: `(model, checkpoint) -> learning rate`; the rate is not used.
        layers: names of layers whose parameters count; by default all parameters that want gradients.
        loss_fn: `loss_fn(model(*inputs), labels)`; None where the model gives the loss of each example itself.
        batch_size: of examples, where `train_dataset` and `hessian_dataset` are datasets.
        hessian_dataset: what the Hessian is computed of; by default the training data.
        test_loss_fn: for test examples; by default `loss_fn`.
        sample_wise_grads_per_batch: which reduction losses are to have: "sum" or "mean" where True, else "none".
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoint: str,
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        hessian_dataset: Dataset[Any] | DataLoader[Any] | None = None,
        test_loss_fn: Loss = None,
        sample_wise_grads_per_batch: bool = False,
    ) -> None:
        super().__init__(model, train_dataset)
        self.checkpoint, self.checkpoints_load_func = checkpoint, checkpoints_load_func
        self.layers, self.loss_fn, self.batch_size = layers, loss_fn, batch_size
        self.test_loss_fn = loss_fn if test_loss_fn is None else test_loss_fn
        self.sample_wise_grads_per_batch = sample_wise_grads_per_batch
        self.reduction_type = _check_loss_fn(loss_fn, "loss_fn", sample_wise_grads_per_batch)
        self.test_reduction_type = _check_loss_fn(self.test_loss_fn, "test_loss_fn", sample_wise_grads_per_batch)
        self.train_dataloader = _loader(train_dataset, batch_size, "train_dataset")
        self.hessian_dataset = train_dataset if hessian_dataset is None else hessian_dataset
        self.hessian_dataloader = _loader(self.hessian_dataset, batch_size, "hessian_dataset")
        self._names = chosen_parameters(model, layers)

    @abstractmethod
    def self_influence(self, inputs_dataset: Inputs | None = None, show_progress: bool = False) -> Tensor:
        """Influence of each example on itself, (examples,)."""

    @abstractmethod
    def influence(  # type: ignore[override]  # captum's signature
        self, inputs: Inputs, k: int | None = None, proponents: bool = True, show_progress: bool = False
    ) -> Tensor | KMostInfluentialResults:
        """Influence of training examples on test examples."""

    @contextmanager
    def _at_checkpoint(self) -> Iterator[None]:
        """Load the checkpoint, and give the model back in the end."""
        _require_fixed_statistics(self.model)
        with _borrowed(self.model):
            _loaded(self.model, self.checkpoint, self.checkpoints_load_func)
            yield


class IntermediateQuantitiesInfluenceFunction(InfluenceFunctionBase):
    """Influence as a scalar product of one vector for each example."""

    def compute_intermediate_quantities(
        self,
        inputs_dataset: Inputs,
        aggregate: bool = False,
        show_progress: bool = False,
        return_on_cpu: bool = True,
        test: bool = False,
    ) -> Tensor:
        """The vectors whose scalar products are influences: gradients times `_projection()`.

        Args:
            inputs_dataset: a batch or a loader.
            aggregate: their sum, as one row.
            show_progress: print how far it is.
            return_on_cpu: move them there.
            test: whether examples are test examples, whose loss is `test_loss_fn`.

        Returns:
            (examples, numbers), or (1, numbers).
        """
        loss_fn = self.test_loss_fn if test else self.loss_fn
        gradients = SampleGradients(self.model, self._names, loss_fn, "inputs")
        projection, rows = self._projection(), []
        batches = _format_inputs_dataset(inputs_dataset)
        with self._at_checkpoint(), progress(type(self).__name__, show=show_progress) as advance:
            for batch in batches:
                found = gradients(batch).to(projection.device) @ projection
                rows.append(found.sum(0, keepdim=True) if aggregate else found)
                advance(1)
        quantities = torch.cat(rows).sum(0, keepdim=True) if aggregate else torch.cat(rows)
        return quantities.cpu() if return_on_cpu else quantities.to(_device(self.model))

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
        """
        if isinstance(inputs, DataLoader):
            _require_order(inputs, "inputs")
        test = self.compute_intermediate_quantities(inputs, show_progress=show_progress, test=True)
        train = self.compute_intermediate_quantities(self.train_dataloader, show_progress=show_progress)
        scores = test @ train.T
        return scores if k is None else _top(scores, k, proponents)

    def self_influence(self, inputs_dataset: Inputs | None = None, show_progress: bool = False) -> Tensor:
        """Influence of each example on itself: squared lengths of its vectors.

        Args:
            inputs_dataset: a batch or a loader; None for the training data.
            show_progress: print how far it is.

        Returns:
            (examples,).
        """
        given = self.train_dataloader if inputs_dataset is None else inputs_dataset
        return self.compute_intermediate_quantities(given, show_progress=show_progress).square().sum(1)

    @abstractmethod
    def _projection(self) -> Tensor:
        """(parameters, numbers), such that it times its transpose is the inverse of the Hessian, about."""

    def _total_loss(self, parameters: dict[str, Tensor], rest: dict[str, Tensor], batch: Any) -> Tensor:
        """The summed loss of a batch as a function of parameters."""
        inputs, labels = _split(batch, self.loss_fn, "hessian_dataset")
        inputs, labels = _on_device(inputs, _device(self.model)), _on_device(labels, _device(self.model))
        output: Tensor = functional_call(self.model, {**parameters, **rest}, inputs)
        if self.loss_fn is not None:
            output = self.loss_fn(output, labels)
        return output.sum() * (_size(inputs) if self.reduction_type == "mean" else 1)

    def _parameters(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        everything = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        everything = {name: value.detach() for name, value in everything.items()}
        return {name: everything.pop(name) for name in self._names}, everything

    def _unflattened(self, flat: Tensor, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        parts = flat.split([value.numel() for value in parameters.values()])
        return {name: part.view(value.shape) for part, (name, value) in zip(parts, parameters.items(), strict=True)}


class NaiveInfluenceFunction(IntermediateQuantitiesInfluenceFunction):
    """Influence functions by the whole Hessian, for few parameters: a small model, or some layers.

    Args:
        model, train_dataset, checkpoint, checkpoints_load_func, layers, loss_fn, batch_size, hessian_dataset,
            test_loss_fn, sample_wise_grads_per_batch: see `InfluenceFunctionBase`.
        projection_dim: how many eigenvectors are kept, those of the largest eigenvalues.
        seed: accepted; nothing is random here.
        hessian_reg: added to the Hessian's diagonal.
        hessian_inverse_tol: eigenvalues below count as 0.
        projection_on_cpu: keep eigenvectors there.
        show_progress: print how far it is.

    Raises:
        InfluenceError: more than 20,000 parameters, of which `ArnoldiInfluenceFunction` needs no whole Hessian.
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoint: str,
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        hessian_dataset: Dataset[Any] | DataLoader[Any] | None = None,
        test_loss_fn: Loss = None,
        sample_wise_grads_per_batch: bool = False,
        projection_dim: int = 50,
        seed: int = 42,
        hessian_reg: float = 1e-6,
        hessian_inverse_tol: float = 1e-5,
        projection_on_cpu: bool = True,
        show_progress: bool = False,
    ) -> None:
        super().__init__(
            model, train_dataset, checkpoint, checkpoints_load_func, layers, loss_fn, batch_size, hessian_dataset,
            test_loss_fn, sample_wise_grads_per_batch,
        )  # fmt: skip
        self.projection_dim, self.seed = projection_dim, seed
        self.hessian_reg, self.hessian_inverse_tol = hessian_reg, hessian_inverse_tol
        self.projection_on_cpu = projection_on_cpu
        total = self._hessian(show_progress)
        values, vectors = _top_eigen(total, projection_dim, hessian_reg, hessian_inverse_tol)
        self.R = vectors / values.sqrt()
        if projection_on_cpu:
            self.R = self.R.cpu()

    def _projection(self) -> Tensor:
        return self.R

    def _hessian(self, show_progress: bool) -> Tensor:
        with self._at_checkpoint(), progress("NaiveInfluenceFunction: Hessian", show=show_progress) as advance:
            parameters, rest = self._parameters()
            flat = torch.cat([value.flatten() for value in parameters.values()])
            if len(flat) > _MOST_PARAMETERS:
                raise InfluenceError(
                    f"The Hessian of {len(flat)} parameters does not fit into memory; choose fewer `layers`, or use "
                    "ArnoldiInfluenceFunction."
                )
            total = flat.new_zeros(len(flat), len(flat))

            def loss(flat: Tensor, batch: Any) -> Tensor:
                return self._total_loss(self._unflattened(flat, parameters), rest, batch)

            for batch in self.hessian_dataloader:
                total += jacrev(grad(loss))(flat, batch).detach()
                advance(1)
        return total


def _top_eigen(matrix: Tensor, count: int | None, regularization: float, tolerance: float) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric matrix that are above a tolerance, and their vectors as columns.

    Raises:
        InfluenceError: none is.
    """
    matrix = (matrix + matrix.T) / 2
    matrix = matrix + regularization * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    values, vectors = torch.linalg.eigh(matrix)
    kept = values.flip(0) > tolerance
    values, vectors = values.flip(0)[kept][:count], vectors.flip(1)[:, kept][:, :count]
    if not len(values):
        raise InfluenceError(
            f"No eigenvalue of the Hessian is above hessian_inverse_tol={tolerance}; lower it, or raise hessian_reg."
        )
    return values, vectors
