"""The protocol of everything that can be saved and taken up again."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """Has a state that can be saved and loaded."""

    def state_dict(self) -> dict[str, Any]:
        """The present state, in values that pickle."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        ...
