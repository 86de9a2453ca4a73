"""What wrappers of language models have in common: containers of what they read and write, and their base."""

from __future__ import annotations

from flambeau.rl.modules.llm.policies.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from flambeau.rl.modules.llm.policies.log_prob_distribution import LogProbDistribution

__all__ = ["ChatHistory", "LogProbDistribution", "LogProbs", "Masks", "Text", "Tokens"]
