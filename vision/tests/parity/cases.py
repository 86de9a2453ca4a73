"""Build the inputs of the golden cases and run a case.

::

    got = run(case, flambeau.vision)     # {"out": ..., "grads": {...}}
    fault = fill.matches(got, case["expected"], case["rtol"], case["atol"])

A value in a case is plain JSON, or one of these objects::

    {"t": name, "shape": [...], "mul": a, "add": b, "dtype": "float32"}   fill.tensor(name, shape) * a + b
    {"i": name, "shape": [...], "high": n, "add": b, "dtype": "int64"}    fill.integers(name, shape, n) + b
    {"u8": name, "shape": [...]}                                          uint8 image in [0, 255]
    {"boxes": name, "n": n, "size": [h, w], "format": "XYXY"}             see boxes()
    {"rois": name, "n": n, "batch": b, "size": [h, w]}                    [n, 5] rows (batch index, x1, y1, x2, y2)
    {"tv": "Image", "data": value, ...}                                   tv_tensors class with its keywords
    {"enum": "transforms.InterpolationMode.BILINEAR"}                     attribute path below the root package
    {"dtype": "float32"}, {"list": [...]}, {"tuple": [...]}, {"dict": {...}}, {"tensor": nested list, "dtype": ...}
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import torch

from flambeau.core.testing import fill


def boxes(
    name: str, n: int, size: tuple[int, int], format: str = "XYXY", dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """n boxes inside an image of size (h, w): corner in the first 70 %, sides 5 to 30 % of the image."""
    h, w = size
    u = (fill.tensor(name, (n, 5), torch.float64) + 1) / 2
    x, y = u[:, 0] * 0.7 * w, u[:, 1] * 0.7 * h
    bw, bh = (0.05 + 0.25 * u[:, 2]) * w, (0.05 + 0.25 * u[:, 3]) * h
    angle = u[:, 4] * 90.0
    if format == "XYXY":
        out = torch.stack([x, y, x + bw, y + bh], 1)
    elif format == "XYWH":
        out = torch.stack([x, y, bw, bh], 1)
    elif format == "CXCYWH":
        out = torch.stack([x + bw / 2, y + bh / 2, bw, bh], 1)
    elif format == "XYWHR":
        out = torch.stack([x, y, bw, bh, angle], 1)
    elif format == "CXCYWHR":
        out = torch.stack([x + bw / 2, y + bh / 2, bw, bh, angle], 1)
    elif format == "XYXYXYXY":
        r = angle * math.pi / 180
        c, s = torch.cos(r), torch.sin(r)
        out = torch.stack(
            [x, y, x + bw * c, y - bw * s, x + bw * c + bh * s, y - bw * s + bh * c, x + bh * s, y + bh * c], 1
        )
    else:
        raise ValueError(format)
    return out.to(dtype)


def attribute(root: Any, path: str) -> Any:
    """`ops.nms` below the root package; submodules are imported on the way."""
    value = root
    for part in path.split("."):
        if not hasattr(value, part) and hasattr(value, "__path__"):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


def make(spec: Any, root: Any) -> Any:
    if isinstance(spec, list):
        return [make(x, root) for x in spec]
    if not isinstance(spec, dict):
        return spec
    dtype = getattr(torch, spec["dtype"]) if "dtype" in spec else None
    if "t" in spec:
        value = fill.tensor(spec["t"], tuple(spec["shape"]), torch.float64) * spec.get("mul", 1.0) + spec.get(
            "add", 0.0
        )
        return value.to(dtype or torch.float32)
    if "i" in spec:
        return (fill.integers(spec["i"], tuple(spec["shape"]), spec["high"]) + spec.get("add", 0)).to(
            dtype or torch.int64
        )
    if "u8" in spec:
        return fill.integers(spec["u8"], tuple(spec["shape"]), 256).to(torch.uint8)
    if "boxes" in spec:
        return boxes(spec["boxes"], spec["n"], tuple(spec["size"]), spec.get("format", "XYXY"), dtype or torch.float32)
    if "rois" in spec:
        rows = boxes(spec["rois"], spec["n"], tuple(spec["size"]))
        index = fill.integers(spec["rois"] + ":batch", (spec["n"], 1), spec["batch"]).to(torch.float32)
        return torch.cat([index, rows], 1)
    if "tv" in spec:
        keywords = {k: make(v, root) for k, v in spec.items() if k not in ("tv", "data")}
        return getattr(attribute(root, "tv_tensors"), spec["tv"])(make(spec["data"], root), **keywords)
    if "enum" in spec:
        return attribute(root, spec["enum"])
    if "tensor" in spec:
        return torch.tensor(spec["tensor"], dtype=dtype)
    if "list" in spec:
        return [make(x, root) for x in spec["list"]]
    if "tuple" in spec:
        return tuple(make(x, root) for x in spec["tuple"])
    if "dict" in spec:
        return {k: make(v, root) for k, v in spec["dict"].items()}
    if "module" in spec:
        return build(spec, root)
    if "dtype" in spec:
        return dtype
    raise ValueError(f"not an input: {spec}")


def build(spec: dict, root: Any) -> Any:
    """{"module": path, "init": {...}, "init_args": [...], "fill": true, "train": false}"""
    cls = attribute(root, spec["module"])
    module = cls(*make(spec.get("init_args", []), root), **{k: make(v, root) for k, v in spec.get("init", {}).items()})
    if isinstance(module, torch.nn.Module):
        if spec.get("fill", True):
            fill.fill_(module)
        module.train(spec.get("train", False))
    return module


def plain(value: Any) -> Any:
    """Tensors as plain tensors; named tuples and the like as lists."""
    if isinstance(value, torch.Tensor):
        return value.as_subclass(torch.Tensor) if type(value) is not torch.Tensor else value
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return []


def run(case: dict, root: Any) -> dict:
    """The output of a case and, for arguments named in `grad`, the gradient of sum(output * weights)."""
    args = make(case.get("args", []), root)
    kwargs = {k: make(v, root) for k, v in case.get("kwargs", {}).items()}
    target = build(case["call"], root) if isinstance(case["call"], dict) else attribute(root, case["call"])
    if case.get("method"):
        target = getattr(target, case["method"])
    wanted = {}
    for key in case.get("grad", []):
        value = kwargs[key] if isinstance(key, str) else args[key]
        value.requires_grad_(True)
        wanted[str(key)] = value
    out = plain(target(*args, **kwargs))
    result = {"out": out}
    if wanted:
        total = 0.0
        for i, leaf in enumerate(_leaves(out)):
            if leaf.is_floating_point() and leaf.requires_grad:
                total = total + (leaf * fill.tensor(f"{case['id']}:w{i}", tuple(leaf.shape), leaf.dtype)).sum()
        grads = torch.autograd.grad(total, list(wanted.values()))
        result["grads"] = dict(zip(wanted, map(plain, grads), strict=True))
    return result
