"""Controllers of divergences, and rollouts of language models; see `kl_controllers` and `model_rollouts`."""

from __future__ import annotations

from flambeau.rl.data.llm.kl_controllers import AdaptiveKLController, ConstantKLController, KLControllerBase
from flambeau.rl.data.llm.model_rollouts import RolloutFromModel

__all__ = ["AdaptiveKLController", "ConstantKLController", "KLControllerBase", "RolloutFromModel"]
