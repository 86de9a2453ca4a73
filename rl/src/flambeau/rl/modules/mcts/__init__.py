"""Scores by which a tree search chooses its next action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.rl.modules.mcts.scores import *

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"scores": ("EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore")}
)
