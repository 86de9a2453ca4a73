"""`flambeau predict` on pictures: classes with probabilities, and a picture with the answer in it."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.core import predict as core_predict
from flambeau.core.errors import PredictError
from flambeau.core.predict import PredictOptions
from flambeau.vision._predict import classes as predict_classes
from flambeau.vision.io import decode_image

EXAMPLE = Path(__file__).parents[1] / "examples" / "digit.png"
predict = partial(core_predict.predict, weights="digit_cnn:DEFAULT")


def test_the_example_is_recognised():
    prediction = predict(EXAMPLE, options=PredictOptions(top=3))
    assert prediction.columns == ("class", "probability")
    assert prediction.rows[0]["class"] == "7"
    assert prediction.rows[0]["probability"] > 0.9
    assert [len(prediction.rows), prediction.title] == [3, "digit.png, seen by DigitCNN_Weights.UCI_V1"]
    probabilities = [row["probability"] for row in prediction.rows]
    assert probabilities == sorted(probabilities, reverse=True)


def test_all_classes_are_named_when_more_are_asked_for():
    rows = predict(EXAMPLE, options=PredictOptions(top=99)).rows
    assert sorted(row["class"] for row in rows) == [str(digit) for digit in range(10)]
    assert sum(row["probability"] for row in rows) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes_give_the_same_answer(dtype):
    assert predict(EXAMPLE, dtype=dtype).rows[0]["class"] == "7"


@pytest.mark.parametrize("form", ["light on dark", "transparent", "turned", "jpeg", "animation", "16 bit"])
def test_the_answer_does_not_depend_on_how_the_picture_is_stored(tmp_path, form):
    image = Image.open(EXAMPLE).convert("RGB")
    path = tmp_path / "digit.png"
    if form == "light on dark":
        Image.fromarray(255 - np.array(image)).save(path)
    elif form == "transparent":
        ink = Image.fromarray((np.array(image.convert("L")) < 140).astype(np.uint8) * 255)
        layers = Image.new("RGBA", image.size, (0, 0, 0, 0))
        layers.putalpha(ink)
        layers.save(path)
    elif form == "turned":
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned by a quarter, clockwise, when it is shown
        image.rotate(90, expand=True).save(path, exif=exif)
    elif form == "jpeg":
        image.save(path, format="JPEG")
    elif form == "animation":
        image.save(path, format="GIF", save_all=True, append_images=[Image.new("RGB", image.size)])
    else:
        Image.fromarray(np.array(image.convert("L")).astype(np.uint16) * 257).save(path)
    assert predict(path).rows[0]["class"] == "7"


def test_a_file_that_is_no_picture_is_named(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(PredictError, match=r"text\.png: Unsupported image file"):
        predict(tmp_path / "text.png")


ROWS = [{"class": "a name that is far too long for any picture of this width", "probability": 0.9}] + [
    {"class": "short", "probability": 0.1 / n} for n in (1, 2, 3)
]


@pytest.mark.parametrize(
    ("height", "width", "expected_width"), [(1, 1, 360), (8, 8, 360), (280, 280, 360), (20, 3000, 1600), (900, 20, 360)]
)
def test_the_drawing_is_legible_at_any_size(tmp_path, height, width, expected_width):
    picture = torch.full((3, height, width), 200, dtype=torch.uint8)
    predict_classes.draw_classes(picture, ROWS, tmp_path / "answer.png")
    drawn = decode_image(tmp_path / "answer.png")
    assert drawn.shape[2] == expected_width
    text_height = max(16, expected_width // 20)
    panel = drawn[:, -2 * text_height * len(ROWS) :]
    for row in range(len(ROWS)):
        line = panel[:, 2 * text_height * row : 2 * text_height * (row + 1)].int()
        assert (line.max() - line.min()) > 120  # light text on dark
        assert (line[:, :, -3:] == line[:, :1, -1:]).all()  # nothing runs over the edge
    bar = (panel == torch.tensor([0xF5, 0x9F, 0x3A], dtype=torch.uint8).view(3, 1, 1)).all(0)
    assert bar.sum(1).max() == pytest.approx(0.9 * (expected_width - text_height), abs=2)


def test_a_suffix_without_a_format_is_named(tmp_path):
    with pytest.raises(PredictError, match=r"'answer\.what' names no image format; use \.png"):
        predict(EXAMPLE).draw(tmp_path / "answer.what")


def test_the_command_line_prints_and_draws(tmp_path):
    out = tmp_path / "answer.png"
    words = ["predict", str(EXAMPLE), "--weights", "digit_cnn:DEFAULT", "--top", "2", "--json", "--out", str(out)]
    command = [sys.executable, "-m", "flambeau.core.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["weights"], record["rows"][0]["class"]) == ("vision/digit_cnn:UCI_V1", "7")
    assert decode_image(out).shape[0] == 3


def test_a_picture_without_a_choice_of_weights_is_taken_for_a_photograph(tmp_path):
    command = [sys.executable, "-m", "flambeau.core.cli", "predict", str(EXAMPLE)]
    environment = os.environ | {"FLAMBEAU_OFFLINE": "1", "FLAMBEAU_HOME": str(tmp_path), "TORCH_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "resnet50-11ad3fa6.pth is not cached and the network is switched off" in done.stderr
