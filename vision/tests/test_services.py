"""Services: what a server answers about pictures is what `flambeau predict` says, alone and in a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.errors import PredictError
from flambeau.core.predict import PredictOptions, predict
from flambeau.core.services import ServiceParameters, service_target
from flambeau.core.weights import get_model, get_weight
from flambeau.vision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn
from flambeau.vision.services import ImageClassification, ObjectDetection
from flambeau.vision.weights.faster_rcnn import FasterRCNN_MobileNet_V3_Large_320_FPN_Weights

EXAMPLE = Path(__file__).parents[1] / "examples" / "digit.png"


@pytest.fixture
def digits():
    member = get_weight("vision/digit_cnn:DEFAULT")
    model = get_model("digit_cnn", weights=member).eval()
    return ImageClassification(model=model, weights=member, device=torch.device("cpu"), dtype=torch.float32)


def answers(service, bodies, **parameters):
    chosen = ServiceParameters(**{"top": 5, **parameters})
    samples = [service.decode(body, "", chosen) for body in bodies]
    with torch.inference_mode():
        output = service.forward(service.collate([service.prepare(sample) for sample in samples]))
        outputs = service.split(output, len(samples))
        return [service.answer(one, sample, chosen) for one, sample in zip(outputs, samples, strict=True)]


def test_classes_are_those_of_predict_in_a_batch_as_well(digits):
    expected = predict(EXAMPLE, weights="digit_cnn:DEFAULT", options=PredictOptions(top=3))
    for answer in answers(digits, [EXAMPLE.read_bytes()] * 3, top=3):
        assert answer["columns"] == list(expected.columns)
        assert [row["class"] for row in answer["rows"]] == [row["class"] for row in expected.rows]
        probabilities = [row["probability"] for row in expected.rows]
        assert [row["probability"] for row in answer["rows"]] == pytest.approx(probabilities, abs=1e-5)


@pytest.mark.parametrize("body", [b"", b"no picture", EXAMPLE.read_bytes()[:60]], ids=["empty", "text", "cut"])
def test_what_is_no_picture_is_refused(digits, body):
    with pytest.raises(PredictError):
        digits.decode(body, "image/png", None)


def test_objects_of_pictures_of_different_sizes_are_found_in_one_batch():
    member = FasterRCNN_MobileNet_V3_Large_320_FPN_Weights.COCO_V1
    model = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, box_score_thresh=0.0).eval()
    service = ObjectDetection(model=model, weights=member, device=torch.device("cpu"), dtype=torch.float32)
    pictures = [torch.randint(0, 256, (3, 40, side), dtype=torch.uint8) for side in (50, 60)]
    with torch.inference_mode():
        outputs = service.split(service.forward(service.collate([service.prepare(p) for p in pictures])), 2)
        (alone,) = service.forward(service.collate([service.prepare(pictures[1])]))
    answer = service.answer(outputs[1], pictures[1], ServiceParameters(top=4))
    assert answer["columns"] == ["class", "probability", "box"] and len(answer["rows"]) == 4
    assert answer["rows"][0]["probability"] == pytest.approx(float(alone["scores"][0]), abs=1e-4)


def test_servers_find_them_by_task():
    assert service_target("image-classification", "vision")[0] == "flambeau.vision.services:ImageClassification"
    assert service_target("object-detection", "vision")[0] == "flambeau.vision.services:ObjectDetection"
