"""Which of the kit's checks an operator is not to pass, and why."""

from __future__ import annotations

from flambeau.rec.ops._samples.tables import GIVEN_UP, LOOK_UPS, TRAINING

__all__ = ["expected_failures"]

_WRITES = (
    "bounds_check_indices", "direct_mapped_lru_cache_populate_byte", "init_address_lookup", "lfu_cache_populate",
    "lfu_cache_populate_byte", "lru_cache_populate", "lru_cache_populate_byte", "lxu_cache_flush",
    "lxu_cache_locations_update", "lxu_cache_locking_counter_decrement", "place_ids", "prune_embedding_tables",
    "pruned_hashmap_insert", "remap_indices_update_utils", "reset_weight_momentum", "zero_collision_hash",
)  # fmt: skip
_HANDS_BACK = (
    "all_to_one_device", "dense_to_jagged", "jagged_dense_bmm", "jagged_dense_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_add_jagged_output", "jagged_dense_elementwise_mul", "jagged_softmax",
)  # fmt: skip
_RETURNS_WHAT_IT_WRITES = ("FloatToFused8BitRowwiseQuantizedOut", "Fused8BitRowwiseQuantizedToFloatOut")
_IN_PLACE = (
    *TRAINING, "int_nbit_split_embedding_codegen_lookup_function",
    "int_nbit_split_embedding_uvm_caching_codegen_lookup_function",
)  # fmt: skip
_BY_VALUES = ("keyed_jagged_index_select_dim1_backward", "tbe_generate_indices_from_distribution")
_ALWAYS_REFUSED = (*GIVEN_UP, "uvm_to_cpu", "uvm_to_cpu_clone")
_COLLECTIVES = ("all_gather_into_tensor", "reduce_scatter_tensor")

_TRACED = ("compiles", "fake-agrees")
_CALLED = ("memory-layouts", "inputs-unmodified", *_TRACED)
_REASONS = (
    (_WRITES, ("inputs-unmodified",), "it changes what it is given, as its schema says"),
    (_HANDS_BACK, ("inputs-unmodified",), "it hands offsets or tensors back, as FBGEMM's does"),
    (_RETURNS_WHAT_IT_WRITES, ("inputs-unmodified", *_TRACED), "it returns what it writes, as FBGEMM's schema says"),
    (("lengths_range_out",), ("inputs-unmodified", "fake-agrees"), "it writes what FBGEMM's schema does not say"),
    (_IN_PLACE, ("memory-layouts",), "tables are used where they lie, and refused where they have gaps"),
    (LOOK_UPS, _TRACED, "layouts of tables are read as numbers; modules of tables compile"),
    (_BY_VALUES, _TRACED, "values decide what is computed"),
    (("tbe_estimate_indices_distribution",), ("fake-agrees",), "values decide what is computed"),
    (_ALWAYS_REFUSED, _CALLED, "it says what to call instead, as FBGEMM's refuses it too"),
    (_COLLECTIVES, ("dtypes", *_CALLED), "it wants a group of processes; `tests/distributed` has them"),
)

expected_failures = {
    f"{check}:rec/{name}": reason for names, checks, reason in _REASONS for name in names for check in checks
}
