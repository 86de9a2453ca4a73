"""Prompts that ask a model to think again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

import torch

from flambeau.data.tensordict import TensorDictBase, lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["AddThinkingPrompt"]

_THOUGHT_END = "</think>"


class AddThinkingPrompt(Transform):
    """Asks a model to think again, where its response is not good enough.

    Either the last response is cut after its thought, or to nothing where it has none, and the prompt put in the
    answer's place, for the model to go on; or the prompt becomes a message of its own.

    Args:
        cond: of what the environment gave for one conversation, whether to ask.
        prompt: what is said; default: the first of the known ones.
        random_prompt: choose one of the known ones each time.
        role: who says it.
        edit_last_turn: change the last response; of the role "assistant" alone.
        zero_reward: the reward becomes 0 where it is asked; default: as `edit_last_turn`.
        undo_done: the episode goes on where it is asked.
        egocentric: the prompt speaks as the assistant to itself, not as a user to it; default: as the role does.

    Raises:
        ValueError: `edit_last_turn` with another role, or another role than these.
    """

    DEFAULT_PROMPTS_EG = [
        "But wait, let me think about this more carefully...",
        "Actually, let me reconsider this...",
        "But we can do better. Let me think about it step by step...",
        "Wait, I need to double-check my reasoning...",
        "Actually, let me think about it more carefully...",
        "It looks like I made a mistake. Let me think about it step by step...",
    ]
    DEFAULT_PROMPTS_COG = [
        "But wait, think about this more carefully...",
        "Actually, reconsider this...",
        "But we can do better. Let's think about it step by step...",
        "Wait, you need to double-check your reasoning...",
        "Actually, think about it more carefully...",
        "It looks like you made a mistake. Can you see what went wrong? Let's think about it step by step...",
    ]

    def __init__(
        self,
        cond: Callable[[TensorDictBase], Any],
        prompt: str | None = None,
        random_prompt: bool = False,
        role: Literal["user", "assistant"] = "assistant",
        edit_last_turn: bool = True,
        zero_reward: bool | None = None,
        undo_done: bool = True,
        egocentric: bool | None = None,
    ) -> None:
        if role not in ("user", "assistant"):
            raise ValueError(f"role is 'user' or 'assistant'; got {role!r}.")
        if edit_last_turn and role != "assistant":
            raise ValueError(f"edit_last_turn changes what the assistant said; with role={role!r} give False.")
        super().__init__()
        self.cond = cond
        self.role = role
        self.egocentric = role == "assistant" if egocentric is None else egocentric
        self.random_prompt = random_prompt
        self.edit_last_turn = edit_last_turn
        self.zero_reward = edit_last_turn if zero_reward is None else zero_reward
        self.undo_done = undo_done
        self._prompt = prompt

    @property
    def prompt(self) -> str:
        """What is said next."""
        if self._prompt is not None:
            return self._prompt
        known = self.DEFAULT_PROMPTS_EG if self.egocentric else self.DEFAULT_PROMPTS_COG
        return random.choice(known) if self.random_prompt else known[0]

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        if not next_tensordict.batch_dims:
            return self._asked(next_tensordict)[0]
        rows = [self._row(row) for row in next_tensordict.unbind(0)]
        if not any(asked for _, asked in rows):
            return next_tensordict
        return _joined(next_tensordict, [row for row, _ in rows])

    def _row(self, row: Any) -> tuple[Any, bool]:
        if row.batch_dims:
            inner = [self._row(each) for each in row.unbind(0)]
            return _joined(row, [each for each, _ in inner]), any(asked for _, asked in inner)
        return self._asked(row)

    def _asked(self, row: Any) -> tuple[Any, bool]:
        """One conversation, and whether the model is asked to think again."""
        wanted = self.cond(row)
        if not (bool(wanted.all()) if isinstance(wanted, torch.Tensor) else wanted):
            return row, False
        row = row.copy()
        chat = row.get("history").copy()
        history = chat.prompt
        said = history[-1]
        if self.edit_last_turn:
            thought, mark, _ = str(said.content).partition(_THOUGHT_END)
            said = History(role=said.role, content=(thought + mark if mark else "") + self.prompt)
            chat.prompt = lazy_stack([*history.unbind(0)[:-1], said])
        else:
            chat.prompt = lazy_stack([*history.unbind(0), History(role=self.role, content=self.prompt)])
        row.set("history", chat)
        if self.zero_reward and row.get("reward", None) is not None:
            row.set("reward", torch.zeros_like(row.get("reward")))
        if self.undo_done:
            for key in ("done", "terminated", "truncated"):
                end = row.get(key, None)
                if end is not None:
                    row.set(key, torch.zeros_like(end))
        return row, True


def _joined(tensordict: Any, rows: list[Any]) -> Any:
    """Rows in the place of those that a tensordict had: what changed in them, stacked."""
    for key in ("reward", "done", "terminated", "truncated"):
        if tensordict.get(key, None) is not None:
            tensordict.set(key, torch.stack([row.get(key) for row in rows]))
    return tensordict.set("history", lazy_stack([row.get("history") for row in rows]))
