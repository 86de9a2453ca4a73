"""GoogLeNet and Inception v3: auxiliary heads, the change of normalization, replaceable blocks."""

import pytest
import torch

from flambeau.core.weights import build_with_weights
from flambeau.vision.models import _utils, get_model, googlenet, inception_v3
from flambeau.vision.models.googlenet import (
    BasicConv2d,
    GoogLeNet,
    GoogLeNetOutputs,
    Inception,
    InceptionAux,
    normalized_to_half,
)
from flambeau.vision.models.inception import Inception3, InceptionOutputs


@pytest.fixture(scope="module")
def small_googlenet():
    return GoogLeNet(num_classes=3, init_weights=False)


@pytest.fixture(scope="module")
def small_inception():
    return Inception3(num_classes=3, init_weights=False)


def test_googlenet_returns_three_logits_in_train_mode_and_one_in_eval_mode(small_googlenet):
    out = small_googlenet.train()(torch.rand(2, 3, 64, 64))
    assert isinstance(out, GoogLeNetOutputs)
    assert out._fields == ("logits", "aux_logits2", "aux_logits1")
    assert [each.shape for each in out] == [(2, 3)] * 3
    assert small_googlenet.eval()(torch.rand(2, 3, 64, 64)).shape == (2, 3)


def test_inception_returns_two_logits_in_train_mode_and_one_in_eval_mode(small_inception):
    out = small_inception.train()(torch.rand(2, 3, 299, 299))
    assert isinstance(out, InceptionOutputs)
    assert [each.shape for each in out] == [(2, 3)] * 2
    assert small_inception.eval()(torch.rand(1, 3, 75, 75)).shape == (1, 3)


def test_without_auxiliary_heads_train_mode_gives_logits_alone():
    model = GoogLeNet(num_classes=3, aux_logits=False, init_weights=False)
    assert not any(name.startswith("aux") for name in model.state_dict())
    assert model.train()(torch.rand(2, 3, 32, 32)).shape == (2, 3)


def test_the_change_of_normalization_is_exact():
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    picture = torch.rand(2, 3, 4, 5)
    x = (picture - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)
    torch.testing.assert_close(normalized_to_half(x), (picture - 0.5) / 0.5)


def test_transform_input_is_applied_before_anything_else(small_googlenet):
    x = torch.rand(1, 3, 32, 32)
    small_googlenet.eval()
    expected = small_googlenet(normalized_to_half(x))
    small_googlenet.transform_input = True
    torch.testing.assert_close(small_googlenet(x), expected)
    small_googlenet.transform_input = False


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """Let builders find the state of a model wherever they ask for weights."""

    def store(model):
        torch.save(model.state_dict(), tmp_path / "weights.pth")

        def build(network, weights, *args, **options):
            return build_with_weights(network, tmp_path / "weights.pth", *args, **options)

        monkeypatch.setattr(_utils, "build_with_weights", build)

    return store


def test_googlenet_with_weights_drops_its_heads_and_renormalizes(stored):
    stored(GoogLeNet(init_weights=False))
    model = googlenet(weights="IMAGENET1K_V1")
    assert (model.aux_logits, model.aux1, model.aux2, model.transform_input) == (False, None, None, True)


def test_googlenet_with_weights_keeps_its_heads_on_request_and_warns(stored):
    stored(GoogLeNet(init_weights=False))
    with pytest.warns(UserWarning, match="auxiliary heads .* are not trained"):
        model = googlenet(weights="IMAGENET1K_V1", aux_logits=True, transform_input=False)
    assert model.aux1 is not None
    assert not model.transform_input


@pytest.mark.parametrize("heads", [True, False])
def test_inception_with_weights_keeps_its_head_unless_told_otherwise(stored, heads):
    stored(Inception3(init_weights=False))
    model = inception_v3(weights="IMAGENET1K_V1", **({} if heads else {"aux_logits": False}))
    assert (model.AuxLogits is not None, model.transform_input) == (heads, True)


def test_blocks_can_be_replaced_and_are_counted():
    class Marked(Inception):
        pass

    model = GoogLeNet(num_classes=2, init_weights=False, blocks=[BasicConv2d, Marked, InceptionAux])
    assert isinstance(model.inception4a, Marked)
    with pytest.raises(ValueError, match="blocks has 1 elements, expected 3"):
        GoogLeNet(blocks=[BasicConv2d])
    with pytest.raises(ValueError, match="inception_blocks has 2 elements, expected 7"):
        Inception3(inception_blocks=[BasicConv2d, BasicConv2d])


def test_the_heads_of_inception_start_with_their_own_deviations():
    torch.manual_seed(0)
    head = Inception3(num_classes=400).AuxLogits
    assert head.fc.weight.std().item() == pytest.approx(0.001, rel=0.05)
    assert head.conv1.conv.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert head.conv0.conv.weight.std().item() == pytest.approx(0.1, rel=0.05)


def test_auxiliary_heads_follow_another_number_of_classes(stored):
    stored(Inception3(init_weights=False))
    model = get_model("inception_v3", weights="IMAGENET1K_V1", num_classes=7)
    assert (model.fc.out_features, model.AuxLogits.fc.out_features) == (7, 7)
    model = get_model("inception_v3", weights="IMAGENET1K_V1", num_classes=7, aux_logits=False)
    assert (model.fc.out_features, model.AuxLogits) == (7, None)
