"""No frames."""

from __future__ import annotations

from typing import Any

__all__ = ["NullRenderBackend"]


class NullRenderBackend:
    """Takes no frames of any environment."""

    name = "null"

    def supports(self, env: Any, config: Any) -> bool:
        """Always True, see `RenderBackend`."""
        return True

    def capture(self, env: Any, tensordict: Any, config: Any, *, step: int, trajectory_index: int) -> None:
        """None, see `RenderBackend`."""

    def close(self) -> None:
        """Nothing to give back."""
