"""Augmentation policies: their tables, and what is drawn from them."""

import json

import pytest
import torch
from classes_table import picture

from flambeau.core.testing.golden import upstream_facts
from flambeau.vision.transforms import _policies, autoaugment, v2
from flambeau.vision.transforms.v2 import functional as F

SPACES = {
    "AutoAugment": (_policies.AUTO_AUGMENT, 5),
    "RandAugment": (_policies.RAND_AUGMENT, 5),
    "TrivialAugmentWide": (_policies.TRIVIAL_AUGMENT_WIDE, 5),
    "AugMix": (_policies.AUG_MIX, 5),
    "AugMix (all_ops=False)": (_policies.AUG_MIX_PARTIAL, 5),
}


def recorded() -> dict:
    return upstream_facts("autoaugment", __file__)


def test_policies_are_the_recorded_ones():
    for name, policies in recorded()["policies"].items():
        ours = _policies.POLICIES[_policies.AutoAugmentPolicy[name]]
        assert json.loads(json.dumps(ours)) == policies


@pytest.mark.parametrize("name", SPACES)
def test_spaces_are_the_recorded_ones(name):
    space, bins = SPACES[name]
    theirs = recorded()["spaces"][name]
    assert list(space) == list(theirs)  # the order is the meaning of the number that is drawn
    for operation, (levels, signed) in space.items():
        magnitudes = levels(bins, (200, 300))
        assert signed == theirs[operation]["signed"]
        if magnitudes is None:
            assert theirs[operation]["magnitudes"] is None
        else:
            assert magnitudes.tolist() == pytest.approx(theirs[operation]["magnitudes"])


@pytest.mark.parametrize("name", [*_policies.AUG_MIX, "Identity", "Invert"])
@pytest.mark.parametrize("kind", ["uint8", "float", "pil"])
def test_every_operation_serves_every_kind_of_image(name, kind):
    image = {"uint8": picture(), "float": F.to_dtype(picture(), scale=True), "pil": F.to_pil_image(picture())}[kind]
    magnitude = 2.0 if name == "Posterize" else 0.3
    out = _policies.apply_operation(image, name, magnitude, interpolation="nearest", fill=None)
    assert type(out) is type(image)
    assert F.get_size(out) == [20, 26]


def test_a_shear_is_a_slope_from_the_first_row_on():
    line = torch.zeros(1, 5, 9)
    line[..., 4] = 1.0
    out = _policies.apply_operation(line, "ShearX", 0.5, interpolation="nearest", fill=None)
    columns = out[0].argmax(1).tolist()
    assert columns[0] == 4
    assert abs(columns[4] - columns[0]) == 2


def test_autoaugment_applies_the_steps_of_one_policy():
    torch.manual_seed(0)
    policies = [{step[0] for step in policy} for policy in _policies.POLICIES[v2.AutoAugmentPolicy.CIFAR10]]
    for _ in range(20):
        _, params = v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10)(picture(), return_params=True)
        names = {name for name, _ in params[0]["params"]["operations"]}
        assert any(names <= policy for policy in policies)


def test_randaugment_draws_name_then_sign():
    torch.manual_seed(1)
    _, params = v2.RandAugment(1, magnitude=30)(picture(), return_params=True)
    torch.manual_seed(1)
    name = list(_policies.RAND_AUGMENT)[int(torch.randint(len(_policies.RAND_AUGMENT), ()))]
    levels, signed = _policies.RAND_AUGMENT[name]
    magnitude = 0.0 if levels(31, (20, 26)) is None else float(levels(31, (20, 26))[30])
    if signed and torch.rand(()) <= 0.5:
        magnitude = -magnitude
    assert params[0]["params"]["operations"] == [(name, magnitude)]


def test_augmix_of_operations_that_do_nothing_is_the_image():
    image = torch.rand(3, 8, 9)
    weights = _policies.mixing_weights(1.0, 3, 1)
    assert torch.allclose(_policies.mix_chains(image, weights, lambda _, batch: batch), image, atol=1e-6)


@pytest.mark.parametrize("policy", autoaugment.__all__)
@pytest.mark.parametrize("kind", ["uint8", "pil"])
def test_the_first_generation_has_the_same_policies(policy, kind):
    if policy == "AutoAugmentPolicy":
        assert getattr(v2, policy) is getattr(autoaugment, policy)
        return
    image = picture().as_subclass(torch.Tensor) if kind == "uint8" else F.to_pil_image(picture())
    transform = getattr(autoaugment, policy)()
    torch.manual_seed(2)
    first = transform(image)
    torch.manual_seed(2)
    assert type(first) is type(image)
    assert torch.equal(F.to_image(transform(image)), F.to_image(first))
