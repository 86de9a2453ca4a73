"""Attention within sequences, composed of products and softmax of jagged tensors.

Nothing is padded, and a sequence's matrix of weights is not kept for the gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import check_floating, check_whole
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.jagged_elementwise import jagged_dense_elementwise_add_jagged_output
from flambeau.rec.ops.sll_conversion import sll_jagged_dense_elementwise_mul_jagged_out
from flambeau.rec.ops.sll_matmul import first_items
from flambeau.rec.ops.sll_softmax import sll_jagged2_softmax

__all__ = [
    "sll_jagged_dense_flash_attention",
    "sll_jagged_flash_attention_basic",
    "sll_multi_head_jagged_flash_attention",
]


def sll_jagged_flash_attention_basic(
    q_weights: Tensor, k_weights: Tensor, v_weights: Tensor, offsets: Tensor, max_seq_len: int,
    use_mask: bool = False, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """`softmax(q_b k_b^T) / max_seq_len v_b` of each sequence b.

    Args:
        q_weights: (L, D), floating: queries.
        k_weights: (L, D) of the same dtype: keys.
        v_weights: (L, E) of the same dtype: values.
        offsets: (sequences + 1,) int32 or int64.
        max_seq_len: what weights are divided by, and the items of a sequence that are attended to, the first ones.
        use_mask: let items attend to themselves and later ones only; the weights of the others are put to 0 after the
            softmax, as FBGEMM does.
        allow_tf32: ignored: sums are of full precision.

    Returns:
        (L, E).

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_jagged_flash_attention_basic(  # type: ignore[no-any-return]
        q_weights, k_weights, v_weights, offsets, max_seq_len, use_mask, allow_tf32
    )


def sll_multi_head_jagged_flash_attention(
    q_weights: Tensor, k_weights: Tensor, v_weights: Tensor, offsets: Tensor, max_seq_len: int, allow_tf32: bool = True
) -> Tensor:
    """`sll_jagged_flash_attention_basic` of several heads.

    Args:
        q_weights: (heads, L, D), floating: queries.
        k_weights: (heads, L, D) of the same dtype: keys.
        v_weights: (heads, L, E) of the same dtype: values.
        offsets: (sequences + 1,) int32 or int64.
        max_seq_len: what weights are divided by, and the items of a sequence that are attended to, the first ones.
        allow_tf32: ignored: sums are of full precision.

    Returns:
        (heads, L, E).

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_multi_head_jagged_flash_attention(  # type: ignore[no-any-return]
        q_weights, k_weights, v_weights, offsets, max_seq_len, allow_tf32
    )


def sll_jagged_dense_flash_attention(
    q_weights: Tensor, k_weights: Tensor, v_weights: Tensor, attn_bias: Tensor, offsets: Tensor, max_seq_len: int,
    allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """`softmax(q_b k_b + bias_b)^T v_b` of each sequence b, normalised over its items: T targets attend to them.

    Args:
        q_weights: (L, D), floating: the items.
        k_weights: (sequences, D, T), converted to the dtype of `q_weights`: the targets.
        v_weights: (L, E), converted likewise: what is summed up.
        attn_bias: (sequences, max_seq_len, T) of the dtype of `q_weights`.
        offsets: (sequences + 1,) int32 or int64.
        max_seq_len: items of a sequence that are attended to, the first ones.
        allow_tf32: ignored: sums are of full precision.

    Returns:
        (sequences, T, E).

    Raises:
        RuntimeError: shapes, dtypes or offsets that do not fit.
    """
    return OPS.sll_jagged_dense_flash_attention(  # type: ignore[no-any-return]
        q_weights, k_weights, v_weights, attn_bias, offsets, max_seq_len, allow_tf32
    )


_BASIC = "sll_jagged_flash_attention_basic"
_EVERYTHING = 2**62


def _check(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> None:
    check_whole(_BASIC, "offsets", offsets)
    check_floating(_BASIC, q, k, v)
    if not q.dim() == k.dim() == v.dim() == 2 or q.shape != k.shape or q.shape[0] != v.shape[0]:
        shapes = ", ".join(str(tuple(one.shape)) for one in (q, k, v))
        raise RuntimeError(f"{_BASIC}: q, k and v have shapes {shapes}, expected (items, D) twice and (items, E).")


def _shares(q: Tensor, k: Tensor, offsets: Tensor, max_seq_len: int) -> tuple[Tensor, Tensor]:
    """Offsets of the sequences' matrices, and the softmax of their scores."""
    totals = asynchronous_complete_cumsum(offsets.diff().long().square())
    scores = OPS._sll_outer(q, k, offsets, offsets, totals)
    return totals, sll_jagged2_softmax(scores, offsets, totals, max_seq_len, False)


def _weights(shares: Tensor, offsets: Tensor, totals: Tensor, max_seq_len: int, use_mask: bool) -> Tensor:
    """Shares as they are multiplied with values; what is linear in the former is so in their gradients as well."""
    weights = shares / max_seq_len
    if not use_mask:
        return weights
    later = torch.ones(max_seq_len, max_seq_len, dtype=torch.bool, device=shares.device).triu()
    return sll_jagged_dense_elementwise_mul_jagged_out(weights, later, offsets.diff(), totals, max_seq_len)


