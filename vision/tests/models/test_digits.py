"""The digit classifier: its embedded weights do what their record says, on samples and on pictures."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from flambeau.core import hub
from flambeau.vision import models
from flambeau.vision.models.digits import DigitCNN, DigitCNN_Weights

pytest.importorskip("sklearn", reason="the recipe reads the digits that scikit-learn carries")
sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
import digits

WEIGHTS = DigitCNN_Weights.UCI_V1


@pytest.fixture(scope="module")
def model():
    return models.digit_cnn(weights=WEIGHTS).eval()


@pytest.fixture(scope="module")
def held_out():
    return digits.samples(held_out=True)


def test_the_file_is_in_the_package_small_and_as_recorded(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    path = hub.fetch(WEIGHTS.url, sha256=WEIGHTS.sha256, size=WEIGHTS.size)
    content = path.read_bytes()
    assert len(content) == WEIGHTS.size < 2**20
    assert hashlib.sha256(content).hexdigest() == WEIGHTS.sha256
    assert path.stem.endswith(WEIGHTS.sha256[:8])
    assert path.parent.name == "files"


def test_the_number_of_parameters_is_the_recorded_one(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == WEIGHTS.meta["num_params"]


def test_the_sheets_of_the_split_begin_where_the_recipe_says(held_out):
    from sklearn.datasets import load_digits

    labels = load_digits().target
    opening = list(range(10)) * 3
    assert labels[digits.FIRST_HELD_OUT :][:30].tolist() == labels[:30].tolist() == opening
    assert labels[digits.FIRST_HELD_OUT - 1 :][:30].tolist() != opening
    assert len(held_out[1]) == 510


def test_the_held_out_accuracy_is_the_recorded_one(model):
    (metrics,) = WEIGHTS.meta["_metrics"].values()
    assert digits.accuracy(model) == pytest.approx(metrics["acc@1"], abs=0.2)  # one sample is 0.196
    assert metrics["acc@1"] > 98


def picture(sample: torch.Tensor, *, paper: tuple[int, ...], ink: tuple[int, ...], noise: float = 4.0) -> Image.Image:
    """A sample as someone might have scanned it: 280x280, in colour, with margins and grain."""
    digit = Image.fromarray(np.pad(sample[0].numpy(), 1)).resize((200, 200), Image.Resampling.BICUBIC)
    strength = np.zeros((280, 280, 1))
    strength[30:230, 50:250, 0] = np.asarray(digit) / 255
    colours = np.array(paper) * (1 - strength) + np.array(ink) * strength
    grain = np.random.default_rng(0).normal(0, noise, colours.shape)
    return Image.fromarray((colours + grain).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(
    ("paper", "ink"),
    [((250, 250, 250), (10, 10, 10)), ((236, 229, 210), (60, 60, 110)), ((20, 30, 25), (235, 235, 235))],
    ids=["black on white", "blue on cream", "chalk on a board"],
)
def test_pictures_of_held_out_digits_are_recognised(model, held_out, paper, ink):
    preset = WEIGHTS.transforms()
    samples, labels = held_out[0][::3], held_out[1][::3]
    batch = torch.stack([preset(picture(sample, paper=paper, ink=ink)) for sample in samples])
    with torch.inference_mode():
        probabilities = model(batch).softmax(1)
    assert (probabilities.argmax(1) == labels).float().mean() > 0.98
    assert probabilities.max(1).values.median() > 0.9


def test_training_is_deterministic_and_learns():
    threads = torch.get_num_threads()
    try:
        first, second = digits.train(epochs=2), digits.train(epochs=2)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert digits.accuracy(first) > 80


def test_other_numbers_of_classes_keep_the_features():
    adapted = models.get_model("digit_cnn", weights="UCI_V1", num_classes=3)
    own = models.digit_cnn(weights="DEFAULT")
    assert adapted.classifier.out_features == 3
    assert torch.equal(adapted.features[0].weight, own.features[0].weight)


def test_an_untrained_network_has_the_shape_asked_for():
    assert DigitCNN(num_classes=7, dropout=0.0)(torch.rand(2, 1, 8, 8)).shape == (2, 7)
