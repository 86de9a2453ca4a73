"""Registries: ids and short names, who registered what, and what is said when a name is not there."""

import importlib
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.core import (
    DATASETS,
    MODELS,
    TENSOR_TYPES,
    WEIGHTS,
    AmbiguousNameError,
    DuplicateNameError,
    Entry,
    Registry,
    RegistryError,
    UnknownNameError,
)
from flambeau.core.errors import ConfigError, PluginWarning
from flambeau.core.naming import address, filter_names, import_target, same_target


def build():
    """A target."""


def rebuild():
    """Another target."""


class Shade(Enum):
    """A target with members."""

    RED = 1
    CRIMSON = RED


@pytest.fixture
def registry():
    return Registry("models")


def models(*names, package="alpha_plugin"):
    return [{"name": name, "target": f"{package}.zoo:{name}"} for name in names]


# --- registering -----------------------------------------------------------------------------------------------------


def test_an_entry_has_an_id_of_plugin_and_name(registry):
    entry = registry.register("net", build, plugin="alpha", info={"task": "x"})
    assert entry == Entry("models", "alpha", "net", build, {"task": "x"}, f"module {__name__}")
    assert entry.id == "alpha/net"
    assert registry.entry("alpha/net") is registry.entry("net") is entry


def test_the_plugin_is_the_top_level_package_of_the_target(registry):
    assert registry.register("dumps", "json.encoder:JSONEncoder").id == "json/dumps"
    assert registry.register("net", build).plugin == __name__.partition(".")[0]


def test_what_a_script_or_a_notebook_defines_is_local(registry):
    build.__module__, kept = "__main__", build.__module__
    try:
        assert registry.register("net", build).id == "local/net"
    finally:
        build.__module__ = kept


def test_the_plugin_is_the_installed_one_whose_package_holds_the_target(site):
    site.plugin("alpha", package="company.vision_models", version="3.1", modules={"zoo.py": "def net(): ..."})
    site.discover()
    entry = MODELS.register("net", "company.vision_models.zoo:net")
    assert (entry.plugin, entry.origin) == ("alpha", "flambeau-alpha 3.1")


def test_a_package_with_a_longer_name_is_not_inside(site):
    site.plugin("alpha", package="pack")
    site.discover()
    assert MODELS.register("net", "package:net").plugin == "package"


def test_the_innermost_of_nested_plugins_owns_a_module(site):
    site.plugin("outer", package="pack")
    site.plugin("inner", package="pack.inner")
    site.discover()
    assert MODELS.register("net", "pack.inner.zoo:net").plugin == "inner"
    assert MODELS.register("net", "pack.zoo:net").plugin == "outer"


def test_a_canonical_id_may_be_given_as_the_name(registry):
    assert registry.register("alpha/net", build).id == "alpha/net"
    assert registry.register("alpha/net", build, plugin="alpha").id == "alpha/net"
    with pytest.raises(RegistryError, match="leave one of the two out"):
        registry.register("alpha/net", build, plugin="beta")


@pytest.mark.parametrize("name", ["", "two words", "a/b/c d", "line\n", "\x1b[31mred", "a:b:c", "-option", "x" * 300])
def test_a_name_that_could_not_be_typed_or_shown_is_refused(registry, name):
    with pytest.raises(RegistryError):
        registry.register(name, build, plugin="alpha")


def test_a_name_that_is_no_string_is_a_type_error(registry):
    with pytest.raises(TypeError, match="is a string, not 3"):
        registry.register(3, build)
    with pytest.raises(TypeError, match="is a string, not None"):
        registry.entry(None)


def test_a_second_target_for_a_name_is_refused_and_told_who_was_first(registry):
    registry.register("net", build, plugin="alpha")
    with pytest.raises(DuplicateNameError, match=r"alpha/net.*already registered by.*:build; .*:rebuild") as caught:
        registry.register("net", rebuild, plugin="alpha")
    assert "manifest" not in str(caught.value)
    assert registry.resolve("alpha/net") is build


def test_the_same_target_again_changes_nothing(registry):
    first = registry.register("net", build, plugin="alpha", info={"task": "x"})
    assert registry.register("net", build, plugin="alpha") == first
    assert registry.register("net", f"{__name__}:build", plugin="alpha") == first
    assert registry.info("net") == {"task": "x"}
    assert len(registry) == 1


def test_replace_takes_the_name_over(registry):
    registry.register("net", build, plugin="alpha", info={"task": "x"})
    registry.register("net", rebuild, plugin="alpha", replace=True)
    assert registry.resolve("net") is rebuild
    assert registry.info("net") == {}


