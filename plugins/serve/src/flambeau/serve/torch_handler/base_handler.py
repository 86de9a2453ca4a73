"""The base of handlers: a model from an archive, and the four steps from requests to answers."""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch

from flambeau.core.weights.checkpoints import read_checkpoint
from flambeau.serve.context import Context
from flambeau.serve.utils.util import PredictionException, list_classes_from_module, load_label_mapping

__all__ = ["BaseHandler"]

logger = logging.getLogger(__name__)


class BaseHandler:
    """What a handler does, step by step; subclasses replace the steps that differ.

    Attributes:
        model: the loaded model, in evaluation mode.
        mapping: labels by the text of their number, from `index_to_name.json`; None without one.
        device: where the model is.
        initialized: whether `initialize` has ended.
        context: of the model.
        manifest: of the archive.
        model_pt_path: of the serialized file.
        map_location: "cuda" or "cpu".
        explain: whether the request asks for an explanation.
        target: class that an explanation is about.
        model_yaml_config: of the archive's configuration file.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.mapping: dict[str, Any] | None = None
        self.device: torch.device | None = None
        self.initialized = False
        self.context: Context | None = None
        self.model_pt_path: str | None = None
        self.manifest: dict[str, Any] | None = None
        self.map_location: str | None = None
        self.explain = False
        self.target: Any = 0
        self.model_yaml_config: dict[str, Any] = {}

    def initialize(self, context: Context) -> None:
        """Load the model and its labels.

        Raises:
            RuntimeError: the archive holds no file that a model can be made of.
            FlambeauError: its weights cannot be read safely.
        """
        properties = context.system_properties
        gpu = properties.get("gpu_id")
        self.context, self.manifest = context, context.manifest
        self.model_yaml_config = context.model_yaml_config
        if torch.cuda.is_available() and gpu is not None and gpu >= 0:
            self.map_location, self.device = "cuda", torch.device("cuda", int(gpu))
        else:
            self.map_location, self.device = "cpu", torch.device("cpu")
        folder = Path(properties["model_dir"])
        facts = self.manifest["model"]
        serialized = facts.get("serializedFile")
        self.model_pt_path = str(folder / serialized) if serialized else None
        if facts.get("modelFile"):
            self.model = self._load_pickled_model(str(folder), facts["modelFile"], self.model_pt_path)
            self.model = self.model.to(self.device).eval()
        elif self.model_pt_path is not None:
            self.model = self._load_serialized(self.model_pt_path)
        else:
            raise RuntimeError("the archive has neither a model file nor a serialized file, so there is no model.")
        self._compile()
        self.mapping = load_label_mapping(folder / "index_to_name.json")
        self.initialized = True

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        """From requests to the model's input: by default their bodies as one tensor."""
        return torch.as_tensor([row.get("data", row.get("body")) for row in data], device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's output, in inference mode."""
        with torch.inference_mode():
            moved = data.to(self.device) if isinstance(data, torch.Tensor) else data
            return self.model(moved, *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """From the model's output to one answer for each request: by default its rows as lists."""
        return list(data.tolist())

    def handle(self, data: list[dict[str, Any]], context: Context) -> list[Any]:
        """All steps for a batch.

        Args:
            data: a dict of each request: "body", or the fields of its form.
            context: of the model and the batch.

        Returns:
            One answer for each request.
        """
        start = time.perf_counter()
        self.context = context
        prepared = self.preprocess(data)
        if self._is_explain():
            output = self.explain_handle(prepared, data)
        else:
            output = self.postprocess(self.inference(prepared))
        if context.metrics is not None:
            context.metrics.add_time("HandlerTime", round((time.perf_counter() - start) * 1000, 2), None, "ms")
        return output

    def explain_handle(self, data_preprocess: Any, raw_data: list[dict[str, Any]]) -> list[Any]:
        """Explanations of predictions, by the handler's own `get_insights(data, inputs, target)`.

        Raises:
            PredictionException: the handler has none; 501.
        """
        insights = getattr(self, "get_insights", None)
        if insights is None:
            raise PredictionException("The model's handler explains no predictions: it has no get_insights.", 501)
        row = raw_data[0]
        target = row.get("target", self.target)
        self.target = target
        return [insights(data_preprocess, row.get("data", row.get("body")), target)]

    def describe_handle(self) -> Any:
        """What the model says of itself, for `GET /models/{model}?customized=true`."""
        return None

    def _is_explain(self) -> bool:
        return self.context is not None and self.context.get_request_header(0, "explain") == "True"

    def _load_pickled_model(self, model_dir: str, model_file: str, model_pt_path: str | None) -> Any:
        """The one Module class of the archive's code, with its state dict.

        Raises:
            ValueError: not exactly one class.
        """
        path = Path(model_dir) / model_file
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{model_file} is no Python module.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        classes = list_classes_from_module(module, torch.nn.Module)
        if len(classes) != 1:
            raise ValueError(f"{model_file} defines {len(classes)} classes of models, expected one.")
        model = classes[0]()
        if model_pt_path:
            model.load_state_dict(read_checkpoint(Path(model_pt_path)))
        return model

    def _load_serialized(self, path: str) -> Any:
        """A program: `.pt2` and `.so` packages of AOTInductor, `.onnx`, else TorchScript."""
        if path.endswith(".pt2"):
            return torch._inductor.aoti_load_package(path)
        if path.endswith(".so"):
            assert self.device is not None
            return torch._export.aot_load(path, self.device.type)
        if path.endswith(".onnx"):
            return _Onnx(path)
        return torch.jit.load(path, map_location=self.device).eval()

    def _compile(self) -> None:
        asked = (self.model_yaml_config or {}).get("pt2")
        options = asked.get("compile", asked) if isinstance(asked, dict) else asked
        if isinstance(options, str):
            options = {"enable": True, "backend": options}
        if isinstance(options, dict) and options.get("enable"):
            chosen = {key: value for key, value in options.items() if key != "enable"}
            self.model = torch.compile(self.model, **chosen)


class _Onnx:
    """A session of onnxruntime, called as a model is."""

    def __init__(self, path: str) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise RuntimeError("ONNX models run in onnxruntime; run: pip install onnxruntime") from error
        self._session = onnxruntime.InferenceSession(path)
        self._names = [one.name for one in self._session.get_inputs()]

    def __call__(self, *inputs: torch.Tensor) -> Any:
        given = {name: value.cpu().numpy() for name, value in zip(self._names, inputs, strict=True)}
        found = [torch.from_numpy(value) for value in self._session.run(None, given)]
        return found[0] if len(found) == 1 else found
