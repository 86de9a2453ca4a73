"""Frames that environments draw."""

from __future__ import annotations

import inspect
from typing import Any

from flambeau.rl.render.config import FrameBundle, RenderConfig
from flambeau.rl.render.video import normalize_frame_output

__all__ = ["EnvRenderBackend"]


class EnvRenderBackend:
    """Takes what an environment's `render` returns, with the camera's name where `render` takes one."""

    name = "env"

    def supports(self, env: Any, config: RenderConfig) -> bool:
        """Whether there is a `render`, see `RenderBackend`."""
        return callable(_render(env))

    def capture(
        self, env: Any, tensordict: Any, config: RenderConfig, *, step: int, trajectory_index: int
    ) -> FrameBundle | None:
        """Frames that the environment draws, see `RenderBackend`."""
        render = _render(env)
        if render is None:
            return None
        drawn = self._drawn(render, config)
        if drawn is None or (isinstance(drawn, list | tuple | dict) and not drawn):
            return None
        frames = normalize_frame_output(drawn)
        if list(frames) == ["camera"]:
            frames = {config.camera[0] if config.camera else "default": frames["camera"]}
        return FrameBundle(frames, step, trajectory_index, metadata={"backend": self.name})

    @staticmethod
    def _drawn(render: Any, config: RenderConfig) -> Any:
        cameras = [name for name in config.camera if name != "default"]
        takes_camera = "camera_name" in inspect.signature(render).parameters
        if cameras and takes_camera:
            return {name: render(camera_name=name) for name in cameras}
        return render()

    def close(self) -> None:
        """Nothing to give back."""


def _render(env: Any) -> Any:
    """The method that draws: the environment's, or that of the one inside of it."""
    while env is not None:
        render = getattr(env, "render", None)
        if callable(render) and getattr(env, "render_mode", "") is not None:  # gymnasium's draw nothing without one
            return render
        env = getattr(env, "base_env", None) or getattr(env, "_env", None)
    return None
