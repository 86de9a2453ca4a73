"""Data sets of text, tokenized once and kept memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase

__all__ = ["TensorDictTokenizer", "TokenizedDatasetLoader", "create_infinite_iterator", "get_dataloader"]

_TEXTS = ("text", "prompt", "label", "valid_sample")
_COMPLETE = "complete"  # a file written last


class TensorDictTokenizer:
    """Encode the text of an example, or of several.

    Args:
        tokenizer: of transformers.
        max_length: tokens of a sequence.
        key: where the text is.
        padding: see the tokenizer.
        truncation: cut what is longer.
        return_tensordict: give a TensorDict; otherwise what the tokenizer gives, of lists.
        device: where the TensorDict is.

    Example:
        >>> from flambeau.rl.testing.tiny_llm import tiny_tokenizer
        >>> process = TensorDictTokenizer(tiny_tokenizer(), max_length=4)
        >>> process({"text": ["Hi", "Hello"]})["attention_mask"].sum(-1)
        tensor([2, 4])
    """

    def __init__(
        self, tokenizer: Any, max_length: int, key: str = "text", padding: str | bool = "max_length",
        truncation: bool = True, return_tensordict: bool = True, device: Any = None,
    ) -> None:  # fmt: skip
        self.tokenizer, self.max_length, self.key = tokenizer, max_length, key
        self.padding, self.truncation = padding, truncation
        self.return_tensordict, self.device = return_tensordict, device

    def __call__(self, sample: Mapping[str, Any] | TensorDictBase) -> Any:
        """Encode.

        Args:
            sample: has the text, a str or a list of them, at `key`.

        Returns:
            "input_ids" and "attention_mask", (max_length,) or (texts, max_length).

        Raises:
            KeyError: there is nothing at `key`.
        """
        text = _texts(sample, self.key)
        found = self._encoded(text)
        if not self.return_tensordict:
            return dict(found)
        size = [] if isinstance(text, str) else [len(text)]
        return TensorDict({name: torch.as_tensor(value) for name, value in found.items()}, size, device=self.device)

    def _encoded(self, text: Any) -> Mapping[str, Any]:
        found = self.tokenizer(text, max_length=self.max_length, padding=self.padding, truncation=self.truncation)
        return {name: found[name] for name in ("input_ids", "attention_mask")}


def _texts(sample: Any, key: str) -> Any:
    value = sample[key]
    return value if isinstance(value, str) else list(value)


class TokenizedDatasetLoader:
    """A data set of the library `datasets`, tokenized when it is first loaded.

    Args:
        split: "train" or "valid", or another of the data set's.
        max_length: tokens of a sequence.
        dataset_name: see `datasets.load_dataset`; with `from_disk` a folder.
        tokenizer_fn: makes the function that encodes examples: `TensorDictTokenizer` or a subclass.
        pre_tokenization_hook: changes the data set before.
        root_dir: where tokens are kept, below `dataset_name/split/max_length`; by default under FLAMBEAU_HOME.
        from_disk: load with `datasets.load_from_disk`.
        valid_size: how many examples of "valid" are taken.
        num_workers: processes that encode; half of the processors by default.
        tokenizer_class: has `from_pretrained`; `transformers.AutoTokenizer` by default. An object that is called is
            taken as the tokenizer itself.
        tokenizer_model_name: of the tokenizer; "gpt2" by default.

    Raises:
        ImportError: `datasets` or transformers is not installed.
    """

    def __init__(
        self, split: str, max_length: int, dataset_name: str, tokenizer_fn: type[TensorDictTokenizer],
        pre_tokenization_hook: Callable[[Any], Any] | None = None, root_dir: str | os.PathLike[str] | None = None,
        from_disk: bool = False, valid_size: int = 2000, num_workers: int | None = None, tokenizer_class: Any = None,
        tokenizer_model_name: str | None = None,
    ) -> None:  # fmt: skip
        self.split, self.max_length, self.dataset_name = split, max_length, dataset_name
        self.tokenizer_fn, self.pre_tokenization_hook = tokenizer_fn, pre_tokenization_hook
        self.root_dir = _root() if root_dir is None else Path(root_dir)
        self.from_disk, self.valid_size = from_disk, valid_size
        self.num_workers = max(1, (os.cpu_count() or 1) // 2) if num_workers is None else num_workers
        self.make_tokenizer(tokenizer_class=tokenizer_class, tokenizer_model_name=tokenizer_model_name)

    def make_tokenizer(self, *, tokenizer_class: Any, tokenizer_model_name: str | None) -> None:
        """Load the tokenizer.

        Args:
            tokenizer_class: see the class.
            tokenizer_model_name: see the class.
        """
        if tokenizer_class is not None and not isinstance(tokenizer_class, type):
            self.tokenizer = tokenizer_class
        else:
            if tokenizer_class is None:
                from transformers import AutoTokenizer

                tokenizer_class = AutoTokenizer
            self.tokenizer = tokenizer_class.from_pretrained(tokenizer_model_name or "gpt2")
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token

    @property
    def data_dir(self) -> Path:
        """Where the tokens are kept."""
        return self.root_dir / str(self.dataset_name).strip("/").split("/")[-1] / self.split / str(self.max_length)

    def load(self) -> TensorDict:
        """The tokens, memory-mapped: those that are kept, or new ones.

        What an interrupted call left is made anew.
        """
        if (self.data_dir / _COMPLETE).exists():
            return TensorDict.load_memmap(self.data_dir)
        tokens = self.dataset_to_tensordict(self._tokenize(self._load_dataset()), self.data_dir)
        (self.data_dir / _COMPLETE).touch()
        return tokens

    def _load_dataset(self) -> Any:
        datasets = _imported_datasets()
        if self.from_disk:
            found = datasets.load_from_disk(str(self.dataset_name))
            found = found[self.split] if isinstance(found, Mapping) else found
        else:
            found = datasets.load_dataset(self.dataset_name, split=self.split)
        if self.split.startswith("valid"):
            found = found.select(range(min(self.valid_size, len(found))))
        return found if self.pre_tokenization_hook is None else self.pre_tokenization_hook(found)

    def _tokenize(self, dataset: Any, excluded_features: Sequence[str] | None = None) -> Any:
        """Encode all examples, in batches; those that a tokenizer calls invalid are left out."""
        process = self.tokenizer_fn(self.tokenizer, max_length=self.max_length, return_tensordict=False)
        workers = self.num_workers if self.num_workers > 1 else None
        tokens = dataset.map(process, batched=True, num_proc=workers, remove_columns=dataset.column_names)
        if "valid_sample" in tokens.column_names:
            tokens = tokens.filter(lambda example: example["valid_sample"])
        excluded = set(_TEXTS if excluded_features is None else excluded_features)
        return tokens.remove_columns([name for name in tokens.column_names if name in excluded])

    @staticmethod
    def dataset_to_tensordict(
        dataset: Any, data_dir: str | os.PathLike[str], prefix: Any = None, features: Sequence[str] | None = None,
        batch_dims: int = 1, valid_mask_key: Any = None,
    ) -> TensorDict:  # fmt: skip
        """Write a data set as a memory-mapped TensorDict.

        Args:
            dataset: of `datasets`, a mapping of columns, or a TensorDict.
            data_dir: the folder.
            prefix: the key below which entries are put.
            features: the columns; by default all.
            batch_dims: how many dimensions are the batch size.
            valid_mask_key: of a column that says which examples are kept.

        Returns:
            The TensorDict that was written.
        """
        if isinstance(dataset, TensorDictBase):
            made: Any = dataset.select(*features) if features is not None else dataset
        else:
            names = list(features) if features is not None else _columns(dataset)
            entries = {name: torch.as_tensor(_listed(dataset[name])) for name in names}
            first = next(iter(entries.values()))
            made = TensorDict(entries, first.shape[:batch_dims])
        if valid_mask_key is not None:
            made = made[made[valid_mask_key].bool()].exclude(valid_mask_key)
        if prefix is not None:
            made = TensorDict({prefix: made}, made.batch_size)
        return made.memmap(str(data_dir), copy_existing=True)


def _listed(column: Any) -> Any:
    return column if isinstance(column, torch.Tensor) else list(column)


def _columns(dataset: Any) -> list[str]:
    return list(dataset.features if hasattr(dataset, "features") else dataset)


def _root() -> Path:
    from flambeau.core.hub.cache import cache_dir

    return cache_dir("datasets", "llm")


def _imported_datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ImportError(
            "data sets of text are loaded with the library datasets, which is not installed. Run: pip install datasets"
        ) from error
    return datasets


def create_infinite_iterator(iterator: Any) -> Iterator[Any]:
    """Iterate again and again.

    Args:
        iterator: what is iterated; nothing comes out of what has nothing.

    Example:
        >>> from itertools import islice
        >>> list(islice(create_infinite_iterator([1, 2]), 3))
        [1, 2, 1]
    """
    while True:
        empty = True
        for item in iterator:
            empty = False
            yield item
        if empty:
            return


def get_dataloader(
    batch_size: int, block_size: int, tensorclass_type: Any, device: Any, dataset_name: str | None = None,
    infinite: bool = True, prefetch: int = 0, split: str = "train", root_dir: Any = None, from_disk: bool = False,
    num_workers: int | None = None,
) -> Iterator[Any]:  # fmt: skip
    """Batches of a data set of text, in random order.

    Args:
        batch_size: of the batches; what is left over at the end of an epoch is not given.
        block_size: tokens of a sequence.
        tensorclass_type: `PromptData`, `PairwiseDataset` or another with `from_dataset`.
        device: where batches go.
        dataset_name: by default that of the class.
        infinite: begin again at the end.
        prefetch: how many batches are made ahead, by a thread.
        split: "train" or "valid".
        root_dir: see `TokenizedDatasetLoader`.
        from_disk: likewise.
        num_workers: likewise.

    Returns:
        An iterator over objects of the class.
    """
    from flambeau.rl.data import ReplayBuffer, SamplerWithoutReplacement, TensorStorage

    options = {} if dataset_name is None else {"dataset_name": dataset_name}
    data = tensorclass_type.from_dataset(
        split, max_length=block_size, root_dir=root_dir, from_disk=from_disk, num_workers=num_workers, **options
    )
    buffer = ReplayBuffer(
        storage=TensorStorage(data), sampler=SamplerWithoutReplacement(drop_last=True), batch_size=batch_size,
        collate_fn=lambda found: found, prefetch=prefetch or None,
    )  # fmt: skip
    return (batch.to(device) for batch in _epochs(buffer, len(data) // batch_size, infinite))


def _epochs(buffer: Any, batches: int, infinite: bool) -> Iterator[Any]:
    while batches:
        for _ in range(batches):
            yield buffer.sample()
        if not infinite:
            return
