"""The helpers that upstream has beside its models, and other code imports."""

import pytest
import torch

from flambeau.core.errors import OfflineError
from flambeau.vision import models
from flambeau.vision.models import _utils, resnet18
from flambeau.vision.models.digits import DigitCNN_Weights
from flambeau.vision.models.resnet import ResNet18_Weights


def test_pretrained_true_means_the_first_weights_and_warns_once():
    with pytest.warns(UserWarning, match=r"pretrained=True.*weights=ResNet18_Weights\.IMAGENET1K_V1") as record:
        built = _utils.handle_legacy_interface(weights=("pretrained", ResNet18_Weights.IMAGENET1K_V1))(
            lambda *, weights=None, progress=True: weights
        )(pretrained=True)
    assert built is ResNet18_Weights.IMAGENET1K_V1
    assert len(record) == 1
    assert record[0].filename == __file__


def test_pretrained_false_means_no_weights():
    with pytest.warns(UserWarning, match=r"resnet18\(pretrained=False\) is deprecated"):
        assert resnet18(pretrained=False, num_classes=2).fc.out_features == 2


def test_keyword_only_parameters_by_position_warn_and_work():
    with pytest.warns(UserWarning, match="weights, progress by position"):
        assert resnet18(None, False).fc.out_features == 1000
    collected = _utils.kwonly_to_pos_or_kw(lambda a, *, b=1, c=2: (a, b, c))
    with pytest.warns(UserWarning, match="b by position"):
        assert collected(7, 8) == (7, 8, 2)


def test_builders_refuse_a_number_of_classes_that_the_weights_do_not_have():
    with pytest.raises(ValueError, match="'num_classes' is 7, expected 1000"):
        resnet18(weights=ResNet18_Weights.DEFAULT, num_classes=7)


def test_builders_refuse_other_models_weights():
    with pytest.raises(TypeError, match=r"are DigitCNN_Weights\.UCI_V1; expected ResNet18_Weights"):
        resnet18(weights=DigitCNN_Weights.UCI_V1)


class TestIntermediateLayerGetter:
    def test_it_returns_the_layers_asked_for_under_new_names(self):
        model = resnet18().eval()
        getter = _utils.IntermediateLayerGetter(model, {"layer1": "low", "layer3": "high"})
        out = getter(torch.rand(1, 3, 64, 64))
        assert {name: tuple(value.shape) for name, value in out.items()} == {
            "low": (1, 64, 16, 16), "high": (1, 256, 4, 4),
        }  # fmt: skip

    def test_it_drops_what_comes_after_the_last_layer_and_keeps_the_keys(self):
        model = resnet18()
        getter = _utils.IntermediateLayerGetter(model, {"layer2": "0"})
        assert list(getter) == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2"]
        assert set(getter.state_dict()) < set(model.state_dict())

    def test_an_absent_layer_is_named(self):
        with pytest.raises(ValueError, match=r"names \['layer9'\], expected direct children"):
            _utils.IntermediateLayerGetter(resnet18(), {"layer9": "0", "layer1": "1"})

    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
    def test_it_can_be_scripted(self):
        getter = _utils.IntermediateLayerGetter(resnet18().eval(), {"layer1": "0"})
        x = torch.rand(1, 3, 32, 32)
        torch.testing.assert_close(torch.jit.script(getter)(x)["0"], getter(x)["0"])


@pytest.mark.parametrize(
    ("value", "divisor", "least", "expected"),
    [(16, 8, None, 16), (17, 8, None, 16), (20, 8, None, 24), (3, 8, None, 8), (10, 8, None, 16), (5, 8, 16, 16)],
)
def test_channels_are_made_divisible_without_losing_a_tenth(value, divisor, least, expected):
    assert _utils._make_divisible(value, divisor, least) == expected


def test_a_fixed_parameter_may_be_left_out_or_agree():
    kwargs = {"b": 2}
    _utils._ovewrite_named_param(kwargs, "a", 1)
    _utils._ovewrite_named_param(kwargs, "b", 2)
    assert kwargs == {"a": 1, "b": 2}
    assert _utils._ovewrite_value_param("c", None, 3) == 3


def test_tables_of_urls_warn_when_they_are_read():
    urls = _utils._ModelURLs(resnet18="https://example.org/resnet18.pth")
    with pytest.warns(UserWarning, match="weights enum"):
        assert urls["resnet18"].endswith("resnet18.pth")


@pytest.mark.parametrize("name", ["regnet_y_128gf", "vit_h_14"])
def test_the_old_switch_of_models_that_came_after_it_is_an_error(name):
    with pytest.raises(ValueError, match=rf"{name}\(pretrained=True\) does not say which weights"):
        models.get_model_builder(name)(pretrained=True)


def test_the_old_switch_of_keypoint_rcnn_knows_its_older_weights(monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path))
    for switch, member in ((True, "COCO_V1"), ("legacy", "COCO_LEGACY")):
        with (
            pytest.warns(UserWarning, match=rf"weights=KeypointRCNN_ResNet50_FPN_Weights\.{member}"),
            pytest.raises(OfflineError),
        ):
            models.detection.keypointrcnn_resnet50_fpn(pretrained=switch)
