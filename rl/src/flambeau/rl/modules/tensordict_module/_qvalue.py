"""Greedy actions from action values, as modules, actors and hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn.common import TensorDictModule, TensorDictModuleBase
from flambeau.rl.data.tensor_specs import Binary, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot
from flambeau.rl.modules.tensordict_module.common import DistributionalDQNnet, Specified, project_outputs
from flambeau.rl.modules.tensordict_module.sequence import SafeSequential

_SPACES = ("one_hot", "mult_one_hot", "categorical")
# The kinds of specs, the more special first.
_SPACE_OF: tuple[tuple[Any, str], ...] = (
    (Binary, "binary"),
    (MultiOneHot, "mult_one_hot"),
    (OneHot, "one_hot"),
    (MultiCategorical, "multi_categorical"),
    (Categorical, "categorical"),
)


class QValueModule(Specified, TensorDictModuleBase):
    """The action of highest value.

    Args:
        action_space: "one-hot", "mult-one-hot" or "categorical"; that of the spec unless given.
        action_value_key: of the values (*batch, actions).
        action_mask_key: of a mask (*batch, actions), False for actions that may not be taken.
        out_keys: of the action, the values and the value of the action.
        var_nums: sizes of the groups of a "mult-one-hot" action, which follow one another in the values.
        spec: of the action, or a `Composite` of the outputs.
        safe: project actions into it.
        strict_shape: raise if an action has not the shape of the spec; "auto" reshapes it, False accepts it.

    Raises:
        ValueError: the action space is unknown, missing, or not that of the spec; or keys do not match.

    Example:
        >>> QValueModule("one-hot")(torch.tensor([[1.0, 3.0, 2.0]]))
        (tensor([[0, 1, 0]]), tensor([[1., 3., 2.]]), tensor([[3.]]))
    """

    _values_at = 1

    def __init__(
        self,
        action_space: str | None = None,
        action_value_key: Any = None,
        action_mask_key: Any = None,
        out_keys: Sequence[Any] | None = None,
        var_nums: Any = None,
        spec: Any = None,
        safe: bool = False,
        strict_shape: bool | str | None = True,
    ) -> None:
        super().__init__()
        action_key = "action" if not out_keys else out_keys[0]
        self.action_space, action_spec = _space(action_space, spec, action_key, type(self).__name__)
        if var_nums is None and isinstance(action_spec, MultiOneHot):
            var_nums = [box.n for box in action_spec.space]
        if self.action_space == "mult_one_hot" and var_nums is None:
            raise ValueError(f"{type(self).__name__}: a mult-one-hot action needs var_nums, the sizes of its groups.")
        if strict_shape not in (True, False, None, "auto"):
            raise ValueError(
                f"{type(self).__name__}: strict_shape is {strict_shape!r}, expected True, False or 'auto'."
            )
        self.var_nums, self.action_mask_key = var_nums, action_mask_key
        self.strict_shape = True if strict_shape is None else strict_shape
        key = "action_value" if action_value_key is None else action_value_key
        writes = self._default_out_keys(key) if out_keys is None else list(out_keys)
        if len(writes) <= self._values_at:
            raise ValueError(f"{type(self).__name__}: out_keys is {writes}, expected {self._default_out_keys(key)}.")
        if action_value_key is not None and out_keys is not None and writes[self._values_at] != key:
            raise RuntimeError(
                f"{type(self).__name__}: the values are read from {key!r}, out_keys has {writes[self._values_at]!r} "
                "in their place."
            )
        self._action_value_key = key
        self.in_keys = [key] if action_mask_key is None else [key, action_mask_key]
        self.out_keys = writes
        if spec is not None and not isinstance(spec, Composite):
            given = spec
            spec = Composite()
            spec[writes[0]] = given
        self._action_spec = action_spec
        self.register_spec(safe, spec)

    def _default_out_keys(self, key: Any) -> list[Any]:
        return ["action", key, "chosen_action_value"]

    @property
    def action_value_key(self) -> Any:
        """Where the values are."""
        return self._action_value_key

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Choose actions.

        Args:
            args: a tensordict; or the values (*batch, actions), and the mask if there is one.
            kwargs: `tensordict`, or the same by their keys.

        Returns:
            The tensordict with action, values and the action's value; or these three. Values that a mask excludes are
            the least number of their dtype.
        """
        if args and isinstance(args[0], TensorDictBase):
            return self._on_tensordict(args[0])
        if isinstance(kwargs.get("tensordict"), TensorDictBase):
            return self._on_tensordict(kwargs["tensordict"])
        named = {key: kwargs.get(key) for key in self.in_keys if key in kwargs}
        values: list[Any] = [
            named.get(key, args[at] if at < len(args) else None) for at, key in enumerate(self.in_keys)
        ]
        return self._choose(*values)

    def _on_tensordict(self, tensordict: Any) -> Any:
        values = tensordict.get(self.action_value_key, None)
        if values is None:
            raise KeyError(
                f"{type(self).__name__}: there are no values {self.action_value_key!r}; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}."
            )
        mask = None
        if self.action_mask_key is not None:
            mask = tensordict.get(self.action_mask_key, None)
            if mask is None:
                raise KeyError(f"{type(self).__name__}: there is no mask {self.action_mask_key!r}.")
        for key, value in zip(self.out_keys_source, self._choose(values, mask), strict=True):
            tensordict.set(key, value)
        if self.safe:
            project_outputs(tensordict, self.spec)
        return tensordict

    def _choose(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        if mask is not None:
            values = torch.where(mask, values, torch.finfo(values.dtype).min)
        action = self._greedy(values)
        return self._shaped(action, values.shape[:-1]), values, self._chosen(values, action)

    def _greedy(self, values: Tensor) -> Tensor:
        if self.action_space == "categorical":
            return values.argmax(-1)
        if self.action_space == "one_hot":
            return F.one_hot(values.argmax(-1), values.shape[-1])
        parts = values.split(self.var_nums if isinstance(self.var_nums, int) else list(self.var_nums), -1)
        return torch.cat([F.one_hot(part.argmax(-1), part.shape[-1]) for part in parts], -1)

    def _chosen(self, values: Tensor, action: Tensor) -> Tensor:
        if self.action_space == "categorical":
            return values.gather(-1, action.unsqueeze(-1))
        return torch.where(action.bool(), values, 0.0).sum(-1, keepdim=True)

    def _shaped(self, action: Tensor, batch: torch.Size) -> Tensor:
        spec = self._action_spec
        if spec is None or self.strict_shape is False:
            return action
        inner = torch.Size(spec.shape)
        # A spec may know of the batch, or of some of its last dimensions.
        for known in range(min(len(batch), len(inner)) + 1):
            if action.shape == torch.Size([*batch[: len(batch) - known], *inner]):
                return action
        expected = torch.Size([*batch, *inner])
        if self.strict_shape == "auto":
            if action.numel() != expected.numel():
                raise RuntimeError(
                    f"{type(self).__name__}: an action of shape {tuple(action.shape)} cannot be reshaped to "
                    f"{tuple(expected)}, which its spec demands."
                )
            return action.reshape(expected)
        raise RuntimeError(
            f"{type(self).__name__}: the action has shape {tuple(action.shape)}, its spec demands {tuple(expected)}. "
            "Set strict_shape='auto' to reshape it, or False to accept it."
        )


class DistributionalQValueModule(QValueModule):
    """The action of highest mean value, from distributions of values (Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        action_space: see `QValueModule`.
        support: (atoms,), the values that may occur.
        action_value_key: of the log-probabilities (*batch, atoms, actions).
        action_mask_key, var_nums, spec, safe: see `QValueModule`.
        out_keys: of the action and the log-probabilities.

    Raises:
        RuntimeError: from `forward`, when the support has another number of atoms.
    """

    support: Tensor

    def __init__(
        self,
        action_space: str | None,
        support: Tensor,
        action_value_key: Any = None,
        action_mask_key: Any = None,
        out_keys: Sequence[Any] | None = None,
        var_nums: Any = None,
        spec: Any = None,
        safe: bool = False,
    ) -> None:
        super().__init__(action_space, action_value_key, action_mask_key, out_keys, var_nums, spec, safe)
        self.register_buffer("support", support)

    def _default_out_keys(self, key: Any) -> list[Any]:
        return ["action", key]

    def _choose(self, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        if values.ndim < 2 or values.shape[-2] != self.support.shape[-1]:
            raise RuntimeError(
                f"{type(self).__name__}: the log-probabilities have shape {tuple(values.shape)}, expected (*batch, "
                f"{self.support.shape[-1]}, actions), an atom for each element of the support."
            )
        hidden = values.device.type != "cpu" or torch.compiler.is_compiling()
        if not hidden and not torch._C._functorch.is_functorch_wrapped_tensor(values) and bool((values > 0).any()):
            raise ValueError(
                f"{type(self).__name__}: there is a log-probability of {float(values.max())}, above 0; normalize "
                "the values over their atoms: DistributionalDQNnet does."
            )
        means = (values.exp() * self.support.to(values.device).unsqueeze(-1)).sum(-2)
        if mask is not None:
            mask = mask if mask.ndim == means.ndim else mask.any(-2)
            means = torch.where(mask, means, torch.finfo(means.dtype).min)
            values = torch.where(mask.unsqueeze(-2), values, torch.finfo(values.dtype).min)
        action = self._greedy(means)
        return self._shaped(action, means.shape[:-1]), values


class QValueHook:
    """A forward hook that makes greedy actions of a network's values; see `QValueModule`.

    Args:
        action_space, var_nums, action_value_key, action_mask_key, out_keys: see `QValueModule`.
    """

    def __init__(
        self,
        action_space: str,
        var_nums: Any = None,
        action_value_key: Any = None,
        action_mask_key: Any = None,
        out_keys: Sequence[Any] | None = None,
    ) -> None:
        self.qvalue_model = QValueModule(
            action_space, action_value_key, action_mask_key, out_keys, var_nums
        )  # fmt: skip

    def __call__(self, net: Any, observation: Any, values: Any) -> Any:
        """Choose actions, for `register_forward_hook`."""
        return self.qvalue_model(values)


class DistributionalQValueHook(QValueHook):
    """A forward hook that makes greedy actions of distributions of values; see `DistributionalQValueModule`.

    Args:
        action_space, support, var_nums, action_value_key, action_mask_key, out_keys: see `DistributionalQValueModule`.
    """

    def __init__(
        self,
        action_space: str,
        support: Tensor,
        var_nums: Any = None,
        action_value_key: Any = None,
        action_mask_key: Any = None,
        out_keys: Sequence[Any] | None = None,
    ) -> None:
        self.qvalue_model = DistributionalQValueModule(
            action_space, support, action_value_key, action_mask_key, out_keys, var_nums
        )


class QValueActor(SafeSequential):
    """A network of action values, and the action of highest value.

    Args:
        module: a network of observations, or a module with keys that writes the values.
        in_keys: what a network reads; ["observation"] unless given.
        spec: of the action, or a `Composite` of the outputs.
        safe: project actions into it.
        action_space, action_mask_key, strict_shape: see `QValueModule`.
        action_value_key: where a network's values go, or a module writes them.
        action_key: where actions go.
        chosen_action_value_key: where their values go.

    Raises:
        KeyError: a module with keys does not write the values.
    """

    def __init__(
        self,
        module: Any,
        *,
        in_keys: Any = None,
        spec: Any = None,
        safe: bool = False,
        action_space: str | None = None,
        action_value_key: Any = None,
        action_key: Any = None,
        chosen_action_value_key: Any = None,
        action_mask_key: Any = None,
        strict_shape: bool | str | None = True,
    ) -> None:
        key = "action_value" if action_value_key is None else action_value_key
        action_key = "action" if action_key is None else action_key
        chosen = "chosen_action_value" if chosen_action_value_key is None else chosen_action_value_key
        writes = [action_key, key, chosen]
        super().__init__(
            _with_values(module, in_keys, key),
            QValueModule(
                action_space, key, action_mask_key, writes, None, _composite(spec, action_key), safe, strict_shape
            ),
        )


class DistributionalQValueActor(QValueActor):
    """A network of distributions of action values, and the action of highest mean value.

    Args:
        module: a network of observations, whose result is (*batch, atoms, actions), or a module with keys.
        support: (atoms,), the values that may occur.
        in_keys, spec, safe, action_space, action_value_key, action_mask_key: see `QValueActor`.
        var_nums: see `QValueModule`.
        make_log_softmax: normalize the network's result over atoms, if it is no `DistributionalDQNnet`.
    """

    def __init__(
        self,
        module: Any,
        support: Tensor,
        in_keys: Any = None,
        spec: Any = None,
        safe: bool = False,
        var_nums: Any = None,
        action_space: str | None = None,
        action_value_key: Any = "action_value",
        action_mask_key: Any = None,
        make_log_softmax: bool = True,
    ) -> None:
        network = _with_values(module, in_keys, action_value_key)
        softmax = []
        if make_log_softmax and not isinstance(module, DistributionalDQNnet):
            softmax.append(DistributionalDQNnet(in_keys=[action_value_key], out_keys=[action_value_key]))
        chooser = DistributionalQValueModule(
            action_space, support, action_value_key, action_mask_key, ["action", action_value_key], var_nums,
            _composite(spec, "action"), safe,
        )  # fmt: skip
        SafeSequential.__init__(self, network, *softmax, chooser)
        self.register_buffer("support", support)


def _with_values(module: Any, in_keys: Any, key: Any) -> Any:
    if not (hasattr(module, "in_keys") and hasattr(module, "out_keys")):
        return TensorDictModule(module, in_keys=["observation"] if in_keys is None else in_keys, out_keys=[key])
    if key not in module.out_keys:
        raise KeyError(f"the module writes {module.out_keys}, which lacks the values {key!r}; say action_value_key.")
    return module


def _composite(spec: Any, action_key: Any) -> Any:
    if spec is None or isinstance(spec, Composite):
        return spec
    found = Composite()
    found[action_key] = spec
    return found


def _space(action_space: str | None, spec: Any, action_key: Any, name: str) -> tuple[str, Any]:
    """The name of the action space, and the spec of the action, if there is one."""
    leaf = _action_leaf(spec, action_key, name) if isinstance(spec, Composite) else spec
    found = None
    if leaf is not None:
        found = next((space for kind, space in _SPACE_OF if isinstance(leaf, kind)), type(leaf).__name__)
    asked = None if action_space is None else action_space.replace("-", "_")
    if asked is None and found is None:
        raise ValueError(f"{name}: neither action_space nor spec is given; say which actions there are.")
    if asked is not None and found is not None and asked != found:
        raise ValueError(f"{name}: action_space is {action_space!r}, the spec is of {found!r}; leave one of them out.")
    space = asked if asked is not None else found
    if space not in _SPACES:
        raise ValueError(
            f"{name}: actions of {space!r} cannot be chosen by their values; there are 'one-hot', 'mult-one-hot' and "
            "'categorical'."
        )
    return str(space), leaf


def _action_leaf(spec: Composite, action_key: Any, name: str) -> Any:
    leaves = dict(spec.items(True, True))
    named = [key for key in leaves if (key if isinstance(key, str) else key[-1]) == "action"]
    for key in (action_key, *named):
        if leaves.get(key) is not None:
            return leaves[key]
    raise KeyError(f"{name}: the spec has the keys {list(leaves)}, none of which is the action {action_key!r}.")
