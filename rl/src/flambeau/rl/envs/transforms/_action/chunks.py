"""Chunks of actions, which policies learn to give at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._observation.cat_frames import CatFrames
from flambeau.rl.envs.transforms._observation.shapes import UnsqueezeTransform

__all__ = ["ActionChunkTransform"]


class ActionChunkTransform(Compose):
    """For every step of data its action and the next ones, as targets of policies that give several at once.

    Chunks end where an episode does, or the data: the last action is repeated then, and masked. Data alone are changed,
    as a buffer gives them; environments take and give the same as without it. `MultiAction` executes chunks.

    Args:
        chunk_size: number of actions H, at least 1.
        action_key: of actions (*batch, time, size).
        chunk_key: where to write (*batch, time, H, size).
        pad_key: where to write a mask of what is repeated, (*batch, time, H), bool.
        time_dim: the dimension of time of the action, the last but one.
        done_key: of ends (*batch, time, 1) or (*batch, time), below "next"; where data have none, or for None, each
            row is of one episode.

    Raises:
        ValueError: there is no action in a chunk; when it is called: actions or ends are of another shape.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> data = ActionChunkTransform(2)(TensorDict({"action": torch.arange(3.0).view(1, 3, 1)}, [1, 3]))
        >>> data["vla_action", "chunk"].squeeze().tolist()
        [[0.0, 1.0], [1.0, 2.0], [2.0, 2.0]]

    References:
        T. Z. Zhao, V. Kumar, S. Levine, C. Finn, Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware,
        arXiv:2304.13705.
    """

    action_key: NestedKey
    chunk_key: NestedKey
    pad_key: NestedKey
    done_key: NestedKey | None

    def __init__(
        self,
        chunk_size: int,
        *,
        action_key: NestedKey = "action",
        chunk_key: NestedKey = ("vla_action", "chunk"),
        pad_key: NestedKey = "action_is_pad",
        time_dim: int = -2,
        done_key: NestedKey | None = "done",
    ) -> None:
        if chunk_size < 1:
            raise ValueError(f"ActionChunkTransform: chunk_size is {chunk_size}, expected at least 1.")
        super().__init__(
            UnsqueezeTransform(dim=-2, in_keys=[action_key], out_keys=[chunk_key]),
            CatFrames(N=chunk_size, dim=-2, in_keys=[chunk_key], future=True, mask_key=pad_key),
        )
        self.chunk_size = chunk_size
        self.time_dim = time_dim
        self.action_key = action_key
        self.chunk_key = chunk_key
        self.pad_key = pad_key
        self.done_key = done_key

    def forward(self, tensordict: Any) -> Any:
        """Add chunks of actions to data.

        Args:
            tensordict: with actions (*batch, time, size); changed in place.

        Raises:
            KeyError: there is no action.
            ValueError: actions or ends are of another shape.
        """
        action = tensordict.get(self.action_key, None)
        if action is None:
            raise self._missing(self.action_key, tensordict)
        if action.ndim < 2 or self.time_dim not in (-2, action.ndim - 2):
            raise ValueError(
                "ActionChunkTransform: the dimension of time is the last but one of actions (*batch, time, size); "
                f"got actions of shape {tuple(action.shape)} and time_dim={self.time_dim}."
            )
        frames: Any = self.transforms[1]
        time = action.ndim - 2
        index, real = frames._index(self._ends(tensordict, action), time)
        tensordict.set(self.chunk_key, frames._frames(action, time, index, real))
        return tensordict.set(self.pad_key, ~real)

    def _ends(self, tensordict: Any, action: Tensor) -> Tensor:
        """Ends of episodes, (*batch, time, 1)."""
        shape = torch.Size([*action.shape[:-1], 1])
        done = None if self.done_key is None else tensordict.get(("next", *as_tuple(self.done_key)), None)
        if done is None:
            return torch.zeros(shape, dtype=torch.bool, device=action.device)
        if done.shape not in (shape, shape[:-1]):
            raise ValueError(
                f"ActionChunkTransform: ends at {('next', self.done_key)} have shape {tuple(done.shape)}, actions "
                f"{tuple(action.shape)}; expected {tuple(shape)}, or done_key=None for rows of one episode each."
            )
        return done.reshape(shape)  # type: ignore[no-any-return]

    # Environments are left alone.

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return tensordict_reset

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The same specs.

        Args:
            input_spec: a composite.
        """
        return input_spec

    def transform_output_spec(self, output_spec: Any) -> Any:
        """The same specs.

        Args:
            output_spec: a composite.
        """
        return output_spec
