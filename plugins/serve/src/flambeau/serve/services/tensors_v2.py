"""Requests of the Open Inference Protocol, answered by a registered model: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import torch
from torch import Tensor

from flambeau.core.errors import PredictError
from flambeau.serve.wire.messages import Answer, Item
from flambeau.serve.wire.tensors import DATATYPES, bytes_elements, unpacked

__all__ = ["infer"]

_NAMES = {
    torch.bool: "BOOL", torch.uint8: "UINT8", torch.uint16: "UINT16", torch.uint32: "UINT32", torch.uint64: "UINT64",
    torch.int8: "INT8", torch.int16: "INT16", torch.int32: "INT32", torch.int64: "INT64", torch.float16: "FP16",
    torch.float32: "FP32", torch.float64: "FP64",
}  # fmt: skip


def infer(
    item: Item, forward: Callable[..., Any], decoded: Callable[[bytes], Any], device: torch.device, dtype: torch.dtype
) -> Answer:
    """Answer one request.

    Args:
        item: its parts are the inputs' elements, its header `v2` their names, shapes and types.
        forward: the model; given the inputs in order.
        decoded: turns a body, such as a picture's bytes, into the model's output, for an input of BYTES.
        device: where inputs have to be.
        dtype: what inputs of FP32 become, where the model computes in another type.

    Raises:
        PredictError: inputs that the model cannot take.
    """
    heads = orjson.loads(item.headers["v2"])
    if any(head["datatype"] == "BYTES" for head in heads):
        bodies = [one for part in item.parts for one in bytes_elements(part.data)]
        if len(heads) != 1 or len(bodies) != 1:
            raise PredictError("send one input of BYTES with one element, or tensors alone.")
        output = decoded(bodies[0])
    else:
        tensors = [
            torch.from_numpy(unpacked(head, part.data)).to(device) for head, part in zip(heads, item.parts, strict=True)
        ]
        tensors = [tensor.to(dtype) if tensor.dtype == torch.float32 else tensor for tensor in tensors]
        try:
            output = forward(*tensors)
        except (
            RuntimeError,
            TypeError,
            ValueError,
            IndexError,
        ) as error:  # of other shapes
            raise PredictError(f"the model does not take these inputs: {str(error).splitlines()[0]}") from error
    names, blobs = [], []
    for name, tensor in _leaves(output, "output"):
        tensor = tensor.detach().cpu()
        tensor = tensor.float() if tensor.dtype not in _NAMES else tensor  # bfloat16 has no name in the protocol
        data = tensor.contiguous().numpy().astype(DATATYPES[_NAMES[tensor.dtype]], copy=False).tobytes()
        names.append({"name": name, "shape": list(tensor.shape), "datatype": _NAMES[tensor.dtype], "bytes": len(data)})
        blobs.append(data)
    return Answer(b"".join(blobs), "application/octet-stream", headers={"v2": orjson.dumps(names).decode()})


def _leaves(output: Any, name: str) -> list[tuple[str, Tensor]]:
    if isinstance(output, Tensor):
        return [(f"{name}__0" if name == "output" else name, output)]
    if isinstance(output, Mapping):
        return [leaf for key, value in output.items() for leaf in _leaves(value, str(key))]
    if isinstance(output, (list, tuple)):
        return [leaf for place, value in enumerate(output) for leaf in _leaves(value, f"{name}__{place}")]
    return []
