"""The transform that all published T5 checkpoints share."""

from __future__ import annotations

from flambeau.text.models.t5.t5_transform import T5Transform

__all__ = ["t5_transform"]


def t5_transform() -> T5Transform:
    """Texts as T5 and Flan-T5 read them: at most 512 ids, ended with 1, padded with 0.

    Raises:
        DownloadError: the vocabulary could not be fetched.
        ImportError: the package `sentencepiece` is not installed.
    """
    return T5Transform("t5_tokenizer_base.model", max_seq_len=512, eos_idx=1, padding_idx=0)
