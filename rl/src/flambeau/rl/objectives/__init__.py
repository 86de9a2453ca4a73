"""What agents are trained for: returns, advantages and losses."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "a2c": ("A2CLoss",),
        "common": ("LossModule", "add_random_module"),
        "crossq": ("CrossQLoss",),
        "ddpg": ("DDPGLoss",),
        "dqn": ("DQNLoss", "DistributionalDQNLoss"),
        "iql": ("DiscreteIQLLoss", "IQLLoss"),
        "multiagent.mappo": ("IPPOLoss", "MAPPOLoss"),
        "multiagent.qmixer": ("QMixerLoss",),
        "ppo": ("ClipPPOLoss", "KLPENPPOLoss", "PPOLoss"),
        "redq": ("REDQLoss",),
        "reinforce": ("ReinforceLoss",),
        "sac": ("DiscreteSACLoss", "SACLoss"),
        "td3": ("TD3Loss",),
        "td3_bc": ("TD3BCLoss",),
        "utils": (
            "AUTO_LOSS_MASK_KEYS",
            "HardUpdate",
            "KLAdaptiveLR",
            "SoftUpdate",
            "TargetNetUpdater",
            "ValueEstimators",
            "default_value_kwargs",
            "distance_loss",
            "group_optimizers",
            "hold_out_net",
            "hold_out_params",
            "next_state_value",
        ),
    },
    submodules=(
        "a2c",
        "common",
        "crossq",
        "ddpg",
        "deprecated",
        "dqn",
        "iql",
        "multiagent",
        "ppo",
        "redq",
        "reinforce",
        "sac",
        "td3",
        "td3_bc",
        "utils",
        "value",
    ),
)
