"""Recorded data sets as replay buffers: one layout of steps, from many sources."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.datasets.atari_dqn import AtariDQNExperienceReplay as AtariDQNExperienceReplay
    from flambeau.rl.data.datasets.common import BaseDatasetExperienceReplay as BaseDatasetExperienceReplay
    from flambeau.rl.data.datasets.d4rl import D4RLExperienceReplay as D4RLExperienceReplay
    from flambeau.rl.data.datasets.gen_dgrl import GenDGRLExperienceReplay as GenDGRLExperienceReplay
    from flambeau.rl.data.datasets.lerobot import LeRobotExperienceReplay as LeRobotExperienceReplay
    from flambeau.rl.data.datasets.lerobot import lerobot_columns_to_tensordict as lerobot_columns_to_tensordict
    from flambeau.rl.data.datasets.minari_data import MinariExperienceReplay as MinariExperienceReplay
    from flambeau.rl.data.datasets.openml import OpenMLExperienceReplay as OpenMLExperienceReplay
    from flambeau.rl.data.datasets.openx import OpenXExperienceReplay as OpenXExperienceReplay
    from flambeau.rl.data.datasets.roboset import RobosetExperienceReplay as RobosetExperienceReplay
    from flambeau.rl.data.datasets.utils import load_dataset as load_dataset
    from flambeau.rl.data.datasets.utils import register_dataset as register_dataset
    from flambeau.rl.data.datasets.vd4rl import VD4RLExperienceReplay as VD4RLExperienceReplay

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "atari_dqn": ("AtariDQNExperienceReplay",),
        "common": ("BaseDatasetExperienceReplay",),
        "d4rl": ("D4RLExperienceReplay",),
        "gen_dgrl": ("GenDGRLExperienceReplay",),
        "lerobot": ("LeRobotExperienceReplay", "lerobot_columns_to_tensordict"),
        "minari_data": ("MinariExperienceReplay",),
        "openml": ("OpenMLExperienceReplay",),
        "openx": ("OpenXExperienceReplay",),
        "roboset": ("RobosetExperienceReplay",),
        "utils": ("load_dataset", "register_dataset"),
        "vd4rl": ("VD4RLExperienceReplay",),
    },
)
