"""Helpers of the model builders; upstream has them on this path, and other code imports them from it."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum, build_with_weights, legacy_weights

W = TypeVar("W", bound=WeightsEnum)
M = TypeVar("M", bound=nn.Module)
V = TypeVar("V")
D = TypeVar("D")
P = ParamSpec("P")


class IntermediateLayerGetter(nn.ModuleDict):
    """Run a model's direct children in order, and return the outputs of some of them.

    Children after the last one asked for are dropped. A child is registered under its own name, so state_dict keys
    stay those of the model. Children must be called in the order of their registration, each once, on the output
    of the one before; for anything else use `models.feature_extraction`.

    Args:
        model: the model whose children run; they are shared with it, not copied.
        return_layers: name of a direct child -> name of its output in the result.

    Raises:
        ValueError: a key of `return_layers` is no direct child.

    Example:
        >>> getter = IntermediateLayerGetter(resnet18(), {"layer1": "low", "layer3": "high"})
        >>> [(name, tuple(out.shape)) for name, out in getter(torch.zeros(1, 3, 224, 224)).items()]
        [('low', (1, 64, 56, 56)), ('high', (1, 256, 14, 14))]
    """

    _version = 2
    __annotations__ = {"return_layers": dict[str, str]}  # TorchScript reads the type of the attribute from here

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if missing := sorted(str(name) for name in return_layers if name not in children):
            raise ValueError(f"return_layers names {missing}, expected direct children of the model: {list(children)}.")
        wanted = {str(name): str(output) for name, output in return_layers.items()}
        last = max((index for index, name in enumerate(children) if name in wanted), default=-1)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = wanted

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Outputs by the names of `return_layers`' values, in the order of the children."""
        out: dict[str, Tensor] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of `divisor` nearest to `v`, at least `min_value`, never below nine tenths of `v`.

    References:
        Howard et al. 2017, MobileNets, arXiv:1704.04861; the rule is that of its authors' code.
    """
    rounded = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


def handle_legacy_interface(**weights: tuple[str, Any]) -> Callable[[Callable[P, D]], Callable[..., D]]:
    """Let a builder be called as before weights had enums; see `flambeau.core.weights.legacy_weights`.

    Args:
        **weights: parameter of the builder -> (the switch it had before, what True meant).
    """
    return legacy_weights(**weights)


def kwonly_to_pos_or_kw(fn: Callable[P, D]) -> Callable[..., D]:
    """Let the keyword-only parameters of `fn` be given by position too, with one warning a call."""
    return legacy_weights()(fn)


def _ovewrite_named_param(kwargs: dict[str, Any], param: str, new_value: V) -> None:
    """Fix a keyword argument to the value that weights or an architecture demand.

    Upstream: the name is spelled like this.

    Raises:
        ValueError: the caller gave another value.
    """
    kwargs[param] = _ovewrite_value_param(param, kwargs.get(param), new_value)


def _ovewrite_value_param(param: str, actual: V | None, expected: V) -> V:
    """`expected`, unless the caller gave something else.

    Raises:
        ValueError: `actual` is neither None nor `expected`.
    """
    if actual is not None and actual != expected:
        raise ValueError(
            f"The parameter {param!r} is {actual!r}, expected {expected!r}: leave it out, or set it to that."
        )
    return expected


def require_configurations(name: str, given: Sequence[object], kind: type, expected: str) -> None:
    """Refuse a list of configurations that is empty, or holds something else.

    Raises:
        ValueError: `given` is empty.
        TypeError: an element is no `kind`.
    """
    if not given:
        raise ValueError(f"{name} is empty, expected at least one {expected}.")
    for item in given:
        if not isinstance(item, kind):
            raise TypeError(f"{name} holds {item!r}, expected {expected}.")


def build_classifier(
    network: Callable[..., M], weights: WeightsEnum | None, *args: Any, progress: bool, **kwargs: Any
) -> M:
    """Build a classifier of pictures or videos, with as many classes as its weights tell apart.

    Args:
        network: makes the module when called as `network(*args, **kwargs)`; takes `num_classes`.
        weights: a member, or None for new parameters.
        args: for `network`.
        progress: show the download's progress.
        kwargs: for `network` and `flambeau.core.weights.build_with_weights`.

    Raises:
        ValueError: `num_classes` is given, and is not the number of the weights' classes.
    """
    if weights is not None and weights.meta["categories"] is not None:
        _ovewrite_named_param(kwargs, "num_classes", len(weights.meta["categories"]))
    return build_with_weights(network, weights, *args, progress=progress, **kwargs)


def without_layers(state: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    """A state dict without the names that begin with `prefix`; it keeps the versions of its layers."""
    kept = OrderedDict((name, value) for name, value in state.items() if not name.startswith(prefix))
    kept._metadata = getattr(state, "_metadata", {})  # type: ignore[attr-defined]
    return kept


class _ModelURLs(dict[str, str]):
    """A table of checkpoint URLs by model name, which old code takes from the model modules; reading it warns."""

    def __getitem__(self, key: str) -> str:
        warnings.warn(
            f"model_urls[{key!r}] is deprecated; take `url` of the model's weights enum.", UserWarning, stacklevel=2
        )
        return super().__getitem__(key)
