"""What code written for upstream relies on, and a reimplementation easily gets another way."""

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.vision import transforms, tv_tensors
from flambeau.vision.transforms import v2
from flambeau.vision.transforms.v2 import functional as F

CANVAS = (11, 14)
PICTURE = torch.arange(3 * 11 * 14).remainder(256).to(torch.uint8).reshape(3, 11, 14)
PIL = Image.fromarray(PICTURE.permute(1, 2, 0).numpy())


def boxes(rows, format):
    return tv_tensors.BoundingBoxes(rows, format=format, canvas_size=CANVAS)


class TestPlaces:
    def test_moved_integer_points_are_truncated(self):
        points = tv_tensors.KeyPoints([[9, 8]], canvas_size=CANVAS)
        exact = tv_tensors.KeyPoints([[9.0, 8.0]], canvas_size=CANVAS)
        displacement = torch.full((1, 11, 14, 2), 0.1)
        moves = [
            lambda x: F.rotate(x, 30),
            lambda x: F.affine(x, 20, [2, 1], 0.8, [5, 3]),
            lambda x: F.perspective(x, [[0, 0], [13, 0], [13, 10], [0, 10]], [[1, 2], [12, 1], [11, 9], [2, 8]]),
            lambda x: F.elastic(x, displacement),
        ]
        for move in moves:
            assert move(points).tolist() == move(exact).trunc().tolist()

    def test_moved_integer_boxes_are_truncated_once_in_their_own_format(self):
        for format in ("XYXY", "XYWH", "CXCYWH"):
            rows = [[5, 5, 9, 8]] if format == "XYXY" else [[5, 4, 3, 3]]
            whole = F.rotate(boxes(rows, format), 30)
            exact = F.rotate(boxes(torch.tensor(rows).float(), format), 30)
            assert whole.tolist() == exact.trunc().tolist()

    def test_a_crop_keeps_the_sides_of_centred_integer_boxes(self):
        assert F.crop(boxes([[7, 4, 10, 3]], "CXCYWH"), 0, 0, 11, 14).tolist() == [[7, 4, 10, 3]]
        assert F.vertical_flip(boxes([[7, 4, 10, 3]], "CXCYWH")).tolist() == [[7, 7, 10, 3]]

    def test_quadrilaterals_inside_of_the_picture_stay_as_they_are(self):
        corners = [[2.0, 2.0, 8.0, 3.0, 7.0, 8.0, 1.0, 7.0]]
        assert F.clamp_bounding_boxes(boxes(corners, "XYXYXYXY")).tolist() == corners
        assert F.pad(boxes(corners, "XYXYXYXY"), 2).tolist() == [[value + 2 for value in corners[0]]]

    def test_mirrored_angles_are_those_of_upstream(self):
        row = [[6.0, 4.0, 4.0, 2.0, -15.0]]
        for format in ("XYWHR", "CXCYWHR"):
            assert F.vertical_flip(boxes(row, format))[0, 4] == 195
            assert F.horizontal_flip(boxes(row, format))[0, 4] == 15

    @pytest.mark.parametrize("flip", [F.horizontal_flip, F.vertical_flip])
    def test_a_mirrored_box_covers_the_mirrored_corners(self, flip):
        row = torch.tensor([[6.0, 4.0, 4.0, 2.0, -15.0]])
        corners = F.convert_bounding_box_format(row, "XYWHR", "XYXYXYXY")
        flipped = F.convert_bounding_box_format(flip(boxes(row, "XYWHR")), new_format="XYXYXYXY")
        assert torch.allclose(torch.Tensor(flipped), torch.Tensor(flip(boxes(corners, "XYXYXYXY"))), atol=1e-5)

    @pytest.mark.parametrize("center", [None, [2, 3]])
    def test_an_enlarged_canvas_is_as_large_as_the_picture(self, center):
        turned = F.rotate(boxes([[1.0, 2.0, 9.0, 8.0]], "XYXY"), 30, expand=True, center=center)
        assert turned.canvas_size == tuple(F.rotate(PICTURE, 30, expand=True, center=center).shape[-2:])

    def test_a_scale_that_is_not_positive_is_refused_for_boxes_as_for_pictures(self):
        for sample in (PICTURE, boxes([[1.0, 2.0, 9.0, 8.0]], "XYXY")):
            with pytest.raises(ValueError, match="positive"):
                F.affine(sample, 10, [0, 0], -1.2, [0, 0])

    def test_boxes_that_are_not_clamped_do_not_share_memory(self):
        given = torch.tensor([[-3.0, 2.0, 19.0, 8.0]])
        assert F.clamp_bounding_boxes(given, "XYXY", CANVAS, None).data_ptr() != given.data_ptr()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_masks_of_all_integers_turn_alike(dtype):
    mask = tv_tensors.Mask(PICTURE[0])
    assert torch.equal(F.rotate(mask, 90, fill=3), F.rotate(tv_tensors.Mask(PICTURE[0].to(dtype)), 90, fill=3))


def test_nearest_pixels_of_large_integers_are_exact():
    large = PICTURE.long() + 2**60
    assert torch.equal(F.rotate(large, 30, fill=2**60), F.rotate(PICTURE, 30).long() + 2**60)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_arrays_of_floating_point_become_pictures_of_levels(dtype):
    gray = F.to_pil_image(np.full((4, 4, 1), 0.5, dtype))
    color = F.to_pil_image(np.full((4, 4, 3), 0.5, dtype))
    assert (gray.mode, gray.getpixel((0, 0))) == ("L", 127)
    assert (color.mode, color.getpixel((0, 0))) == ("RGB", (127, 127, 127))


