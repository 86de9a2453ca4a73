"""`ToolTransformBase`: reads what a model said last, and adds what its tools answered to the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.data.tensordict import lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.envs.llm.reward._answers import base_chat_env
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ToolTransformBase"]


class ToolTransformBase(Transform):
    """A transform that runs what a response asks for, and adds what came of it to the next prompt.

    A subclass defines `_process_batch_item(content, index)`: the results of the tools that the response of the
    conversation number `index` calls, or None if it calls none; and may define `_format_result(result)`, a result as
    the text of a message. Each result becomes a message. The conversations of a batch stay equally long: those with
    fewer results get messages without content, of the role "<none>", which chat templates leave out.

    Attributes:
        use_step: run after steps alone; else whenever the environment gives data.
        tool_role: the role of the messages.

    Example:
        >>> class Length(ToolTransformBase):
        ...     tool_role = "length"
        ...     def _process_batch_item(self, content, index):
        ...         return [f"{len(content)} characters"]
    """

    use_step: bool = True
    tool_role: str = "tool"

    def __init__(
        self,
        in_keys: Sequence[Any] | None = None,
        out_keys: Sequence[Any] | None = None,
        in_keys_inv: Sequence[Any] | None = None,
        out_keys_inv: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)

    def _process_batch_item(self, content: str, index: int) -> list[Any] | None:
        """The results of the tools that a response calls; None if it calls none."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_process_batch_item`, which runs its tools.")

    def _format_result(self, result: Any) -> str:
        """A result as the text of a message."""
        return str(result)

    # Data

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._answered(next_tensordict) if self.use_step else self._call(next_tensordict)

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict if self.use_step else self._answered(next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Run the tools of data with conversations.

        Args:
            tensordict: with "history"; changed in place.

        Raises:
            RuntimeError: the environment's conversations are texts or tokens.
        """
        return self._answered(tensordict)

    def _answered(self, tensordict: Any) -> Any:
        if self.parent is not None and (mode := base_chat_env(self).input_mode) != "history":
            raise RuntimeError(f"{type(self).__name__} reads conversations; the environment's input_mode is {mode!r}.")
        chat = tensordict.get("history", None)
        if chat is None or chat.prompt is None:
            raise RuntimeError(
                f"{type(self).__name__} reads the conversation at ('history', 'prompt'), which the data lack; they "
                f"have {sorted(map(str, tensordict.keys(True)))}."
            )
        prompt = chat.prompt
        if prompt.ndim < 2:
            raise RuntimeError(
                f"Conversations have a batch dimension and one of turns; got the shape {tuple(prompt.shape)}."
            )
        flat = prompt.reshape(-1, prompt.shape[-1]) if prompt.ndim > 2 else prompt
        results = [self._process_batch_item(str(row[-1].content), index) for index, row in enumerate(flat.unbind(0))]
        if any(results):
            chat.prompt = _reshaped(flat.extend(self._messages(results), inplace=False, dim=-1), prompt.shape[:-1])
        return tensordict

    def _messages(self, results: list[list[Any] | None]) -> History:
        length = max(len(each or ()) for each in results)
        rows = []
        for each in results:
            said = [History(role=self.tool_role, content=self._format_result(result)) for result in each or ()]
            nothing = [History(role="<none>", content="") for _ in range(length - len(said))]
            rows.append(lazy_stack(said + nothing))
        made: History = lazy_stack(rows)
        return made


def _reshaped(history: Any, batch: Sequence[int]) -> Any:
    """Conversations (rows, turns) as a batch of them."""
    return history if len(batch) < 2 else history.reshape(*batch, history.shape[-1])