def test_functions_made_inside_functions_are_told_apart(registry):
    def make():
        return lambda: None

    registry.register("net", make(), plugin="alpha")
    with pytest.raises(DuplicateNameError):
        registry.register("net", make(), plugin="alpha")


def test_one_name_in_two_plugins_is_two_entries(registry):
    registry.register("net", build, plugin="alpha")
    registry.register("net", rebuild, plugin="beta")
    assert list(registry) == ["alpha/net", "beta/net"]


# --- code beside manifests -------------------------------------------------------------------------------------------


def test_code_that_registers_what_its_manifest_declares_keeps_the_manifests_record(site):
    code = """
    from flambeau.core.registry import MODELS
    def net(): return "built"
    MODELS.register("net", net, info={"task": "said by code"})
    """
    record = {**models("net")[0], "task": "said by manifest", "tags": ["small"]}
    site.plugin("alpha", models=[record], modules={"__init__.py": "", "zoo.py": code})
    site.discover()
    assert MODELS.resolve("net")() == "built"
    assert MODELS.info("alpha/net") == record
    assert MODELS.entry("net").target == "alpha_plugin.zoo:net"
    assert len(MODELS) == 1
    assert [entry.info for entry in MODELS.registrations()] == [{"task": "said by code"}]


def test_a_reloaded_module_brings_its_new_objects(site):
    code = "from flambeau.core.registry import MODELS\ndef net(): ...\nMODELS.register('net', net)\n"
    site.plugin("alpha", models=models("net"), modules={"__init__.py": "", "zoo.py": code})
    site.discover()
    before = MODELS.resolve("net")
    module = importlib.reload(sys.modules["alpha_plugin.zoo"])
    assert MODELS.resolve("net") is module.net is not before


def test_a_reloaded_module_without_a_manifest_may_say_something_new(registry):
    namespace = {"__name__": "notebook"}
    for task in ("old", "new"):
        exec("def net(): ...", namespace)
        registry.register("net", namespace["net"], info={"task": task})
    assert registry.resolve("net") is namespace["net"]
    assert registry.info("net") == {"task": "new"}


def test_code_cannot_take_a_manifests_name_for_another_target(site):
    site.plugin("alpha", models=models("net"))
    site.discover()
    with pytest.raises(DuplicateNameError, match=r"flambeau-alpha 1\.0 for alpha_plugin\.zoo:net.*manifest build"):
        MODELS.register("net", build, plugin="alpha")
    MODELS.register("net", build, plugin="alpha", replace=True)
    assert MODELS.resolve("alpha/net") is build


def test_the_four_registries_hold_what_manifests_declare(site):
    member = {"model": "net", "enum": "alpha_plugin.facts:Net_Weights", "name": "V1", "url": "https://e.x/a.pth"}
    site.plugin(
        "alpha",
        models=models("net"),
        weights=[member],
        datasets=[{"name": "toy", "target": "alpha_plugin:Toy"}],
        tensor_types=[{"name": "wave", "target": "alpha_plugin:Wave"}],
    )
    site.discover()
    assert [registry.names() for registry in (MODELS, WEIGHTS, DATASETS, TENSOR_TYPES)] == [
        ["alpha/net"],
        ["alpha/net:V1"],
        ["alpha/toy"],
        ["alpha/wave"],
    ]
    assert WEIGHTS.entry("net:V1").target == "alpha_plugin.facts:Net_Weights.V1"
    assert WEIGHTS.info("net:V1") == member
    assert "alpha_plugin" not in sys.modules


def test_a_registry_of_ones_own_holds_nothing_of_the_plugins(site):
    site.plugin("alpha", models=models("net"))
    site.discover()
    assert len(Registry("models")) == 0


def test_entries_of_a_switched_off_plugin_are_hidden_even_when_its_code_runs(site, monkeypatch):
    site.plugin("alpha", models=models("net"))
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "alpha")
    site.discover()
    MODELS.register("other", "alpha_plugin.zoo:other")
    assert MODELS.names() == []
    assert [entry.id for entry in MODELS.registrations()] == ["alpha/other"]
    monkeypatch.delenv("FLAMBEAU_DISABLE_PLUGINS")
    site.discover()
    assert MODELS.names() == ["alpha/net", "alpha/other"]


def test_a_function_that_is_wrapped_after_it_registered_stays_the_registered_one(site):
    code = """
    from flambeau.core.registry import MODELS
    def register(function):
        MODELS.register("net", function)
        return function
    def wrap(function): return "wrapped"
    @wrap
    @register
    def net(): ...
    """
    site.plugin("alpha", models=models("net"), modules={"__init__.py": "", "zoo.py": code})
    site.discover()
    assert MODELS.resolve("net").__name__ == "net"
    site.discover()
    assert MODELS.resolve("net").__name__ == "net"


