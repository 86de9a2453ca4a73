"""The base of policies that are language models: what they read, what they write, and the distributions of tokens."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch import distributions as D

from flambeau.data.tensordict import TensorDict, TensorDictBase, lazy_stack
from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.rl.modules.distributions import LLMMaskedCategorical
from flambeau.rl.modules.llm.policies._generation_options import standardized
from flambeau.rl.modules.llm.policies._reading import read_rows
from flambeau.rl.modules.llm.policies._request_batching import RequestBatcher
from flambeau.rl.modules.llm.policies._rows import Answer, Row, stacked, written

__all__ = ["LLMWrapperBase"]

_MODES = ("history", "text", "tokens")


class LLMWrapperBase(TensorDictModuleBase):
    """A language model as a policy: it continues prompts, or tells how likely given sequences are.

    Engines differ in two methods, `_generate_answers` and `_score_sequences`; what is read and written is the same for
    all.

    Args:
        model: the engine.
        tokenizer: of transformers; which the engine's is by default.
        input_mode: what is read: "history", "text" or "tokens".
        input_key: where it is read; by default "prompt", or without `generate` "full", below the key of the mode.
        attention_mask_key: of padded tokens, 0 where there is padding.
        generate: continue prompts; otherwise score sequences.
        generate_kwargs: `max_new_tokens`, `num_return_sequences`, `temperature`, `top_p`, `top_k`, `do_sample`,
            `repetition_penalty`, `stop_sequences` and others of the engine.
        tokenizer_kwargs: of the call of the tokenizer.
        pad_output: give tensors of one length, instead of lazy stacks of different ones.
        pad_model_input: run sequences padded, the default; otherwise one behind the other without padding.
        inplace: write to the tensordict that is given (True, the default), to a new one (False), or to an empty one of
            its kind ("empty").
        device: where the results go; by default where the model is.
        layout: of the results without padding.
        num_samples: how many answers to each prompt, in a further batch dimension; by default one and no dimension.
        chat_template_name: see `History.apply_chat_template`.
        chat_template: likewise.
        return_log_probs: write log-probabilities; always done by engines that have them.
        history_key, text_key, tokens_key, masks_key, log_probs_key: where to write a `ChatHistory`, `Text`, `Tokens`,
            `Masks` and `LogProbs`.
        batching: run calls from several threads together.
        min_batch_size: how many calls to wait for; 1 by default.
        max_batch_size: how many at most.
        batching_timeout: how long a call waits for others, seconds.
        prefer_tokens: read the prompt's tokens where there are some, so that a conversation is not encoded again.

    Raises:
        ValueError: an argument has a value that it does not take, or does not go with another.
    """

    def __init__(
        self, model: Any, *, tokenizer: Any = None, input_mode: str = "history", input_key: Any = None,
        attention_mask_key: Any = "attention_mask", generate: bool = True,
        generate_kwargs: Mapping[str, Any] | None = None, tokenizer_kwargs: Mapping[str, Any] | None = None,
        pad_output: bool = False, pad_model_input: bool | None = None,
        inplace: Literal[True, False, "empty"] | None = None, device: Any = None, layout: torch.layout | None = None,
        num_samples: int | None = None, chat_template_name: str | None = None, chat_template: str | None = None,
        return_log_probs: bool | None = None, history_key: Any = "history", text_key: Any = "text",
        tokens_key: Any = "tokens", masks_key: Any = "masks", log_probs_key: Any = "log_probs",
        batching: bool | None = None, min_batch_size: int | None = None, max_batch_size: int | None = None,
        batching_timeout: float = 10.0, prefer_tokens: bool = False,
    ) -> None:  # fmt: skip
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__", "model")}
        super().__init__()
        self._given = given
        if input_mode not in _MODES:
            raise ValueError(f"input_mode is {input_mode!r}, expected one of {_MODES}.")
        if not generate and return_log_probs is False:
            raise ValueError("return_log_probs is False while generate=False writes nothing else; leave it out.")
        if generate and pad_model_input is not None:
            raise ValueError("pad_model_input says how sequences are scored; it does not go with generate=True.")
        self.input_mode, self.generate = input_mode, generate
        mode_key = {"history": history_key, "text": text_key, "tokens": tokens_key}[input_mode]
        part = "prompt" if generate else "full"
        self.input_key = input_key or ((mode_key, part) if isinstance(mode_key, str) else (*mode_key, part))
        self.attention_mask_key, self.prefer_tokens = attention_mask_key, prefer_tokens
        self.pad_output, self.pad_model_input = pad_output, pad_model_input is not False
        self.inplace = True if inplace is None else inplace
        self._device = None if device is None else torch.device(device)
        self.layout = layout or torch.strided
        self.chat_template_name, self.chat_template = chat_template_name, chat_template
        self.history_key, self.text_key, self.tokens_key = history_key, text_key, tokens_key
        self.masks_key, self.log_probs_key = masks_key, log_probs_key
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.generate_kwargs = standardized(generate_kwargs)
        asked = self.generate_kwargs.pop("num_return_sequences", None)
        self.num_samples = num_samples if num_samples is not None else asked
        self.return_log_probs = True if return_log_probs is None else return_log_probs
        self.tokenizer = self._tokenizer_of(model, tokenizer)
        self.padding_value = self._padding_value()
        self._collector: weakref.ref[Any] | None = None
        self._set_batching(batching, min_batch_size, max_batch_size, batching_timeout)
        self._set_keys()

    # --- What a subclass gives

    @abstractmethod
    def _generate_answers(self, prompts: Sequence[Tensor], options: dict[str, Any]) -> list[list[Answer]]:
        """The answers to prompts of (tokens,) each: for each a list of `num_samples`."""

    @abstractmethod
    def _score_sequences(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        """The log-probabilities of the tokens of each sequence, (tokens,), 0 for the first."""

    def _logits(self, sequences: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
        """The logits by which each token was drawn, (tokens, vocabulary), 0 for the first."""
        raise NotImplementedError(f"{type(self).__name__} has no logits; use its log-probabilities.")

    def _tokenizer_of(self, model: Any, tokenizer: Any) -> Any:
        if isinstance(tokenizer, str):
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(tokenizer)
        return tokenizer

    def _padding_value(self) -> int:
        tokenizer = self.tokenizer
        if tokenizer is None:
            return 0
        if getattr(tokenizer, "pad_token", None) is None and getattr(tokenizer, "eos_token", None) is not None:
            tokenizer.pad_token = tokenizer.eos_token
        found = getattr(tokenizer, "pad_token_id", None)
        return 0 if found is None else int(found)

    # --- Keys

    def _set_keys(self) -> None:
        self.in_keys = [self.input_key]
        texts = [self.text_key] if self.input_mode != "tokens" else []
        histories = [self.history_key] if self.input_mode == "history" else []
        scores = [self.log_probs_key] if self.return_log_probs else []
        self.out_keys = [*texts, self.masks_key, self.tokens_key, *scores, *histories]

    def _below(self, key: Any, *names: str) -> list[Any]:
        return [(key, name) if isinstance(key, str) else (*key, name) for name in names]

    @property
    def log_prob_keys(self) -> list[Any]:
        """Where log-probabilities are written."""
        return self._below(self.log_probs_key, "full")

    @property
    def dist_params_keys(self) -> list[Any]:
        """Where the distributions' parameters are: nowhere, as `get_dist` makes them."""
        return ["logits"]

    @property
    def dist_sample_keys(self) -> list[Any]:
        """Where the tokens that were drawn are written."""
        return self._below(self.tokens_key, "full")

    @property
    def device(self) -> torch.device | None:
        """Where results go."""
        return self._device

    # --- Other versions, collectors, batching

    def get_new_version(self, **kwargs: Any) -> Any:
        """A wrapper of the same model with other arguments.

        Args:
            **kwargs: of the constructor; the others are as they were. What says where to read follows `generate` and
                `input_mode` unless it is given.
        """
        given = dict(self._given)
        if "generate" in kwargs and kwargs["generate"] != given["generate"]:
            for name in ("input_key", "pad_model_input", "return_log_probs"):
                given[name] = None
        if "input_mode" in kwargs:
            given["input_key"] = None
        return type(self)(kwargs.pop("model", self.model), **given | kwargs)

    def register_collector(self, collector: Any) -> None:
        """Keep a weak reference to the collector that this policy works for."""
        self._collector = weakref.ref(collector)

    @property
    def collector(self) -> Any:
        """The collector that this policy works for, or None."""
        return None if self._collector is None else self._collector()

    def _set_batching(self, batching: bool | None, least: int | None, most: int | None, timeout_s: float) -> None:
        if batching is False and (least is not None or most is not None):
            raise ValueError("batching is False while min_batch_size or max_batch_size is given; leave them out.")
        wanted = batching or least is not None or most is not None
        if least is not None and most is not None and least > most:
            raise ValueError(f"min_batch_size is {least}, more than max_batch_size, {most}.")
        self._batcher = RequestBatcher(self._run_together, least or 1, most, timeout_s) if wanted else None

    @property
    def batching(self) -> bool:
        """Whether calls from several threads run together."""
        return self._batcher is not None

    def cleanup_batching(self, *, flush: bool = False) -> None:
        """Answer the calls that wait, or cancel them.

        Args:
            flush: run them; otherwise they raise `CancelledError`.
        """
        if self._batcher is not None:
            self._batcher.close(flush)

    def get_batching_state(self) -> dict[str, Any]:
        """How many calls wait and run, and the limits; empty without batching."""
        return {} if self._batcher is None else self._batcher.state()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_collector"] = None
        if self._batcher is not None:
            limits = self._batcher
            state["_batcher"] = (limits.min_size, limits.max_size, limits.timeout_s)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if isinstance(self._batcher, tuple):
            self._batcher = RequestBatcher(self._run_together, *self._batcher)

    def _run_together(self, calls: list[Any]) -> list[Any]:
        """Answer the elements of several batches in one go."""
        alike = all(options == calls[0][1] for _, options in calls)
        if not alike:
            return [self._run(rows, options) for rows, options in calls]
        made = self._run([row for rows, _ in calls for row in rows], calls[0][1])
        results, at = [], 0
        for rows, _ in calls:
            results.append(made[at : at + len(rows)])
            at += len(rows)
        return results

    # --- Running

    def forward(
        self, tensordict: TensorDictBase, *, tensordict_out: TensorDictBase | None = None, logits_only: bool = False,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Continue prompts, or score sequences.

        Args:
            tensordict: has the prompts or sequences at `input_key`.
            tensordict_out: written to instead.
            logits_only: without `generate`: write "logits", (*batch, tokens, vocabulary), padded on the left, and no
                log-probabilities.
            **kwargs: further options of generation.

        Returns:
            See `inplace`. With `num_samples` it is a new tensordict, of a further batch dimension.

        Raises:
            ValueError: there is nothing to read at `input_key`, or a prompt is empty.
        """
        if logits_only and self.generate:
            raise ValueError(
                "logits_only goes with generate=False; get_new_version(generate=False) makes such a policy."
            )
        shape = tensordict.batch_size
        rows = read_rows(tensordict.reshape(-1) if tensordict.ndim > 1 else tensordict, self)
        options = standardized(self.generate_kwargs | kwargs) | ({"logits_only": True} if logits_only else {})
        batcher = None if logits_only else self._batcher
        elements = self._run(rows, options) if batcher is None else batcher((rows, options))
        return self._into(tensordict, self._together(elements, shape), tensordict_out)

    def _run(self, rows: list[Row], options: dict[str, Any]) -> list[Any]:
        """The entries of each element, or lists of them where there are samples."""
        options = dict(options)
        tokens = [row.tokens for row in rows]
        if self.generate:
            answers = self._generate_answers(tokens, options)
            made = [[written(row, answer, self) for answer in each] for row, each in zip(rows, answers, strict=True)]
            return made if self.num_samples is not None else [each[0] for each in made]
        if options.pop("logits_only", False):
            logits = self._logits(tokens, options)
            return [
                written(row, Answer(), self) | {"logits": row.spread(each)}
                for row, each in zip(rows, logits, strict=True)
            ]
        scores = self._score_sequences(tokens, options)
        return [written(row, Answer(log_probs=score), self) for row, score in zip(rows, scores, strict=True)]

    def _together(self, elements: list[Any], shape: torch.Size) -> Any:
        samples = isinstance(elements[0], list)
        flat = [one for each in elements for one in each] if samples else elements
        logits = [one.pop("logits") for one in flat] if "logits" in flat[0] else None
        made = stacked(flat, self.pad_output, self.padding_value)
        if not self.return_log_probs:
            made = made.exclude(self.log_probs_key)
        if logits is not None:
            made.set("logits", _left_padded(logits))
        if self._device is not None:
            made = made.to(self._device)
        if samples:
            count = len(elements[0])
            rows = [made[at : at + count] for at in range(0, len(flat), count)]
            made = TensorDict(
                {key: _joined([row.get(key) for row in rows]) for key in list(made.keys())}, (len(rows), count)
            )
        if len(shape) != 1:
            made = made[0] if not shape else made.unflatten(0, shape)
        return made

    def _into(self, given: TensorDictBase, made: TensorDictBase, out: TensorDictBase | None) -> Any:
        if out is not None:
            return _written_into(out, made)
        if made.batch_size != given.batch_size:  # samples
            return made
        if self.inplace is True:
            return _written_into(given, made)
        return _written_into(given.empty(), made) if self.inplace == "empty" else made

    # --- Distributions

    def log_prob(self, data: TensorDictBase, **get_kwargs: Any) -> Any:
        """The log-probabilities of sequences.

        Args:
            data: see `forward`.
            **get_kwargs: of `TensorDict.get`, such as `as_padded_tensor=True`; by default a list, where the lengths
                differ.
        """
        scorer = self.get_new_version(generate=False, inplace=False) if self.generate else self
        found = scorer.forward(data.copy())
        key = self.log_prob_keys[0]
        return found.get(key, **(get_kwargs or ({} if self.pad_output else {"as_list": True})))

    def get_dist(
        self, tensordict: TensorDictBase, tensordict_out: TensorDictBase | None = None, logits_key: Any = "logits",
        mask_key: Any = None, as_padded_tensor: bool | None = None, as_nested_tensor: bool | None = None,
        padding_value: float | None = None, padding_side: str = "left", layout: torch.layout | None = None,
        **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """The distributions by which the tokens of sequences are drawn.

        Args:
            tensordict: has the sequences, see `forward`.
            tensordict_out: the results of `forward` are written to it.
            logits_key: where the logits are.
            mask_key: of a mask of tokens that count; with one, the distribution is an `LLMMaskedCategorical`.
            as_padded_tensor: kept from upstream; sequences are padded, with logits of 0.
            as_nested_tensor: kept from upstream.
            padding_value: kept from upstream.
            padding_side: kept from upstream; padding is on the left, or where given tokens have it.
            layout: kept from upstream.
            **kwargs: of `forward`.
        """
        scored = self._scored(tensordict, tensordict_out, **kwargs)
        logits = scored.get(logits_key)
        if mask_key is None:
            return D.Categorical(logits=logits)
        return LLMMaskedCategorical(logits=logits, mask=_padded_mask(scored, tensordict, mask_key, logits))

    def _scored(self, tensordict: TensorDictBase, out: TensorDictBase | None = None, **kwargs: Any) -> Any:
        scorer = self if not self.generate else self.get_new_version(generate=False)
        given = tensordict.copy()
        return scorer.forward(given, tensordict_out=out, logits_only=True, **kwargs)

    def _get_dist_with_prompt_mask(
        self, tensordict: TensorDictBase, tokens_key: Any = ("tokens", "prompt"), logits_key: Any = "logits",
        assistant_mask_key: Any = ("masks", "all_assistant_mask"),
        attention_mask_key: Any = ("masks", "all_attention_mask"), **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """With the tokens behind the prompt counting, or where there is no prompt those of the assistant."""
        scored = self._scored(tensordict, **kwargs)
        logits = scored.get(logits_key)
        prompts = _rows_of(tensordict, tokens_key)
        if prompts is None:
            mask = _padded_mask(scored, tensordict, assistant_mask_key, logits)
        else:
            mask = _padded_mask(scored, tensordict, attention_mask_key, logits).clone()
            padded = bool(_value(tensordict, (*_above(tokens_key), "padded")))
            for row, prompt in zip(mask.reshape(-1, mask.shape[-1]), prompts, strict=True):
                first = int(row.to(torch.uint8).argmax())
                row[: first + _length(prompt, self.padding_value if padded else None)] = False
        return LLMMaskedCategorical(logits=logits, mask=mask)

    def _get_dist_with_assistant_mask(
        self, tensordict: TensorDictBase, assistant_mask_key: Any = ("masks", "all_assistant_mask"),
        logits_key: Any = "logits", **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """With the assistant's tokens counting."""
        return self.get_dist(tensordict, logits_key=logits_key, mask_key=assistant_mask_key, **kwargs)

    def _get_dist_with_attention_mask(
        self, tensordict: TensorDictBase, attention_mask_key: Any = ("masks", "all_attention_mask"),
        logits_key: Any = "logits", **kwargs: Any,
    ) -> D.Distribution:  # fmt: skip
        """With all tokens but padding counting."""
        return self.get_dist(tensordict, logits_key=logits_key, mask_key=attention_mask_key, **kwargs)

    def _get_dist_with_custom_mask(
        self, tensordict: TensorDictBase, mask: Tensor, logits_key: Any = "logits", **kwargs: Any
    ) -> D.Distribution:
        """With the tokens of a mask counting, (*batch, tokens)."""
        scored = self._scored(tensordict, **kwargs)
        return LLMMaskedCategorical(logits=scored.get(logits_key), mask=mask)

    def _get_sft_dist(self, tensordict: TensorDictBase, **kwargs: Any) -> D.Distribution:
        return self._get_dist_with_prompt_mask(tensordict, **kwargs)

    def _get_rlhf_dist(self, tensordict: TensorDictBase, **kwargs: Any) -> D.Distribution:
        return self._get_dist_with_assistant_mask(tensordict, **kwargs)

    def _get_generic_dist(self, tensordict: TensorDictBase, **kwargs: Any) -> D.Distribution:
        return self._get_dist_with_attention_mask(tensordict, **kwargs)


def _written_into(target: TensorDictBase, made: TensorDictBase) -> TensorDictBase:
    """Set entries; what a container holds beside the new ones stays."""
    for key, value in made.items():
        held = target.get(key, None)
        if type(held) is type(value) and not isinstance(value, Tensor):
            value = held.copy().update(value)
        target.set(key, value)
    return target


def _joined(parts: list[Any]) -> Any:
    """A stack, dense where the shapes agree."""
    return torch.stack(parts) if isinstance(parts[0], Tensor) else lazy_stack(parts)


def _left_padded(rows: Sequence[Tensor]) -> Tensor:
    length = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, 0, length - len(row), 0)) for row in rows])


