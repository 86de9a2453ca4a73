"""Optimizers whose states are kept by the names of parameters, those that run in the backward pass, and wrappers."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "apply_optimizer_in_backward": ("apply_optimizer_in_backward",),
        "clipping": ("GradientClipping", "GradientClippingOptimizer"),
        "fused": ("EmptyFusedOptimizer", "FusedOptimizer", "FusedOptimizerModule"),
        "keyed": ("CombinedOptimizer", "KeyedOptimizer", "KeyedOptimizerWrapper", "OptimizerWrapper"),
        "optimizers": (
            "Adagrad", "Adam", "LAMB", "LarsSGD", "PartialRowWiseAdam", "PartialRowWiseLAMB", "SGD",
            "in_backward_optimizer_filter",
        ),
        "rowwise_adagrad": ("RowWiseAdagrad",),
        "semi_sync": ("SemisyncOptimizer",),
        "warmup": ("WarmupOptimizer", "WarmupPolicy", "WarmupStage"),
    },
)  # fmt: skip
