"""Transforms from texts to tokens, ids and tensors; each is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

# isort: off
if TYPE_CHECKING:
    from flambeau.text._tokenizers.bert import BERTTokenizer as BERTTokenizer
    from flambeau.text._tokenizers.char_bpe import CharBPETokenizer as CharBPETokenizer
    from flambeau.text._tokenizers.clip import CLIPTokenizer as CLIPTokenizer
    from flambeau.text._tokenizers.gpt2 import GPT2BPETokenizer as GPT2BPETokenizer
    from flambeau.text._tokenizers.pairs import bytes_to_unicode as bytes_to_unicode, get_pairs as get_pairs
    from flambeau.text._tokenizers.regex import RegexTokenizer as RegexTokenizer
    from flambeau.text._tokenizers.sentencepiece import SentencePieceTokenizer as SentencePieceTokenizer
    from flambeau.text.transforms.masking import MaskTransform as MaskTransform
    from flambeau.text.transforms.sequence import (
        AddToken as AddToken,
        LabelToIndex as LabelToIndex,
        PadTransform as PadTransform,
        Sequential as Sequential,
        StrToIntTransform as StrToIntTransform,
        ToTensor as ToTensor,
        Truncate as Truncate,
        VocabTransform as VocabTransform,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "flambeau.text._tokenizers.bert": ("BERTTokenizer",),
        "flambeau.text._tokenizers.char_bpe": ("CharBPETokenizer",),
        "flambeau.text._tokenizers.clip": ("CLIPTokenizer",),
        "flambeau.text._tokenizers.gpt2": ("GPT2BPETokenizer",),
        "flambeau.text._tokenizers.pairs": ("bytes_to_unicode", "get_pairs"),
        "flambeau.text._tokenizers.regex": ("RegexTokenizer",),
        "flambeau.text._tokenizers.sentencepiece": ("SentencePieceTokenizer",),
        "masking": ("MaskTransform",),
        "sequence": (
            "AddToken", "LabelToIndex", "PadTransform", "Sequential", "StrToIntTransform", "ToTensor", "Truncate",
            "VocabTransform",
        ),
    },
)  # fmt: skip
