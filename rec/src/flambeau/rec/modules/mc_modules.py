"""Managed collisions: ids without bound mapped to the rows of a table, so that those which matter have their own."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import BaseEmbeddingConfig
from flambeau.rec.modules.mc_policies import (
    DistanceLFU_EvictionPolicy,
    LFU_EvictionPolicy,
    LRU_EvictionPolicy,
    MCHEvictionPolicy,
    MCHEvictionPolicyMetadataInfo,
    average_threshold_filter,
    dynamic_threshold_filter,
    probabilistic_threshold_filter,
)
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

__all__ = [
    "DistanceLFU_EvictionPolicy",
    "LFU_EvictionPolicy",
    "LRU_EvictionPolicy",
    "MCHEvictionPolicy",
    "MCHEvictionPolicyMetadataInfo",
    "MCHManagedCollisionModule",
    "ManagedCollisionCollection",
    "ManagedCollisionModule",
    "apply_mc_method_to_jt_dict",
    "average_threshold_filter",
    "dynamic_threshold_filter",
    "probabilistic_threshold_filter",
]

Features = dict[str, JaggedTensor]
_MOST_SEGMENTS = 1024
_NO_ID = torch.iinfo(torch.int64).max


def apply_mc_method_to_jt_dict(
    mc_module: nn.Module, method: Literal["preprocess", "profile", "remap", "forward"] | str, features_dict: Features
) -> Features:
    """Call a method of a module that manages collisions."""
    result: Features = getattr(mc_module, method)(features_dict)
    return result


class ManagedCollisionModule(nn.Module):
    """Maps the ids of a table's features to its rows, and learns how in training.

    Args:
        device: of what it keeps.
        output_segments: the boundaries of parts of the rows that may lie in different processes.
        skip_state_validation: whether a state that was loaded is taken without a look.
        read_only_suffix: of the names of features whose ids are mapped without being learned from.
        enable_per_feature_lookups: whether features of one table are mapped each by itself.

    Raises:
        OptionError: more than 1,024 segments.
    """

    _output_segments_tensor: Tensor
    _current_iter_tensor: Tensor

    def __init__(
        self,
        device: torch.device,
        output_segments: list[int],
        skip_state_validation: bool = False,
        read_only_suffix: str = "_readonly",
        enable_per_feature_lookups: bool = False,
    ) -> None:
        super().__init__()
        if len(output_segments) > _MOST_SEGMENTS + 1:
            raise OptionError(
                f"output_segments has {len(output_segments) - 1} parts, expected {_MOST_SEGMENTS} at most."
            )
        self._device = torch.device(device)
        self._read_only_suffix = read_only_suffix
        self._enable_per_feature_lookups = enable_per_feature_lookups
        if skip_state_validation:
            return
        segments = torch.full((_MOST_SEGMENTS + 1,), -1, dtype=torch.int64)
        segments[: len(output_segments)] = torch.tensor(output_segments, dtype=torch.int64)
        self.register_buffer("_output_segments_tensor", segments.to(self._device))
        self.register_buffer("_current_iter_tensor", torch.zeros(1, dtype=torch.int64, device=self._device))
        self.register_load_state_dict_post_hook(_validate)  # type: ignore[no-untyped-call]

    @property
    def device(self) -> torch.device:
        """Of what it keeps."""
        return self._device

    @property
    def readable_suffix(self) -> str:
        """Of the names of features whose ids are mapped without being learned from."""
        return self._read_only_suffix

    @abc.abstractmethod
    def preprocess(self, features: Features) -> Features:
        """Ids as they are mapped, such as hashes of them."""

    @abc.abstractmethod
    def profile(self, features: Features) -> Features:
        """Learn which ids matter."""

    @abc.abstractmethod
    def remap(
        self, features: Features, mutate_miss_lengths: bool = True, write_weights: Tensor | None = None
    ) -> Features:
        """Ids to rows."""

    @abc.abstractmethod
    def forward(self, features: Features, mutate_miss_lengths: bool = True) -> Features:
        """Ids to rows, after learning from them in training."""

    @abc.abstractmethod
    def evict(self) -> Tensor | None:
        """Rows that changed hands since this was last asked; None where no eviction took place."""

    @abc.abstractmethod
    def output_size(self) -> int:
        """How many rows there are."""

    @abc.abstractmethod
    def input_size(self) -> int:
        """How many ids there are."""

    @abc.abstractmethod
    def buckets(self) -> int:
        """Parts that rows are divided into."""

    @abc.abstractmethod
    def rebuild_with_output_id_range(
        self, output_id_range: tuple[int, int], output_segments: list[int], device: torch.device | None = None
    ) -> ManagedCollisionModule:
        """One like this for some of the rows, as a process has them."""

    @abc.abstractmethod
    def validate_state(self) -> None:
        """Raise an error where the state does not fit the rows."""

    @abc.abstractmethod
    def open_slots(self) -> Tensor:
        """(1,): rows that are nobody's yet."""


