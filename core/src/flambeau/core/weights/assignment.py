"""What a module's parameters and buffers were before a checkpoint was assigned, and making them so again."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from flambeau.core.weights.construction import DEVICE_NOTE, notes


class Slots:
    """The places in a module that hold tensors, with what was in them when this was made."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters: list[tuple[str, nn.Module, str, nn.Parameter]] = []
        self.buffers: list[tuple[str, nn.Module, str, Tensor]] = []
        # A module that is registered twice is listed twice: its tensors have two names in a state dict.
        for prefix, owner in module.named_modules(remove_duplicate=False):
            dot = f"{prefix}." if prefix else ""
            for name, parameter in owner._parameters.items():
                if parameter is not None:
                    self.parameters.append((dot + name, owner, name, parameter))
            for name, buffer in owner._buffers.items():
                if buffer is not None:
                    self.buffers.append((dot + name, owner, name, buffer))
        self.loaded: set[str] = set()

    def restore(self, dtype: torch.dtype | None) -> None:
        """Give assigned tensors back the identity, ties, dtype, strides, device and `requires_grad` of before."""
        final: dict[int, nn.Parameter] = {}
        for key, owner, name, before in self.parameters:
            now = owner._parameters.get(name)
            if now is not None and now is not before:
                final[id(before)] = self._place(owner, name, before, now, final.get(id(before)), dtype)
                self.loaded.add(key)
        for key, owner, name, before in self.parameters:
            # A tied name that the file left out: one value is enough for all names of a parameter.
            if id(before) in final and owner._parameters.get(name) is not final[id(before)]:
                setattr(owner, name, final[id(before)])
            if id(before) in final:
                self.loaded.add(key)
        self._restore_buffers()
        _separate(list(final.values()))

    def is_loaded(self, key: str) -> bool:
        """Whether the parameter of this name, or one tied to it, got a value."""
        return key in self.loaded

    @staticmethod
    def _place(
        owner: nn.Module,
        name: str,
        before: nn.Parameter,
        now: nn.Parameter,
        tied: nn.Parameter | None,
        dtype: torch.dtype | None,
    ) -> nn.Parameter:
        """Put the value of `now` into the slot of `before`; returns what is in the slot then."""
        value = _like(now.data, before, dtype)
        if not before.is_meta:
            before.data = value
            kept = before
        elif tied is not None:
            tied.data = value
            kept = tied
        else:
            kept = now
            if value is not now.data:
                kept.data = value
            kept.requires_grad_(before.requires_grad)
            kept.__dict__.update(notes(before))
        setattr(owner, name, kept)  # not `_parameters[name]`: recurrent layers keep a second list of their weights
        return kept

    def _restore_buffers(self) -> None:
        for _, owner, name, before in self.buffers:
            now = owner._buffers.get(name)
            if now is None or now is before:
                continue
            if before.is_meta or is_lazy(before) or now.shape != before.shape:
                owner._buffers[name] = _like(now, before, None) if now.shape == before.shape else now
            else:
                # Copied: buffers are small, and others may hold them or views of them.
                with torch.no_grad():
                    before.copy_(now)
                owner._buffers[name] = before


def _like(value: Tensor, before: Tensor, dtype: torch.dtype | None) -> Tensor:
    """`value` with the dtype, device and strides of `before`; the same object where it has them."""
    wanted = dtype if dtype is not None and before.dtype.is_floating_point else before.dtype
    device = getattr(before, DEVICE_NOTE, value.device) if before.is_meta else before.device
    if value.is_quantized:
        return value.to(device)
    value = value.to(device=device, dtype=wanted)
    if value.layout is torch.strided and before.layout is torch.strided and not _same_strides(value, before):
        return torch.empty_strided(before.shape, before.stride(), dtype=wanted, device=device).copy_(value)
    return value


def _same_strides(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape lie alike in memory; strides of dimensions of size 1 mean nothing."""
    if a.shape != b.shape:
        return True  # a lazy parameter took the checkpoint's shape and so its layout
    return all(size <= 1 or x == y for size, x, y in zip(a.shape, a.stride(), b.stride(), strict=True))


def _separate(parameters: list[nn.Parameter]) -> None:
    """Copy parameters that share memory in the checkpoint but are independent in the module."""
    by_storage: dict[int, list[tuple[int, int, nn.Parameter]]] = {}
    for parameter in {id(parameter): parameter for parameter in parameters}.values():
        if parameter.layout is not torch.strided or parameter.is_meta or not parameter.numel():
            continue
        start = parameter.data_ptr()
        last = sum((size - 1) * stride for size, stride in zip(parameter.shape, parameter.stride(), strict=True))
        end = start + (last + 1) * parameter.element_size()
        by_storage.setdefault(parameter.untyped_storage().data_ptr(), []).append((start, end, parameter))
    for group in by_storage.values():
        reached = 0
        for start, end, parameter in sorted(group, key=lambda item: item[:2]):
            if start < reached:
                parameter.data = parameter.data.clone()
            else:
                reached = end
