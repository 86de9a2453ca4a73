"""Engines of vLLM as policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

from flambeau.rl.modules.llm.policies._rows import Answer
from flambeau.rl.modules.llm.policies.log_prob_distribution import LogProbDistribution
from flambeau.rl.modules.llm.policies.wrapper_base import LLMWrapperBase, _left_padded_rows, _padded_mask, _rows_of

__all__ = ["vLLMWrapper"]

# Our names of options -> vLLM's.
_NAMES = {"max_new_tokens": "max_tokens", "num_return_sequences": "n", "stop_sequences": "stop"}
_OF_OTHERS = ("do_sample", "num_beams", "length_penalty", "early_stopping", "pad_token_id", "logprobs")


class vLLMWrapper(LLMWrapperBase):  # upstream's name
    """An engine of vLLM as a policy.

    Args:
        model: a `vllm.LLM`, an `AsyncVLLM`, `RayLLMWorker` or `LocalLLMWrapper`, or a model's name, of which a
            `vllm.LLM` is made.
        tokenizer, input_mode, input_key, attention_mask_key, generate, generate_kwargs, tokenizer_kwargs, pad_output,
            pad_model_input, inplace, device, layout, num_samples, chat_template_name, chat_template, return_log_probs,
            history_key, text_key, tokens_key, masks_key, log_probs_key, batching, min_batch_size, max_batch_size,
            batching_timeout, prefer_tokens: see `LLMWrapperBase`. Without a tokenizer, the engine's own is used.

    The engine reports log-probabilities of tokens and no distributions: `get_dist` gives a `LogProbDistribution`.

    Raises:
        ImportError: vLLM is not installed.
        ValueError: see `LLMWrapperBase`.
    """

    def __init__(self, model: Any, **kwargs: Any) -> None:
        from flambeau.rl.modules.llm.backends.vllm.base import imported_vllm

        vllm = imported_vllm()
        self._sampling_params = vllm.SamplingParams
        if isinstance(model, str):
            kwargs = {**kwargs, "tokenizer": kwargs.get("tokenizer") or model}
            model = vllm.LLM(model)
        super().__init__(model, **kwargs)
        self.model = model

    def _tokenizer_of(self, model: Any, tokenizer: Any) -> Any:
        if tokenizer is not None:
            return super()._tokenizer_of(model, tokenizer)
        if callable(getattr(model, "get_tokenizer", None)):
            return model.get_tokenizer()
        arguments = getattr(model, "engine_args", None)
        name = getattr(model, "model_name", None) or getattr(arguments, "model", None)
        return super()._tokenizer_of(model, name)

    def set_tokenizer(self, tokenizer: Any) -> None:
        """Use another tokenizer, here and in an engine that has one of its own.

        Args:
            tokenizer: the tokenizer.
        """
        self.tokenizer = self._given["tokenizer"] = tokenizer
        self.padding_value = self._padding_value()
        if callable(getattr(self.model, "set_tokenizer", None)):
            self.model.set_tokenizer(tokenizer)

    @property
    def CompletionOutput_tc(self) -> Any:
        """VLLM's `CompletionOutput` as a tensorclass."""
        from vllm.outputs import CompletionOutput

        from flambeau.data.tensordict import from_dataclass

        return from_dataclass(CompletionOutput)

    def _engine_options(self, options: dict[str, Any]) -> Any:
        made = {_NAMES.get(name, name): value for name, value in options.items()
                if value is not None and name not in _OF_OTHERS}  # fmt: skip
        if options.get("do_sample") is False:
            made["temperature"] = 0.0
        if self.num_samples is not None:
            made["n"] = self.num_samples
        made.setdefault("skip_special_tokens", False)
        return self._sampling_params(**made, logprobs=0, detokenize=False)

    def _asked(self, rows: Sequence[Tensor], params: Any) -> Any:
        prompts = [{"prompt_token_ids": row.tolist()} for row in rows]
        return self.model.generate(prompts, sampling_params=params, use_tqdm=False)

    def _generate_answers(self, prompts: Sequence[Tensor], options: dict[str, Any]) -> list[list[Answer]]:
        return [[_answer(output) for output in request.outputs]
                for request in self._asked(prompts, self._engine_options(options))]  # fmt: skip

    def _score_sequences(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        params = self._sampling_params(max_tokens=1, prompt_logprobs=0, detokenize=False)
        made = []
        for row, request in zip(sequences, self._asked(sequences, params), strict=True):
            made.append(_chosen(row.tolist(), request.prompt_logprobs))
        return made

    def get_dist(  # type: ignore[override]  # upstream's arguments but those of padding
        self, tensordict: Any, tensordict_out: Any = None, logits_key: Any = "logits", mask_key: Any = None,
        **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """The log-probabilities of sequences, in the place of their distributions.

        Args:
            tensordict: see `forward`.
            tensordict_out: the results of `forward` are written to it.
            logits_key: kept from upstream.
            mask_key: of a mask of tokens that count.
            **kwargs: kept from upstream.
        """
        scorer = self if not self.generate else self.get_new_version(generate=False)
        scored = scorer.forward(tensordict.copy(), tensordict_out=tensordict_out)
        log_probs = _left_padded_rows(_rows_of(scored, self.log_prob_keys[0]) or [])
        if mask_key is None:
            return LogProbDistribution(log_probs)
        return LogProbDistribution(log_probs, _padded_mask(scored, tensordict, mask_key, log_probs.unsqueeze(-1)))

    def get_dist_with_prompt_mask(
        self, tensordict: Any, tokens_key: Any = ("tokens", "full"), logits_key: Any = "logits",
        assistant_mask_key: Any = ("masks", "all_assistant_mask"),
        attention_mask_key: Any = ("masks", "all_attention_mask"), **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """The same, with the assistant's tokens counting where they are known, else all but padding.

        Args:
            tensordict: see `forward`.
            tokens_key: kept from upstream.
            logits_key: kept from upstream.
            assistant_mask_key: of the assistant's tokens.
            attention_mask_key: of all tokens.
            **kwargs: of `get_dist`.
        """
        try:
            return self.get_dist(tensordict, mask_key=assistant_mask_key, **kwargs)
        except KeyError:
            return self.get_dist(tensordict, mask_key=attention_mask_key, **kwargs)


def _answer(output: Any) -> Answer:
    tokens = list(output.token_ids)
    scores = None if output.logprobs is None else _chosen(tokens, output.logprobs)
    return Answer(scores, torch.tensor(tokens, dtype=torch.int64), complete=output.finish_reason == "stop")


def _chosen(tokens: Sequence[int], reported: Sequence[Any]) -> Tensor:
    """The log-probabilities of tokens; what is not reported, as of a first token, is 0."""
    values = [0.0 if each is None else float(each[token].logprob) for token, each in zip(tokens, reported, strict=True)]
    return torch.tensor(values)
