"""TRAK: attribution by random projections of whole-model gradients.

Park, Georgiev, Ilyas, Leclerc and Madry, "TRAK: Attributing Model Behavior at Scale", 2023, arXiv:2303.14186. Near its
end a training is that of a linear model whose features are gradients of the output; with features phi of training
examples, projected to few numbers, example i adds `phi(test)^T (Phi^T Phi)^-1 phi(i) * weight(i)` to the output, the
weight being what the loss wants of it. Both factors are means over checkpoints, of several trainings where they are at
hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from flambeau.influence._core.tracincp import TracInCPBase
from flambeau.influence._gradients import SampleGradients, chosen_parameters
from flambeau.influence._projection import RandomProjection
from flambeau.influence._utils.common import (
    Batch,
    Inputs,
    KMostInfluentialResults,
    LoadFunction,
    _device,
    _format_inputs_dataset,
    _load_flexible_state_dict,
    _on_device,
    _require_order,
    _split,
    _top,
)
from flambeau.influence.errors import InfluenceError, LossError
from flambeau.influence.influence_store import InfluenceStore

__all__ = ["TRAK", "class_margin", "logistic_loss"]

OutputFunction = Callable[[Tensor, Any], Tensor]
Quantities = tuple[Tensor, Tensor]
"""Features (examples, checkpoints * projection_dim), and weights (examples, 1)."""


def class_margin(output: Tensor, label: Tensor) -> Tensor:
    """log(p / (1 - p)) of the probability of the true class: what TRAK explains of a classifier.

    Args:
        output: logits (examples, classes).
        label: (examples,), int64.

    Returns:
        (examples,).
    """
    if output.dim() != 2 or output.shape[1] < 2:
        raise LossError(
            f"The output is {tuple(output.shape)}, expected (examples, classes); pass `output_fn` for others."
        )
    place = label.unsqueeze(1)
    rest = output.scatter(1, place, float("-inf"))
    return output.gather(1, place).squeeze(1) - rest.logsumexp(1)


def logistic_loss(value: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy as a function of `class_margin`: log(1 + exp(-value)), (examples,)."""
    return nn.functional.softplus(-value)


