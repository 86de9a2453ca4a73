"""Modules with specs of what they write, and small modules that others are made with."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn.common import TensorDictModule, TensorDictModuleBase, dispatch
from flambeau.rl.data.tensor_specs import Composite, TensorSpec

__all__ = [
    "DistributionalDQNnet",
    "SafeModule",
    "VmapModule",
    "ensure_tensordict_compatible",
    "is_tensordict_compatible",
]


def composite_of(spec: Any, out_keys: list[Any], name: str) -> Composite:
    """A composite spec with exactly the keys that a module writes; None where nothing is known of one.

    Args:
        spec: None, the spec of the one key, or a composite of some keys.
        out_keys: what the module writes.
        name: of the module, for messages.

    Raises:
        RuntimeError: one spec for several keys, or a spec of a key that is not written.
    """
    if spec is None:
        found = Composite()
    elif isinstance(spec, Composite):
        found = spec.clone()
    elif isinstance(spec, TensorSpec):
        if len(out_keys) > 1:
            raise RuntimeError(
                f"{name} writes {out_keys}, but got one spec; give a Composite that says which of them it is of."
            )
        found = Composite()
        found[out_keys[0]] = spec
    else:
        raise TypeError(f"{name}: spec is a {type(spec).__name__}, expected a TensorSpec or None.")
    known = set(found.keys(True, True))
    for key in out_keys:
        if key not in known and not any(
            isinstance(one, tuple) and one[: len(_parts(key))] == _parts(key) for one in known
        ):
            found[key] = None
    surplus = [
        one
        for one in known
        if one not in out_keys and not any(_parts(one)[: len(_parts(k))] == _parts(k) for k in out_keys)
    ]
    if surplus:
        raise RuntimeError(
            f"{name} writes {out_keys}, but the spec keys are {sorted(map(str, known))}; they must match."
        )
    return found


def _parts(key: Any) -> tuple[Any, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def project_outputs(tensordict: Any, spec: Composite | None) -> None:
    """Put what lies outside of its spec back into it, entry by entry."""
    if spec is None:
        return
    for key, leaf in spec.items(True, True):
        if leaf is not None:
            value = tensordict.get(key, None)
            if value is not None:
                tensordict.set(key, leaf.project(value))


class Specified:
    """What modules with specs share: `spec`, and random outputs."""

    _spec: Composite | None
    safe: bool

    def register_spec(self, safe: bool, spec: Any) -> None:
        """Take a spec of what is written.

        Args:
            safe: project outputs into it.
            spec: see `SafeModule`.

        Raises:
            RuntimeError: `safe` without a spec, or one that does not match.
        """
        name = type(self).__name__
        keys: list[Any] = self.out_keys_source  # type: ignore[attr-defined]
        self.__dict__["_spec"] = composite_of(spec, keys, name)
        self.safe = safe
        if safe and spec is None:
            raise RuntimeError(f"{name}(spec=None, safe=True): there is no spec to project into; give `spec`.")

    @property
    def spec(self) -> Composite:
        """What is known of the outputs, with None for those of which nothing is."""
        return self.__dict__["_spec"]  # type: ignore[no-any-return]

    @spec.setter
    def spec(self, spec: Composite) -> None:
        if not isinstance(spec, Composite):
            raise RuntimeError(
                f"{type(self).__name__}.spec is to be a {type(spec).__name__}, expected a Composite with the keys "
                f"{self.out_keys_source}."
            )
        self.__dict__["_spec"] = spec

    def random(self, tensordict: Any) -> Any:
        """Write a random element of the first output's spec.

        Args:
            tensordict: receives it, for its batch.

        Raises:
            RuntimeError: there is no spec of it.
        """
        key = self.out_keys_source[0]  # type: ignore[attr-defined]
        leaf = self.spec.get(key, None) if key in self.spec.keys(True) else None
        if leaf is None:
            raise RuntimeError(f"{type(self).__name__}.random: there is no spec of {key!r}; give `spec`.")
        batch = tensordict.batch_size
        inner = leaf.shape
        fits = len(inner) >= len(batch) and tuple(inner[: len(batch)]) == tuple(batch)
        return tensordict.set(key, leaf.rand() if fits and len(batch) else leaf.rand(batch))

    def random_sample(self, tensordict: Any) -> Any:
        """The same as `random`."""
        return self.random(tensordict)


class SafeModule(Specified, TensorDictModule):
    """A `TensorDictModule` that knows the domain of what it writes.

    Args:
        module: a module or function of tensors.
        in_keys: the entries that it reads.
        out_keys: the entries that it writes.
        spec: the domain of the one output, or a `Composite` of the outputs' domains.
        safe: project outputs into their domain, at some cost.
        inplace: see `TensorDictModule`.

    Raises:
        RuntimeError: `safe` without a spec, or a spec with other keys than the outputs'.

    Example:
        >>> from flambeau.rl.data.tensor_specs import Bounded
        >>> actor = SafeModule(nn.Linear(3, 2), ["obs"], ["action"], spec=Bounded(-1, 1, (2,)), safe=True)
        >>> bool((actor(TensorDict(obs=torch.full((3,), 100.0)))["action"].abs() <= 1).all())
        True
    """

    def __init__(
        self,
        module: Any,
        in_keys: Any,
        out_keys: Any,
        spec: Any = None,
        safe: bool = False,
        inplace: bool | str | None = True,
    ) -> None:
        super().__init__(module, in_keys, out_keys, inplace=inplace)  # type: ignore[arg-type]
        self.register_spec(safe, spec)

    def _write(self, tensordict: Any, results: Any, tensordict_out: Any) -> Any:
        out = super()._write(tensordict, results, tensordict_out)
        if self.safe:
            project_outputs(out, self.spec)
        return out

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move or cast the module, and its spec."""
        result = super().to(*args, **kwargs)
        if (spec := self.__dict__.get("_spec")) is not None:
            for target in (*args, *kwargs.values()):
                if isinstance(target, (torch.device, torch.dtype, str)):
                    spec = spec.to(target)
            self.__dict__["_spec"] = spec
        return result


