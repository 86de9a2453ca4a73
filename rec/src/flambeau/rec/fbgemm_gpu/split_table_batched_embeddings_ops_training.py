"""Embedding tables that are looked up together, and trained by the optimizer in their backward pass."""

from __future__ import annotations

import enum
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.fbgemm_gpu._dense_training import DenseTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu._split_state import Spec, construct_split_state, get_available_compute_device
from flambeau.rec.fbgemm_gpu._tables import BatchedTables
from flambeau.rec.fbgemm_gpu._training_layout import BY_ELEMENT, STATE_NAMES
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
)
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    CowClipDefinition,
    GlobalWeightDecayDefinition,
    WeightDecayMode,
)
from flambeau.rec.ops import tbe

__all__ = [
    "BoundsCheckMode",
    "ComputeDevice",
    "DenseTableBatchedEmbeddingBagsCodegen",
    "EmbeddingLocation",
    "PoolingMode",
    "SplitTableBatchedEmbeddingBagsCodegen",
    "UVMCacheStatsIndex",
    "WeightDecayMode",
    "construct_split_state",
    "get_available_compute_device",
]


class UVMCacheStatsIndex(enum.IntEnum):
    """Places in what `get_uvm_cache_stats` gives."""

    num_calls = 0
    num_requested_indices = 1
    num_unique_indices = 2
    num_unique_misses = 3
    num_conflict_unique_misses = 4
    num_conflict_misses = 5


_FATAL = (BoundsCheckMode.FATAL, BoundsCheckMode.V2_FATAL)
_WARNING = (BoundsCheckMode.WARNING, BoundsCheckMode.V2_WARNING)


