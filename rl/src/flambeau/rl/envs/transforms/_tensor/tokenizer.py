"""Texts as tokens."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.rl.data.tensor_specs import Bounded, NonTensor
from flambeau.rl.envs._keys import NestedKey, with_last
from flambeau.rl.envs.transforms._base.transform import tolerating_missing
from flambeau.rl.envs.transforms._tensor.unary import UnaryTransform

__all__ = ["Tokenizer"]


class Tokenizer(UnaryTransform):
    """Texts that an environment gives as tokens, and tokens that it takes as texts.

    Beside the tokens it writes which of them are no padding, at "attention_mask".

    Args:
        in_keys: of texts.
        out_keys: of tokens (*batch, length), int64.
        in_keys_inv: of texts that the environment reads.
        out_keys_inv: of the tokens that they are made from.
        tokenizer: a tokenizer of transformers, or the name of one; default: "bert-base-uncased".
        use_raw_nontensor: the tokenizer takes wrapped texts.
        additional_tokens: are added to the tokenizer's vocabulary.
        skip_special_tokens: leave padding and its like out of texts.
        add_special_tokens: add the marks of beginnings and ends that the tokenizer has.
        padding: fill up the shorter texts of a batch.
        max_length: of tokens: shorter texts are filled up, longer ones cut; default: as long as the longest.
        return_attention_mask: write it.
        missing_tolerance: data without one of the keys pass.
        call_before_reset: make texts from what an environment is reset with.

    Raises:
        ImportError: a tokenizer is given by name, and transformers is not installed.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        tokenizer: Any = None,
        use_raw_nontensor: bool = False,
        additional_tokens: list[str] | None = None,
        skip_special_tokens: bool = True,
        add_special_tokens: bool = False,
        padding: bool = True,
        max_length: int | None = None,
        return_attention_mask: bool = True,
        missing_tolerance: bool = True,
        call_before_reset: bool = False,
    ) -> None:
        super().__init__(
            [] if in_keys is None else in_keys,
            [] if out_keys is None else out_keys,
            in_keys_inv,
            out_keys_inv,
            fn=self.call_tokenizer_fn,
            inv_fn=self.call_tokenizer_inv_fn,
            use_raw_nontensor=use_raw_nontensor,
        )
        self.tokenizer = _named("bert-base-uncased" if tokenizer is None else tokenizer)
        self.add_special_tokens = add_special_tokens
        self.skip_special_tokens = skip_special_tokens
        self.padding = padding
        self.max_length = max_length
        self.return_attention_mask = return_attention_mask
        self.call_before_reset = call_before_reset
        self.set_missing_tolerance(missing_tolerance)
        if additional_tokens:
            self.tokenizer.add_tokens(additional_tokens)

    @property
    def out_device(self) -> Any:
        """Where tokens go: the device of the environment, if it has one."""
        parent = self.parent
        return None if parent is None else parent.device

    @property
    def device(self) -> Any:
        """As `out_device`."""
        return self.out_device

    # Texts and tokens

    def call_tokenizer_fn(self, value: Any) -> Any:
        """Tokens of a text or of a list of texts, and what of them is no padding.

        Args:
            value: the text, or the list.

        Returns:
            The tokens (..., length); with `return_attention_mask` a pair of them and a mask of the same shape.
        """
        if not self._use_raw_nontensor and not isinstance(value, str | list):
            value = value.tolist()
        found = self.tokenizer(
            _flat(value),
            add_special_tokens=self.add_special_tokens,
            padding="max_length" if self.max_length is not None else self.padding,
            max_length=self.max_length,
            truncation=self.max_length is not None,
            return_attention_mask=True,
            return_tensors="pt",
        )
        size = _size(value)
        tokens, mask = (
            found[name].reshape(*size, found[name].shape[-1]).to(self.out_device or "cpu")
            for name in ("input_ids", "attention_mask")
        )
        return (tokens, mask) if self.return_attention_mask else tokens

    def call_tokenizer_inv_fn(self, value: Tensor) -> Any:
        """The text of tokens (length,), or the list of texts of tokens (batch, length).

        Args:
            value: integers.
        """
        if value.ndim == 1:
            return self.tokenizer.decode(value.long(), skip_special_tokens=self.skip_special_tokens)
        return [self.call_tokenizer_inv_fn(each) for each in value.unbind(0)]

    def _write(self, tensordict: Any, key: NestedKey, found: Any) -> None:
        if self.return_attention_mask:
            found, mask = found
            tensordict.set(with_last(key, "attention_mask"), mask)
        tensordict.set(key, found)

    # Data

    def _call(self, next_tensordict: Any) -> Any:
        for in_key, out_key in self._pairs():
            value = next_tensordict.get(in_key, None)
            if value is not None:
                self._write(next_tensordict, out_key, self._apply_transform(value))
            elif not self.missing_tolerance:
                raise self._missing(in_key, next_tensordict)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Tokenize the texts of data.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it has none, and `missing_tolerance` is False.
        """
        return self._call(tensordict)

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        if not self.call_before_reset or tensordict is None:
            return tensordict
        with tolerating_missing(self):
            return self.inv(tensordict)

    # Specs

    def _tokens_spec(self, spec: NonTensor, upper: int) -> Bounded:
        length = -1 if self.max_length is None else self.max_length
        shape = Size([*spec.shape, length])
        found = Bounded(0, upper, shape=Size([*spec.shape, 1]), dtype=torch.int64, device=self.out_device)
        found.shape = shape
        return found

    def transform_observation_spec(self, observation_spec: Any, test_output_spec: Any = None) -> Any:
        """With tokens beside texts.

        Args:
            observation_spec: a composite.
            test_output_spec: has no effect.
        """
        for in_key, out_key in self._pairs():
            if in_key in observation_spec.keys(True, True):
                spec = observation_spec[in_key]
                observation_spec[out_key] = self._tokens_spec(spec, len(self.tokenizer))
                if self.return_attention_mask:
                    observation_spec[with_last(out_key, "attention_mask")] = self._tokens_spec(spec, 2)
        return observation_spec

    def _untouched(self, spec: Any, test_spec: Any = None) -> Any:
        return spec

    transform_reward_spec = transform_done_spec = _untouched  # type: ignore[assignment]

    def _input(self, spec: Any, test_spec: Any) -> Any:
        for in_key, out_key in self._pairs_inv():
            if in_key in spec.keys(True, True):
                inner = spec[in_key]
                del spec[in_key]
                spec[out_key] = self._tokens_spec(inner, len(self.tokenizer))
        return spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self.in_keys})"


def _named(tokenizer: Any) -> Any:
    if not isinstance(tokenizer, str):
        return tokenizer
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(
            f"Tokenizer finds {tokenizer!r} by transformers, which is not installed; pip install transformers, or give "
            "it a tokenizer."
        ) from error
    return transformers.AutoTokenizer.from_pretrained(tokenizer)


def _flat(value: Any) -> Any:
    """A list of lists of texts as one list."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = [each for part in value for each in part]
    return value


def _size(value: Any) -> list[int]:
    size = []
    while isinstance(value, list):
        size.append(len(value))
        value = value[0] if value else None
    return size
