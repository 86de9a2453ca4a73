"""Which of several engines gets a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

__all__ = ["LoadBalancer"]

_STRATEGIES = ("prefix-aware", "requests", "kv-cache", "round-robin")
Strategy = Literal["requests", "kv-cache", "prefix-aware", "round-robin"]


class LoadBalancer:
    """Choose an engine for each request, by one strategy after the other.

    - "prefix-aware": one engine for all prompts that begin alike, whose cache has their beginning; passed over where
      there is no prompt, or where that engine is overloaded.
    - "requests": the one with the fewest unfinished requests.
    - "kv-cache": the one whose cache is used least.
    - "round-robin": one after the other.

    Args:
        actors: an `AsyncVLLM`, or its actors.
        strategy: one, or several, the next of which is asked where one has no answer; by default "prefix-aware", then
            "requests".
        prefix_length: how many characters or tokens of a prompt count.
        overload_threshold: an engine with so many times the mean of unfinished requests is overloaded.

    Raises:
        ValueError: there is no engine, or an unknown strategy.
    """

    def __init__(
        self, actors: Any, strategy: Strategy | Sequence[Strategy] | None = None, prefix_length: int = 8,
        overload_threshold: float = 1.5,
    ) -> None:  # fmt: skip
        self._engine = actors if hasattr(actors, "actors") else None
        self.actors = list(actors.actors if self._engine is not None else actors)
        if not self.actors:
            raise ValueError("actors is empty; launch the engine first.")
        chosen = ("prefix-aware", "requests") if strategy is None else strategy
        self.strategies = [chosen] if isinstance(chosen, str) else list(chosen)
        unknown = [name for name in self.strategies if name not in _STRATEGIES]
        if unknown or not self.strategies:
            raise ValueError(f"strategy is {strategy!r}, expected some of {_STRATEGIES}.")
        self.prefix_length, self.overload_threshold = prefix_length, overload_threshold
        self._next = 0

    def select_actor(self, prompt: str | list[int] | None = None, request_context: dict[str, Any] | None = None) -> int:
        """The number of the engine for a request.

        Args:
            prompt: text or tokens.
            request_context: has the prompt at "prompt", where it is not given.
        """
        if prompt is None and request_context:
            prompt = request_context.get("prompt")
        for strategy in self.strategies:
            found = self._by(strategy, prompt)
            if found is not None:
                return found
        return self._round_robin()

    def _by(self, strategy: str, prompt: str | list[int] | None) -> int | None:
        if strategy == "round-robin":
            return self._round_robin()
        if strategy == "prefix-aware":
            return self._by_prefix(prompt)
        loads = self._requests() if strategy == "requests" else self._cache_usage()
        return loads.index(min(loads))

    def _by_prefix(self, prompt: str | list[int] | None) -> int | None:
        if prompt is None or not len(prompt):
            return None
        beginning = prompt[: self.prefix_length]
        text = beginning if isinstance(beginning, str) else ",".join(map(str, beginning))
        found = _stable_hash(text) % len(self.actors)
        loads = self._requests()
        mean = sum(loads) / len(loads)
        overloaded = mean > 0 and loads[found] > self.overload_threshold * mean
        return None if overloaded else found

    def _round_robin(self) -> int:
        found = self._next
        self._next = (found + 1) % len(self.actors)
        return found

    def _requests(self) -> list[float]:
        return self._asked("get_num_unfinished_requests")

    def _cache_usage(self) -> list[float]:
        return self._asked("get_cache_usage")

    def _asked(self, name: str) -> list[float]:
        if self._engine is not None:
            return list(getattr(self._engine, name)())
        import ray

        return list(ray.get([getattr(actor, name).remote() for actor in self.actors]))

    def get_stats(self) -> dict[str, Any]:
        """How loaded the engines are."""
        return {
            "strategies": list(self.strategies), "num_actors": len(self.actors), "requests": self._requests(),
            "cache_usage": self._cache_usage(), "next_round_robin": self._next,
        }  # fmt: skip


def _stable_hash(text: str) -> int:
    """The same number in every process, unlike `hash`."""
    from zlib import crc32

    return crc32(text.encode())
