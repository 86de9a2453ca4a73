"""Look-ups of table-batched embeddings that train tables in their backward pass, by the names of FBGEMM's operators.

Each optimizer has one that names all its options (`..._function_cpu`), and one that takes them in lists by their dtypes
(`..._function_pt2`); the second also takes batches whose size differs from feature to feature. Optimizers that FBGEMM
gave up are refused, as there. Modules do not need these: `fbgemm_gpu.split_table_batched_embeddings_ops_training`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.ops import tbe
from flambeau.rec.ops._checks import require
from flambeau.rec.ops._composite import register_composite

__all__ = ["dense_embedding_codegen_lookup_function"]

_OUTPUTS = {0: torch.float32, 1: torch.float16, 5: torch.bfloat16}

# Of each optimizer: its name in `OptimizerSettings`, whether its states are by element, further ones by row, and its
# options in order, whose dtype says which list of the second form they are in.
_STATES = {"adam": (True, True), "partial": (True, False), "element": (True,), "row": (False,), "none": ()}
_ADAM = "float learning_rate=0., float eps=0., float beta1=0., float beta2=0., float weight_decay=0., int iter=0"
_ROWWISE = "float eps=0., float learning_rate=0., float weight_decay=0., int weight_decay_mode=0"
_COUNTER = (
    "float eps=0., float learning_rate=0., float weight_decay=0., int iter=0, int counter_halflife=-1, int "
    "adjustment_iter=-1, float adjustment_ub=1., int learning_rate_mode=-1, int weight_decay_mode=1, int "
    "grad_sum_decay=-1, float max_counter=0., float tail_id_threshold=0., int is_tail_id_thresh_ratio=0, int "
    "regularization_mode=0, float weight_norm_coefficient=0., float lower_bound=0."
)
_OPTIMIZERS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "sgd": ("exact_sgd", "none", (), "float learning_rate=0."),
    "adagrad": ("exact_adagrad", "element", (), "float eps=0., float learning_rate=0."),
    "rowwise_adagrad": ("exact_row_wise_adagrad", "row", (), f"{_ROWWISE}, float max_norm=0."),
    "rowwise_adagrad_with_weight_decay": ("exact_row_wise_adagrad", "row", (), _ROWWISE),
    "rowwise_adagrad_with_counter": ("row_wise_adagrad_with_counter", "row", ("prev_iter", "row_counter"), _COUNTER),
    "adam": ("adam", "adam", (), _ADAM),
    "partial_rowwise_adam": ("partial_row_wise_adam", "partial", (), _ADAM),
    "lamb": ("lamb", "adam", (), _ADAM),
    "partial_rowwise_lamb": ("partial_row_wise_lamb", "partial", (), _ADAM),
    "lars_sgd": (
        "lars_sgd", "element", (),
        "float learning_rate=0., float eta=0., float momentum=0., float weight_decay=0.",
    ),
    "rowwise_rmsprop_ar": (
        "row_wise_rmsprop_ar", "row", ("prev_iter",),
        "float learning_rate=0., float eps=0., float ar_alpha=0., int iter=0, float ema_beta=0.99, float "
        "min_shrinkage=0.1",
    ),
}  # fmt: skip
_BY_LISTS_ALONE = ("rowwise_rmsprop_ar",)
_BY_NAMES_ALONE = ("rowwise_adagrad_with_weight_decay",)
_GIVEN_UP = {
    "approx_sgd": ("none", (), "float learning_rate=0."),
    "approx_rowwise_adagrad": ("row", (), _ROWWISE),
    "approx_rowwise_adagrad_with_weight_decay": ("row", (), _ROWWISE),
    "approx_rowwise_adagrad_with_counter": ("row", ("prev_iter", "row_counter"), _COUNTER),
    "rowwise_weighted_adagrad": (
        "row", (), "float eps=0., float learning_rate=0., float weight_decay=0., int iter=0",
    ),
}  # fmt: skip
# Options that `OptimizerSettings` calls otherwise.
_CALLED = {
    "learning_rate": "lr", "iter": "iteration", "tail_id_threshold": "tail_threshold",
    "is_tail_id_thresh_ratio": "tail_is_ratio", "ema_beta": "beta2", "use_rowwise_bias_correction":
    "rowwise_bias_correction",
}  # fmt: skip

_TABLES = "Tensor D_offsets, SymInt total_D, SymInt max_D, Tensor hash_size_cumsum, int total_hash_size_bits"
_BAGS = "Tensor indices, Tensor offsets, int pooling_mode, Tensor? indice_weights, Tensor? feature_requires_grad"
_LIMITS = "bool gradient_clipping, float max_gradient, bool stochastic_rounding"
_NO_VBE = (-1, -1, -1, None)
_VBE = "SymInt max_B=-1, SymInt max_B_feature_rank=-1, SymInt vbe_output_size=-1, Tensor? vbe_output=None"


def _lookup(
    weights: Tensor,
    weights_offsets: Tensor,
    D_offsets: Tensor,
    total_D: int,
    hash_size_cumsum: Tensor,
    indices: Tensor,
    offsets: Tensor,
    pooling_mode: int,
    indice_weights: Tensor | None,
    B_offsets: Tensor | None = None,
    places: Sequence[Tensor] | None = None,
    output_size: int = -1,
) -> tuple[tbe.Lookup, tuple[int, ...]]:
    """Tables and bags as kernels take them, and the output's shape."""
    features = D_offsets.numel() - 1
    starts = hash_size_cumsum.long().cpu().contiguous()
    # Features of one table follow one another, and have the same first row.
    later = torch.searchsorted(starts, starts[:-1], right=True).clamp(max=features)
    rows = starts[later] - starts[:-1]
    columns = D_offsets.long().cpu()
    nobag = pooling_mode == tbe.NONE
    first_columns = torch.zeros_like(columns[:-1]) if nobag else columns[:-1]
    layout = torch.stack([weights_offsets.long().cpu(), rows, columns.diff(), starts[:-1], first_columns]).contiguous()
    outputs: Tensor | None = None
    shape: tuple[int, ...]
    if B_offsets is not None:
        bag_starts = B_offsets.long().cpu()
        require(places is not None, "table-batched look-up: B_offsets goes with the places of its output.")
        outputs = _bag_places(bag_starts, columns.diff(), *places)  # type: ignore[misc]
        shape = (output_size,)
    else:
        batch = (offsets.numel() - 1) // features if features else 0
        require(
            offsets.numel() == batch * features + 1,
            f"table-batched look-up: offsets has {offsets.numel()} entries for {features} features; expected one more "
            "than a multiple of their number.",
        )
        bag_starts, shape = torch.arange(features + 1) * batch, (batch, total_D)
    width = int(columns.diff().max()) if nobag and features else total_D
    if nobag:
        shape, outputs = (indices.numel(), width), None
    factors = None if indice_weights is None else indice_weights.float().contiguous()
    made = tbe.Lookup(
        weights, layout, indices.contiguous(), offsets.long().contiguous(), bag_starts, width, pooling_mode, factors,
        outputs,
    )  # fmt: skip
    return made, shape


