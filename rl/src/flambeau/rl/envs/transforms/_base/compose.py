"""`Compose`: transforms one after another."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Self

from torch import nn

from flambeau.rl.envs.transforms._base.transform import Transform, as_transform

__all__ = ["Compose"]


class Compose(Transform):
    """Transforms one after another: what an environment gives passes from the first to the last, what it takes back.

    Args:
        trsfs: transforms, or functions of tensordicts; the first is the nearest to the environment.

    Raises:
        ValueError: one is neither.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> both = Compose(lambda td: td.set("x", td["x"] + 1), lambda td: td.set("x", td["x"] * 2))
        >>> both(TensorDict({"x": 1}))["x"]
        tensor(4)
    """

    def __init__(self, *trsfs: Transform | Callable[[Any], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.transforms = nn.ModuleList([as_transform(each) for each in trsfs])
        for each in self.transforms:
            each.set_container(self)  # type: ignore[operator]

    # Data

    def _in_order(self) -> Any:
        """The transforms, without the detour over a module's attributes, which costs more than some transforms."""
        return self._modules["transforms"]._modules.values()  # type: ignore[union-attr]

    def _call(self, next_tensordict: Any) -> Any:
        for each in self._in_order():
            next_tensordict = each._call(next_tensordict)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Transform data by one transform after the other.

        Args:
            tensordict: changed in place.

        Returns:
            What the last transform made of it; None as soon as one keeps it back.
        """
        for each in self.transforms:
            tensordict = each(tensordict)
            if tensordict is None:
                break
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        for each in self._in_order():
            next_tensordict = each._step(tensordict, next_tensordict)
        return next_tensordict

    def _stored(self, tensordict: Any) -> Any:
        for each in self.transforms:
            tensordict = each._stored(tensordict)  # type: ignore[operator]
        return tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        for each in reversed(self._in_order()):
            tensordict = each._inv_call(tensordict)
            if tensordict is None:
                break
        return tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        for each in self._in_order():
            tensordict_reset = each._reset(tensordict, tensordict_reset)
        return tensordict_reset

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        for each in reversed(self.transforms):
            tensordict = each._reset_env_preprocess(tensordict)  # type: ignore[operator]
        return tensordict

    def init(self, tensordict: Any) -> None:
        """Let every transform find out what it must know of its first data."""
        for each in self.transforms:
            each.init(tensordict)  # type: ignore[operator]

    # Specs

    def _through(self, name: str, value: Any) -> Any:
        for each in self.transforms:
            value = getattr(each, name)(value)
        return value

    def transform_env_device(self, device: Any) -> Any:
        """`transform_env_device` of one transform after the other.

        Args:
            device: what the first is given.
        """
        return self._through("transform_env_device", device)

    def transform_env_batch_size(self, batch_size: Any) -> Any:
        """`transform_env_batch_size` of one transform after the other.

        Args:
            batch_size: what the first is given.
        """
        return self._through("transform_env_batch_size", batch_size)

    def transform_output_spec(self, output_spec: Any) -> Any:
        """`transform_output_spec` of one transform after the other.

        Args:
            output_spec: what the first is given.
        """
        return self._through("transform_output_spec", output_spec)

    def transform_input_spec(self, input_spec: Any) -> Any:
        """`transform_input_spec` of one transform after the other.

        Args:
            input_spec: what the first is given.
        """
        return self._through("transform_input_spec", input_spec)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """`transform_observation_spec` of one transform after the other.

        Args:
            observation_spec: what the first is given.
        """
        return self._through("transform_observation_spec", observation_spec)

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """`transform_reward_spec` of one transform after the other.

        Args:
            reward_spec: what the first is given.
        """
        return self._through("transform_reward_spec", reward_spec)

    def transform_done_spec(self, done_spec: Any) -> Any:
        """`transform_done_spec` of one transform after the other.

        Args:
            done_spec: what the first is given.
        """
        return self._through("transform_done_spec", done_spec)

    def transform_action_spec(self, action_spec: Any) -> Any:
        """`transform_action_spec` of one transform after the other.

        Args:
            action_spec: what the first is given.
        """
        return self._through("transform_action_spec", action_spec)

    def transform_state_spec(self, state_spec: Any) -> Any:
        """`transform_state_spec` of one transform after the other.

        Args:
            state_spec: what the first is given.
        """
        return self._through("transform_state_spec", state_spec)

    def transform_fake_tensordict(self, fake_tensordict: Any) -> Any:
        """`transform_fake_tensordict` of one transform after the other.

        Args:
            fake_tensordict: what the first is given.
        """
        return self._through("transform_fake_tensordict", fake_tensordict)

    # A list

    def append(self, transform: Transform | Callable[[Any], Any]) -> None:
        """One more transform, behind the others.

        Args:
            transform: or a function of tensordicts.
        """
        self.insert(len(self.transforms), transform)

    def insert(self, index: int, transform: Transform | Callable[[Any], Any]) -> None:
        """One more transform at a position.

        Args:
            index: of the new transform; from the end where it is negative.
            transform: or a function of tensordicts.

        Raises:
            ValueError: there is no such position.
        """
        count = len(self.transforms)
        if not -count <= index <= count:
            raise ValueError(f"A Compose of {count} transforms has no position {index} to insert one at.")
        transform = as_transform(transform)
        transform.eval()
        transform.set_container(self)
        self.transforms.insert(index if index >= 0 else count + index, transform)
        self._changed()

    def pop(self, index: int | None = None) -> Transform:
        """Take a transform out, and return it.

        Args:
            index: of the transform; default: the last.
        """
        transform: Any = self.transforms.pop(len(self.transforms) - 1 if index is None else index)
        transform.reset_parent()
        self._changed()
        return transform  # type: ignore[no-any-return]

    def _changed(self) -> None:
        """Forget what is known of the environment, here and there."""
        self.empty_cache()
        container = self.container
        if container is not None and hasattr(container, "empty_cache"):
            container.empty_cache()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.transforms)

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, item: int | slice | list[int]) -> Any:
        if isinstance(item, int):
            return self.transforms[item]
        chosen = self.transforms[item] if isinstance(item, slice) else [self.transforms[at] for at in item]
        out = Compose(*(each.clone() for each in chosen))  # type: ignore[operator]
        owner = self._owner()
        if owner is not None:
            out.set_container(owner)
        return out

    def __setitem__(self, index: int | slice | list[int], value: Any) -> None:
        if isinstance(index, int):
            index, value = [index], [value]
        elif isinstance(index, slice):
            index = list(range(*index.indices(len(self.transforms))))
        for at, each in zip(index, value, strict=True):
            new = as_transform(each)
            self.transforms[at].reset_parent()  # type: ignore[operator]
            new.set_container(self)
            self.transforms[at] = new
        self._changed()

    # Where it is used

    def _environment_below(self, transform: Transform, above: tuple[Transform, ...] = ()) -> Any:
        """The environment as one of the transforms sees it; `above` are those that come before it further in."""
        before = []
        for each in self.transforms:
            if each is transform:
                break
            before.append(each)
        owner = self._owner()
        if owner is None or not hasattr(owner, "_environment_below"):
            return None
        return owner._environment_below(self, (*before, *above))

    def clone(self) -> Self:
        """Clones of the transforms, as part of nothing."""
        twin: Any = super().clone()
        twin.__dict__["_modules"] = dict(self._modules)
        twin.transforms = nn.ModuleList([each.clone() for each in self.transforms])  # type: ignore[operator]
        for each in twin.transforms:
            each.set_container(twin)
        return twin  # type: ignore[no-any-return]

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        for each in self.transforms:
            each.empty_cache()  # type: ignore[operator]
        super().empty_cache()

    def reset_parent(self) -> None:
        """Take the transforms out of what they are part of together."""
        super().reset_parent()
        for each in self.transforms:
            each.__dict__["_parent"] = None

    def set_container(self, container: Any) -> None:
        """Say what the transforms are part of together.

        Args:
            container: another `Compose`, a `TransformedEnv` or a replay buffer.
        """
        super().set_container(container)
        for each in self.transforms:
            # Some transforms look at the environment as soon as there is one.
            each.set_container(self)  # type: ignore[operator]

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say whether data without one of the keys pass untouched.

        Args:
            mode: whether they do.
        """
        for each in self.transforms:
            each.set_missing_tolerance(mode)  # type: ignore[operator]
        super().set_missing_tolerance(mode)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the tensors of all transforms."""
        for each in self.transforms:
            each.to(*args, **kwargs)
        return super().to(*args, **kwargs)

    def close(self) -> None:
        """Let go of what the transforms use."""
        for each in self.transforms:
            each.close()  # type: ignore[operator]

    def dump(self, **kwargs: Any) -> None:
        """Write out what the transforms have recorded.

        Args:
            kwargs: for each transform.
        """
        for each in self.transforms:
            each.dump(**kwargs)  # type: ignore[operator]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        for each in self.transforms:
            each.set_container(self)  # type: ignore[operator]

    def __repr__(self) -> str:
        if not len(self.transforms):
            return f"{type(self).__name__}()"
        parts = ",\n".join(textwrap.indent(repr(each), " " * 8) for each in self.transforms)
        return f"{type(self).__name__}(\n{parts})"