def _forward_hook_safe_action(module: Any, tensordict_in: Any, tensordict_out: Any) -> None:
    project_outputs(tensordict_out, module.spec)


def is_tensordict_compatible(module: Any) -> bool:
    """Whether a module takes a tensordict: it has keys, or its `forward` one argument called `tensordict`.

    Raises:
        TypeError: it has keys, but `forward` has other required arguments too.
    """
    parameters = inspect.signature(module.forward).parameters
    required = [
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    if isinstance(module, TensorDictModuleBase) or (hasattr(module, "in_keys") and hasattr(module, "out_keys")):
        if len(required) > 1:
            raise TypeError(
                f"{type(module).__name__} has in_keys and out_keys, but its forward takes {required}; it should take "
                "a tensordict alone."
            )
        return True
    return required == ["tensordict"]


def ensure_tensordict_compatible(
    module: Any,
    in_keys: list[Any] | None = None,
    out_keys: list[Any] | None = None,
    safe: bool = False,
    wrapper_type: Any = TensorDictModule,
    **kwargs: Any,
) -> Any:
    """The module itself if it takes a tensordict, else wrapped.

    Args:
        module: any module.
        in_keys: what it reads; its own, if it says what these are.
        out_keys: what it writes, alike.
        safe: of the wrapper, if it takes this.
        wrapper_type: what to wrap it in.
        **kwargs: of the wrapper.

    Raises:
        TypeError: the keys are not the module's.
    """
    if is_tensordict_compatible(module):
        for name, wanted in (("in_keys", in_keys), ("out_keys", out_keys)):
            own = getattr(module, name, None)
            if wanted is not None and own is not None and set(wanted) != set(own):
                raise TypeError(f"{type(module).__name__} has {name} {own}, expected {wanted}; leave `{name}` out.")
        return module
    if not isinstance(module, nn.Module):
        raise TypeError(f"expected a module, got a {type(module).__name__}.")
    options = dict(kwargs)
    if safe:
        options["safe"] = safe
    return wrapper_type(module, in_keys=in_keys, out_keys=out_keys, **options)


class VmapModule(TensorDictModuleBase):
    """Run a module that knows nothing of one batch dimension, for each element along it.

    Args:
        module: reads and writes tensordicts.
        vmap_dim: which dimension; the last unless given.
        mock: run the module as it is, for networks that cannot be vmapped yet, such as lazy ones.
    """

    def __init__(self, module: TensorDictModuleBase, vmap_dim: int | None = None, mock: bool = False) -> None:
        super().__init__()
        self.module, self.vmap_dim, self.mock = module, vmap_dim, mock
        self.in_keys, self.out_keys = module.in_keys, module.out_keys
        if torch.torch_version.TorchVersion(torch.__version__) < "2.0":
            raise RuntimeError("VmapModule needs torch.vmap, of torch 2.0 or newer.")

    def mock_(self, value: bool = True) -> None:
        """Turn `mock` on or off."""
        self.mock = value

    def forward(self, tensordict: Any) -> Any:
        """Run the module on each element."""
        if self.mock:
            return self.module(tensordict)
        dim = tensordict.ndim - 1 if self.vmap_dim is None else self.vmap_dim
        out = torch.vmap(self.module, (dim,), (dim,))(tensordict)
        return tensordict.update(out.select(*self.out_keys, strict=False))


class DistributionalDQNnet(TensorDictModuleBase):
    """The log-softmax over atoms of distributions of action values (Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        in_keys: of values (*batch, atoms, actions); ["action_value"] unless given.
        out_keys: of their logarithms of probabilities; the same unless given.
    """

    def __init__(self, *, in_keys: Any = None, out_keys: Any = None) -> None:
        super().__init__()
        self.in_keys = ["action_value"] if in_keys is None else in_keys
        self.out_keys = ["action_value"] if out_keys is None else out_keys

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase) -> Any:
        """Normalize over the last dimension but one.

        Raises:
            RuntimeError: an entry has fewer than two dimensions.
        """
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            value: Tensor = tensordict.get(source)
            if value.ndim < 2:
                raise RuntimeError(
                    f"DistributionalDQNnet: {source!r} has shape {tuple(value.shape)}, expected (..., atoms, actions)."
                )
            tensordict.set(target, value.log_softmax(-2))
        return tensordict
