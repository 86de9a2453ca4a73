"""Functions of tensordicts: padding, merging, building."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._layout.non_tensor import padded as pad_non_tensor
from flambeau.data.tensordict._tensorcollection import TensorCollection

__all__ = ["dense_stack_tds", "make_tensordict", "merge_tensordicts", "pad", "pad_sequence"]


def pad(tensordict: Any, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> Any:
    """Put elements before and after those there are, along batch dimensions.

    Args:
        tensordict: of batch size (B0, B1, ...).
        pad_size: (before 0, after 0, before 1, after 1, ...), for as many batch dimensions from the first as wanted.
        value: what to put.
        inplace: change this tensordict.
        safe: check that `pad_size` is even in length and no longer than the batch dimensions allow.

    Returns:
        A tensordict of batch size (before 0 + B0 + after 0, ...).

    Raises:
        RuntimeError: `safe`, and `pad_size` does not fit.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> pad(TensorDict(a=torch.ones(2), batch_size=[2]), [1, 0])["a"]
        tensor([0., 1., 1.])
    """
    width = len(tensordict.batch_size)
    if safe and (len(pad_size) % 2 or len(pad_size) > 2 * width):
        raise RuntimeError(f"pad: {len(pad_size)} sizes for {width} batch dimensions; give two for each, at most.")
    pairs = [tuple(pad_size[start : start + 2]) for start in range(0, len(pad_size), 2)]
    grown = [sum(pair) + size for pair, size in zip(pairs, tensordict.batch_size, strict=False)]
    size = torch.Size((*grown, *tensordict.batch_size[len(pairs) :]))

    def padded(leaf: Tensor) -> Tensor:
        # torch counts from the last dimension.
        sizes = [0, 0] * (leaf.ndim - len(pairs)) + [one for pair in reversed(pairs) for one in pair]
        return pad_tensor(leaf, sizes, value=value)

    result = _padded_below(tensordict, padded, size, pad_size, value)
    return tensordict._become(result) if inplace else result


def _padded_below(td: Any, padded: Callable[[Tensor], Tensor], size: torch.Size, pad_size: Any, value: Any) -> Any:
    data = {}
    for key, entry in td._items():
        if not isinstance(entry, TensorCollection):
            data[key] = padded(entry)
        elif entry._is_non_tensor:
            pairs = [tuple(pad_size[start : start + 2]) for start in range(0, len(pad_size), 2)]
            data[key] = pad_non_tensor(entry, pairs)
        else:
            data[key] = pad(entry, pad_size, value)
    return classes.make_td(data, size, td.device, td._names_or_none())


def pad_sequence(
    list_of_tensordicts: Sequence[Any],
    pad_dim: int = 0,
    padding_value: float = 0.0,
    out: Any = None,
    return_mask: bool | Any = False,
) -> Any:
    """Stack tensordicts of different lengths, the shorter ones filled up at the end.

    Args:
        list_of_tensordicts: with the same keys; the shapes differ along `pad_dim` alone.
        pad_dim: of the entries' shape, along which the lengths differ.
        padding_value: to fill with.
        out: takes the result.
        return_mask: add a nested tensordict of the same keys, under "masks" or the key given: True where an
            element is of the sequence, False where it fills up.

    Returns:
        A tensordict of batch size (number of tensordicts, ...).

    Raises:
        RuntimeError: the list is empty, or it holds tensorclasses and `return_mask` is set.
        KeyError: the keys differ.
    """
    tds = list(list_of_tensordicts)
    if not tds:
        raise RuntimeError("pad_sequence: the list of tensordicts is empty.")
    if return_mask and any(td._is_tensorclass for td in tds):
        raise RuntimeError("pad_sequence: a tensorclass has no field for masks; give TensorDicts (`to_tensordict()`).")
    first = tds[0]
    keys = set(first.keys(True, True))
    for place, td in enumerate(tds):
        if set(td.keys(True, True)) != keys:
            odd = sorted(map(str, keys ^ set(td.keys(True, True))))
            raise KeyError(f"pad_sequence: tensordict {place} and the first differ in the keys {odd}.")
    batch = list(first.batch_size)
    if batch and -len(batch) <= pad_dim < len(batch):
        batch[pad_dim] = max(td.batch_size[pad_dim] for td in tds)
    filled, masks = [], []
    for td in tds:
        filled.append(_filled_up(td, tds, pad_dim, padding_value, torch.Size(batch)))
        if return_mask:
            masks.append(_filled_up(td, tds, pad_dim, None, torch.Size(batch)))
    result: Any = torch.stack(filled)
    if return_mask:
        key = "masks" if return_mask is True else return_mask
        result._set_path(key_path(key), torch.stack(masks))
    return result if out is None else out.update(result, inplace=True)


def _filled_up(td: Any, tds: Sequence[Any], dim: int, value: float | None, batch: torch.Size) -> Any:
    """One tensordict at full length; without a value its mask."""

    def fill(leaf: Tensor, *others: Tensor) -> Tensor:
        where = dim % leaf.ndim
        length = max(other.shape[where] for other in others)
        missing = length - leaf.shape[where]
        if value is None:
            mask = torch.zeros((*leaf.shape[:where], length), dtype=torch.bool, device=leaf.device)
            mask[..., : leaf.shape[where]] = True
            rest = batch[where + 1 :]
            return mask.reshape(*mask.shape, *[1] * len(rest)).expand(*mask.shape, *rest)
        return pad_tensor(leaf, [0, 0] * (leaf.ndim - 1 - where) + [0, missing], value=value) if missing else leaf

    filled = td._fast_apply(fill, *tds, batch_size=batch, filter_empty=False)
    if value is not None:
        _fill_non_tensors(td, filled, batch, dim)
    return filled


def _fill_non_tensors(td: Any, filled: Any, batch: torch.Size, dim: int) -> None:
    """Bring the non-tensor entries, too, to full length, with None."""
    for key, entry in td._items():
        if not isinstance(entry, TensorCollection):
            continue
        if not entry._is_non_tensor:
            _fill_non_tensors(entry, filled._get_str(key), batch, dim)
        elif entry.batch_size[: len(batch)] != batch:
            where = dim % len(batch)
            pairs = [(0, 0)] * where + [(0, batch[where] - entry.batch_size[where])]
            filled._set_str(key, pad_non_tensor(entry, pairs), validated=True)


def dense_stack_tds(td_list: Any, dim: int | None = None) -> Any:
    """Stack tensordicts into one that is dense, whatever kinds they are.

    Args:
        td_list: tensordicts with the same keys and shapes, or a lazy stack.
        dim: of the stack; that of a lazy stack by default.

    Raises:
        ValueError: a list, and no `dim`.
    """
    if isinstance(td_list, classes.LazyStackedTensorDict):
        if dim is None or dim == td_list.stack_dim:
            return td_list.contiguous()
        td_list = td_list.tensordicts
    elif dim is None:
        raise ValueError("dense_stack_tds: give `dim` with a list of tensordicts.")
    return torch.stack(
        [td.contiguous() if isinstance(td, classes.LazyStackedTensorDict) else td for td in td_list], dim
    )


def make_tensordict(
    input_dict: Mapping[Any, Any] | None = None,
    batch_size: Sequence[int] | torch.Size | int | None = None,
    device: Any = None,
    auto_batch_size: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Make a TensorDict of a dict, or of keywords.

    Args:
        input_dict: entries; keys may be tuples.
        batch_size: of the tensordict.
        device: where the entries go.
        auto_batch_size: take the longest batch size that all entries allow.
        kwargs: entries, in place of `input_dict`.
    """
    td = classes.TensorDict(kwargs if input_dict is None else input_dict, batch_size=batch_size, device=device)
    return td.auto_batch_size_() if auto_batch_size else td


