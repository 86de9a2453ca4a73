"""Functionals beside torchaudio's: waveforms and spectrograms of every shape and dtype, every form of arguments."""

from __future__ import annotations

import pytest
import torch
from sounds import (
    COMPLEX,
    DIFFERENCES,
    HALF,
    HALF_SPECTROGRAMS,
    NAMES,
    RECORDINGS,
    SPECTROGRAMS,
    WAVEFORMS,
    table,
)

from flambeau.core.testing.differential import Suite, cross

pytest.importorskip("torchaudio", minversion="2.9", reason="needs torchaudio 2.11; `nox -s parity -- peers` has it")
FILE = {"ours": "flambeau.audio", "peer": "torchaudio", "differences": DIFFERENCES}
SUITE = Suite("functional", **FILE, rtol=2e-4, atol=2e-5)
# Where one of the two computes in single precision, results are off by some steps of half precision.
HALVES = Suite("half precision", **FILE, rtol=5e-3, atol=5e-3)

CELLS = table("functional_cells.txt")

MATRICES = {
    "channels": {"s": "torch.view_as_complex(torch.rand((9, 3, 3, 2), generator=seeded()))"},
    "batch": {"s": "torch.view_as_complex(torch.rand((2, 9, 3, 3, 2), generator=seeded()))"},
    "complex128": {"s": "torch.view_as_complex(torch.rand((9, 3, 3, 2), generator=seeded()).double())"},
    "real": {"s": "torch.rand((9, 3, 3), generator=seeded())"},
    "not square": {"s": "torch.view_as_complex(torch.rand((9, 3, 2, 2), generator=seeded()))"},
    "2d": {"s": "torch.view_as_complex(torch.rand((3, 3, 2), generator=seeded()))"},
    "none": {"s": "torch.zeros(0, 9, 3, 3, dtype=torch.complex64)"},
}  # fmt: skip
LOGITS = {
    "float32": {"l": "torch.rand((2, 4, 3, 5), generator=seeded()).requires_grad_()"},
    "float64": {"l": "torch.rand((2, 4, 3, 5), generator=seeded()).double().requires_grad_()"},
    "strided": {"l": "torch.rand((4, 2, 3, 5), generator=seeded()).transpose(0, 1)"},
    "3d": {"l": "torch.rand((4, 3, 5), generator=seeded())"},
}
HALF_LOGITS = {"float16": {"l": "torch.rand((2, 4, 3, 5), generator=seeded()).half().requires_grad_()"}}


def seeded() -> torch.Generator:
    """The same numbers on both sides."""
    return torch.Generator().manual_seed(0)


# What programs refer to: correlated channels, targets and lengths.
LENT = {
    **NAMES,
    "seeded": seeded,
    "correlated": lambda s: s @ s.mH,
    "uncorrelated": lambda s: s.flip(-1) @ s.flip(-1).mH + torch.eye(3),
    "targets": torch.tensor([[1, 2], [3, 1]], dtype=torch.int32),
    "whole": (torch.tensor([4, 4], dtype=torch.int32), torch.tensor([2, 2], dtype=torch.int32)),
    "short": (torch.tensor([4, 3], dtype=torch.int32), torch.tensor([2, 1], dtype=torch.int32)),
    "int32": lambda *values: torch.tensor(values, dtype=torch.int32),
    "scores": lambda *shape: torch.randn(shape).log_softmax(-1),
}

SUITE.add(*cross("waveforms", WAVEFORMS, CELLS["waveforms"], names=LENT))
SUITE.add(*cross("recordings", RECORDINGS, CELLS["recordings"], names=LENT))
SUITE.add(*cross("spectrograms", SPECTROGRAMS, CELLS["spectrograms"], names=LENT))
SUITE.add(*cross("complex", COMPLEX, CELLS["complex"], names=LENT))
SUITE.add(*cross("beamforming", MATRICES, CELLS["beamforming"], names=LENT))
SUITE.add(*cross("plain", {"numbers": {}}, CELLS["plain"], names=LENT))
SUITE.add(*cross("transducer", LOGITS, CELLS["transducer"], names=LENT))
HALVES.add(*cross("waveforms", HALF, CELLS["waveforms"], names=LENT))
HALVES.add(*cross("spectrograms", HALF_SPECTROGRAMS, CELLS["spectrograms"], names=LENT))
HALVES.add(*cross("transducer", HALF_LOGITS, CELLS["transducer"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


@pytest.mark.parametrize("cell", HALVES.cells, ids=str)
def test_both_libraries_do_the_same_in_half_precision(cell):
    HALVES.check(cell)


@pytest.mark.parametrize("suite", [SUITE, HALVES], ids=lambda suite: suite.name)
def test_every_intended_difference_is_one(suite):
    suite.check_differences()
