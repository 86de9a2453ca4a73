"""Policies to render."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import TensorDictBase, is_tensor_collection
from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.rl.render.checkpoint import checkpoint_hash, infer_state_dict, load_checkpoint
from flambeau.rl.render.config import RenderConfig, RenderPolicySpec
from flambeau.rl.render.import_utils import call_with_supported_kwargs, import_from_string

__all__ = ["TensorDictPolicyAdapter", "load_render_policy", "normalize_policy"]


# What functions of tensors raise that are given something else.
_NOT_TAKEN = (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)


class TensorDictPolicyAdapter:
    """A policy of tensordicts from a function.

    The function is given the tensordict; where it cannot take that, or writes no action, the observation, and what it
    returns is the action, or the first of a tuple. Which of these it is shows at the first call.

    Args:
        policy: from a tensordict, or from an observation to an action.
        obs_key: of observations.
        action_key: of actions.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> adapter = TensorDictPolicyAdapter(lambda observation: observation + 1, "observation", "action")
        >>> adapter(TensorDict({"observation": torch.zeros(1)}))["action"]
        tensor([1.])
    """

    def __init__(self, policy: Any, obs_key: Any, action_key: Any) -> None:
        self.policy = policy
        self.obs_key = obs_key
        self.action_key = action_key
        self._of_tensordicts: bool | None = None

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write an action.

        Args:
            tensordict: with the observation; changed in place.

        Raises:
            KeyError: there is no observation.
        """
        if self._of_tensordicts is None:
            found = self._tried(tensordict.copy())
            self._of_tensordicts = found is not None
            if found is not None:
                return tensordict.update(found)
        if self._of_tensordicts:
            return tensordict.update(self.policy(tensordict))
        observation = tensordict.get(self.obs_key, None)
        if observation is None:
            raise KeyError(f"The policy reads {self.obs_key!r}; there is {list(tensordict.keys(True, True))}.")
        action = self.policy(observation)
        if is_tensor_collection(action):
            return tensordict.update(action)
        action = action[0] if isinstance(action, tuple) else action
        return tensordict.set(self.action_key, torch.as_tensor(action))

    def _tried(self, tensordict: TensorDictBase) -> Any:
        """What the function makes of a tensordict, if that has an action."""
        try:
            found = self.policy(tensordict)
        except _NOT_TAKEN:
            return None  # it takes tensors; whatever else is wrong shows when it is given some
        return found if is_tensor_collection(found) and found.get(self.action_key, None) is not None else None


def load_render_policy(
    config: RenderConfig, env: Any | None = None, *, checkpoint: Any | None = None, checkpoint_digest: str | None = None
) -> Any:
    """The policy of a configuration, with the parameters of its checkpoint.

    Args:
        config: of the run.
        env: the environment, whose specs the policy's function is given.
        checkpoint: what is in the checkpoint; default: read from `config.ckpt`.
        checkpoint_digest: its SHA-256; default: computed.

    Returns:
        Writes actions into tensordicts.
    """
    checkpoint = load_checkpoint(config.ckpt, config.device) if checkpoint is None else checkpoint
    if config.checkpoint_key is not None:
        checkpoint = checkpoint[config.checkpoint_key]
    device = config.device if config.policy_device is None else config.policy_device
    specs = {name: getattr(env, name, None) for name in ("input_spec", "output_spec")} if env is not None else None
    spec = RenderPolicySpec(
        ckpt_path=config.ckpt, checkpoint=checkpoint, device=device, env_specs=specs, config=config,
        checkpoint_hash=checkpoint_hash(config.ckpt) if checkpoint_digest is None else checkpoint_digest,
        policy_kwargs=dict(config.policy_kwargs or {}),
    )  # fmt: skip
    factory = import_from_string(config.policy) if isinstance(config.policy, str) else config.policy
    policy = call_with_supported_kwargs(factory, spec, {**vars(spec), **spec.policy_kwargs, "env": env})
    if config.auto_load_policy and isinstance(policy, torch.nn.Module):
        policy.load_state_dict(infer_state_dict(checkpoint, config.state_dict_key), strict=config.strict_load)
    if isinstance(policy, torch.nn.Module):
        policy.to(device)
        if config.policy_eval:
            policy.eval()
    return normalize_policy(policy, config)


def normalize_policy(policy: Any, config: RenderConfig) -> Any:
    """A policy of tensordicts: the same, or in a `TensorDictPolicyAdapter`.

    Args:
        policy: of tensordicts, or of tensors.
        config: with the keys of observations and actions.

    Raises:
        TypeError: it cannot be called.
    """
    if isinstance(policy, TensorDictModuleBase | TensorDictPolicyAdapter):
        return policy
    if not callable(policy):
        raise TypeError(f"A policy is called with what is observed; {type(policy).__name__} cannot be called.")
    if hasattr(policy, "in_keys") and hasattr(policy, "out_keys"):
        return policy
    return TensorDictPolicyAdapter(policy, config.obs_key, config.action_key)
