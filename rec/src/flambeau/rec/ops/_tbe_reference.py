"""Table-batched embeddings in plain torch, on any device: the fallback, and what the kernels are tested against."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from flambeau.rec.ops._tbe_rows import Rows
from flambeau.rec.ops._tbe_types import MEAN, NONE, Lookup, OptimizerSettings, OptimizerStates


@dataclass(frozen=True)
class _Feature:
    """One feature's part of a lookup."""

    number: int
    start: int
    rows: int
    dim: int
    base: int
    column: int
    bags: slice
    items: slice

    def table(self, weights: Tensor) -> Tensor:
        return weights[self.start : self.start + self.rows * self.dim].view(self.rows, self.dim)


def _features(lookup: Lookup) -> Iterator[_Feature]:
    starts = lookup.bag_starts.tolist()
    for number, (start, rows, dim, base, column) in enumerate(lookup.layout.t().tolist()):
        bags = slice(starts[number], starts[number + 1])
        items = slice(int(lookup.offsets[bags.start]), int(lookup.offsets[bags.stop]))
        yield _Feature(number, start, rows, dim, base, column, bags, items)


def find_stray(lookup: Lookup) -> tuple[int, int, int] | None:
    """Place, feature and index of the first one outside of its table; None where there is none."""
    for feature in _features(lookup):
        ids = lookup.indices[feature.items]
        wrong = ((ids < 0) | (ids >= feature.rows)).nonzero()
        if len(wrong):
            at = int(wrong[0])
            return feature.items.start + at, feature.number, int(ids[at])
    return None


def _rows(lookup: Lookup, feature: _Feature) -> Rows:
    return Rows(feature.table(lookup.weights), feature.base, lookup.cache)


def _looked_up(lookup: Lookup, feature: _Feature) -> Tensor:
    """(items, dim) float32: the row of each index."""
    slots = None if lookup.slots is None else lookup.slots[feature.items]
    return _rows(lookup, feature).read(lookup.indices[feature.items].long(), slots)


def forward(lookup: Lookup, output: Tensor) -> None:
    """Write the pooled rows, float32."""
    for feature in _features(lookup):
        rows = _looked_up(lookup, feature)
        if lookup.pooling == NONE:
            output.view(-1, lookup.row_width)[feature.items] = rows
            continue
        if lookup.bag_weights is not None:
            rows = rows * lookup.bag_weights[feature.items].unsqueeze(1)
        lengths = lookup.offsets[feature.bags.start : feature.bags.stop + 1].diff()
        bags = torch.arange(len(lengths), device=rows.device).repeat_interleave(lengths)
        pooled = rows.new_zeros(len(lengths), feature.dim).index_add_(0, bags, rows)
        if lookup.pooling == MEAN:
            pooled = pooled / lengths.clamp(min=1).unsqueeze(1)
        output.view(-1)[_places(lookup, feature)] = pooled


def _places(lookup: Lookup, feature: _Feature) -> Tensor:
    """(bags, dim): where the numbers of each bag are in the output."""
    count = feature.bags.stop - feature.bags.start
    device = lookup.offsets.device
    if lookup.outputs is not None:
        first = lookup.outputs[feature.bags]
    else:
        first = torch.arange(count, device=device) * lookup.row_width + feature.column
    return first.unsqueeze(1) + torch.arange(feature.dim, device=device)


def _per_item(lookup: Lookup, feature: _Feature, gradient: Tensor) -> Tensor:
    """(items, dim): the gradient of what each index brought into its bag, before its weight."""
    if lookup.pooling == NONE:
        return gradient.view(-1, lookup.row_width)[feature.items]
    lengths = lookup.offsets[feature.bags.start : feature.bags.stop + 1].diff()
    above = gradient.reshape(-1)[_places(lookup, feature)]
    if lookup.pooling == MEAN:
        above = above / lengths.clamp(min=1).unsqueeze(1)
    return above.repeat_interleave(lengths, dim=0)


def weights_gradient(lookup: Lookup, gradient: Tensor, wanted: Tensor | None) -> Tensor:
    """(total,): the gradient of each index's weight."""
    result = torch.zeros(lookup.indices.numel(), device=gradient.device)
    for feature in _features(lookup):
        if wanted is not None and not wanted[feature.number]:
            continue
        rows = _looked_up(lookup, feature)
        result[feature.items] = (rows * _per_item(lookup, feature, gradient)).sum(1)
    return result


