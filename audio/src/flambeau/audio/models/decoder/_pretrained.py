"""Upstream's files for decoding LibriSpeech: tokens, lexicon, and n-gram models of its texts."""

from __future__ import annotations

from typing import NamedTuple

from flambeau.core.errors import UnknownNameError, close_names

__all__ = ["PretrainedFiles", "download_pretrained_files"]

# Model -> whether it comes with a language model.
_MODELS = {"librispeech": False, "librispeech-3-gram": True, "librispeech-4-gram": True}


class PretrainedFiles(NamedTuple):
    """Paths of the files of a decoder; `lm` is None where there is no language model."""

    lexicon: str
    tokens: str
    lm: str | None


def download_pretrained_files(model: str) -> PretrainedFiles:
    """Fetch the files of a published decoder, unless they are there: `ctc_decoder` takes them as they are.

    Args:
        model: "librispeech" (without a language model), "librispeech-3-gram" or "librispeech-4-gram".

    Returns:
        Their paths, `torchaudio/decoder-assets/<model>` below torch's hub folder, where upstream looks too.

    Raises:
        UnknownNameError: another name; a ValueError as well.
        DownloadError: a file could not be fetched.
    """
    from flambeau.audio.utils import download_asset

    if model not in _MODELS:
        close = close_names(model, _MODELS)
        hint = f" Close: {', '.join(close)}." if close else ""
        raise UnknownNameError(f"no decoder files {model!r}; there are {', '.join(_MODELS)}.{hint}")
    folder = f"decoder-assets/{model}"
    return PretrainedFiles(
        lexicon=download_asset(f"{folder}/lexicon.txt"),
        tokens=download_asset(f"{folder}/tokens.txt"),
        lm=download_asset(f"{folder}/lm.bin") if _MODELS[model] else None,
    )
