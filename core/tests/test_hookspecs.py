"""Code that plugins add: when it is imported, what it can do, and what happens when it fails."""

import inspect
import sys
import textwrap
import threading
import warnings

import pluggy
import pytest

from flambeau.core import (
    DATASETS,
    MODELS,
    TENSOR_TYPES,
    WEIGHTS,
    UnknownNameError,
    discover,
    get_plugin,
    hookimpl,
    hookspec,
    hookspecs,
    load_plugin,
    plugin_manager,
)
from flambeau.core.errors import PluginError, PluginWarning
from flambeau.core.plugins import load_hooks, run_hook

HEAD = "from flambeau.core import hookimpl\n"
REGISTERS = HEAD + textwrap.dedent(
    """
    def grown(): return "grown"

    @hookimpl
    def flambeau_register(registries):
        registries["models"].register("grown", grown)
    """
)
FAILING = HEAD + textwrap.dedent(
    """
    @hookimpl
    def flambeau_register(registries):
        registries["models"].register("first", lambda: 1)
        registries["datasets"].register("second", lambda: 2)
        {failure}
    """
)


def code_plugin(site, name, source):
    """A plugin of one module and no manifest."""
    site.distribution(f"{name}-dist", entry_points={"flambeau": {name: name}}, files={f"{name}.py": source})


def hooked_plugin(site, name, source, **keys):
    """A plugin whose manifest names a module with hooks."""
    module = f"{name}_plugin.hooks"
    site.plugin(name, modules={"__init__.py": "", "hooks.py": source}, **{"hooks": module} | keys)


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        yield


def test_the_four_hooks_are_declared_and_documented():
    declared = {name for name, value in vars(hookspecs).items() if hasattr(value, "flambeau_spec")}
    assert declared == {"flambeau_register", "flambeau_cli", "flambeau_doctor", "flambeau_kernels"}
    for name in declared:
        assert len(inspect.getdoc(getattr(hookspecs, name)).split()) > 5


def test_the_markers_are_pluggys_for_this_project():
    assert isinstance(hookimpl, pluggy.HookimplMarker)
    assert isinstance(hookspec, pluggy.HookspecMarker)
    assert hookimpl.project_name == hookspec.project_name == "flambeau"


def test_the_manager_knows_the_hooks_and_loads_nobody(site):
    code_plugin(site, "grower", REGISTERS)
    site.discover()
    assert plugin_manager().hook.flambeau_register.get_hookimpls() == []
    assert plugin_manager() is plugin_manager()
    assert "grower" not in sys.modules


def test_a_plugin_of_one_module_needs_no_manifest(site):
    code_plugin(site, "grower", REGISTERS)
    plugin = site.discover()["grower"]
    assert (plugin.state, plugin.hooks, plugin.package) == ("ok", "grower", "grower")
    assert (plugin.manifest_path, plugin.api) == (None, None)


def test_hooks_are_imported_when_a_look_up_misses_and_not_before(site):
    code_plugin(site, "grower", REGISTERS)
    site.plugin("alpha", models=[{"name": "net", "target": "alpha_plugin:net"}])
    site.discover()
    assert MODELS.names() == ["alpha/net"]
    assert MODELS.entry("net").plugin == "alpha"
    assert "grower" not in sys.modules
    assert MODELS.resolve("grown")() == "grown"
    assert MODELS.entry("grown").origin == "grower-dist 1.0"
    assert MODELS.names() == ["alpha/net", "grower/grown"]


def test_a_canonical_id_loads_the_hooks_of_its_plugin_alone(site):
    code_plugin(site, "grower", REGISTERS)
    code_plugin(site, "other", REGISTERS)
    site.discover()
    assert "grower/grown" in MODELS
    assert "other" not in sys.modules


