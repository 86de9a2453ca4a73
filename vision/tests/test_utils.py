"""Pictures of tensors: grids, boxes, masks, key points and flow, drawn where they should be and nowhere else."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.vision.utils import (
    draw_bounding_boxes,
    draw_keypoints,
    draw_segmentation_masks,
    flow_to_image,
    make_grid,
    save_image,
)

RED, BLUE = (255, 0, 0), (0, 0, 255)


def blank(channels: int = 3, height: int = 40, width: int = 60, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.full((channels, height, width), 90 if dtype == torch.uint8 else 0.35, dtype=dtype)


def at(image: torch.Tensor, x: int, y: int) -> tuple[int, ...]:
    return tuple(image[:, y, x].tolist())


# --- grids ---


def test_a_grid_puts_images_in_rows_with_padding_round_each():
    images = torch.arange(1.0, 6).view(5, 1, 1, 1).expand(5, 3, 2, 4)
    grid = make_grid(images, nrow=3, padding=1, pad_value=9)
    assert grid.shape == (3, 7, 16)
    expected = torch.tensor([9, *[1] * 4, 9, *[2] * 4, 9, *[3] * 4, 9.0])
    assert torch.equal(grid[0, 1], expected)
    assert grid[0, 4].tolist() == [9, *[4] * 4, 9, *[5] * 4, *[9] * 6]


@pytest.mark.parametrize(
    "images",
    [torch.rand(6, 7), torch.rand(1, 6, 7), torch.rand(3, 6, 7), [torch.rand(3, 6, 7)], torch.rand(1, 1, 6, 7)],
)
def test_a_single_image_comes_without_padding_and_as_a_copy(images):
    grid = make_grid(images)
    assert grid.shape == (3, 6, 7)
    grid.zero_()
    assert (images[0] if isinstance(images, list) else images).any()


def test_normalizing_maps_the_range_of_all_or_of_each_to_0_and_1():
    images = torch.stack([torch.full((3, 2, 2), 2.0), torch.full((3, 2, 2), 4.0)])
    images[:, :, 0, 0] = 0
    together = make_grid(images, normalize=True, padding=0)
    assert together[0].tolist() == [[0, 0.5, 0, 1], [0.5, 0.5, 1, 1]]
    assert make_grid(images, normalize=True, scale_each=True, padding=0)[0].tolist() == [[0, 1, 0, 1], [1, 1, 1, 1]]
    assert make_grid(images, normalize=True, value_range=(0, 8), padding=0)[0, 1].tolist() == [0.25, 0.25, 0.5, 0.5]
    assert images.max() == 4


@pytest.mark.parametrize(
    ("images", "options", "error", "message"),
    [
        ("picture", {}, TypeError, "expected images as one tensor or as a list"),
        ([1, 2], {}, TypeError, "expected images as one tensor or as a list"),
        ([], {}, ValueError, "at least one"),
        ([torch.ones(3, 2, 2), torch.ones(3, 2, 3)], {}, ValueError, "all of one shape"),
        (torch.ones(0, 3, 2, 2), {}, ValueError, "none of them 0"),
        (torch.ones(2, 3, 2, 2), {"nrow": 0}, ValueError, "nrow is 0"),
        (
            torch.ones(2, 3, 2, 2),
            {"normalize": True, "value_range": [0, 1]},
            TypeError,
            "a tuple of two numbers",
        ),
        (torch.ones(2, 3, 2, 2, dtype=torch.uint8), {"normalize": True}, TypeError, "floating point"),
    ],
)
def test_what_is_no_list_of_images_is_refused(images, options, error, message):
    with pytest.raises(error, match=message):
        make_grid(images, **options)


def test_a_saved_image_is_rounded_and_clamped(tmp_path):
    image = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0]).expand(3, 1, 5)
    save_image(image, tmp_path / "row.png")
    assert [pixel[0] for pixel in np.asarray(Image.open(tmp_path / "row.png"))[0].tolist()] == [
        0,
        0,
        128,
        255,
        255,
    ]
    buffer = io.BytesIO()
    save_image([image, image], buffer, format="png", padding=0)
    assert Image.open(buffer).size == (10, 1)


def test_a_saved_image_of_8_bits_stays_as_it_is(tmp_path):
    image = torch.arange(48, dtype=torch.uint8).reshape(3, 4, 4) * 5
    save_image(image, tmp_path / "a.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), image.permute(1, 2, 0).numpy())
    with pytest.raises(TypeError, match=r"torch\.int64"):
        save_image(image.long(), tmp_path / "b.png")


# --- boxes ---


@pytest.mark.parametrize("color", ["red", "#ff0000", RED, ["red"], [RED]])
def test_a_box_is_a_line_of_its_colour_and_leaves_the_inside(color):
    image = blank()
    drawn = draw_bounding_boxes(image, torch.tensor([[10, 5, 50, 30]]), colors=color, width=2)
    assert at(drawn, 10, 5) == at(drawn, 50, 30) == at(drawn, 11, 20) == RED
    assert at(drawn, 12, 20) == at(drawn, 51, 20) == (90, 90, 90)
    assert torch.equal(image, blank())


def test_a_filled_box_lets_the_image_shine_through():
    drawn = draw_bounding_boxes(blank(), torch.tensor([[10, 5, 50, 30]]), colors="red", fill=True)
    assert at(drawn, 30, 20) == tuple(round(90 + (value - 90) * 100 / 255) for value in RED)


def test_the_first_edge_of_a_rotated_box_is_dashed():
    box = torch.tensor([[10, 10, 50, 10, 50, 30, 10, 30]])
    drawn = draw_bounding_boxes(blank(), box, colors="red")
    first, third = (drawn[0, y, 11:50] == 255 for y in (10, 30))
    assert third.all()
    assert 0.4 < first.float().mean() < 0.7
    assert (drawn[0, 11:30, 10] == 255).all()


def test_a_label_is_written_inside_the_box_on_a_background_if_asked_for():
    box = torch.tensor([[5, 5, 55, 35]])
    plain = draw_bounding_boxes(blank(), box, colors="red")
    written = draw_bounding_boxes(blank(), box, labels=["cat"], colors="red")
    changed = (plain != written).any(0).nonzero()
    assert changed.min() > 5
    assert written[0, changed[:, 0], changed[:, 1]].max() > 240  # letters have soft edges
    on_blue = draw_bounding_boxes(
        blank(), box, labels=["cat"], colors="red", label_colors="white", label_background_colors="blue",
        fill_labels=True,
    )  # fmt: skip
    colours = {tuple(pixel) for pixel in on_blue.flatten(1).T.tolist()}
    assert colours >= {BLUE, RED}
    assert max(map(min, colours)) > 200
    assert torch.equal(draw_bounding_boxes(blank(), box, labels=[None], colors="red"), plain)


def test_gray_images_become_rgb_and_floats_keep_what_is_not_drawn_on():
    box = torch.tensor([[10, 5, 50, 30]])
    assert draw_bounding_boxes(blank(1), box, colors="red").shape == (3, 40, 60)
    drawn = draw_bounding_boxes(blank(dtype=torch.float32), box, colors="red")
    assert at(drawn, 10, 5) == (1, 0, 0)
    assert at(drawn, 30, 20) == at(blank(dtype=torch.float32), 30, 20)


def test_no_boxes_draw_nothing_and_warn():
    with pytest.warns(UserWarning, match="boxes doesn't contain any box"):
        assert torch.equal(draw_bounding_boxes(blank(), torch.empty(0, 4)), blank())


def written(text: str, **options) -> torch.Tensor:
    """The pixels of a label in a corner of a large image."""
    image = torch.zeros(3, 400, 400, dtype=torch.uint8)
    box = torch.tensor([[0, 0, 399, 399]])
    return draw_bounding_boxes(image, box, labels=[text], colors="white", width=0, **options)[0, 1:-1, 1:-1]


def height(pixels: torch.Tensor) -> int:
    rows = pixels.any(1).nonzero()
    return int(rows.max() - rows.min()) + 1


@pytest.mark.parametrize("pair", ["éè", "ñň", "őö", "ΩΨ", "ЖЩ", "ớợ"])
def test_labels_have_accents_and_other_alphabets_without_a_font_of_ones_own(pair):
    first, second = (written(letter) for letter in pair)
    assert first.any()
    assert not torch.equal(first, second)  # both would be the same box if the font lacked them


def test_labels_grow_with_the_image_or_have_the_size_that_is_asked_for():
    large = draw_bounding_boxes(
        torch.zeros(3, 1600, 1600, dtype=torch.uint8),
        torch.tensor([[0, 0, 1599, 1599]]), labels=["H"], colors="white", width=0,
    )[0, 1:-1, 1:-1]  # fmt: skip
    assert height(written("H")) >= 9
    assert height(large) > 3 * height(written("H"))
    assert height(written("H", font_size=40)) > 2 * height(written("H", font_size=15))


@pytest.mark.parametrize("level", [0, 255])
def test_the_first_default_colour_is_seen_on_dark_and_on_light(level):
    image = torch.full((3, 40, 60), level, dtype=torch.uint8)
    masked = draw_segmentation_masks(image, torch.ones(40, 60, dtype=torch.bool))
    for drawn in (at(draw_bounding_boxes(image, BOX), 10, 5), at(masked, 1, 1)):
        assert max(abs(value - level) for value in drawn) > 100


BOX = torch.tensor([[10, 5, 50, 30]])


@pytest.mark.parametrize(
    ("image", "boxes", "options", "error", "message"),
    [
        ("picture", BOX, {}, TypeError, "image is a str, expected a tensor"),
        (blank().int(), BOX, {}, ValueError, "image is torch.int32, expected uint8 or floating point"),
        (blank()[None], BOX, {}, ValueError, "draw on one at a time"),
        (blank(4), BOX, {}, ValueError, "image has 4 channels"),
        (blank(), BOX.flip(1), {}, ValueError, r"\(xmin, ymin, xmax, ymax\)"),
        (blank(), BOX.tolist(), {}, TypeError, "boxes is a list"),
        (blank(), BOX[:, :3], {}, ValueError, r"expected \[N, 4\]"),
        (blank(), BOX * float("nan"), {}, ValueError, "not-a-number"),
        (blank(), BOX * 1_000_000, {}, ValueError, "beyond 1,000,000"),
        (blank(), BOX, {"labels": ["a", "b"]}, ValueError, "1 boxes and 2 labels"),
        (blank(), BOX, {"colors": []}, ValueError, "0 entries for 1 things"),
        (blank(), BOX, {"colors": (1, 2, 300)}, ValueError, "each from 0 to 255"),
        (blank(), BOX, {"colors": "no colour"}, ValueError, "no colour"),
        (blank(), BOX, {"colors": 7}, ValueError, "colors is a int, expected a name"),
    ],
)
def test_what_cannot_be_drawn_is_an_error_that_names_it(image, boxes, options, error, message):
    with pytest.raises(error, match=message):
        draw_bounding_boxes(image, boxes, **options)


# --- masks ---


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_masks_are_mixed_in_overlaps_with_black_and_the_rest_stays(dtype):
    masks = torch.zeros(2, 40, 60, dtype=torch.bool)
    masks[0, :, :30] = masks[1, 20:] = True
    drawn = draw_segmentation_masks(blank(dtype=dtype), masks, alpha=0.5, colors=["red", "blue"])
    assert drawn.dtype == dtype
    below, top = (90, 255) if dtype == torch.uint8 else (0.35, 1)
    assert at(drawn, 5, 5) == pytest.approx(((below + top) / 2, below / 2, below / 2), abs=0.5 if top == 255 else 1e-6)
    assert at(drawn, 5, 30) == pytest.approx((below / 2,) * 3)
    assert at(drawn, 50, 5) == pytest.approx((below,) * 3)


def test_one_mask_needs_no_first_dimension():
    mask = torch.rand(40, 60) > 0.5
    assert torch.equal(draw_segmentation_masks(blank(), mask), draw_segmentation_masks(blank(), mask[None]))


def test_no_masks_draw_nothing_and_warn():
    with pytest.warns(UserWarning, match="masks doesn't contain any mask"):
        draw_segmentation_masks(blank(), torch.zeros(0, 40, 60, dtype=torch.bool))


@pytest.mark.parametrize(
    ("image", "masks", "options", "message"),
    [
        (blank(1), torch.ones(40, 60).bool(), {}, "RGB image"),
        (blank(), torch.ones(40, 60), {}, "expected bool"),
        (blank(), torch.ones(40, 50).bool(), {}, "resize one to the other"),
        (blank(), torch.ones(1, 1, 40, 60).bool(), {}, r"expected \[H, W\] or \[N, H, W\]"),
        (blank(), torch.ones(40, 60).bool(), {"alpha": 2}, "between 0 and 1"),
    ],
)
def test_masks_that_do_not_fit_are_refused(image, masks, options, message):
    with pytest.raises(ValueError, match=message):
        draw_segmentation_masks(image, masks, **options)


# --- key points ---

POINTS = torch.tensor([[[10, 10], [50, 10], [30, 30]]])


def test_key_points_are_dots_and_connections_lines():
    drawn = draw_keypoints(blank(), POINTS, connectivity=[(0, 1)], colors="red", radius=3, width=1)
    assert at(drawn, 30, 30) == at(drawn, 32, 30) == RED
    assert at(drawn, 30, 10) == (255, 255, 255)
    assert at(drawn, 20, 20) == (90, 90, 90)


@pytest.mark.parametrize("visibility", [torch.tensor([[1, 0, 1]]), torch.tensor([[[True], [False], [True]]])])
def test_hidden_points_and_their_lines_are_left_out(visibility):
    drawn = draw_keypoints(blank(), POINTS, connectivity=[(0, 1), (0, 2)], visibility=visibility, colors="red")
    assert at(drawn, 50, 10) == at(drawn, 30, 10) == (90, 90, 90)
    assert at(drawn, 20, 20) == (255, 255, 255)


def test_points_are_white_without_a_colour_and_unknown_ones_are_not_drawn():
    assert at(draw_keypoints(blank(), POINTS), 30, 30) == (255, 255, 255)
    assert torch.equal(draw_keypoints(blank(), POINTS * float("nan")), blank())


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (POINTS[0], {}, r"expected \[instances, K, 2\]"),
        (POINTS, {"visibility": torch.ones(1, 2)}, "one truth value for each point"),
        (POINTS, {"connectivity": [(0, 3)]}, "there are 3 points"),
        (POINTS, {"colors": ["red", "blue"]}, "expected a name"),
    ],
)
def test_key_points_that_do_not_fit_are_refused(points, options, message):
    with pytest.raises((ValueError, IndexError, TypeError), match=message):
        draw_keypoints(blank(), points, **options)


# --- flow ---


def test_flow_shows_direction_as_hue_and_length_as_saturation():
    flow = torch.tensor([[-1.0, 0.0], [0.0, 0.0], [-0.5, 0.0], [1.0, 0.0]]).T.reshape(2, 1, 4)
    image = flow_to_image(flow)
    assert image.dtype == torch.uint8
    left, still, half_left, right = image[:, 0].T.tolist()
    assert still == [255, 255, 255]
    assert [a - b for a, b in zip(half_left, left, strict=True)] == pytest.approx(
        [(255 - value) / 2 for value in left], abs=1
    )
    assert left != right


def test_a_batch_of_flows_shares_the_longest_one():
    flow = torch.rand(2, 2, 5, 6)
    together = flow_to_image(flow)
    assert together.shape == (2, 3, 5, 6)
    longer = int(flow.square().sum(1).amax((1, 2)).argmax())
    assert torch.equal(flow_to_image(flow[longer]), together[longer])
    assert torch.equal(flow_to_image(torch.zeros(2, 3, 3)), torch.full((3, 3, 3), 255, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (torch.zeros(2, 3, 3, dtype=torch.int64), "is torch.int64, expected a tensor of floating point"),
        (torch.zeros(3, 3, 3), r"expected \[2, H, W\]"),
    ],
)
def test_what_is_no_flow_is_refused(flow, message):
    with pytest.raises(ValueError, match=message):
        flow_to_image(flow)
