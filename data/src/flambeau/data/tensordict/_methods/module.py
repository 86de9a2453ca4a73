"""Parameters of modules as tensordicts, and back.

`from_module` gives the tree of a module with its parameters and buffers as leaves; `to_module` puts other tensors in
their places, and returns what was there. As a context manager it puts that back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import listing
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection

_NO_SIZE = torch.Size(())
_CHANGED = -1  # among identities of modules, the mark that a place got another tensor


class ModuleMethods(CollectionMethods):
    """`from_module`, `from_modules`, `to_module`."""

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        as_module: bool = False,
        lock: bool = True,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Any:
        """The parameters and buffers of a module, nested as its children are.

        The tensors are the module's own: shared parameters stay shared, and in-place writes reach the module.

        Args:
            module: any module.
            as_module: give a `TensorDictParams`.
            lock: lock the result.
            use_state_dict: take what `module.state_dict()` gives, so that its hooks count.
            filter_empty: leave out children without parameters and buffers.
        """
        if use_state_dict:
            result = _from_state_dict(module)
        else:
            result = _tree(module, filter_empty, {})
        if as_module:
            return classes.TensorDictParams(result, no_convert="skip", lock=lock)
        return result.lock_() if lock else result

    @classmethod
    def from_modules(
        cls,
        *modules: nn.Module,
        as_module: bool = False,
        lock: bool = True,
        use_state_dict: bool = False,
        lazy_stack: bool = False,
        expand_identical: bool = False,
    ) -> Any:
        """The parameters of modules of the same kind, stacked along a new first dimension.

        Args:
            modules: of the same structure.
            as_module: give a `TensorDictParams`.
            lock: lock the result.
            use_state_dict: see `from_module`.
            lazy_stack: keep the modules' own tensors, in a lazy stack; otherwise the stacked ones are new parameters.
            expand_identical: a tensor that all modules share is expanded, not stacked.

        Raises:
            RuntimeError: the structures differ, there is no module, or `lazy_stack` with `as_module` or with parameters
                that have no shape yet.
        """
        if not modules:
            raise RuntimeError("from_modules: there is no module to take parameters of.")
        parts = [
            cls.from_module(module, lock=False, use_state_dict=use_state_dict, filter_empty=False).filter_empty_()
            for module in modules
        ]
        if lazy_stack:
            if as_module:
                raise RuntimeError(
                    "from_modules: parameters of a lazy stack cannot become one module's; stack densely."
                )
            if any(is_lazy(leaf) for part in parts for leaf in part._leaves()):
                raise RuntimeError(
                    "from_modules: parameters without a shape cannot be stacked lazily; run the modules once first."
                )
            result = cls.lazy_stack(parts)
            return result.lock_() if lock else result
        first, *rest = parts
        for part in rest:
            if list(part.keys(True, True)) != list(first.keys(True, True)):
                raise RuntimeError("from_modules: the modules differ in structure; lazy_stack=True takes those.")
        result = first._fast_apply(
            lambda *leaves: _stacked_leaf(leaves, expand_identical), *rest, batch_size=[len(parts)], filter_empty=False
        )
        if as_module:
            return classes.TensorDictParams(result, no_convert=True, lock=lock)
        return result.lock_() if lock else result

    def to_module(
        self,
        module: nn.Module,
        *,
        inplace: bool | None = None,
        return_swap: bool = True,
        swap_dest: Any = None,
        use_state_dict: bool = False,
        non_blocking: bool = False,
        preserve_module_state: bool | None = True,
        memo: dict[int, Any] | None = None,
    ) -> Any:
        """Put these tensors in the places of a module's parameters and buffers.

        Args:
            module: of the structure that the keys tell; places without a key stay as they are.
            inplace: copy the values into the module's tensors instead.
            return_swap: give what was in these places, as a tensordict; as a context manager, it is put back.
            swap_dest: a tensordict that takes it.
            use_state_dict: go through `module.load_state_dict`, so that its hooks count; copies.
            non_blocking: of copies.
            preserve_module_state: False lets go of what was there instead of keeping it for the way back.
            memo: modules that were swapped already, by id; for shared modules.

        Raises:
            KeyError: a key names nothing in the module. The module is then as it was.
        """
        if use_state_dict:
            before = _from_state_dict(module).clone() if return_swap else None
            module.load_state_dict(dict(self.flatten_keys(".").items()), strict=False)
            swapped = before
        else:
            memo = {} if memo is None else memo
            swapped = self._swap(module, bool(inplace), non_blocking, memo)
            if _CHANGED not in memo and return_swap and swap_dest is None:  # the tensors were in their places
                return swapped._remember("to_module", None, None)
        if not return_swap or swapped is None:
            return None
        if swap_dest is not None:
            swap_dest.update(swapped, ignore_lock=True)
            swapped = swap_dest
        return swapped._remember("to_module", None, (module, bool(inplace), use_state_dict))

    def _swap_back(self, module: nn.Module, inplace: bool, use_state_dict: bool) -> None:
        self.to_module(module, inplace=inplace, return_swap=False, use_state_dict=use_state_dict)

    def _swap(self, module: nn.Module, inplace: bool, non_blocking: bool, memo: dict[int, Any]) -> Any:
        """Exchange the tensors of one module, and below; returns those that were there."""
        known = memo.get(id(module))
        if known is not None:
            return known
        parameters, buffers, children = module._parameters, module._buffers, module._modules
        before: dict[str, Any] = {}
        memo[id(module)] = result = classes.make_td(before, _NO_SIZE)
        for key, value in self._items():
            if isinstance(value, TensorCollection):
                child = children.get(key)
                if child is None:
                    self._undo(module, before, key)
                if isinstance(child, TensorCollection):
                    before[key] = child
                    children[key] = value
                    memo[_CHANGED] = True
                else:
                    before[key] = value._swap(child, inplace, non_blocking, memo)
                continue
            places: Any = parameters if key in parameters else buffers if key in buffers else None
            if places is None:
                self._undo(module, before, key)
            old = places[key]
            if old is value and not inplace:
                before[key] = old
                continue
            memo[_CHANGED] = True
            if inplace and old is not None:
                before[key] = old.detach().clone()
                old.data.copy_(value, non_blocking=non_blocking)
            else:
                before[key] = old
                places[key] = _in_place_of(old, value)
        if isinstance(module, nn.RNNBase):
            module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]
        return result

    def _undo(self, module: nn.Module, before: dict[str, Any], key: str) -> None:
        """Put back what was exchanged so far, and raise."""
        for name, value in before.items():
            if isinstance(value, Tensor):
                places: Any = module._parameters if name in module._parameters else module._buffers
                places[name] = value
            elif isinstance(module._modules.get(name), TensorCollection):
                module._modules[name] = value
            else:
                value._swap(module._modules[name], False, False, {})
        known = [*module._parameters, *module._buffers, *module._modules]
        raise KeyError(f"{key!r} is no parameter, buffer or child of {type(module).__name__}; it has {listing(known)}.")


def _in_place_of(old: Any, value: Any) -> Any:
    """A tensor for the place of another. Upstream: a constant in the place of a parameter becomes one, as that was."""
    # Asking for instances of Parameter runs Python code of torch's, which takes longer than all the rest.
    if type(value) is nn.Parameter or type(old) is Tensor:
        return value
    if (
        isinstance(old, nn.Parameter)
        and isinstance(value, Tensor)
        and not (value.requires_grad or isinstance(value, nn.Parameter) or torch.compiler.is_compiling())
        and (value.is_floating_point() or value.is_complex())
        and not is_functorch_wrapped_tensor(value)
    ):
        if type(value) is Tensor:  # what Parameter's constructor comes to, in half of its time
            return Tensor._make_subclass(nn.Parameter, value, old.requires_grad)
        return nn.Parameter(value, requires_grad=old.requires_grad)
    return value


def _tree(module: nn.Module, filter_empty: bool, memo: dict[int, Any]) -> Any:
    known = memo.get(id(module))
    if known is not None:
        return known
    data: dict[str, Any] = {}
    for places in (module._parameters, module._buffers):
        for key, value in places.items():
            if value is not None:
                data[key] = value
    for key, child in module._modules.items():
        if child is None:
            continue
        below = child if isinstance(child, TensorCollection) else _tree(child, filter_empty, memo)
        if not filter_empty or len(below._key_names()):
            data[key] = below
    memo[id(module)] = result = classes.make_td(data, _NO_SIZE)
    return result


def _from_state_dict(module: nn.Module) -> Any:
    return classes.TensorDict(dict(module.state_dict()), []).unflatten_keys(".")


def _stacked_leaf(leaves: tuple[Tensor, ...], expand_identical: bool) -> Tensor:
    first = leaves[0]
    if expand_identical and all(leaf is first for leaf in leaves):
        return first.expand((len(leaves), *first.shape))
    if is_lazy(first):
        return _BatchedUninitializedParameter.of(first, len(leaves))
    if not isinstance(first, (nn.Parameter, nn.Buffer)):  # of a state dict
        return torch.stack(leaves)
    stacked = torch.stack([leaf.detach() for leaf in leaves])
    if isinstance(first, nn.Parameter):
        return nn.Parameter(stacked, requires_grad=first.requires_grad)
    return nn.Buffer(stacked)


class _BatchedUninitializedParameter(UninitializedParameter):
    """Parameters of several modules that have no shape yet; when they get one, it is stacked."""

    batch_size: torch.Size

    @classmethod
    def of(cls, leaf: Any, count: int) -> Any:
        kind: Any = cls if isinstance(leaf, nn.Parameter) else _BatchedUninitializedBuffer
        options = {"requires_grad": leaf.requires_grad} if kind is cls else {}
        made = kind(device=leaf.device, dtype=leaf.dtype, **options)
        made.batch_size = torch.Size([count])
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Get the shape (modules, *shape)."""
        super().materialize((*self.batch_size, *shape), device=device, dtype=dtype)


class _BatchedUninitializedBuffer(UninitializedBuffer):
    """As `_BatchedUninitializedParameter`, of buffers."""

    batch_size: torch.Size

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Get the shape (modules, *shape)."""
        super().materialize((*self.batch_size, *shape), device=device, dtype=dtype)
