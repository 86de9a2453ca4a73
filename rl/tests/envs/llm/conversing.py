"""Conversations with a model that says what a test tells it to."""

from __future__ import annotations

from flambeau.rl.data.llm import History
from flambeau.rl.envs.llm import DatasetChatEnv


class Loader:
    """The same batch, without end."""

    def __init__(self, rows):
        self.rows, self.batch_size = rows, len(next(iter(rows.values())))

    def __iter__(self):
        while True:
            yield self.rows


def environment(*transforms, **rows):
    """An environment of as many conversations as `rows` have values."""
    env = DatasetChatEnv.from_dataloader(Loader(rows), system_prompt="Be brief.")
    for transform in transforms:
        env.append_transform(transform)
    return env


def said(td, responses):
    """A state of conversations, with responses to them."""
    chat = td["history"]
    rows = History(
        role=[["assistant"]] * len(responses),
        content=[[response] for response in responses],
        batch_size=(len(responses), 1),
    )
    chat.full, chat.response = chat.prompt.extend(rows, dim=-1, inplace=False), rows
    return td.set("history", chat)


def after(env, responses):
    """What an environment gives after responses to its first prompts."""
    return env.step(said(env.reset(), responses))["next"]