@pytest.mark.parametrize("value", ["alpha_plugin.hooks", "alpha_plugin.hooks:group"])
@pytest.mark.parametrize("declared_in", ["manifest", "entry point"])
def test_hooks_may_be_functions_of_a_module_or_methods_of_an_object(site, value, declared_in):
    source = HEAD + (
        "class Group:\n"
        "    @hookimpl\n"
        "    def flambeau_register(self, registries): registries['models'].register('grown', Group)\n"
        "group = Group()\n"
        "flambeau_register = hookimpl(lambda registries: registries['models'].register('grown', Group))\n"
    )
    keys = {"hooks": value} if declared_in == "manifest" else {}
    options = {} if declared_in == "manifest" else {"hooks": value}
    site.plugin(
        "alpha",
        modules={"__init__.py": "", "hooks.py": source},
        manifest={"schema": 1, "plugin": "alpha", "api": "1.0", **keys},
        **options,
    )
    assert site.discover()["alpha"].hooks == value
    assert MODELS.entry("grown").id == "alpha/grown"


def test_a_hook_can_fill_all_four_registries(site):
    source = HEAD + (
        "class Thing: ...\n"
        "@hookimpl\n"
        "def flambeau_register(registries):\n"
        "    for kind in ('models', 'weights', 'datasets', 'tensor_types'):\n"
        "        registries[kind].register('net:V1' if kind == 'weights' else 'thing', Thing)\n"
    )
    code_plugin(site, "grower", source)
    site.discover()
    assert "grower/thing" in MODELS
    assert "grower/net:V1" in WEIGHTS
    assert "grower/thing" in DATASETS
    assert "grower/thing" in TENSOR_TYPES


def test_what_a_hook_registers_from_elsewhere_belongs_to_its_plugin(site):
    source = HEAD + (
        "import json\n"
        "@hookimpl\n"
        "def flambeau_register(registries): registries['models'].register('decoder', json.JSONDecoder)\n"
    )
    code_plugin(site, "grower", source)
    site.discover()
    assert MODELS.entry("decoder").id == "grower/decoder"


def test_a_hook_that_asks_for_an_unknown_name_does_not_load_itself_again(site):
    source = HEAD + (
        "calls = []\n"
        "@hookimpl\n"
        "def flambeau_register(registries):\n"
        "    calls.append(1)\n"
        "    assert 'nothing like it' not in registries['models']\n"
    )
    code_plugin(site, "grower", source)
    site.discover()
    with pytest.raises(UnknownNameError):
        MODELS.entry("absent")
    assert sys.modules["grower"].calls == [1]
    assert get_plugin("grower").state == "ok"


FAILURES = ["raise ValueError('no luck')", "raise SystemExit(3)", "import not_there_at_all", "registries['nothing']"]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_hook_is_rolled_back_and_the_others_work(site, failure):
    code_plugin(site, "bad", FAILING.format(failure=failure))
    code_plugin(site, "good", REGISTERS)
    site.discover()
    with pytest.warns(PluginWarning, match=r"plugin 'bad' \(bad-dist 1\.0\) is broken") as caught:
        assert MODELS.resolve("grown")() == "grown"
    assert len(caught) == 1
    assert MODELS.names() == ["good/grown"]
    assert DATASETS.names() == []
    plugin = get_plugin("bad")
    assert plugin.state == "broken"
    assert type(plugin.error).__name__ in ("ValueError", "SystemExit", "ModuleNotFoundError", "KeyError")


@pytest.mark.parametrize(
    "source",
    [
        "1 / 0",
        "raise SystemExit",
        "this is no python",
        HEAD + "@hookimpl\ndef flambeau_registr(registries): ...",  # misspelled
        HEAD + "@hookimpl\ndef flambeau_register(registers): ...",  # misspelled argument
    ],
)
def test_a_hook_module_that_cannot_be_used_makes_its_plugin_broken(site, source):
    code_plugin(site, "bad", source)
    code_plugin(site, "good", REGISTERS)
    site.discover()
    with pytest.warns(PluginWarning, match="'bad'"):
        assert "grown" in MODELS
    assert get_plugin("bad").state == "broken"
    assert get_plugin("good").state == "ok"
    assert not plugin_manager().has_plugin("bad")


