"""Image files become tensors: which channels, which dtype, which way up."""

import numpy as np
import pytest
import torch
from images import as_tensor, encoded, exif_with_orientation, picture, pixels, png
from PIL import Image, ImageOps

from flambeau.vision.io import ImageReadMode, decode_gif, decode_image, decode_jpeg, decode_png, decode_webp

pytestmark = pytest.mark.usefixtures("image_codec")

CHANNELS = {"GRAY": 1, "GRAY_ALPHA": 2, "RGB": 3, "RGB_ALPHA": 4}
PILLOW = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def test_modes_have_the_published_numbers_and_rgba_is_an_alias():
    assert {mode.name: mode.value for mode in ImageReadMode} == {
        "UNCHANGED": 0,
        **{name: i for i, name in enumerate(CHANNELS, 1)},
    }
    assert ImageReadMode.RGBA is ImageReadMode.RGB_ALPHA


@pytest.mark.parametrize("kind", ["1", "L", "LA", "RGB", "RGBA"])
def test_a_png_keeps_its_channels_and_few_bits_are_spread(kind):
    image = picture(mode=kind)
    assert torch.equal(decode_png(encoded(image, "PNG")), pixels(image.convert({"1": "L"}.get(kind, kind))))


@pytest.mark.parametrize("transparency", [None, 1], ids=["opaque", "one entry hidden"])
@pytest.mark.parametrize(("colours", "bits"), [(2, 1), (4, 2), (16, 4), (200, 8)])
def test_a_palette_png_is_the_numbers_of_its_entries(colours, bits, transparency):
    mask = Image.fromarray(np.random.default_rng(0).integers(0, colours, (24, 37), np.uint8), "P")
    mask.putpalette([(31 * number) % 256 for number in range(3 * 256)])
    options = {} if transparency is None else {"transparency": transparency}
    decoded = decode_image(encoded(mask, "PNG", bits=bits, **options))
    assert torch.equal(decoded, torch.from_numpy(np.array(mask))[None])


@pytest.mark.parametrize("mode", CHANNELS)
def test_a_palette_png_has_its_colours_where_channels_are_asked_for(mode):
    image = picture(mode="RGB").quantize(16)
    decoded = decode_image(encoded(image, "PNG"), mode=mode)
    assert torch.equal(decoded, pixels(image.convert("RGB").convert(PILLOW[mode])))


@pytest.mark.parametrize("mode", CHANNELS)
@pytest.mark.parametrize("kind", ["L", "LA", "RGB", "RGBA"])
def test_a_png_is_converted_to_the_mode_asked_for(kind, mode):
    image = picture(mode=kind)
    decoded = decode_image(encoded(image, "PNG"), mode=mode)
    assert torch.equal(decoded, pixels(image.convert(PILLOW[mode])))


def test_a_palette_with_transparency_has_alpha_where_it_is_asked_for():
    image = picture(mode="RGB").quantize(16)
    decoded = decode_png(encoded(image, "PNG", transparency=3), ImageReadMode.RGB_ALPHA)
    assert decoded.shape == (4, 24, 36)
    assert torch.equal(decoded[3] == 0, torch.from_numpy(np.array(image) == 3))


def test_an_interlaced_png_is_like_any_other():
    # Seven passes over an 8x8 picture; Pillow reads interlacing and cannot write it.
    import struct
    import zlib

    from images import chunk

    array = np.arange(64, dtype=np.uint8).reshape(8, 8)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(b"\0" + row.tobytes() for y, x, dy, dx in passes for row in array[y::dy, x::dx])
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 1)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert torch.equal(decode_png(as_tensor(content)), torch.from_numpy(array)[None])


@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (4, 2), (2, 3), (6, 4)])
def test_a_png_with_16_bits_gives_every_bit_as_uint16(colour_type, channels):
    array = np.random.default_rng(0).integers(0, 65536, (9, 7, channels)).astype(np.uint16)
    decoded = decode_image(png(array, colour_type))
    assert decoded.dtype == torch.uint16
    assert np.array_equal(decoded.numpy(), array.transpose(2, 0, 1))


