"""Cropping, dtypes, normalization, gray, sizes, and conversion from and to PIL images."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import functional as v1
from flambeau.vision.transforms.v2 import functional as F


def test_pillow_is_not_imported_before_an_image_of_its_own_comes():
    code = (
        "import torch; from flambeau.vision.transforms.v2 import functional as F; "
        "F.resize(torch.zeros(3, 4, 4), 2); import sys; print('PIL' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


class TestCenterCrop:
    @settings(max_examples=60, deadline=None)
    @given(h=st.integers(1, 12), w=st.integers(1, 12), new_h=st.integers(1, 15), new_w=st.integers(1, 15))
    def test_tensors_and_pil_images_agree(self, h, w, new_h, new_w):
        image = torch.arange(1, h * w + 1, dtype=torch.uint8).reshape(1, h, w)
        cropped = F.center_crop(image, [new_h, new_w])
        pil = F.center_crop(Image.fromarray(image[0].numpy()), [new_h, new_w])
        assert cropped.shape == (1, new_h, new_w)
        assert np.array_equal(cropped[0].numpy(), np.array(pil))

    def test_one_number_is_a_square_and_nothing_is_copied(self):
        image = torch.rand(2, 3, 9, 9)
        assert F.center_crop(image, 5).shape == F.center_crop(image, (5,)).shape == (2, 3, 5, 5)
        assert F.center_crop(image, 5).untyped_storage().data_ptr() == image.untyped_storage().data_ptr()

    def test_missing_pixels_are_zero_and_the_odd_one_is_at_the_end(self):
        assert F.center_crop(torch.ones(1, 1, 2), [2, 5]).tolist() == [[[0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]]

    def test_sizes_have_one_or_two_numbers(self):
        with pytest.raises(ValueError, match="expected one number or two"):
            F.center_crop(torch.ones(1, 4, 4), (1, 2, 3))


class TestToDtype:
    @pytest.mark.parametrize("source", [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32])
    @pytest.mark.parametrize("target", [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32, torch.int64])
    def test_zero_stays_zero_and_full_stays_full_between_integers(self, source, target):
        ends = torch.tensor([0, torch.iinfo(source).max], dtype=source)
        out = F.to_dtype(ends, target, scale=True)
        assert out.dtype == target
        bits = 8 * target.itemsize - (target not in (torch.uint8, torch.uint16))
        lost = max(0, bits - (8 * source.itemsize - (source not in (torch.uint8, torch.uint16))))
        assert out.tolist() == [0, (2**bits - 1) >> lost << lost]

    @pytest.mark.parametrize("target", [torch.uint8, torch.int8, torch.uint16, torch.int16])
    @pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_floating_point_ends_become_integer_ends(self, source, target):
        out = F.to_dtype(torch.tensor([0.0, 1.0], dtype=source), target, scale=True)
        assert out.tolist() == [0, torch.iinfo(target).max]

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int16])
    def test_integers_survive_floating_point(self, dtype):
        values = torch.arange(0, torch.iinfo(dtype).max + 1).to(dtype)
        there = F.to_dtype(values, torch.float32, scale=True)
        assert torch.equal(F.to_dtype(there, dtype, scale=True).int(), values.int())

    def test_without_scale_values_are_cast(self):
        assert F.to_dtype(torch.tensor([3], dtype=torch.uint8), torch.float32).tolist() == [3.0]
        image = torch.rand(2)
        assert F.to_dtype(image, torch.float32, scale=True) is image

    @pytest.mark.parametrize(("source", "target"), [("float32", "int32"), ("float32", "int64"), ("float64", "int64")])
    def test_conversions_that_cannot_be_exact_are_refused(self, source, target):
        with pytest.raises(RuntimeError, match=f"torch.{source} to torch.{target} cannot be exact"):
            F.to_dtype(torch.rand(2, dtype=getattr(torch, source)), getattr(torch, target), scale=True)

    def test_the_name_of_the_first_generation_scales(self):
        assert F.convert_image_dtype(torch.tensor([255], dtype=torch.uint8)).tolist() == [1.0]
        assert v1.convert_image_dtype(torch.tensor([1.0]), torch.uint8).tolist() == [255]


class TestNormalize:
    MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]

    def test_each_channel_has_its_own_numbers(self):
        image = torch.rand(2, 3, 4, 5)
        expected = (image - torch.tensor(self.MEAN).view(3, 1, 1)) / torch.tensor(self.STD).view(3, 1, 1)
        torch.testing.assert_close(F.normalize(image, self.MEAN, self.STD), expected)
        torch.testing.assert_close(v1.normalize(image, self.MEAN, self.STD), expected)

    def test_the_input_changes_on_request_alone(self):
        image = torch.rand(3, 4, 5)
        before = image.clone()
        out = F.normalize(image, self.MEAN, self.STD)
        assert torch.equal(image, before)
        assert F.normalize(image, self.MEAN, self.STD, inplace=True).data_ptr() == image.data_ptr()
        assert torch.equal(image, out)

    @pytest.mark.parametrize(
        "given",
        [0.5, [0.5], torch.tensor(0.5), torch.full((3,), 0.5), torch.full((3, 1, 1), 0.5), torch.full((3, 4, 5), 0.5)],
        ids=["number", "list", "scalar", "row", "channels", "pixels"],
    )
    def test_statistics_may_be_numbers_or_tensors_that_broadcast(self, given):
        image = torch.rand(2, 3, 4, 5)
        torch.testing.assert_close(F.normalize(image, given, 0.2), (image - 0.5) / 0.2)
        torch.testing.assert_close(F.normalize(image, 0.1, given), (image - 0.1) / 0.5)

    @pytest.mark.parametrize(
        ("image", "std", "error", "message"),
        [
            (
                torch.zeros(3, 2, 2, dtype=torch.uint8),
                [1, 1, 1],
                TypeError,
                "is torch.uint8, expected floating",
            ),
            (torch.zeros(2, 2), [1, 1, 1], ValueError, r"shape \[2, 2\], expected \[..., C, H, W\]"),
            (torch.zeros(3, 2, 2), [1, 0, 1], ValueError, "divided by 0"),
            (torch.zeros(1, 2, 2), [1, 1, 1], ValueError, "give one number, 1 of them"),
        ],
    )
    def test_what_cannot_be_normalized_is_named(self, image, std, error, message):
        with pytest.raises(error, match=message):
            F.normalize(image, self.MEAN, std)


class TestGrayscale:
    def test_weights_are_those_of_bt_601(self):
        red_green_blue = torch.eye(3).reshape(3, 1, 3)
        torch.testing.assert_close(F.rgb_to_grayscale(red_green_blue), torch.tensor([[[0.2989, 0.587, 0.114]]]))

    @pytest.mark.parametrize("channels", [1, 3])
    def test_one_or_three_equal_channels_come_out(self, channels):
        out = F.rgb_to_grayscale(torch.rand(2, 3, 4, 5), num_output_channels=channels)
        assert out.shape == (2, channels, 4, 5)
        assert all(torch.equal(out[:, 0], out[:, c]) for c in range(channels))

    def test_bytes_are_within_one_level_of_pillow(self):
        image = torch.randint(0, 256, (3, 9, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        pil = np.array(F.rgb_to_grayscale(Image.fromarray(image.permute(1, 2, 0).numpy())))
        assert np.abs(F.rgb_to_grayscale(image)[0].numpy().astype(int) - pil.astype(int)).max() <= 1

    def test_gray_stays_as_it_is(self):
        image = torch.rand(1, 4, 4)
        assert torch.equal(F.to_grayscale(image), image)

    def test_other_channels_are_refused(self):
        with pytest.raises(ValueError, match=r"\[..., 1 or 3, H, W\]. Got \[2, 4, 4\]"):
            F.rgb_to_grayscale(torch.rand(2, 4, 4))
        with pytest.raises(ValueError, match="num_output_channels is 2"):
            F.rgb_to_grayscale(torch.rand(3, 4, 4), num_output_channels=2)

    def test_the_first_generation_has_a_function_for_pil_images(self):
        assert v1.to_grayscale(Image.new("RGB", (3, 2)), 3).mode == "RGB"
        with pytest.raises(TypeError, match="use rgb_to_grayscale"):
            v1.to_grayscale(torch.rand(3, 2, 2))


class TestSizes:
    @pytest.mark.parametrize(
        ("image", "expected"),
        [
            (torch.zeros(2, 3, 4, 5), [3, 4, 5]),
            (torch.zeros(4, 5), [1, 4, 5]),
            (tv_tensors.Image(torch.zeros(4, 7, 8)), [4, 7, 8]),
            (Image.new("RGBA", (5, 4)), [4, 4, 5]),
            (Image.new("L", (5, 4)), [1, 4, 5]),
        ],
        ids=["batch", "plane", "Image", "RGBA", "L"],
    )
    def test_channels_height_and_width(self, image, expected):
        assert F.get_dimensions(image) == v1.get_dimensions(image) == expected
        assert F.get_num_channels(image) == v1.get_image_num_channels(image) == expected[0]
        assert F.get_size(image) == expected[1:]
        assert v1.get_image_size(image) == expected[:0:-1]

    def test_a_line_is_no_image(self):
        with pytest.raises(TypeError, match=r"two dimensions.*Got \[5\]"):
            F.get_dimensions(torch.zeros(5))


class TestConversion:
    @pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
    def test_bytes_survive_pil_images(self, mode):
        channels = len(mode)
        image = torch.randint(0, 256, (channels, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
        pil = F.to_pil_image(image)
        assert pil.mode == mode
        assert torch.equal(F.pil_to_tensor(pil), image)
        assert torch.equal(F.pil_to_tensor(F.to_pil_image(image.permute(1, 2, 0).numpy())), image)

    @pytest.mark.parametrize(("dtype", "mode"), [("int32", "I"), ("uint16", "I;16")])
    def test_arrays_of_other_dtypes_have_a_mode(self, dtype, mode):
        array = np.arange(6, dtype=dtype).reshape(2, 3)
        pil = F.to_pil_image(array)
        assert pil.mode == mode
        assert np.array_equal(np.array(pil), array)

    def test_floating_point_tensors_are_scaled_unless_the_mode_is_floating_point(self):
        image = torch.tensor([[0.0, 0.5, 1.0]])
        assert np.array(F.to_pil_image(image)).tolist() == [[0, 127, 255]]
        assert np.array(F.to_pil_image(image, mode="F")).tolist() == [[0.0, 0.5, 1.0]]

    def test_a_mode_of_the_same_layout_relabels_the_bytes(self):
        image = torch.arange(12, dtype=torch.uint8).reshape(3, 2, 2)
        pil = F.to_pil_image(image, mode="YCbCr")
        assert (pil.mode, pil.getpixel((0, 0))) == ("YCbCr", (0, 4, 8))

    @pytest.mark.parametrize(
        ("pic", "mode", "error", "message"),
        [
            ("text", None, TypeError, "pic is a str, expected a tensor or an array"),
            (torch.zeros(1, 1, 2, 2), None, ValueError, "pic has 4 dimensions"),
            (torch.zeros(5, 2, 2, dtype=torch.uint8), None, ValueError, "pic has 5 channels"),
            (np.zeros((2, 2, 3), dtype=np.int32), None, TypeError, "int32 is not supported with 3 channels"),
            (np.zeros((2, 2), dtype=np.complex64), None, TypeError, "complex64 is not supported"),
            (torch.zeros(3, 2, 2), "L", ValueError, "mode is 'L', and 3 channel"),
        ],
    )
    def test_what_is_no_picture_is_named(self, pic, mode, error, message):
        with pytest.raises(error, match=message):
            F.to_pil_image(pic, mode)

    def test_pil_to_tensor_wants_a_pil_image(self):
        with pytest.raises(TypeError, match="pic is a ndarray, expected a PIL image"):
            F.pil_to_tensor(np.zeros((2, 2)))

    def test_to_image_takes_tensors_arrays_and_pil_images(self):
        array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        expected = torch.from_numpy(array).permute(2, 0, 1)
        for value in (expected, array, Image.fromarray(array)):
            image = F.to_image(value)
            assert type(image) is tv_tensors.Image
            assert torch.equal(image, expected)
        assert F.to_image(array[..., 0]).shape == (1, 2, 4)
        with pytest.raises(TypeError, match="inpt is a str"):
            F.to_image("text")

    def test_to_tensor_scales_bytes_and_keeps_the_rest(self):
        array = np.array([[0, 255]], dtype=np.uint8)
        assert v1.to_tensor(array).tolist() == [[[0.0, 1.0]]]
        assert v1.to_tensor(Image.fromarray(array)).tolist() == [[[0.0, 1.0]]]
        assert v1.to_tensor(Image.fromarray(array).convert("1")).tolist() == [[[0.0, 1.0]]]
        assert v1.to_tensor(np.array([[7]], dtype=np.int32)).tolist() == [[[7]]]
        assert v1.to_tensor(np.zeros((2, 3, 4), dtype=np.uint8)).shape == (4, 2, 3)
        with pytest.raises(TypeError):
            v1.to_tensor(torch.zeros(2, 2))
        with pytest.raises(ValueError, match="pic has 1 dimensions"):
            v1.to_tensor(np.zeros(3))
