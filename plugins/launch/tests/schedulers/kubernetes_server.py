"""A stand-in for Kubernetes's API server on loopback: objects pass the real schemas, are kept, and given."""

from __future__ import annotations

import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate

VERSION = "1.34"
CUSTOM = ("batch.volcano.sh", "jobset.x-k8s.io", "workload.codeflare.dev")
PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))/namespaces/(?P<ns>[^/]+)/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>\w+))?)?"
)


class Server:
    """Objects by plural, namespace and name; logs by pod."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.logs: dict[str, bytes] = {}
        handler = type("Handler", (_Handler,), {"server_objects": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def pod(self, name: str, labels: dict[str, str], phase: str, log: bytes = b"", created: int = 0) -> None:
        self.objects["pods", "default", name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "creationTimestamp": f"2026-01-01T00:00:{created:02d}Z"},
            "spec": {"containers": [{"name": "c", "image": "image"}], "nodeName": f"node-of-{name}"},
            "status": {"phase": phase},
        }
        self.logs[name] = log


def validate(body: dict[str, Any]) -> None:
    """Refuse what Kubernetes would: of foreign kinds their pods are checked."""
    if body["apiVersion"].partition("/")[0] not in CUSTOM:
        kubernetes_validate.validate(body, VERSION, strict=True)
        return
    for spec in pod_templates(body):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **spec}, VERSION, strict=True)


def pod_templates(value: Any) -> list[dict[str, Any]]:
    """Every pod, with metadata and specification, anywhere in an object."""
    if isinstance(value, list):
        return [found for item in value for found in pod_templates(item)]
    if not isinstance(value, dict):
        return []
    if "spec" in value and "containers" in (value["spec"] or {}):
        return [{"metadata": value.get("metadata", {}), "spec": value["spec"]}]
    return [found for item in value.values() for found in pod_templates(item)]


class _Handler(BaseHTTPRequestHandler):
    server_objects: Server

    def log_message(self, *args: object) -> None:
        pass

    def _answer(self, body: Any, code: int = 200) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(body, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, code: int, message: str) -> None:
        self._answer({"kind": "Status", "status": "Failure", "message": message, "code": code}, code)

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _place(self) -> tuple[re.Match[str], dict[str, list[str]]]:
        parts = urlsplit(self.path)
        match = PATH.fullmatch(parts.path)
        assert match, parts.path
        return match, parse_qs(parts.query)

    def do_POST(self) -> None:
        match, _ = self._place()
        body = self._body()
        key = (match["plural"], match["ns"], body["metadata"]["name"])
        if key in self.server_objects.objects:
            return self._refuse(409, f'{key[0]} "{key[2]}" already exists')
        try:
            validate(body)
        except Exception as error:
            return self._refuse(422, str(error))
        body["metadata"]["uid"] = str(uuid.uuid4())
        self.server_objects.objects[key] = body
        return self._answer(body, 201)

    def do_GET(self) -> None:
        match, query = self._place()
        objects = self.server_objects.objects
        if match["name"] is None:
            wanted = dict(pair.split("=") for pair in query.get("labelSelector", [""])[0].split(",") if pair)
            found = [
                one
                for (plural, ns, _), one in objects.items()
                if (plural, ns) == (match["plural"], match["ns"])
                and wanted.items() <= (one["metadata"].get("labels") or {}).items()
            ]
            return self._answer({"apiVersion": "v1", "kind": "List", "items": found})
        one = objects.get((match["plural"], match["ns"], match["name"]))
        if one is None:
            return self._refuse(404, f'{match["plural"]} "{match["name"]}" not found')
        if match["sub"] == "log":
            return self._answer(self.server_objects.logs[match["name"]])
        return self._answer(one)

    def do_PATCH(self) -> None:
        match, _ = self._place()
        one = self.server_objects.objects[match["plural"], match["ns"], match["name"]]
        one["spec"].update(self._body()["spec"])
        if one["spec"].get("suspend"):
            one["status"] = {"conditions": [{"type": "Suspended", "status": "True", "message": "suspended"}]}
        return self._answer(one)

    def do_DELETE(self) -> None:
        match, _ = self._place()
        if self.server_objects.objects.pop((match["plural"], match["ns"], match["name"]), None) is None:
            return self._refuse(404, "not found")
        return self._answer({"kind": "Status", "status": "Success"})
