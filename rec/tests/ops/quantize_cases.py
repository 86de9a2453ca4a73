"""Calls of quantizers and of look-ups in what they write, by name."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.core.testing.fill import integers, tensor

SHAPES = {"plain": (4, 8), "odd": (3, 17), "single": (1, 1), "wide": (5, 100), "no-rows": (0, 8), "cube": (2, 3, 16)}
CASES: dict[str, tuple[Any, ...]] = {}


def _numbers(name: str) -> torch.Tensor:
    made = tensor(name, SHAPES[name])
    return made * 3 if name != "wide" else made * 10.0 ** torch.arange(-50.0, 50.0).clamp(-6, 6)


for _shape in SHAPES:
    _x = _numbers(_shape)
    for _dtype in (torch.float32, torch.float16, torch.bfloat16):
        _name = str(_dtype).removeprefix("torch.")
        CASES[f"FloatOrHalfToFused8BitRowwiseQuantized/{_shape}/{_name}"] = (_x.to(_dtype),)
        for _bits in (1, 2, 4, 8):
            CASES[f"FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf/{_shape}/{_name}-{_bits}"] = (_x.to(_dtype), _bits)
        for _forward in (True, False):
            CASES[f"FloatToFP8RowwiseQuantized/{_shape}/{_name}-{_forward}"] = (_x.to(_dtype), _forward)
            CASES[f"FloatToPaddedFP8RowwiseQuantized/{_shape}/{_name}-{_forward}"] = (_x.to(_dtype), _forward, 8)
    CASES[f"FloatToFused8BitRowwiseQuantized/{_shape}"] = (_x,)
    CASES[f"HalfToFused8BitRowwiseQuantized/{_shape}"] = (_x.half(),)
    CASES[f"FloatToFusedNBitRowwiseQuantizedSBHalf/{_shape}"] = (_x, 4)
    CASES[f"HalfToFusedNBitRowwiseQuantizedSBHalf/{_shape}"] = (_x.half(), 2)
    _limits = torch.stack([_x.flatten(0, -2).amin(-1) / 2, _x.flatten(0, -2).amax(-1) / 2], -1)
    CASES[f"FloatOrHalfToFusedNBitRowwiseQuantizedSBHalfWithRowwiseMinMax/{_shape}"] = (_x, 4, _limits)
    for _format in ((4, 7, 240.0), (5, 15, 57344.0), (4, 15, 0.9375), (3, 3, 30.0)):
        CASES[f"FloatToHFP8Quantized/{_shape}/{_format}"] = (_x, *_format)
    for _mode in (0, 1, 2, 4):
        CASES[f"quantize_mx4/{_shape}/{_mode}"] = (_x, 32, 2, 1, _mode, False, 0)
        CASES[f"quantize_mx4/{_shape}/{_mode}-groups"] = (_x, 4, 3, 0, _mode, False, 0)
    CASES[f"FloatToBfloat16Quantized/{_shape}"] = (_x,)
    CASES[f"FloatToMSFPQuantized/{_shape}"] = (_x, 4, 4, 3, 7, 0.0, 240.0)
for _output in (0, 1, 5):
    _rows = integers("rows", (5, 24), 256).to(torch.uint8)
    _rows[:, -8:] = torch.tensor([[0.5, -1.0]]).view(torch.uint8)
    CASES[f"Fused8BitRowwiseQuantizedToFloatOrHalf/last/{_output}"] = (_rows, _output)
    _front = integers("front", (5, 24), 256).to(torch.uint8)
    _front[:, :4] = torch.tensor([[0.5, -1.0]], dtype=torch.float16).view(torch.uint8)
    CASES[f"Fused8BitRowwiseQuantizedToFloatOrHalf/front/{_output}"] = (_front, _output, False, False)
    for _bits in (1, 2, 4, 8):
        CASES[f"FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf/{_bits}/{_output}"] = (_front, _bits, _output, False)
        CASES[f"FusedNBitRowwiseQuantizedSBHalfFrontToFloatOrHalf/{_bits}/{_output}"] = (_front, _bits, _output)
    _scaled = integers("scaled", (5, 24), 256).to(torch.uint8)
    _scaled[:, -8:-4] = torch.tensor([[0.25]]).view(torch.uint8)
    _scaled[:, -4:] = torch.tensor([[0]], dtype=torch.int32).view(torch.uint8)
    CASES[f"FP8RowwiseQuantizedToFloat/{_output}"] = (_scaled, True, _output)
    CASES[f"PaddedFP8RowwiseQuantizedToFloat/{_output}"] = (_scaled, False, 16, 14, _output)
_bytes = integers("bytes", (4, 34), 256).to(torch.uint8)
CASES["HFP8QuantizedToFloat/e4m3"] = (_bytes, 4, 7)
CASES["HFP8QuantizedToFloat/e5m2"] = (_bytes, 5, 15)
CASES["MSFPQuantizedToFloat/e4m3"] = (_bytes, 4, 3, 7)
_groups = _bytes.clone()
_groups[:, 16::17] = 120
CASES["dequantize_mx4/e2m1"] = (_groups, 32, 2, 1)
CASES["dequantize_mx4/e3m0"] = (_groups, 32, 3, 0)
CASES["Bfloat16QuantizedToFloat/plain"] = (_numbers("plain").bfloat16(),)

LOOKUP = "int_nbit_split_embedding_codegen_lookup_function"


def lookup(kind: int, dims: tuple[int, int], pooling: int, output: int, *, weighted: bool, alignment: int) -> Any:
    """Two tables of one element type, three features, five examples; some rows were pruned."""
    from flambeau.rec.ops.tbe_inference import row_bytes

    rows = (7, 11)
    sizes = [rows[at] * row_bytes(kind, dims[at], alignment) for at in range(2)]
    memory = []
    for at in range(2):
        table = integers(f"bytes{at}", (rows[at], sizes[at] // rows[at]), 256).to(torch.uint8)
        if kind in (0, 1, 5):
            dtype = {0: torch.float32, 1: torch.float16, 5: torch.bfloat16}[kind]
            table[:, : dims[at] * dtype.itemsize] = tensor(f"t{at}", (rows[at], dims[at])).to(dtype).view(torch.uint8)
        elif kind in (2, 3, 4):
            table[:, :4] = torch.tensor([[0.01, -0.5]], dtype=torch.float16).view(torch.uint8)
        memory.append(table.reshape(-1))
    features = (0, 1, 0) if pooling != 2 else (0, 1)
    lengths = integers("lengths", (5 * len(features),), 4)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(offsets[-1])
    indices = integers("ids", (total,), 8) - 1
    widths = [dims[table] for table in features]
    starts = [0, sizes[0]]
    columns = torch.tensor([0, *torch.tensor(widths).cumsum(0).tolist()], dtype=torch.int32)
    empty = torch.empty(0, dtype=torch.uint8)
    return (
        torch.cat(memory), empty, torch.tensor([3] * len(features), dtype=torch.int32),
        torch.tensor([starts[table] for table in features]), torch.tensor([kind] * len(features), dtype=torch.uint8),
        columns, sum(widths), 0, 0, 0, 0, 0, indices, offsets.int(), pooling,
        tensor("factors", (total,)) if weighted else None, output, None, None, alignment, 0, 4, 7,
    )  # fmt: skip


for _kind in range(7):
    for _pooling in (0, 1, 2):
        for _output in (0, 1, 5, 2):
            if _output == 2 and _kind != 2:
                continue
            for _dims in ((16, 40), (96, 136)):
                CASES[f"{LOOKUP}/{_kind}/{_pooling}-{_output}-{_dims}"] = lookup(
                    _kind, _dims if _pooling != 2 else (_dims[0], _dims[0]), _pooling, _output,
                    weighted=_pooling != 2 and _dims[0] == 16, alignment=1 if _dims[0] == 16 else 16,
                )  # fmt: skip