def _basic(
    q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_seq_len: int, use_mask: bool = False, allow_tf32: bool = True
) -> Tensor:
    _check(q, k, v, offsets)
    totals, shares = _shares(q, k, offsets, max_seq_len)
    weights = _weights(shares, offsets, totals, max_seq_len, use_mask)
    times = torch.ops.flambeau_rec._sll_matrix_times_items
    return times(weights, v, totals, offsets, offsets, max_seq_len, v.shape[0], False)  # type: ignore[no-any-return]


def _basic_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_seq_len: int, use_mask: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights are found once more: keeping them would take the square of a sequence's length."""
    ops, items = torch.ops.flambeau_rec, v.shape[0]
    times = ops._sll_matrix_times_items
    totals, shares = _shares(q, k, offsets, max_seq_len)
    weights = _weights(shares, offsets, totals, max_seq_len, use_mask)
    to_v = times(weights, grad, totals, offsets, offsets, max_seq_len, items, True)
    left, right = (first_items(one, offsets, max_seq_len) for one in (grad, v))
    flow = _weights(ops._sll_outer(left, right, offsets, offsets, totals), offsets, totals, max_seq_len, use_mask)
    flow = ops._sll_jagged2_softmax_backward(flow, shares, offsets, totals, False)
    to_q = times(flow, k, totals, offsets, offsets, _EVERYTHING, items, False)
    return to_q, times(flow, q, totals, offsets, offsets, _EVERYTHING, items, True), to_v


def _fake(
    q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_seq_len: int, use_mask: bool = False, allow_tf32: bool = True
) -> Tensor:
    _check(q, k, v, offsets)
    return v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.options = inputs[4:6]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    made = OPS._sll_jagged_flash_attention_basic_backward(grad, *ctx.saved_tensors, *ctx.options)
    return *made, None, None, None, None


def _keep_second(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.options = inputs[5:7]


def _second(ctx: Any, *flows: Tensor) -> tuple[Tensor | None, ...]:
    """What the parts say, whose gradients have gradients."""
    *learned, offsets = ctx.saved_tensors
    with torch.enable_grad():
        grad, q, k, v = (one.detach().requires_grad_() for one in learned)
        first = torch.autograd.grad(_basic(q, k, v, offsets, *ctx.options), (q, k, v), grad, create_graph=True)
        return *torch.autograd.grad(first, (grad, q, k, v), flows), None, None, None


register_op(
    "_sll_jagged_flash_attention_basic_backward(Tensor grad, Tensor q_weights, Tensor k_weights, Tensor v_weights, "
    "Tensor offsets, int max_seq_len, bool use_mask) -> (Tensor, Tensor, Tensor)",
    library=LIBRARY,
    fake=lambda grad, q, k, v, *_: (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)),
    python=_basic_backward,
    setup_context=_keep_second,
    backward=_second,
)
register_op(
    f"{_BASIC}(Tensor q_weights, Tensor k_weights, Tensor v_weights, Tensor offsets, int max_seq_len, "
    "bool use_mask=False, bool allow_tf32=True) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_basic,
    setup_context=_keep,
    backward=_gradient,
)


def _heads(
    q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, max_seq_len: int, allow_tf32: bool = True
) -> Tensor:  # fmt: skip
    """The heads of each sequence as sequences of their own, one head after the other."""
    op = "sll_multi_head_jagged_flash_attention"
    check_whole(op, "offsets", offsets)
    if not q.dim() == k.dim() == v.dim() == 3 or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
        shapes = ", ".join(str(tuple(one.shape)) for one in (q, k, v))
        raise RuntimeError(f"{op}: q, k and v have shapes {shapes}, expected (heads, items, width) with as many items.")
    heads, items = q.shape[:2]
    firsts = torch.arange(heads, device=offsets.device)[:, None] * items
    # What is between two heads is in no sequence of either.
    every = (firsts + offsets).flatten() if heads else offsets[:1]
    made = OPS.sll_jagged_flash_attention_basic(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), every, max_seq_len)
    return made.reshape(heads, items, v.shape[2])  # type: ignore[no-any-return]


def _dense(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, offsets: Tensor, max_seq_len: int, allow_tf32: bool = True
) -> Tensor:
    ops = torch.ops.flambeau_rec
    scores = ops.jagged_dense_bmm_forward(q, offsets, k.to(q.dtype), max_seq_len)
    scores = jagged_dense_elementwise_add_jagged_output(scores, [offsets], bias)[0]
    weights = ops.jagged_softmax_forward(scores, offsets, max_seq_len)
    return ops.jagged_jagged_bmm(weights, v.to(q.dtype), offsets, max_seq_len)  # type: ignore[no-any-return]


_QKV = "Tensor q_weights, Tensor k_weights, Tensor v_weights"
register_composite(
    f"sll_multi_head_jagged_flash_attention({_QKV}, Tensor offsets, int max_seq_len, bool allow_tf32=True) -> Tensor",
    _heads,
)
register_composite(
    f"sll_jagged_dense_flash_attention({_QKV}, Tensor attn_bias, Tensor offsets, int max_seq_len, "
    "bool allow_tf32=True) -> Tensor",
    _dense,
)
