"""Networks of observations and actions."""

from __future__ import annotations

from flambeau.rl.modules.models._conv import Conv2dNet as Conv2dNet
from flambeau.rl.modules.models._conv import Conv3dNet as Conv3dNet
from flambeau.rl.modules.models._conv import ConvNet as ConvNet
from flambeau.rl.modules.models._ddpg import DdpgCnnActor as DdpgCnnActor
from flambeau.rl.modules.models._ddpg import DdpgCnnQNet as DdpgCnnQNet
from flambeau.rl.modules.models._ddpg import DdpgMlpActor as DdpgMlpActor
from flambeau.rl.modules.models._ddpg import DdpgMlpQNet as DdpgMlpQNet
from flambeau.rl.modules.models._ddpg import ddpg_init_last_layer as ddpg_init_last_layer
from flambeau.rl.modules.models._decision_actors import DTActor as DTActor
from flambeau.rl.modules.models._decision_actors import OnlineDTActor as OnlineDTActor
from flambeau.rl.modules.models._dueling import DuelingCnnDQNet as DuelingCnnDQNet
from flambeau.rl.modules.models._dueling import DuelingMlpDQNet as DuelingMlpDQNet
from flambeau.rl.modules.models._mlp import MLP as MLP

__all__ = [
    "MLP",
    "Conv2dNet",
    "Conv3dNet",
    "ConvNet",
    "DTActor",
    "DdpgCnnActor",
    "DdpgCnnQNet",
    "DdpgMlpActor",
    "DdpgMlpQNet",
    "DuelingCnnDQNet",
    "DuelingMlpDQNet",
    "OnlineDTActor",
    "ddpg_init_last_layer",
]
