"""Discovery, states and isolation of plugins; their hooks are in test_hookspecs.py."""

import json
import os
import shutil
import sys
import threading
import warnings
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from flambeau.core import discover, get_plugin, load_plugin
from flambeau.core.errors import ConfigError, ManifestError, PluginError, PluginWarning
from flambeau.core.plugins import contributions, discovery, distributions, manager, manifest_of
from flambeau.core.plugins.requirements import satisfies
from flambeau.core.registry import MODELS

MODEL = {"name": "net", "target": "alpha_plugin.zoo:net"}


def quiet(site):
    """Discover without a word about broken plugins."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return site.discover()


def test_a_plugin_is_known_by_its_manifest_and_not_imported(site):
    path = site.plugin("alpha", version="2.5", home_page="https://alpha.example", models=[MODEL])
    plugin = site.discover()["alpha"]
    assert (plugin.name, plugin.distribution, plugin.version) == ("alpha", "flambeau-alpha", "2.5")
    assert (plugin.package, plugin.manifest_path, plugin.api) == ("alpha_plugin", path, "1.0")
    assert (plugin.state, plugin.error, plugin.home_page) == ("ok", None, "https://alpha.example")
    assert MODELS.names() == ["alpha/net"]
    assert "alpha_plugin" not in sys.modules


def test_parent_packages_are_not_imported_either(site):
    site.distribution("holder", files={"holder/__init__.py": "raise AssertionError('the parent was imported')"})
    site.plugin("inner", package="holder.inner")
    assert site.discover()["inner"].state == "ok"
    assert "holder" not in sys.modules


@pytest.mark.parametrize("package", ["spaced.plugin_a", "spaced.deep.plugin_b"])
def test_a_manifest_may_lie_in_a_namespace_package(site, package):
    site.plugin("alpha", package=package)
    assert site.discover()["alpha"].state == "ok"


def test_a_package_known_to_an_import_hook_alone_is_found(site, monkeypatch):
    # Some editable installations put no folder on sys.path.
    from importlib.machinery import ModuleSpec

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "elsewhere":
                return None
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(site.folder / "moved")]
            return spec

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    site.distribution("elsewhere", entry_points={"flambeau.manifest": {"elsewhere": "elsewhere:facts.json"}})
    site.folder.joinpath("moved").mkdir()
    site.folder.joinpath("moved/facts.json").write_text('{"schema": 1, "plugin": "elsewhere", "api": "1.0"}')
    assert site.discover()["elsewhere"].state == "ok"


def test_discovery_is_done_once_until_a_refresh_is_asked_for(site):
    site.plugin("alpha")
    assert "alpha" not in discover()
    assert "alpha" in discover(refresh=True)
    assert "alpha" in discover()


def test_what_discover_returns_can_be_changed_without_harm(site):
    site.plugin("alpha")
    site.discover().clear()
    assert "alpha" in discover()


def test_the_list_is_sorted_and_empty_without_plugins(site):
    assert discover() == {}
    for name in ("gamma", "alpha", "beta"):
        site.plugin(name)
    assert list(site.discover()) == ["alpha", "beta", "gamma"]


def test_an_installation_in_place_is_recognised(site):
    site.plugin("alpha", editable=True)
    site.plugin("beta")
    plugins = site.discover()
    assert plugins["alpha"].editable
    assert not plugins["beta"].editable


@pytest.mark.parametrize("text", ["[1]", "{", '{"dir_info": 5}', '{"dir_info": {"editable": "yes"}}'])
def test_a_damaged_record_of_the_installation_is_no_matter(site, text):
    site.plugin("alpha", editable=True)
    next(site.folder.glob("*.dist-info")).joinpath("direct_url.json").write_text(text)
    plugin = site.discover()["alpha"]
    assert (plugin.state, plugin.editable) == ("ok", False)


BROKEN = {
    "no JSON": ({"manifest": "{not json"}, "not valid JSON"),
    "another type": ({"manifest": "[]"}, "$ is a list, expected an object"),
    "missing key": ({"manifest": {"plugin": "bad", "api": "1.0"}}, "$.schema is missing"),
    "wrong type": ({"models": [{"name": 3, "target": "m:f"}]}, "$.models[0].name is 3"),
    "another plugin's manifest": ({"manifest": {"schema": 1, "plugin": "good", "api": "1.0"}}, "$.plugin is 'good'"),
    "bad specifier": ({"requires": {"torch": "new"}}, "$.requires.torch"),
    "same name twice": ({"models": [MODEL, MODEL]}, "$.models[1] and $.models[0] are both named 'net'"),
    "no version": ({"manifest": {"schema": 1, "plugin": "bad", "api": "one"}}, "$.api is 'one'"),
}


@pytest.mark.parametrize(("keys", "cause"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plugin_keeps_its_cause_and_leaves_the_others_alone(site, keys, cause):
    site.plugin("bad", **keys)
    site.plugin("good", models=[{"name": "net", "target": "good_plugin:net"}])
    with pytest.warns(PluginWarning, match="'bad'"):
        plugins = site.discover()
    assert plugins["bad"].state == "broken"
    assert isinstance(plugins["bad"].error, (ManifestError, PluginError))
    assert cause in str(plugins["bad"].error)
    assert plugins["good"].state == "ok"
    assert MODELS.names() == ["good/net"]


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("nowhere:facts.json", "its package 'nowhere' cannot be found; reinstall flambeau-bad"),
        ("nowhere.at.all:facts.json", "cannot be found"),
        ("bad_plugin:absent.json", "its manifest absent.json is not in"),
        ("bad_plugin", "expected 'importable.package:file.json'"),
        ("bad_plugin:", "expected 'importable.package:file.json'"),
        ("bad_plugin:../secret.json", "expected 'importable.package:file.json'"),
        ("bad_plugin:/etc/passwd", "expected 'importable.package:file.json'"),
        (":facts.json", "expected 'importable.package:file.json'"),
        ("..:facts.json", "expected 'importable.package:file.json'"),
        ("", "expected 'importable.package:file.json'"),
        ("json:facts.json", "its manifest facts.json is not in"),
        ("sys:facts.json", "cannot be found"),
    ],
)
def test_an_entry_point_that_leads_nowhere_makes_a_plugin_broken(site, value, cause):
    site.distribution(
        "flambeau-bad", entry_points={"flambeau.manifest": {"bad": value}}, files={"bad_plugin/__init__.py": ""}
    )
    site.folder.joinpath("secret.json").write_text('{"schema": 1, "plugin": "bad", "api": "1.0"}')
    plugin = quiet(site)["bad"]
    assert plugin.state == "broken"
    assert cause in str(plugin.error)


def test_reading_folders_finds_what_the_standard_library_finds(site, monkeypatch):
    site.plugin("alpha", version="1.2", editable=True)
    site.plugin("alpha2", distribution="Odd.Name__2", hooks="alpha2_plugin.hooks [extra]")
    site.distribution("plain", entry_points={"console_scripts": {"tool": "x:main"}})
    site.distribution("hooks-only", version="3", entry_points={"flambeau": {"hooked": "hooked"}})
    site.folder.joinpath("old.egg-info").mkdir()
    site.folder.joinpath("old.egg-info/PKG-INFO").write_text("Name: old\nVersion: 0.1\n")
    site.folder.joinpath("old.egg-info/entry_points.txt").write_text("[flambeau.manifest]\nold=old_plugin:facts.json\n")
    site.folder.joinpath("flat.egg-info").write_text("Name: flat\n")
    found = distributions.Installation().declarations()
    assert [declared.name for declared in found] == ["alpha", "hooked", "alpha2", "old"]

    class Foreign:
        find_distributions = find_spec = staticmethod(lambda *arguments: ())

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Foreign])  # now the standard library is asked
    assert distributions.Installation().declarations() == found


def test_a_distribution_in_a_zip_file_is_seen(site, monkeypatch):
    site.plugin("alpha")
    archive = shutil.make_archive(str(site.folder.parent / "packed"), "zip", site.folder)
    shutil.rmtree(site.folder)
    monkeypatch.syspath_prepend(archive)
    assert [declared.name for declared in distributions.Installation().declarations()] == ["alpha"]
    assert "its manifest flambeau_plugin.json is not in" in str(quiet(site)["alpha"].error)


def test_what_pip_failed_to_remove_is_not_installed(site):
    site.plugin("alpha").rename(site.folder / "gone.json")
    next(site.folder.glob("*.dist-info")).rename(site.folder / "~lambeau_alpha-1.0.dist-info")
    assert site.discover() == {}


@pytest.mark.parametrize("name", ["Big", "with space", "9lives", "a/b"])
def test_a_name_that_could_not_be_typed_is_refused(site, name):
    site.distribution("odd", entry_points={"flambeau.manifest": {name: "odd_plugin:facts.json"}})
    assert quiet(site)[name].state == "broken"


def test_somebody_elses_damaged_installation_is_passed_over(site):
    site.plugin("alpha")
    site.distribution("torn").joinpath("entry_points.txt").write_bytes(b"[flambeau.manifest]\n\xff\xfe = \x00")
    site.distribution("bare", entry_points={"flambeau.manifest": {"bare": "bare:x.json"}}).joinpath("METADATA").unlink()
    site.distribution("odd").joinpath("entry_points.txt").write_text("[console_scripts]\nno equals sign\n[flambeau")
    assert list(site.discover()) == ["alpha"]


def test_a_plugin_is_warned_about_once_in_a_process(site):
    site.plugin("bad", manifest="{")
    with pytest.warns(PluginWarning) as caught:
        site.discover()
        discover()
        site.discover()
        MODELS.names()
    assert len(caught) == 1
    assert "flambeau doctor" in str(caught[0].message)


def test_the_warning_points_at_the_callers_line(site):
    site.plugin("bad", manifest="{")
    manager.refresh_snapshot()
    with pytest.warns(PluginWarning) as caught:
        MODELS.names()
    assert caught[0].filename == __file__


def test_strict_mode_raises_in_place_of_the_warning(site, monkeypatch):
    site.plugin("bad", manifest="{")
    monkeypatch.setenv("FLAMBEAU_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match=r"plugin 'bad' .* is broken") as caught:
        site.discover()
    assert isinstance(caught.value.__cause__, ManifestError)
    with pytest.raises(PluginError):
        MODELS.names()


def test_strict_mode_lets_a_shadowed_plugin_pass(site, monkeypatch):
    site.plugin("alpha")
    site.plugin("alpha", distribution="other-alpha", package="other")
    monkeypatch.setenv("FLAMBEAU_STRICT_PLUGINS", "1")
    with pytest.warns(PluginWarning):
        assert site.discover()["alpha"].state == "ok"


COMPATIBILITY = [
    ("1.0", {}, ""),
    ("1.7", {}, "upgrade flambeau-core"),
    ("2.0", {}, "upgrade flambeau-core"),
    ("0.9", {}, "upgrade flambeau-alpha"),
    ("1.0", {"pluggy": ">=1"}, ""),
    ("1.0", {"torch": ">=2.8"}, ""),
    ("1.0", {"pluggy": ">=900"}, "requires pluggy>=900, and"),
    ("1.0", {"not-installed-at-all": ">=1"}, "which is not installed"),
]


@pytest.mark.parametrize(("api", "requires", "advice"), COMPATIBILITY)
def test_a_plugin_states_what_it_was_written_for(site, api, requires, advice):
    manifest = {"schema": 1, "plugin": "alpha", "api": api, "requires": requires, "models": [MODEL]}
    site.plugin("alpha", manifest=manifest)
    plugin = quiet(site)["alpha"]
    assert plugin.state == ("incompatible" if advice else "ok")
    assert plugin.api == api
    assert advice in str(plugin.error)
    assert MODELS.names() == ([] if advice else ["alpha/net"])


def test_the_tables_of_another_interface_are_not_judged(site):
    site.plugin("alpha", manifest={"schema": 1, "plugin": "alpha", "api": "9.0", "models": "a new form"})
    assert quiet(site)["alpha"].state == "incompatible"


def test_a_newer_schema_asks_for_a_newer_core(site):
    site.plugin("alpha", manifest={"schema": 2, "plugin": "alpha", "api": "1.0", "models": {"new": "form"}})
    plugin = quiet(site)["alpha"]
    assert plugin.state == "incompatible"
    assert "upgrade flambeau-core" in str(plugin.error)


@pytest.mark.parametrize("name", ["torch", "pluggy", "Typing_Extensions", "scikit_learn", "not-installed-at-all"])
def test_the_version_of_a_distribution_is_the_one_the_standard_library_finds(name):
    try:
        expected = metadata.version(name)
    except metadata.PackageNotFoundError:
        expected = None
    assert distributions.Installation().version_of(name) == expected


number = st.integers(0, 30).map(str)
release = st.lists(number, min_size=1, max_size=4).map(".".join)
suffix = st.sampled_from(["", "", "", "+cpu", "+cu130.2", "rc1", ".dev3", ".post1", "a0+x"])
bound = st.builds(
    "{}{}{}".format, st.sampled_from([">=", "<", " >= ", "==", "~=", "!=", ">", "<="]), release, st.just("")
)


@given(st.builds("{}{}".format, release, suffix), st.lists(bound, min_size=1, max_size=3).map(",".join))
def test_bounds_mean_what_the_packaging_standard_says(version, specifier):
    try:
        expected = SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        with pytest.raises(InvalidSpecifier):
            satisfies(version, specifier)
    else:
        assert satisfies(version, specifier) == expected


def test_plain_bounds_do_without_packaging(site):
    site.plugin("alpha", requires={"torch": ">=2.8,<99"})
    code = "import sys, flambeau.core as c; print(c.get_plugin('alpha').state, 'packaging.specifiers' in sys.modules)"
    assert site.run("-c", code, FLAMBEAU_DISABLE_PLUGINS="vision,example").stdout.split() == ["ok", "False"]


def test_requirements_are_checked_without_importing_them(site):
    site.plugin("alpha", requires={"torch": ">=2.8"})
    code = "import sys, flambeau.core as c; print(c.get_plugin('alpha').state, 'torch' in sys.modules)"
    assert site.run("-c", code).stdout.split() == ["ok", "False"]


CLASHES = [
    (("flambeau-alpha", "aaa-alpha"), "flambeau-alpha"),
    (("zeta-alpha", "beta-alpha"), "beta-alpha"),
    (("zeta-alpha", "flambeau-alpha", "beta-alpha"), "flambeau-alpha"),
]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("distributions", "winner"), CLASHES)
def test_of_two_distributions_with_one_plugin_name_the_same_wins_on_every_machine(
    site, tmp_path, monkeypatch, distributions, winner, backwards
):
    folder = site.folder
    for number, name in enumerate(reversed(distributions) if backwards else distributions):
        site.folder = tmp_path / f"part{number}"
        site.plugin("alpha", distribution=name, package=f"package_{name.replace('-', '_')}")
        monkeypatch.syspath_prepend(str(site.folder))
    site.folder = folder
    with pytest.warns(PluginWarning, match=f"{winner} is taken"):
        plugins = site.discover()
    assert plugins["alpha"].distribution == winner
    for loser in set(distributions) - {winner}:
        shadowed = plugins[f"alpha@{loser}"]
        assert (shadowed.name, shadowed.state) == ("alpha", "shadowed")
        assert winner in str(shadowed.error)
        assert loser in str(shadowed.error)


def test_one_distribution_found_twice_is_one_plugin_the_one_python_imports(site, tmp_path, monkeypatch):
    site.plugin("alpha", version="1.0")
    site.folder = tmp_path / "in_front"
    site.plugin("alpha", version="1.1")
    monkeypatch.syspath_prepend(str(site.folder))
    plugins = site.discover()
    assert list(plugins) == ["alpha"]
    assert plugins["alpha"].version == "1.1"
    assert plugins["alpha"].manifest_path.is_relative_to(site.folder)


def test_names_of_distributions_are_compared_as_the_packaging_standard_says(site):
    site.plugin("alpha", distribution="Flambeau_Alpha")
    assert site.discover()["alpha"].distribution == "flambeau-alpha"


@pytest.mark.parametrize("value", ["alpha", " beta , alpha ", "*"])
def test_the_environment_switches_plugins_off(site, monkeypatch, value):
    site.plugin("alpha", models=[MODEL])
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", value)
    plugin = site.discover()["alpha"]
    assert plugin.state == "disabled"
    assert "FLAMBEAU_DISABLE_PLUGINS" in str(plugin.error)
    assert MODELS.names() == []


def test_the_configuration_switches_plugins_off(site):
    site.plugin("alpha", models=[MODEL])
    site.plugin("beta")
    site.configure({"plugins": {"disabled": ["alpha"]}})
    plugins = site.discover()
    assert (plugins["alpha"].state, plugins["beta"].state) == ("disabled", "ok")
    assert "config.json" in str(plugins["alpha"].error)


def test_a_plugin_that_is_broken_and_switched_off_is_switched_off(site, monkeypatch):
    site.plugin("bad", manifest="{")
    site.distribution("lost", entry_points={"flambeau.manifest": {"lost": "nowhere:x.json"}})
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "bad,lost")
    assert {plugin.state for plugin in site.discover().values()} == {"disabled"}


@pytest.mark.parametrize("plugins", [{"disabled": "alpha"}, [], {"disabled": [1]}])
def test_a_damaged_configuration_is_named(site, plugins):
    site.configure({"plugins": plugins})
    with pytest.raises(ConfigError, match=r"config\.json"):
        site.discover()


def test_asking_for_one_plugin_gives_it_in_whatever_state(site, monkeypatch):
    site.plugin("alpha")
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "alpha")
    site.discover()
    assert get_plugin("alpha").state == "disabled"


def test_asking_for_a_first_party_plugin_that_is_missing_says_how_to_install_it(site):
    with pytest.raises(PluginError, match="flambeau-audio, which is not installed") as caught:
        get_plugin("audio")
    assert f"{sys.executable} -m pip install flambeau-audio" in str(caught.value)


def test_asking_for_an_unknown_plugin_suggests_near_names(site):
    site.plugin("alpha")
    site.discover()
    with pytest.raises(PluginError, match=r"no plugin 'alfa' is installed\. Close names: alpha"):
        get_plugin("alfa")


def test_loading_a_plugin_imports_its_package(site):
    site.plugin("alpha", modules={"__init__.py": "loaded = True"})
    site.discover()
    assert load_plugin("alpha").state == "ok"
    assert sys.modules["alpha_plugin"].loaded


@pytest.mark.parametrize("failure", ["1 / 0", "import not_there_at_all", "raise SystemExit(3)", "syntax error"])
def test_a_package_that_fails_to_import_makes_its_plugin_broken(site, failure):
    site.plugin("alpha", models=[MODEL], modules={"__init__.py": failure})
    site.plugin("beta", models=[{"name": "net", "target": "beta_plugin:net"}])
    site.discover()
    with pytest.raises(PluginError, match="'alpha'") as caught:
        load_plugin("alpha")
    assert caught.value.__cause__ is get_plugin_quietly("alpha").error
    assert get_plugin_quietly("alpha").state == "broken"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert MODELS.names() == ["beta/net"]


def get_plugin_quietly(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return get_plugin(name)


def test_a_keyboard_interrupt_is_not_a_plugins_failure(site):
    site.plugin("alpha", modules={"__init__.py": "raise KeyboardInterrupt"})
    site.discover()
    with pytest.raises(KeyboardInterrupt):
        load_plugin("alpha")
    assert get_plugin("alpha").state == "ok"


@pytest.mark.parametrize("state", ["broken", "disabled"])
def test_a_plugin_that_takes_no_part_cannot_be_loaded(site, monkeypatch, state):
    site.plugin("alpha", **({"manifest": "{"} if state == "broken" else {}))
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", "alpha" if state == "disabled" else "")
    quiet(site)
    with pytest.raises(PluginError, match=f"is {state}"):
        load_plugin("alpha")


def test_records_of_any_table_are_given_with_their_plugin(site):
    command = {"name": "greet", "help": "say hello", "target": "alpha_plugin:greet"}
    site.plugin("alpha", commands=[command])
    site.plugin("beta", modules={})
    site.discover()
    assert [(plugin.name, record) for plugin, record in contributions("commands")] == [("alpha", command)]
    assert manifest_of("alpha")["commands"] == [command]


def test_many_threads_that_discover_at_once_see_one_result(site):
    for number in range(20):
        site.plugin(f"plugin{number}")
    manager._snapshot = None
    seen, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        seen.append(manager.current_snapshot())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(snapshot) for snapshot in seen}) == 1
    assert len(seen[0].plugins) == 20


def test_a_module_that_registers_while_it_is_imported_does_not_wait_for_discovery_forever(site):
    # One thread holds the module's import lock and wants the plugins; the other looks for that very module.
    code = """
    import threading
    started.set()
    finish.wait(20)
    from flambeau.core.registry import MODELS
    MODELS.register("late", lambda: 1)
    """
    site.plugin("alpha", modules={"__init__.py": code})
    sys.modules["builtins"].started, sys.modules["builtins"].finish = threading.Event(), threading.Event()
    try:
        importing = threading.Thread(target=__import__, args=("alpha_plugin",), daemon=True)
        importing.start()
        assert sys.modules["builtins"].started.wait(20)
        discovering = threading.Thread(target=site.discover, daemon=True)
        discovering.start()
        discovering.join(20)
        assert not discovering.is_alive()
        sys.modules["builtins"].finish.set()
        importing.join(20)
        assert not importing.is_alive()
    finally:
        del sys.modules["builtins"].started, sys.modules["builtins"].finish
    assert MODELS.names() == ["alpha/late"]


def test_five_hundred_records_and_four_hundred_distributions_are_no_trouble(site):
    for number in range(400):
        site.distribution(f"unrelated-{number}", entry_points={"console_scripts": {f"tool{number}": "x:main"}})
    site.plugin("alpha", models=[{"name": f"net{n}", "target": "alpha_plugin:net"} for n in range(500)])
    assert list(site.discover()) == ["alpha"]
    assert len(MODELS) == 500


def test_a_warning_turned_into_an_error_leaves_the_plugins_usable(site):
    site.plugin("bad", manifest="{")
    with pytest.raises(PluginWarning):
        site.discover()
    assert json.dumps(list(discover())) == '["bad"]'


# --- what was checked before -------------------------------------------------------------------------------------


def test_a_manifest_is_checked_once_and_again_when_it_changes(site, monkeypatch):
    checks = []
    check = discovery.check_tables
    monkeypatch.setattr(discovery, "check_tables", lambda data, path: (checks.append(path), check(data, path)))
    path = site.plugin("alpha", models=[{"name": "net", "target": "alpha_plugin:net"}])

    assert [site.discover()["alpha"].state for _ in range(3)] == ["ok"] * 3
    assert len(checks) == 1
    path.write_text(path.read_text().replace('"net"', '"other_net"'))
    assert site.discover()["alpha"].state == "ok"
    assert len(checks) == 2
    path.write_text(path.read_text().replace('"other_net"', "5"))
    with pytest.warns(PluginWarning):
        assert site.discover()["alpha"].state == "broken"
    assert [site.discover()["alpha"].state for _ in range(2)] == ["broken"] * 2
    assert len(checks) == 5


@pytest.mark.parametrize("content", ["", "[]", "{", "null", '{"rules": 1}', "[" * 100_000, '{"manifests": 5}'])
def test_a_damaged_memory_of_checks_means_that_all_is_checked(site, flambeau_home, content):
    path = site.plugin("alpha", models=[{"name": "net", "target": "alpha_plugin:net"}])
    site.discover()
    flambeau_home.joinpath("manifests.json").write_text(content)
    assert site.discover()["alpha"].state == "ok"
    assert str(path) in flambeau_home.joinpath("manifests.json").read_text()


def test_the_installed_distributions_are_looked_through_once_for_all_questions(site, monkeypatch):
    listed = []
    read = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: (listed.append(str(folder)), read(folder))[1])
    for name in ("alpha", "beta", "gamma"):
        site.plugin(name, requires={"torch": ">=2", "pluggy": ">=1"})
    assert {plugin.state for plugin in site.discover().values()} == {"ok"}
    assert 1 <= listed.count(str(site.folder)) <= 2  # other folders may stand on the path more than once


def test_a_version_with_control_characters_is_told_as_text(site):
    site.plugin("alpha", manifest="{", version="1.0\x1b[31m")
    with pytest.warns(PluginWarning, match=r"flambeau-alpha 1\.0\\x1b\[31m") as caught:
        site.discover()
    assert str(caught[0].message).isprintable()
