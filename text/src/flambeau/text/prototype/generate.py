"""Generating text with any model that scores the next token: greedily, by beam search, or by sampling."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.text._generation import beams, logits

__all__ = ["DEFAULT_MAX_SEQ_LEN", "GenerationUtils"]

DEFAULT_MAX_SEQ_LEN = 256


class GenerationUtils(nn.Module):
    """Generation for a model of one's own, such as a T5 with a head.

    A model has `prepare_inputs_for_generation(input_ids, ...)`, which makes the arguments of its `forward`. One with an
    encoder has `get_encoder()`, and its method takes `encoder_outputs` and, if it has that parameter,
    `encoder_padding_mask`. The output has `decoder_output`, scores (N, T, V) (`logits` for models of transformers).
    Where it has `past_key_values` too, they come back to `prepare_inputs_for_generation` at the next token, so that
    each costs the same; beams reorder them by the model's `_reorder_cache(past, beam_idx)`.

    Args:
        model: the model; in `eval()` mode, or its dropout acts.
        is_encoder_decoder: texts are generated from an encoder's output; otherwise they continue the input.
        is_huggingface_model: a model of transformers. What there is already is computed again for each token.

    Example:
        >>> from flambeau.text.models import T5_SMALL_GENERATION
        >>> model, transform = T5_SMALL_GENERATION.get_model().eval(), T5_SMALL_GENERATION.transform()
        >>> ids = GenerationUtils(model).generate(transform(["summarize: ..."]), max_length=20)
    """

    def __init__(self, model: nn.Module, is_encoder_decoder: bool = True, is_huggingface_model: bool = False) -> None:
        super().__init__()
        self.model = model
        self.is_encoder_decoder, self.is_huggingface_model = is_encoder_decoder, is_huggingface_model

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """As `generate`."""
        return self.generate(*args, **kwargs)

    @torch.no_grad()
    def generate(
        self,
        inputs: Tensor,
        num_beams: int | None = None,
        max_length: int = DEFAULT_MAX_SEQ_LEN,
        pad_idx: int = 0,
        eos_idx: int | None = 1,
        *,
        do_sample: bool = False,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        repetition_penalty: float = 1.0,
        length_penalty: float = 1.0,
        early_stopping: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Generate a text for each row.

        Args:
            inputs: (N, M), tokens for the encoder, or what texts begin with where there is none.
            num_beams: how many texts are followed for each row; None and 1 are greedy.
            max_length: most tokens of a text, its first ones included.
            pad_idx: fills rows that ended; the encoder's padding for models of transformers.
            eos_idx: the token that ends a text; None never ends one early.
            do_sample: draw tokens by their probability.
            top_k: draw among the k likeliest.
            top_p: draw among the likeliest that hold this share of the probability.
            temperature: scores are divided by it before they become probabilities.
            repetition_penalty: above 1, tokens that were there become less likely.
            length_penalty: sums of beams are divided by length to this power.
            early_stopping: end a row with as many ended texts as there are beams.
            generator: draws.

        Returns:
            (N, T), int64, T at most `max_length`: texts with what they begin with, 0 for encoder-decoder models.

        Raises:
            ValueError: a number is out of its range, or beams and drawing are both asked for.

        References:
            Holtzman et al. 2019, arXiv:1904.09751; Fan et al. 2018, arXiv:1805.04833; Keskar et al. 2019,
            arXiv:1909.05858.
        """
        if num_beams is not None and num_beams < 1:
            raise ValueError(f"num_beams is {num_beams}, expected at least 1.")
        if do_sample and (num_beams or 1) > 1:
            raise ValueError("tokens are drawn or followed by beams, not both: leave num_beams or do_sample out.")
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}, expected at least 1.")
        model_kwargs: dict[str, Any] = {}
        if self.is_encoder_decoder:
            model_kwargs = self._encoded(inputs, pad_idx)
            # Texts begin with 0, whatever the padding is, as upstream's.
            inputs = self._prepare_decoder_ids_for_generation(len(inputs), device=inputs.device)
        if num_beams is not None and num_beams > 1:
            return self.beam_search(
                inputs, num_beams, max_length, eos_idx, pad_idx=pad_idx, length_penalty=length_penalty,
                early_stopping=early_stopping, repetition_penalty=repetition_penalty, **model_kwargs,
            )  # fmt: skip
        if not do_sample:
            return self.greedy_search(
                inputs, max_length, eos_idx, pad_idx, repetition_penalty=repetition_penalty, **model_kwargs
            )
        return self.sample(
            inputs, max_length, eos_idx, pad_idx, top_k=top_k, top_p=top_p, temperature=temperature,
            repetition_penalty=repetition_penalty, generator=generator, **model_kwargs,
        )  # fmt: skip

    def greedy_search(
        self,
        input_ids: Tensor,
        max_length: int,
        eos_idx: int | None,
        pad_idx: int | None = None,
        *,
        repetition_penalty: float = 1.0,
        **model_kwargs: Any,
    ) -> Tensor:
        """Take the likeliest token each time; `input_ids` (N, T) are what texts begin with, the rest as `generate`."""

        def likeliest(scores: Tensor, ids: Tensor) -> Tensor:
            return _penalized(scores, ids, repetition_penalty).argmax(-1, keepdim=True)

        return self._grow(input_ids, likeliest, max_length, eos_idx, pad_idx, model_kwargs)

    def sample(
        self,
        input_ids: Tensor,
        max_length: int,
        eos_idx: int | None,
        pad_idx: int | None = None,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        repetition_penalty: float = 1.0,
        generator: torch.Generator | None = None,
        **model_kwargs: Any,
    ) -> Tensor:
        """Draw each token; `input_ids` (N, T) are what texts begin with, the rest as `generate`."""

        def drawn(scores: Tensor, ids: Tensor) -> Tensor:
            scores = _penalized(self._remove_invalid_values(scores.float()), ids, repetition_penalty)
            probs = self._apply_temperature(scores, temperature).softmax(-1)
            if top_k is not None:
                probs = self._get_top_k_restriction(probs, top_k)
            if top_p is not None:
                probs = self._get_top_p_restriction(probs / probs.sum(-1, keepdim=True), top_p)
            return torch.multinomial(probs, 1, generator=generator)

        return self._grow(input_ids, drawn, max_length, eos_idx, pad_idx, model_kwargs)

    def beam_search(
        self,
        input_ids: Tensor,
        num_beams: int,
        max_length: int = DEFAULT_MAX_SEQ_LEN,
        eos_idx: int | None = 1,
        *,
        pad_idx: int = 0,
        length_penalty: float = 1.0,
        early_stopping: bool = False,
        repetition_penalty: float = 1.0,
        **model_kwargs: Any,
    ) -> Tensor:
        """Follow several texts of each row and give the best; `input_ids` (N, T) are what texts begin with.

        The other arguments are those of `generate`.
        """
        turn = _Turn(self, {name: _repeated(value, num_beams) for name, value in model_kwargs.items()})

        def step(ids: Tensor, origins: Tensor | None) -> Tensor:
            if origins is not None:
                turn.reorder(origins)
            return _penalized(turn.scores(ids), ids, repetition_penalty)

        return beams.search(
            input_ids, step, num_beams=num_beams, max_length=max_length, eos_idx=-1 if eos_idx is None else eos_idx,
            pad_idx=pad_idx, length_penalty=length_penalty, early_stopping=early_stopping,
        )  # fmt: skip

    def _grow(
        self,
        ids: Tensor,
        choose: Callable[[Tensor, Tensor], Tensor],
        max_length: int,
        eos_idx: int | None,
        pad_idx: int | None,
        model_kwargs: dict[str, Any],
    ) -> Tensor:
        """Put chosen tokens behind `ids` until all rows ended."""
        turn = _Turn(self, model_kwargs)
        unfinished = torch.ones(len(ids), 1, dtype=torch.bool, device=ids.device)
        while ids.shape[1] < max_length and len(ids):
            chosen = choose(turn.scores(ids), ids)
            if eos_idx is not None and pad_idx is not None:
                chosen = chosen.masked_fill(~unfinished, pad_idx)
            ids = torch.cat([ids, chosen], 1)
            if eos_idx is not None:
                unfinished &= chosen.ne(eos_idx)
                if not unfinished.any():
                    break
        return ids

    def _encoded(self, inputs: Tensor, pad_idx: int) -> dict[str, Any]:
        """What the encoder makes of the inputs, under the names that models take it by."""
        encoder: Any = self.model.get_encoder()  # type: ignore[operator]
        if self.is_huggingface_model:
            mask = inputs.ne(pad_idx).long()
            return {"encoder_outputs": encoder(inputs, attention_mask=mask, return_dict=True), "attention_mask": mask}
        # Upstream: what `pad_idx` says is padding, whatever the model's own is.
        padding = inputs.eq(pad_idx)
        takes_mask = "src_key_padding_mask" in inspect.signature(encoder.forward).parameters
        outputs = encoder(inputs, src_key_padding_mask=padding) if takes_mask else encoder(inputs)
        prepare: Any = self.model.prepare_inputs_for_generation
        accepted = inspect.signature(prepare).parameters.values()
        if any(p.name == "encoder_padding_mask" or p.kind is p.VAR_KEYWORD for p in accepted):
            masks = {"encoder_padding_mask": padding}
        else:
            masks = {}
        # Lists of the layers' states are no part of what a decoder reads, and cost memory for each beam.
        kept = {name: value for name, value in outputs.items() if isinstance(value, Tensor)}
        return {"encoder_outputs": kept, **masks}

    def _prepare_decoder_ids_for_generation(
        self, batch_size: int, pad_idx: int = 0, device: torch.device | None = None, **model_kwargs: Any
    ) -> Tensor:
        """What texts begin with: `decoder_input_ids`, or a column of `pad_idx`."""
        if "decoder_input_ids" in model_kwargs:
            given: Tensor = model_kwargs["decoder_input_ids"]
            return given
        return torch.full((batch_size, 1), pad_idx, dtype=torch.long, device=device)

    def _get_top_k_restriction(self, scores: Tensor, top_k: int) -> Tensor:
        return logits.restrict_to_top_k(scores, top_k)

    def _get_top_p_restriction(self, probs: Tensor, top_p: float) -> Tensor:
        return logits.restrict_to_top_p(probs, top_p)

    def _apply_temperature(self, probs: Tensor, temperature: float) -> Tensor:
        return logits.apply_temperature(probs, temperature)

    def _remove_invalid_values(self, scores: Tensor) -> Tensor:
        return logits.remove_invalid_values(scores)


