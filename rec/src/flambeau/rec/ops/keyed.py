"""Features of several keyed tensors put together anew, in one pass over memory.

Keyed tensors are matrices (batch, columns) with features side by side. The native kernel is `fb_rec_regroup` in
`native/columns.cpp`, the one for accelerators `_keyed_triton.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import UnknownFeatureError, require
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "kt_regroup_arguments",
    "permute_multi_embedding",
    "permute_multi_embedding_function",
    "regroup",
    "regroup_keyed_tensor",
]

Names = Sequence[Sequence[str]]
Numbers = Sequence[Sequence[int]]


def regroup_keyed_tensor(pooled_embs: Sequence[Tensor], keys: Names, lengths: Numbers, groups: Names) -> list[Tensor]:
    """Put features of several matrices together anew.

    Args:
        pooled_embs: N tensors (B, columns_n) of one dtype: features side by side.
        keys: N lists: the names of each one's features; unique.
        lengths: N lists: their widths.
        groups: M lists of names: the features of each result. One may stand in several of them.

    Returns:
        M tensors (B, columns_m). Gradients flow to floating matrices; those of features that are repeated add up.

    Raises:
        UnknownFeatureError: a name that no tensor has.
        RuntimeError: widths that do not fit, other shapes or dtypes.

    Example:
        >>> one, other = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
        >>> regroup_keyed_tensor([one, other], [["a", "b"], ["c"]], [[1, 1], [1]], [["c", "a"], ["b"]])
        [tensor([[3., 1.]]), tensor([[2.]])]
    """
    return OPS.regroup_keyed_tensor(pooled_embs, keys, lengths, groups)  # type: ignore[no-any-return]


def permute_multi_embedding(
    pooled_embs: Sequence[Tensor], permutes: Tensor, in_shapes: Tensor, out_shapes: Tensor, out_lengths: Sequence[int]
) -> list[Tensor]:
    """`regroup_keyed_tensor` with what `kt_regroup_arguments` makes of names.

    Args:
        pooled_embs: N tensors (B, columns_n) of one dtype.
        permutes: (features, 6) int32 or int64, a row for each feature of the results: input, output, column in the
            input, column in the output, width, and how it is chained with its repetitions, see `kt_regroup_arguments`.
        in_shapes: (N,) widths of the inputs; not read.
        out_shapes: (M,) widths of the results; not read.
        out_lengths: the same as numbers.

    Returns:
        M tensors (B, columns_m); columns that no row fills are 0. Gradients as for `regroup_keyed_tensor`.

    Raises:
        RuntimeError: a row that does not lie within its tensors, other shapes or dtypes.
    """
    return OPS.permute_multi_embedding(pooled_embs, permutes, in_shapes, out_shapes, out_lengths)  # type: ignore[no-any-return]


def permute_multi_embedding_function(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    """`permute_multi_embedding`, or the way back: what comes from one column of the inputs is added up.

    Args:
        pooled_embs: the matrices that there are.
        permutes: as for `permute_multi_embedding`, the same for both ways.
        in_shapes: (N,) not read.
        out_shapes: (M,) not read.
        out_lengths: widths of the results.
        reverse: whether to go back, from outputs to inputs.

    Returns:
        Tensors (B, width) for each of `out_lengths`.

    Raises:
        RuntimeError: as for `permute_multi_embedding`.
    """
    return OPS.permute_multi_embedding_function(  # type: ignore[no-any-return]
        pooled_embs, permutes, in_shapes, out_shapes, out_lengths, reverse
    )


def kt_regroup_arguments(
    embs: Tensor, keys: Names, lengths: Numbers, groups: Names
) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """What `permute_multi_embedding` takes, from names.

    Args:
        embs: any tensor, for its device.
        keys: as for `regroup_keyed_tensor`.
        lengths: alike.
        groups: alike.

    Returns:
        `permutes` (features, 6), `in_shapes` (N,), `out_shapes` (M,), each int32 and on the device of `embs`, and
        `out_lengths`. The last column of `permutes` is 0 for a feature that stands in the results once; for a repeated
        one it is the row of its next place, negative from the second on, and minus the number of rows at the last.

    Raises:
        UnknownFeatureError: a name that no tensor has.
        RuntimeError: lists that do not fit.
    """
    return OPS.kt_regroup_arguments(embs, keys, lengths, groups)  # type: ignore[no-any-return]


# --- names ---------------------------------------------------------------------------------------------------------


def _frozen(lists: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, lists))


@cache
def _plan(
    keys: tuple[tuple[str, ...], ...], lengths: tuple[tuple[int, ...], ...], groups: tuple[tuple[str, ...], ...]
) -> tuple[list[list[int]], list[int], list[int]]:
    """Rows of `permutes`, widths of the inputs, widths of the results."""
    require(
        len(keys) == len(lengths) and all(map(lambda k, n: len(k) == len(n), keys, lengths)),
        f"regroup_keyed_tensor: keys has {[len(one) for one in keys]} names and lengths {[len(n) for n in lengths]} "
        "numbers; give each name one.",
    )
    places = {
        key: (at, column, width)
        for at, (names, widths) in enumerate(zip(keys, lengths, strict=True))
        for key, column, width in zip(names, accumulate(widths, initial=0), widths, strict=False)
    }
    rows: list[list[int]] = []
    met: dict[str, int] = {}
    for to, group in enumerate(groups):
        column = 0
        for key in group:
            if key not in places:
                raise UnknownFeatureError(
                    f"regroup_keyed_tensor: groups has {key!r}, which is none of {sorted(places)}."
                )
            at, begin, width = places[key]
            # Chained with its earlier place, which so learns of this one.
            chained = key in met
            if chained:
                earlier = rows[met[key]]
                earlier[5] = len(rows) if earlier[5] == 0 else -len(rows)
            met[key] = len(rows)
            rows.append([at, to, begin, column, width, -1 if chained else 0])
            column += width
    for row in rows:
        if row[5] == -1:
            row[5] = -len(rows)
    widths_in = [sum(one) for one in lengths]
    widths_out = [sum(places[key][2] for key in group) for group in groups]
    return rows, widths_in, widths_out


def _arguments(embs: Tensor, keys: Names, lengths: Numbers, groups: Names) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    rows, widths_in, widths_out = _plan(_frozen(keys), _frozen(lengths), _frozen(groups))
    permutes, in_shapes, out_shapes = (
        torch.tensor(one, dtype=torch.int32, device=embs.device) for one in (rows, widths_in, widths_out)
    )
    return permutes.view(-1, 6), in_shapes, out_shapes, list(widths_out)


def regroup(pooled_embs: Sequence[Tensor], keys: Names, lengths: Numbers, groups: Names) -> list[Tensor]:
    """`regroup_keyed_tensor` that remembers what it made of the same names before.

    Args:
        pooled_embs: as for `regroup_keyed_tensor`, like all others.
        keys: alike.
        lengths: alike.
        groups: alike.
    """
    device = pooled_embs[0].device
    if torch.compiler.is_compiling() or not is_real(pooled_embs[0]):
        return _regroup(pooled_embs, keys, lengths, groups)
    names = (_frozen(keys), _frozen(lengths), _frozen(groups), device)
    made = _MADE.get(names)
    if made is None:
        if len(_MADE) >= _MOST_MADE:
            _MADE.clear()
        made = _MADE[names] = _arguments(pooled_embs[0], keys, lengths, groups)
    return permute_multi_embedding(pooled_embs, *made)


_MADE: dict[Any, tuple[Tensor, Tensor, Tensor, list[int]]] = {}
_MOST_MADE = 256


def is_real(tensor: Tensor) -> bool:
    """Whether what is made for a tensor may be kept: not while it is traced."""
    return type(tensor) in (Tensor, torch.nn.Parameter) and torch._C._len_torch_dispatch_stack() == 0


def _regroup(pooled_embs: Sequence[Tensor], keys: Names, lengths: Numbers, groups: Names) -> list[Tensor]:
    require(len(pooled_embs) > 0, "regroup_keyed_tensor: pooled_embs is empty, expected at least one tensor.")
    permutes, in_shapes, out_shapes, out_lengths = _arguments(pooled_embs[0], keys, lengths, groups)
    return permute_multi_embedding(pooled_embs, permutes, in_shapes, out_shapes, out_lengths)


# --- the permutation -----------------------------------------------------------------------------------------------


def check_regrouping(pooled_embs: Sequence[Tensor], permutes: Tensor) -> None:
    """Refuse matrices that do not go together.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    """
    op = "permute_multi_embedding"
    require(len(pooled_embs) > 0, f"{op}: pooled_embs is empty, expected at least one tensor.")
    first = pooled_embs[0]
    for at, one in enumerate(pooled_embs):
        if one.dim() != 2 or one.dtype != first.dtype or one.shape[0] != first.shape[0]:
            raise RuntimeError(
                f"{op}: pooled_embs[{at}] has shape {tuple(one.shape)} and dtype {one.dtype}, expected "
                f"({first.shape[0]}, columns) of {first.dtype} as the first one."
            )
    require(
        permutes.dim() == 2 and permutes.shape[1] == 6 and permutes.dtype in (torch.int32, torch.int64),
        f"{op}: permutes has shape {tuple(permutes.shape)} and dtype {permutes.dtype}, expected (features, 6) of "
        "int32.",
    )


def _fake(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    check_regrouping(pooled_embs, permutes)
    return [pooled_embs[0].new_empty((pooled_embs[0].shape[0], width)) for width in out_lengths]


def reference(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    """The operator in plain torch."""
    check_regrouping(pooled_embs, permutes)
    outputs = [one.zero_() for one in _fake(pooled_embs, permutes, in_shapes, out_shapes, out_lengths)]
    for at, (one, other, column, target, width, _) in enumerate(permutes.tolist()):
        source, to, begin, column = (other, one, target, column) if reverse else (one, other, column, target)
        inside = 0 <= source < len(pooled_embs) and 0 <= to < len(outputs) and min(begin, column, width) >= 0
        if not inside or begin + width > pooled_embs[source].shape[1] or column + width > outputs[to].shape[1]:
            _refuse(at)
        taken, given = outputs[to].narrow(1, column, width), pooled_embs[source].narrow(1, begin, width)
        taken.add_(given) if reverse else taken.copy_(given)
    return outputs


def _refuse(at: int) -> None:
    raise RuntimeError(f"permute_multi_embedding: row {at} of permutes does not lie within the tensors it names.")


def _native(
    pooled_embs: Sequence[Tensor],
    permutes: Tensor,
    in_shapes: Tensor,
    out_shapes: Tensor,
    out_lengths: Sequence[int],
    reverse: bool = False,
) -> list[Tensor]:
    check_regrouping(pooled_embs, permutes)
    first = pooled_embs[0]
    kind = _DTYPES.get(first.dtype)
    if kind is None or (reverse and not first.is_floating_point()):
        return reference(pooled_embs, permutes, in_shapes, out_shapes, out_lengths, reverse)
    batch = first.shape[0]
    given = [one.contiguous() for one in pooled_embs]
    outputs = [first.new_empty((batch, width)) for width in out_lengths]
    rows = permutes.contiguous()
    at = _function()(
        *_side(given),
        *_side(outputs),
        rows.data_ptr(),
        rows.dtype == torch.int64,
        rows.shape[0],
        reverse,
        batch,
        kind,
        torch.get_num_threads(),
    )
    if at >= 0:
        _refuse(at)
    require(at == -1, f"permute_multi_embedding: no memory left for {rows.shape[0]} features.")
    return outputs


def _side(matrices: Sequence[Tensor]) -> tuple[Any, Any, int]:
    count = len(matrices)
    pointers = (ctypes.c_void_p * count)(*[one.data_ptr() for one in matrices])
    widths = (ctypes.c_int64 * count)(*[one.shape[1] for one in matrices])
    return pointers, widths, count


# `fb::DType` of kernel.h.
_DTYPES = {
    torch.bool: 0,
    torch.uint8: 1,
    torch.int8: 5,
    torch.int16: 6,
    torch.int32: 7,
    torch.int64: 8,
    torch.float16: 9,
    torch.bfloat16: 10,
    torch.float32: 11,
    torch.float64: 12,
}


@cache
def _function() -> Callable[..., Any]:
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    side = [pointer, pointer, size]
    rest = [pointer, number, size, number, size, number, number]
    return LIBRARY.function("fb_rec_regroup", [*side, *side, *rest], size)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    pooled_embs, permutes, in_shapes, out_shapes, _, *reverse = inputs
    ctx.widths = [one.shape[1] for one in pooled_embs]
    ctx.reverse = bool(reverse and reverse[0])
    ctx.save_for_backward(permutes, in_shapes, out_shapes)


def _backward(ctx: Any, grads: Sequence[Tensor]) -> tuple[Any, ...]:
    permutes, in_shapes, out_shapes = ctx.saved_tensors
    back: list[Any]
    if grads:
        back = permute_multi_embedding_function(grads, permutes, out_shapes, in_shapes, ctx.widths, not ctx.reverse)
    else:
        back = [None] * len(ctx.widths)
    # As many as were passed; an empty list of numbers is a list of tensors to torch.
    return (back, None, None, None, None if grads else [], None)[: len(ctx.needs_input_grad)]


_ARGUMENTS = "Tensor[] pooled_embs, Tensor permutes, Tensor in_shapes, Tensor out_shapes, SymInt[] out_lengths"
register_op(
    f"permute_multi_embedding({_ARGUMENTS}) -> Tensor[]",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=reference,
    triton="flambeau.rec.ops._keyed_triton:permute_multi_embedding_function",
    setup_context=_setup_context,
    backward=_backward,
)
register_op(
    f"permute_multi_embedding_function({_ARGUMENTS}, bool reverse=False) -> Tensor[]",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=reference,
    triton="flambeau.rec.ops._keyed_triton:permute_multi_embedding_function",
    setup_context=_setup_context,
    backward=_backward,
)
_NAMED = "str[][] keys, int[][] lengths, str[][] groups"
register_composite(f"kt_regroup_arguments(Tensor embs, {_NAMED}) -> (Tensor, Tensor, Tensor, int[])", _arguments)
register_composite(f"regroup_keyed_tensor(Tensor[] pooled_embs, {_NAMED}) -> Tensor[]", _regroup)
