"""Weights of policies of small control problems; they are part of the package and need no network."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["CartPole_Policy_Weights", "Pendulum_Policy_Weights"]

_TRANSFORMS = lazy("flambeau.rl.models.control:Observations")


class CartPole_Policy_Weights(WeightsEnum):
    """Weights of `models.cartpole_policy`."""

    PPO_V1 = Weights(
        url="package:flambeau.rl/weights/embedded/cartpole_policy-ppo_v1-74abcf13.safetensors",
        transforms=_TRANSFORMS,
        meta={
            "num_params": 4_610,
            "environment": "CartPole-v1",
            "categories": ["left", "right"],
            "recipe": "rl/recipes/control_policies.py",
            "license": "BSD-3-Clause",
            "_metrics": {"CartPole-v1, 100 episodes": {"return": 500.0, "standard deviation": 0.0}},
            "_file_size": 0.019,
            "_docs": "Trained by PPO for 40,000 steps; 500 is the most that an episode can give.",
        },
        sha256="74abcf13369bf818127620430ef50851e726360a17f51b4628d936c7ea998244",
        size=18_880,
    )
    DEFAULT = PPO_V1


class Pendulum_Policy_Weights(WeightsEnum):
    """Weights of `models.pendulum_policy`."""

    SAC_V1 = Weights(
        url="package:flambeau.rl/weights/embedded/pendulum_policy-sac_v1-6feec16b.safetensors",
        transforms=_TRANSFORMS,
        meta={
            "num_params": 4_481,
            "environment": "Pendulum-v1",
            "recipe": "rl/recipes/control_policies.py",
            "license": "BSD-3-Clause",
            "_metrics": {"Pendulum-v1, 100 episodes": {"return": -140.2, "standard deviation": 93.6}},
            "_file_size": 0.018,
            "_docs": "Trained by SAC for 20,000 steps.",
        },
        sha256="6feec16b942461cb2d1e1e8a75b18374f862c1c439e3f0add3fe2c01e8c561e9",
        size=18_364,
    )
    DEFAULT = SAC_V1
