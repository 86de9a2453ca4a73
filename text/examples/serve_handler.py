r"""A TorchServe handler that answers with the classes of texts; many requests are one batch.

    torch-model-archiver --model-name languages --version 1.0 --handler text/examples/serve_handler.py \
        --config-file languages.yaml --export-path store
    torchserve --start --model-store store --models languages.mar --disable-token-auth
    curl localhost:8080/predictions/languages --data "Il pleut souvent en Bretagne."

`languages.yaml` names registered weights of a classifier whose transforms take a text; its lines may be left out:

    handler:
      weights: text/language_identifier:DEBIAN_V1
      top: 3
      padding: 0  # the id that the model skips

An answer is a JSON object of classes and their probabilities. A request that holds no text is answered with status 400
and does not disturb the others of its batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.core.weights import get_model, get_weight
from flambeau.text.models.language_identifier import PADDING

DEFAULT = "text/language_identifier:DEBIAN_V1"


class TextClassifier:
    """What TorchServe makes once in each worker: `initialize`, then `handle` for every batch."""

    def initialize(self, context: Any) -> None:
        """Build the model on the worker's device.

        Args:
            context: of TorchServe; its `model_yaml_config` may hold `handler` with `weights`, `top` and `padding`.
        """
        wished = (getattr(context, "model_yaml_config", None) or {}).get("handler", {})
        name = wished.get("weights", DEFAULT)
        gpu = context.system_properties.get("gpu_id")
        self.device = torch.device(f"cuda:{gpu}" if gpu is not None and torch.cuda.is_available() else "cpu")
        weights = get_weight(name)
        self.top, self.padding = int(wished.get("top", 3)), int(wished.get("padding", PADDING))
        self.classes = weights.meta["categories"]
        self.transform = weights.transforms()
        self.model = get_model(name.partition(":")[0], weights=weights, device=self.device).eval()

    def handle(self, requests: list[Mapping[str, Any]], context: Any) -> list[dict[str, Any]]:
        """Answer a batch of requests, in their order.

        Args:
            requests: what was sent, as `data` or `body`: UTF-8, or a JSON object with `text`.
            context: of TorchServe.

        Returns:
            Of each request the most probable classes with their probabilities, or what was wrong with it.
        """
        answers: list[dict[str, Any]] = []
        found: dict[int, str] = {}
        for number, request in enumerate(requests):
            try:
                found[number] = text_of(request)
                answers.append({})
            except ValueError as error:
                context.set_response_status(code=400, phrase="no text", idx=number)
                answers.append({"error": str(error)})
        for number, scores in zip(found, self._probabilities(list(found.values())), strict=True):
            best = scores.topk(min(self.top, len(self.classes)))
            pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            answers[number] = {self.classes[index]: probability for index, probability in pairs}
        return answers

    @torch.inference_mode()
    def _probabilities(self, texts: list[str]) -> list[Tensor]:
        """Of each text the probabilities of all classes; of several windows the mean of their logits decides."""
        if not texts:
            return []
        windows = [self.transform(text) for text in texts]
        rows = [row for of_text in windows for row in of_text]
        batch = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.padding).to(self.device)
        logits = self.model(batch).float().cpu().split([len(of_text) for of_text in windows])
        return [of_text.mean(0).softmax(0) for of_text in logits]


def text_of(request: Mapping[str, Any]) -> str:
    """The text of a request.

    Raises:
        ValueError: there is none, or it is not UTF-8.
    """
    content = request.get("data", request.get("body"))
    if isinstance(content, Mapping):
        content = content.get("text")
    if isinstance(content, (bytes, bytearray)):
        try:
            content = content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"The text is not UTF-8 at byte {error.start}.") from error
    if not isinstance(content, str) or not content.strip():
        raise ValueError('Expected a text, as the body or as JSON: {"text": "..."}.')
    return content


_CLASSIFIER = TextClassifier()


def handle(data: list[Mapping[str, Any]] | None, context: Any) -> list[dict[str, Any]] | None:
    """TorchServe's entry point: called once without data when a worker starts, then with every batch."""
    if data is None:
        return _CLASSIFIER.initialize(context)
    return _CLASSIFIER.handle(data, context)
