"""Collections of embedding tables whose rows are quantized: what `modules.embedding_modules` has, for inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import PoolingMode
from flambeau.rec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    EmbeddingBagConfig,
    EmbeddingConfig,
    PoolingType,
    pooling_type_to_pooling_mode,
)
from flambeau.rec.modules.embedding_modules import (
    EmbeddingBagCollection as FloatEmbeddingBagCollection,
)
from flambeau.rec.modules.embedding_modules import (
    EmbeddingBagCollectionInterface,
    EmbeddingCollectionInterface,
    get_embedding_names_by_table,
)
from flambeau.rec.modules.embedding_modules import (
    EmbeddingCollection as FloatEmbeddingCollection,
)
from flambeau.rec.modules.feature_processor_ import FeatureProcessorsCollection
from flambeau.rec.modules.fp_embedding_modules import (
    FeatureProcessedEmbeddingBagCollection as FloatFeatureProcessedEmbeddingBagCollection,
)
from flambeau.rec.quant._preparation import (
    DEFAULT_ROW_ALIGNMENT,
    MODULE_ATTR_CACHE_FEATURES_ORDER,
    MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT,
    MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
    MODULE_ATTR_REGISTER_TBES_BOOL,
    MODULE_ATTR_REMOVE_STBE_PADDING_BOOL,
    MODULE_ATTR_ROW_ALIGNMENT_INT,
    MODULE_ATTR_USE_BATCHING_HINTED_OUTPUT,
    MODULE_ATTR_USE_UNFLATTENED_LENGTHS_FOR_BATCHING,
    for_each_module_of_type_do,
    quant_prep_customize_row_alignment,
    quant_prep_enable_cache_features_order,
    quant_prep_enable_quant_state_dict_split_scale_bias,
    quant_prep_enable_quant_state_dict_split_scale_bias_for_types,
    quant_prep_enable_register_tbes,
)
from flambeau.rec.quant._tables import (
    Quantized,
    chosen_types,
    make_tables,
    quantize_state_dict,
    quantized_configs,
    show_tables,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from flambeau.rec.types import ModuleNoCopyMixin

__all__ = [
    "DEFAULT_ROW_ALIGNMENT",
    "MODULE_ATTR_CACHE_FEATURES_ORDER",
    "MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT",
    "MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS",
    "MODULE_ATTR_REGISTER_TBES_BOOL",
    "MODULE_ATTR_REMOVE_STBE_PADDING_BOOL",
    "MODULE_ATTR_ROW_ALIGNMENT_INT",
    "MODULE_ATTR_USE_BATCHING_HINTED_OUTPUT",
    "MODULE_ATTR_USE_UNFLATTENED_LENGTHS_FOR_BATCHING",
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "FeatureProcessedEmbeddingBagCollection",
    "QuantManagedCollisionEmbeddingBagCollection",
    "QuantManagedCollisionEmbeddingCollection",
    "for_each_module_of_type_do",
    "quant_prep_customize_row_alignment",
    "quant_prep_enable_cache_features_order",
    "quant_prep_enable_quant_state_dict_split_scale_bias",
    "quant_prep_enable_quant_state_dict_split_scale_bias_for_types",
    "quant_prep_enable_register_tbes",
    "quantize_state_dict",
]


def _check_names(tables: Sequence[BaseEmbeddingConfig]) -> None:
    names = [table.name for table in tables]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"several tables are called {', '.join(repeated)}; give each a name of its own.")


class _Order:
    """The order in which a batch's features are read; found out once where all batches have the same."""

    def __init__(self, names: Sequence[str], cached: bool) -> None:
        self.names, self.cached = list(names), cached
        self.found: list[int] | None = None

    def apply(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The features that tables read, in their order."""
        order = self.found
        if order is None:
            keys = features.keys()
            missing = [name for name in self.names if name not in keys]
            if missing:
                raise KeyError(f"the batch has no features {missing}; it has {keys}.")
            order = [keys.index(name) for name in self.names]
            if self.cached:
                self.found = order
        return features if order == list(range(len(features.keys()))) else features.permute(order)


def _module_options(module: nn.Module) -> dict[str, Any]:
    """What `quant_prep_*` said to a floating module."""
    return {
        "register_tbes": getattr(module, MODULE_ATTR_REGISTER_TBES_BOOL, False),
        "quant_state_dict_split_scale_bias": getattr(module, MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS, False),
        "row_alignment": getattr(module, MODULE_ATTR_ROW_ALIGNMENT_INT, DEFAULT_ROW_ALIGNMENT),
        "cache_features_order": getattr(module, MODULE_ATTR_CACHE_FEATURES_ORDER, False),
    }


class EmbeddingBagCollection(EmbeddingBagCollectionInterface, ModuleNoCopyMixin):
    """Pooled embeddings of quantized tables.

    State dicts have `embedding_bags.<table>.weight`: (rows, bytes) uint8 with scale and bias in front of each row; or
    codes alone, with `weight_qscale` and `weight_qbias` beside them.

    Args:
        tables: their `data_type` says what elements are.
        is_weighted: whether batches bring weights.
        device: where rows are looked up; "meta" keeps shapes alone.
        output_dtype: of the result.
        table_name_to_quantized_weights: (rows, bytes) and (rows, 4) or None by table; zeros where not given.
        register_tbes: whether the tables are submodules, `tbes`.
        quant_state_dict_split_scale_bias: whether state dicts hold scales and biases by themselves.
        row_alignment: bytes that rows are a multiple of.
        cache_features_order: whether all batches have their features in one order.

    Raises:
        ValueError: two tables of one name.
    """

    def __init__(
        self,
        tables: list[EmbeddingBagConfig],
        is_weighted: bool,
        device: torch.device,
        output_dtype: torch.dtype = torch.float32,
        table_name_to_quantized_weights: Quantized | None = None,
        register_tbes: bool = False,
        quant_state_dict_split_scale_bias: bool = False,
        row_alignment: int = DEFAULT_ROW_ALIGNMENT,
        cache_features_order: bool = False,
    ) -> None:
        super().__init__()
        _check_names(tables)
        self._is_weighted, self._embedding_bag_configs = is_weighted, tables
        self._output_dtype, self._device = output_dtype, torch.device(device)
        self.row_alignment, self.register_tbes = row_alignment, register_tbes
        self._key_to_tables: dict[PoolingType, list[EmbeddingBagConfig]] = {}
        for table in tables:
            self._key_to_tables.setdefault(table.pooling, []).append(table)
        self._emb_modules = [
            make_tables(
                group, pooling_type_to_pooling_mode(pooling), self._device, output_dtype, row_alignment,
                table_name_to_quantized_weights,
            )
            for pooling, group in self._key_to_tables.items()
        ]  # fmt: skip
        grouped = [table for group in self._key_to_tables.values() for table in group]
        self._feature_splits = [sum(len(t.feature_names) for t in group) for group in self._key_to_tables.values()]
        self._length_per_key = [table.embedding_dim for table in grouped for _ in table.feature_names]
        self._embedding_names = [name for names in get_embedding_names_by_table(grouped) for name in names]
        self._order = _Order([name for table in grouped for name in table.feature_names], cache_features_order)
        self.embedding_bags = nn.ModuleDict()
        for group, made in zip(self._key_to_tables.values(), self._emb_modules, strict=True):
            show_tables(self.embedding_bags, group, made, split_scale_bias=quant_state_dict_split_scale_bias)
        if register_tbes:
            self.tbes = nn.ModuleList(self._emb_modules)

    @property
    def _features_order(self) -> list[int] | None:
        return self._order.found

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pooled embeddings.

        Args:
            features: with all features of the tables, in any order; others are left out.

        Returns:
            (batch, columns of all features); keys are features, `<feature>@<table>` where several tables read one.
            Tables that are pooled alike stand together.

        Raises:
            KeyError: a feature is missing.
        """
        parts = self._order.apply(features).split(self._feature_splits)
        pooled = [
            made(part.values(), part.offsets(), part.weights() if self._is_weighted else None)
            for made, part in zip(self._emb_modules, parts, strict=True)
        ]
        values = pooled[0] if len(pooled) == 1 else torch.cat(pooled, 1)
        return KeyedTensor(keys=self._embedding_names, values=values, length_per_key=self._length_per_key)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Tables as they were given."""
        return self._embedding_bag_configs

    def is_weighted(self) -> bool:
        """Whether batches bring weights."""
        return self._is_weighted

    def output_dtype(self) -> torch.dtype:
        """The dtype of the result."""
        return self._output_dtype

    @property
    def device(self) -> torch.device:
        """Where rows are looked up."""
        return self._device

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBagCollection"

    @classmethod
    def from_float(
        cls, module: FloatEmbeddingBagCollection, use_precomputed_fake_quant: bool = False
    ) -> EmbeddingBagCollection:
        """Quantize the tables of a floating collection.

        Args:
            module: with a `qconfig` that says what tables become and what results are.
            use_precomputed_fake_quant: has no meaning here.

        Returns:
            Another module; the floating one stays as it is.

        Raises:
            AssertionError: there is no qconfig.
        """
        return cls(**_quantized(module, module.embedding_bag_configs()), is_weighted=module.is_weighted())


def _quantized(module: nn.Module, configs: Sequence[Any]) -> dict[str, Any]:
    """Arguments of the quantized module."""
    types, output_dtype = chosen_types(module, configs)
    # Upstream: only tables that are pooled are pruned.
    pooled = isinstance(module, EmbeddingBagCollectionInterface)
    kept = dict(getattr(module, MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT, {})) if pooled else {}
    weights: Quantized = {}
    device = quantize_state_dict(module, weights, types, kept)
    return {
        "tables": quantized_configs(configs, types, kept),
        "device": device,
        "output_dtype": output_dtype,
        "table_name_to_quantized_weights": weights,
        **_module_options(module),
    }


class FeatureProcessedEmbeddingBagCollection(EmbeddingBagCollection):
    """Features are weighted by a processor, looked up in quantized tables, and pooled.

    Args:
        tables: see `EmbeddingBagCollection`.
        is_weighted: true: the processor makes weights.
        device: see there.
        output_dtype: see there.
        table_name_to_quantized_weights: see there.
        register_tbes: see there.
        quant_state_dict_split_scale_bias: see there.
        row_alignment: see there.
        feature_processor: gives features weights.
        cache_features_order: see there.

    Raises:
        AssertionError: no processor, or no weights.
    """

    def __init__(
        self,
        tables: list[EmbeddingBagConfig],
        is_weighted: bool,
        device: torch.device,
        output_dtype: torch.dtype = torch.float32,
        table_name_to_quantized_weights: Quantized | None = None,
        register_tbes: bool = False,
        quant_state_dict_split_scale_bias: bool = False,
        row_alignment: int = DEFAULT_ROW_ALIGNMENT,
        feature_processor: FeatureProcessorsCollection | None = None,
        cache_features_order: bool = False,
    ) -> None:
        super().__init__(
            tables, is_weighted, device, output_dtype, table_name_to_quantized_weights, register_tbes,
            quant_state_dict_split_scale_bias, row_alignment, cache_features_order,
        )  # fmt: skip
        if feature_processor is None or not is_weighted:
            raise OptionError("feature_processor is None or is_weighted false; processors give features weights.")
        self.feature_processor = feature_processor.to(device)

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Weigh, look up and pool; see `EmbeddingBagCollection.forward`."""
        return super().forward(self.feature_processor(features))

    def _get_name(self) -> str:
        return "QuantFeatureProcessedEmbeddingBagCollection"

    @classmethod
    def from_float(  # type: ignore[override]
        cls, module: FloatFeatureProcessedEmbeddingBagCollection, use_precomputed_fake_quant: bool = False
    ) -> FeatureProcessedEmbeddingBagCollection:
        """Quantize the tables of a floating collection; the processor stays as it is.

        Args:
            module: with a `qconfig`.
            use_precomputed_fake_quant: has no meaning here.

        Raises:
            AssertionError: there is no qconfig.
        """
        processor, tables = module.split()
        _hand_down(module, tables)
        return cls(
            **_quantized(tables, tables.embedding_bag_configs()),
            is_weighted=tables.is_weighted(),
            feature_processor=processor,
        )


def _hand_down(module: nn.Module, inner: nn.Module) -> None:
    """Say to the tables inside of a module what was said to it."""
    for name in (
        "qconfig", MODULE_ATTR_REGISTER_TBES_BOOL, MODULE_ATTR_QUANT_STATE_DICT_SPLIT_SCALE_BIAS,
        MODULE_ATTR_ROW_ALIGNMENT_INT, MODULE_ATTR_EMB_CONFIG_NAME_TO_NUM_ROWS_POST_PRUNING_DICT,
        MODULE_ATTR_CACHE_FEATURES_ORDER,
    ):  # fmt: skip
        if hasattr(module, name):
            setattr(inner, name, getattr(module, name))


class EmbeddingCollection(EmbeddingCollectionInterface, ModuleNoCopyMixin):
    """Embeddings of single ids from quantized tables.

    Args:
        tables: all of one number of columns; their `data_type` says what elements are.
        device: where rows are looked up; "meta" keeps shapes alone.
        need_indices: whether results have the ids as weights.
        output_dtype: of the result; uint8 gives rows of INT8 tables as they are, scale and bias first.
        table_name_to_quantized_weights: (rows, bytes) and (rows, 4) or None by table; zeros where not given.
        register_tbes: whether the tables are submodules, `tbes`.
        quant_state_dict_split_scale_bias: whether state dicts hold scales and biases by themselves.
        row_alignment: bytes that rows are a multiple of.
        cache_features_order: whether all batches have their features in one order.

    Raises:
        ValueError: two tables of one name, or of different numbers of columns.
    """

    def __init__(
        self,
        tables: list[EmbeddingConfig],
        device: torch.device,
        need_indices: bool = False,
        output_dtype: torch.dtype = torch.float32,
        table_name_to_quantized_weights: Quantized | None = None,
        register_tbes: bool = False,
        quant_state_dict_split_scale_bias: bool = False,
        row_alignment: int = DEFAULT_ROW_ALIGNMENT,
        cache_features_order: bool = False,
    ) -> None:
        super().__init__()
        _check_names(tables)
        if len(widths := {table.embedding_dim for table in tables}) > 1:
            raise ValueError(f"tables have {sorted(widths)} columns, expected equally many.")
        self._embedding_configs, self._need_indices = tables, need_indices
        self._embedding_dim = tables[0].embedding_dim if tables else 0
        self._output_dtype, self._device = output_dtype, torch.device(device)
        self.row_alignment, self.register_tbes = row_alignment, register_tbes
        self._embedding_names_by_table = get_embedding_names_by_table(tables)
        # Tables of all elements are looked up together.
        self._emb_modules: list[IntNBitTableBatchedEmbeddingBagsCodegen] = []
        if tables:
            self._emb_modules.append(
                make_tables(
                    tables, PoolingMode.NONE, self._device, output_dtype, row_alignment, table_name_to_quantized_weights
                )
            )
        self._embedding_names = [name for names in self._embedding_names_by_table for name in names]
        self._order = _Order([name for table in tables for name in table.feature_names], cache_features_order)
        self.embeddings = nn.ModuleDict()
        for made in self._emb_modules:
            show_tables(self.embeddings, tables, made, split_scale_bias=quant_state_dict_split_scale_bias)
        if register_tbes:
            self.tbes = nn.ModuleList(self._emb_modules)

    @property
    def _features_order(self) -> list[int] | None:
        return self._order.found

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Embeddings of all ids.

        Args:
            features: with all features of the tables, in any order; others are left out.

        Returns:
            By feature, `<feature>@<table>` where several tables read one: (ids, columns), with the features' lengths.

        Raises:
            KeyError: a feature is missing.
        """
        read = self._order.apply(features)
        found: dict[str, JaggedTensor] = {}
        for made in self._emb_modules:
            values: Tensor = made(read.values(), read.offsets())
            lengths = read.lengths().view(len(self._embedding_names), -1)
            counts = read.length_per_key()
            parts = zip(values.split(counts), read.values().split(counts), lengths, self._embedding_names, strict=True)
            for rows, ids, lengths_of_one, name in parts:
                found[name] = JaggedTensor(rows, ids if self._need_indices else None, lengths_of_one)
        return found

    def need_indices(self) -> bool:
        """Whether results have the ids as weights."""
        return self._need_indices

    def embedding_dim(self) -> int:
        """Columns of all tables."""
        return self._embedding_dim

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """Tables as they were given."""
        return self._embedding_configs

    def embedding_names_by_table(self) -> list[list[str]]:
        """What the embeddings of each table's features are called."""
        return self._embedding_names_by_table

    def output_dtype(self) -> torch.dtype:
        """The dtype of the result."""
        return self._output_dtype

    @property
    def device(self) -> torch.device:
        """Where rows are looked up."""
        return self._device

    def _get_name(self) -> str:
        return "QuantizedEmbeddingCollection"

    @classmethod
    def from_float(
        cls, module: FloatEmbeddingCollection, use_precomputed_fake_quant: bool = False
    ) -> EmbeddingCollection:
        """Quantize the tables of a floating collection.

        Args:
            module: with a `qconfig` that says what tables become and what results are.
            use_precomputed_fake_quant: has no meaning here.

        Returns:
            Another module; the floating one stays as it is.

        Raises:
            AssertionError: there is no qconfig.
        """
        return cls(**_quantized(module, module.embedding_configs()), need_indices=module.need_indices())


class QuantManagedCollisionEmbeddingBagCollection(EmbeddingBagCollection):
    """Ids are mapped to rows by a collection of managed collisions, then looked up in quantized tables, and pooled.

    Args:
        tables: see `EmbeddingBagCollection`.
        is_weighted: see there.
        device: see there.
        output_dtype: see there.
        table_name_to_quantized_weights: see there.
        register_tbes: see there.
        quant_state_dict_split_scale_bias: see there.
        row_alignment: see there.
        managed_collision_collection: maps features to features.
        return_remapped_features: whether the features with their rows are returned too.
        cache_features_order: see there.

    Raises:
        AssertionError: nothing that maps ids.
    """

    def __init__(
        self,
        tables: list[EmbeddingBagConfig],
        is_weighted: bool,
        device: torch.device,
        output_dtype: torch.dtype = torch.float32,
        table_name_to_quantized_weights: Quantized | None = None,
        register_tbes: bool = False,
        quant_state_dict_split_scale_bias: bool = False,
        row_alignment: int = DEFAULT_ROW_ALIGNMENT,
        managed_collision_collection: nn.Module | None = None,
        return_remapped_features: bool = False,
        cache_features_order: bool = False,
    ) -> None:
        super().__init__(
            tables, is_weighted, device, output_dtype, table_name_to_quantized_weights, register_tbes,
            quant_state_dict_split_scale_bias, row_alignment, cache_features_order,
        )  # fmt: skip
        self._managed_collision_collection = _mapper(managed_collision_collection)
        self._return_remapped_features = return_remapped_features

    def forward(  # type: ignore[override]
        self, features: KeyedJaggedTensor
    ) -> tuple[KeyedTensor, KeyedJaggedTensor | None]:
        """Map, look up and pool; the features with their rows come along where that was asked for."""
        mapped = self._managed_collision_collection(features)
        return super().forward(mapped), mapped if self._return_remapped_features else None

    def _get_name(self) -> str:
        return "QuantManagedCollisionEmbeddingBagCollection"

    @classmethod
    def from_float(
        cls, module: Any, return_remapped_features: bool = False
    ) -> QuantManagedCollisionEmbeddingBagCollection:
        """Quantize the tables of a floating collection; the mapping stays as it is.

        Args:
            module: a `ManagedCollisionEmbeddingBagCollection` with a `qconfig`.
            return_remapped_features: see the class.

        Raises:
            AssertionError: there is no qconfig.
        """
        tables = module._embedding_module
        _hand_down(module, tables)
        return cls(
            **_quantized(tables, tables.embedding_bag_configs()),
            is_weighted=tables.is_weighted(),
            managed_collision_collection=module._managed_collision_collection,
            return_remapped_features=return_remapped_features,
        )


class QuantManagedCollisionEmbeddingCollection(EmbeddingCollection):
    """Ids are mapped to rows by a collection of managed collisions, then looked up in quantized tables.

    Args:
        tables: see `EmbeddingCollection`.
        device: see there.
        need_indices: see there.
        output_dtype: see there.
        table_name_to_quantized_weights: see there.
        register_tbes: see there.
        quant_state_dict_split_scale_bias: see there.
        row_alignment: see there.
        managed_collision_collection: maps features to features.
        return_remapped_features: whether the features with their rows are returned too.
        cache_features_order: see there.

    Raises:
        AssertionError: nothing that maps ids.
    """

    def __init__(
        self,
        tables: list[EmbeddingConfig],
        device: torch.device,
        need_indices: bool = False,
        output_dtype: torch.dtype = torch.float32,
        table_name_to_quantized_weights: Quantized | None = None,
        register_tbes: bool = False,
        quant_state_dict_split_scale_bias: bool = False,
        row_alignment: int = DEFAULT_ROW_ALIGNMENT,
        managed_collision_collection: nn.Module | None = None,
        return_remapped_features: bool = False,
        cache_features_order: bool = False,
    ) -> None:
        super().__init__(
            tables, device, need_indices, output_dtype, table_name_to_quantized_weights, register_tbes,
            quant_state_dict_split_scale_bias, row_alignment, cache_features_order,
        )  # fmt: skip
        self._managed_collision_collection = _mapper(managed_collision_collection)
        self._return_remapped_features = return_remapped_features

    def forward(  # type: ignore[override]
        self, features: KeyedJaggedTensor
    ) -> tuple[dict[str, JaggedTensor], KeyedJaggedTensor | None]:
        """Map and look up; the features with their rows come along where that was asked for."""
        mapped = self._managed_collision_collection(features)
        return super().forward(mapped), mapped if self._return_remapped_features else None

    def _get_name(self) -> str:
        return "QuantManagedCollisionEmbeddingCollection"

    @classmethod
    def from_float(
        cls, module: Any, return_remapped_features: bool = False
    ) -> QuantManagedCollisionEmbeddingCollection:
        """Quantize the tables of a floating collection; the mapping stays as it is.

        Args:
            module: a `ManagedCollisionEmbeddingCollection` with a `qconfig`.
            return_remapped_features: see the class.

        Raises:
            AssertionError: there is no qconfig.
        """
        tables = module._embedding_module
        _hand_down(module, tables)
        return cls(
            **_quantized(tables, tables.embedding_configs()),
            need_indices=tables.need_indices(),
            managed_collision_collection=module._managed_collision_collection,
            return_remapped_features=return_remapped_features,
        )


def _mapper(given: nn.Module | None) -> nn.Module:
    if given is None:
        raise OptionError("managed_collision_collection is None, expected what maps ids to rows.")
    return given