def _bag_places(bag_starts: Tensor, widths: Tensor, by_rank: Tensor, ranks: Tensor) -> Tensor:
    """(bags,): where in a flat output each bag begins; see `VBEMetadata`."""
    features = len(widths)
    parts = []
    for feature in range(features):
        ends = ranks[feature].tolist()
        for rank, (first, last) in enumerate(pairwise(ends)):
            parts.append(int(by_rank[rank * features + feature]) + torch.arange(last - first) * int(widths[feature]))
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)


def _settings(optimizer: str, options: dict[str, Any], stochastic_rounding: bool) -> tbe.OptimizerSettings:
    given = {_CALLED.get(name, name): value for name, value in options.items()}
    given.setdefault("iteration", 0)
    return tbe.OptimizerSettings(optimizer, stochastic_rounding=stochastic_rounding, seed=given["iteration"], **given)


def _trained(
    lookup: tbe.Lookup,
    shape: tuple[int, ...],
    states: list[tuple[Tensor, Tensor]],
    by_row: dict[str, tuple[Tensor, Tensor]],
    settings: tbe.OptimizerSettings,
    wanted: Tensor | None,
    limit: float | None,
    output_dtype: int,
) -> Tensor:
    for name, memory in (
        ("the weights", lookup.weights),
        *(("a state", one) for one, _ in (*states, *by_row.values())),
    ):
        require(
            memory.is_contiguous(),
            f"table-batched look-up: the memory of {name} has gaps, and is trained where it lies; give `contiguous()`.",
        )
    flat = [(memory.detach(), offsets.long().contiguous()) for memory, offsets in states]
    first, second = (*flat, (None, None), (None, None))[:2]
    rows = {name: memory.detach() for name, (memory, _) in by_row.items()}
    row_offsets = next((offsets.long().contiguous() for _, offsets in by_row.values()), None)
    kept = tbe.OptimizerStates(*first, *second, rows.get("prev_iter"), rows.get("row_counter"), row_offsets)
    output = tbe.lookup_and_train(lookup, shape, kept, settings, feature_requires_grad=wanted, max_gradient=limit)
    return output.to(_output_dtype(output_dtype))


