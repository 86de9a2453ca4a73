"""Servers of SGLang as policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

from flambeau.rl.modules.llm.policies._rows import Answer
from flambeau.rl.modules.llm.policies.wrapper_base import LLMWrapperBase

__all__ = ["SGLangWrapper"]

_NAMES = {"num_return_sequences": "n", "stop_sequences": "stop"}
_OF_OTHERS = ("do_sample", "num_beams", "length_penalty", "early_stopping", "pad_token_id", "logprobs")


class SGLangWrapper(LLMWrapperBase):
    """A server of SGLang as a policy.

    Args:
        model: an `AsyncSGLang`, or the URL of a server.
        **kwargs: see `LLMWrapperBase`: `tokenizer`, `input_mode`, `input_key`, `generate`, `generate_kwargs`,
            `tokenizer_kwargs`, `pad_output`, `inplace`, `device`, `layout`, `num_samples`, `chat_template_name`,
            `chat_template`, `return_log_probs`, the keys, and batching. Without a tokenizer, that of the server's model
            is loaded.

    Raises:
        ValueError: see `LLMWrapperBase`.
        SGLangError: (RuntimeError) of `forward`: the server refuses, or does not answer.
    """

    def __init__(self, model: Any, **kwargs: Any) -> None:
        from flambeau.rl.modules.llm.backends.sglang.sglang_server import AsyncSGLang

        engine = AsyncSGLang.connect(model) if isinstance(model, str) else model
        super().__init__(engine, **kwargs)
        self.model = engine

    def _tokenizer_of(self, model: Any, tokenizer: Any) -> Any:
        return super()._tokenizer_of(model, model.model_path if tokenizer is None else tokenizer)

    def _engine_options(self, options: dict[str, Any]) -> dict[str, Any]:
        made = {_NAMES.get(name, name): value for name, value in options.items()
                if value is not None and name not in _OF_OTHERS}  # fmt: skip
        if options.get("do_sample") is False:
            made["temperature"] = 0.0
        made.setdefault("skip_special_tokens", False)
        return made

    def _generate_answers(self, prompts: Sequence[Tensor], options: dict[str, Any]) -> list[list[Answer]]:
        count = self.num_samples or 1
        repeated = [row.tolist() for row in prompts for _ in range(count)]
        found = self.model.generate(
            input_ids=repeated, sampling_params=self._engine_options(options), return_logprob=True
        )
        each = [_answer(result["meta_info"]) for result in found]
        return [each[at : at + count] for at in range(0, len(each), count)]

    def _score_sequences(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        found = self.model.generate(
            input_ids=[row.tolist() for row in sequences], sampling_params={"max_new_tokens": 1, "temperature": 0.0},
            return_logprob=True, logprob_start_len=0,
        )  # fmt: skip
        return [_values(result["meta_info"]["input_token_logprobs"]) for result in found]

    def get_dist(self, *args: Any, **kwargs: Any) -> D.Distribution:
        """There is none.

        Raises:
            NotImplementedError: always; a server reports log-probabilities alone, see `log_prob`.
        """
        raise NotImplementedError("a server of SGLang reports no distributions; use log_prob.")


def _answer(about: dict[str, Any]) -> Answer:
    reported = about["output_token_logprobs"]
    tokens = torch.tensor([token for _, token, *_ in reported], dtype=torch.int64)
    reason = about.get("finish_reason") or {}
    return Answer(_values(reported), tokens, complete=reason.get("type") == "stop")


def _values(reported: Sequence[Sequence[Any]]) -> Tensor:
    """Log-probabilities; the first token's is not reported, and 0."""
    return torch.tensor([0.0 if value is None else float(value) for value, *_ in reported])
