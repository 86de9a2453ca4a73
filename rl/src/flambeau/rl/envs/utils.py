"""What environments and those who use them need besides: steps of decision processes, checks, specs from data."""

from __future__ import annotations

from flambeau.data.tensordict.nn import InteractionType as ExplorationType
from flambeau.data.tensordict.nn import interaction_type as exploration_type
from flambeau.data.tensordict.nn import set_interaction_type as set_exploration_type
from flambeau.rl.envs._agents import MarlGroupMapType, check_marl_grouping
from flambeau.rl.envs._checks import check_env_specs
from flambeau.rl.envs._ends import terminated_or_truncated
from flambeau.rl.envs._libraries import get_available_libraries
from flambeau.rl.envs._spec_making import make_composite_from_td
from flambeau.rl.envs._step_mdp import step_mdp

__all__ = [
    "ExplorationType",
    "MarlGroupMapType",
    "check_env_specs",
    "check_marl_grouping",
    "exploration_type",
    "get_available_libraries",
    "make_composite_from_td",
    "set_exploration_type",
    "step_mdp",
    "terminated_or_truncated",
]
