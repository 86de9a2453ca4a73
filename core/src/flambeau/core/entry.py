"""What a registry holds under one name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a registry.

    Attributes:
        kind: the registry's kind, such as "models".
        plugin: name of the plugin it belongs to, the first half of its id.
        name: its name within the plugin; for weights `model:member`.
        target: what it stands for: the object, or its address `module:attribute`.
        info: what is known about it without importing it; the manifest's record where there is one.
        origin: distribution and version that it comes from, or the module, where no plugin is installed for it.
    """

    kind: str
    plugin: str
    name: str
    target: Any
    info: dict[str, Any] = field(default_factory=dict, hash=False)
    origin: str = ""

    @property
    def id(self) -> str:
        """The canonical id, `plugin/name`."""
        return f"{self.plugin}/{self.name}"
