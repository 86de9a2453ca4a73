"""Where data of models of vision, language and action lie in tensordicts."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase

__all__ = [
    "ACTION_CHUNK_KEY",
    "ACTION_IS_PAD_KEY",
    "ACTION_KEY",
    "ACTION_TOKENS_KEY",
    "IMAGE_KEY",
    "INSTRUCTION_KEY",
    "OBSERVATION_KEY",
    "STATE_KEY",
    "VLA_ACTION_KEY",
    "validate_vla_tensordict",
]

OBSERVATION_KEY = "observation"
IMAGE_KEY = (OBSERVATION_KEY, "image")
STATE_KEY = (OBSERVATION_KEY, "state")
INSTRUCTION_KEY = "language_instruction"
ACTION_KEY = "action"
VLA_ACTION_KEY = "vla_action"
ACTION_CHUNK_KEY = (VLA_ACTION_KEY, "chunk")
ACTION_TOKENS_KEY = (VLA_ACTION_KEY, "tokens")
ACTION_IS_PAD_KEY = "action_is_pad"


def validate_vla_tensordict(
    tensordict: TensorDictBase, *, instruction_key: Any = INSTRUCTION_KEY, action_key: Any = ACTION_KEY,
    image_key: Any = IMAGE_KEY, state_key: Any = STATE_KEY, require_instruction: bool = True,
    require_action: bool = True, require_perception: bool = True, check_finite: bool = True,
    raise_on_error: bool = True,
) -> list[str]:  # fmt: skip
    """Check that a tensordict has what models of vision, language and action read.

    Args:
        tensordict: to check.
        instruction_key: of the instruction, a text.
        action_key: of actions.
        image_key: of images.
        state_key: of what the robot knows of itself.
        require_instruction: whether there must be an instruction.
        require_action: whether there must be actions.
        require_perception: whether there must be images or states.
        check_finite: whether actions must be finite.
        raise_on_error: raise what is wrong; otherwise return it.

    Returns:
        What is wrong, a sentence each.

    Raises:
        ValueError: something is wrong.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> data = TensorDict({"action": torch.ones(2)})
        >>> validate_vla_tensordict(data, require_perception=False, raise_on_error=False)
        ["there is no instruction at 'language_instruction'"]
    """
    wrong = []
    if require_instruction and tensordict.get(instruction_key, None) is None:
        wrong.append(f"there is no instruction at {instruction_key!r}")
    seen = [tensordict.get(key, None) is not None for key in (image_key, state_key)]
    if require_perception and not any(seen):
        wrong.append(f"there are neither images at {image_key!r} nor states at {state_key!r}")
    action = tensordict.get(action_key, None)
    if action is None:
        if require_action:
            wrong.append(f"there is no action at {action_key!r}")
    elif check_finite and isinstance(action, Tensor) and action.is_floating_point() and not action.isfinite().all():
        wrong.append(f"actions at {action_key!r} are not all finite")
    if wrong and raise_on_error:
        raise ValueError("The tensordict cannot be read by models of vision, language and action: " + "; ".join(wrong))
    return wrong
