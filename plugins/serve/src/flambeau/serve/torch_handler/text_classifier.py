"""The handler `text_classifier`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.serve.torch_handler.text_handler import TextHandler
from flambeau.serve.utils.util import PredictionException, map_class_to_label

__all__ = ["TextClassifier"]


class TextClassifier(TextHandler):
    """The classes of a text, `{label: probability}`, by a model of bags of words (ids, offsets). Batches of any size.

    The vocabulary has the text's words and pairs of neighbouring words; others have the number of `<unk>`, or 0.
    """

    ngrams = 2

    def preprocess(self, data: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        """All texts' numbers one after the other, and where each begins.

        Raises:
            PredictionException: a body is no text; 400.
        """
        rows = [self._numbers(row.get("data", row.get("body"))) for row in data]
        offsets = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
        return torch.tensor([number for row in rows for number in row]).to(self.device), offsets.to(self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's scores (N, classes)."""
        with torch.inference_mode():
            return self.model(*data, *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """Labels and probabilities."""
        return map_class_to_label(torch.softmax(data, -1).tolist(), self.mapping)

    def _numbers(self, text: Any) -> list[int]:
        if isinstance(text, (bytes, bytearray)):
            text = bytes(text).decode("utf-8", "replace")
        if not isinstance(text, str):
            raise PredictionException("The body is no text.", 400)
        words = self.clean_text(text)
        words += [
            " ".join(words[at : at + size]) for size in range(2, self.ngrams + 1) for at in range(len(words) - size + 1)
        ]
        vocabulary = self.source_vocab
        unknown = vocabulary["<unk>"] if "<unk>" in vocabulary else 0  # noqa: SIM401 -- it need have no `get`
        return [int(vocabulary[word]) if word in vocabulary else int(unknown) for word in words] or [int(unknown)]
