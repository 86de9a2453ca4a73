"""Why there is no plan."""

from __future__ import annotations

from enum import Enum

from flambeau.core.errors import FlambeauError

__all__ = ["PlannerError", "PlannerErrorType"]


class PlannerErrorType(Enum):
    """Kinds of reasons."""

    INSUFFICIENT_STORAGE = "insufficient_storage"
    STRICT_CONSTRAINTS = "strict_constraints"
    PARTITION = "partition"
    OTHER = "other"
    PLANNER_INPUT_CONTEXT_MISMATCH = "planner_input_context_mismatch"
    PLAN_LOADING_FAILED = "plan_loading_failed"
    INVALID_RANK_ASSIGNMENT = "invalid_rank_assignment"
    INPUT_VALIDATION = "input_validation"
    MISSING_MODULE_IN_PLAN = "missing_module_in_plan"
    INVALID_COMPUTE_KERNEL = "invalid_compute_kernel"


class PlannerError(FlambeauError):
    """There is no plan.

    Attributes:
        error_type: the kind of reason.
    """

    def __init__(self, message: str, error_type: PlannerErrorType = PlannerErrorType.OTHER) -> None:
        super().__init__(message)
        self.error_type = error_type
