"""Frames among the data of steps."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.envs._keys import as_tuple
from flambeau.rl.render.config import FrameBundle, RenderConfig, key_to_string
from flambeau.rl.render.video import normalize_frame_output

__all__ = ["TensorDictPixelsBackend"]


class TensorDictPixelsBackend:
    """Takes frames at the key `pixel_key` of data, or below "next"."""

    name = "pixels"

    def supports(self, env: Any, config: RenderConfig) -> bool:
        """Always True: data say it, see `RenderBackend`."""
        return True

    def capture(
        self, env: Any, tensordict: Any, config: RenderConfig, *, step: int, trajectory_index: int
    ) -> FrameBundle | None:
        """Frames of the data, see `RenderBackend`."""
        for key in (as_tuple(config.pixel_key), ("next", *as_tuple(config.pixel_key))):
            found = tensordict.get(key, None)
            if found is None:
                continue
            if is_tensor_collection(found):
                frames = normalize_frame_output(dict(found.items()))
            else:
                frame = normalize_frame_output(found)["camera"]
                frames = {config.camera[0] if config.camera else "default": frame}
            about = {"backend": self.name, "pixel_key": key_to_string(key)}
            return FrameBundle(frames, step, trajectory_index, metadata=about)
        return None

    def close(self) -> None:
        """Nothing to give back."""
