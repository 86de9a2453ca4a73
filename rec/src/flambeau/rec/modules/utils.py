"""What modules of embeddings and of dense layers are made with."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from flambeau.rec.streamable import Multistreamable

__all__ = [
    "SequenceVBEContext",
    "check_module_output_dimension",
    "construct_jagged_tensors",
    "construct_jagged_tensors_inference",
    "construct_modulelist_from_single_module",
    "convert_list_of_modules_to_modulelist",
    "deterministic_dedup",
    "extract_module_or_tensor_callable",
    "get_module_output_dimension",
    "init_mlp_weights_xavier_uniform",
    "jagged_index_select_with_empty",
    "make_hash_zch_buckets_non_persistent",
    "reset_module_states_post_sharding",
]


@dataclass
class SequenceVBEContext(Multistreamable):
    """How embeddings of each key's own batch become those of the full one.

    Args:
        recat: (values of the full batch,): which embedding each one is.
        unpadded_lengths: lengths of each key's own batch.
        reindexed_lengths: (keys, full batch): lengths of the full batch.
        reindexed_length_per_key: their sums.
        reindexed_values: ids of the full batch, where they are wanted.
    """

    recat: Tensor
    unpadded_lengths: Tensor
    reindexed_lengths: Tensor
    reindexed_length_per_key: list[int]
    reindexed_values: Tensor | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        """Keep the memory of all tensors from being used again before `stream` is done with them."""
        for tensor in (self.recat, self.unpadded_lengths, self.reindexed_lengths, self.reindexed_values):
            if tensor is not None:
                tensor.record_stream(stream)


def extract_module_or_tensor_callable(
    module_or_callable: Callable[[], nn.Module] | nn.Module | Callable[[Tensor], Tensor],
) -> nn.Module | Callable[[Tensor], Tensor]:
    """The module that a function without arguments makes; a module, or a function of tensors, as it is.

    Raises:
        ValueError: the function makes something else.
    """
    if isinstance(module_or_callable, nn.Module):
        return module_or_callable
    try:
        made = module_or_callable()  # type: ignore[call-arg]
    except TypeError:  # a function of tensors
        return module_or_callable  # type: ignore[return-value]
    if isinstance(made, nn.Module):
        return made
    raise ValueError(f"module_or_callable gives a {type(made).__name__} when it is called, expected a module.")


def get_module_output_dimension(module: Callable[[Tensor], Tensor] | nn.Module, in_features: int) -> int:
    """Columns of what a module makes of `in_features` columns."""
    return module(torch.zeros(1, in_features)).size(-1)


def check_module_output_dimension(module: Iterable[nn.Module] | nn.Module, in_features: int, out_features: int) -> bool:
    """Whether a module, or each one of several, makes `out_features` columns of `in_features`."""
    if isinstance(module, nn.ModuleList) or not isinstance(module, nn.Module):
        return all(check_module_output_dimension(one, in_features, out_features) for one in module)
    return get_module_output_dimension(module, in_features) == out_features


def init_mlp_weights_xavier_uniform(m: nn.Module) -> None:
    """Fill a linear layer anew (Glorot and Bengio 2010), its bias with 0; leave any other module alone."""
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)


def construct_modulelist_from_single_module(module: nn.Module, sizes: tuple[int, ...]) -> nn.Module:
    """Copies of a module, each filled anew, in (nested) lists of given sizes."""
    if len(sizes) == 1:
        return nn.ModuleList(copy.deepcopy(module).apply(init_mlp_weights_xavier_uniform) for _ in range(sizes[0]))
    return nn.ModuleList(construct_modulelist_from_single_module(module, sizes[1:]) for _ in range(sizes[0]))


def convert_list_of_modules_to_modulelist(modules: Iterable[nn.Module], sizes: tuple[int, ...]) -> nn.Module:
    """Modules in (nested) lists as such in `nn.ModuleList`s.

    Raises:
        OptionError: a list does not have the number of entries that `sizes` says.
    """
    entries = list(modules)
    if len(entries) != sizes[0]:
        raise OptionError(f"modules has {len(entries)} entries where sizes says {sizes[0]}.")
    if len(sizes) == 1:
        return nn.ModuleList(entries)
    return nn.ModuleList(convert_list_of_modules_to_modulelist(entry, sizes[1:]) for entry in entries)  # type: ignore[arg-type]


def deterministic_dedup(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Each id once.

    Args:
        ids: (L,) of integers.

    Returns:
        The ids in ascending order, and the place of the last one of each: where several write one row, that one stays.
    """
    ordered, places = torch.sort(ids, stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return ordered[last], places[last]


def jagged_index_select_with_empty(values: Tensor, ids: Tensor, offsets: Tensor, output_offsets: Tensor) -> Tensor:
    """The items of chosen rows.

    Args:
        values: (L, 1): the items of all rows.
        ids: (rows of the result,): which ones.
        offsets: (rows,): where each row ends.
        output_offsets: (rows of the result,): where each one ends there.

    Returns:
        (L', 1): the items of all chosen rows, one row after another; of no rows (0,), as upstream.
    """
    if not ids.numel():
        return values.new_empty(0)
    ends = offsets.long()[ids.long()]
    counts = output_offsets.diff(prepend=output_offsets.new_zeros(1)).long()
    shifts = (ends - output_offsets.long()).repeat_interleave(counts)
    return values[torch.arange(len(shifts), device=values.device) + shifts]


def construct_jagged_tensors(
    embeddings: Tensor,
    features: KeyedJaggedTensor,
    embedding_names: list[str],
    need_indices: bool = False,
    features_to_permute_indices: dict[str, list[int]] | None = None,
    original_features: KeyedJaggedTensor | None = None,
    reverse_indices: Tensor | None = None,
    seq_vbe_ctx: SequenceVBEContext | None = None,
    use_gather_select: bool = False,
) -> dict[str, JaggedTensor]:
    """Embeddings of all ids, cut by feature.

    Args:
        embeddings: (L, columns), in the order of the features' ids.
        features: the ids that they are of.
        embedding_names: for each key of the features, what its embeddings are called; keys of one name are columns of
            one table and are joined.
        need_indices: whether ids are given as weights.
        features_to_permute_indices: of a name that stands for several keys, the order in which they are joined.
        original_features: the ids before duplicates were taken out, where they were.
        reverse_indices: (L of the original features,): which embedding each of their ids has.
        seq_vbe_ctx: how embeddings become those of the full batch, where each key had one of its own.
        use_gather_select: pick rows by `gather` instead of `index_select`.
    """
    if original_features is not None:
        features = original_features
    picked = seq_vbe_ctx.recat if seq_vbe_ctx is not None else None
    for rows in (reverse_indices, picked):
        if rows is not None:
            embeddings = _pick(embeddings, rows, use_gather_select)
    if seq_vbe_ctx is None:
        per_key, lengths, values = features.length_per_key(), features.lengths(), features.values()
        rows_per_key = features.stride_per_key()
    else:
        per_key, lengths = seq_vbe_ctx.reindexed_length_per_key, seq_vbe_ctx.reindexed_lengths.view(-1)
        values = seq_vbe_ctx.reindexed_values if seq_vbe_ctx.reindexed_values is not None else features.values()
        rows_per_key = [lengths.numel() // max(len(per_key), 1)] * len(per_key)
    return _named(
        embeddings,
        lengths.view(-1).split(rows_per_key),
        values if need_indices else None,
        per_key,
        embedding_names,
        features_to_permute_indices,
    )


def construct_jagged_tensors_inference(
    embeddings: Tensor,
    lengths: Tensor,
    values: Tensor,
    embedding_names: list[str],
    need_indices: bool = False,
    features_to_permute_indices: dict[str, list[int]] | None = None,
    reverse_indices: Tensor | None = None,
    remove_padding: bool = False,
) -> dict[str, JaggedTensor]:
    """As `construct_jagged_tensors`, from lengths and ids.

    Args:
        embeddings: (L or more, columns), in the order of the ids.
        lengths: (names * B,): ids in each bag.
        values: (L,): the ids.
        embedding_names: for each feature, what its embeddings are called.
        need_indices: whether ids are given as weights.
        features_to_permute_indices: of a name that stands for several features, the order in which they are joined.
        reverse_indices: (L,): which embedding each id has, where duplicates were taken out.
        remove_padding: whether embeddings beyond the sum of lengths are left out.
    """
    if reverse_indices is not None:
        embeddings = torch.index_select(embeddings, 0, reverse_indices)
    table = lengths.view(-1, lengths.numel() // len(embedding_names))
    per_key: list[int] = table.sum(1).tolist()
    if remove_padding:
        embeddings = embeddings[: sum(per_key)]
    return _named(
        embeddings, table.unbind(), values if need_indices else None, per_key, embedding_names,
        features_to_permute_indices,
    )  # fmt: skip


def _pick(embeddings: Tensor, rows: Tensor, by_gathering: bool) -> Tensor:
    if by_gathering:
        return torch.gather(embeddings, 0, rows.long().unsqueeze(-1).expand(-1, embeddings.size(-1)))
    return torch.index_select(embeddings, 0, rows)


def _named(
    embeddings: Tensor,
    lengths: tuple[Tensor, ...],
    values: Tensor | None,
    per_key: list[int],
    names: list[str],
    orders: dict[str, list[int]] | None,
) -> dict[str, JaggedTensor]:
    parts = embeddings.split(per_key)
    ids = None if values is None else values.split(per_key)
    places: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(names):
        places[name].append(at)
    for name, order in (orders or {}).items():
        if name in places:
            places[name] = [places[name][at] for at in order]
    return {
        name: JaggedTensor(
            lengths=lengths[at[0]],
            values=parts[at[0]] if len(at) == 1 else torch.cat([parts[one] for one in at], dim=1),
            weights=None if ids is None else ids[at[0]],
        )
        for name, at in places.items()
    }


def reset_module_states_post_sharding(module: nn.Module) -> None:
    """Call `reset_parameters`-like hooks of modules that keep something about how they are divided among processes."""
    for one in module.modules():
        hook = getattr(one, "_reset_states_post_sharding", None)
        if hook is not None:
            hook()


def make_hash_zch_buckets_non_persistent(module: nn.Module) -> int:
    """Leave the number of buckets of hashing modules out of checkpoints; returns of how many modules.

    Upstream: checkpoints from before that number was kept can be loaded then.
    """
    changed = 0
    for one in module.modules():
        if "_hash_zch_bucket" in one._buffers and "_hash_zch_bucket" not in one._non_persistent_buffers_set:
            one._non_persistent_buffers_set.add("_hash_zch_bucket")
            changed += 1
    return changed
