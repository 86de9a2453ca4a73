"""Models and weights by name: what code registers, what manifests declare, of all plugins or of one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Optional

import pytest
from torch import nn

from flambeau.core.errors import AmbiguousNameError, DuplicateNameError, UnknownNameError
from flambeau.core.registry import MODELS, WEIGHTS
from flambeau.core.weights import (
    Catalogue,
    Weights,
    WeightsEnum,
    get_model,
    get_model_builder,
    get_model_weights,
    get_weight,
    list_models,
    list_weights,
    register_model,
)


class Bulb_Weights(WeightsEnum):
    V1 = Weights("https://host.example/bulb1.pth", dict, {"categories": ["a", "b"]})
    V2 = Weights("https://host.example/bulb2.pth", dict, {"categories": ["a", "b"]})
    DEFAULT = V2


class Bulb(nn.Linear):
    def __init__(self, num_classes: int = 2) -> None:
        super().__init__(3, num_classes)


def bulb(*, weights: Bulb_Weights | None = None, progress: bool = True, **config: Any) -> Bulb:
    """A bulb."""
    model = Bulb(**config)
    model.chosen = Bulb_Weights.verify(weights)  # type: ignore[assignment]
    return model


def bare(**config: Any) -> nn.Module:
    return nn.Linear(1, 1)


ZOO = {
    "weights.py": """
        from flambeau.core.weights import Weights, WeightsEnum

        class Net_Weights(WeightsEnum):
            V1 = Weights("https://host.example/net1.pth", dict, {})
            V2 = Weights("https://host.example/net2.pth", dict, {})
            DEFAULT = V2
    """,
    "models/__init__.py": "",
    "models/net.py": """
        from ..weights import Net_Weights

        def net(*, weights: Net_Weights | None = None, **config):
            return ("net", weights, config)
    """,
    "models/small/__init__.py": "",
    "models/small/tiny.py": """
        def tiny_net(*, weights=None, **config):
            return ("tiny", weights, config)
    """,
}


def zoo(site: Any, plugin: str) -> str:
    """Install a plugin with two models, one of them with weights; returns its package's name."""
    package = f"{plugin}_plugin"
    enum = f"{package}.weights:Net_Weights"
    models = [
        {"name": "net", "target": f"{package}.models.net:net", "weights": enum, "task": "t"},
        {"name": "tiny_net", "target": f"{package}.models.small.tiny:tiny_net", "weights": None},
    ]
    facts = {"model": "net", "enum": enum, "url": "https://host.example/net.pth"}
    weights = [{**facts, "name": "V1"}, {**facts, "name": "V2", "default": True, "aliases": ["DEFAULT"]}]
    site.add(plugin, {"models": models, "weights": weights}, modules=ZOO)
    return package


class TestRegisteringInCode:
    def test_a_builder_is_found_by_its_name_with_the_weights_of_its_annotation(self, site: Any) -> None:
        assert register_model()(bulb) is bulb
        plugin = MODELS.entry("bulb").plugin
        assert get_model_builder("bulb") is bulb
        assert get_model_weights("bulb") is Bulb_Weights
        assert list_models() == [f"{plugin}/bulb"]
        assert list_weights() == [f"{plugin}/bulb:V1", f"{plugin}/bulb:V2"]

    def test_another_name_task_and_tags_can_be_given(self, site: Any) -> None:
        register_model("torch", task="lighting", tags=("old",))(bulb)
        info = MODELS.info("torch")
        assert (info["task"], info["tags"], info["docs"]) == ("lighting", ["old"], "A bulb.")
        assert WEIGHTS.info("torch:V1")["task"] == "lighting"

    def test_a_builder_without_weights_is_a_model_all_the_same(self, site: Any) -> None:
        register_model()(bare)
        assert isinstance(get_model("bare"), nn.Linear)
        with pytest.raises(UnknownNameError, match=r"model 'bare' has no weights"):
            get_model_weights("bare")

    def test_two_models_of_one_name_in_one_plugin_are_refused(self, site: Any) -> None:
        register_model("bulb")(bulb)
        with pytest.raises(DuplicateNameError):
            register_model("bulb")(bare)

    def test_registering_the_same_builder_again_changes_nothing(self, site: Any) -> None:
        register_model()(bulb)
        register_model()(bulb)
        assert len(list_models()) == 1

    def test_forgetting_the_parentheses_is_told(self) -> None:
        with pytest.raises(TypeError, match=r"write @register_model\(\)"):
            register_model(bulb)  # type: ignore[arg-type]

    def test_annotations_may_be_strings_optional_or_beside_names_that_do_not_exist(self, site: Any) -> None:
        def one(*, weights: Optional[Bulb_Weights] = None, other: NoSuchName = None) -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP045
        def two(*, weights: Bulb_Weights) -> None: ...
        def none(*, weights: str | None = None) -> None: ...

        assert get_model_weights(one) is get_model_weights(two) is get_model_weights(bulb) is Bulb_Weights
        with pytest.raises(ValueError, match="has no weights"):
            get_model_weights(none)


