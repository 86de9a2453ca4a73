"""Sequences that are scored, and pairs of which one was preferred."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

from flambeau.data.tensordict import TensorClass
from flambeau.rl.data.llm.dataset import TensorDictTokenizer, TokenizedDatasetLoader, _imported_datasets

__all__ = ["PairwiseDataset", "RewardData", "pre_tokenization_hook"]

_DATASET = "CarperAI/openai_summarize_comparisons"


class RewardData(TensorClass):  # type: ignore[misc]
    """Sequences, and what a reward model thinks of them.

    Attributes:
        input_ids: (batch, block), int64.
        attention_mask: (batch, block): 0 where there is padding.
        rewards: (batch, block, 1), after each token, or None.
        end_scores: (batch, 1), of the whole sequences, or None.
    """

    input_ids: Tensor
    attention_mask: Tensor
    rewards: Tensor | None = None
    end_scores: Tensor | None = None


class PairwiseDataset(TensorClass):  # type: ignore[misc]
    """Pairs of texts that follow one prompt.

    Attributes:
        chosen_data: those that people preferred.
        rejected_data: the others.
    """

    chosen_data: RewardData
    rejected_data: RewardData

    @classmethod
    def from_dataset(
        cls, split: str, dataset_name: str | None = None, max_length: int = 550, root_dir: Any = None,
        from_disk: bool = False, num_workers: int | None = None, **loader: Any,
    ) -> Self:  # fmt: skip
        """Load pairs, of a data set with "prompt", "chosen" and "rejected".

        Args:
            split: "train" or "valid".
            dataset_name: by default comparisons of summaries of Reddit posts (Stiennon et al., 2020).
            max_length: tokens of a sequence.
            root_dir: see `TokenizedDatasetLoader`.
            from_disk: likewise.
            num_workers: likewise.
            **loader: of `TokenizedDatasetLoader`, such as `tokenizer_class`.

        Returns:
            Memory-mapped tokens.
        """
        data = TokenizedDatasetLoader(
            split, max_length, dataset_name or _DATASET, TensorDictTokenizer, pre_tokenization_hook, root_dir=root_dir,
            from_disk=from_disk, num_workers=num_workers, **loader,
        ).load()  # fmt: skip
        half = len(data) // 2
        parts = [RewardData(**dict(part.items()), batch_size=[half]) for part in (data[:half], data[half:])]
        return cls(chosen_data=parts[0], rejected_data=parts[1], batch_size=[half])


def pre_tokenization_hook(dataset: Any, min_length: int = 5) -> Any:
    """Put prompts and what follows them together: first the chosen texts, then the rejected ones in the same order.

    Args:
        dataset: of `datasets`, with "prompt", "chosen" and "rejected".
        min_length: pairs with a text of fewer words, or of two equal texts, are left out.

    Returns:
        A data set with "text"; without any column where nothing is left.
    """
    chosen, rejected = [], []
    for example in dataset:
        first, second = example["chosen"], example["rejected"]
        if first == second or min(len(first.split()), len(second.split())) < min_length:
            continue
        chosen.append(f"{example['prompt']}\n{first}")
        rejected.append(f"{example['prompt']}\n{second}")
    return _imported_datasets().Dataset.from_dict({"text": chosen + rejected} if chosen else {})