# --- looking up ------------------------------------------------------------------------------------------------------


def test_resolving_imports_the_module_on_first_use_alone(site):
    site.plugin("alpha", models=models("net"), modules={"__init__.py": "", "zoo.py": "class net: ..."})
    site.discover()
    assert MODELS.info("net")
    assert "alpha_plugin" not in sys.modules
    assert MODELS.resolve("net") is MODELS.resolve("alpha/net") is sys.modules["alpha_plugin.zoo"].net


def test_listing_testing_and_iterating_import_nothing(site):
    site.plugin("alpha", models=models("b", "a"))
    site.discover()
    assert list(MODELS) == MODELS.names() == ["alpha/a", "alpha/b"]
    assert "alpha/a" in MODELS
    assert "a" in MODELS
    assert [entry.name for entry in MODELS.entries(plugin="alpha")] == ["a", "b"]
    assert MODELS.entries(plugin="beta") == []
    assert "alpha_plugin" not in sys.modules


def test_names_are_case_sensitive(registry):
    registry.register("Net", build, plugin="alpha")
    assert "net" not in registry
    with pytest.raises(UnknownNameError, match="Close names: alpha/Net"):
        registry.entry("net")


def test_what_is_no_string_is_not_in_a_registry(registry):
    assert None not in registry
    assert 3 not in registry


def test_a_default_member_and_aliases_are_found_but_not_listed(site):
    member = {"model": "net", "enum": "alpha_plugin:W", "url": "https://e.x/a.pth"}
    records = [member | {"name": "V1"}, member | {"name": "V2", "default": True, "aliases": ["LATEST"]}]
    site.plugin("alpha", models=models("net"), weights=records)
    site.discover()
    assert WEIGHTS.names() == ["alpha/net:V1", "alpha/net:V2"]
    for name in ("alpha/net:DEFAULT", "net:DEFAULT", "net:LATEST", "alpha/net:LATEST"):
        assert WEIGHTS.entry(name).id == "alpha/net:V2"


def test_an_ambiguous_short_name_lists_the_candidates_with_their_distributions(site):
    site.plugin("alpha", version="1.5", models=models("net"))
    site.plugin("vision", models=models("net"))
    site.discover()
    with pytest.raises(AmbiguousNameError) as caught:
        MODELS.entry("net")
    for part in ("alpha/net (flambeau-alpha 1.5)", "vision/net (flambeau-vision 1.0)", '"prefer": {"net": "alpha"}'):
        assert part in str(caught.value)
    assert "net" in MODELS
    assert MODELS.entry("vision/net").plugin == "vision"


def test_the_users_choice_settles_an_ambiguous_name_and_its_weights(site):
    member = {"enum": "m:W", "name": "V1", "url": "https://e.x/a.pth", "model": "net"}
    for name in ("alpha", "beta"):
        site.plugin(name, models=models("net", "other"), weights=[member, member | {"model": "other"}])
    site.configure({"registry": {"prefer": {"net": "beta"}}})
    site.discover()
    assert MODELS.entry("net").plugin == "beta"
    assert WEIGHTS.entry("net:V1").plugin == "beta"
    with pytest.raises(AmbiguousNameError):
        MODELS.entry("other")


def test_a_choice_of_a_plugin_that_lacks_the_name_settles_nothing(site):
    site.plugin("alpha", models=models("net"))
    site.plugin("beta", models=models("net"))
    site.configure({"registry": {"prefer": {"net": "gamma"}}})
    site.discover()
    with pytest.raises(AmbiguousNameError):
        MODELS.entry("net")


@pytest.mark.parametrize("section", [[], {"prefer": ["net"]}, "alpha"])
def test_a_damaged_choice_is_named(site, section):
    site.plugin("alpha", models=models("net"))
    site.plugin("beta", models=models("net"))
    site.configure({"registry": section})
    site.discover()
    with pytest.raises(ConfigError, match=r"config\.json.*prefer"):
        MODELS.entry("net")


def test_unregistering_removes_an_entry_for_good_until_it_is_registered_again(site):
    site.plugin("alpha", models=models("net"))
    site.discover()
    MODELS.unregister("alpha/net")
    assert len(MODELS) == 0
    site.discover()
    assert len(MODELS) == 0
    MODELS.register("net", "alpha_plugin.zoo:net")
    assert MODELS.info("net") == models("net")[0]


def test_unregistering_what_is_not_there_is_an_error(registry):
    with pytest.raises(UnknownNameError):
        registry.unregister("net")


