"""Decisions about where embeddings are kept, noted for whoever asks afterwards."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["DecisionCategory", "EMODecision", "EMOLogger", "EMOSummary", "get_logger", "log_emo_decision"]

_logger = logging.getLogger(__name__)


class DecisionCategory(Enum):
    """What a decision is about: the share of rows in the cache, the kernel of a table, or a proposal of the planner."""

    CLF = "clf"
    KERNEL = "kernel"
    PROPOSER = "proposer"


@dataclass
class EMODecision:
    """One decision.

    Attributes:
        category: what it is about.
        description: what was decided.
        table_name: the table; None for all.
        metadata: what it follows from.
    """

    category: DecisionCategory
    description: str
    table_name: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class EMOSummary:
    """Decisions in the order in which they were made.

    Attributes:
        decisions: they.
    """

    decisions: list[EMODecision] = field(default_factory=list)

    def add(self, category: DecisionCategory, description: str, table_name: str | None = None, **metadata: Any) -> None:
        """Note a decision; see `EMODecision`."""
        self.decisions.append(EMODecision(category, description, table_name, metadata))

    def clear(self) -> None:
        """Forget all."""
        self.decisions.clear()


class EMOLogger:
    """Notes decisions, and writes them to Python's log."""

    _instance: EMOLogger | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._summary = EMOSummary()

    @classmethod
    def get_instance(cls) -> EMOLogger:
        """The one of this process."""
        with cls._lock:
            if cls._instance is None:
                cls._instance = cls()
            return cls._instance

    def log(
        self,
        category: DecisionCategory,
        level: int,
        description: str,
        table_name: str | None = None,
        **metadata: Any,
    ) -> None:
        """Note a decision.

        Args:
            category: what it is about.
            level: of the line in Python's log.
            description: what was decided.
            table_name: the table; None for all.
            metadata: what it follows from.
        """
        self._summary.add(category, description, table_name, **metadata)
        where = f" {table_name}:" if table_name else ""
        facts = "".join(f" {name}={value}" for name, value in metadata.items())
        _logger.log(level, "[%s]%s %s%s", category.value, where, description, facts)

    def get_summary(self) -> EMOSummary:
        """All that was noted since the last `reset`."""
        return self._summary

    def reset(self) -> None:
        """Begin anew."""
        self._summary = EMOSummary()


def get_logger() -> EMOLogger:
    """The one of this process."""
    return EMOLogger.get_instance()


def log_emo_decision(
    category: DecisionCategory, level: int, description: str, table_name: str | None = None, **metadata: Any
) -> None:
    """`EMOLogger.log` of the one of this process."""
    get_logger().log(category, level, description, table_name, **metadata)
