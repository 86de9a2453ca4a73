"""`KeyedJaggedTensor`: the sparse features of a batch, key after key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._exchange import from_exchanged
from flambeau.rec.sparse._jagged import JaggedTensor, shown
from flambeau.rec.sparse._rows import Rows

__all__ = ["KeyedJaggedTensor"]

Strides = list[list[int]]
InverseIndices = tuple[list[str], Tensor]


class KeyedJaggedTensor(Rows):
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

    def _found_stride(self) -> int:
        if self._lengths is not None:
            if self._lengths.dim() > 1:
                return int(self._lengths.shape[-1])
            count = self._lengths.numel()
        else:
            assert self._offsets is not None
            count = self._offsets.numel() - 1
        if not self._keys:
            return 0
        return count // len(self._keys)

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

    # ----- what it holds ------------------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        """The names, in order."""
        return self._keys

    def stride(self) -> int:
        """B: examples of the batch; with a batch for each key, of the full one, or of the largest."""
        if self._stride is None:
            if self._inverse_indices is not None and self._inverse_indices[1].numel():
                self._stride = self._inverse_indices[1].shape[-1]
            else:
                self._stride = max(self.stride_per_key(), default=0)
        return self._stride

    def stride_per_key(self) -> list[int]:
        """Examples of each key."""
        if self._stride_per_key is None:
            if self._strides is None:
                self._stride_per_key = [self.stride()] * len(self._keys)
            else:
                self._stride_per_key = [sum(ranks) for ranks in self.stride_per_key_per_rank()]
        return self._stride_per_key

    def stride_per_key_per_rank(self) -> Strides:
        """Examples of each key, and of each process that they came from; empty with one batch for all keys."""
        if self._strides is None:
            return []
        if isinstance(self._strides, Tensor):
            self._strides = self._strides.tolist()
        return self._strides

    def variable_stride_per_key(self) -> bool:
        """Whether each key has a batch of its own."""
        return self._strides is not None

    def inverse_indices(self) -> InverseIndices:
        """Keys, and (K, full batch): which row of a key each example has.

        Raises:
            SparseError: there are none.
        """
        if self._inverse_indices is None:
            raise SparseError(
                "this KeyedJaggedTensor has no inverse indices; inverse_indices_or_none() gives None then."
            )
        return self._inverse_indices

    def inverse_indices_or_none(self) -> InverseIndices | None:
        """Keys, and (K, full batch): which row of a key each example has; None where there are none."""
        return self._inverse_indices

    @property
    def _stride_per_key_per_rank(self) -> Tensor | None:
        if self._strides is None or isinstance(self._strides, Tensor):
            return self._strides
        if self._strides_tensor is None:
            self._strides_tensor = torch.tensor(self._strides, dtype=torch.int32)
        return self._strides_tensor

    @property
    def _inverse_indices_tensor(self) -> Tensor | None:
        return None if self._inverse_indices is None else self._inverse_indices[1]

    def length_per_key(self) -> list[int]:
        """Ids of each key; finding them out makes an accelerator wait.

        Raises:
            SparseError: the lengths do not fit the number of keys.
        """
        if self._length_per_key is None:
            self._length_per_key = self._found_length_per_key()
        return self._length_per_key

    def _found_length_per_key(self) -> list[int]:
        if self._offset_per_key is not None:
            return [end - begin for begin, end in pairwise(self._offset_per_key)]
        if not self._keys:
            return []
        count = self._lengths.numel() if self._lengths is not None else self.offsets().numel() - 1
        places = self.lengths_offset_per_key()
        if places[-1] != count:
            raise SparseError(
                f"{count} lengths for {len(self._keys)} keys of {self.stride_per_key()} examples, "
                f"expected {places[-1]}."
            )
        if self._offsets is None and self._strides is None and self._lengths is not None:
            sums: list[int] = self._lengths.view(len(self._keys), -1).sum(1).tolist()
            return sums
        offsets = self.offsets()
        uniform = self._strides is None and self.stride() > 0
        ends = offsets[:: self.stride()] if uniform else offsets[torch.tensor(places, device=offsets.device)]
        return [end - begin for begin, end in pairwise(ends.tolist())]

    def length_per_key_or_none(self) -> list[int] | None:
        """Ids of each key, or None where that was not found out yet."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Where the ids of each key begin, and where the last's end."""
        if self._offset_per_key is None:
            self._offset_per_key = [0, *accumulate(self.length_per_key())]
        return self._offset_per_key

    def offset_per_key_or_none(self) -> list[int] | None:
        """Where the ids of each key begin and the last's end, or None where that was not found out yet."""
        return self._offset_per_key

    def lengths_offset_per_key(self) -> list[int]:
        """Where the lengths of each key begin, and where the last's end."""
        if self._lengths_offset_per_key is None:
            self._lengths_offset_per_key = [0, *accumulate(self.stride_per_key())]
        return self._lengths_offset_per_key

    def index_per_key(self) -> dict[str, int]:
        """Place of each key."""
        if self._index_per_key is None:
            self._index_per_key = {key: at for at, key in enumerate(self._keys)}
        return self._index_per_key

    def sync(self) -> KeyedJaggedTensor:
        """Find out now how many ids each key has, which makes an accelerator wait; returns itself."""
        self.length_per_key()
        self.offset_per_key()
        return self

    def unsync(self) -> KeyedJaggedTensor:
        """Forget what `sync` found out; returns itself."""
        self._length_per_key = self._offset_per_key = self._jt_dict = None
        return self

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
            new_lengths, values, weights = torch.ops.flambeau_rec.permute_2D_sparse_data(
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

    # ----- devices ------------------------------------------------------------------------------------------------

    def to(
        self, device: torch.device, non_blocking: bool = False, dtype: torch.dtype | None = None
    ) -> KeyedJaggedTensor:
        """The same on another device.

        Args:
            device: where to.
            non_blocking: whether the copy may go on after the call; it does from pinned memory.
            dtype: of the weights there; as it is where not given.
        """

        def moved(tensor: Tensor | None, to_dtype: torch.dtype | None = None) -> Tensor | None:
            return None if tensor is None else tensor.to(device=device, dtype=to_dtype, non_blocking=non_blocking)

        values = self._values.to(device=device, non_blocking=non_blocking)
        return self._with(values, moved(self._weights, dtype), moved(self._lengths), moved(self._offsets))

    def pin_memory(self) -> KeyedJaggedTensor:
        """The same in pinned memory, from which copies to a device need not be waited for."""

        def pinned(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.pin_memory()

        return self._with(
            self._values.pin_memory(), pinned(self._weights), pinned(self._lengths), pinned(self._offsets)
        )

    def _with(
        self, values: Tensor, weights: Tensor | None, lengths: Tensor | None, offsets: Tensor | None
    ) -> KeyedJaggedTensor:
        """The same keys and sizes over other tensors."""
        inverse = self._inverse_indices
        return KeyedJaggedTensor(
            self._keys,
            values,
            weights,
            lengths,
            offsets,
            self._stride,
            self._strides,
            self._stride_per_key,
            self._length_per_key,
            self._lengths_offset_per_key,
            self._offset_per_key,
            self._index_per_key,
            None,
            None if inverse is None else (inverse[0], inverse[1].to(values.device)),
        )

    def _like(self, device: torch.device) -> KeyedJaggedTensor:
        def like(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else torch.empty_like(tensor, device=device)

        values = torch.empty_like(self._values, device=device)
        made = self._with(values, like(self._weights), like(self._lengths), like(self._offsets))
        if made._inverse_indices is not None:
            keys, rows = made._inverse_indices
            made._inverse_indices = keys, torch.empty_like(rows)
        return made

    def copy_(self, kjt: KeyedJaggedTensor, non_blocking: bool = False) -> KeyedJaggedTensor:
        """Take over the content of another one, whose tensors have the shapes of this one's."""
        for mine, other in zip(self._tensors(), kjt._tensors(), strict=True):
            if mine is not None and other is not None:
                mine.copy_(other, non_blocking=non_blocking)
        self._strides, self._strides_tensor, self._stride_per_key = kjt._strides, None, kjt._stride_per_key
        self._length_per_key, self._offset_per_key, self._jt_dict = kjt._length_per_key, kjt._offset_per_key, None
        return self

    def clear_storage(self) -> int:
        """Give the memory of all tensors back; returns how many bytes that were. The object is of no use afterwards."""
        freed = 0
        for tensor in self._tensors():
            if tensor is not None:
                storage = tensor.untyped_storage()
                freed += storage.size()
                storage.resize_(0)
        return freed

    def size_in_bytes(self) -> int:
        """The memory of all its tensors."""
        held = [self._values, self._weights, self._lengths, self._offsets, self._stride_per_key_per_rank]
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return *super()._tensors(), self._inverse_indices_tensor

    # ----- between processes --------------------------------------------------------------------------------------

    def dist_labels(self) -> list[str]:
        """What `dist_tensors` are."""
        strides = ["strides"] if self._strides is not None else []
        return ["lengths", "values", *strides, *([] if self._weights is None else ["weights"])]

    def dist_splits(self, key_splits: list[int]) -> list[list[int]]:
        """How many entries of each of `dist_tensors` go to each process.

        Args:
            key_splits: how many keys go to each.
        """
        values = _summed(self.length_per_key(), key_splits)
        strides = [list(key_splits)] if self._strides is not None else []
        return [
            _summed(self.stride_per_key(), key_splits),
            values,
            *strides,
            *([] if self._weights is None else [values]),
        ]

    def dist_tensors(self) -> list[Tensor]:
        """What is sent to other processes, and put together there by `dist_init`."""
        strides = []
        if self._strides is not None:
            strides.append(torch.tensor(self.stride_per_key(), device=self.device()))
        weights = [] if self._weights is None else [self._weights]
        return [self.lengths(), self._values, *strides, *weights]

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


def _summed(counts: Sequence[int], groups: Sequence[int]) -> list[int]:
    sums, begin = [], 0
    for size in groups:
        sums.append(sum(counts[begin : begin + size]))
        begin += size
    return sums


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
