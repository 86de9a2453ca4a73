"""Specs from gym's spaces, and spaces from specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from flambeau.rl.data.tensor_specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
)

_CONVERSIONS: dict[Any, Callable[..., TensorSpec]] = {}


def register_gym_spec_conversion(spec_type: Any) -> Callable[[Callable[..., TensorSpec]], Callable[..., TensorSpec]]:
    """A decorator: how spaces of a class become specs.

    Args:
        spec_type: the class, or its name with its module.
    """

    def register(conversion: Callable[..., TensorSpec]) -> Callable[..., TensorSpec]:
        _CONVERSIONS[spec_type] = conversion
        return conversion

    return register


def torch_dtype(dtype: Any) -> torch.dtype:
    """The torch dtype of a NumPy dtype."""
    return torch.from_numpy(np.empty(0, dtype=dtype)).dtype


def _gym_to_torchrl_spec_transform(
    spec: Any,
    dtype: torch.dtype | None = None,
    device: Any = None,
    categorical_action_encoding: bool = False,
    remap_state_to_observation: bool = True,
    batch_size: tuple[int, ...] = (),
) -> Any:
    """The spec of a space.

    Args:
        spec: a space of gym or gymnasium.
        dtype: default: the space's.
        device: of the spec.
        categorical_action_encoding: numbers instead of one-hot vectors, for discrete spaces.
        remap_state_to_observation: call "state" of a dictionary "observation".
        batch_size: leading dimensions.

    Raises:
        ValueError: a sequence is not stacked.
        NotImplementedError: there is no spec for such a space.
    """
    if batch_size:
        single = _gym_to_torchrl_spec_transform(
            spec, dtype, device, categorical_action_encoding, remap_state_to_observation
        )
        return single.expand((*batch_size, *single.shape))
    for kind in type(spec).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        conversion = _CONVERSIONS.get(kind) or _CONVERSIONS.get(name)
        if conversion is not None:
            return conversion(
                spec,
                dtype=dtype,
                device=device,
                categorical_action_encoding=categorical_action_encoding,
                remap_state_to_observation=remap_state_to_observation,
            )
        built_in = _BUILT_IN.get(kind.__name__)
        if built_in is not None and kind.__module__.partition(".")[0] in ("gym", "gymnasium"):
            return built_in(spec, dtype, device, categorical_action_encoding, remap_state_to_observation)
    raise NotImplementedError(
        f"There is no spec for spaces of class {type(spec).__name__}; register_gym_spec_conversion adds one."
    )


def _box(space: Any, dtype: Any, device: Any, *_: Any) -> TensorSpec:
    dtype = torch_dtype(space.dtype) if dtype is None else dtype
    info = torch.finfo(dtype) if dtype.is_floating_point else None if dtype is torch.bool else torch.iinfo(dtype)
    least, most = (False, True) if info is None else (info.min, info.max)
    if np.all(space.low <= least) and np.all(space.high >= most):
        return Unbounded(space.shape, device=device, dtype=dtype)
    low, high = (torch.as_tensor(np.array(limit), dtype=dtype, device=device) for limit in (space.low, space.high))
    return Bounded(low, high, space.shape, device=device, dtype=dtype)


def _discrete(space: Any, dtype: Any, device: Any, categorical: bool, *_: Any) -> TensorSpec:
    dtype = torch_dtype(space.dtype) if dtype is None else dtype
    return (
        Categorical(int(space.n), device=device, dtype=dtype)
        if categorical
        else OneHot(int(space.n), device=device, dtype=dtype)
    )


def _multi_discrete(space: Any, dtype: Any, device: Any, categorical: bool, remap: bool) -> TensorSpec:
    dtype = torch_dtype(space.dtype) if dtype is None else dtype
    if space.nvec.ndim > 1:
        rows: list[Any] = [_multi_discrete(type(space)(row), dtype, device, categorical, remap) for row in space.nvec]
        return torch.stack(rows)  # type: ignore[return-value]
    nvec = [int(n) for n in space.nvec]
    kind = MultiCategorical if categorical else MultiOneHot
    return kind(nvec, device=device, dtype=dtype)


def _multi_binary(space: Any, dtype: Any, device: Any, *_: Any) -> TensorSpec:
    return Binary(shape=space.shape, device=device, dtype=torch_dtype(space.dtype) if dtype is None else dtype)


def _dictionary(space: Any, dtype: Any, device: Any, categorical: bool, remap: bool) -> TensorSpec:
    specs = {}
    for key, each in space.spaces.items():
        name = "observation" if remap and key == "state" and "observation" not in space.spaces else key
        specs[name] = _gym_to_torchrl_spec_transform(each, None, device, categorical, remap)
    return Composite(specs, device=device)


def _tuple(space: Any, dtype: Any, device: Any, categorical: bool, remap: bool) -> TensorSpec:
    specs = [_gym_to_torchrl_spec_transform(each, None, device, categorical, remap) for each in space.spaces]
    if any(type(each) is not type(specs[0]) or each.ndim != specs[0].ndim for each in specs):
        return Composite({str(at): each for at, each in enumerate(specs)}, device=device)
    return torch.stack(specs)  # type: ignore[return-value]


def _sequence(space: Any, dtype: Any, device: Any, categorical: bool, remap: bool) -> TensorSpec:
    if not getattr(space, "stack", False):
        raise ValueError("A Sequence space must be made with stack=True: its values are one array then, not a tuple.")
    single = _gym_to_torchrl_spec_transform(space.feature_space, dtype, device, categorical, remap)
    spec = single.unsqueeze(0)
    spec.make_neg_dim(0)
    return spec  # type: ignore[no-any-return]


def _text(space: Any, dtype: Any, device: Any, *_: Any) -> TensorSpec:
    return NonTensor((), device=device, example_data="a string")


_BUILT_IN: dict[str, Callable[..., TensorSpec]] = {
    "Box": _box,
    "Dict": _dictionary,
    "Discrete": _discrete,
    "MultiBinary": _multi_binary,
    "MultiDiscrete": _multi_discrete,
    "Sequence": _sequence,
    "Text": _text,
    "Tuple": _tuple,
}
