"""Texts as RoBERTa and XLM-R read them: pieces, their ids, a first and a last token."""

from __future__ import annotations

from typing import Any

from flambeau.text.weights.files import asset

__all__ = ["roberta_transform", "xlmr_transform"]

_BEGIN, _END = 0, 2


def roberta_transform(truncate_length: int) -> Any:
    """A transform of a text, or of a list of them, to RoBERTa's token ids; lists that `to_tensor` pads with 1.

    Args:
        truncate_length: most ids of a text; the first and the last token come on top.

    Raises:
        DownloadError: the vocabulary could not be fetched.
    """
    from flambeau.text import transforms

    tokenizer = transforms.GPT2BPETokenizer(
        encoder_json_path=str(asset("gpt2_bpe_encoder.json")), vocab_bpe_path=str(asset("gpt2_bpe_vocab.bpe"))
    )
    return _pipeline(tokenizer, "roberta.vocab.pt", truncate_length)


def xlmr_transform(truncate_length: int) -> Any:
    """A transform of a text, or of a list of them, to XLM-R's token ids; lists that `to_tensor` pads with 1.

    Args:
        truncate_length: most ids of a text; the first and the last token come on top.

    Raises:
        DownloadError: the vocabulary could not be fetched.
    """
    from flambeau.text import transforms

    tokenizer = transforms.SentencePieceTokenizer(str(asset("xlmr.sentencepiece.bpe.model")))
    return _pipeline(tokenizer, "xlmr.vocab.pt", truncate_length)


def _pipeline(tokenizer: Any, vocabulary: str, truncate: int) -> Any:
    from flambeau.text import transforms
    from flambeau.text.vocab.pickled import load_vocab

    return transforms.Sequential(
        tokenizer,
        transforms.VocabTransform(load_vocab(asset(vocabulary))),
        transforms.Truncate(truncate),
        transforms.AddToken(token=_BEGIN, begin=True),
        transforms.AddToken(token=_END, begin=False),
    )
