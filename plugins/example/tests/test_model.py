"""The model, its weights, and what they are found by."""

import pytest
import torch
from flambeau.core import get_model, get_weight, list_models

from flambeau_plugin_example import SpiralNet_Weights, Spirals, spiral_net


def test_the_model_is_found_by_name():
    assert "example/spiral_net" in list_models()
    model = get_model("example/spiral_net", weights="DEFAULT")
    assert sum(parameter.numel() for parameter in model.parameters()) == SpiralNet_Weights.DEFAULT.meta["num_params"]


def test_the_weights_are_found_by_name():
    assert get_weight("example/spiral_net:DEFAULT") is SpiralNet_Weights.SPIRALS_V1


def test_the_weights_have_the_accuracy_that_is_stated():
    data = Spirals("test", transform=SpiralNet_Weights.DEFAULT.transforms())
    points = torch.stack([point for point, _ in data])
    with torch.inference_mode():
        right = spiral_net(weights=SpiralNet_Weights.DEFAULT).eval()(points).argmax(-1) == data.labels

    stated = SpiralNet_Weights.DEFAULT.meta["_metrics"]["spirals, test split"]["acc@1"]
    # Another processor may round one or two of the thousand points to the other side.
    assert 100 * right.float().mean() == pytest.approx(stated, abs=0.25)


def test_without_weights_parameters_are_random():
    model = spiral_net(num_classes=3)
    assert model(torch.zeros(4, 2)).shape == (4, 3)


@pytest.mark.parametrize("point", [[1.0], [1.0, 2.0, 3.0]])
def test_preprocessing_refuses_what_is_no_point(point):
    with pytest.raises(ValueError, match="expected \\(..., 2\\)"):
        SpiralNet_Weights.DEFAULT.transforms()(point)
