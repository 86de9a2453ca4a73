"""TracIn over checkpoints: gradients of training and test examples compared at points of the training.

Pruthi, Liu, Kale and Sundararajan, "Estimating Training Data Influence by Tracing Gradient Descent", 2020,
arXiv:2002.08484. The influence of a training example z on a test example z' is the sum over checkpoints of
`rate * <gradient of loss(z), gradient of loss(z')>`: how much steps of descent on z lowered the loss of z'.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flambeau.core.progress import progress
from flambeau.influence._core.influence import DataInfluence
from flambeau.influence._gradients import SampleGradients, chosen_parameters
from flambeau.influence._utils.common import (
    Batch,
    Inputs,
    KMostInfluentialResults,
    LoadFunction,
    Loss,
    _borrowed,
    _check_loss_fn,
    _format_inputs_dataset,
    _listed_checkpoints,
    _load_flexible_state_dict,
    _loaded,
    _loader,
    _require_fixed_statistics,
    _require_order,
    _top,
)

__all__ = ["TracInCP", "TracInCPBase"]

# Numbers that gradients of test examples kept at once have, at most: 1 GiB in float32.
_KEPT = 1 << 28


class TracInCPBase(DataInfluence):
    """What the forms of TracIn share: checkpoints, training data, losses.

    Args:
        model: the model; each call gives it back with the parameters that it had.
        train_dataset: a dataset of tuples whose last element is the label, or a loader of batches of such that keeps
            the order.
        checkpoints: a folder (all its files, a-2 before a-10), a list of files, or an iterable of anything that
            `checkpoints_load_func` takes.
        checkpoints_load_func: `(model, checkpoint) -> learning rate`; loads the checkpoint into the model.
        loss_fn: `loss_fn(model(*inputs), labels)`; None where the model gives the loss of each example itself.
        batch_size: of training examples, where `train_dataset` is a dataset.
        test_loss_fn: for test examples; by default `loss_fn`.

    Raises:
        InfluenceError: no checkpoints; a loader that shuffles; a loss that reduces otherwise than the method needs.
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoints: str | list[str] | Iterator[Any],
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        test_loss_fn: Loss = None,
    ) -> None:
        super().__init__(model, train_dataset)
        self._checkpoints = _listed_checkpoints(checkpoints)
        self.checkpoints_load_func = checkpoints_load_func
        self.loss_fn = loss_fn
        self.test_loss_fn = loss_fn if test_loss_fn is None else test_loss_fn
        self.batch_size = batch_size
        self.train_dataloader = _loader(train_dataset, batch_size, "train_dataset")

    @property
    def checkpoints(self) -> list[Any]:
        """The checkpoints, in their order."""
        return self._checkpoints

    @checkpoints.setter
    def checkpoints(self, checkpoints: Any) -> None:
        self._checkpoints = _listed_checkpoints(checkpoints)

    @abstractmethod
    def influence(  # type: ignore[override]  # captum's signature
        self,
        inputs: Inputs,
        k: int | None = None,
        proponents: bool = True,
        unpack_inputs: bool = True,
        show_progress: bool = False,
    ) -> Tensor | KMostInfluentialResults:
        """Influence of training on test examples, (test, train), or the k best; `unpack_inputs` is upstream's."""

    @abstractmethod
    def self_influence(
        self,
        inputs: Inputs | None = None,
        show_progress: bool = False,
        outer_loop_by_checkpoints: bool = False,
    ) -> Tensor:
        """Influence of each example on itself, (examples,): high for rare and for mislabelled ones."""

    def _each_checkpoint(self, show_progress: bool, what: str) -> Iterator[float]:
        """Load the checkpoints one after the other, and give the model back in the end; yields learning rates."""
        _require_fixed_statistics(self.model)
        with (
            _borrowed(self.model),
            progress(f"{type(self).__name__}: {what}", len(self.checkpoints), show=show_progress) as advance,
        ):
            for checkpoint in self.checkpoints:
                yield _loaded(self.model, checkpoint, self.checkpoints_load_func)
                advance(1)


