"""What the differential suites of sound have in common: kinds of inputs, and how programs are written."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import torch

from flambeau.core.testing.differential import read_table

DIFFERENCES = Path(__file__).with_name("differences.toml")
NAMES: dict[str, Any] = {"torch": torch, "math": math}
_SEEDED = "generator=torch.Generator().manual_seed(0)"


def _noise(*shape: int) -> str:
    """Noise around 0 in (-1, 1), another value in each place."""
    return f"(torch.rand({shape}, {_SEEDED}) * 1.6 - 0.8)"


WAVEFORMS: dict[str, dict[str, str]] = {
    "1d": {"x": _noise(1600)},
    "channels": {"x": _noise(2, 1600)},
    "batch": {"x": _noise(3, 2, 1600)},
    "batches": {"x": _noise(2, 1, 2, 1600)},
    "float64": {"x": f"{_noise(2, 1600)}.double()"},
    "int16": {"x": f"({_noise(2, 1600)} * 300).to(torch.int16)"},
    "strided": {"x": f"{_noise(1600, 2)}.t()"},
    "silent": {"x": "torch.zeros(2, 1600)"},
    "short": {"x": _noise(2, 7)},
    "no time": {"x": "torch.zeros(2, 0)"},
    "no batch": {"x": "torch.zeros(0, 2, 1600)"},
    "scalar": {"x": "torch.tensor(0.5)"},
}
SPECTROGRAMS: dict[str, dict[str, str]] = {
    "2d": {"x": f"{_noise(33, 20)}.abs()"},
    "channels": {"x": f"{_noise(2, 33, 20)}.abs()"},
    "batch": {"x": f"{_noise(3, 2, 33, 20)}.abs()"},
    "batches": {"x": f"{_noise(2, 1, 2, 33, 20)}.abs()"},
    "float64": {"x": f"{_noise(2, 33, 20)}.abs().double()"},
    "int64": {"x": f"({_noise(2, 33, 20)} * 50).long()"},
    "strided": {"x": f"{_noise(2, 20, 33)}.abs().mT"},
    "no frames": {"x": "torch.zeros(2, 33, 0)"},
    "no batch": {"x": "torch.zeros(0, 2, 33, 20)"},
    "1d": {"x": f"{_noise(33)}.abs()"},
}
# Long enough for loudness and for finding speech: tones in bursts over noise.
_BURSTS = "torch.sin(torch.arange(16000) / 8) * (torch.arange(16000) // 4000 % 2)"
RECORDINGS: dict[str, dict[str, str]] = {
    "1d": {"x": f"{_noise(16000)} / 50 + {_BURSTS} / 2"},
    "channels": {"x": f"{_noise(2, 16000)} / 50 + {_BURSTS} / 2"},
    "batch": {"x": f"{_noise(3, 2, 16000)} / 50 + {_BURSTS} / 2"},
    "batches": {"x": f"{_noise(2, 1, 2, 16000)} / 50 + {_BURSTS} / 2"},
    "float64": {"x": f"({_noise(2, 16000)} / 50 + {_BURSTS} / 2).double()"},
    "int16": {"x": f"(({_noise(2, 16000)} / 50 + {_BURSTS} / 2) * 30000).to(torch.int16)"},
    "silent": {"x": "torch.zeros(2, 16000)"},
    "silent batch": {"x": "torch.zeros(3, 2, 16000)"},
    "noise": {"x": f"{_noise(2, 16000)} / 50"},
    "six channels": {"x": f"{_noise(6, 16000)} / 50 + {_BURSTS} / 2"},
}
HALF: dict[str, dict[str, str]] = {"float16": {"x": f"{_noise(2, 1600)}.half()"}}
HALF_SPECTROGRAMS: dict[str, dict[str, str]] = {"float16": {"x": f"{_noise(2, 33, 20)}.abs().half()"}}
COMPLEX: dict[str, dict[str, str]] = {
    "2d": {"x": f"torch.view_as_complex({_noise(33, 20, 2)})"},
    "channels": {"x": f"torch.view_as_complex({_noise(2, 33, 20, 2)})"},
    "batch": {"x": f"torch.view_as_complex({_noise(3, 2, 33, 20, 2)})"},
    "complex128": {"x": f"torch.view_as_complex({_noise(2, 33, 20, 2)}.double())"},
    "strided": {"x": f"torch.view_as_complex({_noise(2, 20, 33, 2)}).mT"},
    "no batch": {"x": "torch.zeros(0, 2, 33, 20, dtype=torch.complex64)"},
    "no frames": {"x": "torch.zeros(2, 33, 0, dtype=torch.complex64)"},
    "real": {"x": f"{_noise(2, 33, 20)}"},
}


def table(name: str) -> dict[str, list[str]]:
    """Programs by heading of a text file beside this one, where F. stands for functional., and T. for transforms."""
    found = read_table(Path(__file__).with_name(name))
    return {heading: [_written_out(line) for line in lines] for heading, lines in found.items()}


def _written_out(line: str) -> str:
    for letter, meant in {"F": "functional", "T": "transforms"}.items():
        line = re.sub(rf"(?<![\w.]){letter}\.", f"{meant}.", line)
    return line