class TestManifests:
    def test_listing_imports_nothing_of_the_plugin(self, site: Any) -> None:
        package = zoo(site, "alpha")
        assert list_models() == ["alpha/net", "alpha/tiny_net"]
        assert list_weights(model="net") == ["alpha/net:V1", "alpha/net:V2"]
        assert package not in sys.modules

    def test_getting_a_weight_imports_the_enums_module_alone(self, site: Any) -> None:
        package = zoo(site, "alpha")
        assert get_weight("net:V1").url == "https://host.example/net1.pth"
        assert get_model_weights("net").__name__ == "Net_Weights"
        assert f"{package}.weights" in sys.modules
        assert f"{package}.models" not in sys.modules

    @pytest.mark.parametrize(
        "name",
        [
            "Net_Weights.V2",
            "Net_Weights.DEFAULT",
            "alpha/Net_Weights.V2",
            "alpha/Net_Weights.DEFAULT",
            "net:V2",
            "net:DEFAULT",
            "alpha/net:V2",
            "alpha/net:DEFAULT",
        ],
    )
    def test_a_weight_has_many_names(self, site: Any, name: str) -> None:
        zoo(site, "alpha")
        assert repr(get_weight(name)) == "Net_Weights.V2"

    @pytest.mark.parametrize("name", ["Net_Weights.V3", "net:V3", "nett:V1", "Nett_Weights.V1", "net", "", "a/b/c"])
    def test_an_unknown_weight_is_a_value_error_too(self, site: Any, name: str) -> None:
        zoo(site, "alpha")
        for kind in (ValueError, KeyError, LookupError):
            with pytest.raises(kind, match="no weights"):
                get_weight(name)

    def test_near_names_are_suggested(self, site: Any) -> None:
        zoo(site, "alpha")
        with pytest.raises(UnknownNameError, match=r"Close names: Net_Weights\.V2"):
            get_weight("Net_Weigths.V2")
        with pytest.raises(UnknownNameError, match=r"Close names: alpha/net:V1"):
            get_weight("nett:V1")

    def test_a_builder_gets_its_configuration(self, site: Any) -> None:
        zoo(site, "alpha")
        assert get_model("net", depth=3) == ("net", None, {"depth": 3})
        kind, weights, config = get_model("net", weights="DEFAULT", depth=3)
        assert (kind, repr(weights), config) == ("net", "Net_Weights.V2", {"depth": 3})

    def test_names_that_two_plugins_have_need_the_plugin(self, site: Any) -> None:
        zoo(site, "alpha")
        zoo(site, "beta")
        for lookup, name in ((get_model_builder, "net"), (get_weight, "net:V1"), (get_weight, "Net_Weights.V1")):
            with pytest.raises(AmbiguousNameError, match=r"alpha/net.*beta/net"):
                lookup(name)
        assert type(get_weight("beta/Net_Weights.V1")).__module__ == "beta_plugin.weights"
        assert type(get_weight("alpha/net:V1")).__module__ == "alpha_plugin.weights"

    def test_a_choice_in_the_configuration_settles_it(self, site: Any) -> None:
        zoo(site, "alpha")
        zoo(site, "beta")
        site.configure({"registry": {"prefer": {"net": "beta"}}})
        for name in ("net:V1", "net:DEFAULT", "Net_Weights.V1"):
            assert type(get_weight(name)).__module__ == "beta_plugin.weights"

    def test_an_enum_of_no_registered_model_is_found_where_it_is_defined(self, site: Any) -> None:
        assert get_weight("Bulb_Weights.DEFAULT") is Bulb_Weights.V2

    def test_two_such_enums_of_one_name_are_ambiguous_unless_one_replaced_the_other(
        self, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = ModuleType("elsewhere")
        module.Bulb_Weights = copy_of_enum("elsewhere")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "elsewhere", module)
        with pytest.raises(AmbiguousNameError, match=r"elsewhere:Bulb_Weights"):
            get_weight("Bulb_Weights.V1")
        monkeypatch.delitem(sys.modules, "elsewhere")
        assert get_weight("Bulb_Weights.V1") is Bulb_Weights.V1


