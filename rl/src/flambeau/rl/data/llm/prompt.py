"""Prompts, and the texts that follow them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorClass, TensorDict
from flambeau.rl.data.llm.dataset import TensorDictTokenizer, TokenizedDatasetLoader, _texts

__all__ = ["PromptData", "PromptTensorDictTokenizer"]

_DATASET = "CarperAI/openai_summarize_tldr"


class PromptData(TensorClass):  # type: ignore[misc]
    """Prompts with the texts that follow them, one behind the other.

    Attributes:
        input_ids: (batch, block), int64: prompt, text, padding.
        attention_mask: (batch, block): 0 where there is padding.
        prompt_rindex: (batch,), int64: the place of the prompt's last token.
        labels: (batch, block), or None: what a model is to say.
        logits: of a model, or None.
        loss: of a model, or None.
    """

    input_ids: Tensor
    attention_mask: Tensor
    prompt_rindex: Tensor
    labels: Tensor | None = None
    logits: Tensor | None = None
    loss: Tensor | None = None

    def mask_label(self, pad_token_id: int = 50256) -> Self:
        """The prompts alone, with padding in the place of what follows.

        Args:
            pad_token_id: the token of padding.
        """
        place = torch.arange(self.input_ids.shape[-1], device=self.prompt_rindex.device)
        seen = place < self.prompt_rindex[..., None]
        return type(self)(
            input_ids=torch.where(seen, self.input_ids, pad_token_id), attention_mask=seen.long(),
            prompt_rindex=self.prompt_rindex, batch_size=self.batch_size,
        )  # fmt: skip

    @classmethod
    def from_dataset(
        cls, split: str, dataset_name: str | None = None, max_length: int = 550, root_dir: Any = None,
        from_disk: bool = False, num_workers: int | None = None, **loader: Any,
    ) -> Self:  # fmt: skip
        """Load prompts, with "prompt" and "label" of a data set.

        Args:
            split: "train" or "valid".
            dataset_name: by default Reddit posts with summaries (Stiennon et al., 2020).
            max_length: tokens of a sequence; longer ones are left out.
            root_dir: see `TokenizedDatasetLoader`.
            from_disk: likewise.
            num_workers: likewise.
            **loader: of `TokenizedDatasetLoader`, such as `tokenizer_class`.

        Returns:
            Memory-mapped tokens.
        """
        data = TokenizedDatasetLoader(
            split, max_length, dataset_name or _DATASET, PromptTensorDictTokenizer, root_dir=root_dir,
            from_disk=from_disk, num_workers=num_workers, **loader,
        ).load()  # fmt: skip
        return cls(**dict(data.items()), labels=data["input_ids"], batch_size=data.batch_size)


class PromptTensorDictTokenizer(TensorDictTokenizer):
    """Encode prompts with the texts that follow them, "label", and tell where the prompts end.

    Args:
        tokenizer, max_length, padding, truncation, return_tensordict, device: see `TensorDictTokenizer`.
        key: where the prompt is.
    """

    def __init__(
        self, tokenizer: Any, max_length: int, key: str = "prompt", padding: str | bool = "max_length",
        truncation: bool = True, return_tensordict: bool = True, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(tokenizer, max_length, key, padding, truncation, return_tensordict, device)

    def __call__(self, sample: Mapping[str, Any]) -> Any:
        """Encode.

        Args:
            sample: has the prompt at `key` and what follows at "label", both str or both lists.

        Returns:
            "input_ids" and "attention_mask"; "prompt_rindex", the place of the prompt's last token; "valid_sample",
            whether both are shorter than `max_length` together.
        """
        prompt, label = _texts(sample, self.key), _texts(sample, "label")
        alone = isinstance(prompt, str)
        prompts, labels = ([prompt], [label]) if alone else (prompt, label)
        texts = [first + second for first, second in zip(prompts, labels, strict=True)]
        found = dict(self._encoded(texts))
        ends = self.tokenizer(prompts, max_length=self.max_length, truncation=self.truncation)["input_ids"]
        found["prompt_rindex"] = [len(row) - 1 for row in ends]
        found["valid_sample"] = [len(row) < self.max_length for row in self.tokenizer(texts)["input_ids"]]
        if alone:
            found = {name: value[0] for name, value in found.items()}
        if not self.return_tensordict:
            return found
        entries = {name: torch.as_tensor(value) for name, value in found.items()}
        return TensorDict(entries, [] if alone else [len(prompts)], device=self.device)
