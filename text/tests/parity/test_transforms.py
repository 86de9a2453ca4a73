"""Golden values of the transforms that follow a tokenizer, of vocabularies and of functions on data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flambeau.core.testing.golden import golden_values
from flambeau.text import functional, transforms
from flambeau.text.transforms import (
    AddToken,
    LabelToIndex,
    MaskTransform,
    Sequential,
    StrToIntTransform,
    ToTensor,
    Truncate,
    VocabTransform,
)
from flambeau.text.vocab import Vocab

ABC = ["a", "b", "c"]
LABELS = ["test", "label", "indices"]
# Rows whose text is no expression: text -> what to compute.
CALLS: dict[str, Any] = {
    "same (['indices','test'])": lambda: LabelToIndex(LABELS)(["indices", "test"]),
    "same, sort_names=True: label_names": lambda: LabelToIndex(LABELS, sort_names=True).label_names,
    "sort_names=True (['label','test'])": lambda: LabelToIndex(LABELS, sort_names=True)(["label", "test"]),
    "LabelToIndex unknown": lambda: LabelToIndex(LABELS)("other"),
    "LabelToIndex (3)": lambda: LabelToIndex(LABELS)(3),
    "VocabTransform(['a','b','c'])(['c','a'])": lambda: VocabTransform(Vocab(ABC))(["c", "a"]),
    "same ([['a'],['b','c']])": lambda: VocabTransform(Vocab(ABC))([["a"], ["b", "c"]]),
    "same (['zzz'])": lambda: VocabTransform(Vocab(ABC))(["zzz"]),
    "same ('a')": lambda: VocabTransform(Vocab(ABC))("a"),
    "same ([])": lambda: VocabTransform(Vocab(ABC))([]),
    "Sequential(StrToIntTransform, Truncate(2), AddToken(0), AddToken(2, begin=False), ToTensor(padding_value=1))"
    "([['5','6','7'],['8']])": lambda: Sequential(
        StrToIntTransform(), Truncate(2), AddToken(0), AddToken(2, begin=False), ToTensor(padding_value=1)
    )([["5", "6", "7"], ["8"]]),
}
NAMES = {
    **{name: getattr(functional, name) for name in functional.__all__},
    **{name: getattr(transforms, name) for name in transforms.__all__},
    "torch": torch,
    "tensor": torch.tensor,
}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return golden_values("transforms", __file__)


def test_transforms_give_upstreams_results(golden, check):
    for text, wanted in golden["transforms"]:
        expression = text.split(": dtype and padding")[0]
        check(CALLS.get(text, lambda expression=expression: eval(expression, NAMES)), wanted, text)


def test_masking_draws_in_upstreams_order(golden):
    facts = golden["mask_transform"]
    tokens = torch.arange(7, 167).reshape(4, 40)
    tokens[:, 0] = 0
    tokens[2, 30:] = 1
    for case in facts["cases"]:
        for generator in (None, torch.Generator().manual_seed(5)):
            torch.manual_seed(5)
            step = MaskTransform(300, 3, 0, 1, generator=generator, **case["kwargs"])
            masked, targets, mask = step(tokens)
            assert masked.tolist() == case["masked_tokens"]
            assert targets.tolist() == case["target_tokens"]
            assert mask.tolist() == case["mask"]
            assert [str(part.dtype) for part in (masked, targets, mask)] == case["dtypes"]
