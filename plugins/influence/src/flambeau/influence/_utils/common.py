"""Results, checkpoints, batches and losses: what the methods have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from flambeau.core.errors import HubError
from flambeau.core.weights import load_state_dict
from flambeau.influence.errors import BatchError, CheckpointMismatchError, InfluenceError, LossError

__all__ = ["KMostInfluentialResults"]

Batch = tuple[Any, ...]
Inputs = Batch | DataLoader[Any]
LoadFunction = Callable[[nn.Module, Any], float]
Loss = nn.Module | Callable[..., Tensor] | None


class KMostInfluentialResults(NamedTuple):
    """The most influential training examples of each test example.

    Attributes:
        indices: (test, k), int64: positions in the training data, most influential first.
        influence_scores: (test, k): their influence; for opponents the most negative first.
    """

    indices: Tensor
    influence_scores: Tensor


# Checkpoints


def _load_flexible_state_dict(model: nn.Module, path: str | Path | Mapping[str, Any]) -> float:
    """Load a checkpoint into a model, with or without the prefix of `nn.DataParallel`.

    Args:
        model: what is loaded into, in place.
        path: a file of a state dict, or such a mapping; also one that holds it under "state_dict" or
            "model_state_dict".

    Returns:
        The mapping's "learning_rate", or 1.0.

    Raises:
        CheckpointMismatchError: names or shapes differ.
        CheckpointError, UnsafeCheckpointError: the file cannot be read.
    """
    content = dict(path if isinstance(path, Mapping) else load_state_dict(path, mmap=True))
    rate = content.pop("learning_rate", 1.0)
    for key in ("state_dict", "model_state_dict"):
        if isinstance(content.get(key), Mapping):
            content = dict(content[key])
    wrapped = isinstance(model, nn.DataParallel)
    prefixed = bool(content) and all(name.startswith("module.") for name in content)
    if prefixed and not wrapped:
        content = {name.removeprefix("module."): value for name, value in content.items()}
    elif wrapped and not prefixed:
        content = {f"module.{name}": value for name, value in content.items()}
    model.load_state_dict(content)
    return float(rate)


def _listed_checkpoints(checkpoints: str | Path | Iterable[Any]) -> list[Any]:
    """The checkpoints one after the other: of a folder its files in natural order, a-2 before a-10."""
    if isinstance(checkpoints, (str, Path)):
        folder = Path(checkpoints)
        if not folder.is_dir():
            raise InfluenceError(
                f"checkpoints is {str(checkpoints)!r}, which is no folder; pass a folder of checkpoints, or a list of "
                "files."
            )
        found: list[Any] = [str(path) for path in sorted(folder.iterdir(), key=_natural) if path.is_file()]
    elif checkpoints is None:
        raise InfluenceError("checkpoints is None, expected a folder, a list of files, or an iterable of checkpoints.")
    else:
        found = list(checkpoints)
        if isinstance(checkpoints, list) and all(isinstance(path, str) for path in found):
            found.sort(key=lambda path: _natural(Path(path)))  # Upstream: lists of files are sorted as folders are
    if not found:
        raise InfluenceError(f"checkpoints {checkpoints!r} has none; influence is a sum over checkpoints.")
    return found


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _loaded(model: nn.Module, checkpoint: Any, load: LoadFunction) -> float:
    """Load one checkpoint; returns its learning rate."""
    try:
        rate = load(model, checkpoint)
    except (RuntimeError, KeyError, HubError) as error:
        shown = checkpoint if isinstance(checkpoint, (str, Path)) else type(checkpoint).__name__
        raise CheckpointMismatchError(
            f"The checkpoint {shown} cannot be loaded into {type(model).__name__}: {error} Pass the model that it was "
            "saved from, or a `checkpoints_load_func` that adapts it."
        ) from error
    if not isinstance(rate, (int, float)) and not (isinstance(rate, Tensor) and rate.numel() == 1):
        raise InfluenceError(
            f"checkpoints_load_func returned {type(rate).__name__}, expected the learning rate as a number."
        )
    return float(rate)


@contextmanager
def _borrowed(model: nn.Module) -> Iterator[None]:
    """Give the model back as it was: parameters, buffers, gradients wanted.

    Upstream leaves the last checkpoint in it.
    """
    tensors = [*model.parameters(), *model.buffers()]
    saved = [tensor.detach().clone() for tensor in tensors]
    wanted = [tensor.requires_grad for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, saved, strict=True):
                tensor.copy_(value)
        for tensor, flag in zip(tensors, wanted, strict=True):
            tensor.requires_grad_(flag)


def _require_fixed_statistics(model: nn.Module) -> None:
    """Normalization over the batch makes one example's gradient depend on the others."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise InfluenceError(
                f"{name or 'model'} is a {type(module).__name__} that uses the statistics of the batch, so that no "
                "example has a gradient of its own; call `model.eval()` before."
            )


# Batches


