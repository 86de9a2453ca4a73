"""Reward models of Hugging Face in this library's loops, and its replay buffers in trainers of transformers and TRL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn.common import TensorDictModuleBase

__all__ = ["HFRewardModelWrapper", "TorchRLBufferDataset"]


class HFRewardModelWrapper(TensorDictModuleBase):
    """A reward model of transformers, such as `AutoModelForSequenceClassification`, on tensordicts.

    Args:
        model: called with `input_ids` and `attention_mask`; its output has `logits` or `rewards` of one number for each
            sequence.
        token_key: of the tokens, (batch, tokens).
        attention_mask_key: of the mask; None to give none.
        reward_key: where the rewards go, (batch,).
        inference_mode: compute without gradients.

    Raises:
        ValueError: of `forward`: the output has other than one number for each sequence.
        AttributeError: of `forward`: the output has neither `logits` nor `rewards`.
    """

    def __init__(
        self, model: nn.Module, *, token_key: Any = ("tokens", "full"),
        attention_mask_key: Any = ("masks", "all_attention_mask"), reward_key: Any = "reward",
        inference_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._model = model
        self.token_key, self.attention_mask_key, self.reward_key = token_key, attention_mask_key, reward_key
        self.inference_mode = inference_mode
        self.in_keys = [token_key, *([] if attention_mask_key is None else [attention_mask_key])]
        self.out_keys = [reward_key]

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._model

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the rewards of sequences.

        Args:
            tensordict: of one batch dimension.
        """
        given = {"input_ids": tensordict.get(self.token_key)}
        if self.attention_mask_key is not None:
            given["attention_mask"] = tensordict.get(self.attention_mask_key)
        with torch.inference_mode() if self.inference_mode else nullcontext():
            rewards = self._rewards(self._model(**given))
        tensordict.set(self.reward_key, rewards)
        return tensordict

    def _rewards(self, output: Any) -> Tensor:
        found = next(
            (value for name in ("logits", "rewards") if (value := getattr(output, name, None)) is not None), None
        )
        if found is None:
            raise AttributeError(f"the model's output, a {type(output).__name__}, has neither `logits` nor `rewards`.")
        if found.ndim == 2 and found.shape[-1] == 1:
            found = found.squeeze(-1)
        if found.ndim != 1:
            raise ValueError(
                f"the model's output has shape {tuple(found.shape)}, expected one number for each sequence; build the "
                "model with num_labels=1."
            )
        return found  # type: ignore[no-any-return]


class TorchRLBufferDataset(IterableDataset[dict[str, Any]]):
    """The samples of a replay buffer, one by one, as dictionaries.

    Args:
        replay_buffer: is sampled.
        batch_size: how many samples are drawn at a time.
        keys: of the entries; by default all. Nested keys become names with points.
        device: where tensors go.
        num_batches: how many times an iterator samples; None for no end.

    Raises:
        ValueError: `batch_size` or `num_batches` is below 1.
    """

    def __init__(
        self, replay_buffer: Any, batch_size: int, *, keys: Sequence[Any] | None = None, device: Any = None,
        num_batches: int | None = 1,
    ) -> None:  # fmt: skip
        if batch_size < 1 or (num_batches is not None and num_batches < 1):
            raise ValueError(f"batch_size is {batch_size} and num_batches {num_batches}, expected 1 or more.")
        self.replay_buffer, self.batch_size = replay_buffer, batch_size
        self.keys, self.device, self.num_batches = keys, device, num_batches

    def __iter__(self) -> Iterator[dict[str, Any]]:
        drawn = 0
        while self.num_batches is None or drawn < self.num_batches:
            drawn += 1
            for sample in self.replay_buffer.sample(self.batch_size).unbind(0):
                yield self._flat(sample)

    def _flat(self, sample: TensorDictBase) -> dict[str, Any]:
        keys = list(sample.keys(True, True)) if self.keys is None else self.keys
        made = {}
        for key in keys:
            value = sample.get(key)
            if isinstance(value, Tensor) and self.device is not None:
                value = value.to(self.device)
            elif not isinstance(value, Tensor | str) and hasattr(value, "tolist"):
                value = value.tolist()
            made[key if isinstance(key, str) else ".".join(key)] = value
        return made

    def as_hf_dataset(self) -> Any:
        """The same as a `datasets.IterableDataset`, which TRL's trainers ask for.

        Raises:
            ImportError: `datasets` is not installed.
        """
        try:
            from datasets import IterableDataset as HFIterableDataset
        except ImportError as error:
            raise ImportError(
                "as_hf_dataset needs the library datasets, which is not installed. Run: pip install datasets"
            ) from error
        return HFIterableDataset.from_generator(self.__iter__)
