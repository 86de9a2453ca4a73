"""Texts, images and networks for transforms of learned representations, made of either library."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.core.testing.fill import fill_

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "hello", "world")


def words() -> Any:
    """A tokenizer of transformers with the words above, made without a network."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def speaking(library: Any) -> Any:
    """Says a text, and takes one."""

    class Speaking(library.EnvBase):
        def __init__(self) -> None:
            super().__init__()
            self.observation_spec = library.Composite(said=library.NonTensor(example_data="hello a b", shape=()))
            self.action_spec = library.NonTensor(example_data="c", shape=())
            self.reward_spec = library.Unbounded((1,))

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            return library.TensorDict({"said": library.NonTensorData("hello a b")}, [])

        def _step(self, tensordict: Any) -> Any:
            heard = tensordict["action"]
            out = library.TensorDict({"said": library.NonTensorData(f"world {heard}")}, [])
            out["reward"] = torch.tensor([float(len(heard))])
            out["done"] = torch.zeros(1, dtype=torch.bool)
            return out

        def _set_seed(self, seed: Any) -> None:
            self.seed_given = seed

    return Speaking()


def pictures(library: Any) -> Any:
    """Two images, as bytes."""
    image = (torch.arange(2 * 20 * 24 * 3) * 7 % 256).to(torch.uint8).reshape(2, 20, 24, 3)
    return library.TensorDict({"a": image, "b": 255 - image}, [2])


def same(library: Any, transform: Any) -> Any:
    """What a transform makes of images, with the same weights in its network."""
    transform(pictures(library))  # upstream's has its networks after the first call only
    network = next(module for name, module in transform.named_modules() if name.endswith("convnet"))
    fill_(network)
    network.eval()
    return transform(pictures(library))
