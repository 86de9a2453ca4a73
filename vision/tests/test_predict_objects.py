"""`flambeau predict` on pictures, for detectors and segmentation: rows, and the picture of an answer."""

from pathlib import Path

import pytest
import torch
from torch import nn

from flambeau.core.errors import PredictError
from flambeau.core.predict import PredictOptions, plan
from flambeau.vision.io import decode_image, write_png
from flambeau.vision.models.detection import (
    FasterRCNN_ResNet50_FPN_Weights,
    KeypointRCNN_ResNet50_FPN_Weights,
    MaskRCNN_ResNet50_FPN_Weights,
)
from flambeau.vision.models.segmentation import LRASPP_MobileNet_V3_Large_Weights
from flambeau.vision.predict import detect_objects, segment_image

HEIGHT, WIDTH = 240, 400


class Detector(nn.Module):
    """Finds a cat on the left and a dog on the right of every picture."""

    def __init__(self, **more):
        super().__init__()
        self.more = more

    def forward(self, images):
        height, width = images[0].shape[-2:]
        boxes = torch.tensor([[0.1, 0.2, 0.4, 0.8], [0.5, 0.0, 0.9, 1.0]]) * torch.tensor([width, height] * 2)
        found = {"boxes": boxes, "labels": torch.tensor([17, 18]), "scores": torch.tensor([0.9, 0.6]), **self.more}
        return [found]


class NothingThere(nn.Module):
    def forward(self, images):
        return [{"boxes": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.int64), "scores": torch.empty(0)}]


class Halves(nn.Module):
    """Sees background on the left half of a picture, and a boat on the right quarter."""

    def forward(self, batch):
        logits = torch.zeros(1, 21, *batch.shape[-2:])
        logits[:, 0] = 1.0
        logits[:, 4, :, 3 * batch.shape[-1] // 4 :] = 2.0
        return {"out": logits}


@pytest.fixture
def photograph(tmp_path) -> Path:
    write_png(torch.full((3, HEIGHT, WIDTH), 128, dtype=torch.uint8), tmp_path / "photo.png")
    return tmp_path / "photo.png"


def ask(predictor, source, model, weights, top=5):
    options = {"device": torch.device("cpu"), "dtype": torch.float32, "options": PredictOptions(top=top)}
    return predictor(str(source), model=model, weights=weights, **options)


def test_objects_are_named_with_their_boxes_in_the_picture(photograph):
    prediction = ask(detect_objects, photograph, Detector(), FasterRCNN_ResNet50_FPN_Weights.DEFAULT)
    assert prediction.rows[0] == {"class": "cat", "probability": pytest.approx(0.9), "box": [40.0, 48.0, 160.0, 192.0]}
    assert [row["class"] for row in prediction.rows] == ["cat", "dog"]
    assert prediction.title == "photo.png, seen by FasterRCNN_ResNet50_FPN_Weights.COCO_V1"


def test_no_more_objects_are_named_than_asked_for(photograph):
    assert len(ask(detect_objects, photograph, Detector(), FasterRCNN_ResNet50_FPN_Weights.DEFAULT, top=1).rows) == 1


def test_boxes_are_drawn_and_the_rest_of_the_picture_stays(photograph, tmp_path):
    ask(detect_objects, photograph, Detector(), FasterRCNN_ResNet50_FPN_Weights.DEFAULT).draw(tmp_path / "out.png")
    drawn = decode_image(tmp_path / "out.png").int()
    assert drawn.shape == (3, HEIGHT, WIDTH)
    changed = (drawn != 128).any(0)
    assert changed[48:190, 40].all()  # the left side of the cat's box
    assert not changed[100:180, 60:150].any()  # its inside
    assert not changed[:, 380:].any()


def test_masks_and_keypoints_are_drawn_where_a_model_finds_them(photograph, tmp_path):
    masks = torch.zeros(2, 1, HEIGHT, WIDTH)
    masks[0, 0, 100:150, 60:120] = 1.0
    weights = MaskRCNN_ResNet50_FPN_Weights.DEFAULT
    ask(detect_objects, photograph, Detector(masks=masks), weights).draw(tmp_path / "masks.png")
    drawn = decode_image(tmp_path / "masks.png").int()
    assert (drawn[:, 101:149, 61:119] != 128).any(0).all()
    assert (drawn[:, 155:180, 61:119] == 128).all()
    points = torch.tensor([[[100.0, 120.0, 1.0]], [[300.0, 120.0, 1.0]]])
    found = Detector(keypoints=points, keypoints_scores=torch.ones(2, 1), labels=torch.tensor([1, 1]))
    ask(detect_objects, photograph, found, KeypointRCNN_ResNet50_FPN_Weights.DEFAULT).draw(tmp_path / "points.png")
    assert decode_image(tmp_path / "points.png")[:, 120, 100].tolist() == [255, 255, 255]


def test_nothing_found_is_an_answer_too(photograph, tmp_path):
    prediction = ask(detect_objects, photograph, NothingThere(), FasterRCNN_ResNet50_FPN_Weights.DEFAULT)
    assert prediction.rows == []
    prediction.draw(tmp_path / "out.png")
    assert (decode_image(tmp_path / "out.png") == 128).all()


def test_parts_are_named_by_their_share_of_the_picture(photograph):
    prediction = ask(segment_image, photograph, Halves(), LRASPP_MobileNet_V3_Large_Weights.DEFAULT)
    assert [(row["class"], row["share"]) for row in prediction.rows] == [
        ("__background__", pytest.approx(0.75, abs=0.01)),
        ("boat", pytest.approx(0.25, abs=0.01)),
    ]
    assert sum(row["pixels"] for row in prediction.rows) == HEIGHT * WIDTH


def test_parts_are_coloured_and_background_is_not(photograph, tmp_path):
    ask(segment_image, photograph, Halves(), LRASPP_MobileNet_V3_Large_Weights.DEFAULT).draw(tmp_path / "out.png")
    drawn = decode_image(tmp_path / "out.png").int()
    assert drawn.shape[1] > HEIGHT  # the legend
    assert (drawn[:, :HEIGHT, : WIDTH // 2] == 128).all()
    assert (drawn[:, :HEIGHT, -WIDTH // 5 :] != 128).any(0).all()


@pytest.mark.parametrize("predictor", [detect_objects, segment_image])
def test_a_file_that_is_no_picture_is_named(tmp_path, predictor):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(PredictError, match=r"text\.png: Unsupported image file"):
        ask(predictor, tmp_path / "text.png", Detector(), FasterRCNN_ResNet50_FPN_Weights.DEFAULT)


@pytest.mark.parametrize(
    ("weights", "predictor"),
    [("maskrcnn_resnet50_fpn_v2:DEFAULT", "detect_objects"), ("fcn_resnet50:DEFAULT", "segment_image")],
)
def test_the_models_task_chooses_the_predictor(photograph, weights, predictor):
    assert plan(photograph, weights=weights).predictor == f"flambeau.vision.predict:{predictor}"
