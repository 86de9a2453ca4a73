"""A stranger's manifest may hold anything: what the others offer is listed all the same, and the cause is kept."""

import contextlib
import copy
import io
import json
import string
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flambeau.core.cli import main
from flambeau.core.errors import PluginWarning

DIGEST = "0123456789abcdef" * 4
STRANGER = {
    "schema": 1,
    "plugin": "stranger",
    "api": "1.0",
    "requires": {"flambeau-good": ">=1"},
    "home_page": "https://stranger.example/start",
    "hooks": None,
    "conformance": "stranger_plugin.conformance",
    "models": [
        {
            "name": "snet", "target": "stranger_plugin.zoo:snet", "weights": "stranger_plugin.facts:SNet_Weights",
            "task": "t", "tags": ["small"], "aliases": ["s"], "docs": "A net.", "head": ["fc"], "stem": ["conv"],
            "citation": "@misc{snet}", "meta": {"citation": "@misc{snet}"},
        }
    ],
    "weights": [
        {
            "model": "snet", "enum": "stranger_plugin.facts:SNet_Weights", "name": "V1",
            "url": "https://stranger.example/snet-12345678.pth", "sha256": DIGEST, "size": 1234,
            "mirrors": ["https://mirror.example/snet.pth"], "format": "auto", "default": True, "aliases": ["BEST"],
            "meta": {
                "num_categories": 10, "num_params": 5, "_file_size": 1.5, "_metrics": {"set": {"acc": 0.5}},
                "license": "MIT", "citation": "@misc{snet}", "recipe": {"epochs": [1, 2]},
            },
            "transforms": {"target": "stranger_plugin.presets:Preset", "params": {"crop_size": 224}},
            "license": "MIT", "safe_globals": ["argparse:Namespace"], "num_params": 10, "task": "t",
        }
    ],
    "datasets": [
        {
            "name": "sset", "target": "stranger_plugin.data:SSet", "task": "t", "splits": ["train", "test"],
            "sizes": {"train": 6, "test": 2}, "license": "CC0-1.0", "homepage": "https://sset.example",
            "description": "Eight things.", "citation": "@misc{sset}", "aliases": ["things"],
            "gated": {"kind": "manual", "url": "https://sset.example/form", "instructions": "Ask."},
            "schema": [{"key": "image", "kind": "image", "shape": [3, "H"], "dtype": "uint8", "classes": 2}],
            "files": [
                {
                    "url": "https://sset.example/a.zip", "path": "raw/a.zip", "sha256": DIGEST, "md5": DIGEST[:32],
                    "size": 9, "mirrors": ["https://mirror.example/a.zip"], "extract": "raw", "splits": ["train"],
                    "contents": [{"path": "raw/a", "sha256": DIGEST, "md5": DIGEST[:32], "size": 4}],
                }
            ],
        }
    ],
    "tensor_types": [{"name": "stone", "target": "stranger_plugin.types:Stone", "aliases": ["rock"]}],
    "kernels": [{"namespace": "flambeau_stranger", "library": "_kernels", "package": "stranger_plugin"}],
    "commands": [{"name": "greet", "help": "say hello", "target": "stranger_plugin.cli:configure"}],
    "predictors": [
        {
            "task": "t", "target": "stranger_plugin.predict:run", "suffixes": [".png"], "default_weights": "snet:V1",
            "accepts": "file",
        }
    ],
}  # fmt: skip
GOOD = {
    "models": [{"name": "net", "target": "good_plugin.zoo:net", "tags": ["fine"]}],
    "weights": [
        {
            "model": "net", "enum": "good_plugin.facts:Net_Weights", "name": "V1", "size": 10,
            "url": "https://good.example/net-12345678.pth", "meta": {"_metrics": {"set": {"acc": 1.0}}},
        }
    ],
    "datasets": [{"name": "toys", "target": "good_plugin.data:Toys", "splits": ["train"]}],
    "kernels": [{"namespace": "flambeau_good", "library": "_kernels", "package": "good_plugin"}],
    "commands": [{"name": "wave", "help": "wave a hand", "target": "good_plugin.cli:configure"}],
}  # fmt: skip
LISTINGS = {
    "plugins": "good",
    "plugins show good": "good/net",
    "models": "good/net",
    "models show *": "good/net",
    "weights": "good/net:V1",
    "weights show *": "good/net:V1",
    "weights list --urls": "https://good.example/net",
    "datasets": "good/toys",
    "datasets show *": "good/toys",
    "datasets list --urls": "",
    "kernels": "flambeau_good",
}


