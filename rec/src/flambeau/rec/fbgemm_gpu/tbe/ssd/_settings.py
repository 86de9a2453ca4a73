"""Options of optimizers as kernels take them."""

from __future__ import annotations

from typing import Any

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    CowClipDefinition,
    WeightDecayMode,
)

__all__ = ["regularization_options"]

_DECAY = {WeightDecayMode.L2: 1, WeightDecayMode.DECOUPLE: 2}


def regularization_options(
    mode: WeightDecayMode,
    counter: CounterBasedRegularizationDefinition | None,
    cowclip: CowClipDefinition | None,
) -> dict[str, Any]:
    """What weight decay means, in the names of `OptimizerSettings`.

    Args:
        mode: how rows decay.
        counter: options where that is COUNTER.
        cowclip: options where that is COWCLIP.

    Raises:
        ValueError: options of another mode, or none of this one.
    """
    for of_mode, name, given in (
        (WeightDecayMode.COUNTER, "counter_based_regularization", counter),
        (WeightDecayMode.COWCLIP, "cowclip_regularization", cowclip),
    ):
        if (mode == of_mode) != (given is not None):
            raise OptionError(f"{name} goes with weight_decay_mode={of_mode.name}; give both, or neither.")
    if counter is not None:
        return {
            "weight_decay_mode": int(counter.counter_weight_decay_mode),
            "counter_halflife": counter.counter_halflife,
            "adjustment_iter": counter.adjustment_iter,
            "adjustment_ub": counter.adjustment_ub,
            "learning_rate_mode": int(counter.learning_rate_mode),
            "tail_threshold": counter.tail_id_threshold.val,
            "tail_is_ratio": int(counter.tail_id_threshold.is_ratio),
        }
    if cowclip is not None:
        return {
            "weight_decay_mode": int(cowclip.counter_weight_decay_mode),
            "counter_halflife": cowclip.counter_halflife,
            "regularization_mode": 4,
            "weight_norm_coefficient": cowclip.weight_norm_coefficient,
            "lower_bound": cowclip.lower_bound,
        }
    return {"weight_decay_mode": _DECAY.get(mode, 0)}
