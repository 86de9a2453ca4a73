"""Datasets of optical flow and stereo matching, and their file formats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from flambeau.core.errors import DatasetMissingError
from flambeau.vision._miniatures.files import picture
from flambeau.vision._miniatures.motion import flo, pfm, wide_png
from flambeau.vision.datasets._flow_files import FlowFileError, read_disparity_png, read_flo, read_flow_png, read_pfm

SHAPES = st.tuples(st.integers(1, 7), st.integers(1, 7))


@given(shape=SHAPES, seed=st.integers(0, 99))
def test_flo_gives_back_what_was_written(tmp_path_factory, shape, seed):
    path = tmp_path_factory.mktemp("flo") / "a.flo"
    flow = np.random.default_rng(seed).normal(size=(2, *shape)).astype(np.float32)
    flo(path, flow)
    assert np.array_equal(read_flo(path), flow)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pfm_gives_back_what_was_written_in_either_byte_order(tmp_path, order, channels):
    values = np.arange(channels * 20, dtype=np.float32).reshape(channels, 4, 5)
    pfm(tmp_path / "a.pfm", values, order=order)
    assert np.array_equal(read_pfm(tmp_path / "a.pfm"), values)


def test_flow_in_a_wide_png_is_scaled_and_has_validity(tmp_path):
    pixels = np.array([[[2**15 + 64, 2**15 - 32, 1], [0, 65535, 0]]], np.uint16)
    wide_png(tmp_path / "a.png", pixels)
    flow, valid = read_flow_png(tmp_path / "a.png")
    assert flow.tolist() == [[[1.0, -512.0]], [[-0.5, 511.984375]]]
    assert valid.tolist() == [[True, False]]
    assert (flow.dtype, valid.dtype) == (np.float32, np.bool_)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_flo, b"", "starts with b''"),
        (read_flo, b"PIEX\1\0\0\0\1\0\0\0" + bytes(8), "starts with b'PIEX'"),
        (read_flo, b"PIEH\1\0\0\0\1\0\0\0" + bytes(7), "19 bytes, which is not what 1 x 1"),
        (read_flo, b"PIEH\xff\xff\xff\xff\xff\xff\xff\xff" + bytes(8), "not what -1 x -1"),
        (read_pfm, b"P6\n1 1\n255\nabc", "no head of a .pfm"),
        (read_pfm, b"Pf\n2 2\n-1\n" + bytes(15), "15 bytes after its head, which is not what 1 x 2 x 2"),
        (read_pfm, b"PF\n999999999 999999999\n-1\n", "0 bytes after its head"),
    ],
)
def test_files_that_are_not_whole_are_refused_before_anything_is_allocated(tmp_path, read, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FlowFileError, match=message):
        read(tmp_path / "a")


def test_a_png_of_8_bits_is_no_flow(tmp_path):
    with pytest.raises(FlowFileError, match="3 channels of uint8, expected 3 of uint16"):
        read_flow_png(picture(tmp_path / "a.png"))


FLOWS = [
    ("sintel", {}, 3, True),
    ("sintel", {"pass_name": "both"}, 6, True),
    ("sintel", {"split": "test"}, 2, False),
    ("kittiflow", {}, 2, True),
    ("kittiflow", {"split": "test"}, 2, False),
    ("flyingchairs", {}, 2, True),
    ("flyingchairs", {"split": "val"}, 1, True),
    ("flyingthings3d", {}, 4, True),
    ("flyingthings3d", {"split": "test", "pass_name": "both", "camera": "both"}, 16, True),
    ("hd1k", {}, 3, True),
    ("hd1k", {"split": "test"}, 1, False),
]


@pytest.mark.parametrize(("name", "options", "items", "known"), FLOWS)
def test_flow_belongs_to_pairs_of_pictures(miniature, name, options, items, known):
    dataset = miniature(name).build(**options)
    assert len(dataset) == items
    for item in dataset:
        assert len(item) == (4 if name in ("kittiflow", "hd1k") else 3)
        assert (item[2] is not None) == known
        assert item[2] is None or (item[2].shape, item[2].dtype) == ((2, 8, 12), np.float32)


def test_pairs_do_not_cross_scenes(miniature):
    dataset = miniature("sintel").dataset
    scenes = [[path.split("/")[-2] for path in pair] for pair in dataset._image_list]
    assert scenes == [["alley_1"] * 2, ["alley_1"] * 2, ["ambush_2"] * 2]
    flows = [path.split("/")[-2:] for path in dataset._flow_list]
    assert flows == [["alley_1", "frame_0001.flo"], ["alley_1", "frame_0002.flo"], ["ambush_2", "frame_0001.flo"]]


def test_flow_back_in_time_starts_from_the_later_picture(miniature):
    dataset = miniature("flyingthings3d").dataset
    pairs = [[path[-8:-4] for path in pair] for pair in dataset._image_list]
    assert pairs == [["0006", "0007"], ["0007", "0008"], ["0007", "0006"], ["0008", "0007"]]
    numbers = [path.split("_")[-2] for path in dataset._flow_list]
    assert numbers == ["0006", "0007", "0007", "0008"]
    assert "into_past" in dataset._flow_list[2]


def test_transforms_get_four_parts_and_may_add_validity(miniature):
    seen = []

    def transforms(first, second, flow, valid):
        seen.append(valid)
        return first, second, flow, flow[0] > 0

    item = miniature("flyingchairs").build(transforms=transforms)[0]
    assert len(item) == 4
    assert seen == [None]


def test_a_dataset_is_repeated_by_a_factor(miniature):
    assert len(3 * miniature("flyingchairs").dataset) == 6


STEREOS = [
    ("kitti2012stereo", {}, 2, 4),
    ("kitti2012stereo", {"split": "test"}, 2, 4),
    ("kitti2015stereo", {}, 2, 4),
    ("carlastereo", {}, 2, 3),
    ("middlebury2014stereo", {}, 2, 4),
    ("middlebury2014stereo", {"calibration": "both"}, 3, 4),
    ("middlebury2014stereo", {"split": "test", "calibration": None}, 1, 4),
    ("crestereo", {}, 4, 4),
    ("fallingthingsstereo", {}, 2, 3),
    ("fallingthingsstereo", {"variant": "both"}, 4, 3),
    ("sceneflowstereo", {"variant": "Monkaa"}, 2, 3),
    ("sceneflowstereo", {"variant": "Driving", "pass_name": "both"}, 4, 3),
    ("sintelstereo", {"pass_name": "both"}, 4, 4),
    ("instereo2k", {"split": "test"}, 2, 3),
    ("eth3dstereo", {}, 2, 4),
    ("eth3dstereo", {"split": "test"}, 2, 4),
]


@pytest.mark.parametrize(("name", "options", "items", "parts"), STEREOS)
def test_disparity_belongs_to_pairs_of_pictures(miniature, name, options, items, parts):
    dataset = miniature(name).build(**options)
    assert len(dataset) == items
    for item in dataset:
        assert len(item) == parts
        if options.get("split") == "test" and name != "instereo2k":
            assert item[2] is None
        else:
            assert (item[2].shape, item[2].dtype) == ((1, 8, 12), np.float32)
            assert item[2].min() >= 0


@pytest.mark.parametrize(
    ("name", "path", "scale"),
    [
        ("kitti2012stereo", "Kitti2012/training/disp_noc/000000_10.png", 256),
        ("kitti2015stereo", "Kitti2015/training/disp_occ_0/000000_10.png", 256),
        ("crestereo", "CREStereo/shapenet/0_left.disp.png", 32),
        ("instereo2k", "InStereo2k/train/000001/left_disp.png", 1024),
    ],
)
def test_disparity_in_a_png_is_scaled(miniature, name, path, scale):
    stereo = miniature(name)
    disparity = stereo.dataset[0][2]
    assert np.array_equal(disparity, read_disparity_png(stereo.placed / path, 1) / scale)


def test_falling_things_turn_depth_into_disparity(miniature):
    things = miniature("fallingthingsstereo")
    disparity = things.dataset[0][2]
    depth = read_disparity_png(things.placed / "FallingThings/single/002_can/kitchen_0/000000.left.depth.png", 1)
    assert np.allclose(disparity, 6 * 768.0 * 100 / depth)


def test_sintel_codes_disparity_in_colours_and_hides_by_two_masks(miniature):
    stereo = miniature("sintelstereo")
    _, _, disparity, valid = stereo.dataset[0]
    base = stereo.placed / "Sintel" / "training"
    colours, *masks = (
        np.asarray(Image.open(base / name / "alley_1" / "frame_0001.png"))
        for name in ("disparities", "occlusions", "outofframe")
    )
    red, green, blue = (int(value) for value in colours[2, 3])
    assert disparity[0, 2, 3] == np.float32(4 * red + green / 64 + blue / 16384)
    assert np.array_equal(valid, (masks[0] == 0) & (masks[1] == 0))
    assert 0 < valid.sum() < valid.size


def test_middlebury_marks_infinite_disparity_as_unknown(miniature):
    _, _, disparity, valid = miniature("middlebury2014stereo").dataset[0]
    assert disparity[0, 0, :3].tolist() == [0, 2.5, 0]
    assert valid[0, :3].tolist() == [False, True, False]


def test_middlebury_can_show_other_views_on_the_right(miniature):
    middlebury = miniature("middlebury2014stereo")
    dataset = middlebury.build(use_ambient_views=True)
    plain = np.asarray(middlebury.dataset[0][1])
    assert any(not np.array_equal(np.asarray(dataset[0][1]), plain) for _ in range(40))
    assert all(np.array_equal(np.asarray(dataset[0][0]), np.asarray(middlebury.dataset[0][0])) for _ in range(5))


@pytest.mark.parametrize(("split", "calibration"), [("train", None), ("test", "perfect"), ("additional", "good")])
def test_middlebury_refuses_calibrations_a_split_has_not(miniature, split, calibration):
    with pytest.raises(ValueError, match=r"calibration is .*, expected"):
        miniature("middlebury2014stereo").build(split=split, calibration=calibration)


@pytest.mark.parametrize("name", sorted({name for name, *_ in [*FLOWS, *STEREOS]} - {"middlebury2014stereo"}))
def test_a_missing_folder_is_named_with_where_to_get_it(tmp_path, miniature, name):
    with pytest.raises(DatasetMissingError, match=rf"{tmp_path}.*missing.*obtain it from http"):
        miniature(name).target(tmp_path)


def test_disparities_that_do_not_go_with_the_pictures_are_noticed(miniature):
    stereo = miniature("eth3dstereo")
    _ = stereo.dataset
    (stereo.placed / "ETH3D" / "two_view_training_gt" / "forest_1s" / "disp0GT.pfm").unlink()
    with pytest.raises(ValueError, match="2 left pictures but 1 of what belongs"):
        stereo.build()