class TracInCP(TracInCPBase):
    """TracIn on the gradients of all parameters, or of those of some layers.

    Args:
        model, train_dataset, checkpoints, checkpoints_load_func, loss_fn, batch_size, test_loss_fn: see
            `TracInCPBase`.
        layers: names of layers whose parameters count; by default all parameters that want gradients.
        sample_wise_grads_per_batch: which reduction losses are to have: "sum" or "mean" where True, else "none".
            Gradients of single examples are computed the same way for both.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> data = torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([0, 1]))
        >>> loss = nn.CrossEntropyLoss(reduction="none")
        >>> tracin = TracInCP(model, data, iter([model.state_dict()]), loss_fn=loss, batch_size=2)
        >>> tracin.influence((torch.eye(2), torch.tensor([0, 1]))).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoints: str | list[str] | Iterator[Any],
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        test_loss_fn: Loss = None,
        sample_wise_grads_per_batch: bool = False,
    ) -> None:
        super().__init__(model, train_dataset, checkpoints, checkpoints_load_func, loss_fn, batch_size, test_loss_fn)
        self.sample_wise_grads_per_batch = sample_wise_grads_per_batch
        self.reduction_type = _check_loss_fn(loss_fn, "loss_fn", sample_wise_grads_per_batch)
        self.test_reduction_type = _check_loss_fn(self.test_loss_fn, "test_loss_fn", sample_wise_grads_per_batch)
        self.layers = layers
        self._names = chosen_parameters(model, layers)

    def influence(  # type: ignore[override]  # captum's signature
        self,
        inputs: Inputs,
        k: int | None = None,
        proponents: bool = True,
        show_progress: bool = False,
        aggregate: bool = False,
    ) -> Tensor | KMostInfluentialResults:
        """Influence of training examples on test examples.

        Args:
            inputs: a batch of test examples, the labels last, or a loader of such.
            k: how many training examples to find for each test example; None gives all scores.
            proponents: the most influential ones; False for the most opposed.
            show_progress: print how far it is.
            aggregate: sum over test examples before, which then are one.

        Returns:
            Scores (test, train), or the k best. Memory: these scores, the gradients of a batch of training examples,
            and up to 1 GiB of gradients of test examples, for each of which the training data are passed once.

        Raises:
            InfluenceError: batches without labels, a checkpoint that does not fit.
        """
        scores = self._scores(inputs, aggregate, show_progress)
        return scores if k is None else _top(scores, k, proponents)

    def self_influence(
        self,
        inputs: Inputs | None = None,
        show_progress: bool = False,
        outer_loop_by_checkpoints: bool = False,
    ) -> Tensor:
        """Influence of each example on itself: squared lengths of its gradients.

        Args:
            inputs: a batch or a loader; None for the training data.
            show_progress: print how far it is.
            outer_loop_by_checkpoints: accepted; each checkpoint is loaded once in any case.

        Returns:
            (examples,).
        """
        batches = self.train_dataloader if inputs is None else _format_inputs_dataset(inputs)
        gradients = self._gradients(self.loss_fn, "inputs")
        total: Tensor | None = None
        for rate in self._each_checkpoint(show_progress, "self influence"):
            lengths = torch.cat([gradients(batch).square().sum(1) for batch in batches]) * rate
            total = lengths if total is None else total + lengths
        assert total is not None
        return total

    def compute_intermediate_quantities(self, inputs: Inputs, aggregate: bool = False) -> Tensor:
        """Gradients of all checkpoints side by side, each times its learning rate.

        The scalar product with gradients that are not scaled is the influence of these examples.

        Args:
            inputs: a batch or a loader.
            aggregate: their sum, as one row.

        Returns:
            (examples, checkpoints * parameters), or (1, ...).
        """
        batches = _format_inputs_dataset(inputs)
        gradients, columns = self._gradients(self.loss_fn, "inputs"), []
        for rate in self._each_checkpoint(False, "gradients"):
            rows = [gradients(batch) for batch in batches]
            found = torch.stack([row.sum(0) for row in rows]).sum(0, True) if aggregate else torch.cat(rows)
            columns.append(found * rate)
        return torch.cat(columns, dim=1)

    def _gradients(self, loss_fn: Loss, what: str) -> SampleGradients:
        return SampleGradients(self.model, self._names, loss_fn, what)

    def _scores(self, inputs: Inputs, aggregate: bool, show_progress: bool) -> Tensor:
        if isinstance(inputs, DataLoader) and not aggregate:
            _require_order(inputs, "inputs")
        batches = _format_inputs_dataset(inputs)
        test = self._gradients(self.test_loss_fn, "inputs")
        train = self._gradients(self.loss_fn, "train_dataset")
        total: Tensor | None = None
        for rate in self._each_checkpoint(show_progress, "influence"):
            scores = torch.cat(
                [
                    torch.cat([kept @ train(batch).T for batch in self.train_dataloader], dim=1)
                    for kept in _kept(test, batches, aggregate)
                ]
            )
            total = scores * rate if total is None else total.add_(scores, alpha=rate)
        assert total is not None
        return total


def _kept(gradients: Callable[[Batch], Tensor], batches: Iterable[Batch], aggregate: bool) -> Iterator[Tensor]:
    """Gradients of test examples in pieces as large as memory is to hold; their sum as one row."""
    rows: list[Tensor] = []
    for batch in batches:
        found = gradients(batch)
        if aggregate:
            rows = [found.sum(0, keepdim=True) + (rows[0] if rows else 0)]
            continue
        if rows and sum(row.numel() for row in rows) + found.numel() > _KEPT:
            yield torch.cat(rows)
            rows = []
        rows.append(found)
    if rows:
        yield torch.cat(rows)