def test_a_failing_hook_takes_the_manifests_entries_along_and_says_why(site):
    models = [{"name": "net", "target": "alpha_plugin:net"}]
    hooked_plugin(site, "alpha", FAILING.format(failure="raise ValueError('no luck')"), models=models)
    site.discover()
    assert MODELS.names() == ["alpha/net"]
    with pytest.warns(PluginWarning), pytest.raises(UnknownNameError):
        MODELS.entry("something else")
    assert MODELS.names() == []
    with pytest.raises(UnknownNameError, match=r"Plugin 'alpha' .* is broken: ValueError: no luck\."):
        MODELS.entry("net")


def test_roll_back_restores_what_was_replaced(site, quiet):
    failure = "registries['models'].register('net', lambda: 3, plugin='mine', replace=True); 1 / 0"
    code_plugin(site, "bad", FAILING.format(failure=failure))
    site.discover()

    def net(): ...

    MODELS.register("net", net, plugin="mine")
    load_hooks()
    assert MODELS.names() == ["mine/net"]
    assert MODELS.resolve("net") is net


def test_roll_back_leaves_other_plugins_modules_that_the_hook_imported(site, quiet):
    library = "from flambeau.core.registry import MODELS\ndef net(): ...\nMODELS.register('net', net)\n"
    site.plugin("library", modules={"__init__.py": "", "zoo.py": library})
    code_plugin(site, "bad", FAILING.format(failure="import library_plugin.zoo; 1 / 0"))
    site.discover()
    load_hooks()
    assert MODELS.names() == ["library/net"]


def test_a_hook_cannot_take_another_plugins_name(site):
    models = [{"name": "net", "target": "alpha_plugin:net"}]
    site.plugin("alpha", models=models)
    failure = "registries['models'].register('net', lambda: 3, plugin='alpha')"
    code_plugin(site, "thief", FAILING.format(failure=failure))
    site.discover()
    with pytest.warns(PluginWarning, match="'alpha/net' is already registered by flambeau-alpha"):
        load_hooks()
    assert MODELS.entry("net").target == "alpha_plugin:net"


def test_entries_added_to_another_plugins_names_say_where_they_come_from(site):
    site.plugin("alpha")
    source = HEAD + (
        "def more(): ...\n"
        "@hookimpl\n"
        "def flambeau_register(registries): registries['models'].register('more', more, plugin='alpha')\n"
    )
    code_plugin(site, "guest", source)
    site.discover()
    load_hooks()
    assert MODELS.entry("alpha/more").origin == "guest-dist 1.0"


