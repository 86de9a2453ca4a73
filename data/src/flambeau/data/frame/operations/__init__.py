"""What is done to columns, by name; importing this fills the table."""

from __future__ import annotations

from flambeau.data.frame.operations import calls, comparisons, ids, lists, numbers, structure, text
from flambeau.data.frame.operations.registry import OPERATIONS, Operation, operation

__all__ = [
    "OPERATIONS",
    "Operation",
    "calls",
    "comparisons",
    "ids",
    "lists",
    "numbers",
    "operation",
    "structure",
    "text",
]
