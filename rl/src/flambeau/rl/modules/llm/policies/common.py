"""What wrappers of language models have in common: containers of what they read and write, and their base."""

from __future__ import annotations

from flambeau.rl.modules.llm.policies.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from flambeau.rl.modules.llm.policies.log_prob_distribution import LogProbDistribution
from flambeau.rl.modules.llm.policies.wrapper_base import LLMWrapperBase

__all__ = ["ChatHistory", "LLMWrapperBase", "LogProbDistribution", "LogProbs", "Masks", "Text", "Tokens"]
