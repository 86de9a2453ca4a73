"""Weights of BERT and of the MiniLM sentence encoders: where they are, and how texts are prepared."""

from __future__ import annotations

from typing import Any

from flambeau.core.weights import Weights, WeightsEnum, lazy
from flambeau.text.weights._records import published
from flambeau.text.weights.files import HUB

__all__ = [
    "Bert_Base_Cased_Weights",
    "Bert_Base_Uncased_Weights",
    "Bert_Large_Cased_Weights",
    "Bert_Large_Uncased_Weights",
    "MiniLM_L6_Weights",
    "MiniLM_L12_Weights",
]

_TRANSFORM = "flambeau.text.models.bert.preprocessing:BertTransform"


def _published(repository: str, revision: str, *, max_seq_len: int, cased: bool, **facts: Any) -> Weights:
    """A repository's `model.safetensors`, at a revision where one is pinned by its digest."""
    return published(
        f"{HUB}{repository}/resolve/{revision}/model.safetensors",
        lazy(
            _TRANSFORM,
            vocab_path="bert_cased_vocab.txt" if cased else "bert_uncased_vocab.txt",
            do_lower_case=not cased,
            max_seq_len=max_seq_len,
        ),
        license="Apache-2.0",
        **facts,
    )


def _bert(name: str, num_params: int, *, revision: str = "main", **facts: Any) -> Weights:
    return _published(
        f"google-bert/{name}",
        revision,
        max_seq_len=512,
        cased=name.endswith("-cased"),
        num_params=num_params,
        recipe="https://github.com/google-research/bert#pre-training-with-bert",
        paper="https://arxiv.org/abs/1810.04805",
        docs="Trained on English books and Wikipedia to fill gaps and to tell whether two sentences follow each other.",
        **facts,
    )


def _minilm(name: str, num_params: int, max_seq_len: int, *, revision: str = "main", **facts: Any) -> Weights:
    return _published(
        f"sentence-transformers/{name}",
        revision,
        max_seq_len=max_seq_len,
        cased=False,
        num_params=num_params,
        recipe=f"{HUB}sentence-transformers/{name}#training-procedure",
        paper="https://arxiv.org/abs/2002.10957",
        docs="Trained on over a billion pairs of sentences; the mean of the features, normalized, embeds a sentence.",
        **facts,
    )


class Bert_Base_Uncased_Weights(WeightsEnum):
    """Weights of `models.bert_base_uncased`."""

    BOOKS_WIKIPEDIA = _bert(
        "bert-base-uncased",
        109_482_240,
        revision="86b5e0934494bd15c9632b12f734a8a67f723594",
        sha256="68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
        size=440_449_768,
    )
    DEFAULT = BOOKS_WIKIPEDIA


class Bert_Base_Cased_Weights(WeightsEnum):
    """Weights of `models.bert_base_cased`."""

    BOOKS_WIKIPEDIA = _bert(
        "bert-base-cased",
        108_310_272,
        revision="cd5ef92a9fb2f889e972770a36d4ed042daf221e",
        sha256="1d8bdcee6021e2c25f0325e84889b61c2eb26b843eef5659c247af138d64f050",
        size=435_755_784,
    )
    DEFAULT = BOOKS_WIKIPEDIA


class Bert_Large_Uncased_Weights(WeightsEnum):
    """Weights of `models.bert_large_uncased`."""

    BOOKS_WIKIPEDIA = _bert("bert-large-uncased", 335_141_888)
    DEFAULT = BOOKS_WIKIPEDIA


class Bert_Large_Cased_Weights(WeightsEnum):
    """Weights of `models.bert_large_cased`."""

    BOOKS_WIKIPEDIA = _bert("bert-large-cased", 333_579_264)
    DEFAULT = BOOKS_WIKIPEDIA


class MiniLM_L6_Weights(WeightsEnum):
    """Weights of `models.minilm_l6`."""

    SENTENCE_PAIRS = _minilm(
        "all-MiniLM-L6-v2",
        22_713_216,
        256,
        revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        size=90_868_376,
    )
    DEFAULT = SENTENCE_PAIRS


class MiniLM_L12_Weights(WeightsEnum):
    """Weights of `models.minilm_l12`."""

    SENTENCE_PAIRS = _minilm("all-MiniLM-L12-v2", 33_360_000, 128)
    DEFAULT = SENTENCE_PAIRS
