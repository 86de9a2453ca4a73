"""Preprocessing: the same picture in any form gives the same input of a model."""

import copy
import pickle

import pytest
import torch
from PIL import Image

from flambeau.vision import models
from flambeau.vision.transforms import InterpolationMode
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms._presets import HandwrittenDigit, ImageClassification


def picture(height=60, width=80):
    y, x = torch.meshgrid(torch.linspace(0, 255, height), torch.linspace(0, 255, width), indexing="ij")
    return torch.stack([x, y, (x + y) / 2]).to(torch.uint8)


def as_pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


class TestImageClassification:
    def test_it_resizes_crops_scales_and_normalizes(self):
        mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
        out = ImageClassification(crop_size=24, resize_size=30, mean=mean, std=std)(picture())
        step = F.convert_image_dtype(F.center_crop(F.resize(picture(), [30]), [24]), torch.float)
        assert torch.equal(out, F.normalize(step, mean, std))
        assert out.shape == (3, 24, 24)

    def test_pil_images_tensors_and_batches_agree(self):
        preset = ImageClassification(crop_size=24, resize_size=30)
        single = preset(picture())
        assert torch.equal(preset(torch.stack([picture(), picture()]))[1], single)
        one_level = 1 / 255 / min(preset.std)
        assert (preset(as_pil(picture())) - single).abs().max() <= one_level * 1.01

    def test_a_small_picture_is_enlarged(self):
        assert ImageClassification(crop_size=224)(picture(5, 7)).shape == (3, 224, 224)

    def test_floating_point_pictures_are_taken_as_they_are(self):
        preset = ImageClassification(crop_size=24, resize_size=30)
        floating = preset(picture().float() / 255)
        assert floating.dtype == torch.float32
        assert (floating - preset(picture())).abs().max() < 0.02

    def test_both_sides_and_interpolation_may_be_given(self):
        preset = ImageClassification(crop_size=10, resize_size=(12, 40), interpolation="bicubic", antialias=False)
        assert preset.resize_size == [12, 40]
        assert preset.interpolation is InterpolationMode.BICUBIC
        assert preset(picture()).shape == (3, 10, 10)

    def test_its_text_shows_every_parameter(self):
        preset = ImageClassification(crop_size=224, resize_size=232)
        for part in ("crop_size=[224]", "resize_size=[232]", "[0.485, 0.456, 0.406]", "BILINEAR", "antialias=True"):
            assert part in repr(preset)
        assert "[232]" in preset.describe()
        assert preset.describe().endswith(".")

    def test_it_pickles_and_copies(self):
        preset = ImageClassification(crop_size=24, resize_size=30)
        expected = preset(picture())
        assert torch.equal(pickle.loads(pickle.dumps(preset))(picture()), expected)
        assert torch.equal(copy.deepcopy(preset)(picture()), expected)

    def test_it_compiles_whole(self):
        preset = ImageClassification(crop_size=24, resize_size=30)
        compiled = torch.compile(preset, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(picture()), preset(picture()))

    def test_members_make_it(self):
        preset = models.ResNet50_Weights.IMAGENET1K_V2.transforms()
        assert isinstance(preset, ImageClassification)
        assert preset(as_pil(picture(300, 400))).shape == (3, 224, 224)


def digit(*, dark_on_light: bool, top: int = 30, left: int = 50) -> torch.Tensor:
    """A rectangular zero, [1, 120, 100], in [0, 1]."""
    ink = torch.zeros(1, 120, 100)
    ink[:, top : top + 64, left : left + 40] = 0.9
    ink[:, top + 16 : top + 48, left + 12 : left + 28] = 0
    return 1 - ink if dark_on_light else ink


class TestHandwrittenDigit:
    @pytest.mark.parametrize("dark_on_light", [True, False])
    @pytest.mark.parametrize("top", [0, 20, 56])
    def test_place_size_and_polarity_do_not_matter(self, dark_on_light, top):
        preset = HandwrittenDigit()
        reference = preset(digit(dark_on_light=False))
        assert reference.shape == (1, 8, 8)
        assert reference.max() == 1
        assert reference[0, 3:5, 3:5].max() < 0.5 < reference[0, 0].max()
        moved = digit(dark_on_light=dark_on_light, top=top, left=3)
        torch.testing.assert_close(preset(moved), reference)
        torch.testing.assert_close(preset(F.resize(moved, [240, 200], interpolation="nearest")), reference)

    def test_a_tall_digit_fills_the_height_and_is_centred(self):
        out = HandwrittenDigit()(digit(dark_on_light=True))[0]
        inked = out > 0
        assert inked.any(1).all()
        assert inked.any(0).tolist() == [False] + [True] * 5 + [False] * 2

    def test_a_wide_digit_fills_the_width(self):
        out = HandwrittenDigit()(digit(dark_on_light=True).transpose(1, 2))[0]
        assert (out > 0).any(0).all()
        assert not (out > 0).any(1).all()

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
    def test_pil_images_of_every_mode_are_taken(self, mode):
        image = F.to_pil_image(digit(dark_on_light=True)).convert(mode, dither=Image.Dither.NONE)
        torch.testing.assert_close(
            HandwrittenDigit()(image), HandwrittenDigit()(digit(dark_on_light=True)), atol=0.02, rtol=0
        )

    def test_transparency_is_paper(self):
        ink = digit(dark_on_light=False)
        drawn = torch.cat([torch.zeros(3, 120, 100), ink])  # black strokes on nothing
        torch.testing.assert_close(HandwrittenDigit()(drawn), HandwrittenDigit()(ink), atol=0.02, rtol=0)

    def test_batches_of_any_depth_are_taken(self):
        batch = torch.stack([digit(dark_on_light=True), digit(dark_on_light=False)]).reshape(2, 1, 1, 120, 100)
        out = HandwrittenDigit()(batch)
        assert out.shape == (2, 1, 1, 8, 8)
        torch.testing.assert_close(out[0], out[1])
        assert HandwrittenDigit()(torch.zeros(0, 1, 20, 20)).shape == (0, 1, 8, 8)

    @pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
    @pytest.mark.parametrize("size", [(1, 1), (1, 9), (30, 40)])
    def test_an_empty_picture_has_no_ink(self, value, size):
        assert not HandwrittenDigit()(torch.full((1, *size), value)).any()

    def test_its_text_shows_every_parameter(self):
        assert repr(HandwrittenDigit(size=12)) == "HandwrittenDigit(size=12, threshold=0.25)"
        assert "12x12" in HandwrittenDigit(size=12).describe()
