"""Trainers of algorithms: the loss, the buffer, the order of things, and what is logged."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.trainers.algorithms.a2c import A2CTrainer as A2CTrainer
    from flambeau.rl.trainers.algorithms.cql import CQLTrainer as CQLTrainer
    from flambeau.rl.trainers.algorithms.ddpg import DDPGTrainer as DDPGTrainer
    from flambeau.rl.trainers.algorithms.dqn import DQNTrainer as DQNTrainer
    from flambeau.rl.trainers.algorithms.dreamer_v3 import DreamerV3OptimizationStepper as DreamerV3OptimizationStepper
    from flambeau.rl.trainers.algorithms.dreamer_v3 import DreamerV3Optimizer as DreamerV3Optimizer
    from flambeau.rl.trainers.algorithms.dreamer_v3 import DreamerV3UpdateRatio as DreamerV3UpdateRatio
    from flambeau.rl.trainers.algorithms.grpo import GRPOTrainer as GRPOTrainer
    from flambeau.rl.trainers.algorithms.iql import IQLTrainer as IQLTrainer
    from flambeau.rl.trainers.algorithms.offline_to_online import OfflineToOnlineTrainer as OfflineToOnlineTrainer
    from flambeau.rl.trainers.algorithms.on_policy import OnPolicyTrainer as OnPolicyTrainer
    from flambeau.rl.trainers.algorithms.ppo import PPOTrainer as PPOTrainer
    from flambeau.rl.trainers.algorithms.reinforce import ReinforceTrainer as ReinforceTrainer
    from flambeau.rl.trainers.algorithms.sac import SACTrainer as SACTrainer
    from flambeau.rl.trainers.algorithms.td3 import TD3OptimizationStepper as TD3OptimizationStepper
    from flambeau.rl.trainers.algorithms.td3 import TD3Trainer as TD3Trainer

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "a2c": ("A2CTrainer",),
        "cql": ("CQLTrainer",),
        "ddpg": ("DDPGTrainer",),
        "dqn": ("DQNTrainer",),
        "dreamer_v3": ("DreamerV3OptimizationStepper", "DreamerV3Optimizer", "DreamerV3UpdateRatio"),
        "grpo": ("GRPOTrainer",),
        "iql": ("IQLTrainer",),
        "offline_to_online": ("OfflineToOnlineTrainer",),
        "on_policy": ("OnPolicyTrainer",),
        "ppo": ("PPOTrainer",),
        "reinforce": ("ReinforceTrainer",),
        "sac": ("SACTrainer",),
        "td3": ("TD3OptimizationStepper", "TD3Trainer"),
    },
)