class TRAK(TracInCPBase):
    """What each training example adds to an output of the model.

    Args:
        model, train_dataset, checkpoints, checkpoints_load_func, batch_size: see `TracInCPBase`; learning rates are not
            used. Checkpoints of several trainings make the scores better, those of one training a little.
        layers: names of layers whose parameters count; by default all parameters that want gradients.
        output_fn: `output_fn(model(*inputs), labels)`, (examples,): what is explained.
        loss_of_output: `loss_of_output(value, labels)`, (examples,): the training's loss as a function of `output_fn`.
        projection_dim: numbers that an example's gradients are projected to.
        seed: of the projections.
        damping: added to the diagonal of `Phi^T Phi`, >= 0; None takes a thousandth of its mean, so that there may be
            fewer examples than numbers. The paper has 0.
        store: a folder for features of training examples, float16; a later object with the same checkpoints goes on
            from there. None keeps them in memory.

    Raises:
        InfluenceError: no checkpoints; a loader that shuffles; a projection or damping that cannot be.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
        >>> data = torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([0, 1]))
        >>> trak = TRAK(model, data, iter([model.state_dict()]), batch_size=2, projection_dim=16)
        >>> trak.influence((torch.eye(2), torch.tensor([0, 1]))).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoints: str | list[str] | Iterator[Any],
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        output_fn: OutputFunction = class_margin,
        loss_of_output: OutputFunction = logistic_loss,
        batch_size: int | None = 1,
        projection_dim: int = 512,
        seed: int = 0,
        damping: float | None = None,
        store: str | Path | None = None,
    ) -> None:
        super().__init__(model, train_dataset, checkpoints, checkpoints_load_func, output_fn, batch_size)
        if damping is not None and not damping >= 0:
            raise InfluenceError(f"damping is {damping}, expected 0 or more, or None.")
        if store is not None and isinstance(train_dataset, DataLoader):
            raise InfluenceError("store needs train_dataset as a dataset, whose shards are computed one by one.")
        RandomProjection(projection_dim)
        self.output_fn, self.loss_of_output, self.layers = output_fn, loss_of_output, layers
        self.projection_dim, self.seed, self.damping, self.store = projection_dim, seed, damping, store
        self._names = chosen_parameters(model, layers)
        self._blocks: Callable[[], Iterable[Quantities]] | None = None
        self._roots: list[Tensor] = []

    def influence(  # type: ignore[override]  # captum's signature
        self, inputs: Inputs, k: int | None = None, proponents: bool = True, show_progress: bool = False
    ) -> Tensor | KMostInfluentialResults:
        """What training examples add to the output for test examples.

        Args:
            inputs: a batch of test examples, the labels last, or a loader of such.
            k: how many training examples to find for each test example; None gives all scores.
            proponents: the most influential ones; False for the most opposed.
            show_progress: print how far it is.

        Returns:
            Scores (test, train), or the k best. Features of the training data are computed by the first call.

        Raises:
            InfluenceError: batches without labels, a checkpoint that does not fit, `Phi^T Phi` that has no inverse.
        """
        if isinstance(inputs, DataLoader):
            _require_order(inputs, "inputs")
        blocks = self._trained(show_progress)
        queries = self._solved(self._quantities(_format_inputs_dataset(inputs), show_progress)[0])
        scores = torch.cat([(queries @ features.T) * weights.T for features, weights in blocks()], dim=1)
        return scores if k is None else _top(scores, k, proponents)

    def self_influence(
        self,
        inputs: Inputs | None = None,
        show_progress: bool = False,
        outer_loop_by_checkpoints: bool = False,
    ) -> Tensor:
        """What each example adds to its own output, (examples,); arguments as of `TracInCP.self_influence`."""
        blocks = self._trained(show_progress)()
        if inputs is not None:
            blocks = [self._quantities(_format_inputs_dataset(inputs), show_progress)]
        return torch.cat(
            [(self._solved(features) * features).sum(1) * weights.squeeze(1) for features, weights in blocks]
        )

    def compute_intermediate_quantities(self, inputs: Inputs) -> Tensor:
        """Projected gradients of the output, of all checkpoints side by side.

        Args:
            inputs: a batch or a loader.

        Returns:
            (examples, checkpoints * projection_dim).
        """
        return self._quantities(_format_inputs_dataset(inputs), False)[0]

    def _quantities(self, batches: Iterable[Batch], show_progress: bool) -> Quantities:
        gradients = SampleGradients(self.model, self._names, self.output_fn, "train_dataset or inputs")
        columns, weights = [], []
        for number, _ in enumerate(self._each_checkpoint(show_progress, "projected gradients")):
            project = RandomProjection(self.projection_dim, self.seed, number)
            pairs = [(project(gradients(batch)), self._weights(batch)) for batch in batches]
            columns.append(torch.cat([features for features, _ in pairs]))
            weights.append(torch.cat([weight for _, weight in pairs]))
        return torch.cat(columns, dim=1), torch.stack(weights).mean(0).unsqueeze(1)

    def _weights(self, batch: Any) -> Tensor:
        """How much the loss wants the output of each example to rise, (examples,)."""
        inputs, labels = _split(batch, self.output_fn, "train_dataset or inputs")
        inputs, labels = _on_device(inputs, _device(self.model)), _on_device(labels, _device(self.model))
        with torch.no_grad():
            value = self.output_fn(self.model(*inputs), labels)
        with torch.enable_grad():
            value = value.detach().requires_grad_()
            loss = self.loss_of_output(value, labels)
            if value.dim() != 1 or loss.shape != value.shape or not loss.requires_grad:
                raise LossError(
                    f"output_fn gave {tuple(value.shape)} and loss_of_output {tuple(loss.shape)}, expected "
                    "(examples,) of both, and a loss that depends on the output."
                )
            return -torch.autograd.grad(loss.sum(), value)[0]

    def _solved(self, features: Tensor) -> Tensor:
        """Features times the inverses of `Phi^T Phi`, a mean over checkpoints."""
        parts = features.split(self.projection_dim, dim=1)
        solved = [torch.cholesky_solve(part.double().T, root).T for part, root in zip(parts, self._roots, strict=True)]
        return torch.cat(solved, dim=1).to(features) / len(solved)

    def _trained(self, show_progress: bool) -> Callable[[], Iterable[Quantities]]:
        """Features of the training data, computed once; gives them block by block."""
        if self._blocks is not None:
            return self._blocks
        if self.store is None:
            kept = [self._quantities(self.train_dataloader, show_progress)]
            blocks: Callable[[], Iterable[Quantities]] = lambda: kept  # noqa: E731
        else:
            stores = self._filled(self.store, show_progress)
            device = _device(self.model)
            blocks = lambda: zip(*(map(_to(device), store.blocks()) for store in stores), strict=True)  # noqa: E731
        self._roots = self._factorized(blocks())
        self._blocks = blocks
        return blocks

    def _factorized(self, blocks: Iterable[Quantities]) -> list[Tensor]:
        """Cholesky factors of each checkpoint's `Phi^T Phi`, float64."""
        grams: list[Tensor] = []
        for features, _ in blocks:
            parts = [part.double() for part in features.split(self.projection_dim, dim=1)]
            products = [part.T @ part for part in parts]
            grams = [old + new for old, new in zip(grams, products, strict=True)] if grams else products
        roots = []
        for gram in grams:
            added = float(gram.diagonal().mean()) / 1000 if self.damping is None else self.damping
            root, failed = torch.linalg.cholesky_ex(gram + added * torch.eye(len(gram)).to(gram))
            if failed:
                raise InfluenceError(
                    f"Features of the training examples do not fill {self.projection_dim} dimensions with "
                    f"damping={added}; pass a larger `damping`, or a smaller `projection_dim`."
                )
            roots.append(root)
        return roots

    def _filled(self, folder: str | Path, show_progress: bool) -> tuple[InfluenceStore, InfluenceStore]:
        """Stores of features and of weights, with what was missing."""
        count = len(self.train_dataset)  # type: ignore[arg-type]
        about = {"method": "TRAK", "seed": self.seed, "parameters": self._names, "checkpoints": self._digests()}
        numbers = self.projection_dim * len(self.checkpoints)
        features = InfluenceStore(Path(folder) / "features", count, numbers, about=about)
        weights = InfluenceStore(Path(folder) / "weights", count, 1, dtype="float32", about=about)
        for number in sorted({*features.missing(), *weights.missing()}):
            part = Subset(self.train_dataset, features.span(number))  # type: ignore[arg-type]
            found = self._quantities(DataLoader(part, batch_size=self.batch_size), show_progress)
            features.write(number, found[0])
            weights.write(number, found[1])
        return features, weights

    def _digests(self) -> list[str]:
        """Of each checkpoint's parameters and buffers: features of others are of no use."""
        found = []
        for _ in self._each_checkpoint(False, "checkpoints"):
            digest = hashlib.sha256()
            for value in (*self.model.parameters(), *self.model.buffers()):
                flat = value.detach().cpu().contiguous().clone().flatten()
                digest.update(bytes(flat.untyped_storage()))
            found.append(digest.hexdigest())
        return found


def _to(device: torch.device) -> Callable[[Tensor], Tensor]:
    return lambda rows: rows.to(device)