def _left_padded_rows(rows: Sequence[Tensor]) -> Tensor:
    length = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (length - len(row), 0)) for row in rows])


def _rows_of(tensordict: TensorDictBase, key: Any) -> Any:
    """The tensors of the elements of a batch, or None."""
    parts = tensordict.reshape(-1).unbind(0) if tensordict.ndim else [tensordict]
    rows = [part.get(key, None) for part in parts]
    return None if any(row is None for row in rows) else rows


def _above(key: Any) -> tuple[Any, ...]:
    return () if isinstance(key, str) else tuple(key[:-1])


def _value(tensordict: TensorDictBase, key: Any) -> Any:
    """A value that all elements of a batch share, or None."""
    part = tensordict
    while part.ndim:
        part = part[0]
    return part.get(key, None) if key[:-1] else None


def _length(prompt: Tensor, padding: int | None) -> int:
    """How many tokens a prompt has, behind its padding where there is some."""
    known = (prompt != padding).to(torch.uint8) if padding is not None else torch.ones_like(prompt)
    return len(prompt) - int(known.argmax())


def _padded_mask(scored: TensorDictBase, given: TensorDictBase, key: Any, logits: Tensor) -> Tensor:
    """A mask, padded on the left as the logits are."""
    for source in (scored, given):
        rows = _rows_of(source, key)
        if rows is not None:
            length = logits.shape[-2]
            made = torch.stack([torch.nn.functional.pad(row.bool(), (length - len(row), 0)) for row in rows])
            return made.reshape(logits.shape[:-1]).to(logits.device)
    raise KeyError(
        f"there is no mask {key!r}; which tokens are the assistant's is known from a history alone: use "
        "input_mode='history', or write the mask."
    )