def _output_dtype(number: int) -> torch.dtype:
    require(
        number in _OUTPUTS,
        f"table-batched look-up: output_dtype is {number}, expected 0, 1 or 5: float32, float16 or bfloat16.",
    )
    return _OUTPUTS[number]


def _named_schema(states: str, further: Sequence[str], options: str) -> str:
    names = [f"momentum{at}" for at in range(1, 1 + len(_STATES[states]))] + list(further)
    memory = "".join(f", Tensor {name}_host, Tensor {name}_placements, Tensor {name}_offsets" for name in names)
    return (
        f"(Tensor(a!) host_weights, Tensor weights_placements, Tensor weights_offsets, {_TABLES}, {_BAGS}, {_LIMITS}"
        f"{memory}, {options}, int output_dtype=0) -> Tensor"
    )


def _option_names(options: str) -> list[tuple[str, str]]:
    """The kind and the name of each."""
    return [(kind, name) for kind, name in (one.split("=")[0].split() for one in options.split(", "))]


def _filled(values: Sequence[Any], options: str) -> list[Any]:
    """All of them: operators in Python are not given those at the end that are what the schema says."""
    defaults = [float(one.split("=")[1]) for one in options.split(", ")]
    kinds = {"int": int, "float": float}
    all_of_them = [kinds[kind](one) for (kind, _), one in zip(_option_names(options), defaults, strict=True)]
    return [*values, *all_of_them[len(values) :]]


def _by_names(optimizer: str, states: str, further: Sequence[str], options: str) -> Callable[..., Tensor]:
    count = len(_STATES[states])
    options = f"{options}, int output_dtype=0"
    names = [name for _, name in _option_names(options)]

    def function(
        host_weights: Tensor, weights_placements: Tensor, weights_offsets: Tensor, D_offsets: Tensor, total_D: int,
        max_D: int, hash_size_cumsum: Tensor, total_hash_size_bits: int, indices: Tensor, offsets: Tensor,
        pooling_mode: int, indice_weights: Tensor | None, feature_requires_grad: Tensor | None,
        gradient_clipping: bool, max_gradient: float, stochastic_rounding: bool, *rest: Any,
    ) -> Tensor:  # fmt: skip
        memory = [(rest[3 * at], rest[3 * at + 2]) for at in range(count + len(further))]
        given = dict(zip(names, _filled(rest[3 * len(memory) :], options), strict=True))
        output_dtype = given.pop("output_dtype")
        extra = dict(zip(further, memory[count:], strict=True))
        lookup, shape = _lookup(
            host_weights, weights_offsets, D_offsets, total_D, hash_size_cumsum, indices, offsets, pooling_mode,
            indice_weights,
        )  # fmt: skip
        return _trained(
            lookup, shape, memory[:count], extra, _settings(optimizer, given, stochastic_rounding),
            feature_requires_grad, max_gradient if gradient_clipping else None, output_dtype,
        )  # fmt: skip

    return function


def _adam_by_names(*arguments: Any) -> Tensor:
    """Adam's options have a state among them: how many steps each row has had."""
    rest, memory, options = arguments[:16], arguments[16:22], arguments[22:]
    names = [name for _, name in _option_names(_ADAM)]
    given = dict(zip(names, _filled(options[: len(names)], _ADAM), strict=True))
    further = (*options[len(names) :], *(False, None, None, None, 0)[max(len(options) - len(names), 0) :])
    by_row, counter, _, counter_offsets, output_dtype = further
    limits = rest[13:16]
    extra = {"row_counter": (counter, counter_offsets)} if by_row and counter is not None else {}
    lookup, shape = _lookup(rest[0], rest[2], rest[3], rest[4], rest[6], *rest[8:12])
    settings = _settings("adam", given | {"rowwise_bias_correction": int(by_row)}, limits[2])
    return _trained(
        lookup, shape, [(memory[0], memory[2]), (memory[3], memory[5])], extra, settings, rest[12],
        limits[1] if limits[0] else None, output_dtype,
    )  # fmt: skip


