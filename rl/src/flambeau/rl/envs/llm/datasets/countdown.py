"""Countdown: numbers and a target, made at random."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

from flambeau.rl.envs.llm.datasets._checked import TAGS_PROMPT, CheckedChatEnv
from flambeau.rl.envs.llm.reward.countdown import CountdownRewardParser
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["CountdownEnv"]

_TRIES = 1000


class CountdownEnv(CheckedChatEnv):
    """Numbers, of which a model makes an expression that comes to a target; rewarded by `CountdownRewardParser`.

    Every problem has a solution that uses all of its numbers.

    Args:
        num_count: how many numbers.
        max_number: the largest.
        max_target: the largest target.
        shuffle: has no effect: problems are made at random.
        num_envs: how many conversations at a time.
        repeats: begin so many with each problem, for estimates of advantages.
        batch_size_dl: problems that are made at a time.
        seed: of problems; default: any.
        group_repeats: the conversations that begin alike are one batch.
        tokenizer: of the model; writes texts and tokens.
        device: of masks and tokens.
        template_kwargs: of `History.apply_chat_template`.
        apply_template: has no effect; `input_mode` says what prompts are.
        compute_reward: reward responses.
        collate_fn: from a list of dictionaries with "query" and "answer" to a dictionary of lists.
        max_steps: turns of an episode, after which it is cut off; 0: it is not.
        input_mode: as for `ChatEnv`.

    Example:
        >>> env = CountdownEnv(seed=0)
        >>> env.reset()["answer"]
        ['target=156, numbers=50,98,54,6']
    """

    SYSTEM_PROMPT = (
        f"{TAGS_PROMPT} The question gives numbers and a target; the answer is an expression that comes to the target "
        "and has each of the numbers at most once, such as (25 + 3) * 4, and nothing else."
    )

    def __init__(
        self,
        *,
        num_count: int = 4,
        max_number: int = 100,
        max_target: int = 1000,
        shuffle: bool = True,
        num_envs: int = 1,
        repeats: int | None = None,
        batch_size_dl: int = 1,
        seed: int | None = None,
        group_repeats: bool = False,
        tokenizer: Any = None,
        device: Any = None,
        template_kwargs: dict[str, Any] | None = None,
        apply_template: bool | None = False,
        compute_reward: bool = True,
        collate_fn: Callable[[Any], Any] | None = None,
        max_steps: int = 1,
        input_mode: Literal["history", "text", "tokens"] = "history",
    ) -> None:
        make_loader = functools.partial(
            _Problems,
            num_count,
            max_number,
            max_target,
            batch_size_dl,
            seed,
            _lists if collate_fn is None else collate_fn,
        )
        self._begin(
            make_loader,
            num_envs,
            repeats,
            group_repeats,
            device,
            None,
            tokenizer,
            template_kwargs,
            input_mode,
            None,
            None,
        )
        self._rewarded(compute_reward, max_steps, tokenizer)

    @staticmethod
    def _parser(tokenizer: Any) -> Transform:
        return CountdownRewardParser(tokenizer=tokenizer)


def _lists(items: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: [item[key] for item in items] for key in items[0]}


class _Problems:
    """A loader of batches of problems, without end."""

    def __init__(
        self, count: int, largest: int, largest_target: int, batch_size: int, seed: int | None, collate: Any
    ) -> None:
        if count < 1 or largest < 1 or largest_target < 1:
            raise ValueError(
                f"num_count, max_number and max_target are positive; got {count}, {largest} and {largest_target}."
            )
        self.count, self.largest, self.largest_target = count, largest, largest_target
        self.batch_size = batch_size
        self.seed = random.randrange(2**31) if seed is None else seed
        self.collate = collate

    def __iter__(self) -> Iterator[Any]:
        generator = random.Random(self.seed)
        while True:
            yield self.collate([self._problem(generator) for _ in range(self.batch_size)])

    def _problem(self, generator: random.Random) -> dict[str, str]:
        for _ in range(_TRIES):
            numbers = [generator.randint(1, self.largest) for _ in range(self.count)]
            target = self._target(generator, numbers)
            if 1 <= target <= self.largest_target:
                return {
                    "query": (
                        f"Using the numbers {numbers}, create an arithmetic expression that equals {target}. You may "
                        "use each number at most once. Only use +, -, *, / and parentheses."
                    ),
                    "answer": f"target={target}, numbers={','.join(map(str, numbers))}",
                }
        raise ValueError(
            f"No {self.count} numbers up to {self.largest} come to a target up to {self.largest_target}, in {_TRIES} "
            "tries; allow a larger max_target."
        )

    @staticmethod
    def _target(generator: random.Random, numbers: list[int]) -> int:
        """What some expression of all the numbers comes to."""
        values = generator.sample(numbers, len(numbers))
        found = values[0]
        for value in values[1:]:
            operation = generator.choice("+-*")
            found = found + value if operation == "+" else found - value if operation == "-" else found * value
        return found
