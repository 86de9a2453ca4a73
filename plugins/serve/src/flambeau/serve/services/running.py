"""Registered weights, loaded: requests are answered by the task's service, or one by one by its predictor."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import torch
from pydantic import ValidationError

from flambeau.core.errors import FlambeauError, PredictError
from flambeau.core.naming import import_target
from flambeau.core.predict import PredictOptions, predictor_record
from flambeau.core.registry import MODELS, WEIGHTS
from flambeau.core.services import Service, ServiceParameters, service_target
from flambeau.core.weights import get_model, get_weight
from flambeau.serve.services.bodies import body_of, parameters_of, suffix_of
from flambeau.serve.services.tensors_v2 import infer
from flambeau.serve.wire.messages import Answer, Item
from flambeau.serve.worker.running import Streams

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WeightsRunning"]


class WeightsRunning:
    """A registered model with its weights.

    Args:
        spec: `weights`, an id such as "vision/resnet50:IMAGENET1K_V2"; `device`; `dtype`, or None for the builder's.

    Raises:
        FlambeauError: the weights cannot be fetched or loaded, or nothing serves the model's task.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        entry = WEIGHTS.entry(spec["weights"])
        owner = MODELS.entry(entry.id.rpartition(":")[0])
        task = entry.info.get("task") or owner.info.get("task")
        if not task:
            raise PredictError(f"model {owner.id} states no task, so that nothing can serve it.")
        self._device = torch.device(spec.get("device") or "cpu")
        member = get_weight(entry.id)
        dtype = spec.get("dtype")
        model = get_model(owner.id, weights=member).eval()
        model = model.to(self._device, dtype=getattr(torch, dtype) if dtype else None).requires_grad_(False)
        floating = (p.dtype for p in (*model.parameters(), *model.buffers()) if p.is_floating_point())
        used = next(floating, torch.get_default_dtype())
        found = service_target(task, owner.plugin)
        common = {"model": model, "weights": member, "device": self._device, "dtype": used}
        head = {"task": task, "model": owner.id, "weights": entry.id}
        self._serving: _ByService | _ByPredictor
        if found is None:
            self._serving = _ByPredictor(entry.id, head, common)
        else:
            self._serving = _ByService(import_target(found[0])(**common), head, found[1])
        self._model, self._dtype = model, used
        self._info = {
            **head,
            "device": str(self._device),
            "dtype": str(used).removeprefix("torch."),
            "batched": found is not None,
            "media_types": self._serving.media_types,
            "parameters": self._serving.parameters.model_json_schema(),
        }

    @property
    def info(self) -> dict[str, Any]:
        """What is served."""
        return self._info

    def answer(self, items: list[Item], streams: Streams) -> list[Answer]:
        """Answers in order; an input that cannot be read fails alone, with 400."""
        with torch.inference_mode():
            asked = [item for item in items if item.call == "predict"]
            found = iter(self._serving.answer(asked, streams) if asked else [])
            return [next(found) if item.call == "predict" else self._other(item) for item in items]

    def _other(self, item: Item) -> Answer:
        if item.call == "describe":
            return Answer(orjson.dumps(self._info))
        if item.call == "infer":
            try:
                return infer(item, self._model, self._serving.output_of, self._device, self._dtype)
            except FlambeauError as error:
                return refused(error)
        text = f"{self._info['model']} has no explanations."
        return Answer(text.encode(), status=404, error="ResourceNotFoundException")

    def metrics(self) -> list[dict[str, Any]]:
        """Nothing beyond what the front measures."""
        return []


class _ByService:
    def __init__(self, service: Service, head: dict[str, str], record: dict[str, Any]) -> None:
        self._service = service
        self._head = head
        self.media_types = list(record.get("media_types", []))
        self.parameters: type[ServiceParameters] = service.Parameters

    def answer(self, items: list[Item], streams: Streams) -> list[Answer]:
        samples: dict[int, tuple[Any, Any, ServiceParameters]] = {}
        answers: dict[int, Answer] = {}
        for place, item in enumerate(items):
            try:
                parameters = parameters_of(item, self.parameters)
                body = body_of(item)
                sample = self._service.decode(body.data, body.media_type, parameters)
                samples[place] = (sample, self._service.prepare(sample), parameters)
            except (FlambeauError, ValidationError) as error:
                answers[place] = refused(error)
        if samples:
            places = list(samples)
            batch = self._service.collate([samples[place][1] for place in places])
            outputs = self._service.split(self._service.forward(batch), len(places))
            for place, output in zip(places, outputs, strict=True):
                sample, _, parameters = samples[place]
                said = self._service.answer(output, sample, parameters)
                answers[place] = Answer(orjson.dumps({**self._head, **said}))
        return [answers[place] for place in range(len(items))]

    def output_of(self, body: bytes) -> Any:
        """The model's output for one body."""
        sample = self._service.decode(body, "", self.parameters.model_validate({}))
        return self._service.forward(self._service.collate([self._service.prepare(sample)]))


class _ByPredictor:
    """What `flambeau predict` does, for each request by itself."""

    media_types: tuple[str, ...] = ()
    parameters = ServiceParameters

    def __init__(self, weights: str, head: dict[str, str], common: dict[str, Any]) -> None:
        self._head = head
        self._common = common
        record = predictor_record(weights)
        self._accepts = record.get("accepts", "file")
        self._predictor: Callable[..., Any] = import_target(record["target"])

    def answer(self, items: list[Item], streams: Streams) -> list[Answer]:
        return [self._one(item) for item in items]

    def output_of(self, body: bytes) -> Any:
        """Its task has no service that could read a body without a predictor."""
        raise PredictError("this model takes tensors; send the file itself to /predictions.")

    def _one(self, item: Item) -> Answer:
        with tempfile.TemporaryDirectory(prefix="flambeau-serve-") as folder:
            try:
                options = PredictOptions(top=parameters_of(item, self.parameters).top)
                prediction = self._predictor(self._source(item, Path(folder)), options=options, **self._common)
            except (FlambeauError, ValidationError) as error:
                return refused(error, folder)
        said = {"title": prediction.title, "columns": list(prediction.columns), "rows": prediction.rows}
        return Answer(orjson.dumps({**self._head, **said}, option=orjson.OPT_SERIALIZE_NUMPY))

    def _source(self, item: Item, folder: Path) -> Any:
        body = body_of(item)
        if self._accepts == "text":
            try:
                return body.data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise PredictError(f"the body is not text in UTF-8 ({error.reason} at byte {error.start}).") from error
        if self._accepts == "environment":
            return body.data.decode("utf-8", "replace").strip()
        parts = item.parts if self._accepts == "files" else [body]
        paths = []
        for number, part in enumerate(parts):
            path = folder / f"{'input' if len(parts) == 1 else part.name or number}{suffix_of(part)}"
            path = folder / path.name  # a field's name is the client's
            path.write_bytes(part.data)
            paths.append(str(path))
        return tuple(paths) if self._accepts == "files" else paths[0]


def refused(error: Exception, hidden: str = "") -> Answer:
    """The answer to an input that cannot be read; no path of this machine gets into it."""
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors(include_url=False))
    else:
        text = str(error)
    if hidden:
        text = text.replace(f"{hidden}/", "").replace(hidden, "the request")
    return Answer(text.encode(), status=400, error="BadRequestException")