def paths(value, path=()):
    """The place of every value inside another one, the lists and objects among them too."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


PLACES = [path for path in paths(STRANGER) if path != ("plugin",)]


def replaced(path, garbage):
    manifest = copy.deepcopy(STRANGER)
    holder = manifest
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = garbage
    return manifest


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value, {"a": value}] if levels < 5 else [value]
    return value


TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Co"]), min_size=1, max_size=8),
    st.sampled_from(
        [
            "", " ", "\x1b[31mred\x1b[0m", "\x9b2J", "\u202egpj.exe", "a\nb\tc", "\0", "\ud800", "%", "%(prog)s %d",
            "http://[", "https://h:port/a", "ftp://h/a", "package:..", "package:a.b/../c", "package:__main__/a", "hf://a",
            "file:///etc/passwd", "file://[", "//", "../..", "/etc/passwd", "C:\\a", "a" * 300, "a" * 5000, ":", "a:b",
            "--help", "stranger/x", "é" * 40, "*", "[", "²",
        ]
    ),
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, 10**400, -(10**400), 1e308, -1e308, 1e-320, float("nan"), float("inf")]),
    st.floats(),
)
GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    TEXTS,
    NUMBERS,
    st.sampled_from([nested(3), nested(60), nested(400)]),
    st.recursive(
        TEXTS | NUMBERS | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=6,
    ),
    st.lists(TEXTS, min_size=1, max_size=3),
    st.dictionaries(st.text(string.ascii_letters, max_size=8), TEXTS | NUMBERS, max_size=3),
)


@pytest.fixture
def strange(site):
    """Install the stranger anew with another manifest, beside a good plugin."""
    site.add("good", GOOD)
    path = site.add("stranger") / "flambeau_plugin.json"

    def write(manifest):
        path.write_text(json.dumps(manifest), encoding="utf-8", errors="surrogatepass")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            return site.discover()["stranger"]

    return write


def run(*words):
    """Run the program in this process; what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def unprintable(text):
    return [ascii(char) for char in text if not char.isprintable() and char not in "\n\t"]


def assert_others_are_listed():
    for command, wanted in LISTINGS.items():
        words = command.split()
        code, text, _ = run(*words)
        assert code == 0, command
        assert wanted in text, command
        assert not unprintable(text), command
        code, text, _ = run(*words, "--json") if "kernels" not in words else run("kernels", "status", "--json")
        assert code == 0, command
        assert wanted in json.dumps(json.loads(text, parse_constant=pytest.fail)), command
        assert not unprintable(text), command
    code, text, _ = run("--help")
    assert code == 0
    assert "wave a hand" in text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PLACES), garbage=GARBAGE)
@example(("weights", 0, "sha256"), "zz")
@example(("weights", 0, "url"), "http://[")
@example(("weights", 0, "meta", "_metrics"), {"set": {"acc": "high"}})
@example(("weights", 0, "meta", "_metrics"), {"set": 1})
@example(("weights", 0, "meta", "num_params"), "many")
@example(("weights", 0, "num_params"), 10**400)
@example(("weights", 0, "meta", "_file_size"), "big")
@example(("weights", 0, "meta"), nested(400))
@example(("datasets", 0, "files"), ["a.zip"])
@example(("datasets", 0, "splits"), [["train"]])
@example(("datasets", 0, "gated"), "yes")
@example(("models", 0, "meta"), 5)
@example(("models", 0, "tags"), ["\x1b[31mred"])
@example(("commands", 0, "help"), "100 %d %(nothing)s")
@example(("kernels", 0, "package"), "")
@example(("kernels", 0, "library"), "k" * 5000)
def test_no_value_of_a_strangers_manifest_stops_a_listing_of_others(strange, path, garbage):
    try:
        plugin = strange(replaced(path, garbage))
    except RecursionError:
        return  # Python cannot even write such a file
    assert plugin.state == "ok" or str(plugin.error)
    assert_others_are_listed()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PLACES), garbage=GARBAGE)
def test_the_doctor_examines_the_others_whatever_a_stranger_says(strange, path, garbage):
    strange(replaced(path, garbage))
    for options in ([], ["--json"]):
        _, text, error = run("doctor", *options)
        assert "Traceback" not in error
        assert "good" in text
        assert not unprintable(text)
    assert {plugin["name"] for plugin in json.loads(text)["plugins"]} == {"good", "stranger"}