def _lists_schema(states: str, further: Sequence[str], options: str, *, adam: bool) -> str:
    names = [f"momentum{at}" for at in range(1, 1 + len(_STATES[states]))] + list(further)
    letters = iter("gjmp")
    memory = "".join(f", Tensor[]({next(letters)}!) {name}" for name in names)
    kinds = {kind for kind, name in _option_names(options) if name not in ("learning_rate", "iter")}
    lists = ", Tensor?[] optim_tensor" if adam else ""
    lists += "".join(f", {kind}[] optim_{kind}" for kind in ("int", "float") if kind in kinds)
    lists += ", bool[] optim_bool" if adam else ""
    return (
        f"(Tensor placeholder_autograd_tensor, Tensor[](a!) weights, {_TABLES}, {_BAGS}, int output_dtype, "
        f"Tensor?[](e!) aux_tensor, int[] aux_int, float[] aux_float, bool[] aux_bool{memory}, Tensor "
        f"learning_rate_tensor{lists}, {_VBE}) -> Tensor"
    )


def _by_lists(
    optimizer: str, states: str, further: Sequence[str], options: str, *, adam: bool
) -> Callable[..., Tensor]:
    count = len(_STATES[states]) + len(further)
    listed = [(kind, name) for kind, name in _option_names(options) if name not in ("learning_rate", "iter")]
    kinds = [kind for kind in ("int", "float") if any(one == kind for one, _ in listed)]
    counts_steps = "iter" in options

    def function(
        placeholder_autograd_tensor: Tensor, weights: list[Tensor], D_offsets: Tensor, total_D: int, max_D: int,
        hash_size_cumsum: Tensor, total_hash_size_bits: int, indices: Tensor, offsets: Tensor, pooling_mode: int,
        indice_weights: Tensor | None, feature_requires_grad: Tensor | None, output_dtype: int,
        aux_tensor: list[Tensor | None], aux_int: list[int], aux_float: list[float], aux_bool: list[bool],
        *rest: Any,
    ) -> Tensor:  # fmt: skip
        memory, learning_rate, rest = rest[:count], rest[count], rest[count + 1 :]
        kept = [(one[0], one[-1]) for one in memory]
        counters: list[Tensor | None] = []
        if adam:
            counters, rest = rest[0], rest[1:]
        values = {kind: iter(one) for kind, one in zip(kinds, rest, strict=False)}
        rest = rest[len(kinds) :]
        by_row = bool(adam and rest[0] and rest[0][0])
        rest = rest[1:] if adam else rest
        given: dict[str, Any] = {name: next(values[kind]) for kind, name in listed}
        given["learning_rate"] = float(learning_rate)
        if counts_steps:
            given["iter"] = aux_int[0]
        extra = dict(zip(further, kept[len(kept) - len(further) :], strict=True))
        if by_row and counters and counters[0] is not None and counters[-1] is not None:
            extra["row_counter"] = (counters[0], counters[-1])
            given["rowwise_bias_correction"] = 1
        filled: list[Any] = [*rest, *_NO_VBE[len(rest) :]]
        output_size, output = filled[2:]
        B_offsets, by_rank, ranks = aux_tensor[:3]
        places = None if by_rank is None or ranks is None else (by_rank, ranks)
        lookup, shape = _lookup(
            weights[0], weights[-1], D_offsets, total_D, hash_size_cumsum, indices, offsets, pooling_mode,
            indice_weights, B_offsets, places, output_size,
        )  # fmt: skip
        found = _trained(
            lookup, shape, kept[: len(kept) - len(further)], extra, _settings(optimizer, given, aux_bool[5]),
            feature_requires_grad, aux_float[1] if aux_bool[4] else None, output_dtype,
        )  # fmt: skip
        return found if output is None else output.copy_(found)

    return function


