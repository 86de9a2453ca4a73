"""Returns and advantages of trajectories, as functions of tensors.

Tensors are `(*batch, time, *features)`; `time_dim` says which dimension is time. A step that is `terminated` has
nothing to expect after it, one that is `done` is its trajectory's last. Everything is linear in time and comes from one
recursion (`flambeau.rl.ops.recursion`), so the forms called `vec_` and the plain ones are the same computation, for
any discounts; half precision is computed in float32.
"""

from __future__ import annotations

from flambeau.rl.objectives.value._arguments import SHAPE_ERR as SHAPE_ERR
from flambeau.rl.objectives.value._generalized import generalized_advantage_estimate as generalized_advantage_estimate
from flambeau.rl.objectives.value._generalized import (
    vec_generalized_advantage_estimate as vec_generalized_advantage_estimate,
)
from flambeau.rl.objectives.value._multistep_returns import td1_advantage_estimate as td1_advantage_estimate
from flambeau.rl.objectives.value._multistep_returns import td1_return_estimate as td1_return_estimate
from flambeau.rl.objectives.value._multistep_returns import td_lambda_advantage_estimate as td_lambda_advantage_estimate
from flambeau.rl.objectives.value._multistep_returns import td_lambda_return_estimate as td_lambda_return_estimate
from flambeau.rl.objectives.value._multistep_returns import vec_td1_advantage_estimate as vec_td1_advantage_estimate
from flambeau.rl.objectives.value._multistep_returns import vec_td1_return_estimate as vec_td1_return_estimate
from flambeau.rl.objectives.value._multistep_returns import (
    vec_td_lambda_advantage_estimate as vec_td_lambda_advantage_estimate,
)
from flambeau.rl.objectives.value._multistep_returns import (
    vec_td_lambda_return_estimate as vec_td_lambda_return_estimate,
)
from flambeau.rl.objectives.value._one_step import td0_advantage_estimate as td0_advantage_estimate
from flambeau.rl.objectives.value._one_step import td0_return_estimate as td0_return_estimate
from flambeau.rl.objectives.value._rewards_to_go import reward2go as reward2go
from flambeau.rl.objectives.value._vtrace_returns import vtrace_advantage_estimate as vtrace_advantage_estimate

__all__ = [
    "generalized_advantage_estimate",
    "reward2go",
    "td0_advantage_estimate",
    "td0_return_estimate",
    "td1_advantage_estimate",
    "td1_return_estimate",
    "td_lambda_advantage_estimate",
    "td_lambda_return_estimate",
    "vec_generalized_advantage_estimate",
    "vec_td1_advantage_estimate",
    "vec_td1_return_estimate",
    "vec_td_lambda_advantage_estimate",
    "vec_td_lambda_return_estimate",
    "vtrace_advantage_estimate",
]
