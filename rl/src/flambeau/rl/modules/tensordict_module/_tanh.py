"""A tanh that maps what a network gives into the bounds of actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn.common import TensorDictModuleBase, dispatch
from flambeau.rl.data.tensor_specs import Composite


class TanhModule(TensorDictModuleBase):
    """The tanh of some entries, stretched to bounds.

    Args:
        in_keys: the entries.
        out_keys: where they go; the same unless given.
        spec: of the outputs, one for all or a `Composite`, whose bounds are taken.
        low, high: the bounds, without a spec; -1 and 1 unless given.
        clamp: keep away from the bounds by the resolution of the dtype.

    Raises:
        ValueError: bounds are not those of the spec, or in the wrong order; or there are more keys of one kind.

    Example:
        >>> TanhModule(["x"], low=0.0, high=2.0)(TensorDict(x=torch.zeros(2)))["x"]
        tensor([1., 1.])
    """

    def __init__(
        self, in_keys: Any, out_keys: Any = None, *, spec: Any = None, low: Any = None, high: Any = None,
        clamp: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_keys = in_keys
        self.out_keys = in_keys if out_keys is None else out_keys
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(f"TanhModule: in_keys is {self.in_keys} and out_keys {self.out_keys}, expected as many.")
        self.clamp = clamp
        if spec is not None and not isinstance(spec, Composite):
            leaf, spec = spec, Composite()
            for key in self.out_keys:
                spec[key] = leaf
        self.spec = Composite() if spec is None else spec
        for key in self.out_keys:
            if key not in self.spec.keys(True):
                if spec is not None:
                    raise KeyError(
                        f"TanhModule: the spec has the keys {list(spec.keys(True, True))}, which lack {key!r}."
                    )
                self.spec[key] = None
            self._register(key, self.spec[key] if spec is not None else None, low, high)

    def _register(self, key: Any, leaf: Any, low: Any, high: Any) -> None:
        bounds = []
        for what, given, default in (("low", low, -1.0), ("high", high, 1.0)):
            value = default if given is None else given
            if leaf is not None:
                value = getattr(leaf.space, what)
                if given is not None and not bool((torch.as_tensor(given, dtype=value.dtype) == value).all()):
                    raise ValueError(f"TanhModule: {what} is {given}, but that of the spec is {value}; leave it out.")
            value = value if isinstance(value, Tensor) else torch.as_tensor(value)
            bounds.append(value if value.is_floating_point() else value.float())
        if bool((bounds[1] < bounds[0]).any()):
            raise ValueError(f"TanhModule: high is {bounds[1]}, expected more than low, {bounds[0]}.")
        for what, value in zip(("low", "high"), bounds, strict=True):
            self.register_buffer(f"{_joined(key)}_{what}", value)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase) -> Any:
        """Map the entries."""
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value = tensordict.get(source).tanh()
            low, high = (getattr(self, f"{_joined(target)}_{what}").to(value.dtype) for what in ("low", "high"))
            if self.clamp:
                eps = torch.finfo(value.dtype).resolution
                value = value.clamp(eps - 1, 1 - eps)
            half = (high - low) / 2
            tensordict.set(target, value * half + (low + half))
        return tensordict


def _joined(key: Any) -> str:
    return key if isinstance(key, str) else "_".join(key)
