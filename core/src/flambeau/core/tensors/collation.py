"""Samples to batches, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from flambeau.core.errors import MetadataError, TensorTypeError
from flambeau.core.tensors.fields import PerSample
from flambeau.core.tensors.info import Pad, TensorTypeInfo, is_typed
from flambeau.core.tensors.propagation import follow_samples
from flambeau.core.tensors.wrapping import make, plain


def collate(batch: Sequence[Any]) -> Any:
    """Put samples into one batch, as DataLoader does, typed tensors by what their type declares.

    Args:
        batch: samples of one structure: tensors, typed tensors, numbers, strings, and dictionaries, tuples, lists
            of them.

    Returns:
        The structure of one sample (tuples become lists) with batched leaves: a typed tensor of a type that stacks
        has one dimension more in front; one of a type that lists is a list.

    Raises:
        ValueError: no samples.
        TensorTypeError: samples differ in type.
        MetadataError: samples differ in metadata that must agree, or in shape where they are stacked.
    """
    if not len(batch):
        raise ValueError("collate: the batch is empty, expected at least one sample.")
    return default_collate(list(batch))


def collate_typed(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Collate typed tensors of one type; what DataLoader's default collation calls for them."""
    first = batch[0]
    cls = type(first)
    for place, sample in enumerate(batch):
        if type(sample) is not cls:
            raise TensorTypeError(
                f"collate: sample 0 is of type {cls.__name__}, sample {place} of type {type(sample).__name__}; "
                "a batch holds one type."
            )
    info = TensorTypeInfo.of(cls)
    if info.batch == "list":
        return list(batch)
    if callable(info.batch):
        return info.batch(list(batch))
    tensors = [plain(sample) for sample in batch]
    metadata = batch_metadata(batch)
    if isinstance(info.batch, Pad):
        if info.batch.lengths is not None:
            metadata[info.batch.lengths] = PerSample(tensor.shape[-1] for tensor in tensors)
        tensors = pad_together(tensors, info.batch.value)
    _refuse_shapes(cls.__name__, tensors)
    return make(default_collate(tensors), cls, metadata)


def batch_metadata(batch: Sequence[Any]) -> dict[str, Any]:
    """The metadata of a batch of typed tensors of one class: common values, or `PerSample`.

    Raises:
        MetadataError: a field that must agree does not.
    """
    cls = type(batch[0])
    info = TensorTypeInfo.of(cls)
    lengths = info.batch.lengths if isinstance(info.batch, Pad) else None
    metadata: dict[str, Any] = {}
    for name, declared in info.fields.items():
        values = [getattr(sample, name) for sample in batch]
        if declared.batch == "list" or name == lengths:
            metadata[name] = PerSample(values)
            continue
        for place, value in enumerate(values):
            if not _equal(value, values[0]):
                raise MetadataError(
                    f"collate: {cls.__name__}.{name} is {values[0]!r} in sample 0 and {value!r} in sample {place}; "
                    "bring the samples to one value, or declare the field with batch='list'."
                )
        metadata[name] = values[0]
    return metadata


def pad_together(tensors: Sequence[Tensor], value: float) -> list[Tensor]:
    """Pad tensors at the end of every dimension to their common largest size.

    Raises:
        MetadataError: different numbers of dimensions.
    """
    ndims = {tensor.dim() for tensor in tensors}
    if len(ndims) > 1:
        raise MetadataError(f"collate: samples have {' and '.join(map(str, sorted(ndims)))} dimensions, expected one.")
    largest = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    padded = []
    for tensor in tensors:
        room = [(0, most - size) for most, size in zip(largest, tensor.shape, strict=True)]
        flat = [amount for pair in reversed(room) for amount in pair]
        padded.append(torch.nn.functional.pad(tensor, flat, value=value) if any(flat) else tensor)
    return padded


def unbatch(batch: Any) -> list[Any]:
    """Take a batch apart into samples; undoes `collate` of tensors and dictionaries of them.

    Args:
        batch: a tensor or typed tensor (split along its first dimension; metadata follows, padding with recorded
            lengths is cut off), a list of samples, or a dictionary of such.

    Returns:
        The samples. Views, where nothing was cut.

    Raises:
        TensorTypeError: anything else.
        ValueError: the parts of a dictionary hold different numbers of samples.
    """
    if is_typed(batch):
        return _unbatch_typed(batch)
    if isinstance(batch, Tensor):
        return list(batch.unbind(0))
    if isinstance(batch, list):
        return batch
    if isinstance(batch, Mapping):
        parts = {key: unbatch(value) for key, value in batch.items()}
        if len({len(part) for part in parts.values()}) > 1:
            sizes = ", ".join(f"{key}: {len(part)}" for key, part in parts.items())
            raise ValueError(f"unbatch: the parts hold different numbers of samples ({sizes}).")
        return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
    raise TensorTypeError(
        f"unbatch: {type(batch).__name__} is no batch; expected a tensor, a list or a dictionary of them."
    )


def _unbatch_typed(batch: Any) -> list[Any]:
    cls = type(batch)
    info = TensorTypeInfo.of(cls)
    rule = info.index if callable(info.index) else follow_samples
    metadata = info.metadata(batch)
    lengths = info.batch.lengths if isinstance(info.batch, Pad) else None
    samples = []
    for place, piece in enumerate(plain(batch).unbind(0)):
        own = rule(metadata, (place,))
        if lengths is not None and own is not None:
            piece = piece[..., : own[lengths]]
        samples.append(piece if own is None else make(piece, cls, own))
    return samples


def _refuse_shapes(owner: str, tensors: Sequence[Tensor]) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            raise MetadataError(
                f"collate: {owner} sample 0 has shape {tuple(tensors[0].shape)}, sample {place} "
                f"{tuple(tensor.shape)}; bring them to one size, or declare the type with batch='list' or 'pad'."
            )


def _equal(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b
