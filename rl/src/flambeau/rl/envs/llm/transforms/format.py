"""Conversations as the texts that models read."""

from __future__ import annotations

from typing import Any, Literal

from flambeau.data.tensordict import NonTensorData, NonTensorStack
from flambeau.rl.data.tensor_specs import Composite, NonTensor
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["TemplateTransform"]


class TemplateTransform(Transform):
    """Writes conversations as texts by a chat template, and reads those that go in.

    Args:
        in_keys: of histories; default: "history".
        out_keys: of texts; default: "text".
        in_keys_inv: of histories that the environment reads.
        out_keys_inv: of the texts that they are read from.
        tokenizer: whose template is used.
        chat_template_name: of another template.
        continue_final_message: leave the last message open.
        tokenize: write tokens instead of texts.
        return_tensors: of tokens: "pt".
        return_dict: write tokens with their attention mask.
        padding: fill up shorter conversations.
        truncation: cut longer ones.

    Raises:
        RuntimeError: there is neither a tokenizer nor a template, when it is called.
    """

    def __init__(
        self,
        in_keys: Any = None,
        out_keys: Any = None,
        in_keys_inv: Any = None,
        out_keys_inv: Any = None,
        tokenizer: Any = None,
        chat_template_name: Literal["chatml_format"] | None = None,
        continue_final_message: bool = False,
        tokenize: bool = False,
        return_tensors: str = "pt",
        return_dict: bool = False,
        padding: bool | str = False,
        truncation: bool | str = False,
    ) -> None:
        super().__init__(
            ["history"] if in_keys is None else in_keys,
            ["text"] if out_keys is None else out_keys,
            in_keys_inv,
            out_keys_inv,
        )
        self.tokenizer = tokenizer
        self.chat_template_name = chat_template_name
        self.continue_final_message = continue_final_message
        self.tokenize = tokenize
        self.return_tensors = return_tensors
        self.return_dict = return_dict
        self.padding = padding
        self.truncation = truncation

    def _apply_transform(self, history: Any) -> Any:
        options: dict[str, Any] = {"tokenize": self.tokenize}
        if self.tokenize:
            options |= {
                "return_tensors": self.return_tensors, "return_dict": self.return_dict,
                "padding": self.padding, "truncation": self.truncation,
            }  # fmt: skip
        found = history.apply_chat_template(
            tokenizer=self.tokenizer,
            chat_template_name=self.chat_template_name,
            continue_final_message=self.continue_final_message,
            add_generation_prompt=not self.continue_final_message,
            **options,
        )
        if self.tokenize:
            return found
        return NonTensorData(found, []) if isinstance(found, str) else NonTensorStack.from_list(found)

    def _inv_apply_transform(self, text: Any) -> Any:
        from flambeau.rl.data.llm import History  # reads files of templates

        texts = text.tolist() if hasattr(text, "tolist") else text
        return History.from_text(texts, chat_template_name=self.chat_template_name, tokenizer=self.tokenizer)

    def _call(self, next_tensordict: Any) -> Any:
        return super()._call(next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With texts beside the conversations.

        Args:
            observation_spec: a composite.
        """
        for _, out_key in self._pairs():
            if out_key not in observation_spec.keys(True):
                observation_spec[out_key] = NonTensor(observation_spec.shape, example_data="a string")
        return observation_spec
