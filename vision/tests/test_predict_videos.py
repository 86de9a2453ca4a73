"""`flambeau predict` on films and pairs of pictures: rows, and the picture of an answer."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent / "io"))  # the clips of the tests of reading videos
from clips import clip, save

from flambeau.core.errors import PredictError
from flambeau.core.predict import PredictOptions, plan
from flambeau.vision.io import decode_image, write_png
from flambeau.vision.models.optical_flow import Raft_Large_Weights
from flambeau.vision.models.video import MViT_V2_S_Weights, R3D_18_Weights, S3D_Weights
from flambeau.vision.predict import classify_video, estimate_flow


class Brightness(nn.Module):
    """Sees class 7 in bright clips and class 3 in dark ones; keeps the shapes of what it saw."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, batch):
        self.seen.append((tuple(batch.shape), float(batch.mean())))
        logits = torch.zeros(1, 400)
        logits[0, 7] = 6.0 + batch.mean()
        logits[0, 3] = 6.0 - batch.mean()
        return logits


class Constant(nn.Module):
    """A flow of two pixels to the right and one down, in pixels of what it is given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, first, second):
        self.seen.append((tuple(first.shape), float(first.min()), float(second.max())))
        flow = torch.tensor([2.0, 1.0])[None, :, None, None].expand(1, 2, *first.shape[-2:])
        return [torch.zeros_like(flow), flow.clone()]


@pytest.fixture
def film(tmp_path) -> Path:
    """Two seconds of 20 frames that get brighter."""
    return save(tmp_path, clip(20), "film.mp4")


def ask(predictor, source, model, weights, top=5):
    options = {"device": torch.device("cpu"), "dtype": torch.float32, "options": PredictOptions(top=top)}
    with torch.inference_mode():
        return predictor(source, model=model, weights=weights, **options)


def test_a_film_is_cut_into_the_clips_that_accuracy_was_measured_with(film):
    model = Brightness()
    prediction = ask(classify_video, str(film), model, R3D_18_Weights.DEFAULT, top=2)
    assert [shape for shape, _ in model.seen] == [(1, 3, 16, 112, 112)] * 5
    brightness = [value for _, value in model.seen]
    assert brightness == sorted(brightness)
    assert brightness[-1] - brightness[0] > 0.05  # from the film's start to its end
    categories = R3D_18_Weights.DEFAULT.meta["categories"]
    assert {row["class"] for row in prediction.rows} == {categories[7], categories[3]}
    for row in prediction.rows:
        assert row["probability"] == pytest.approx(sum(row["clips"]) / 5, abs=1e-3)
    assert prediction.columns == ("class", "probability")
    assert prediction.title == "film.mp4, 5 clips seen by R3D_18_Weights.KINETICS400_V1"


def test_a_film_that_is_shorter_than_a_clip_is_one_clip_and_ends_with_its_last_frame(film):
    model = Brightness()
    ask(classify_video, str(film), model, MViT_V2_S_Weights.DEFAULT)
    assert [shape for shape, _ in model.seen] == [(1, 3, 16, 224, 224)]
    model = Brightness()
    ask(classify_video, str(film), model, S3D_Weights.DEFAULT)
    assert [shape for shape, _ in model.seen] == [(1, 3, 128, 224, 224)]


def test_classes_are_drawn_below_a_frame_of_the_film(film, tmp_path):
    prediction = ask(classify_video, str(film), Brightness(), R3D_18_Weights.DEFAULT)
    prediction.draw(tmp_path / "out.png")
    height, width = decode_image(tmp_path / "out.png").shape[1:]
    assert width >= 320
    assert height > width * 48 // 64


def test_flow_between_two_pictures_is_in_their_pixels(tmp_path):
    for name, value in (("a.png", 0), ("b.png", 255)):
        write_png(torch.full((3, 100, 300), value, dtype=torch.uint8), tmp_path / name)
    model = Constant()
    sources = (str(tmp_path / "a.png"), str(tmp_path / "b.png"))
    prediction = ask(estimate_flow, sources, model, Raft_Large_Weights.DEFAULT)
    assert model.seen == [((1, 3, 128, 304), -1.0, 1.0)]  # at least 128, multiples of 8
    (row,) = prediction.rows
    assert row["pictures"] == "a.png to b.png"
    assert row["right"] == pytest.approx(2 * 300 / 304, abs=1e-3)
    assert row["down"] == pytest.approx(100 / 128, abs=1e-3)
    assert row["mean"] == row["largest"]
    prediction.draw(tmp_path / "out.png")
    drawn = decode_image(tmp_path / "out.png")
    assert drawn.shape == (3, 100, 600)
    assert (drawn[:, :, :300] == 0).all()
    assert drawn[:, 50, 400].tolist() == drawn[:, 10, 590].tolist() != [0, 0, 0]


def test_large_pictures_are_estimated_in_small(tmp_path):
    write_png(torch.zeros(3, 600, 2048, dtype=torch.uint8), tmp_path / "a.png")
    model = Constant()
    (row,) = ask(estimate_flow, [str(tmp_path / "a.png")] * 2, model, Raft_Large_Weights.DEFAULT).rows
    assert model.seen[0][0] == (1, 3, 304, 1024)
    assert row["right"] == pytest.approx(4.0)


def test_flow_in_a_film_is_that_of_neighbouring_frames(film, tmp_path):
    prediction = ask(estimate_flow, (str(film),), Constant(), Raft_Large_Weights.DEFAULT, top=3)
    assert [row["pictures"] for row in prediction.rows] == ["0.000 to 0.100 s", "0.900 to 1.000 s", "1.800 to 1.900 s"]
    prediction.draw(tmp_path / "out.png")
    assert decode_image(tmp_path / "out.png").shape[1:] >= (3 * 48, 2 * 64)
    assert len(ask(estimate_flow, (str(film),), Constant(), Raft_Large_Weights.DEFAULT, top=99).rows) == 19


def test_inputs_that_flow_cannot_be_of_are_explained(film, tmp_path):
    for name, size in (("a.png", (10, 20)), ("b.png", (20, 10))):
        write_png(torch.zeros(3, *size, dtype=torch.uint8), tmp_path / name)
    a, b = str(tmp_path / "a.png"), str(tmp_path / "b.png")
    still = str(save(tmp_path, clip(1), "still.mp4"))
    for sources, message in (
        ((a, b), "10 x 20 and 20 x 10 pixels"),
        ((a, a, a), "3 files were given"),
        ((still,), "one frame"),
        ((str(film), str(film)), "Unsupported image file"),
    ):
        with pytest.raises(PredictError, match=message):
            ask(estimate_flow, sources, Constant(), Raft_Large_Weights.DEFAULT)


def test_a_file_that_is_no_film_is_named(tmp_path):
    broken = str(save(tmp_path, b"no film", "broken.mp4"))
    with pytest.raises(PredictError, match=r"broken\.mp4"):
        ask(classify_video, broken, Brightness(), R3D_18_Weights.DEFAULT)
    with pytest.raises(PredictError, match=r"broken\.mp4"):
        ask(estimate_flow, (broken,), Constant(), Raft_Large_Weights.DEFAULT)


def test_the_task_chooses_the_predictor_and_a_films_suffix_the_weights(film):
    chosen = plan(film)
    assert (chosen.weights.id, chosen.predictor) == (
        "vision/mvit_v2_s:KINETICS400_V1",
        "flambeau.vision.predict:classify_video",
    )
    assert plan([film, film], weights="raft_small:DEFAULT").source == (str(film), str(film))
    assert plan(film, weights="raft_small:DEFAULT").predictor == "flambeau.vision.predict:estimate_flow"


def test_every_video_model_says_what_clips_it_wants():
    from flambeau.vision import models

    for name in models.list_models(module="flambeau.vision.models.video"):
        for member in models.get_model_weights(name):
            clips = member.meta["clips"]
            assert clips["frames"] >= member.meta.get("min_temporal_size", 1)
            assert clips["frame_rate"] > 0 < clips["per_video"]