def _given_up(name: str) -> Callable[..., Tensor]:
    def function(*_: Any) -> Tensor:
        raise RuntimeError(
            f"{name} was given up by FBGEMM, and is not here either; look up with the exact optimizer, whose name "
            "has no approx_, or with rowwise_adagrad."
        )

    return function


# ----- without an optimizer -------------------------------------------------------------------------------------------


def dense_embedding_codegen_lookup_function(
    dev_weights: Tensor,
    weights_offsets: Tensor,
    D_offsets: Tensor,
    total_D: int,
    max_D: int,
    hash_size_cumsum: Tensor,
    total_hash_size_bits: int,
    indices: Tensor,
    offsets: Tensor,
    pooling_mode: int,
    indice_weights: Tensor | None,
    feature_requires_grad: Tensor | None,
    output_dtype: int = 0,
    B_offsets: Tensor | None = None,
    vbe_output_offsets_feature_rank: Tensor | None = None,
    vbe_B_offsets_rank_per_feature: Tensor | None = None,
    max_B: int = -1,
    max_B_feature_rank: int = -1,
    vbe_output_size: int = -1,
    mixed_D: bool = True,
) -> Tensor:
    """Pool rows of many tables; their gradient is a tensor.

    Args:
        dev_weights: all tables, flat.
        weights_offsets: (features,) where each feature's table begins.
        D_offsets: (features + 1,) where each feature begins in a row of the output.
        total_D: width of that row.
        max_D: of the widest table.
        hash_size_cumsum: (features + 1,) number of each table's first row among all rows, and of all.
        total_hash_size_bits: bits of such numbers. A hint that is not needed here.
        indices: (L,) feature-major.
        offsets: (bags + 1,).
        pooling_mode: 0 sum, 1 mean, 2 none.
        indice_weights: (L,) a factor for each index.
        feature_requires_grad: (features,), 0 where the feature gives its table no gradient.
        output_dtype: 0, 1 or 5: float32, float16 or bfloat16.
        B_offsets: (features + 1,) which bags are a feature's, where batches differ in size.
        vbe_output_offsets_feature_rank: see `VBEMetadata.output_offsets_feature_rank`.
        vbe_B_offsets_rank_per_feature: see `VBEMetadata.B_offsets_rank_per_feature`.
        max_B: see `VBEMetadata`. A hint that is not needed here.
        max_B_feature_rank: see `VBEMetadata`. A hint that is not needed here.
        vbe_output_size: numbers of the flat output.
        mixed_D: whether tables differ in width. A hint that is not needed here.

    Returns:
        (B, total_D); (L, columns) without pooling; flat where batches differ in size.

    Raises:
        RuntimeError: sizes that do not fit together, or an index outside of its table.
    """
    return torch.ops.flambeau_rec.dense_embedding_codegen_lookup_function(  # type: ignore[no-any-return]
        dev_weights, weights_offsets, D_offsets, total_D, max_D, hash_size_cumsum, total_hash_size_bits, indices,
        offsets, pooling_mode, indice_weights, feature_requires_grad, output_dtype, B_offsets,
        vbe_output_offsets_feature_rank, vbe_B_offsets_rank_per_feature, max_B, max_B_feature_rank, vbe_output_size,
        mixed_D,
    )  # fmt: skip


def _dense(
    weights: Tensor, weights_offsets: Tensor, D_offsets: Tensor, total_D: int, max_D: int, hash_size_cumsum: Tensor,
    bits: int, indices: Tensor, offsets: Tensor, pooling_mode: int, indice_weights: Tensor | None,
    wanted: Tensor | None, output_dtype: int = 0, B_offsets: Tensor | None = None, by_rank: Tensor | None = None,
    ranks: Tensor | None = None, max_B: int = -1, max_B_feature_rank: int = -1, output_size: int = -1,
    mixed_D: bool = True,
) -> Tensor:  # fmt: skip
    places = None if by_rank is None or ranks is None else (by_rank, ranks)
    lookup, shape = _lookup(
        weights.contiguous(), weights_offsets, D_offsets, total_D, hash_size_cumsum, indices, offsets, pooling_mode,
        indice_weights, B_offsets, places, output_size,
    )  # fmt: skip
    return tbe.lookup(lookup, shape, feature_requires_grad=wanted).to(_output_dtype(output_dtype))