def merge_tensordicts(
    *tensordicts: Any,
    callback_exist: Callable[..., Any] | Mapping[Any, Callable[..., Any]] | None = None,
) -> Any:
    """One tensordict with the entries of several; where a key is in several the first one's holds.

    Args:
        tensordicts: two or more, of the same batch size.
        callback_exist: function (values in order) -> value, for keys that are in several; or such functions by key.

    Raises:
        RuntimeError: fewer than two tensordicts, or batch sizes differ.
    """
    if len(tensordicts) < 2:
        raise RuntimeError(f"merge_tensordicts takes two or more tensordicts, not {len(tensordicts)}.")
    first, *rest = tensordicts
    result = first._copied()
    for td in rest:
        if td.batch_size != first.batch_size:
            raise RuntimeError(
                f"merge_tensordicts: batch sizes {list(first.batch_size)} and {list(td.batch_size)} differ."
            )
        for key, value in td.items(True, True, is_leaf=_entry):
            if result._get_path(key_path(key)) is None:
                result.set(key, value)
    if callback_exist is not None:
        _merge_shared(result, tensordicts, callback_exist)
    return result


def _merge_shared(result: Any, tensordicts: Sequence[Any], callback: Any) -> None:
    for key in list(result.keys(True, True, is_leaf=_entry)):
        values = [value for td in tensordicts if (value := td._get_path(key_path(key))) is not None]
        function = callback.get(key) if isinstance(callback, Mapping) else callback
        if len(values) > 1 and function is not None:
            result.set(key, function(*values))


def _entry(kind: type) -> bool:
    return not issubclass(kind, TensorCollection) or kind._is_non_tensor