@pytest.mark.parametrize("mode", CHANNELS)
@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (4, 2), (2, 3), (6, 4)])
def test_16_bits_are_converted_like_8_bits(colour_type, channels, mode):
    array = np.random.default_rng(1).integers(0, 65536, (9, 7, channels)).astype(np.uint16)
    wide = decode_image(png(array, colour_type), mode=mode)
    narrow = decode_image(png(array >> 8, colour_type, bits=8), mode=mode)
    assert wide.shape == (CHANNELS[mode], 9, 7)
    assert np.abs((wide.numpy().astype(int) >> 8) - narrow.numpy().astype(int)).max() <= 1


@pytest.mark.parametrize(("kind", "channels"), [("L", 1), ("RGB", 3), ("YCbCr", 3)])
def test_a_jpeg_keeps_gray_and_colour(kind, channels):
    data = encoded(picture(mode=kind), "JPEG", quality=95)
    decoded = decode_jpeg(data)
    assert decoded.shape == (channels, 24, 36)
    expected = pixels(picture(mode=kind).convert("L" if channels == 1 else "RGB"))
    assert (decoded.int() - expected.int()).abs().float().mean() < 3


def test_a_jpeg_of_four_inks_is_given_as_stored_and_becomes_rgb_where_that_is_asked_for():
    image = picture(mode="CMYK")
    data = encoded(image, "JPEG", quality=95)
    stored, colours = decode_jpeg(data), decode_jpeg(data, "RGB")
    assert stored.shape == (4, 24, 36)
    assert (stored.int() - (255 - pixels(image).int())).abs().float().mean() < 3  # Adobe: 255 is no ink
    assert (colours.int() - pixels(image.convert("RGB")).int()).abs().float().mean() < 3


def test_a_list_of_jpegs_comes_back_in_order():
    files = [encoded(picture(8 + i, 12), "JPEG") for i in range(5)]
    assert [tuple(image.shape) for image in decode_jpeg(files)] == [(3, 8 + i, 12) for i in range(5)]
    assert decode_jpeg([]) == []


@pytest.mark.parametrize("kind", ["RGB", "RGBA"])
def test_a_webp_keeps_alpha(kind):
    image = picture(mode=kind)
    assert torch.equal(decode_webp(encoded(image, "WEBP", lossless=True, exact=True)), pixels(image))


@pytest.mark.parametrize("format", ["GIF", "WEBP"])
def test_an_animation_gives_all_frames(format):
    frames = [Image.new("RGB", (6, 4), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], lossless=True)
    decoded = decode_image(data, mode="RGB")
    assert decoded.shape == (3, 3, 4, 6)
    assert decoded[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]


def test_a_gif_with_one_frame_is_one_image():
    image = picture().quantize(32)
    assert torch.equal(decode_gif(encoded(image, "GIF")), pixels(image.convert("RGB")))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "WEBP"])
def test_the_content_and_not_the_name_tells_the_format(tmp_path, format):
    path = tmp_path / "picture.bmp"
    path.write_bytes(encoded(picture(), format).numpy().tobytes())
    assert decode_image(path).shape == decode_image(str(path)).shape == (3, 24, 36)


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("byte_order", "<>")
def test_exif_orientation_is_applied_on_request_alone(value, format, byte_order):
    image = picture()
    data = encoded(image, format, exif=b"Exif\0\0" + exif_with_orientation(value, byte_order=byte_order))
    stored = decode_image(data)
    assert stored.shape == (3, 24, 36)
    upright = decode_image(data, apply_exif_orientation=True)
    exif = Image.Exif()
    exif[0x0112] = value
    by_pillow = Image.fromarray(stored.permute(1, 2, 0).numpy())
    by_pillow.getexif()[0x0112] = value
    assert torch.equal(upright, pixels(ImageOps.exif_transpose(by_pillow)))


def test_16_bit_pictures_can_be_turned_too():
    from flambeau.vision.io._exif import upright

    image = torch.tensor([[[0, 1, 2], [3, 4, 5]]], dtype=torch.uint16)
    assert upright(image, 6).tolist() == [[[3, 0], [4, 1], [5, 2]]]


@pytest.mark.parametrize(
    "block",
    [b"", b"junk", b"II*\0", b"II*\0\xff\xff\xff\xff", exif_with_orientation(9), exif_with_orientation(6)[:-8]],
    ids=["none", "junk", "no directory", "directory outside", "no such orientation", "cut off"],
)
def test_a_damaged_exif_block_leaves_the_picture_as_it_is(block):
    data = encoded(picture(), "JPEG", exif=b"Exif\0\0" + block)
    assert torch.equal(decode_image(data, apply_exif_orientation=True), decode_image(data))
