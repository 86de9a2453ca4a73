"""The Open Inference Protocol, version 2, with its binary extension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from flambeau.serve.engine.work import Work
from flambeau.serve.errors import BadRequest, RequestError
from flambeau.serve.http.answers import HEADERS, error_response, json_response
from flambeau.serve.http.bodies import read_body
from flambeau.serve.http.inference import new_request_id
from flambeau.serve.wire.messages import Answer, Item, Part
from flambeau.serve.wire.tensors import TensorHead, bytes_elements, packed, unpacked

if TYPE_CHECKING:
    from starlette.requests import Request

    from flambeau.serve.engine.models import Models, Version
    from flambeau.serve.http.limits import Limits

__all__ = ["InferV2"]

_LENGTH = "inference-header-content-length"
_EXTENSIONS = ["binary_tensor_data"]


class InferV2:
    """The protocol's paths. Tensors keep their shapes and types; requests of any shapes share a queue.

    Args:
        models: what is served.
        limits: of requests.
    """

    def __init__(self, models: Models, limits: Limits) -> None:
        self._models = models
        self._limits = limits

    def routes(self) -> list[Route]:
        """All paths but health."""
        found = [Route("/v2", self._server, methods=["GET"])]
        for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            found += [
                Route(prefix, self._metadata, methods=["GET"]),
                Route(f"{prefix}/ready", self._ready, methods=["GET"]),
                Route(f"{prefix}/infer", self._infer, methods=["POST"]),
            ]
        return found

    async def _server(self, request: Request) -> Response:
        from flambeau.serve.version import __version__

        return json_response({"name": "flambeau-serve", "version": __version__, "extensions": _EXTENSIONS})

    async def _metadata(self, request: Request) -> Response:
        version = self._version(request)
        info = next((worker.info for worker in version.pool.workers if worker.info), {})
        model = self._models.model(version.pool.name)
        return json_response(
            {
                "name": version.pool.name,
                "versions": list(model.versions),
                "platform": "pytorch",
                "inputs": info.get("inputs", []),
                "outputs": info.get("outputs", []),
            }
        )

    async def _ready(self, request: Request) -> Response:
        version = self._version(request)
        ready = version.is_ready
        return json_response({"name": version.pool.name, "ready": ready}, 200 if ready else 503)

    async def _infer(self, request: Request) -> Response:
        request_id = new_request_id()
        version: Version | None = None
        try:
            version = self._version(request)
            said, parts = self._read(request, await read_body(request, self._limits))
            heads = [head for head, _ in parts]
            item = Item(
                request_id,
                [Part(head["name"], data, "application/octet-stream") for head, data in parts],
                {"v2": orjson.dumps(heads).decode()},
                {key: str(value) for key, value in said.get("parameters", {}).items()},
                "infer",
            )
            work = Work(item)
            version.pool.submit(work)
            answer = await work.next()
            if not isinstance(answer, Answer):
                raise RequestError("the model streams its answer, and this protocol has no streams.", status=400)
            if answer.error is not None:
                raise RequestError(answer.body.decode("utf-8", "replace"), status=answer.status)
            return self._answer(version, said, answer, request_id)
        except RequestError as error:
            if version is not None:
                self._models.observer.failed(version.pool.name, version.name, error.status)
            return error_response(error, {"x-request-id": request_id}, v2=True)

    def _version(self, request: Request) -> Version:
        return self._models.version(request.path_params["model"], request.path_params.get("version"))

    def _read(self, request: Request, body: bytes) -> tuple[dict[str, Any], list[tuple[TensorHead, bytes]]]:
        """The request's JSON, and its inputs as heads and bytes."""
        length = request.headers.get(_LENGTH)
        text, binary = body, b""
        if length is not None:
            if not length.isdigit() or int(length) > len(body):
                raise BadRequest(f"{_LENGTH} is {length[:20]!r}, and the body has {len(body)} bytes.")
            text, binary = body[: int(length)], body[int(length) :]
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"the body is not JSON: {error}") from error
        inputs = said.get("inputs") if isinstance(said, dict) else None
        if not isinstance(inputs, list) or not inputs or not all(isinstance(one, dict) for one in inputs):
            raise BadRequest("inputs is a list of tensors, at least one.")
        if not isinstance(said.get("parameters", {}), dict):
            raise BadRequest("parameters is an object.")
        found, start = [], 0
        for tensor in inputs:
            size = (tensor.get("parameters") or {}).get("binary_data_size")
            raw = None
            if size is not None:
                if not isinstance(size, int) or size < 0 or start + size > len(binary):
                    raise BadRequest(f"input {tensor.get('name')!r}: binary_data_size does not fit the body.")
                raw, start = binary[start : start + size], start + size
            found.append(packed(tensor, raw))
        if start != len(binary):
            raise BadRequest(f"{len(binary) - start} bytes of the body belong to no input.")
        return said, found

    def _answer(self, version: Version, said: dict[str, Any], answer: Answer, request_id: str) -> Response:
        """Outputs as JSON, or as bytes where the request asks for them."""
        heads: list[TensorHead] = orjson.loads(answer.headers["v2"])
        wanted = {one["name"]: one for one in said.get("outputs") or [] if isinstance(one, dict) and "name" in one}
        everything = bool(said.get("parameters", {}).get("binary_data_output"))
        outputs, blobs, start = [], [], 0
        for head in heads:
            data = answer.body[start : start + head["bytes"]]
            start += head.pop("bytes")
            if wanted and head["name"] not in wanted:
                continue
            asked = (wanted.get(head["name"], {}).get("parameters") or {}).get("binary_data", everything)
            if asked:
                blobs.append(data)
                outputs.append({**head, "parameters": {"binary_data_size": len(data)}})
            elif head["datatype"] == "BYTES":
                outputs.append({**head, "data": [one.decode("utf-8", "replace") for one in bytes_elements(data)]})
            else:
                outputs.append({**head, "data": unpacked(head, data).ravel()})
        record = {
            "model_name": version.pool.name,
            "model_version": version.name,
            "id": said.get("id") or request_id,
            "outputs": outputs,
        }
        text = orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY, default=lambda value: value.tolist())
        headers = {**HEADERS, "x-request-id": request_id}
        if not blobs:
            return Response(text, 200, headers, "application/json")
        headers["Inference-Header-Content-Length"] = str(len(text))
        return Response(b"".join([text, *blobs]), 200, headers, "application/octet-stream")