class _Turn:
    """Asking a model for the next token again and again, with what it remembers in between."""

    def __init__(self, utils: GenerationUtils, model_kwargs: dict[str, Any]) -> None:
        self.model: Any = utils.model
        self.foreign, self.kwargs = utils.is_huggingface_model, model_kwargs

    def scores(self, ids: Tensor) -> Tensor:
        """Scores (N, V) of what comes after `ids` (N, T)."""
        arguments = self.model.prepare_inputs_for_generation(ids, **self.kwargs)
        if self.foreign:
            arguments |= {"return_dict": True, "use_cache": False}
        outputs = self.model(**arguments)
        if not self.foreign and outputs.get("past_key_values") is not None:
            self.kwargs["past_key_values"] = outputs["past_key_values"]
        scores: Tensor = outputs["logits" if self.foreign else "decoder_output"]
        return scores[:, -1]

    def reorder(self, origins: Tensor) -> None:
        """Let each row continue another one."""
        if self.kwargs.get("past_key_values") is not None:
            self.kwargs["past_key_values"] = self.model._reorder_cache(self.kwargs["past_key_values"], origins)


def _penalized(scores: Tensor, ids: Tensor, penalty: float) -> Tensor:
    return scores if penalty == 1.0 else logits.apply_repetition_penalty(scores, ids, penalty)


def _repeated(value: Any, times: int) -> Any:
    """Each row of every tensor several times, for as many beams."""
    if isinstance(value, Tensor):
        return value.repeat_interleave(times, 0)
    if isinstance(value, dict):
        repeated = {key: _repeated(item, times) for key, item in value.items()}
        # Some outputs are records that are dicts too; only their own class is taken by its model.
        return type(value)(**repeated) if type(value) is not dict else repeated
    if type(value) in (list, tuple):
        return type(value)(_repeated(item, times) for item in value)
    return value