def test_mode_f_keeps_floating_point_and_other_modes_must_fit():
    assert F.to_pil_image(np.full((4, 4), 0.5, "float32"), mode="F").getpixel((0, 0)) == 0.5
    with pytest.raises(ValueError, match="one channel of int64"):
        F.to_pil_image(torch.zeros(4, 4, dtype=torch.int64), mode="RGB")
    assert F.to_pil_image(torch.ones(3, 4, 4, dtype=torch.bool), mode="RGB").getpixel((0, 0)) == (1, 1, 1)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_pil_pictures_take_negative_factors_and_tensors_do_not(name):
    adjust = getattr(F, f"adjust_{name}")
    assert adjust(PIL, -1.0).size == PIL.size
    with pytest.raises(ValueError, match="not negative"):
        adjust(PICTURE, -1.0)


def test_a_function_of_ones_own_sees_every_leaf():
    assert v2.Lambda(lambda leaf: type(leaf).__name__)(["name", 3, PICTURE]) == ["str", "int", "Tensor"]
    assert v2.Lambda(str, int)(["name", 3]) == ["name", "3"]


def test_frames_are_taken_of_videos_alone():
    video = tv_tensors.Video(torch.arange(4).reshape(4, 1, 1, 1))
    image = tv_tensors.Image(PICTURE)
    frames, same, picture = v2.UniformTemporalSubsample(2)([video, image, PIL])
    assert frames.flatten().tolist() == [0, 3]
    assert same is image
    assert picture is PIL


def test_crops_leave_key_points():
    points = tv_tensors.KeyPoints([[1, 2]], canvas_size=CANVAS)
    crops, same = v2.FiveCrop(4)([tv_tensors.Image(PICTURE), points])
    assert len(crops) == 5
    assert same is points


def test_noise_refuses_what_it_has_no_scale_for():
    for sample in (PIL, PICTURE.short(), PICTURE.bool()):
        with pytest.raises(ValueError, match="gaussian_noise"):
            v2.GaussianNoise()(sample)


def test_converting_the_dtype_reaches_every_tensor_type():
    given = [tv_tensors.Video(PICTURE[None]), tv_tensors.Mask(PICTURE), boxes([[1, 2, 3, 4]], "XYXY")]
    video, mask, box = v2.ConvertImageDtype(torch.float32)(given)
    assert {value.dtype for value in (video, mask, box)} == {torch.float32}
    assert video.max() <= 1
    assert torch.equal(mask, PICTURE.float())
    assert box.tolist() == [[1, 2, 3, 4]]


def test_converting_the_dtype_passes_over_pil_pictures():
    assert v2.ConvertImageDtype(torch.float32)(PIL) is PIL
    with pytest.raises(TypeError, match="PILToTensor"):
        transforms.ConvertImageDtype(torch.float32)(PIL)


def test_whitening_computes_in_the_dtype_of_the_picture():
    matrix, mean = torch.eye(12), torch.zeros(12)
    for transform in (transforms.LinearTransformation(matrix, mean), v2.LinearTransformation(matrix, mean)):
        assert transform(torch.rand(3, 2, 2, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_resizing_keeps_the_order_in_memory(mode, dtype):
    batch = torch.rand(2, 3, 11, 14).mul(255).to(dtype).contiguous(memory_format=torch.channels_last)
    assert F.resize(batch, [5, 6], mode).is_contiguous(memory_format=torch.channels_last)
    assert F.resize(batch[:1], [5, 6], mode).is_contiguous(memory_format=torch.channels_last)
    assert F.resize(batch[0], [5, 6], mode).permute(1, 2, 0).is_contiguous()


@pytest.mark.parametrize("make", [transforms.Pad, v2.Pad])
def test_a_padding_that_is_no_whole_number_is_named(make):
    with pytest.raises(TypeError, match=r"12\.0"):
        make(12.0)


@pytest.mark.parametrize("num_ops", [-1, 1.5])
def test_a_number_of_operations_that_is_none_is_refused(num_ops):
    with pytest.raises(ValueError, match="num_ops"):
        v2.RandAugment(num_ops=num_ops)


def test_a_call_without_a_sample_says_so():
    with pytest.raises(TypeError, match="without a sample"):
        v2.Resize(4)()


def test_a_picture_through_jpeg_is_a_plain_picture():
    assert type(v2.JPEG(50)(PIL)) is Image.Image


def test_bool_has_no_bits_to_drop():
    with pytest.raises(TypeError, match=r"torch\.bool"):
        F.posterize(PICTURE > 9, 3)


def test_wide_integers_give_what_narrow_ones_give():
    assert torch.equal(F.adjust_brightness(PICTURE.long(), 1.4).clamp(max=255), F.adjust_brightness(PICTURE, 1.4))


def test_gray_of_gray_is_a_copy():
    gray = PICTURE[:1]
    assert F.rgb_to_grayscale(gray).data_ptr() != gray.data_ptr()
    assert torch.equal(F.rgb_to_grayscale(gray), gray)


def test_first_generation_grayscale_takes_videos():
    gray = transforms.Grayscale()(tv_tensors.Video(PICTURE[None]))
    assert torch.equal(gray[0], F.rgb_to_grayscale(PICTURE))


def test_types_are_kept_by_functions_of_lists_and_by_what_has_several_results():
    image = tv_tensors.Image(PICTURE)
    with tv_tensors.set_return_type("TVTensor"):
        results = [torch.stack([image, image]), torch.cat([image, image]), torch.ones(3, 11, 14) + image]
        results += [image.max(0).values, image.max(0)[1]]
    assert {type(value) for value in results} == {tv_tensors.Image}
    assert type(torch.stack([image, image])) is torch.Tensor


def test_tensors_of_pil_pictures_lie_in_memory_plane_by_plane():
    assert transforms.ToTensor()(PIL).view(-1).tolist() == (PICTURE / 255).flatten().tolist()
