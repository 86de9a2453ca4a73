"""Which version of a policy each step was made with."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import torch

from flambeau.data.tensordict import NonTensorData, NonTensorStack
from flambeau.rl.data.tensor_specs import Composite, NonTensor, Unbounded
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["PolicyVersion", "VersionChange"]


@dataclass
class VersionChange:
    """When the version changed.

    Args:
        timestamp: local time.
        old_version: before; None at the beginning.
        new_version: since.
    """

    timestamp: datetime
    old_version: str | int | None
    new_version: str | int


class PolicyVersion(Transform):
    """Writes the version of the policy at "policy_version" of every step.

    A collector that tracks versions counts on with every update of its policy's weights.

    Args:
        version_type: int or "int": counts from 0; str or "uuid": a new random identifier each time.

    Raises:
        ValueError: another type.

    Example:
        >>> version = PolicyVersion()
        >>> version.increment_version()
        >>> version.version
        1
    """

    def __init__(self, version_type: type | Literal["uuid", "int"] = int) -> None:
        types: dict[Any, type] = {int: int, "int": int, str: str, "uuid": str}
        if version_type not in types:
            raise ValueError(f"version_type is int, 'int', str or 'uuid'; got {version_type!r}.")
        super().__init__()
        self.version_type = version_type
        self._counts = types[version_type] is int
        self.version_history: list[VersionChange] = []
        self._current_version: str | int | None = None
        self._change(0)
        self.cal_on_reset = True

    def _change(self, number: int) -> None:
        new: str | int = number if self._counts else str(uuid.uuid4())
        self.version_history.append(VersionChange(datetime.now(), self._current_version, new))
        self._current_version = new

    def increment_version(self) -> None:
        """Go on to the next version."""
        current = self._current_version
        self._change(current + 1 if isinstance(current, int) else 0)

    @property
    def version(self) -> str | int:
        """The version that steps are made with now."""
        assert self._current_version is not None
        return self._current_version

    def _written(self, tensordict: Any) -> Any:
        size, version = tensordict.batch_size, self.version
        if isinstance(version, int):
            value: Any = torch.full(size, version, dtype=torch.int64, device=tensordict.device)
        else:
            value = NonTensorData(version, [])
            for length in reversed(size):
                value = NonTensorStack(*[value.clone() for _ in range(length)])
        return tensordict.set("policy_version", value)

    def _call(self, next_tensordict: Any) -> Any:
        return self._written(next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._written(tensordict_reset)

    def forward(self, tensordict: Any) -> Any:
        """Write the version into data.

        Args:
            tensordict: changed in place.
        """
        return self._written(tensordict)

    def transform_observation_spec(self, spec: Composite) -> Composite:  # type: ignore[override]
        """With the version.

        Args:
            spec: a composite.
        """
        counted = self._counts
        shape, device = spec.shape, spec.device
        spec["policy_version"] = (
            Unbounded(shape, dtype=torch.int64, device=device)
            if counted
            else NonTensor(shape, example_data=self.version)
        )
        return spec