def copy_of_enum(module: str) -> type[WeightsEnum]:
    """Another class that looks like `Bulb_Weights`."""

    class Bulb_Weights(WeightsEnum):
        V1 = Weights("u", dict, {})

    Bulb_Weights.__module__, Bulb_Weights.__qualname__ = module, "Bulb_Weights"
    return Bulb_Weights


class TestListModels:
    @pytest.mark.parametrize(
        ("filters", "names"),
        [
            ({}, ["alpha/net", "alpha/tiny_net", "beta/net", "beta/tiny_net"]),
            ({"include": "net"}, ["alpha/net", "beta/net"]),
            ({"include": "alpha/*"}, ["alpha/net", "alpha/tiny_net"]),
            ({"include": ["tiny*", "alpha/net"]}, ["alpha/net", "alpha/tiny_net", "beta/tiny_net"]),
            ({"include": []}, ["alpha/net", "alpha/tiny_net", "beta/net", "beta/tiny_net"]),
            ({"exclude": "*net"}, []),
            ({"exclude": ["net", "beta/*"]}, ["alpha/tiny_net"]),
            ({"exclude": []}, ["alpha/net", "alpha/tiny_net", "beta/net", "beta/tiny_net"]),
            ({"include": "*net", "exclude": "tiny*"}, ["alpha/net", "beta/net"]),
            ({"include": "NET"}, []),
            ({"module": "alpha"}, ["net", "tiny_net"]),
            ({"module": "alpha_plugin.models"}, ["net"]),
            ({"module": "alpha_plugin.models.small"}, ["tiny_net"]),
            ({"module": "alpha_plugin.models.net"}, ["net"]),
            ({"module": "alpha", "exclude": "tiny*"}, ["net"]),
        ],
    )
    def test_filters_are_shell_patterns_over_short_and_full_names(
        self, site: Any, filters: dict[str, Any], names: list[str]
    ) -> None:
        zoo(site, "alpha")
        zoo(site, "beta")
        assert list_models(**filters) == names

    def test_a_module_object_means_what_its_name_means(self, site: Any) -> None:
        zoo(site, "alpha")
        import alpha_plugin.models  # type: ignore[import-not-found]

        assert list_models(alpha_plugin.models) == ["net"]
        assert list_models(sys.modules[__name__]) == []

    def test_a_string_that_names_nothing_is_an_error_with_a_suggestion(self, site: Any) -> None:
        zoo(site, "alpha")
        with pytest.raises(UnknownNameError, match=r"no models in 'alpa'.*Close names: alpha"):
            list_models("alpa")