# --- names that are not there ----------------------------------------------------------------------------------------


def test_an_unknown_name_is_all_the_errors_that_upstreams_callers_catch(registry):
    for kind in (RegistryError, LookupError, KeyError, ValueError):
        with pytest.raises(kind):
            registry.resolve("net")


def test_the_three_closest_names_are_suggested_best_first(site):
    site.plugin("vision", models=models("resnet50", "resnet18", "resnet101", "resnext50", "vgg11"))
    site.discover()
    with pytest.raises(UnknownNameError, match=r"no model 'resnet5O'\. Close names: vision/resnet50, ") as caught:
        MODELS.entry("resnet5O")
    assert str(caught.value).count("vision/") == 3
    assert "vgg" not in str(caught.value)


def test_within_a_plugin_its_own_names_are_suggested_then_those_of_others(site):
    site.plugin("alpha", models=models("apple"))
    site.plugin("beta", models=models("apples", "pear"))
    site.discover()
    with pytest.raises(UnknownNameError, match="Close names: beta/pear"):
        MODELS.entry("beta/peer")
    with pytest.raises(UnknownNameError, match="Close names: beta/apples"):
        MODELS.entry("beta/apple_")
    with pytest.raises(UnknownNameError, match="Close names: beta/pear"):
        MODELS.entry("alpha/pear")


def test_a_name_with_nothing_near_says_where_to_look(site):
    with pytest.raises(UnknownNameError, match="`flambeau datasets` lists all"):
        DATASETS.entry("xyz")


UNUSABLE = {
    "broken": ({"requires": []}, "is broken"),
    "incompatible": ({"api": "7.0"}, "upgrade flambeau-core"),
    "disabled": ({}, "switched off by FLAMBEAU_DISABLE_PLUGINS"),
}


@pytest.mark.parametrize("asked", ["net", "alpha/net", "net:V1", "alpha/net:DEFAULT"])
@pytest.mark.parametrize(("state", "keys", "reason"), [(s, *rest) for s, rest in UNUSABLE.items()])
def test_a_name_of_a_plugin_that_takes_no_part_is_answered_with_the_reason(
    site, monkeypatch, asked, state, keys, reason
):
    member = {"model": "net", "enum": "m:W", "name": "V1", "url": "https://e.x/a.pth", "default": True}
    head = {"schema": 1, "plugin": "alpha", "api": "1.0", "models": models("net"), "weights": [member]}
    site.plugin("alpha", manifest=head | keys)
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "alpha" if state == "disabled" else "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        assert site.discover()["alpha"].state == state
    registry = WEIGHTS if ":" in asked else MODELS
    with pytest.raises(UnknownNameError, match=r"Plugin 'alpha' \(flambeau-alpha 1\.0\)") as caught:
        registry.entry(asked)
    assert reason in str(caught.value)


def test_a_short_name_that_no_plugin_declares_blames_none(site, monkeypatch):
    site.plugin("alpha", models=models("net"))
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "alpha")
    site.discover()
    with pytest.raises(UnknownNameError) as caught:
        MODELS.entry("something")
    assert "alpha" not in str(caught.value)


def test_a_shadowed_plugin_is_named_for_what_it_alone_would_offer(site):
    site.plugin("alpha", models=models("net"))
    site.plugin("alpha", distribution="other-alpha", package="other", models=models("special"))
    with pytest.warns(PluginWarning):
        site.discover()
    with pytest.raises(UnknownNameError, match=r"other-alpha 1\.0\) is shadowed"):
        MODELS.entry("alpha/special")
    with pytest.raises(UnknownNameError) as caught:
        MODELS.entry("alpha/nothing")
    assert "shadowed" not in str(caught.value)


@pytest.mark.parametrize("records", ['"x"', "{}", "[1, null]", '[{"name": 3}]', '[{"name": "net", "aliases": 5}]'])
def test_a_hostile_manifest_does_not_disturb_the_search_for_a_reason(site, records):
    text = f'{{"schema": 1, "plugin": "alpha", "api": "1.0", "requires": [], "models": {records}}}'
    site.plugin("alpha", manifest=text)
    with pytest.warns(PluginWarning):
        site.discover()
    with pytest.raises(UnknownNameError):
        MODELS.entry("something")


def test_a_missing_first_party_plugin_is_answered_with_the_install_command(site):
    with pytest.raises(UnknownNameError) as caught:
        MODELS.entry("audio/hubert_base")
    assert "'audio/hubert_base'" in str(caught.value)
    assert f"{sys.executable} -m pip install flambeau-audio" in str(caught.value)