def _loader(data: Dataset[Any] | DataLoader[Any], batch_size: int | None, what: str) -> DataLoader[Any]:
    """A loader that gives the examples in their order."""
    if isinstance(data, DataLoader):
        _require_order(data, what)
        return data
    if not hasattr(data, "__getitem__") and not isinstance(data, IterableDataset):
        raise BatchError(f"{what} is a {type(data).__name__}, expected a Dataset or a DataLoader.")
    if type(data) is TensorDataset and batch_size is not None and len(data):
        # Slices are what collating examples one by one gives, many times faster.
        return DataLoader(_Slices(data, batch_size), batch_size=None)
    return DataLoader(data, batch_size=batch_size, shuffle=False)


class _Slices(Dataset[Any]):
    """Batches of a dataset of tensors, as slices of them."""

    def __init__(self, data: TensorDataset, batch_size: int) -> None:
        self.data, self.batch_size = data, batch_size

    def __len__(self) -> int:
        return -(-len(self.data) // self.batch_size)

    def __getitem__(self, number: int) -> list[Tensor]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        begin = number * self.batch_size
        return [tensor[begin : begin + self.batch_size] for tensor in self.data.tensors]


_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def _require_order(loader: DataLoader[Any], what: str) -> None:
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    for found in (loader.sampler, sampler):
        if isinstance(found, _SHUFFLING) or getattr(found, "shuffle", False) is True:
            raise BatchError(
                f"{what} is a DataLoader with a {type(found).__name__}, which gives another order each time, so that "
                "positions would mean nothing; pass the dataset itself, or a loader with shuffle=False."
            )


class _DatasetFromList(Dataset[Any]):
    """Batches that are there already, as a dataset."""

    def __init__(self, _l: list[Any]) -> None:
        self._l = _l

    def __getitem__(self, i: int) -> Any:
        return self._l[i]

    def __len__(self) -> int:
        return len(self._l)


def _format_inputs_dataset(inputs_dataset: Any, what: str = "inputs") -> Iterable[Batch]:
    """Batches of what a caller passed: a loader's, or the one batch itself."""
    if isinstance(inputs_dataset, DataLoader):
        return inputs_dataset
    if not isinstance(inputs_dataset, (tuple, list)) or not inputs_dataset:
        raise BatchError(
            f"{what} is a {type(inputs_dataset).__name__}, expected a batch (a tuple of the model's inputs and the "
            "labels) or a DataLoader of such."
        )
    return [tuple(inputs_dataset)]


def _split(batch: Any, loss_fn: Loss, what: str) -> tuple[Batch, Any]:
    """The model's inputs and the labels: a batch's last element."""
    if not isinstance(batch, (tuple, list)):
        raise BatchError(
            f"A batch of {what} is a {type(batch).__name__}, expected a tuple whose last element are the labels; a "
            "dataset's items are (input, label)."
        )
    if len(batch) < 2:
        if loss_fn is None:
            return tuple(batch), None
        raise BatchError(
            f"A batch of {what} has one element, expected inputs and labels: the loss of an example is "
            "loss_fn(model(*inputs), labels)."
        )
    return tuple(batch[:-1]), batch[-1]


def _size(batch: Any) -> int:
    """How many examples a batch has."""
    first = next((value for value in batch if isinstance(value, Tensor) and value.dim()), None)
    if first is None:
        raise BatchError("A batch has no tensor with a dimension of examples.")
    return len(first)


def _on_device(values: Any, device: torch.device) -> Any:
    if isinstance(values, Tensor):
        return values.to(device)
    if isinstance(values, (tuple, list)):
        return type(values)(_on_device(value, device) for value in values)
    return values


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


# Losses


def _check_loss_fn(loss_fn: Loss, name: str, sample_wise_grads_per_batch: bool) -> str:
    """How a loss reduces a batch: "sum", "mean" or "none"; what has no `reduction` is taken for what is needed.

    Raises:
        LossError: the loss reduces another way than the method needs.
    """
    wanted = ("sum", "mean") if sample_wise_grads_per_batch else ("none",)
    if loss_fn is None:
        return wanted[0]
    reduction = getattr(loss_fn, "reduction", None)
    if reduction is None:
        return wanted[0]
    if reduction not in wanted:
        raise LossError(
            f"{name} has reduction {reduction!r}, expected {' or '.join(map(repr, wanted))} with "
            f"sample_wise_grads_per_batch={sample_wise_grads_per_batch}; build it with reduction={wanted[0]!r}."
        )
    return str(reduction)


def _require_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 1:
        raise InfluenceError(f"{name} is {value!r}, expected a positive int.")


def _top(scores: Tensor, k: int, proponents: bool) -> KMostInfluentialResults:
    """The k largest scores of each row, or the k smallest."""
    _require_count("k", k)
    found = torch.topk(scores, min(k, scores.shape[1]), dim=1, largest=proponents)
    return KMostInfluentialResults(found.indices, found.values)