def _sparse(
    host_weights: Tensor, weights_placements: Tensor, weights_offsets: Tensor, D_offsets: Tensor, total_D: int,
    max_D: int, hash_size_cumsum: Tensor, bits: int, indices: Tensor, offsets: Tensor, pooling_mode: int,
    indice_weights: Tensor | None, wanted: Tensor | None, gradient_clipping: bool, max_gradient: float,
    stochastic_rounding: bool, total_hash_size: int = 0, total_unique_indices: int = 0, output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    lookup, shape = _lookup(
        host_weights.contiguous(), weights_offsets, D_offsets, total_D, hash_size_cumsum, indices, offsets,
        pooling_mode, indice_weights,
    )  # fmt: skip
    output = tbe.lookup(
        lookup, shape, feature_requires_grad=wanted, sparse=host_weights.dim() == 2,
        max_gradient=max_gradient if gradient_clipping else None,
    )  # fmt: skip
    return output.to(_output_dtype(output_dtype))


def _sparse_by_lists(
    placeholder: Tensor, weights: list[Tensor], D_offsets: Tensor, total_D: int, max_D: int, hash_size_cumsum: Tensor,
    bits: int, indices: Tensor, offsets: Tensor, pooling_mode: int, indice_weights: Tensor | None,
    wanted: Tensor | None, output_dtype: int, aux_tensor: list[Tensor | None], aux_int: list[int],
    aux_float: list[float], aux_bool: list[bool], *_: Any,
) -> Tensor:  # fmt: skip
    return _sparse(
        weights[0], weights[1], weights[-1], D_offsets, total_D, max_D, hash_size_cumsum, bits, indices, offsets,
        pooling_mode, indice_weights, wanted, aux_bool[4], aux_float[1], aux_bool[5], output_dtype=output_dtype,
    )  # fmt: skip


# ----- all of them ----------------------------------------------------------------------------------------------------

_NAME = "split_embedding_codegen_lookup_{}_function_{}"
for _optimizer, (_kind, _states, _further, _options) in _OPTIMIZERS.items():
    _adam = _optimizer == "adam"
    if _optimizer not in _BY_LISTS_ALONE:
        _named = _options
        if _adam:
            _named += (
                ", bool use_rowwise_bias_correction=False, Tensor? row_counter_host=None, Tensor? "
                "row_counter_placements=None, Tensor? row_counter_offsets=None"
            )
        _function = _adam_by_names if _adam else _by_names(_kind, _states, _further, _options)
        register_composite(_NAME.format(_optimizer, "cpu") + _named_schema(_states, _further, _named), _function)
    if _optimizer not in _BY_NAMES_ALONE:
        register_composite(
            _NAME.format(_optimizer, "pt2") + _lists_schema(_states, _further, _options, adam=_adam),
            _by_lists(_kind, _states, _further, _options, adam=_adam),
        )
for _optimizer, (_states, _further, _options) in _GIVEN_UP.items():
    _name = _NAME.format(_optimizer, "cpu")
    register_composite(_name + _named_schema(_states, _further, _options), _given_up(_name))
register_composite(
    f"{_NAME.format('none', 'cpu')}(Tensor(a!) host_weights, Tensor weights_placements, Tensor weights_offsets, "
    f"{_TABLES}, {_BAGS}, {_LIMITS}, int total_hash_size=0, SymInt total_unique_indices=0, int output_dtype=0) -> "
    "Tensor",
    _sparse,
)
register_composite(
    f"{_NAME.format('none', 'pt2')}(Tensor placeholder_autograd_tensor, Tensor[](a!) weights, {_TABLES}, {_BAGS}, int "
    "output_dtype, Tensor?[](e!) aux_tensor, int[] aux_int, float[] aux_float, bool[] aux_bool, int[] optim_int, "
    f"SymInt total_unique_indices=0, {_VBE}) -> Tensor",
    _sparse_by_lists,
)
register_composite(
    f"dense_embedding_codegen_lookup_function(Tensor dev_weights, Tensor weights_offsets, {_TABLES}, {_BAGS}, int "
    "output_dtype=0, Tensor? B_offsets=None, Tensor? vbe_output_offsets_feature_rank=None, Tensor? "
    "vbe_B_offsets_rank_per_feature=None, SymInt max_B=-1, SymInt max_B_feature_rank=-1, SymInt vbe_output_size=-1, "
    "bool mixed_D=True) -> Tensor",
    _dense,
)
