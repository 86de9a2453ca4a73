"""What takes frames of steps."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from flambeau.rl.render.config import FrameBundle, RenderConfig

__all__ = ["RenderBackend"]


@runtime_checkable
class RenderBackend(Protocol):
    """Takes frames of steps.

    Attributes:
        name: as `RenderConfig.render_backend` names it.
    """

    name: str

    def supports(self, env: Any, config: RenderConfig) -> bool:
        """Whether it may get frames of an environment.

        Args:
            env: the environment.
            config: of the run.
        """

    def capture(
        self, env: Any, tensordict: Any, config: RenderConfig, *, step: int, trajectory_index: int
    ) -> FrameBundle | None:
        """Frames of a step, or None where there are none.

        Args:
            env: the environment.
            tensordict: data of the step.
            config: of the run.
            step: number of the step.
            trajectory_index: number of the episode.
        """

    def close(self) -> None:
        """Give back what it holds."""