FAULTS = [
    (("weights", 0, "sha256"), "zz", "$.weights[0].sha256 is 'zz', expected 8 to 64 hexadecimal digits"),
    (("weights", 0, "url"), "http://[", "$.weights[0].url is 'http://['"),
    (("weights", 0, "mirrors"), ["x"], "$.weights[0].mirrors[0] is 'x'"),
    (("weights", 0, "size"), -1, "$.weights[0].size is -1"),
    (("weights", 0, "meta", "_metrics"), {"set": {"acc": "x"}}, "$.weights[0].meta._metrics.set.acc is 'x'"),
    (("weights", 0, "meta", "_file_size"), "big", "$.weights[0].meta._file_size is 'big'"),
    (("weights", 0, "meta", "num_params"), "many", "$.weights[0].meta.num_params is 'many'"),
    (("weights", 0, "transforms"), {"params": {}}, "$.weights[0].transforms.target is None"),
    (("datasets", 0, "files"), ["a"], "$.datasets[0].files[0] is 'a', expected an object"),
    (("datasets", 0, "files", 0, "md5"), "x", "$.datasets[0].files[0].md5 is 'x'"),
    (("datasets", 0, "gated", "kind"), "maybe", "$.datasets[0].gated.kind is 'maybe'"),
    (("datasets", 0, "sizes", "train"), "6", "$.datasets[0].sizes.train is '6'"),
    (("kernels", 0, "package"), "a b", "$.kernels[0].package is 'a b'"),
]


@pytest.mark.parametrize(("path", "garbage", "cause"), FAULTS, ids=[cause for _, _, cause in FAULTS])
def test_a_record_that_cannot_be_used_makes_its_plugin_broken_with_cause_and_remedy(strange, path, garbage, cause):
    assert strange(replaced(path, garbage)).state == "broken"
    code, text, _ = run("plugins", "list", "--json")
    (plugin,) = [plugin for plugin in json.loads(text) if plugin["name"] == "stranger"]
    assert (code, plugin["state"]) == (0, "broken")
    assert cause in plugin["error"]
    assert "flambeau plugins disable stranger" in plugin["remedy"]


def test_the_strangers_manifest_as_it_stands_is_in_order(strange):
    from flambeau.core import validate_manifest

    assert validate_manifest(STRANGER) == []
    assert strange(STRANGER).state == "ok"
    assert_others_are_listed()
    assert "stranger/snet:V1" in run("weights")[1]


HOOKS = """
from flambeau.core import hookimpl

@hookimpl
def flambeau_register(registries):
    registries[{kind!r}].register({name!r}, "stranger_plugin.zoo:made", info={info})
"""
MADE = [
    ("weights", "made:V1", "{'model': 'made', 'name': 'V1', 'url': 5}"),
    ("weights", "made:V1", "{'url': 'https://e.example/a.pth', 'meta': {'_metrics': 3}}"),
    ("weights", "made:V1", "{'url': 'https://e.example/a.pth', 'sha256': object()}"),
    ("models", "made", "{'task': object()}"),
    ("models", "made", "{'tags': 'abc'}"),
    ("models", "made", "{'meta': float('nan')}"),
    ("datasets", "made", "{'files': [1]}"),
    ("datasets", "made", "{'sizes': {'train': float('inf')}}"),
]


@pytest.mark.parametrize(("kind", "name", "info"), MADE)
def test_what_a_strangers_hook_registers_does_not_stop_a_listing_either(site, kind, name, info):
    site.add("good", GOOD)
    hooks = HOOKS.format(kind=kind, name=name, info=info)
    site.add("stranger", {"hooks": "stranger_plugin.hooks"}, modules={"hooks.py": hooks})

    for options in ([], ["--json"]):
        code, text, error = run(kind, "list", "--all", *options)
        assert code == 0, error
        assert "good/" in text
        assert "stranger/made" not in text
    (plugin,) = [row for row in json.loads(run("plugins", "--json")[1]) if row["name"] == "stranger"]
    assert plugin["state"] == "broken"
    assert "stranger/made" in plugin["error"]


def test_weights_that_a_hook_registers_without_an_address_are_listed(site):
    hooks = HOOKS.format(kind="weights", name="made:V1", info="{'license': 'MIT'}")
    site.add("stranger", {"hooks": "stranger_plugin.hooks"}, modules={"hooks.py": hooks})

    assert json.loads(run("weights", "list", "--all", "--json")[1])[0]["urls"] == []
    assert run("weights", "list", "--all", "--urls")[:2] == (0, "")
    assert run("weights", "show", "made:V1")[0] == 0
    code, text, error = run("weights", "fetch", "made:V1")
    assert (code, text) == (1, "")
    assert "states no address" in error
