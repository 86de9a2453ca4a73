"""`flambeau influence`: registered models and datasets by name, tables and pictures."""

from __future__ import annotations

import json

import pytest
import torch

from flambeau.core import DATASETS, MODELS
from flambeau.core.cli import main
from flambeau.influence.pictures import Row, draw_rows


class Corners(torch.utils.data.Dataset):
    """Points whose class is that of their first sign."""

    def __init__(self, split="train", root=None, **options):
        generator = torch.Generator().manual_seed({"train": 0, "test": 1}[split])
        self.pictures = torch.rand(40, 1, 4, 4, generator=generator) - 0.5
        self.labels = (self.pictures[:, 0, 0, 0] > 0).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, place):
        return self.pictures[place], int(self.labels[place])


class InAFolder(Corners):
    def __init__(self, root, split="train"):
        super().__init__(split)


class Unlabelled(Corners):
    def __getitem__(self, place):
        return self.pictures[place]


def build(weights=None):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


@pytest.fixture(autouse=True)
def registered(tmp_path):
    """A model without weights, and two datasets, as another plugin would register them."""
    MODELS.register("corner_net", build, plugin="influencetest")
    DATASETS.register("corners", Corners, plugin="influencetest")
    DATASETS.register("unlabelled", Unlabelled, plugin="influencetest")
    DATASETS.register("in_a_folder", InAFolder, plugin="influencetest")
    path = tmp_path / "corner_net.pt"
    torch.save(build().state_dict(), path)
    yield str(path)
    names = ((DATASETS, name) for name in ("corners", "unlabelled", "in_a_folder"))
    for registry, name in ((MODELS, "corner_net"), *names):
        registry.unregister(f"influencetest/{name}")


def run(*words):
    return main(["influence", "influencetest/corner_net", *words])


@pytest.mark.parametrize("method", ["fast", "tracin", "trak", "arnoldi"])
def test_scores_are_printed_as_json(capsys, registered, method):
    words = ("--dataset", "influencetest/corners", "--checkpoint", registered, "--method", method, "--top", "2")
    assert run(*words, "--json", "--train", "30", "--test", "3", "7") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["train"] == 30 and [row["test"] for row in report["rows"]] == [3, 7]
    for row in report["rows"]:
        best, worst = ([one["score"] for one in row[side]] for side in ("proponents", "opponents"))
        assert best[0] >= best[1] > worst[1] >= worst[0]
        assert all(one["label"] == int(Corners().labels[one["train"]]) for one in row["proponents"])


def test_a_picture_shows_the_examples_beside_the_test_example(capsys, registered, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "examples.png"
    assert run("--dataset", "influencetest/corners", "--checkpoint", registered, "--out", str(path)) == 0
    assert "test example 0: label" in capsys.readouterr().out
    with image.open(path) as picture:
        assert picture.size[0] > picture.size[1] > 300 and len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_self_influence_is_listed(capsys, registered):
    assert run("--dataset", "influencetest/corners", "--checkpoint", registered, "--self", "--top", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("training example") and len(lines) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dataset", "influencetest/unlabelled"), "expected (input, label)"),
        (("--dataset", "influencetest/nothing"), "nothing"),
        (("--dataset", "influencetest/in_a_folder"), "pass --root FOLDER, and --download to fetch"),
        (("--dataset", "influencetest/corners", "--test", "99"), "there is no 99"),
    ],
)
def test_what_cannot_be_done_is_explained(capsys, registered, words, message):
    assert run(*words, "--checkpoint", registered) == 1
    assert message in capsys.readouterr().err


def test_pictures_need_an_example(tmp_path):
    with pytest.raises(ValueError, match="no test example to draw"):
        draw_rows([], tmp_path / "x.png")


def test_a_picture_keeps_its_proportions(tmp_path):
    image = pytest.importorskip("PIL.Image")
    draw_rows([Row(torch.rand(3, 100, 200), "wide", [], [])], tmp_path / "x.png")
    with image.open(tmp_path / "x.png") as drawn:
        column = [drawn.convert("RGB").getpixel((58, y)) for y in range(30, 118)]
    grey = [pixel == (235, 235, 235) for pixel in column]
    assert grey[:18] == [True] * 18 and grey[-18:] == [True] * 18 and not any(grey[26:60])


def test_what_is_no_picture_leaves_its_place_empty(tmp_path):
    pytest.importorskip("PIL.Image")
    draw_rows([Row("a text", "caption", [(torch.zeros(3), "no picture")], [])], tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 0
