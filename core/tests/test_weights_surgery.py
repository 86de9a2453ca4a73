"""Another number of classes or input channels: what is kept, what starts again, and what is said about it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from flambeau.core.weights import Weights, WeightsEnum, build_with_weights, get_model, register_model
from flambeau.core.weights.surgery import adapted_kernels, replace_outputs


class Cell(nn.Module):
    """Classifies, and gives four coordinates a class."""

    def __init__(self, num_classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.predictor = nn.ModuleDict({"scores": nn.Linear(4, num_classes), "boxes": nn.Conv1d(4, 4 * num_classes, 1)})
        self.num_classes = num_classes

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.stem(x).mean((2, 3))
        return self.predictor["scores"](features), self.predictor["boxes"](features[..., None])


@pytest.fixture
def saved(tmp_path: Path, site: Any) -> Cell:
    """A trained model, registered as `cell` with weights `V1`."""
    model = Cell().eval()
    torch.save(model.state_dict(), tmp_path / "cell.pth")

    class Cell_Weights(WeightsEnum):
        V1 = Weights(f"package:{__name__}", dict, {"categories": ["a", "b", "c"]})

    def cell(*, weights: Cell_Weights | None = None, progress: bool = True, **config: Any) -> Cell:
        if (member := Cell_Weights.verify(weights)) is not None:
            if config.setdefault("num_classes", 3) != 3:
                raise ValueError("num_classes follows from the weights")
            assert member is Cell_Weights.V1
        return build_with_weights(Cell, weights and tmp_path / "cell.pth", progress=progress, **config)

    cell.__annotations__["weights"] = Cell_Weights | None
    register_model(head=("predictor.scores", "predictor.boxes"), stem="stem.0")(cell)
    register_model("plain_cell")(cell)
    return model


IMAGE = torch.rand(2, 3, 8, 8)


class TestHead:
    def test_as_many_classes_as_the_weights_have_change_nothing(self, saved: Cell) -> None:
        for config in ({}, {"num_classes": 3}, {"num_classes": None}):
            model = get_model("cell", weights="V1", **config).eval()
            assert torch.equal(model(IMAGE)[0], saved(IMAGE)[0])

    def test_other_classes_replace_the_head_keep_the_rest_and_say_so(
        self, saved: Cell, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "flambeau.core.weights"):
            model = get_model("cell", weights="V1", num_classes=10)
        scores, boxes = model(IMAGE)
        assert (scores.shape, boxes.shape) == ((2, 10), (2, 40, 1))
        assert model.num_classes == 10
        assert torch.equal(model.stem[0].weight, saved.stem[0].weight)  # type: ignore[index,union-attr]
        assert "Cell: predictor.scores, predictor.boxes start from new values, for 10 classes, not 3" in caplog.text

    def test_without_weights_the_builder_gets_the_number(self, saved: Cell) -> None:
        assert get_model("cell", num_classes=7)(IMAGE)[0].shape == (2, 7)
        assert get_model("plain_cell", num_classes=7)(IMAGE)[0].shape == (2, 7)

    def test_a_model_without_a_declared_head_says_what_is_missing(self, saved: Cell) -> None:
        with pytest.raises(ValueError, match=r"'plain_cell' declares no head, so num_classes cannot differ"):
            get_model("plain_cell", weights="V1", num_classes=10)

    def test_a_declared_head_in_a_part_that_was_left_out_is_no_obstacle(self) -> None:
        model = nn.Module()
        model.head, model.aux = nn.Linear(4, 3), None
        replace_outputs(model, ["head", "aux.layer"], 5)
        assert model.head.out_features == 5
        with pytest.raises(AttributeError, match="tail"):
            replace_outputs(model, ["tail.layer"], 5)

    def test_the_new_head_is_where_the_old_one_was(self, saved: Cell) -> None:
        model = get_model("cell", weights="V1", num_classes=10, dtype=torch.float64)
        assert {p.dtype for p in model.parameters()} == {torch.float64}

    @pytest.mark.parametrize("number", [0, -1])
    def test_impossible_numbers_are_refused(self, saved: Cell, number: int) -> None:
        with pytest.raises(ValueError, match=f"num_classes is {number}, expected at least 1"):
            get_model("cell", weights="V1", num_classes=number)
        with pytest.raises(ValueError, match=f"in_channels is {number}, expected at least 1"):
            get_model("cell", weights="V1", in_channels=number)


class TestStem:
    def test_one_channel_answers_as_three_equal_ones_did(self, saved: Cell, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "flambeau.core.weights"):
            model = get_model("cell", weights="V1", in_channels=1).eval()
        gray = torch.rand(2, 1, 8, 8)
        torch.testing.assert_close(model(gray)[0], saved(gray.expand(-1, 3, -1, -1))[0])
        assert "Cell: the kernels of stem.0 were summed, for 1 input channels, not 3" in caplog.text

    def test_six_channels_answer_as_three_did_for_a_picture_given_twice(self, saved: Cell) -> None:
        model = get_model("cell", weights="V1", in_channels=6).eval()
        torch.testing.assert_close(model(torch.cat([IMAGE, IMAGE], 1))[0], saved(IMAGE)[0])

    def test_head_and_stem_change_together(self, saved: Cell) -> None:
        assert get_model("cell", weights="V1", in_channels=4, num_classes=5)(torch.rand(1, 4, 8, 8))[0].shape == (1, 5)

    def test_without_weights_the_stem_starts_from_new_values(self, saved: Cell) -> None:
        stem = get_model("cell", in_channels=2).stem[0]  # type: ignore[index]
        assert stem.weight.shape == (4, 2, 3, 3)
        assert not torch.equal(stem.weight[:, 0], stem.weight[:, 1])

    def test_a_model_without_a_declared_stem_gets_the_argument_itself(self, saved: Cell) -> None:
        with pytest.raises(TypeError, match="in_channels"):
            get_model("plain_cell", in_channels=2)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(1, 6), st.integers(1, 14))
    def test_a_constant_input_excites_kernels_as_before(self, before: int, after: int) -> None:
        weight = torch.ones(2, before, 3)
        kernels = adapted_kernels(weight, after)
        assert kernels.shape == (2, after, 3)
        torch.testing.assert_close(kernels.sum(1), weight.sum(1))


class TestWeightsFromElsewhere:
    def test_a_path_is_loaded_into_the_named_model(self, saved: Cell, tmp_path: Path) -> None:
        for weights in (tmp_path / "cell.pth", str(tmp_path / "cell.pth")):
            assert torch.equal(get_model("cell", weights=weights).eval()(IMAGE)[0], saved(IMAGE)[0])

    def test_registered_names_are_understood(self, saved: Cell) -> None:
        for name in ("V1", "Cell_Weights.V1", "cell:V1"):
            assert torch.equal(get_model("cell", weights=name).eval()(IMAGE)[0], saved(IMAGE)[0])

    def test_a_checkpoint_with_other_classes_names_the_remedy(self, saved: Cell, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="build with num_classes=3"):
            get_model("cell", weights=tmp_path / "cell.pth", num_classes=9)
