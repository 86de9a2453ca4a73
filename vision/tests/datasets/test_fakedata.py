"""Random pictures that are always the same."""

import pytest
import torch

from flambeau.core.datasets import get_dataset
from flambeau.vision.datasets import FakeData
from flambeau.vision.transforms.functional import pil_to_tensor


def test_items_are_those_of_the_reference_implementation():
    # The documented recipe, with the default generator: seed, draw the image, draw the label.
    state = torch.get_rng_state()
    torch.manual_seed(3 + 100)
    values = torch.randn(3, 6, 7)
    label = torch.randint(0, 10, (1,)).item()
    torch.set_rng_state(state)
    image, target = FakeData(size=5, image_size=(3, 6, 7), random_offset=100)[3]
    assert target == label
    assert torch.equal(pil_to_tensor(image), values.mul(255).to(torch.uint8))


def test_the_default_generator_is_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    FakeData(image_size=(1, 2, 2))[0]
    assert torch.equal(torch.rand(3), expected)


def test_indices_from_the_end_and_out_of_range():
    dataset = FakeData(size=4, image_size=(1, 3, 3))
    assert dataset[-1][1] == dataset[3][1]
    assert torch.equal(pil_to_tensor(dataset[-1][0]), pil_to_tensor(dataset[3][0]))
    for index in (4, -5):
        with pytest.raises(IndexError, match="There is no item"):
            dataset[index]


def test_it_is_found_by_name_and_transforms_are_applied():
    dataset = get_dataset("vision/fakedata", size=6, image_size=(3, 4, 5), num_classes=3, transform=lambda i: i.size)
    assert len(dataset) == 6
    assert {dataset[i][0] for i in range(6)} == {(5, 4)}
    assert all(0 <= dataset[i][1] < 3 for i in range(6))
    assert repr(dataset).startswith("Dataset FakeData\n    Number of datapoints: 6")
