"""State of quantized tables on the devices of one process: in state dictionaries, and where each part is in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor  # type: ignore[attr-defined]
from torch.distributed._shard.sharded_tensor.api import ShardedTensorBase
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec
from torch.distributed.remote_device import _remote_device

from flambeau.rec.distributed.embedding_types import (
    GroupedEmbeddingConfig,
    ShardedEmbeddingModule,
    ShardedEmbeddingTable,
)
from flambeau.rec.distributed.types import ParameterSharding, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._inference_layout import DEFAULT_SCALE_BIAS_SIZE_IN_BYTES, parts_of_rows
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.quant._tables import ShownTable, as_codes, bytes_of, table_type
from flambeau.rec.tensor_types import UIntXTensor

__all__ = [
    "ShardedQuantEmbeddingModuleState",
    "WeightSpec",
    "get_bucket_offsets_per_virtual_table",
    "get_param_id_from_type",
    "post_state_dict_hook",
    "sharded_tbes_weights_spec",
]

Tables = IntNBitTableBatchedEmbeddingBagsCodegen

_PARTS = ("weight", "weight_qscale", "weight_qbias")
_WHOLE = ShardingType.TABLE_WISE.value
_BY_ROWS = ShardingType.ROW_WISE.value


# ----- state dictionaries ---------------------------------------------------------------------------------------------


@dataclass
class _TablePart:
    """A part of a table, where it is in the whole, and the tensors of it: codes, and scales and biases or None."""

    table: ShardedEmbeddingTable
    offsets: list[int]
    tensors: tuple[Tensor, Tensor | None, Tensor | None]


class ShardedQuantEmbeddingModuleState(ShardedEmbeddingModule[Any, Any, Any, Any]):
    """A sharded module whose parameters are quantized tables on the devices of one process.

    State dictionaries have `<prefix>.<table>.weight`: bytes of a table that is on one device; of one on several, a
    `ShardedTensor` with all its parts. Scales and biases, where they are told apart, are cut as rows are; those of
    columns are lists, as each part has its own copy. A state dictionary of the unsharded module loads as well.
    """

    def _initialize_torch_state(
        self,
        tbes: Mapping[Tables, GroupedEmbeddingConfig],
        table_name_to_parameter_sharding: Mapping[str, ParameterSharding],
        tables_weights_prefix: str,
        *,
        names: list[str],
        split_scale_bias: bool,
    ) -> None:
        self._state_names = names
        self._state_prefix = tables_weights_prefix
        self._state_tables = dict(tbes)
        self._state_plan = dict(table_name_to_parameter_sharding)
        self._state_split = split_scale_bias
        if not split_scale_bias:
            self._register_tables()
            return

        def add(module: nn.Module, destination: dict[str, Any], prefix: str, metadata: Any) -> None:
            post_state_dict_hook(cast("Any", module), destination, prefix, metadata, tables_weights_prefix)

        self._register_state_dict_hook(add)  # type: ignore[no-untyped-call]

    def _register_tables(self) -> None:
        """Whole tables with their scales and biases inside of rows are buffers, as in the unsharded module."""
        parts = self._parts_by_table()
        shown = nn.ModuleDict()
        for name in self._state_names:
            shown[name] = ShownTable(table_type(parts[name][0].table.data_type), parts[name][0].tensors[0])
        setattr(self, self._state_prefix, shown)

    def _parts_by_table(self) -> dict[str, list[_TablePart]]:
        """Views of all parts of each table, those of the first device first."""
        found: dict[str, list[_TablePart]] = {}
        for tables, config in self._state_tables.items():
            views = tables.split_embedding_weights_with_scale_bias(2 if self._state_split else 0)
            for table, tensors in zip(config.embedding_tables, views, strict=True):
                place = table.local_metadata
                offsets = list(place.shard_offsets) if place is not None else [0, 0]
                found.setdefault(table.name, []).append(_TablePart(table, offsets, tensors))
        return found

    def _state(self) -> dict[str, Any]:
        """Tables by their names in state dictionaries."""
        found: dict[str, Any] = {}
        parts_by_table = self._parts_by_table()
        for number, name in enumerate(_PARTS):
            for table, parts in parts_by_table.items():
                if all(part.tensors[number] is not None for part in parts):
                    found[f"{self._state_prefix}.{table}.{name}"] = self._joined(table, parts, number)
        return found

    def _joined(self, table: str, parts: list[_TablePart], number: int) -> Any:
        tensors = [_shown(part, number) for part in parts]
        kind = self._state_plan[table].sharding_type
        if kind == _WHOLE:
            return tensors[0]
        if number and kind != _BY_ROWS:
            return tensors
        if len(parts) == 1:
            return tensors[0]
        offsets = [part.offsets if number == 0 else [part.offsets[0], 0] for part in parts]
        return _sharded(tensors, offsets)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if not self._state_split:
            return
        known = set()
        for table, parts in self._parts_by_table().items():
            for number, name in enumerate(_PARTS):
                if any(part.tensors[number] is None for part in parts):
                    continue
                key = f"{prefix}{self._state_prefix}.{table}.{name}"
                known.add(key)
                if key not in state_dict:
                    missing_keys.append(key)
                    continue
                try:
                    _load(parts, number, state_dict[key])
                except (RuntimeError, OptionError) as error:
                    error_msgs.append(f"{key}: {error}")
        unexpected_keys[:] = [key for key in unexpected_keys if key not in known]

    def _take_over(self, whole: Mapping[str, Any]) -> None:
        """Copy the tables of the unsharded module, where there is something to copy.

        Args:
            whole: its state dictionary, with scales and biases inside of rows or apart from them.
        """
        for tables, config in self._state_tables.items():
            views = tables.split_embedding_weights_with_scale_bias(2)
            for spec, table, mine in zip(tables.embedding_specs, config.embedding_tables, views, strict=True):
                path = f"{self._state_prefix}.{table.name}"
                weight = whole.get(f"{path}.weight")
                if weight is None or weight.is_meta or mine[0].is_meta:
                    continue
                apart = [whole.get(f"{path}.{name}") for name in _PARTS[1:]]
                given: Sequence[Tensor | None] = [bytes_of(weight), *apart]
                if apart[0] is None:
                    given = parts_of_rows(
                        bytes_of(weight),
                        (*spec[:2], table.embedding_dim, *spec[3:]),
                        2,
                        DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
                    )
                row, column = table.local_metadata.shard_offsets if table.local_metadata is not None else (0, 0)
                # Where columns of the whole begin, in bytes of codes.
                column = column * given[0].shape[1] // weight.shape[1] if column else 0  # type: ignore[union-attr]
                for target, source, first in zip(mine, given, (column, 0, 0), strict=True):
                    if target is not None and source is not None:
                        rows, columns = target.shape
                        target.copy_(source[row : row + rows, first : first + columns])


def _shown(part: _TablePart, number: int) -> Tensor:
    tensor = part.tensors[number]
    assert tensor is not None
    return tensor if number else as_codes(tensor, table_type(part.table.data_type))


def _sharded(tensors: list[Tensor], offsets: list[list[int]]) -> ShardedTensor:
    """Parts on the devices of this process as one tensor; there is no group of processes."""
    places = [
        ShardMetadata(
            shard_offsets=list(at), shard_sizes=list(tensor.shape), placement=_remote_device(str(tensor.device))
        )
        for tensor, at in zip(tensors, offsets, strict=True)
    ]
    size = [max(at[dim] + tensor.shape[dim] for tensor, at in zip(tensors, offsets, strict=True)) for dim in (0, 1)]
    made = ShardedTensorBase.__new__(
        ShardedTensor,
        EnumerableShardingSpec(places),
        *size,
        dtype=tensors[0].dtype,
        layout=torch.strided,
        requires_grad=False,
        pin_memory=False,
        memory_format=torch.contiguous_format,
    )
    made._local_shards = [Shard(tensor, place) for tensor, place in zip(tensors, places, strict=True)]
    made._process_group = None
    made._remote_shards = {}
    made._init_rrefs = False
    made._sharded_tensor_id = None
    return cast("ShardedTensor", made)


def _load(parts: list[_TablePart], number: int, given: Any) -> None:
    """Overwrite the parts of a table by a whole one, a sharded one, or a list with a tensor for each part."""
    if isinstance(given, ShardedTensorBase):
        held = {tuple(shard.metadata.shard_offsets): shard.tensor for shard in given.local_shards()}
        for part in parts:
            at = tuple(part.offsets if number == 0 else [part.offsets[0], 0])
            if at not in held:
                raise OptionError(f"there is no shard at {at}; there are {sorted(held)}.")
            _shown(part, number).copy_(held[at])
        return
    if isinstance(given, list | tuple):
        if len(given) != len(parts):
            raise OptionError(f"there are {len(given)} parts, expected {len(parts)}.")
        for part, tensor in zip(parts, given, strict=True):
            _shown(part, number).copy_(tensor)
        return
    kind = table_type(parts[0].table.data_type)
    source = given if isinstance(given, UIntXTensor) or number else as_codes(given, kind)
    targets = [(_shown(part, number), part.offsets if number == 0 else [part.offsets[0], 0]) for part in parts]
    whole = tuple(max(at[dim] + target.shape[dim] for target, at in targets) for dim in (0, 1))
    if tuple(source.shape) != whole:
        raise OptionError(f"a table of {tuple(source.shape)} is given, expected {whole}.")
    for target, (row, column) in targets:
        rows, columns = target.shape
        target.copy_(source[row : row + rows, column : column + columns])


def post_state_dict_hook(
    module: ShardedQuantEmbeddingModuleState,
    destination: dict[str, Any],
    prefix: str,
    _local_metadata: dict[str, Any],
    tables_weights_prefix: str,
) -> None:
    """Add the tables of a sharded module to a state dictionary.

    Args:
        module: whose tables they are.
        destination: is added to.
        prefix: in front of the module's names.
        _local_metadata: has no meaning here.
        tables_weights_prefix: of tables in the module, "embedding_bags" or "embeddings".
    """
    for name, value in module._state().items():
        destination[f"{prefix}{tables_weights_prefix}{name[len(module._state_prefix) :]}"] = value


# ----- where parts are in tables --------------------------------------------------------------------------------------


@dataclass
class WeightSpec:
    """Where the tensor of a kernel is in the model before it was sharded.

    Args:
        fqn: of the table in the unsharded model.
        shard_offsets: where the part begins in the table: row and column.
        shard_sizes: its rows and columns; of scales and biases, rows and bytes.
        sharding_type: how the table is spread; None for modules that are not sharded.
        virtual_table_dim_offsets: the first column and the one behind the last, of tables without fixed rows.
    """

    fqn: str
    shard_offsets: list[int]
    shard_sizes: list[int]
    sharding_type: str | None
    virtual_table_dim_offsets: list[int] | None = None


def get_param_id_from_type(is_sqebc: bool, is_sqmcec: bool, is_sfpebc: bool) -> str:
    """What tables are below, in the unsharded module.

    Args:
        is_sqebc: it pools.
        is_sqmcec: it maps ids of sequences before.
        is_sfpebc: features are processed before they are pooled.
    """
    if is_sfpebc:
        return "_embedding_bag_collection.embedding_bags"
    if is_sqebc:
        return "embedding_bags"
    return "_embedding_module.embeddings" if is_sqmcec else "embeddings"


def get_bucket_offsets_per_virtual_table(
    grouped_embedding_config: list[GroupedEmbeddingConfig], virtual_table_name_to_bucket_lengths: dict[str, list[int]]
) -> dict[str, list[int]]:
    """Where the rows of each device begin, of tables without fixed rows.

    Args:
        grouped_embedding_config: groups of tables.
        virtual_table_name_to_bucket_lengths: of each table, rows of each device.

    Returns:
        Of each table that is named, the first row of each device.
    """
    names = {table.name for config in grouped_embedding_config for table in config.embedding_tables}
    return {
        name: [0, *accumulate(lengths[:-1])]
        for name, lengths in virtual_table_name_to_bucket_lengths.items()
        if name in names
    }


def sharded_tbes_weights_spec(
    sharded_model: nn.Module, virtual_table_name_to_bucket_lengths: dict[str, list[int]] | None = None
) -> dict[str, WeightSpec]:
    """Where each tensor of each kernel of a model is in the model before it was sharded: what loaders of weights ask.

    Args:
        sharded_model: with sharded quantized modules whose kernels are registered (`FUSED_PARAM_REGISTER_TBE_BOOL`).
        virtual_table_name_to_bucket_lengths: of tables without fixed rows, rows of each device.

    Returns:
        By `<module>.tbes.<kernel>.<table in kernel>.<table>.weight` (or `weight_qscale`, `weight_qbias`).
    """
    found: dict[str, WeightSpec] = {}
    for path, module in sharded_model.named_modules():
        if isinstance(module, ShardedQuantEmbeddingModuleState):
            for name, spec in _specs(module, virtual_table_name_to_bucket_lengths or {}):
                front = f"{path}." if path else ""
                spec.fqn = front + spec.fqn
                found[f"{front}{name}"] = spec
    return found


def _specs(
    module: ShardedQuantEmbeddingModuleState, bucket_lengths: dict[str, list[int]]
) -> Iterable[tuple[str, WeightSpec]]:
    collides = hasattr(module, "_managed_collision_collection")
    pooled = module._state_prefix == "embedding_bags"
    processed = hasattr(module, "feature_processors_per_rank")
    below = get_param_id_from_type(pooled and not processed, collides and not pooled, processed)
    starts = get_bucket_offsets_per_virtual_table(list(module._state_tables.values()), bucket_lengths)
    seen: dict[str, int] = {}
    for number, (tables, config) in enumerate(module._state_tables.items()):
        views = tables.split_embedding_weights_with_scale_bias(2 if module._state_split else 0)
        for at, (table, tensors) in enumerate(zip(config.embedding_tables, views, strict=True)):
            offsets, sizes = _place(table, tensors)
            columns = None
            if table.name in starts:
                rank = seen.setdefault(table.name, 0)
                seen[table.name] += 1
                offsets[0], sizes[0] = starts[table.name][rank], bucket_lengths[table.name][rank]
                columns = [offsets[1], offsets[1] + sizes[1]]
            kind = module._state_plan[table.name].sharding_type
            for name, tensor in zip(_PARTS, tensors, strict=True):
                if tensor is None:
                    continue
                where = (offsets, sizes) if name == "weight" else ([offsets[0], 0], [sizes[0], 2 * tensor.shape[1]])
                yield (
                    f"tbes.{number}.{at}.{table.name}.{name}",
                    WeightSpec(f"{below}.{table.name}.{name}", list(where[0]), list(where[1]), kind, columns),
                )


def _place(table: ShardedEmbeddingTable, tensors: tuple[Tensor | None, ...]) -> tuple[list[int], list[int]]:
    if table.local_metadata is not None:
        return list(table.local_metadata.shard_offsets), list(table.local_metadata.shard_sizes)
    weight = tensors[0]
    assert weight is not None
    return [0, 0], list(weight.shape)
