"""Vocabularies and pretrained word vectors; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

# isort: off
if TYPE_CHECKING:
    from flambeau.text.vocab.pickled import load_vocab as load_vocab
    from flambeau.text.vocab.vectors import (
        CharNGram as CharNGram,
        FastText as FastText,
        GloVe as GloVe,
        Vectors as Vectors,
        pretrained_aliases as pretrained_aliases,
    )
    from flambeau.text.vocab.vocab import Vocab as Vocab
    from flambeau.text.vocab.vocab_factory import (
        build_vocab_from_iterator as build_vocab_from_iterator,
        vocab as vocab,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "pickled": ("load_vocab",),
        "vectors": ("CharNGram", "FastText", "GloVe", "Vectors", "pretrained_aliases"),
        "vocab": ("Vocab",),
        "vocab_factory": ("build_vocab_from_iterator", "vocab"),
    },
)