def _validate(module: ManagedCollisionModule, incompatible: Any) -> None:
    module.validate_state()


def _sort(module: MCHManagedCollisionModule, incompatible: Any) -> None:
    module._sort()


class MCHManagedCollisionModule(ManagedCollisionModule):
    """Zero collision hash: ids have rows of their own while they matter; all others share the last one.

    Ids come to a row, and lose it, at every `eviction_interval`-th batch of a training, by an eviction policy.

    Args:
        zch_size: rows; the last one is that of ids without one.
        device: of what is kept.
        eviction_policy: which ids have rows.
        eviction_interval: batches from one eviction to the next.
        input_hash_size: ids are below it; what `input_hash_func` is given.
        input_hash_func: (ids, input_hash_size) to what is mapped in their place.
        mch_size: not used. Upstream: nor there.
        mch_hash_func: not used. Upstream: nor there.
        name: of the table, for messages.
        output_global_offset: of the first row.
        output_segments: boundaries of parts of the rows; one part where not given.
        buckets: how many parts.
    """

    _mch_sorted_raw_ids: Tensor
    _mch_remapped_ids_mapping: Tensor

    def __init__(
        self,
        zch_size: int,
        device: torch.device,
        eviction_policy: MCHEvictionPolicy,
        eviction_interval: int,
        input_hash_size: int = 2**63 - 1,
        input_hash_func: Callable[[Tensor, int], Tensor] | None = None,
        mch_size: int | None = None,
        mch_hash_func: Callable[[Tensor, int], Tensor] | None = None,
        name: str | None = None,
        output_global_offset: int = 0,
        output_segments: list[int] | None = None,
        buckets: int = 1,
    ) -> None:
        if output_segments is None:
            output_segments = [output_global_offset, output_global_offset + zch_size]
        super().__init__(device, output_segments)
        # States of several processes, one behind another, are sorted each by itself.
        self.register_load_state_dict_post_hook(_sort)  # type: ignore[no-untyped-call]
        self._init_output_segments = output_segments
        self._name = name
        self._zch_size, self._output_global_offset = zch_size, output_global_offset
        self._input_hash_size, self._input_hash_func = input_hash_size, input_hash_func
        self._eviction_policy, self._eviction_interval = eviction_policy, eviction_interval
        self._buckets = buckets
        self._current_iter = self._last_eviction_iter = -1
        self._evicted, self._evicted_emb_indices = False, torch.empty(0, dtype=torch.int64, device=self._device)
        self._history: list[Tensor] = []
        self._history_metadata: dict[str, list[Tensor]] = {}
        self._init_buffers()

    def _init_buffers(self) -> None:
        size, device = self._zch_size, self._device
        self.register_buffer("_mch_sorted_raw_ids", torch.full((size,), _NO_ID, dtype=torch.int64, device=device))
        self.register_buffer("_mch_slots", torch.tensor([size - 1], dtype=torch.int64, device=device), persistent=False)
        self.register_buffer("_delimiter", torch.tensor([_NO_ID], dtype=torch.int64, device=device), persistent=False)
        slots = torch.arange(
            self._output_global_offset, self._output_global_offset + size, dtype=torch.int64, device=device
        )
        self.register_buffer("_mch_remapped_ids_mapping", slots)
        for one in self._eviction_policy.metadata_info:
            if one.is_mch_metadata:
                self.register_buffer(f"_mch_{one.metadata_name}", torch.zeros(size, dtype=torch.int64, device=device))

    def _mch_metadata(self) -> dict[str, Tensor]:
        kept = [one for one in self._eviction_policy.metadata_info if one.is_mch_metadata]
        return {one.metadata_name: getattr(self, f"_mch_{one.metadata_name}") for one in kept}

    def preprocess(self, features: Features) -> Features:
        """Ids hashed, where there is a function for it."""
        hashing = self._input_hash_func
        if hashing is None:
            return features
        return {
            name: _with_values(feature, hashing(feature.values(), self._input_hash_size))
            for name, feature in features.items()
        }

    @torch.no_grad()
    def profile(self, features: Features) -> Features:
        """Note ids, and evict if it is time; nothing in evaluation."""
        if not self.training:
            return features
        if self._current_iter == -1:
            self._current_iter = self._last_eviction_iter = int(self._current_iter_tensor)
        self._current_iter += 1
        self._current_iter_tensor.fill_(self._current_iter)
        for feature in features.values():
            ids = feature.values().to(torch.int64)
            self._history.append(ids)
            noted = {
                one.metadata_name: torch.empty_like(ids)
                for one in self._eviction_policy.metadata_info
                if one.is_history_metadata
            }
            self._eviction_policy.record_history_metadata(self._current_iter, ids, noted)
            for name, value in noted.items():
                self._history_metadata.setdefault(name, []).append(value)
        if self._current_iter - self._last_eviction_iter >= self._eviction_interval:
            self._evict()
            self._last_eviction_iter = self._current_iter
        return features

    def _evict(self) -> None:
        policy = self._eviction_policy
        ids, inverse, counts = torch.unique(torch.cat(self._history), return_inverse=True, return_counts=True)
        history = {name: torch.cat(parts) for name, parts in self._history_metadata.items()}
        self._history, self._history_metadata = [], {}
        mask = None
        if policy._threshold_filtering_func is not None:
            mask, _ = policy._threshold_filtering_func(counts)
        coalesced = policy.coalesce_history_metadata(self._current_iter, history, counts, inverse, threshold_mask=mask)
        if mask is not None:
            ids, counts = ids[mask], counts[mask]
        order = torch.argsort(counts, descending=True, stable=True)
        ids = ids[order]
        matching, places = self._match(ids)
        evicted, chosen = policy.update_metadata_and_generate_eviction_scores(
            self._current_iter,
            self._zch_size,
            order,
            counts[order],
            matching,
            places[matching],
            self._mch_metadata(),
            coalesced,
        )
        self._mch_sorted_raw_ids[evicted] = ids[~matching][chosen]
        rows = self._mch_remapped_ids_mapping[evicted]
        self._evicted_emb_indices = (
            torch.unique(torch.cat([self._evicted_emb_indices, rows])) if self._evicted else rows
        )
        self._evicted = True
        self._sort()

    def _sort(self) -> None:
        order = torch.argsort(self._mch_sorted_raw_ids, stable=True)
        for kept in (self._mch_sorted_raw_ids, self._mch_remapped_ids_mapping, *self._mch_metadata().values()):
            kept.copy_(kept[order])

    def _match(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each id has a row, and where among the sorted ones it is or would be."""
        places = torch.searchsorted(self._mch_sorted_raw_ids[:-1], ids).clamp(max=max(self._zch_size - 2, 0))
        return self._mch_sorted_raw_ids[places] == ids, places

    @torch.no_grad()
    def remap(
        self, features: Features, mutate_miss_lengths: bool = True, write_weights: Tensor | None = None
    ) -> Features:
        """Ids to rows; those without one to the last."""
        found = {}
        for name, feature in features.items():
            matching, places = self._match(feature.values().to(torch.int64))
            rows = torch.where(matching, self._mch_remapped_ids_mapping[places], self._mch_remapped_ids_mapping[-1])
            found[name] = _with_values(feature, rows)
        return found

    def forward(self, features: Features, mutate_miss_lengths: bool = True) -> Features:
        """Ids to rows, after learning from them in training.

        Args:
            features: bags of ids.
            mutate_miss_lengths: not used here: no id is left out.
        """
        return self.remap(self.profile(features))

    def evict(self) -> Tensor | None:
        """Rows that changed hands since this was last asked; None where no eviction took place."""
        if not self._evicted:
            return None
        self._evicted = False
        return self._evicted_emb_indices

    def output_size(self) -> int:
        """How many rows there are."""
        return self._zch_size

    def input_size(self) -> int:
        """How many ids there are."""
        return self._input_hash_size

    def buckets(self) -> int:
        """Parts that rows are divided into."""
        return self._buckets

    def open_slots(self) -> Tensor:
        """(1,): rows that are nobody's yet."""
        beyond = torch.searchsorted(self._mch_sorted_raw_ids, self._delimiter)  # type: ignore[arg-type]
        return self._mch_slots - beyond  # type: ignore[operator]

    def rebuild_with_output_id_range(
        self, output_id_range: tuple[int, int], output_segments: list[int], device: torch.device | None = None
    ) -> MCHManagedCollisionModule:
        """One like this for some of the rows, as a process has them.

        Args:
            output_id_range: the first row, and the one behind the last.
            output_segments: boundaries of parts of all rows.
            device: of what it keeps.
        """
        first, behind = output_id_range
        return type(self)(
            zch_size=behind - first,
            device=device or self.device,
            eviction_policy=self._eviction_policy,
            eviction_interval=self._eviction_interval,
            input_hash_size=self._input_hash_size,
            input_hash_func=self._input_hash_func,
            name=self._name,
            output_global_offset=first,
            output_segments=output_segments,
            buckets=len(output_segments) - 1,
        )

    def validate_state(self) -> None:
        """Look whether the rows lie on boundaries of the segments.

        Raises:
            OptionError: they do not.
        """
        first, behind = self._output_global_offset, self._output_global_offset + self._zch_size
        boundaries = self._output_segments_tensor
        if not bool((boundaries == first).any()) or not bool((boundaries == behind).any()):
            given = boundaries[boundaries >= 0].tolist()
            raise OptionError(f"rows {first} to {behind} do not lie on boundaries of the segments {given}.")

    def reset_inference_mode(self) -> None:
        """Nothing to reset: what is mapped does not depend on a mode."""


def _with_values(feature: JaggedTensor, values: Tensor) -> JaggedTensor:
    return JaggedTensor(
        values=values, lengths=feature.lengths(), offsets=feature.offsets(), weights=feature.weights_or_none()
    )


class ManagedCollisionCollection(nn.Module):
    """What manages the collisions of several tables.

    Args:
        managed_collision_modules: by the names of tables.
        embedding_configs: the tables.
        need_preprocess: whether ids are hashed by the modules, where they hash.

    Raises:
        ValueError: a table has no module.
        OptionError: a module has another number of rows than its table.
    """

    def __init__(
        self,
        managed_collision_modules: dict[str, ManagedCollisionModule],
        embedding_configs: Sequence[BaseEmbeddingConfig],
        need_preprocess: bool = True,
    ) -> None:
        super().__init__()
        for table in embedding_configs:
            if table.name not in managed_collision_modules:
                raise ValueError(
                    f"managed_collision_modules has no {table.name!r}; it has {[*managed_collision_modules]}."
                )
            rows = managed_collision_modules[table.name].output_size()
            if rows != table.num_embeddings:
                raise OptionError(
                    f"the module of {table.name!r} has {rows} rows, expected {table.num_embeddings}, its table's."
                )
        self._managed_collision_modules = nn.ModuleDict(managed_collision_modules)
        self._embedding_configs = embedding_configs
        self.need_preprocess = need_preprocess
        self._table_names = [table.name for table in embedding_configs]
        self._features = [list(table.feature_names) for table in embedding_configs]
        self._keys = list(chain.from_iterable(self._features))

    def _modules_by_table(self) -> list[tuple[str, ManagedCollisionModule]]:
        return [(name, self._managed_collision_modules[name]) for name in self._table_names]  # type: ignore[misc]

    def _by_table(self, features: KeyedJaggedTensor) -> list[KeyedJaggedTensor]:
        places = features.index_per_key()
        ordered = features.permute([places[key] for key in self._keys], include_inverse_indices=True)
        return ordered.split([len(names) for names in self._features])

    def forward(self, features: KeyedJaggedTensor, mutate_miss_lengths: bool = True) -> KeyedJaggedTensor:
        """Ids to rows.

        Args:
            features: ids of all features of the tables.
            mutate_miss_lengths: whether ids that have no row are left out of their bags, by modules that do so.

        Returns:
            The features of the tables, in their order.

        Raises:
            KeyError: a feature is missing.
        """
        parts = []
        for (name, module), part in zip(self._modules_by_table(), self._by_table(features), strict=True):
            given = {name: JaggedTensor(part.values(), part.weights_or_none(), part.lengths())}
            if self.need_preprocess:
                given = module.preprocess(given)
            given = module(given, mutate_miss_lengths)
            parts.append(given[name])
        weights = [part.weights_or_none() for part in parts]
        variable = features.variable_stride_per_key()
        places, strides = features.index_per_key(), features.stride_per_key_per_rank()
        return KeyedJaggedTensor(
            keys=self._keys,
            values=torch.cat([part.values() for part in parts]),
            weights=torch.cat(weights) if weights and weights[0] is not None else None,
            lengths=torch.cat([part.lengths().view(-1) for part in parts]),
            stride=None if variable else features.stride(),
            stride_per_key_per_rank=[strides[places[key]] for key in self._keys] if variable else None,
            inverse_indices=features.inverse_indices_or_none(),
        )

    def lookup_runtime_meta(self, features: KeyedJaggedTensor, remapped_ids: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """What modules note of ids beside their rows, as weights of the rows.

        Args:
            features: ids.
            remapped_ids: their rows, as `forward` gives them.
        """
        found = [
            module.lookup_runtime_meta(ids.values(), rows.values())  # type: ignore[operator]
            for (_, module), ids, rows in zip(
                self._modules_by_table(), self._by_table(features), self._by_table(remapped_ids), strict=True
            )
        ]
        return KeyedJaggedTensor(
            keys=remapped_ids.keys(),
            values=torch.cat(found),
            lengths=remapped_ids.lengths(),
            stride=remapped_ids.stride(),
        )

    def lookup_custom_runtime_meta(self, remapped_ids: KeyedJaggedTensor) -> Tensor:
        """What modules were told to note of rows.

        Args:
            remapped_ids: rows, as `forward` gives them.
        """
        return torch.cat(
            [
                module.lookup_custom_runtime_meta(rows.values())  # type: ignore[operator]
                for (_, module), rows in zip(self._modules_by_table(), self._by_table(remapped_ids), strict=True)
            ]
        )

    def evict(self) -> dict[str, Tensor | None]:
        """Of each table, rows that changed hands since this was last asked; None where no eviction took place."""
        return {name: module.evict() for name, module in self._modules_by_table()}

    def open_slots(self) -> dict[str, Tensor]:
        """Of each table, rows that are nobody's yet."""
        return {name: module.open_slots() for name, module in self._modules_by_table()}

    def table_to_number_buckets(self) -> dict[str, int]:
        """Of each table, parts that rows are divided into."""
        return {name: module.buckets() for name, module in self._modules_by_table()}

    def embedding_configs(self) -> Sequence[BaseEmbeddingConfig]:
        """The tables."""
        return self._embedding_configs
