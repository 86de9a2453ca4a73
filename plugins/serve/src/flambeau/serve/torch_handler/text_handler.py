"""Handlers of texts."""

from __future__ import annotations

import re
import string
import unicodedata
from pathlib import Path
from typing import Any

from flambeau.core.weights.checkpoints import read_checkpoint
from flambeau.serve.torch_handler.base_handler import BaseHandler

__all__ = ["TextHandler"]

_CONTRACTIONS = {
    "can't": "can not", "won't": "will not", "shan't": "shall not", "let's": "let us", "n't": " not", "'re": " are",
    "'ve": " have", "'ll": " will", "'m": " am", "'d": " would",
}  # fmt: skip


class TextHandler(BaseHandler):
    """Texts as words; the archive's `source_vocab` gives them numbers."""

    def initialize(self, context: Any) -> None:
        """Load the model and the vocabulary.

        Raises:
            RuntimeError: the archive has no vocabulary.
        """
        super().initialize(context)
        assert self.manifest is not None
        folder = Path(context.system_properties["model_dir"])
        named = self.manifest["model"].get("sourceVocab") or "source_vocab.pt"
        path = folder / named
        if not path.is_file():
            raise RuntimeError(f"the archive has no vocabulary: {named} is missing; add it with --extra-files.")
        self.source_vocab: Any = read_checkpoint(path)

    def clean_text(self, text: str) -> list[str]:
        """Words of a text: without HTML, accents, punctuation and digits, contractions written out, in lower case."""
        text = re.sub(r"<[^>]*>", "", text)
        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
        for short, whole in _CONTRACTIONS.items():
            text = text.replace(short, whole)
        text = text.translate(str.maketrans("", "", string.punctuation + string.digits))
        return text.split()