def test_an_unknown_plugin_is_answered_with_the_installed_ones(site):
    site.plugin("alpha", models=models("net"))
    site.discover()
    with pytest.raises(UnknownNameError, match=r"No plugin 'alhpa' is installed\. Close names: alpha"):
        MODELS.entry("alhpa/net")


def test_a_stale_manifest_is_named_when_its_target_is_not_there(site):
    site.plugin("alpha", models=models("gone"), modules={"__init__.py": "", "zoo.py": ""})
    site.discover()
    with pytest.raises(RegistryError, match=r"alpha/gone of flambeau-alpha 1\.0.*no 'gone' in.*out of date"):
        MODELS.resolve("gone")


def test_an_import_error_comes_through_with_the_entry_that_was_wanted(site):
    site.plugin("alpha", models=models("net"), modules={"__init__.py": "", "zoo.py": "import not_there_at_all"})
    site.discover()
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all") as caught:
        MODELS.resolve("net")
    assert caught.value.__notes__ == ["While importing alpha/net of flambeau-alpha 1.0."]


@pytest.mark.parametrize("target", ["nothing", ":x", "json:", ""])
def test_a_target_of_another_form_is_refused_when_it_is_needed(registry, target):
    registry.register("net", target, plugin="alpha")
    with pytest.raises(RegistryError, match="not of the form"):
        registry.resolve("net")


# --- names, addresses, filters ---------------------------------------------------------------------------------------


def test_the_address_of_a_target_leads_back_to_it():
    for target in (build, Shade, Shade.RED, Registry.register):
        assert import_target(address(target)) is target


@pytest.mark.parametrize("target", [lambda: 0, 3, Registry("models"), [build]])
def test_what_cannot_be_imported_has_no_address(target):
    assert address(target) is None
    assert same_target(target, target)
    assert not same_target(target, lambda: 0)


def test_an_alias_of_an_enum_member_stands_at_its_members_address():
    assert address(Shade.CRIMSON) == address(Shade.RED) == f"{__name__}:Shade.RED"


NAMES = ["resnet18", "resnet50", "vgg11", "vit_b"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (None, None, NAMES),
        ("resnet*", None, ["resnet18", "resnet50"]),
        (["resnet18", "v*"], None, ["resnet18", "vgg11", "vit_b"]),
        ([], None, []),
        (None, [], NAMES),
        (None, "v*", ["resnet18", "resnet50"]),
        ("r*", ("*50",), ["resnet18"]),
        (iter(["vgg*", "vit*"]), iter(["*11"]), ["vit_b"]),
        ("RESNET*", None, []),
    ],
)
def test_patterns_include_first_and_then_exclude(include, exclude, expected):
    assert filter_names(reversed(NAMES), include, exclude) == expected


def test_threads_may_register_and_look_up_at_once(registry):
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()
        for index in range(50):
            registry.register(f"net{number}_{index}", [number, index], plugin="alpha")
            assert registry.resolve(f"alpha/net{number}_{index}") == [number, index]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(registry) == 400


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
plugin_names = st.from_regex(r"[a-z][a-z0-9_-]{0,4}", fullmatch=True)


@given(st.dictionaries(st.tuples(plugin_names, names), st.integers(), max_size=12))
def test_every_entry_is_found_by_its_id_and_by_its_short_name_unless_that_is_ambiguous(contents):
    registry = Registry("models")
    for (plugin, name), value in contents.items():
        registry.register(name, [value], plugin=plugin)
    assert list(registry) == sorted(f"{plugin}/{name}" for plugin, name in contents)
    assert len(registry) == len(contents)
    for (plugin, name), value in contents.items():
        assert registry.resolve(f"{plugin}/{name}") == [value]
        if sum(other == name for _, other in contents) == 1:
            assert registry.entry(name).plugin == plugin
        else:
            with pytest.raises(AmbiguousNameError):
                registry.entry(name)


@given(st.lists(st.tuples(st.sampled_from(["register", "unregister", "replace"]), st.sampled_from("abc")), max_size=20))
def test_a_registry_behaves_like_a_dictionary_that_refuses_to_overwrite(steps):
    registry, model = Registry("models"), {}
    for number, (step, name) in enumerate(steps):
        target = [number]
        if step == "unregister" and name in model:
            registry.unregister(f"p/{name}")
            del model[name]
        elif step == "replace" or (step == "register" and name not in model):
            registry.register(name, target, plugin="p", replace=step == "replace")
            model[name] = target
        else:
            with pytest.raises(RegistryError):
                if step == "register":
                    registry.register(name, target, plugin="p")
                else:
                    registry.unregister(f"p/{name}")
        assert {entry.name: entry.target for entry in registry.entries()} == model
