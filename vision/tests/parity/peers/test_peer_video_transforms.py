"""Transforms of clips give torchvision's results for one seed."""

from __future__ import annotations

import pytest
import torch

from flambeau.vision.transforms import _transforms_video as ours

theirs = pytest.importorskip(
    "torchvision.transforms._transforms_video", reason="needs torchvision; `nox -s parity -- peers` has it"
)
CLIP = torch.rand(3, 4, 20, 30, generator=torch.Generator().manual_seed(0))
CASES = {
    "RandomCropVideo": (8,),
    "RandomResizedCropVideo": ((8, 6),),
    "CenterCropVideo": (7,),
    "NormalizeVideo": ((0.1, 0.2, 0.3), (0.5, 0.4, 0.3)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_equal(name):
    for seed in range(20):
        torch.manual_seed(seed)
        expected = getattr(theirs, name)(*CASES[name])(CLIP)
        torch.manual_seed(seed)
        torch.testing.assert_close(getattr(ours, name)(*CASES[name])(CLIP), expected, rtol=0, atol=1e-6)
    assert repr(getattr(ours, name)(*CASES[name])) == repr(getattr(theirs, name)(*CASES[name]))