def test_in_strict_mode_a_failing_hook_raises(site, monkeypatch):
    code_plugin(site, "bad", "1 / 0")
    site.discover()
    monkeypatch.setenv("FLAMBEAU_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match="'bad'") as caught:
        MODELS.entry("anything")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_keyboard_interrupt_in_a_hook_is_the_users(site):
    code_plugin(site, "slow", FAILING.format(failure="raise KeyboardInterrupt"))
    site.discover()
    with pytest.raises(KeyboardInterrupt):
        load_hooks()
    assert get_plugin("slow").state == "ok"


@pytest.mark.parametrize("name", ["bad", "*"])
def test_a_plugin_that_is_switched_off_is_never_imported(site, monkeypatch, name):
    code_plugin(site, "bad", "1 / 0")
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", name)
    assert site.discover()["bad"].state == "disabled"
    assert "anything" not in MODELS
    assert "bad" not in sys.modules


def test_a_refresh_drops_what_hooks_registered_and_lets_them_register_anew(site):
    code_plugin(site, "grower", REGISTERS)
    site.discover()
    before = MODELS.resolve("grown")
    site.discover()
    assert MODELS.names() == []
    assert MODELS.resolve("grown") is before


def test_a_repaired_plugin_works_after_a_refresh(site, quiet):
    code_plugin(site, "grower", "1 / 0")
    site.discover()
    assert "grown" not in MODELS
    site.folder.joinpath("grower.py").write_text(REGISTERS + "\n# longer than before, for caches go by time and size\n")
    site.discover()
    assert "grown" in MODELS


def test_loading_a_plugin_registers_what_its_hooks_add(site):
    code_plugin(site, "grower", REGISTERS)
    site.discover()
    assert load_plugin("grower").state == "ok"
    assert MODELS.names() == ["grower/grown"]


def test_loading_a_plugin_with_failing_hooks_raises_and_does_not_warn_besides(site):
    code_plugin(site, "bad", FAILING.format(failure="1 / 0"))
    site.discover()
    with pytest.raises(PluginError, match="ZeroDivisionError") as caught:
        load_plugin("bad")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert discover()["bad"].state == "broken"


def test_a_hook_is_called_for_each_plugin_by_itself(site):
    report = HEAD + "@hookimpl\ndef flambeau_doctor(): return [{'check': __name__}]\n"
    code_plugin(site, "one", report)
    code_plugin(site, "two", report)
    code_plugin(site, "bad", HEAD + "@hookimpl\ndef flambeau_doctor(): 1 / 0\n")
    code_plugin(site, "silent", HEAD + "@hookimpl\ndef flambeau_doctor(): return None\n")
    code_plugin(site, "without", REGISTERS)
    site.discover()
    with pytest.warns(PluginWarning, match="'bad'"):
        results = run_hook("flambeau_doctor")
    assert sorted(results) == [("one", [{"check": "one"}]), ("two", [{"check": "two"}])]
    assert get_plugin("bad").state == "broken"
    assert sorted(run_hook("flambeau_doctor")) == sorted(results)


def test_hooks_are_called_in_the_order_their_plugins_ask_for(site):
    for name, order in (("aaa", "trylast=True"), ("bbb", ""), ("ccc", "tryfirst=True")):
        code_plugin(site, name, HEAD + f"@hookimpl({order})\ndef flambeau_kernels(): return [__name__]\n")
    site.discover()
    assert [plugin for plugin, _ in run_hook("flambeau_kernels")] == ["ccc", "bbb", "aaa"]


def test_arguments_reach_the_hooks_that_want_them(site):
    code_plugin(site, "alpha", HEAD + "@hookimpl\ndef flambeau_cli(subparsers): subparsers.append('alpha')\n")
    code_plugin(site, "beta", HEAD + "@hookimpl\ndef flambeau_cli(): ...\n")
    site.discover()
    seen = []
    run_hook("flambeau_cli", subparsers=seen)
    assert seen == ["alpha"]


def test_a_plugin_that_fails_in_a_later_hook_loses_what_it_registered(site):
    code_plugin(site, "grower", REGISTERS + "\n@hookimpl\ndef flambeau_doctor(): 1 / 0\n")
    site.discover()
    assert "grown" in MODELS
    with pytest.warns(PluginWarning):
        run_hook("flambeau_doctor")
    assert MODELS.names() == []


def test_threads_that_miss_at_once_all_find_what_the_hooks_add(site):
    source = HEAD + (
        "import time\n"
        "calls = []\n"
        "def grown(): ...\n"
        "@hookimpl\n"
        "def flambeau_register(registries):\n"
        "    calls.append(1)\n"
        "    time.sleep(0.05)\n"
        "    registries['models'].register('grown', grown)\n"
    )
    code_plugin(site, "grower", source)
    site.discover()
    found, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        found.append(MODELS.entry("grown").id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["grower/grown"] * 8
    assert sys.modules["grower"].calls == [1]


def test_the_reference_lists_every_hook():
    declared = {name for name, value in vars(hookspecs).items() if hasattr(value, "flambeau_spec")}
    assert declared == set(hookspecs.__all__)
    assert "flambeau_no_such_hook" not in declared


@pytest.mark.parametrize(
    "ask",
    [
        lambda: MODELS.entries() and ("nothing" in MODELS),
        load_hooks,
        lambda: run_hook("flambeau_doctor"),
    ],
)
def test_a_hook_that_does_not_import_is_warned_about_once_and_its_entries_go(site, ask):
    manifest = {"hooks": "sick_plugin.hooks", "models": [{"name": "net", "target": "sick_plugin:net"}]}
    site.add("sick", manifest, modules={"hooks.py": "import nowhere_at_all"})

    with pytest.warns(PluginWarning, match="No module named 'nowhere_at_all'") as caught:
        ask()
        ask()

    assert len(caught) == 1
    assert "sick/net" not in MODELS
