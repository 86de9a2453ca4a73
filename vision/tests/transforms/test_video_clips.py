"""Transforms of clips as old pipelines know them: channels first, all frames alike."""

import pytest
import torch

from flambeau.vision.transforms import _functional_video as F
from flambeau.vision.transforms import _transforms_video as T

FRAMES = torch.randint(0, 256, (4, 6, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
CLIP = F.to_tensor(FRAMES)


def test_frames_become_a_clip_of_floats():
    assert CLIP.shape == (3, 4, 6, 8)
    assert torch.equal((CLIP * 255).round().byte(), FRAMES.permute(3, 0, 1, 2))
    assert torch.equal(T.ToTensorVideo()(FRAMES), CLIP)


def test_crops_are_the_named_rectangles():
    assert torch.equal(F.crop(CLIP, 1, 2, 3, 4), CLIP[:, :, 1:4, 2:6])
    assert torch.equal(F.center_crop(CLIP, (2, 4)), CLIP[:, :, 2:4, 2:6])
    assert torch.equal(T.CenterCropVideo((2, 4))(CLIP), CLIP[:, :, 2:4, 2:6])


def test_resizing_samples_each_frame():
    resized = F.resize(CLIP, (3, 4), "bilinear")
    assert resized.shape == (3, 4, 3, 4)
    expected = torch.nn.functional.interpolate(CLIP[:, 2][None], (3, 4), mode="bilinear")[0]
    assert torch.equal(resized[:, 2], expected)
    assert torch.equal(F.resize(CLIP, (3, 4), "nearest"), CLIP[..., ::2, ::2])


def test_normalizing_leaves_the_clip_alone_unless_in_place():
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.5, 0.25)
    clip = CLIP.clone()
    result = T.NormalizeVideo(mean, std)(clip)
    torch.testing.assert_close(result[2], (CLIP[2] - 0.3) / 0.25)
    assert torch.equal(clip, CLIP)
    assert T.NormalizeVideo(mean, std, inplace=True)(clip) is clip
    assert torch.equal(clip, result)


def test_random_transforms_treat_all_frames_alike():
    still = CLIP[:, :1].expand(-1, 5, -1, -1)
    for transform in (T.RandomCropVideo((3, 5)), T.RandomResizedCropVideo(4), T.RandomHorizontalFlipVideo()):
        torch.manual_seed(1)
        first = transform(still)
        assert torch.equal(first, first[:, :1].expand_as(first))
        torch.manual_seed(1)
        assert torch.equal(transform(still), first)


def test_flips_happen_with_their_probability():
    assert torch.equal(T.RandomHorizontalFlipVideo(p=1)(CLIP), CLIP.flip(-1))
    assert T.RandomHorizontalFlipVideo(p=0)(CLIP) is CLIP


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.to_tensor(CLIP), TypeError, "uint8"),
        (lambda: F.hflip(CLIP[0]), ValueError, "four dimensions"),
        (lambda: F.hflip([1]), TypeError, "list"),
        (lambda: F.center_crop(CLIP, (9, 9)), ValueError, "6x8"),
        (lambda: F.resize(CLIP, (3,), "bilinear"), ValueError, "height and width"),
    ],
)
def test_bad_clips_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_transforms_show_their_arguments():
    assert repr(T.RandomCropVideo(3)) == "RandomCropVideo(size=(3, 3))"
    assert "interpolation_mode=bilinear" in repr(T.RandomResizedCropVideo(3))
    assert repr(T.CenterCropVideo(3)) == "CenterCropVideo(crop_size=(3, 3))"
