"""Modules whose parameters come to be in their first call, with functions that wait for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from flambeau.core.errors import FlambeauError

__all__ = ["LazyModuleExtensionMixin", "lazy_apply"]


class LazyApplyError(FlambeauError, RuntimeError):
    """`apply` before the parameters are there."""


class LazyModuleExtensionMixin(LazyModuleMixin):
    """`LazyModuleMixin` that also takes keyword arguments in its first call, and refuses `apply` before it."""

    def apply(self, fn: Callable[[nn.Module], None]) -> Self:
        """Call a function on the module and all its parts; see `nn.Module.apply`.

        Raises:
            RuntimeError: parameters are not there yet; `lazy_apply` waits for them.
        """
        if any(is_lazy(param) for param in self.parameters()):  # type: ignore[attr-defined]
            raise LazyApplyError(
                f"apply: parameters of {type(self).__name__} are not initialized yet; run the module once before, or "
                "call lazy_apply(module, fn), which does so after its first run."
            )
        return super().apply(fn)  # type: ignore[misc, no-any-return]

    def _infer_parameters(self, module: Any, args: Any, kwargs: dict[str, Any] | None = None) -> None:
        # torch's own passes no keyword arguments on where the hook was registered without them.
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{self._get_name()}: initialize_parameters left parameters without a shape; "  # type: ignore[attr-defined]
                "it must materialize each of them."
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


def lazy_apply(module: nn.Module, fn: Callable[[nn.Module], None]) -> nn.Module:
    """Call functions on a module and all its parts after its first call.

    Args:
        module: any; functions of several calls run in their order.
        fn: takes a module.

    Returns:
        The module.

    Example:
        >>> import torch
        >>> layer = lazy_apply(nn.LazyLinear(2), lambda part: nn.init.constant_(part.bias, 3.0))
        >>> layer(torch.ones(1, 4)).shape, layer.bias.tolist()
        (torch.Size([1, 2]), [3.0, 3.0])
    """
    if not hasattr(module, "_functions_to_lazy_apply"):
        module._functions_to_lazy_apply = [fn]  # type: ignore[assignment]

        def run(called: nn.Module, args: Any, output: Any) -> None:
            handle.remove()
            functions: Any = called._functions_to_lazy_apply
            del called._functions_to_lazy_apply
            for function in functions:
                nn.Module.apply(called, function)

        handle = module.register_forward_hook(run)
    else:
        module._functions_to_lazy_apply.append(fn)  # type: ignore[union-attr, operator]
    return module
