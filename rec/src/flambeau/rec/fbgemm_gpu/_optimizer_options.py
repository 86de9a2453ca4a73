"""What the optimizer in a backward pass is told, from the options of tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._training_layout import BY_ELEMENT
from flambeau.rec.fbgemm_gpu.split_embedding_codegen_lookup_invokers.lookup_args import OptimizerArgs
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    CowClipDefinition,
    GlobalWeightDecayDefinition,
    UserEnabledConfigDefinition,
    WeightDecayMode,
)
from flambeau.rec.ops.tbe import OptimizerSettings

__all__ = ["OptimizerOptions"]

_DECAY = {WeightDecayMode.L2: 1, WeightDecayMode.DECOUPLE: 2, WeightDecayMode.DECOUPLE_GLOBAL: 3}
_COWCLIP = 4
_ROWWISE = (
    EmbOptimType.EXACT_ROWWISE_ADAGRAD, EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD, EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD,
)  # fmt: skip
_KEEPS_STEP = (
    EmbOptimType.ADAM, EmbOptimType.PARTIAL_ROWWISE_ADAM, EmbOptimType.LAMB, EmbOptimType.PARTIAL_ROWWISE_LAMB,
    EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD, EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD,
)  # fmt: skip
CHANGEABLE = ("eps", "beta1", "beta2", "weight_decay", "lower_bound")


@dataclass
class OptimizerOptions:
    """Options of an optimizer; see `SplitTableBatchedEmbeddingBagsCodegen`.

    Args:
        optimizer: which one.
        numbers: `eps`, `weight_decay`, `beta1`, `beta2`, `momentum`, `eta`, `max_norm`.
        stochastic_rounding: see there.
        gradient_clipping: see there.
        max_gradient: see there.
        weight_decay_mode: see there.
        counters: options where `weight_decay_mode` is COUNTER.
        cowclip: options where it is COWCLIP.
        global_decay: options where it is DECOUPLE_GLOBAL.
        extra: further ones.

    Raises:
        OptionError: they do not fit together.
    """

    optimizer: EmbOptimType
    numbers: dict[str, float]
    stochastic_rounding: bool
    gradient_clipping: bool
    max_gradient: float
    weight_decay_mode: WeightDecayMode
    counters: CounterBasedRegularizationDefinition | None = None
    cowclip: CowClipDefinition | None = None
    global_decay: GlobalWeightDecayDefinition | None = None
    extra: UserEnabledConfigDefinition = field(default_factory=UserEnabledConfigDefinition)

    def __post_init__(self) -> None:
        if self.optimizer not in BY_ELEMENT:
            known = ", ".join(one.name for one in BY_ELEMENT)
            raise OptionError(f"optimizer {self.optimizer.name} does not train tables; choose one of {known}.")
        mode = self.weight_decay_mode
        for wanted, name, options in (
            (WeightDecayMode.COUNTER, "counter_based_regularization", self.counters),
            (WeightDecayMode.COWCLIP, "cowclip_regularization", self.cowclip),
        ):
            if (mode == wanted) != (options is not None):
                raise OptionError(f"{name} goes with weight_decay_mode={wanted.name}; give both, or neither.")
        if mode == WeightDecayMode.DECOUPLE_GLOBAL and self.optimizer not in _ROWWISE:
            raise OptionError(
                f"weight_decay_mode {mode.name} goes with row-wise Adagrad; the optimizer is {self.optimizer.name}."
            )
        if mode == WeightDecayMode.DECOUPLE_GLOBAL and self.global_decay is None:
            self.global_decay = GlobalWeightDecayDefinition()

    @cached_property
    def counts_rows(self) -> bool:
        """Whether the optimizer counts how often each row is looked up."""
        return self.optimizer in _ROWWISE and (self.counters is not None or self.cowclip is not None)

    @cached_property
    def decays_globally(self) -> bool:
        """Whether rows make up for decay that they missed while they were not looked up."""
        return self.weight_decay_mode == WeightDecayMode.DECOUPLE_GLOBAL

    @cached_property
    def corrects_by_row(self) -> bool:
        """Whether averages that begin at 0 are corrected by the steps of each row."""
        adam = self.optimizer in (EmbOptimType.ADAM, EmbOptimType.PARTIAL_ROWWISE_ADAM)
        return adam and self.extra.use_rowwise_bias_correction

    @cached_property
    def counts_steps(self) -> bool:
        """Whether steps are counted."""
        return self.optimizer in (*_ROWWISE, *_KEEPS_STEP)

    @cached_property
    def keeps_step(self) -> bool:
        """Whether checkpoints have the step's number."""
        return self.optimizer in _KEEPS_STEP

    @property
    def limit(self) -> float | None:
        """What gradients of the output are limited to."""
        return self.max_gradient if self.gradient_clipping else None

    def args(self, rows: int) -> OptimizerArgs:
        """All of them, flat.

        Args:
            rows: of all tables.
        """
        numbers: dict[str, Any] = self.numbers
        return OptimizerArgs(
            stochastic_rounding=self.stochastic_rounding,
            gradient_clipping=self.gradient_clipping,
            max_gradient=self.max_gradient,
            **{name: numbers[name] for name in ("max_norm", "eps", "beta1", "beta2", "weight_decay")},
            **self._decay(),
            eta=numbers["eta"],
            momentum=numbers["momentum"],
            total_hash_size=rows,
            use_rowwise_bias_correction=self.extra.use_rowwise_bias_correction,
        )

    def _decay(self) -> dict[str, Any]:
        mode = int(self.weight_decay_mode)
        counters = self.counters or CounterBasedRegularizationDefinition()
        clip = self.cowclip or CowClipDefinition()
        if self.counters is not None:
            mode = int(counters.counter_weight_decay_mode)
        elif self.cowclip is not None:
            mode = int(clip.counter_weight_decay_mode)
        return {
            "weight_decay_mode": mode,
            "counter_halflife": clip.counter_halflife if self.cowclip is not None else counters.counter_halflife,
            "adjustment_iter": counters.adjustment_iter,
            "adjustment_ub": counters.adjustment_ub,
            "learning_rate_mode": int(counters.learning_rate_mode),
            "grad_sum_decay": int(counters.grad_sum_decay),
            "tail_id_threshold": counters.tail_id_threshold.val,
            "is_tail_id_thresh_ratio": int(counters.tail_id_threshold.is_ratio),
            "weight_norm_coefficient": clip.weight_norm_coefficient,
            "lower_bound": clip.lower_bound,
            "regularization_mode": int(self.weight_decay_mode) if self.counts_rows else 0,
        }

    def settings(
        self, args: OptimizerArgs, *, lr: float, iteration: int, seed: int, max_counter: float
    ) -> OptimizerSettings:
        """What kernels are told.

        Args:
            args: these options, some of which may have been changed since.
            lr: learning rate of this step.
            iteration: the step, counted from 1.
            seed: of rounding by chance, another one in each step.
            max_counter: the largest number of look-ups that a row has.
        """
        name = self.optimizer.value
        mode = args.weight_decay_mode
        if self.counts_rows:
            name = "row_wise_adagrad_with_counter"
        elif self.optimizer in _ROWWISE:
            name = EmbOptimType.EXACT_ROWWISE_ADAGRAD.value
            mode = _DECAY.get(self.weight_decay_mode, 0)
        start = 0 if self.global_decay is None else self.global_decay.start_iter
        return OptimizerSettings(
            name,
            lr,
            iteration,
            eps=args.eps,
            weight_decay=args.weight_decay,
            weight_decay_mode=mode,
            beta1=args.beta1,
            beta2=args.beta2,
            momentum=args.momentum,
            eta=args.eta,
            max_norm=args.max_norm,
            counter_halflife=args.counter_halflife,
            learning_rate_mode=args.learning_rate_mode,
            regularization_mode=_COWCLIP if self.cowclip is not None else 0,
            tail_is_ratio=args.is_tail_id_thresh_ratio,
            adjustment_iter=args.adjustment_iter,
            adjustment_ub=args.adjustment_ub,
            max_counter=max_counter,
            tail_threshold=args.tail_id_threshold,
            weight_norm_coefficient=args.weight_norm_coefficient,
            lower_bound=args.lower_bound if self.global_decay is None else self.global_decay.lower_bound,
            grad_sum_decay=args.grad_sum_decay,
            rowwise_bias_correction=int(self.corrects_by_row),
            decay_from=start,
            stochastic_rounding=args.stochastic_rounding,
            seed=seed,
        )
