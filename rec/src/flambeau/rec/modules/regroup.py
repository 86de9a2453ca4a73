"""Pooled embeddings put together anew, with what that takes found out once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import data_type_to_dtype
from flambeau.rec.sparse.jagged_tensor import KeyedTensor
from flambeau.rec.types import CacheMixin, DataType

__all__ = ["KTRegroupAsDict", "PermuteMultiEmbedding", "module_init"]


class PermuteMultiEmbedding(nn.Module):
    """Columns of several tensors joined into others.

    Args:
        groups: what makes each result.
        multi_device: kept for programs that give it.
    """

    def __init__(self, groups: list[list[str]], multi_device: bool = False) -> None:
        super().__init__()
        self._groups, self._multi_device = groups, multi_device
        self._pieces: list[list[tuple[int, int, int]]] = []
        self._out_lengths: list[int] = []

    def init_tensors(self, permute: Tensor, in_shapes: Tensor, out_shapes: Tensor, out_lengths: list[int]) -> None:
        """Take the description that the operator `permute_multi_embedding` has.

        Args:
            permute: (pieces, 6): of each piece its input, its output, where it begins in either, how many columns it
                has, and a link to the next piece of the same columns.
            in_shapes: columns of each input.
            out_shapes: columns of each output.
            out_lengths: the same as a list.
        """
        pieces: list[list[tuple[int, int, int]]] = [[] for _ in out_lengths]
        for source, target, start, begin, width, _ in sorted(permute.tolist(), key=lambda row: (row[1], row[3])):
            del begin
            pieces[target].append((source, start, width))
        self._set(pieces, list(out_lengths))

    def _set(self, pieces: list[list[tuple[int, int, int]]], out_lengths: list[int]) -> None:
        self._pieces, self._out_lengths = pieces, out_lengths

    def set_device(self, device: str) -> None:
        """Nothing to move: what is known of the groups are numbers."""

    def forward(self, values: list[Tensor]) -> list[Tensor]:
        """Inputs to outputs, all (B, columns)."""
        if not self._pieces:
            return values
        return [
            torch.cat([values[source].narrow(1, start, width) for source, start, width in group], 1)
            for group in self._pieces
        ]


class KTRegroupAsDict(nn.Module, CacheMixin):
    """`KeyedTensor.regroup_as_dict` as a module, which looks for keys but once.

    Args:
        groups: the features that make each result, in order; one may stand in several groups.
        keys: names of the results.
        emb_dtype: of the results; as it is where not given.
        multi_device: kept for programs that give it.

    Raises:
        OptionError: groups and names differ in number.

    Example:
        >>> pooled = KeyedTensor(["a", "b"], [1, 2], torch.arange(6.0).view(2, 3))
        >>> KTRegroupAsDict([["b", "a"]], ["both"])([pooled])["both"]
        tensor([[1., 2., 0.],
                [4., 5., 3.]])
    """

    def __init__(
        self,
        groups: list[list[str]],
        keys: list[str],
        emb_dtype: DataType | None = None,
        multi_device: bool = False,
    ) -> None:
        super().__init__()
        if len(groups) != len(keys):
            raise OptionError(f"{len(groups)} groups and {len(keys)} keys; give each group one key.")
        self._groups, self._keys = groups, keys
        self._emb_dtype = emb_dtype
        self._is_inited = False
        self._permute_pooled_embs_impl = PermuteMultiEmbedding(groups, multi_device)

    def clear_cache(self) -> None:
        """Look for keys anew at the next call."""
        self._is_inited = False

    def embedding_cast(self, embs: list[Tensor]) -> list[Tensor]:
        """The results in their element type."""
        if self._emb_dtype is None:
            return embs
        dtype = data_type_to_dtype(self._emb_dtype)
        return [one.to(dtype) for one in embs]

    def forward(self, keyed_tensors: list[KeyedTensor]) -> dict[str, Tensor]:
        """Put together.

        Args:
            keyed_tensors: (B, columns) each, with the keys that they had at the first call.

        Raises:
            KeyError: a feature that none has.
        """
        if not self._is_inited:
            module_init(self, keyed_tensors)
        joined = self._permute_pooled_embs_impl([one.values() for one in keyed_tensors])
        return dict(zip(self._keys, self.embedding_cast(joined), strict=True))


def module_init(module: KTRegroupAsDict, keyed_tensors: list[KeyedTensor]) -> None:
    """Find out where the features of a module's groups are.

    Raises:
        KeyError: a feature that none has.
    """
    places: dict[str, tuple[int, int, int]] = {}
    for number, one in enumerate(keyed_tensors):
        for key, start, width in zip(one.keys(), one.offset_per_key(), one.length_per_key(), strict=False):
            places.setdefault(key, (number, start, width))
    pieces = [[places[key] for key in group] for group in module._groups]
    widths = [sum(width for _, _, width in group) for group in pieces]
    module._permute_pooled_embs_impl._set(pieces, widths)
    module._is_inited = True
