"""Parameters for each sample of a batch, where the batch is, on the accelerator for instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils import _pytree as pytree

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import _random
from flambeau.vision.transforms.v2._container import Compose
from flambeau.vision.transforms.v2._transform import RandomApplyTransform, Transform, flatten
from flambeau.vision.transforms.v2._utils import first

_KEPT_APART = (tv_tensors.BoundingBoxes, tv_tensors.EncodedImage, tv_tensors.KeyPoints)


def batched(transform: Transform) -> Batched:
    """Make a transform of samples into one of batches that draws parameters for each sample.

    What it does to sample i is what `transform(sample_i, replay=params[i])` does, where `params` is what it returns
    with `return_params=True`: a list with one recording for each sample. The steps of a `Compose` draw for all samples
    one after another. Samples for which a step drew the same (to flip or not to flip) go through it together; the
    others, and containers that choose among transforms, one by one. Everything stays on the batch's device.

    Args:
        transform: of samples.

    Returns:
        A module. It takes tensors with the batch as the first dimension: images [B, C, H, W] (plain, or `Image`),
        `Video`, `Mask`; plain tensors such as labels [B] pass. Boxes and key points differ in number from sample to
        sample and are refused.

    Raises:
        TypeError: `transform` is none of `transforms.v2`.

    Example:
        >>> from flambeau.vision.transforms import v2
        >>> augment = batched(v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(brightness=0.2)]))
        >>> augment(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 3, 32, 32])
    """
    return Batched(transform)


class Batched(Transform):
    """What `batched` returns."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        if not isinstance(transform, Transform):
            raise TypeError(f"batched takes a transform of transforms.v2, not {type(transform).__name__}.")
        self.inner = transform

    def __call__(
        self,
        *inputs: Any,
        generator: Generator | None = None,
        return_params: bool = False,
        replay: Sequence[Any] | None = None,
    ) -> Any:
        """Transform a batch; keywords as those of `Transform`, with one recording for each sample."""
        sample = first(inputs)
        flat, structure = flatten(sample)
        size = _batch_size(flat)
        if replay is not None and len(replay) != size:
            raise ValueError(f"replay has recordings of {len(replay)} samples, the batch has {size}.")
        tapes = [_random.Tape(None if replay is None else replay[index]) for index in range(size)]
        with _random.session(given=generator):
            out = _step(self.inner, flat, structure, tapes)
        for tape in tapes:
            tape.finish()
        output = pytree.tree_unflatten(out, structure)
        return (output, [tape.records for tape in tapes]) if return_params else output

    def forward(self, *inputs: Any) -> Any:
        """Transform a batch."""
        return self(*inputs)


def _batch_size(flat: list[Any]) -> int:
    for inpt in flat:
        if isinstance(inpt, _KEPT_APART):
            raise TypeError(
                f"batched: {type(inpt).__name__} of a batch are no tensor; transform such samples one by one."
            )
    sizes = {inpt.shape[0] for inpt in flat if isinstance(inpt, Tensor) and inpt.ndim > 0}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"batched: expected tensors with one batch size, at least 1, found {sorted(sizes)}.")
    return next(iter(sizes))


def _step(transform: Any, flat: list[Any], structure: pytree.TreeSpec, tapes: list[_random.Tape]) -> list[Any]:
    """Transform the leaves of a batch."""
    with _random.session(own=getattr(transform, "generator", None)):
        if type(transform) is Compose:
            for inner in transform.transforms:
                flat = _step(inner, flat, structure, tapes)
            return flat
        if type(transform).forward in (Transform.forward, RandomApplyTransform.forward):
            return _grouped(transform, flat, tapes)
        return _one_by_one(transform, flat, structure, tapes)


def _one_by_one(transform: Any, flat: list[Any], structure: pytree.TreeSpec, tapes: list[_random.Tape]) -> list[Any]:
    outputs = []
    for index, tape in enumerate(tapes):
        with _random.session(tape=tape):
            output = transform(pytree.tree_unflatten(_part(flat, index), structure))
        leaves, after = flatten(output)
        if after != structure:
            raise ValueError(
                f"batched: {type(transform).__name__} changes the structure of samples; apply it to samples."
            )
        outputs.append(leaves)
    return [_stacked(leaf, [output[place] for output in outputs]) for place, leaf in enumerate(flat)]


def _grouped(transform: Transform, flat: list[Any], tapes: list[_random.Tape]) -> list[Any]:
    """Draw for each sample, then transform those together that drew the same."""
    needed = transform._needs_transform_list(_part(flat, 0))
    groups: dict[Any, tuple[dict[str, Any] | None, list[int]]] = {}
    for index, tape in enumerate(tapes):
        leaves = _part(flat, index)
        transform.check_inputs(leaves)
        with _random.session(tape=tape):
            params = _drawn(transform, [leaf for leaf, needs in zip(leaves, needed, strict=True) if needs])
        groups.setdefault(_key(params), (params, []))[1].append(index)
    results: list[list[Any]] = [[None] * len(tapes) for _ in flat]
    for params, members in groups.values():
        for place, leaf in enumerate(flat):
            if needed[place] and params is not None:
                part = leaf.as_subclass(Tensor)[members]
                part = tv_tensors.wrap(part, like=leaf) if isinstance(leaf, tv_tensors.TVTensor) else part
                result = transform.transform(part, params)
                for row, index in enumerate(members):
                    results[place][index] = _row(result, row)
            elif needed[place]:
                for index in members:
                    results[place][index] = _row(leaf, index)
    return [_stacked(leaf, rows) if needs else leaf for leaf, rows, needs in zip(flat, results, needed, strict=True)]


def _drawn(transform: Transform, chosen: list[Any]) -> dict[str, Any] | None:
    """The parameters for one sample; None where the transform is not to be applied."""
    if isinstance(transform, RandomApplyTransform) and not transform.applies():
        return None
    return transform._decided(lambda: transform.make_params(chosen))


def _key(value: Any) -> Any:
    """Equal for equal parameters; those with tensors are equal to none."""
    if isinstance(value, Tensor):
        return id(value)
    if isinstance(value, Mapping):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return value


def _part(flat: list[Any], index: int) -> list[Any]:
    """The leaves of one sample, with their types."""
    return [_row(leaf, index) if isinstance(leaf, Tensor) and leaf.ndim else leaf for leaf in flat]


def _row(leaf: Tensor, index: int) -> Tensor:
    row = leaf.as_subclass(Tensor)[index]
    return tv_tensors.wrap(row, like=leaf) if isinstance(leaf, tv_tensors.TVTensor) else row


def _stacked(leaf: Any, rows: list[Any]) -> Any:
    if not isinstance(leaf, Tensor) or leaf.ndim == 0:
        return leaf
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        found = sorted(map(list, shapes))
        raise ValueError(
            f"batched: samples end up with different shapes {found}; put a crop or resize of one size last."
        )
    whole = torch.stack([row.as_subclass(Tensor) for row in rows])
    return tv_tensors.wrap(whole, like=rows[0]) if isinstance(rows[0], tv_tensors.TVTensor) else whole