class TestOnePluginsCatalogue:
    def test_it_sees_its_plugin_alone_by_short_names(self, site: Any) -> None:
        zoo(site, "alpha")
        zoo(site, "beta")
        beta = Catalogue("beta")
        assert beta.list_models() == ["net", "tiny_net"]
        assert beta.list_weights() == ["beta/net:V1", "beta/net:V2"]
        assert type(beta.get_weight("net:DEFAULT")).__module__ == "beta_plugin.weights"
        assert type(beta.get_weight("Net_Weights.V1")).__module__ == "beta_plugin.weights"
        assert beta.get_model_weights("net").__module__ == "beta_plugin.weights"
        assert beta.get_model_builder("net").__module__ == "beta_plugin.models.net"

    def test_other_plugins_names_are_unknown_to_it(self, site: Any) -> None:
        zoo(site, "alpha")
        site.add("beta")
        for lookup in (Catalogue("beta").get_model, Catalogue("beta").get_model_weights):
            with pytest.raises(UnknownNameError, match="beta/net"):
                lookup("net")
        for name in ("net:V1", "Net_Weights.V1"):
            with pytest.raises(UnknownNameError, match="no weights"):
                Catalogue("beta").get_weight(name)

    def test_what_it_registers_belongs_to_its_plugin(self, site: Any) -> None:
        site.add("beta")
        Catalogue("beta").register_model()(bulb)
        assert list_models() == ["beta/bulb"]
        assert Catalogue("beta").get_model("bulb", weights="V1").chosen is Bulb_Weights.V1


def test_weights_load_the_model_they_belong_to(site: Any) -> None:
    register_model()(bulb)
    model = Bulb_Weights.V1.load()
    assert isinstance(model, Bulb)
    assert model.chosen is Bulb_Weights.V1


def test_weights_of_no_registered_model_say_so(site: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"no registered model has the weights Bulb_Weights"):
        Bulb_Weights.V1.load()


class Lamp_Weights(WeightsEnum):
    V1 = Weights("https://host.example/lamp1.pth", dict, {"categories": ["a", "b"]})
    DEFAULT = V1


def test_a_builder_with_several_enums_chooses_what_a_name_means(site: Any) -> None:
    def light(*, weights: Bulb_Weights | Lamp_Weights | None = None, old: bool = False) -> Bulb:
        model = Bulb()
        model.chosen = (Bulb_Weights if old else Lamp_Weights).verify(weights)  # type: ignore[assignment]
        return model

    light.__annotations__["weights"] = Bulb_Weights | Lamp_Weights | None
    register_model()(light)
    assert get_model_weights("light") is Bulb_Weights
    assert get_model("light", weights="DEFAULT", old=True).chosen is Bulb_Weights.V2
    assert get_model("light", weights="DEFAULT").chosen is Lamp_Weights.V1
    assert get_model("light", weights="light:V1", old=True).chosen is Bulb_Weights.V1
    with pytest.raises(UnknownNameError, match="V2"):
        get_model("light", weights="V2")


UNANNOTATED = {
    "weights.py": ZOO["weights.py"],
    "models/__init__.py": "",
    "models/net.py": """
        def net(*, weights=None, **config):
            return ("net", weights, config)
    """,
}


def test_the_enum_that_a_manifests_model_names_is_used_without_annotation_and_without_records(site: Any) -> None:
    enum = "quiet_plugin.weights:Net_Weights"
    site.add(
        "quiet",
        {"models": [{"name": "net", "target": "quiet_plugin.models.net:net", "weights": enum}]},
        modules=UNANNOTATED,
    )

    member = get_weight("Net_Weights.DEFAULT")

    assert repr(member) == "Net_Weights.V2"
    assert get_weight("net:V2") is get_weight("quiet/net:DEFAULT") is get_weight("quiet/Net_Weights.V2") is member
    assert get_model("net", weights="V2") == ("net", member, {})
    assert get_model("net", weights="DEFAULT") == ("net", member, {})
    with pytest.raises(UnknownNameError):
        get_weight("net:V9")
    with pytest.raises(UnknownNameError):
        get_weight("Net_Weights.V9")