def backward(
    lookup: Lookup, gradient: Tensor, wanted: Tensor | None, states: OptimizerStates, settings: OptimizerSettings
) -> None:
    """Update tables and states."""
    tables: dict[int, list[tuple[_Feature, Tensor, Tensor]]] = {}
    for feature in _features(lookup):
        if wanted is not None and not wanted[feature.number]:
            continue
        grads = _per_item(lookup, feature, gradient)
        if lookup.bag_weights is not None and lookup.pooling != NONE:
            grads = grads * lookup.bag_weights[feature.items].unsqueeze(1)
        tables.setdefault(feature.base, []).append((feature, lookup.indices[feature.items].long(), grads))
    for parts in tables.values():
        feature = parts[0][0]
        ids, grads = torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts])
        touched, place = ids.unique(return_inverse=True)
        total = grads.new_zeros(len(touched), feature.dim).index_add_(0, place, grads)
        slots = None
        if lookup.slots is not None:
            slots = torch.empty_like(touched)
            slots[place] = torch.cat([lookup.slots[part[0].items] for part in parts]).long()
        _update(_rows(lookup, feature), feature, touched, total, states, settings, slots)


def _update(
    rows: Rows,
    feature: _Feature,
    touched: Tensor,
    g: Tensor,
    states: OptimizerStates,
    settings: OptimizerSettings,
    slots: Tensor | None = None,
) -> None:
    state = _States(feature, touched, states)
    updated = _UPDATES[settings.optimizer](rows.read(touched, slots), g, state, settings)
    rows.write(touched, updated, settings, slots)
    state.write()


class _States:
    """The states of the rows that are updated; `write` puts them back."""

    def __init__(self, feature: _Feature, touched: Tensor, states: OptimizerStates) -> None:
        self._feature, self._touched, self._states = feature, touched, states
        self._changed: list[tuple[Tensor, Tensor]] = []

    def _view(self, array: Tensor | None, offsets: Tensor | None, width: int) -> Tensor:
        assert array is not None
        assert offsets is not None
        first = int(offsets[self._feature.number])
        whole = array[first : first + self._feature.rows * width]
        return whole.view(self._feature.rows, width) if width > 1 else whole

    def has(self, name: str) -> bool:
        return getattr(self._states, name) is not None

    def elements(self, name: str) -> Tensor:
        """(touched, dim)."""
        view = self._view(getattr(self._states, name), getattr(self._states, f"{name}_offsets"), self._feature.dim)
        return view.view(self._feature.rows, self._feature.dim)[self._touched].float()

    def rows(self, name: str) -> Tensor:
        """(touched,)."""
        offsets = f"{name}_offsets" if name.startswith("momentum") else "row_offsets"
        return self._view(getattr(self._states, name), getattr(self._states, offsets), 1)[self._touched].float()

    def set(self, name: str, values: Tensor) -> Tensor:
        """Remember what a state becomes; returns it."""
        if name.startswith("momentum") and values.dim() == 2:
            view = self._view(getattr(self._states, name), getattr(self._states, f"{name}_offsets"), self._feature.dim)
            view = view.view(self._feature.rows, self._feature.dim)
        else:
            offsets = f"{name}_offsets" if name.startswith("momentum") else "row_offsets"
            view = self._view(getattr(self._states, name), getattr(self._states, offsets), 1)
        self._changed.append((view, values))
        return values

    def write(self) -> None:
        for view, values in self._changed:
            view[self._touched] = values.to(view.dtype)


Update = Callable[[Tensor, Tensor, _States, OptimizerSettings], Tensor]


def missed_decay(before: Tensor, s: OptimizerSettings) -> Tensor:
    """What rows decayed by while they were not looked up.

    Args:
        before: (n,) steps in which they were updated last, 0 for never.
        s: the optimizer.

    Returns:
        (n,) factors.
    """
    if s.iteration <= s.decay_from:
        return torch.ones_like(before)
    steps = (s.iteration - before - 1).clamp(min=0) * (before > 0)
    missed = torch.pow(torch.tensor(1 - s.lr * s.weight_decay, device=before.device), steps).clamp(min=s.lower_bound)
    return torch.where(steps > 0, missed, 1.0)


