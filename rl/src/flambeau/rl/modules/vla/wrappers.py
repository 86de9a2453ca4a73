"""Policies of other libraries."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, Self

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.modules.vla.common import VLAWrapperBase

__all__ = ["LeRobotPolicyWrapper"]


class LeRobotPolicyWrapper(VLAWrapperBase):
    """A policy of LeRobot, or one that is called like it, with keys of this library.

    The policy is given a dictionary with "observation.images.CAMERA", "observation.state" and "task", a list of texts,
    and gives chunks of actions (B, H, size).

    Args:
        policy: is asked by its `predict_action_chunk`, `select_action` or `forward`, or called.
        action_dim: size of actions.
        chunk_size: number of actions H.
        predict_fn: from the policy and the dictionary to chunks, instead.
        camera_name: name of the camera.
        use_state: give states.
        image_key: of images (B, channels, height, width).
        state_key: of states (B, size).
        instruction_key: of texts.
        input_mode: as for `VLAWrapperBase`, like what follows.
        output_mode: what is written.
        inplace: where to write.

    Raises:
        TypeError: when it is called: the policy cannot be asked.
        ValueError: when it is called: what it gives is of another shape.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> still = lambda batch: torch.zeros(2, 4, 7)
        >>> policy = LeRobotPolicyWrapper(still, action_dim=7, chunk_size=4, use_state=False)
        >>> data = TensorDict({"observation": {"image": torch.zeros(2, 3, 8, 8)}, "language_instruction": "pick"}, [2])
        >>> policy(data)["vla_action", "chunk"].shape
        torch.Size([2, 4, 7])
    """

    def __init__(
        self, policy: Any, *, action_dim: int, chunk_size: int, predict_fn: Callable[[Any, Any], Tensor] | None = None,
        camera_name: str = "image", use_state: bool = True, image_key: Any = ("observation", "image"),
        state_key: Any = ("observation", "state"), instruction_key: Any = "language_instruction",
        input_mode: Literal["canonical", "preprocessed"] = "canonical",
        output_mode: Literal["chunk", "tokens", "both"] | None = None, inplace: Any = True,
    ) -> None:  # fmt: skip
        super().__init__(
            action_dim=action_dim, chunk_size=chunk_size, use_state=use_state, image_key=image_key, state_key=state_key,
            instruction_key=instruction_key, input_mode=input_mode, output_mode=output_mode, inplace=inplace,
        )  # fmt: skip
        self.policy = policy
        self.predict_fn = predict_fn
        self.camera_name = camera_name

    @classmethod
    def from_pretrained(cls, repo_id: str, *, action_dim: int, chunk_size: int, **kwargs: Any) -> Self:
        """A published policy of LeRobot.

        Args:
            repo_id: its name on the Hugging Face hub, or a folder.
            action_dim: size of actions.
            chunk_size: number of actions.
            kwargs: further arguments of the class.

        Raises:
            ImportError: lerobot is not installed.
        """
        try:
            configs = importlib.import_module("lerobot.configs.policies")
            factory = importlib.import_module("lerobot.policies.factory")
        except ImportError as error:
            raise ImportError(
                "LeRobotPolicyWrapper.from_pretrained needs lerobot, which is not installed. Run: pip install lerobot"
            ) from error
        config = configs.PreTrainedConfig.from_pretrained(repo_id)
        policy = factory.get_policy_class(config.type).from_pretrained(repo_id)
        return cls(policy.eval(), action_dim=action_dim, chunk_size=chunk_size, **kwargs)

    def _predict(self, tensordict: TensorDictBase) -> Tensor:
        batch: dict[str, Any] = {f"observation.images.{self.camera_name}": self._get_image(tensordict)}
        if self.use_state:
            batch["observation.state"] = self._get_state(tensordict)
        batch["task"] = self._get_instruction(tensordict)
        chunk = torch.as_tensor(self._asked(batch))
        if chunk.shape[-2:] != (self.chunk_size, self.action_dim):
            raise ValueError(
                f"LeRobotPolicyWrapper: the policy gave actions of shape {tuple(chunk.shape)}, expected (..., "
                f"{self.chunk_size}, {self.action_dim})."
            )
        return chunk

    def _asked(self, batch: dict[str, Any]) -> Any:
        if self.predict_fn is not None:
            return self.predict_fn(self.policy, batch)
        for name in ("predict_action_chunk", "select_action", "forward"):
            ask = getattr(self.policy, name, None)
            if callable(ask):
                return ask(batch)
        if callable(self.policy):
            return self.policy(batch)
        raise TypeError(
            f"LeRobotPolicyWrapper: {type(self.policy).__name__} has no predict_action_chunk, select_action or "
            "forward, and cannot be called; give predict_fn."
        )
