"""What goes into and comes out of reading checkpoints: options, results, errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flambeau.core.errors import FlambeauError

__all__ = ["CheckpointError", "CheckpointLoadResult", "CheckpointOptions"]


class CheckpointError(FlambeauError, RuntimeError):
    """A checkpoint cannot be restored, or not all of it.

    Attributes:
        result: what was restored and what not; None where nothing was tried.
    """

    def __init__(self, message: str, result: CheckpointLoadResult | None = None) -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class CheckpointOptions:
    """Arguments for the methods by which a component is written and read.

    Args:
        save_args: for `dump`, behind the path, or for `state_dict`.
        save_kwargs: as above, by name.
        load_args: for `load`, behind the path, or for `load_state_dict`, behind the state.
        load_kwargs: as above, by name.
    """

    save_args: tuple[Any, ...] | None = None
    save_kwargs: Mapping[str, Any] | None = None
    load_args: tuple[Any, ...] | None = None
    load_kwargs: Mapping[str, Any] | None = None

    def merged(self, override: CheckpointOptions | None) -> CheckpointOptions:
        """These options with others over them: arguments by name are joined, those by place replaced."""
        if override is None:
            return self
        return CheckpointOptions(
            self.save_args if override.save_args is None else override.save_args,
            {**(self.save_kwargs or {}), **(override.save_kwargs or {})},
            self.load_args if override.load_args is None else override.load_args,
            {**(self.load_kwargs or {}), **(override.load_kwargs or {})},
        )


@dataclass
class CheckpointLoadResult:
    """What `Checkpoint.load` did.

    Attributes:
        loaded: components that were restored.
        missing: components that were asked for and are not in the checkpoint.
        incompatible: components that could not be restored, with the reason.
        unrequested: components in the checkpoint that were not asked for.
        values: what adapters returned, by component.
        manifest: the checkpoint's description of itself.
        comparison: "versions" of libraries then and now, and whether they differ: "version_skew".
    """

    loaded: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    incompatible: dict[str, str] = field(default_factory=dict)
    unrequested: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    comparison: dict[str, Any] = field(default_factory=dict)
