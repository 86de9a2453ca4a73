"""Speech quality without a matching reference: objective measures and opinion scores."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "objective": ("SquimObjective", "squim_objective_base", "squim_objective_model"),
        "subjective": ("SquimSubjective", "squim_subjective_base", "squim_subjective_model"),
    },
)
