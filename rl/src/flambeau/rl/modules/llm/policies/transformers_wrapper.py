"""Models of Hugging Face's transformers as policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.rl.modules.llm.policies._remote_transformers import RemoteTransformersWrapper
from flambeau.rl.modules.llm.policies._rows import Answer
from flambeau.rl.modules.llm.policies._transformers_scoring import (
    block_causal_mask,
    generated_log_probs,
    log_probs_of,
    sequence_logits,
)
from flambeau.rl.modules.llm.policies.wrapper_base import LLMWrapperBase

__all__ = ["RemoteTransformersWrapper", "TransformersWrapper"]


class TransformersWrapper(LLMWrapperBase):
    """A causal model of transformers as a policy.

    Args:
        model: a `transformers.PreTrainedModel`, or the name of one, which is loaded.
        tokenizer, input_mode, input_key, attention_mask_key, generate, generate_kwargs, tokenizer_kwargs, pad_output,
            pad_model_input, inplace, device, layout, num_samples, chat_template_name, chat_template, return_log_probs,
            history_key, text_key, tokens_key, masks_key, log_probs_key, batching, min_batch_size, max_batch_size,
            batching_timeout, prefer_tokens: see `LLMWrapperBase`. Without a tokenizer, the model's own is loaded.

    Log-probabilities are those of the model itself, before temperature, `top_k` and `top_p`. They carry gradients where
    sequences are scored, and none where prompts are continued. An answer that was drawn has them for its own tokens;
    those of the prompt count as 0 in ("log_probs", "full").

    Raises:
        ImportError: transformers is not installed.
        ValueError: see `LLMWrapperBase`.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.modules.llm import Text
        >>> from flambeau.rl.testing.tiny_llm import tiny_causal_lm, tiny_tokenizer
        >>> tokenizer = tiny_tokenizer()
        >>> policy = TransformersWrapper(
        ...     tiny_causal_lm(tokenizer), tokenizer=tokenizer, input_mode="text", generate_kwargs={"max_new_tokens": 3}
        ... )
        >>> answered = policy(TensorDict(text=Text(prompt=["Hi", "Hello"], batch_size=2), batch_size=2))
        >>> [len(row) for row in answered["tokens"].get("response", as_list=True)]
        [3, 3]
    """

    def __init__(self, model: Any, **kwargs: Any) -> None:
        model, kwargs = _loaded(model, kwargs)
        super().__init__(model, **kwargs)
        self.model = model

    def _tokenizer_of(self, model: Any, tokenizer: Any) -> Any:
        if tokenizer is not None:
            return super()._tokenizer_of(model, tokenizer)
        name = getattr(getattr(model, "config", None), "_name_or_path", None)
        if not name:
            if self.input_mode == "tokens":
                return None
            raise ValueError("tokenizer is missing, and the model has no name by which one could be loaded.")
        return super()._tokenizer_of(model, name)

    def _generate_answers(self, prompts: Sequence[Tensor], options: dict[str, Any]) -> list[list[Answer]]:
        length = max(len(prompt) for prompt in prompts)
        device = next(iter(self.model.parameters())).device
        sides = [(length - len(prompt), 0) for prompt in prompts]
        ids = torch.stack(
            [F.pad(row, side, value=self.padding_value) for row, side in zip(prompts, sides, strict=True)]
        )
        seen = torch.stack([F.pad(torch.ones_like(row), side) for row, side in zip(prompts, sides, strict=True)])
        with torch.no_grad():
            found = self.model.generate(
                input_ids=ids.to(device), attention_mask=seen.to(device), return_dict_in_generate=True,
                output_logits=True, **self._engine_options(options),
            )  # fmt: skip
        drawn = found.sequences[:, length:]
        scores = generated_log_probs(found.logits, drawn) if found.logits is not None else None
        ends = self._ends(options)
        each = [self._answer(row, None if scores is None else scores[at], ends) for at, row in enumerate(drawn)]
        count = len(each) // len(prompts)
        return [each[at : at + count] for at in range(0, len(each), count)]

    def _engine_options(self, options: dict[str, Any]) -> dict[str, Any]:
        made = {name: value for name, value in options.items() if value is not None}
        made.pop("logprobs", None)
        made.pop("skip_special_tokens", None)
        if made.get("temperature") == 0:
            made.setdefault("do_sample", False)
        if made.get("do_sample") is False:
            for name in ("temperature", "top_p", "top_k"):
                made.pop(name, None)
        if self.num_samples is not None:
            made["num_return_sequences"] = self.num_samples
        if made.pop("stop_sequences", None):
            made["stop_strings"] = list(options["stop_sequences"])
        if self.tokenizer is not None:
            made.setdefault("pad_token_id", self.padding_value)
            if "stop_strings" in made:
                made["tokenizer"] = self.tokenizer
        return made

    def _ends(self, options: dict[str, Any]) -> set[int]:
        """The tokens that end an answer."""
        config = getattr(self.model, "generation_config", None)
        for found in (options.get("eos_token_id"), getattr(config, "eos_token_id", None)):
            if found is not None:
                return {found} if isinstance(found, int) else set(found)
        found = getattr(self.tokenizer, "eos_token_id", None)
        return set() if found is None else {found}

    def _answer(self, drawn: Tensor, scores: Tensor | None, ends: set[int]) -> Answer:
        """An answer up to its end; what stands behind is padding."""
        tokens = drawn.tolist()
        at = next((place for place, token in enumerate(tokens) if token in ends), None)
        stop = len(tokens) if at is None else at + 1
        while at is None and stop > 1 and tokens[stop - 1] == self.padding_value and self.padding_value not in ends:
            stop -= 1  # it ended by a stop sequence
        kept = drawn[:stop].cpu()
        return Answer(None if scores is None else scores[:stop].cpu(), kept, complete=at is not None)

    def _logits(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        return sequence_logits(self.model, sequences, self.padding_value, self.pad_model_input)

    def _score_sequences(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        return log_probs_of(self._logits(sequences, options), sequences)

    def repeat_interleave_causal(self, sequence_lengths: Tensor) -> Tensor:
        """Who sees whom where sequences stand one behind the other; see `block_causal_mask`.

        Args:
            sequence_lengths: (sequences,), int64.

        Returns:
            (tokens, tokens), bool.
        """
        return block_causal_mask(sequence_lengths)


def _loaded(model: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The model of a name, and its tokenizer where none is given."""
    if not isinstance(model, str):
        return model, kwargs
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ImportError(
            "a model is loaded by its name with transformers, which is not installed. Run: pip install flambeau-rl[llm]"
        ) from error
    kwargs = {**kwargs, "tokenizer": kwargs.get("tokenizer") or model}
    return AutoModelForCausalLM.from_pretrained(model), kwargs
