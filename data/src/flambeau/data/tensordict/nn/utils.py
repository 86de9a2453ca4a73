"""Mappings to positive numbers, and two switches: skipping what is there already, and summing log-probabilities."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.data.tensordict._tensorcollection import is_tensor_collection
from flambeau.data.tensordict._utils_options import _DecoratorContextManager, strtobool

__all__ = [
    "add_custom_mapping",
    "biased_softplus",
    "composite_lp_aggregate",
    "expln",
    "inv_softplus",
    "mappings",
    "set_composite_lp_aggregate",
    "set_skip_existing",
    "skip_existing",
]

# --- mappings


def inv_softplus(bias: float | Tensor) -> float | Tensor:
    """The number whose softplus is `bias`: log(exp(bias) - 1), for positive numbers or tensors of any shape."""
    if isinstance(bias, Tensor):
        return bias.expm1().clamp_min(1e-6).log()
    return math.log(max(math.expm1(bias), 1e-6))


class biased_softplus(nn.Module):
    """A softplus that is `bias` at 0 and never below `min_val`.

    Args:
        bias: the value at 0, above `min_val`.
        min_val: the lower bound.

    Example:
        >>> float(biased_softplus(1.0)(torch.zeros(())))
        1.0
    """

    def __init__(self, bias: float, min_val: float = 0.01) -> None:
        super().__init__()
        if bias <= min_val:
            raise ValueError(f"biased_softplus: bias is {bias}, expected more than min_val, {min_val}.")
        self.bias = inv_softplus(bias - min_val)
        self.min_val = min_val

    def forward(self, x: Tensor) -> Tensor:
        """Map any tensor to the same shape, above `min_val`."""
        return F.softplus(x + self.bias) + self.min_val


def expln(x: Tensor) -> Tensor:
    """exp(x) up to 0, log(1 + x) + 1 above: positive, smooth, and slow to grow (Rückstieß et al. 2008)."""
    # Each branch sees only its half, so that the unused one gives no NaN in the gradient.
    below = x.clamp(max=0).exp()
    above = x.clamp(min=0).log1p() + 1
    return torch.where(x > 0, above, below)


_MAPPINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": F.softplus,
    "exp": torch.exp,
    "relu": torch.relu,
    "expln": expln,
    "sigmoid": torch.sigmoid,
    "biased_softplus": biased_softplus(1.0),
}


def mappings(key: str) -> Callable[[Tensor], Tensor]:
    """A function from any number to a positive one.

    Args:
        key: "softplus", "exp", "relu", "expln", "sigmoid", "biased_softplus", "biased_softplus_<bias>",
            "biased_softplus_<bias>_<min_val>", or a name given to `add_custom_mapping`.

    Raises:
        NotImplementedError: no mapping has this name.

    Example:
        >>> mappings("biased_softplus_0.5_0.02")(torch.zeros(1))
        tensor([0.5000])
    """
    if (known := _MAPPINGS.get(key)) is not None:
        return known
    name, *numbers = key.rsplit("_", key.count("_") - 1) if key.startswith("biased_softplus_") else (key,)
    if name == "biased_softplus" and 1 <= len(numbers) <= 2:
        try:
            return biased_softplus(*map(float, numbers))
        except ValueError as error:
            raise NotImplementedError(f"mapping {key!r}: {error}") from error
    raise NotImplementedError(f"Unknown mapping {key!r}; there are {', '.join(sorted(_MAPPINGS))}.")


def add_custom_mapping(name: str, mapping: Callable[[Tensor], Tensor]) -> None:
    """Let `mappings(name)` give a function of your own."""
    _MAPPINGS[name] = mapping


# --- skipping what is there

_skips = False


class set_skip_existing(_DecoratorContextManager):
    """Let modules whose outputs are all there already return their input.

    As a context manager it decides for all modules that run within; as the decorator of `forward` it does so for that
    module, where `mode=None` follows the surrounding context.

    Args:
        mode: True, False, or, as a decorator, None.
        in_key_attr: attribute with the keys that are read: an output that is also read does not count as there.
        out_key_attr: attribute with the keys that are written.
    """

    def __init__(self, mode: bool | None = True, in_key_attr: str = "in_keys", out_key_attr: str = "out_keys") -> None:
        self.mode, self.in_key_attr, self.out_key_attr = mode, in_key_attr, out_key_attr

    def clone(self) -> set_skip_existing:
        """A fresh one with the same arguments."""
        return type(self)(self.mode, self.in_key_attr, self.out_key_attr)

    def __call__(self, func: Callable[..., Any]) -> Any:
        """Decorate a module's `forward(self, tensordict, ...)`."""

        @functools.wraps(func)
        def forward(module: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            if (_skips if self.mode is None else self.mode) and is_tensor_collection(tensordict):
                reads, writes = getattr(module, self.in_key_attr), getattr(module, self.out_key_attr)
                there = tensordict.keys(True)
                if all(key in there for key in writes) and not any(key in writes for key in reads):
                    return tensordict
            return func(module, tensordict, *args, **kwargs)

        return forward

    def set(self) -> None:
        """Make the mode that of the process."""
        global _skips
        _skips = bool(self.mode)

    def __enter__(self) -> None:
        global _skips
        if self.mode is None:
            raise RuntimeError("set_skip_existing(None) decorates functions; as a context manager give True or False.")
        self._before, _skips = _skips, self.mode

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _skips
        _skips = self._before


def skip_existing() -> bool:
    """Whether modules skip their work where its results are there."""
    return _skips


# --- log-probabilities of several variables

_aggregates: bool | None = None


def composite_lp_aggregate(nowarn: bool = False) -> bool | None:
    """Whether log-probabilities of several variables are summed into one entry, `sample_log_prob`.

    False unless `set_composite_lp_aggregate` or the environment variable COMPOSITE_LP_AGGREGATE says otherwise: then
    each variable `name` has its own entry `<name>_log_prob`.

    Args:
        nowarn: accepted for compatibility; nothing warns.
    """
    if _aggregates is not None:
        return _aggregates
    text = os.environ.get("COMPOSITE_LP_AGGREGATE")
    return strtobool(text) if text is not None else False


class set_composite_lp_aggregate(_DecoratorContextManager):
    """Set whether log-probabilities are summed: a context manager, a decorator, and through `.set()` a setter.

    Args:
        mode: True for one entry `sample_log_prob`, False for one entry a variable.
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> set_composite_lp_aggregate:
        """A fresh one with the same mode."""
        return type(self)(self.mode)

    def set(self) -> None:
        """Make the mode that of the process, and of processes started from here."""
        global _aggregates
        _aggregates = bool(self.mode)
        os.environ["COMPOSITE_LP_AGGREGATE"] = str(_aggregates)

    def unset(self) -> None:
        """Go back to the default."""
        global _aggregates
        _aggregates = None
        os.environ.pop("COMPOSITE_LP_AGGREGATE", None)

    def __enter__(self) -> None:
        global _aggregates
        self._before, _aggregates = _aggregates, bool(self.mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _aggregates
        _aggregates = self._before
