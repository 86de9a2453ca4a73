"""`KeyedJaggedTensor`: the sparse features of a batch, key after key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._exchange import ExchangedRows, from_exchanged
from flambeau.rec.sparse._jagged import JaggedTensor, shown
from flambeau.rec.sparse._keyed_memory import KeyedMemory
from flambeau.rec.sparse._keyed_rows import InverseIndices, Strides

__all__ = ["KeyedJaggedTensor"]


class KeyedJaggedTensor(ExchangedRows, KeyedMemory):
    """A bag of ids for each of several keys and each example of a batch, as models of recommendation take them.

    All is key-major: `lengths` holds those of all examples for the first key, then for the second, ..., and `values`
    likewise. With a batch of its own for each key (`stride_per_key_per_rank`), `inverse_indices` say which of a key's
    rows belongs to each example of the full batch.

    Args:
        keys: K names.
        values: (L, ...), usually int64: the ids of all bags.
        weights: (L, ...): a weight of each id, or None.
        lengths: (K * B,) int32 or int64: ids in each bag; found from `offsets` when it is asked for.
        offsets: (K * B + 1,) int32 or int64, from 0 to L; found from `lengths` when it is asked for.
        stride: B, the number of examples; found from the number of lengths where not given.
        stride_per_key_per_rank: (K, ranks), lists or int32: examples of each key, and of each process they came from.
        stride_per_key: its sums, where they are known.
        length_per_key: ids of each key, where they are known: to find them out makes an accelerator wait.
        lengths_offset_per_key: where the lengths of each key begin, and where the last's end, where that is known.
        offset_per_key: where the ids of each key begin, and where the last's end, where that is known.
        index_per_key: place of each key among `keys`, where it is known.
        jt_dict: what `to_dict` gives, where it is known.
        inverse_indices: keys, and (K, full batch) int64.

    Raises:
        SparseError: neither lengths nor offsets are given, or their number is no multiple of the number of keys.

    Example:
        >>> features = KeyedJaggedTensor(["user", "item"], torch.tensor([7, 1, 2]), lengths=torch.tensor([1, 0, 2, 0]))
        >>> features.stride(), features["item"].to_dense()
        (2, [tensor([1, 2]), tensor([], dtype=torch.int64)])
    """

    _fields = ("_values", "_weights", "_lengths", "_offsets", "_stride_per_key_per_rank", "_inverse_indices_tensor")

    def __init__(
        self,
        keys: list[str],
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Tensor | Strides | None = None,
        stride_per_key: list[int] | None = None,
        length_per_key: list[int] | None = None,
        lengths_offset_per_key: list[int] | None = None,
        offset_per_key: list[int] | None = None,
        index_per_key: dict[str, int] | None = None,
        jt_dict: dict[str, JaggedTensor] | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> None:
        self._keys = keys
        self._values = values
        self._weights = weights
        self._lengths = lengths
        self._offsets = offsets
        self._stride = stride
        self._strides = stride_per_key_per_rank
        self._strides_tensor: Tensor | None = None
        self._stride_per_key = stride_per_key
        self._length_per_key = length_per_key
        self._lengths_offset_per_key = lengths_offset_per_key
        self._offset_per_key = offset_per_key
        self._index_per_key = index_per_key
        self._jt_dict = jt_dict
        self._inverse_indices = inverse_indices
        if lengths is None and offsets is None:
            raise SparseError("a KeyedJaggedTensor needs lengths or offsets, got neither.")
        if stride is None and stride_per_key_per_rank is None:
            self._stride = self._found_stride()

    # ----- making one ---------------------------------------------------------------------------------------------

    @staticmethod
    def from_offsets_sync(
        keys: list[str],
        values: Tensor,
        offsets: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Strides | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> KeyedJaggedTensor:
        """Construct from offsets, and find out at once what would make an accelerator wait later."""
        return KeyedJaggedTensor(
            keys,
            values,
            weights,
            offsets=offsets,
            stride=stride,
            stride_per_key_per_rank=stride_per_key_per_rank,
            inverse_indices=inverse_indices,
        ).sync()

    @staticmethod
    def from_lengths_sync(
        keys: list[str],
        values: Tensor,
        lengths: Tensor,
        weights: Tensor | None = None,
        stride: int | None = None,
        stride_per_key_per_rank: Strides | None = None,
        inverse_indices: InverseIndices | None = None,
    ) -> KeyedJaggedTensor:
        """Construct from lengths, and find out at once what would make an accelerator wait later."""
        return KeyedJaggedTensor(
            keys,
            values,
            weights,
            lengths=lengths,
            stride=stride,
            stride_per_key_per_rank=stride_per_key_per_rank,
            inverse_indices=inverse_indices,
        ).sync()

    @staticmethod
    def from_jt_dict(jt_dict: dict[str, JaggedTensor]) -> KeyedJaggedTensor:
        """Join jagged tensors of equally many rows under their names.

        Raises:
            SparseError: some have weights and others have none.
        """
        parts = list(jt_dict.values())
        weights = [part.weights_or_none() for part in parts]
        heavy = [one for one in weights if one is not None]
        if heavy and len(heavy) != len(parts):
            raise SparseError("jt_dict has jagged tensors with weights and others without; give all of them weights.")
        lengths = [part.lengths() for part in parts]
        strides = [one.numel() for one in lengths]
        uniform = len(set(strides)) <= 1
        return KeyedJaggedTensor(
            list(jt_dict),
            torch.cat([part.values() for part in parts]),
            torch.cat(heavy) if heavy else None,
            torch.cat(lengths),
            stride=strides[0] if uniform and strides else None,
            stride_per_key_per_rank=None if uniform else [[stride] for stride in strides],
        ).sync()

    @staticmethod
    def concat(kjt_list: list[KeyedJaggedTensor]) -> KeyedJaggedTensor:
        """The keys of several, in order.

        Raises:
            ValueError: the list is empty, some are weighted and others are not, or batches have different sizes.
        """
        if not kjt_list:
            raise SparseError("kjt_list is empty; concat takes one KeyedJaggedTensor or more.")
        weighted = {kjt._weights is not None for kjt in kjt_list}
        if len(weighted) > 1:
            raise SparseError("kjt_list has weighted and unweighted ones; give all of them weights, or none.")
        variable = any(kjt.variable_stride_per_key() for kjt in kjt_list)
        if not variable and len({kjt.stride() for kjt in kjt_list}) > 1:
            strides = [kjt.stride() for kjt in kjt_list]
            raise SparseError(f"kjt_list has batches of different sizes, {strides}; their strides must be equal.")
        known = all(kjt._length_per_key is not None for kjt in kjt_list)
        return KeyedJaggedTensor(
            [key for kjt in kjt_list for key in kjt._keys],
            torch.cat([kjt._values for kjt in kjt_list]),
            torch.cat([kjt.weights() for kjt in kjt_list]) if weighted == {True} else None,
            torch.cat([kjt.lengths() for kjt in kjt_list]),
            stride=None if variable else kjt_list[0].stride(),
            stride_per_key_per_rank=(
                [ranks for kjt in kjt_list for ranks in kjt.stride_per_key_per_rank()] if variable else None
            ),
            length_per_key=[n for kjt in kjt_list for n in kjt.length_per_key()] if known else None,
            inverse_indices=_joined_inverse(kjt_list),
        )

    @staticmethod
    def empty(
        is_weighted: bool = False,
        device: torch.device | None = None,
        values_dtype: torch.dtype | None = None,
        weights_dtype: torch.dtype | None = None,
        lengths_dtype: torch.dtype = torch.int32,
    ) -> KeyedJaggedTensor:
        """No keys and no examples."""
        return KeyedJaggedTensor(
            [],
            torch.empty(0, dtype=values_dtype, device=device),
            torch.empty(0, dtype=weights_dtype, device=device) if is_weighted else None,
            torch.empty(0, dtype=lengths_dtype, device=device),
            torch.zeros(1, dtype=lengths_dtype, device=device),
            stride=0,
        )

    @staticmethod
    def empty_like(kjt: KeyedJaggedTensor, device: torch.device | None = None) -> KeyedJaggedTensor:
        """No keys, of the types and the number of examples of another one.

        Args:
            kjt: the other one.
            device: where given, keys and sizes are the other one's, and the content undefined: to copy into by `copy_`.
        """
        if device is not None:
            return kjt._like(device)
        device, weights = kjt.device(), kjt._weights
        return KeyedJaggedTensor(
            [],
            torch.empty(0, device=device, dtype=kjt._values.dtype),
            None if weights is None else torch.empty(0, device=device, dtype=weights.dtype),
            torch.empty(0, device=device, dtype=kjt.lengths().dtype),
            stride=0 if kjt.variable_stride_per_key() else kjt.stride(),
            stride_per_key_per_rank=kjt._strides,
        )

    @staticmethod
    def dist_init(
        keys: list[str],
        tensors: list[Tensor],
        variable_stride_per_key: bool,
        num_workers: int,
        recat: Tensor | None,
        stride_per_rank: list[int] | None,
        stagger: int = 1,
    ) -> KeyedJaggedTensor:
        """What arrived from all processes, put together; see `flambeau.rec.sparse._exchange`."""
        parts = from_exchanged(
            len(keys), tensors, variable_stride_per_key, num_workers, recat, stride_per_rank, stagger
        )
        return KeyedJaggedTensor(keys, **parts).sync()

    # ----- parts --------------------------------------------------------------------------------------------------

    def _at(self, key: str) -> int:
        try:
            return self.index_per_key()[key]
        except KeyError:
            raise KeyError(key) from None

    def __getitem__(self, key: str) -> JaggedTensor:
        at = self._at(key)
        begin, end = self.offset_per_key()[at : at + 2]
        first, last = self.lengths_offset_per_key()[at : at + 2]
        weights = None if self._weights is None else self._weights[begin:end]
        return JaggedTensor(self._values[begin:end], weights, self.lengths().view(-1)[first:last])

    def to_dict(self, compute_offsets: bool = True) -> dict[str, JaggedTensor]:
        """The bags of each key; made once and kept.

        Args:
            compute_offsets: whether their offsets are found at once, too.
        """
        if self._jt_dict is None:
            self._jt_dict = self._parts(compute_offsets) if self._keys else {}
        return self._jt_dict

    def _parts(self, compute_offsets: bool) -> dict[str, JaggedTensor]:
        sizes = self.length_per_key()
        values = self._values.split(sizes)
        weights = [None] * len(sizes) if self._weights is None else self._weights.split(sizes)
        lengths = self.lengths().view(-1)
        offsets: Sequence[Tensor | None] = [None] * len(sizes)
        if self._strides is None:
            table = lengths.view(len(sizes), -1)
            rows = table.unbind()
            if compute_offsets:
                offsets = asynchronous_complete_cumsum(table).unbind()
        else:
            rows = lengths.split(self.stride_per_key())
            if compute_offsets:
                offsets = [asynchronous_complete_cumsum(row) for row in rows]
        return {key: JaggedTensor(*part) for key, *part in zip(self._keys, values, weights, rows, offsets, strict=True)}

    def split(self, segments: list[int]) -> list[KeyedJaggedTensor]:
        """Cut into consecutive groups of keys, which share memory with this one.

        Args:
            segments: how many keys each group has; 0 gives one without keys.

        Raises:
            IndexError: more keys are asked for than there are.
        """
        if sum(segments) > len(self._keys) or any(count < 0 for count in segments):
            raise IndexError(f"segments {segments} ask for {sum(segments)} of {len(self._keys)} keys.")
        variable = self._strides is not None
        places, rows, lengths = self.offset_per_key(), self.lengths_offset_per_key(), self.lengths().view(-1)
        per_key, strides = self.length_per_key(), self.stride_per_key_per_rank()
        parts, begin = [], 0
        for count in segments:
            end = begin + count
            if not count or count == len(self._keys):
                parts.append(self if count else self._without_keys())
                begin = end
                continue
            values = slice(places[begin], places[end])
            parts.append(
                KeyedJaggedTensor(
                    self._keys[begin:end],
                    self._values[values],
                    None if self._weights is None else self._weights[values],
                    lengths[rows[begin] : rows[end]],
                    stride=self._stride if variable else self.stride(),
                    stride_per_key_per_rank=strides[begin:end] if variable else None,
                    length_per_key=per_key[begin:end],
                )
            )
            begin = end
        return parts

    def _without_keys(self) -> KeyedJaggedTensor:
        sizes = torch.empty(0, dtype=torch.int32, device=self.device())
        weights = None if self._weights is None else self._weights[:0]
        strides = None if self._strides is None else torch.empty(0, dtype=torch.int32)
        return KeyedJaggedTensor([], self._values[:0], weights, sizes, sizes, self.stride(), strides)

    def permute(
        self, indices: list[int], indices_tensor: Tensor | None = None, include_inverse_indices: bool = False
    ) -> KeyedJaggedTensor:
        """Choose keys by their places; any may be left out or repeated.

        Args:
            indices: places of the keys wanted, in order.
            indices_tensor: the same as an int32 tensor on the device, where there is one.
            include_inverse_indices: whether the result has those of the keys wanted.

        Raises:
            IndexError: a place without a key.
        """
        keys = [self._keys[at] for at in indices]
        lengths = self.lengths()
        known = self._length_per_key
        if self._strides is None:
            if indices_tensor is None:
                indices_tensor = torch.tensor(indices, dtype=torch.int32, device=lengths.device)
            total = sum(known[at] for at in indices) if known is not None else None
            new_lengths, values, weights = OPS.permute_2D_sparse_data(
                indices_tensor, lengths.view(len(self._keys), -1), self._values, self._weights, total
            )
        else:
            known, places, rows = self.length_per_key(), self.offset_per_key(), self.lengths_offset_per_key()
            blocks = [slice(places[at], places[at + 1]) for at in indices]
            new_lengths = _joined(lengths, [slice(rows[at], rows[at + 1]) for at in indices])
            values = _joined(self._values, blocks)
            weights = None if self._weights is None else _joined(self._weights, blocks)
        strides = self.stride_per_key_per_rank()
        return KeyedJaggedTensor(
            keys,
            values,
            weights,
            new_lengths.view(-1),
            stride=self._stride,
            stride_per_key_per_rank=None if self._strides is None else [strides[at] for at in indices],
            length_per_key=None if known is None else [known[at] for at in indices],
            inverse_indices=self._chosen_inverse(indices) if include_inverse_indices else None,
        )

    def _chosen_inverse(self, places: Sequence[int]) -> InverseIndices | None:
        if self._inverse_indices is None:
            return None
        keys, rows = self._inverse_indices
        at = [keys.index(self._keys[place]) for place in places]
        return [keys[one] for one in at], rows[at]

    def flatten_lengths(self) -> KeyedJaggedTensor:
        """The same with lengths of one dimension, without inverse indices."""
        flat = self._with(self._values, self._weights, self.lengths().view(-1), None)
        flat._inverse_indices = None
        return flat

    def __str__(self) -> str:
        if not self._keys or (self._offsets is None and self._lengths is None):
            return "KeyedJaggedTensor()\n"
        lines = []
        for key, part in ((key, self[key]) for key in self._keys):
            inside = shown(part.values(), part.offsets(), part.weights_or_none(), 8)
            opened = inside.strip() if part.weights_or_none() is None else "{\n" + inside + "\n    }"
            lines.append(f'    "{key}": {opened}')
        return "KeyedJaggedTensor({\n" + ",\n".join(lines) + "\n})\n"

    def __repr__(self) -> str:
        weighted = ", weighted" if self._weights is not None else ""
        values = f"{tuple(self._values.shape)} {self._values.dtype}{weighted}"
        return f"KeyedJaggedTensor({self._keys}, stride {self.stride()}, {values})"


def _joined_inverse(parts: Sequence[KeyedJaggedTensor]) -> InverseIndices | None:
    found = [part._inverse_indices for part in parts]
    given = [one for one in found if one is not None]
    if not given or len(given) != len(found):
        return None
    return [key for keys, _ in given for key in keys], torch.cat([rows for _, rows in given])


def _joined(tensor: Tensor, blocks: list[slice]) -> Tensor:
    return torch.cat([tensor[block] for block in blocks]) if blocks else tensor[:0]


def _flatten(kjt: KeyedJaggedTensor) -> tuple[list[Any], list[str]]:
    return [getattr(kjt, name) for name in kjt._fields], kjt._keys


def _flatten_with_keys(kjt: KeyedJaggedTensor) -> tuple[list[tuple[Any, Any]], list[str]]:
    values, keys = _flatten(kjt)
    names = [*kjt._fields[:-1], "_inverse_indices"]
    return [(pytree.GetAttrKey(name), value) for name, value in zip(names, values, strict=True)], keys


def _unflatten(values: Any, keys: list[str]) -> KeyedJaggedTensor:
    ids, weights, lengths, offsets, strides, inverse = values
    if lengths is None and offsets is None:
        raise SparseError("the tree of a KeyedJaggedTensor has neither lengths nor offsets.")
    return KeyedJaggedTensor(
        keys,
        ids,
        weights,
        lengths,
        offsets,
        stride_per_key_per_rank=strides,
        inverse_indices=None if inverse is None else (keys, inverse),
    )


pytree.register_pytree_node(
    KeyedJaggedTensor,
    _flatten,
    _unflatten,
    serialized_type_name="flambeau.rec.KeyedJaggedTensor",
    flatten_with_keys_fn=_flatten_with_keys,
)