class SplitTableBatchedEmbeddingBagsCodegen(BatchedTables):
    """Tables of embeddings whose rows are pooled over bags, and trained in the backward pass.

    Args:
        embedding_specs: (rows, columns, location, device) of each table.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        weights_precision: of the tables: FP32, FP16 or BF16.
        output_dtype: of the result: FP32, FP16 or BF16.
        optimizer: what trains the tables.
        stochastic_rounding: whether tables of 16 bits are rounded by chance, so that small steps are not lost.
        gradient_clipping: whether gradients of the output are limited to `max_gradient` in size.
        max_gradient: see there.
        max_norm: rows are scaled down to this norm after row-wise Adagrad; 0 for no limit.
        learning_rate: of the optimizer.
        eps: added to denominators.
        momentum: of LARS.
        weight_decay: rows decay by it, in the way that `weight_decay_mode` says.
        weight_decay_mode: see `WeightDecayMode`.
        eta: trust coefficient of LARS.
        beta1: of the first moment of Adam and LAMB.
        beta2: of the second.
        counter_based_regularization: options where `weight_decay_mode` is COUNTER.
        cowclip_regularization: options where it is COWCLIP.
        global_weight_decay: options where it is DECOUPLE_GLOBAL.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        device: where tables are; the CPU for locations on the host.
        bounds_check_mode: what becomes of indices outside of their tables.
        table_names: for messages.

    Raises:
        ValueError: tables, features or options that do not fit together.
    """

    def __init__(
        self,
        embedding_specs: list[Spec],
        feature_table_map: list[int] | None = None,
        *,
        weights_precision: SparseType = SparseType.FP32,
        output_dtype: SparseType = SparseType.FP32,
        optimizer: EmbOptimType = EmbOptimType.EXACT_SGD,
        stochastic_rounding: bool = True,
        gradient_clipping: bool = False,
        max_gradient: float = 1.0,
        max_norm: float = 0.0,
        learning_rate: float = 0.01,
        eps: float = 1e-8,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.NONE,
        eta: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        counter_based_regularization: CounterBasedRegularizationDefinition | None = None,
        cowclip_regularization: CowClipDefinition | None = None,
        global_weight_decay: GlobalWeightDecayDefinition | None = None,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        device: str | int | torch.device | None = None,
        bounds_check_mode: BoundsCheckMode = BoundsCheckMode.WARNING,
        table_names: list[str] | None = None,
    ) -> None:
        if optimizer not in BY_ELEMENT:
            known = ", ".join(one.name for one in BY_ELEMENT)
            raise ValueError(f"optimizer {optimizer.name} does not train tables; choose one of {known}.")
        for mode, name, options_of in (
            (WeightDecayMode.COUNTER, "counter_based_regularization", counter_based_regularization),
            (WeightDecayMode.COWCLIP, "cowclip_regularization", cowclip_regularization),
        ):
            if (weight_decay_mode == mode) != (options_of is not None):
                raise ValueError(f"{name} goes with weight_decay_mode={mode.name}; give both, or neither.")
        super().__init__(
            [(rows, dim) for rows, dim, _, _ in embedding_specs],
            feature_table_map,
            weights_precision,
            output_dtype,
            pooling_mode,
            bounds_check_mode,
            table_names,
        )
        self.embedding_specs, self.optimizer = embedding_specs, optimizer
        self.current_device = torch.device("cpu" if device is None else device)
        self.weights_host = nn.Parameter(self._layout.new(weights_precision.as_dtype(), self.current_device))
        for at, by_element in enumerate(BY_ELEMENT[optimizer], 1):
            state = self._layout.new(torch.float32, self.current_device, by_element=by_element)
            self.register_parameter(f"momentum{at}_host", nn.Parameter(state, requires_grad=False))
        counting = counter_based_regularization is not None or cowclip_regularization is not None
        self._optimizer_name = "row_wise_adagrad_with_counter" if counting else optimizer.value
        self._limit = max_gradient if gradient_clipping else None
        self._learning_rate, self._iteration = learning_rate, 0
        options: dict[str, Any] = {
            "eps": eps, "weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "momentum": momentum, "eta": eta,
            "max_norm": max_norm, "stochastic_rounding": stochastic_rounding,
            "weight_decay_mode": _DECAY.get(weight_decay_mode, 0),
        }  # fmt: skip
        if counter_based_regularization is not None:
            options |= _counter_options(counter_based_regularization)
        if cowclip_regularization is not None:
            clip = cowclip_regularization
            options |= {
                "weight_decay_mode": int(clip.counter_weight_decay_mode), "counter_halflife": clip.counter_halflife,
                "regularization_mode": 4, "weight_norm_coefficient": clip.weight_norm_coefficient,
                "lower_bound": clip.lower_bound,
            }  # fmt: skip
        if weight_decay_mode == WeightDecayMode.DECOUPLE_GLOBAL:
            options["lower_bound"] = (global_weight_decay or GlobalWeightDecayDefinition()).lower_bound
        self._options = options
        self._by_row = counting or weight_decay_mode == WeightDecayMode.DECOUPLE_GLOBAL
        if self._by_row:
            for name in ("prev_iter", "row_counter"):
                self.register_buffer(name, self._layout.new(torch.float32, self.current_device, by_element=False))

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        feature_requires_grad: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
    ) -> Tensor:
        """Pool the rows of each bag.

        Args:
            indices: (L,) int32 or int64, feature-major.
            offsets: (features * B + 1,) int32 or int64.
            per_sample_weights: (L,): a factor for each index.
            feature_requires_grad: (features,), 0 where the feature does not train its table.
            batch_size_per_feature_per_rank: examples of each feature and process, where they differ.

        Returns:
            (B, columns of all features); (L, columns) without pooling; flat, process after process, with
            `batch_size_per_feature_per_rank`.

        Raises:
            RuntimeError: sizes that do not fit together, or an index outside of its table where that is fatal.
        """
        lookup, shape = self._lookup(
            self.weights_host, indices, offsets, per_sample_weights, batch_size_per_feature_per_rank
        )
        if self.training or torch.is_grad_enabled():
            self._iteration += 1
        output = tbe.lookup_and_train(
            lookup,
            shape,
            self._states(),
            tbe.OptimizerSettings(
                self._optimizer_name, self._learning_rate, self._iteration, seed=self._iteration, **self._options
            ),
            feature_requires_grad=feature_requires_grad,
            max_gradient=self._limit,
        )
        return output.to(SparseType.from_int(self.output_dtype).as_dtype())

    def _states(self) -> tbe.OptimizerStates:
        by_element = BY_ELEMENT[self.optimizer]
        offsets = [self._layout.elements if one else self._layout.rows for one in by_element]
        return tbe.OptimizerStates(
            getattr(self, "momentum1_host", None),
            offsets[0] if offsets else None,
            getattr(self, "momentum2_host", None),
            offsets[1] if len(offsets) > 1 else None,
            getattr(self, "prev_iter", None) if self._by_row else None,
            getattr(self, "row_counter", None) if self._by_row else None,
            self._layout.rows,
        )

    def split_embedding_weights(self) -> list[Tensor]:
        """A view of each table, (rows, columns)."""
        return self._layout.split(self.weights_host.detach())

    def split_optimizer_states(self) -> list[list[Tensor]]:
        """Of each table, views of what the optimizer keeps: (rows,) or (rows, columns) each."""
        parts = [
            self._layout.split(getattr(self, f"momentum{at}_host").detach(), by_element=by_element)
            for at, by_element in enumerate(BY_ELEMENT[self.optimizer], 1)
        ]
        if self._by_row:
            for name in ("prev_iter", "row_counter"):
                parts.append(self._layout.split(getattr(self, name), by_element=False))
        return [[part[table] for part in parts] for table in range(len(self.embedding_specs))]

    def get_optimizer_state(self) -> list[dict[str, Tensor]]:
        """Of each table, what the optimizer keeps, by name."""
        names = [*STATE_NAMES.get(self.optimizer, ()), *(("prev_iter", "row_counter") if self._by_row else ())]
        return [dict(zip(names, states, strict=True)) for states in self.split_optimizer_states()]

    def init_embedding_weights_uniform(self, min_val: float, max_val: float) -> None:
        """Fill all tables with random numbers between two."""
        with torch.no_grad():
            self.weights_host.uniform_(min_val, max_val)

    def set_learning_rate(self, lr: float) -> None:
        """Use another learning rate from the next step on."""
        self._learning_rate = lr

    def get_learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._learning_rate

    def update_hyper_parameters(self, params_dict: dict[str, float]) -> None:
        """Use other numbers from the next step on.

        Args:
            params_dict: of "lr", "eps", "beta1", "beta2", "weight_decay" and "lower_bound", those that change.

        Raises:
            ValueError: another name; nothing is changed then.
        """
        known = {"eps", "beta1", "beta2", "weight_decay", "lower_bound"}
        if unknown := sorted(params_dict.keys() - known - {"lr"}):
            raise ValueError(
                f"params_dict has {', '.join(unknown)}; what can be changed are lr, {', '.join(sorted(known))}."
            )
        for name, value in params_dict.items():
            if name == "lr":
                self.set_learning_rate(value)
            else:
                self._options[name] = value

    def reset_embedding_weight_momentum(
        self,
        pruned_indices: Tensor,
        pruned_indices_offsets: Tensor,
        logical_table_ids: Tensor,
        buffer_ids: Tensor,
    ) -> None:
        """Make rows, and what the optimizer keeps of them, zero: what was pruned starts anew.

        Args:
            pruned_indices: (rows,) rows of tables, table after table.
            pruned_indices_offsets: (tables + 1,) where those of each table begin, and the last's end.
            logical_table_ids: (tables,) numbers of the tables before any were split.
            buffer_ids: (tables,) which of the tables here each one is.

        Raises:
            RuntimeError: sizes that do not fit together, or a row or table that there is not.
        """
        ends, tables = pruned_indices_offsets.tolist(), buffer_ids.tolist()
        if not len(tables) == len(ends) - 1 == logical_table_ids.numel() or ends[-1] != pruned_indices.numel():
            raise RuntimeError(
                f"{len(tables)} buffer_ids, {logical_table_ids.numel()} logical_table_ids, {len(ends)} offsets up to "
                f"{ends[-1] if ends else 0} and {pruned_indices.numel()} pruned_indices do not fit together."
            )
        weights, states = self.split_embedding_weights(), self.split_optimizer_states()
        chosen = list(zip(tables, pruned_indices.split([b - a for a, b in pairwise(ends)]), strict=True))
        for table, rows in chosen:
            if not 0 <= table < len(weights):
                raise RuntimeError(f"buffer_ids has {table}, expected 0 to {len(weights) - 1}.")
            if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < len(weights[table]):
                raise RuntimeError(
                    f"pruned_indices of {self.table_names[table]} are not all below its {len(weights[table])} rows."
                )
        for table, rows in chosen:
            for tensor in (weights[table], *states[table]):
                tensor[rows.long()] = 0

    def get_optimizer_buffer(self, state: str) -> Tensor:
        """What the optimizer keeps of all tables together.

        Args:
            state: "iter", how many steps were taken.

        Raises:
            ValueError: there is no such buffer.
        """
        if state != "iter":
            raise ValueError(f"there is no optimizer buffer {state!r}; there is 'iter'.")
        return torch.tensor([self._iteration])

    def should_log(self) -> bool:
        """Whether statistics of this step are wanted; without a cache there are none."""
        return False

    def get_cache_miss_counter(self) -> Tensor:
        """Misses of the cache, and of its sets: (2,), zero without a cache."""
        return torch.zeros(2, dtype=torch.int64)

    def get_table_wise_cache_miss(self) -> Tensor:
        """Misses of the cache for each table: empty without a cache."""
        return torch.zeros(0, dtype=torch.int64)

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here."""
        self._iteration = step

    def flush(self) -> None:
        """Write caches back to the tables; without caches there is nothing to write."""

    def reset_cache_states(self) -> None:
        """Empty caches; without caches there is nothing to empty."""

    def extra_repr(self) -> str:
        """Tables, features and optimizer."""
        tables = ", ".join(f"{rows} x {dim}" for rows, dim, _, _ in self.embedding_specs)
        return f"tables [{tables}], features {self.feature_table_map}, {self.pooling_mode.name}, {self.optimizer}"


_DECAY = {WeightDecayMode.L2: 1, WeightDecayMode.DECOUPLE: 2, WeightDecayMode.DECOUPLE_GLOBAL: 3}


def _counter_options(chosen: CounterBasedRegularizationDefinition) -> dict[str, Any]:
    return {
        "weight_decay_mode": int(chosen.counter_weight_decay_mode),
        "counter_halflife": chosen.counter_halflife,
        "adjustment_iter": chosen.adjustment_iter,
        "adjustment_ub": chosen.adjustment_ub,
        "learning_rate_mode": int(chosen.learning_rate_mode),
        "tail_threshold": chosen.tail_id_threshold.val,
        "tail_is_ratio": int(chosen.tail_id_threshold.is_ratio),
    }
