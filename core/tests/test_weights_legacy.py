"""Builders called as they were before weights had enums: the same model, and one warning for each old usage."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

from flambeau.core.weights import Weights, WeightsEnum, get_model_weights, legacy_weights


class Net_Weights(WeightsEnum):
    V1 = Weights("https://host.example/net1.pth", dict, {})
    V2 = Weights("https://host.example/net2.pth", dict, {})
    DEFAULT = V2


class Body_Weights(WeightsEnum):
    V1 = Weights("https://host.example/body.pth", dict, {})


@legacy_weights(
    weights=("pretrained", "V1"),
    weights_backbone=("pretrained_backbone", lambda config: None if config.get("depth") == 0 else Body_Weights.V1),
)
def net(
    *,
    weights: Net_Weights | None = None,
    progress: bool = True,
    weights_backbone: Body_Weights | None = None,
    **config: Any,
) -> tuple[Any, ...]:
    """A net."""
    return weights, progress, weights_backbone, config


def called(*args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """The result of a call of `net`, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = net(*args, **kwargs)
    assert all(warning.category is UserWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return result, [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("args", "kwargs", "result", "warned"),
    [
        ((), {}, (None, True, None, {}), []),
        ((), {"weights": Net_Weights.V2}, (Net_Weights.V2, True, None, {}), []),
        ((), {"weights": "DEFAULT", "depth": 3}, ("DEFAULT", True, None, {"depth": 3}), []),
        (
            (),
            {"pretrained": True},
            (Net_Weights.V1, True, None, {}),
            ["net(pretrained=True) is deprecated; the same is written weights=Net_Weights.V1."],
        ),
        (
            (),
            {"pretrained": False},
            (None, True, None, {}),
            ["net(pretrained=False) is deprecated; the same is written weights=None."],
        ),
        (
            (),
            {"weights": True},
            (Net_Weights.V1, True, None, {}),
            ["net(weights=True) is deprecated; the same is written weights=Net_Weights.V1."],
        ),
        (
            (),
            {"pretrained_backbone": True},
            (None, True, Body_Weights.V1, {}),
            ["net(pretrained_backbone=True) is deprecated; the same is written weights_backbone=Body_Weights.V1."],
        ),
        (
            (),
            {"pretrained_backbone": True, "depth": 0},
            (None, True, None, {"depth": 0}),
            ["net(pretrained_backbone=True) is deprecated; the same is written weights_backbone=None."],
        ),
        (
            (Net_Weights.V2, False),
            {},
            (Net_Weights.V2, False, None, {}),
            ["net() got weights, progress by position, which is deprecated; write weights=..., progress=...."],
        ),
        (
            (True,),
            {"progress": False},
            (Net_Weights.V1, False, None, {}),
            [
                "net() got weights by position, which is deprecated; write weights=....",
                "net(weights=True) is deprecated; the same is written weights=Net_Weights.V1.",
            ],
        ),
    ],
)
def test_old_calls_mean_what_they_meant(
    args: tuple[Any, ...], kwargs: dict[str, Any], result: tuple[Any, ...], warned: list[str]
) -> None:
    assert called(*args, **kwargs) == (result, warned)


@pytest.mark.parametrize("call", [{"pretrained": True}, {"weights": True}, {"pretrained": "legacy"}])
def test_a_switch_that_never_had_weights_is_an_error_and_not_a_model_without_them(call: dict[str, Any]) -> None:
    @legacy_weights(weights=("pretrained", None))
    def huge(*, weights: Net_Weights | None = None) -> object:
        return weights

    with pytest.raises(ValueError, match=r"huge\(.*\) does not say which weights.* weights='DEFAULT'"):
        huge(**call)
    with pytest.warns(UserWarning, match="huge"):
        assert huge(pretrained=False) is None


def test_a_function_sees_what_the_switch_was_set_to() -> None:
    @legacy_weights(weights=("pretrained", lambda call: "V2" if call["pretrained"] == "old" else "V1"))
    def either(*, weights: Net_Weights | None = None) -> object:
        return weights

    with pytest.warns(UserWarning, match="is deprecated"):
        assert either(pretrained="old") is Net_Weights.V2
    with pytest.warns(UserWarning, match="is deprecated"):
        assert either(weights=True) is Net_Weights.V1


def test_a_switch_beside_what_replaced_it_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"got 'pretrained' and 'weights'; 'weights' replaced it"):
        net(pretrained=True, weights=Net_Weights.V2)


def test_too_many_positions_and_repeated_ones_are_errors() -> None:
    with pytest.raises(TypeError, match="at most 3 of its keyword-only parameters by position"):
        net(True, True, True, True)
    with pytest.raises(TypeError, match=r"got \['weights'\] by position and by keyword"):
        net(True, weights=None)


def test_a_parameter_that_the_builder_lacks_is_found_when_it_is_decorated() -> None:
    with pytest.raises(TypeError, match=r"bare\(\) has no parameters \['weights'\]"):

        @legacy_weights(weights=("pretrained", None))
        def bare(*, progress: bool = True) -> None: ...


def test_a_name_needs_an_enum_to_be_looked_up_in() -> None:
    @legacy_weights(weights=("pretrained", "V1"))
    def untyped(*, weights: Any = None) -> None: ...

    with pytest.raises(TypeError, match=r"parameter 'weights' is annotated with no weights enum to find 'V1'"):
        untyped(pretrained=True)


def test_the_decorated_builder_keeps_its_name_documentation_enum_and_place() -> None:
    assert (net.__name__, net.__doc__, get_model_weights(net)) == ("net", "A net.", Net_Weights)
    assert pickle.loads(pickle.dumps(net)) is net
