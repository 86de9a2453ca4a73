"""Tones of PIL images that wait between steps of a pipeline become what Pillow makes of them, bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from flambeau.vision.io._waiting_picture import LevelsPicture
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.functional import _pil_tones

factors = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 3), st.floats(-2, 0))
OPERATIONS = {
    "brightness": (F.adjust_brightness, factors),
    "contrast": (F.adjust_contrast, factors),
    "saturation": (F.adjust_saturation, factors),
    "sharpness": (F.adjust_sharpness, factors),
    "posterize": (F.posterize, st.integers(0, 8)),
    "solarize": (F.solarize, st.one_of(st.integers(0, 256), st.floats(0, 256))),
    "autocontrast": (F.autocontrast, None),
    "equalize": (F.equalize, None),
    "invert": (F.invert, None),
}


def levels_of(size: tuple[int, int], channels: int, seed: int, low: int, high: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high + 1, (*size, channels), generator=generator).to(torch.uint8).permute(2, 0, 1)


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_bytes_are_those_of_pillow(name, data):
    functional, amounts = OPERATIONS[name]
    size = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    low = data.draw(st.integers(0, 255))
    levels = levels_of(
        size, data.draw(st.sampled_from([1, 3])), data.draw(st.integers(0, 99)), low, data.draw(st.integers(low, 255))
    )
    waiting = LevelsPicture(levels)
    loaded = LevelsPicture(levels)
    loaded.load()
    assert type(loaded) is Image.Image
    arguments = [] if amounts is None else [data.draw(amounts)]
    given_, expected = functional(waiting, *arguments), functional(loaded, *arguments)
    assert (given_.mode, given_.size) == (expected.mode, expected.size)
    assert given_.tobytes() == expected.tobytes()


def test_pillow_does_what_is_not_a_number():
    waiting = LevelsPicture(levels_of((4, 4), 3, 0, 0, 255))
    assert _pil_tones.brightness(waiting, float("nan")) is None


def test_pictures_of_pillow_s_own_are_left_to_pillow():
    assert _pil_tones.equalize(Image.new("RGB", (4, 4))) is None


@pytest.mark.parametrize("policy", [v2.TrivialAugmentWide(), v2.RandAugment(), v2.AutoAugment(), v2.AugMix()])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_policies_within_a_pipeline_are_those_between_loaded_pictures(policy, mode):
    picture = Image.fromarray(levels_of((40, 50), 3, 1, 0, 255).permute(1, 2, 0).contiguous().numpy()).convert(mode)
    before = v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip()])
    after = v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])
    whole = v2.Compose([*before.transforms, policy, *after.transforms])
    for seed in range(40):
        torch.manual_seed(seed)
        together = whole(picture)
        torch.manual_seed(seed)
        cut = before(picture)
        assert type(cut) is Image.Image
        assert torch.equal(together, after(policy(cut)))