def _sgd(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    return w - s.lr * g


def _adagrad(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    h = state.set("momentum1", state.elements("momentum1") + g * g)
    return w - s.lr * g / (h.sqrt() + s.eps)


def _rowwise_adagrad(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    if s.weight_decay_mode == 3 and state.has("prev_iter"):
        before = state.rows("prev_iter")
        w = w * missed_decay(before, s).unsqueeze(1)
        state.set("prev_iter", torch.full_like(before, s.iteration))
    decayed = g + s.weight_decay * w if s.weight_decay_mode == 1 else g
    v = state.set("momentum1", state.rows("momentum1") + decayed.square().mean(1))
    m = (s.lr / (v.sqrt() + s.eps)).unsqueeze(1)
    keep: Tensor | float = 1.0
    if s.weight_decay_mode == 1:
        keep = 1 - m * s.weight_decay
    elif s.weight_decay_mode >= 2:
        keep = 1 - s.lr * s.weight_decay
    w = keep * w - m * g
    if s.max_norm > 0:
        norm = w.norm(dim=1, keepdim=True)
        w = torch.where(norm > s.max_norm, w * (s.max_norm / norm), w)
    return w


def _rowwise_adagrad_with_counter(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    before, count = state.rows("prev_iter"), state.rows("row_counter")
    gap = torch.where(before == 0, 1.0, s.iteration - before)
    state.set("prev_iter", torch.full_like(before, s.iteration))
    if s.counter_halflife > 0:
        count = 1 + torch.exp(-gap * (math.log(2.0) / s.counter_halflife)) * count
    else:
        count = torch.ones_like(count) if s.counter_halflife == 0 else count + 1
    state.set("row_counter", count)
    adjusting = s.adjustment_iter <= 0 or s.iteration > s.adjustment_iter
    frequency = (s.counter_halflife / count).unsqueeze(1)
    decayed = g + s.weight_decay * w if s.weight_decay_mode == 1 else g
    before_sum = state.rows("momentum1")
    if s.grad_sum_decay == 0 and s.counter_halflife > 0:
        before_sum = before_sum * torch.exp(-gap * (math.log(2.0) / s.counter_halflife))
    v = state.set("momentum1", before_sum + decayed.square().mean(1))
    m = s.lr / (v.sqrt() + s.eps)
    if adjusting:
        tail = math.floor(s.tail_threshold * s.max_counter) if s.tail_is_ratio else s.tail_threshold
        rate = m
        if s.learning_rate_mode == 0:
            rate = m * (s.max_counter / (count + 1)).pow(s.adjustment_ub).clamp(1, 10)
        elif s.learning_rate_mode == 1:
            rate = m * ((count + 1) / s.max_counter).pow(s.adjustment_ub).clamp(0.1, 1)
        elif s.learning_rate_mode == 2:
            rate = s.lr / ((s.adjustment_ub * count).sqrt() + s.eps)
        m = torch.where(count > tail, rate, m)
    if s.regularization_mode == 4 and adjusting:
        limit = count * torch.clamp(s.weight_norm_coefficient * w.norm(dim=1), min=s.lower_bound)
        m = m * torch.clamp(limit / decayed.norm(dim=1), max=1)
    m = m.unsqueeze(1)
    keep: Tensor | float = 1.0
    if s.regularization_mode == 4 and adjusting:  # however rare rows are
        if s.weight_decay_mode in (1, 2):
            keep = 1 - s.weight_decay * (m if s.weight_decay_mode == 1 else s.lr)
    elif s.weight_decay_mode == 1 and adjusting:
        keep = 1 - frequency * s.weight_decay * m
    elif s.weight_decay_mode == 2 and adjusting:
        keep = 1 - frequency * s.weight_decay * s.lr
    elif s.weight_decay_mode == 3 and adjusting:
        if s.counter_halflife == -1:
            m = m * count.sqrt().unsqueeze(1)
        elif s.counter_halflife == -2:
            m = ((s.lr * count).clamp(max=s.adjustment_ub) / (v.sqrt() + s.eps)).unsqueeze(1)
        since = s.iteration - max(s.adjustment_iter, 0)
        once = 1 - s.weight_decay * s.lr
        lazy = torch.pow(torch.tensor(once), (gap.clamp(max=since) - 1).clamp(min=0)).unsqueeze(1)
        keep, m = once * lazy, m * lazy
    return keep * w - m * g


def _adam_direction(g: Tensor, state: _States, s: OptimizerSettings, *, by_row: bool) -> Tensor:
    m = state.set("momentum1", s.beta1 * state.elements("momentum1") + (1 - s.beta1) * g)
    if by_row:
        v = s.beta2 * state.rows("momentum2") + (1 - s.beta2) * g.square().mean(1)
        second = state.set("momentum2", v).unsqueeze(1)
    else:
        second = state.set("momentum2", s.beta2 * state.elements("momentum2") + (1 - s.beta2) * g * g)
    if s.rowwise_bias_correction and state.has("row_counter"):
        steps = state.set("row_counter", state.rows("row_counter") + 1).unsqueeze(1)
        return (m / (1 - s.beta1**steps)) / ((second / (1 - s.beta2**steps)).sqrt() + s.eps)
    first, under = m / (1 - s.beta1**s.iteration), second / (1 - s.beta2**s.iteration)
    return first / (under.sqrt() + s.eps)


def _adam(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings, *, by_row: bool = False) -> Tensor:
    return w - s.lr * (_adam_direction(g, state, s, by_row=by_row) + s.weight_decay * w)


def _lamb(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings, *, by_row: bool = False) -> Tensor:
    u = _adam_direction(g, state, s, by_row=by_row) + s.weight_decay * w
    ratio: Tensor = w.norm(dim=1, keepdim=True) / u.norm(dim=1, keepdim=True)
    return w - s.lr * ratio * u


def _lars_sgd(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    norm, size = w.norm(dim=1, keepdim=True), g.norm(dim=1, keepdim=True)
    rate = s.lr * s.eta * norm / (size + s.weight_decay * norm)
    m = s.momentum * state.elements("momentum1") + rate * (g + s.weight_decay * w)
    return w - state.set("momentum1", m)


def _rowwise_rmsprop_ar(w: Tensor, g: Tensor, state: _States, s: OptimizerSettings) -> Tensor:
    v = state.set("momentum1", s.beta2 * state.rows("momentum1") + (1 - s.beta2) * g.square().mean(1))
    before = state.rows("prev_iter")
    gap = torch.where(before > 0, s.iteration - before, 1.0)
    state.set("prev_iter", torch.full_like(before, s.iteration))
    shrink = (1 - (s.lr * s.ar_alpha * gap).clamp(0, 1)).clamp(min=s.min_shrinkage)
    return shrink.unsqueeze(1) * w - (s.lr / (v.sqrt() + s.eps)).unsqueeze(1) * g


_UPDATES: dict[str, Update] = {
    "exact_sgd": _sgd,
    "exact_adagrad": _adagrad,
    "exact_row_wise_adagrad": _rowwise_adagrad,
    "row_wise_adagrad_with_counter": _rowwise_adagrad_with_counter,
    "adam": _adam,
    "partial_row_wise_adam": lambda w, g, state, s: _adam(w, g, state, s, by_row=True),
    "lamb": _lamb,
    "partial_row_wise_lamb": lambda w, g, state, s: _lamb(w, g, state, s, by_row=True),
    "lars_sgd": _lars_sgd,
    "row_wise_rmsprop_ar": _rowwise_rmsprop_ar,
}


def update_rows(
    table: Tensor, touched: Tensor, gradient: Tensor, states: list[Tensor], settings: OptimizerSettings
) -> None:
    """One step of an optimizer on some rows of a table by itself, in place.

    Args:
        table: (rows, dim).
        touched: (n,): which rows, each once.
        gradient: (n, dim).
        states: what the optimizer remembers of the table: (rows, dim) or (rows,) each.
        settings: the optimizer.
    """
    rows, dim = table.shape
    feature = _Feature(0, 0, rows, dim, 0, 0, slice(0), slice(0))
    first = torch.zeros(1, dtype=torch.int64)
    flat = [state.view(-1) for state in states]
    kept = OptimizerStates(*(part for state in flat for part in (state, first)), *[None] * (4 - 2 * len(flat)))
    _update(Rows(table), feature, touched, gradient.float(), kept, settings)
