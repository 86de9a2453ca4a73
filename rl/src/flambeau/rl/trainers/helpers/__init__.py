"""Parts of training programs made from configurations: collectors, losses, replay buffers, loggers.

A configuration is any object with the attributes that the dataclasses here name: one of them, several merged, or what
OmegaConf makes of them.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.trainers.helpers.collectors import make_collector_offpolicy as make_collector_offpolicy
    from flambeau.rl.trainers.helpers.collectors import make_collector_onpolicy as make_collector_onpolicy
    from flambeau.rl.trainers.helpers.collectors import sync_async_collector as sync_async_collector
    from flambeau.rl.trainers.helpers.collectors import sync_sync_collector as sync_sync_collector
    from flambeau.rl.trainers.helpers.logger import LoggerConfig as LoggerConfig
    from flambeau.rl.trainers.helpers.losses import make_dqn_loss as make_dqn_loss
    from flambeau.rl.trainers.helpers.losses import make_target_updater as make_target_updater
    from flambeau.rl.trainers.helpers.replay_buffer import make_replay_buffer as make_replay_buffer

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "collectors": (
            "make_collector_offpolicy",
            "make_collector_onpolicy",
            "sync_async_collector",
            "sync_sync_collector",
        ),
        "logger": ("LoggerConfig",),
        "losses": ("make_dqn_loss", "make_target_updater"),
        "replay_buffer": ("make_replay_buffer",),
    },
)
