"""A region of an image is decoded alone, and has the pixels that it has in the whole image."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from images import encoded, exif_with_orientation, picture
from PIL import Image

from flambeau.vision.io import ImageError, ImageReadMode, decode_image, decode_jpeg
from flambeau.vision.io._codec import reduction

pytestmark = pytest.mark.usefixtures("image_codec")

many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def noise(height: int, width: int, mode: str, seed: int) -> Image.Image:
    """Blurred noise: neighbours differ, so that a sample from a wrong place is noticed."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    levels = torch.randint(0, 256, (height, width, channels), generator=torch.Generator().manual_seed(seed))
    return Image.frombytes(mode, (width, height), levels.to(torch.uint8).numpy().tobytes())


@st.composite
def jpegs(draw: st.DrawFn) -> torch.Tensor:
    """JPEG files of every kind."""
    height, width = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    mode = draw(st.sampled_from(["RGB", "RGB", "RGB", "L", "CMYK"]))
    options: dict[str, object] = {"quality": draw(st.sampled_from([20, 75, 95, 100]))}
    if mode == "RGB":
        kinds = [{"subsampling": name} for name in ("4:4:4", "4:2:2", "4:2:0", "4:1:1")]
        options |= draw(st.sampled_from([*kinds, {"keep_rgb": True}]))
    options["progressive"] = draw(st.sampled_from([False, False, False, True]))
    options["optimize"] = draw(st.booleans())
    if restart := draw(st.sampled_from([0, 0, 1, 2, 5, 17])):
        options["restart_marker_blocks"] = restart
    return encoded(noise(height, width, mode, draw(st.integers(0, 9))), "JPEG", **options)


@st.composite
def regions_of(draw: st.DrawFn, height: int, width: int) -> tuple[int, int, int, int]:
    """Any region, often one at an edge."""
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    bottom = draw(st.one_of(st.just(height), st.integers(top + 1, height)))
    right = draw(st.one_of(st.just(width), st.integers(left + 1, width)))
    return top, left, bottom - top, right - left


def cut(image: torch.Tensor, region: tuple[int, int, int, int]) -> torch.Tensor:
    top, left, height, width = region
    return image[..., top : top + height, left : left + width]


@many
@given(st.data())
def test_a_region_of_a_jpeg_has_the_pixels_of_the_whole(data):
    file, mode = data.draw(jpegs()), data.draw(st.sampled_from(list(ImageReadMode)))
    whole = decode_jpeg(file, mode)
    region = data.draw(regions_of(*whole.shape[-2:]))
    part = decode_jpeg(file, mode, region=region)
    assert torch.equal(part, cut(whole, region))
    assert part.movedim(0, -1).is_contiguous()


@many
@given(st.data())
def test_a_region_of_a_reduced_jpeg_is_what_of_it_has_something_of_the_region(data):
    file = data.draw(jpegs())
    height, width = decode_jpeg(file).shape[-2:]
    region = top, left, high, wide = data.draw(regions_of(height, width))
    by = reduction(high, wide, data.draw(st.integers(1, 50)))
    # The least size for which the whole is reduced by as much.
    whole = decode_jpeg(file, min_size=-(-min(height, width) // by))
    if whole.shape[-2:] != (-(-height // by), -(-width // by)):
        return
    part = decode_jpeg(file, region=region, min_size=-(-min(high, wide) // by))
    rows, columns = slice(top // by, -(-(top + high) // by)), slice(left // by, -(-(left + wide) // by))
    assert torch.equal(part, whole[:, rows, columns])


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("restart", [0, 3])
def test_every_region_of_a_small_picture(subsampling, restart):
    file = encoded(noise(37, 21, "RGB", 1), "JPEG", subsampling=subsampling, restart_marker_blocks=restart)
    whole = decode_jpeg(file)
    for top in range(0, 37, 3):
        for left in range(0, 21, 2):
            for high in (1, 2, 9, 37 - top):
                for wide in (1, 3, 21 - left):
                    region = (top, left, min(high, 37 - top), min(wide, 21 - left))
                    assert torch.equal(decode_jpeg(file, region=region), cut(whole, region)), region


@pytest.mark.parametrize("format", ["PNG", "GIF", "WEBP"])
def test_other_formats_have_regions_as_well(format):
    file = encoded(picture(20, 30), format)
    assert torch.equal(decode_image(file, region=(3, 4, 5, 6)), cut(decode_image(file), (3, 4, 5, 6)))


def test_every_frame_of_an_animation_is_cut():
    frames = [noise(12, 10, "RGB", seed) for seed in range(3)]
    file = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert torch.equal(decode_image(file, region=(1, 2, 3, 4)), cut(decode_image(file), (1, 2, 3, 4)))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_region_is_one_of_the_upright_image(orientation):
    file = encoded(picture(24, 36), "JPEG", exif=b"Exif\0\0" + exif_with_orientation(orientation))
    whole = decode_image(file, apply_exif_orientation=True)
    part = decode_image(file, apply_exif_orientation=True, region=(2, 5, 7, 11))
    assert torch.equal(part, cut(whole, (2, 5, 7, 11)))


def test_each_file_of_a_list_has_its_region():
    files = [encoded(noise(40, 30, "RGB", seed), "JPEG") for seed in range(3)]
    regions = [(0, 0, 8, 8), None, (20, 10, 20, 20)]
    parts = decode_jpeg(files, region=regions)
    for file, region, part in zip(files, regions, parts, strict=True):
        assert torch.equal(part, decode_jpeg(file, region=region))


@pytest.mark.parametrize("region", [(0, 0, 25, 1), (-1, 0, 5, 5), (0, 30, 5, 7), (0, 0, 0, 5), (3, 3, 5, -1)])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_a_region_beyond_the_image_is_refused(format, region):
    with pytest.raises(ValueError, match="not inside of the image of 24 x 36"):
        decode_image(encoded(picture(24, 36), format), region=region)


def test_as_many_regions_as_images_are_needed():
    with pytest.raises(ValueError, match="2 regions for 1 images"):
        decode_jpeg([encoded(picture(), "JPEG")], region=[None, None])


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": "4:1:1"}, {"restart_marker_blocks": 4}])
@pytest.mark.parametrize("left", [10, 200])
def test_a_file_that_was_cut_off_is_noticed_though_the_region_is_there(options, left):
    file = encoded(noise(64, 64, "RGB", 0), "JPEG", **options)
    with pytest.raises(ImageError, match="damaged or incomplete"):
        decode_image(file[:-left], region=(0, 0, 8, 8))
