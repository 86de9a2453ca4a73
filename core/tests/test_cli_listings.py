"""Listings of models, weights, datasets and plugins, and what one entry is shown with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.cli import main

BIBTEX = "@article{he2016, title={Deep Residual Learning}}"
RECORD = {
    "model": "small",
    "enum": "alpha_plugin.zoo:Small_Weights",
    "name": "V2",
    "url": "https://example.org/small-0a1b2c3d.pth",
    "mirrors": ["https://mirror.example.org/small-0a1b2c3d.pth"],
    "size": 1_234_567,
    "default": True,
    "aliases": ["DEFAULT", "BEST"],
    "license": "BSD-3-Clause",
    "transforms": {"target": "alpha_plugin.zoo:Crop", "params": {"size": 224}},
    "meta": {
        "num_params": 11_689_512,
        "num_categories": 10,
        "_metrics": {"ImageNet-1K": {"acc@1": 69.758, "acc@5": 89.078}},
        "citation": BIBTEX,
    },
}
PLAIN = {"model": "small", "enum": "alpha_plugin.zoo:Small_Weights", "name": "V1", "url": "https://example.org/v1.pth"}
OTHER = {
    "model": "large",
    "enum": "beta_plugin.zoo:Large_Weights",
    "name": "V1",
    "url": "https://example.org/large.pth",
}
DATASET = {
    "name": "digits",
    "target": "alpha_plugin.data:Digits",
    "task": "image-classification",
    "splits": ["train", "test"],
    "sizes": {"train": 60},
    "license": "CC-BY-4.0",
    "citation": BIBTEX,
    "gated": {"kind": "manual", "url": "https://example.org/ask", "instructions": "Ask."},
    "files": [
        {
            "url": "https://example.org/a.zip",
            "mirrors": ["https://mirror.example.org/a.zip"],
            "path": "a.zip",
            "size": 5,
        },
        {"url": "https://example.org/b.zip", "path": "b.zip", "size": 7, "md5": "d41d8cd98f00b204e9800998ecf8427e"},
    ],
}


@pytest.fixture
def plugins(site: Any) -> Any:
    site.add(
        "alpha",
        {
            "home_page": "https://alpha.example",
            "models": [
                {"name": "small", "target": "alpha_plugin.zoo:small", "task": "image-classification", "tags": ["tiny"]},
                {"name": "bare", "target": "alpha_plugin.zoo:bare"},
            ],
            "weights": [RECORD, PLAIN],
            "datasets": [DATASET],
        },
    )
    site.add("beta", {"models": [{"name": "large", "target": "beta_plugin.zoo:large"}], "weights": [OTHER]})
    return site


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program and return what it printed, as JSON if that was asked for."""

    def run(*words: str, code: int = 0) -> Any:
        assert main(list(words)) == code
        text = capsys.readouterr().out
        return json.loads(text) if "--json" in words else text

    return run


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def test_models_are_listed_by_id(plugins: Any, shown: Any) -> None:
    assert [line.split("\t")[0] for line in shown("models").splitlines()] == ["alpha/bare", "alpha/small", "beta/large"]


def test_a_model_knows_its_weights_and_its_size(plugins: Any, shown: Any) -> None:
    (row,) = shown("models", "list", "small", "--json")

    assert row == {
        "id": "alpha/small",
        "plugin": "alpha",
        "origin": "flambeau-alpha 1.0",
        "task": "image-classification",
        "tags": ["tiny"],
        "weights": ["alpha/small:V1", "alpha/small:V2"],
        "default_weights": "alpha/small:V2",
        "parameters": 11_689_512,
    }


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--task", "image-classification"], ["alpha/small"]),
        (["--tag", "tiny"], ["alpha/small"]),
        (["--plugin", "beta"], ["beta/large"]),
        (["alpha/*"], ["alpha/bare", "alpha/small"]),
        (["*a*"], ["alpha/bare", "alpha/small", "beta/large"]),
        (["large", "bare"], ["alpha/bare", "beta/large"]),
    ],
)
def test_listings_are_narrowed_by_names_and_options(
    words: list[str], found: list[str], plugins: Any, shown: Any
) -> None:
    assert ids(shown("models", "list", *words, "--json")) == found


def test_weights_have_the_columns_id_parameters_size_metric_cached(plugins: Any, shown: Any) -> None:
    assert shown("weights", "list", "alpha/*") == (
        "alpha/small:V1\t\t\t\tno\nalpha/small:V2\t11689512\t1234567\tacc@1 69.758 (ImageNet-1K)\tno\n"
    )


def test_a_weights_row_has_its_documented_keys(plugins: Any, shown: Any) -> None:
    (row,) = shown("weights", "list", "small:DEFAULT", "--json")

    assert row == {
        "id": "alpha/small:V2",
        "plugin": "alpha",
        "origin": "flambeau-alpha 1.0",
        "model": "alpha/small",
        "enum": "Small_Weights",
        "member": "V2",
        "default": True,
        "aliases": ["DEFAULT", "BEST"],
        "task": "image-classification",
        "parameters": 11_689_512,
        "size": 1_234_567,
        "metric": {"dataset": "ImageNet-1K", "name": "acc@1", "value": 69.758},
        "license": "BSD-3-Clause",
        "cached": False,
        "format": "auto",
        "sha256": None,
        "urls": ["https://example.org/small-0a1b2c3d.pth", "https://mirror.example.org/small-0a1b2c3d.pth"],
    }


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["alpha/*:DEFAULT"], ["alpha/small:V2"]),
        (["*:BEST"], ["alpha/small:V2"]),
        (["Small_Weights.V1"], ["alpha/small:V1"]),
        (["Small_Weights.DEFAULT"], ["alpha/small:V2"]),
        (["alpha/Small_Weights.*"], ["alpha/small:V1", "alpha/small:V2"]),
        (["large:V1"], ["beta/large:V1"]),
        (["--license", "BSD-3-Clause"], ["alpha/small:V2"]),
        (["--max-parameters", "12e6"], ["alpha/small:V2"]),
        (["--max-parameters", "1e6"], []),
        (["--cached"], []),
    ],
)
def test_weights_are_found_by_alias_enum_member_and_wildcard(
    words: list[str], found: list[str], plugins: Any, shown: Any
) -> None:
    assert ids(shown("weights", "list", *words, "--json")) == found


def test_a_size_that_is_known_in_megabytes_alone_is_shown_in_bytes(site: Any, shown: Any) -> None:
    site.add("alpha", {"weights": [PLAIN | {"meta": {"_file_size": 97.781}}]})
    (row,) = shown("weights", "--json")
    assert row["size"] == 102_530_810


def test_urls_are_listed_for_machines_without_a_network(plugins: Any, shown: Any) -> None:
    lines = [line.split("\t") for line in shown("weights", "list", "small:V2", "--urls").splitlines()]

    assert [line[0] for line in lines] == ["alpha/small:V2"] * 2
    assert [line[-1] for line in lines] == [RECORD["url"], *RECORD["mirrors"]]


def test_everything_about_one_weights_member_is_shown(plugins: Any, shown: Any) -> None:
    text = shown("weights", "show", "small:V2")

    for fact in (
        "11689512",
        "BSD-3-Clause",
        "alpha_plugin.zoo:Crop(size=224)",
        "he2016",
        "acc@5",
        "mirror.example.org",
    ):
        assert fact in text


def test_bibtex_is_the_reference_alone_and_once(plugins: Any, shown: Any) -> None:
    assert shown("weights", "show", "small:V2", "small:DEFAULT", "--bibtex") == f"{BIBTEX}\n"


def test_a_missing_reference_is_a_failure_that_says_so(plugins: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "bare", "--bibtex"]) == 1
    assert "no citation is recorded for alpha/bare" in capsys.readouterr().err


def test_datasets_are_listed_with_size_licence_and_gate(plugins: Any, shown: Any) -> None:
    (row,) = shown("datasets", "--json")

    assert row["splits"] == {"train": 60, "test": None}
    assert (row["size"], row["files"], row["license"], row["gated"]) == (12, 2, "CC-BY-4.0", "manual")
    assert row["urls"] == [url for file in DATASET["files"] for url in (file["url"], *file.get("mirrors", ()))]
    assert shown("datasets") == "alpha/digits\timage-classification\ttrain 60, test\t12\tCC-BY-4.0\tmanual\n"


def test_a_dataset_is_shown_with_its_files_and_citation(plugins: Any, shown: Any) -> None:
    (shown_dataset,) = shown("datasets", "show", "digits", "--json")

    assert shown_dataset["citation"] == BIBTEX
    assert [file["urls"] for file in shown_dataset["resources"]] == [
        ["https://example.org/a.zip", "https://mirror.example.org/a.zip"],
        ["https://example.org/b.zip"],
    ]
    assert shown("datasets", "show", "digits", "--bibtex") == f"{BIBTEX}\n"
    assert shown("datasets", "list", "--urls").count("\n") == 3


@pytest.mark.parametrize("command", ["models", "weights", "datasets"])
def test_a_wildcard_without_a_match_is_a_failure(
    command: str, plugins: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "list", "gamma/*"]) == 1
    assert "matches 'gamma/*'" in capsys.readouterr().err


def test_an_unknown_name_suggests_the_nearest(plugins: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "smal"]) == 1
    assert "alpha/small" in capsys.readouterr().err


def test_a_short_name_of_two_plugins_is_refused_with_the_candidates(
    plugins: Any, site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    site.add("gamma", {"models": [{"name": "small", "target": "gamma_plugin.zoo:small"}]})

    assert main(["models", "show", "small"]) == 1
    assert "alpha/small" in (message := capsys.readouterr().err) and "gamma/small" in message
    assert main(["models", "show", "gamma/small"]) == 0


def test_what_is_known_only_at_run_time_is_listed_on_request(plugins: Any, site: Any, shown: Any) -> None:
    hooks = """
from flambeau.core import hookimpl

@hookimpl
def flambeau_register(registries):
    registries["models"].register("found", lambda: None, plugin="gamma")
"""
    site.add("gamma", {"hooks": "gamma_plugin.hooks"}, modules={"hooks.py": hooks})

    assert "gamma/found" not in ids(shown("models", "list", "--json"))
    assert "gamma/found" in ids(shown("models", "list", "--all", "--json"))


def test_plugins_are_listed_with_what_they_provide(plugins: Any, shown: Any) -> None:
    assert shown("plugins").splitlines()[0] == ("alpha\tflambeau-alpha\t1.0\tok\t2 models, 2 weights, 1 dataset\t")
    (row,) = shown("plugins", "list", "beta", "--json")
    assert list(row) == [
        *("name", "distribution", "version", "state", "api", "package", "manifest", "hooks", "editable", "home_page"),
        *("error", "remedy", "provides"),
    ]


def test_a_plugin_is_shown_with_the_ids_it_provides(plugins: Any, shown: Any) -> None:
    (row,) = shown("plugins", "show", "alpha", "--json")

    assert row["names"]["weights"] == ["alpha/small:V1", "alpha/small:V2"]
    assert row["home_page"] == "https://alpha.example"
    assert "alpha/digits" in shown("plugins", "show", "alpha")


@pytest.mark.filterwarnings("ignore::flambeau.core.errors.PluginWarning")
@pytest.mark.parametrize(
    ("manifest", "state", "cause", "remedy"),
    [
        ("{", "broken", "not valid JSON", "--force-reinstall --no-deps flambeau-sick"),
        ('{"schema": 1, "plugin": "sick", "api": "9.0"}', "incompatible", "9.0", "--upgrade flambeau-core"),
    ],
)
def test_a_plugin_that_takes_no_part_has_a_cause_and_a_remedy(
    manifest: str, state: str, cause: str, remedy: str, plugins: Any, site: Any, shown: Any
) -> None:
    site.add("sick", manifest)

    (row,) = shown("plugins", "list", "sick", "--json")
    assert row["state"] == state
    assert cause in row["error"] and remedy in row["remedy"]
    assert shown("plugins", "list", "--strict", code=3)
    assert shown("plugins", "list", "alpha", "--strict")


def test_a_strict_environment_still_lists_plugins(
    plugins: Any, site: Any, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.plugin("sick", manifest="{")
    monkeypatch.setenv("FLAMBEAU_STRICT_PLUGINS", "1")
    from flambeau.core.plugins import manager

    manager.refresh_snapshot()
    assert "sick" in shown("plugins", "list")


def test_a_plugin_is_disabled_and_enabled_again(plugins: Any, site: Any, shown: Any) -> None:
    assert shown("plugins", "disable", "beta") == "disabled for this user: beta\n"
    site.discover()
    (row,) = shown("plugins", "list", "beta", "--json")
    assert (row["state"], row["remedy"]) == ("disabled", "flambeau plugins enable beta")
    assert ids(shown("models", "--json")) == ["alpha/bare", "alpha/small"]

    assert shown("plugins", "enable", "beta") == "disabled for this user: no plugin\n"
    site.discover()
    assert "beta/large" in ids(shown("models", "--json"))


def test_disabling_keeps_the_rest_of_the_configuration(plugins: Any, site: Any, flambeau_home: Path) -> None:
    site.configure({"registry": {"prefer": {"small": "alpha"}}})

    assert main(["plugins", "disable", "alpha"]) == 0

    kept = json.loads(flambeau_home.joinpath("config.json").read_text())
    assert kept == {"registry": {"prefer": {"small": "alpha"}}, "plugins": {"disabled": ["alpha"]}}


def test_a_plugin_nobody_has_cannot_be_disabled(plugins: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "disable", "alhpa"]) == 1
    assert "Close names: alpha" in capsys.readouterr().err


def test_a_missing_first_party_plugin_comes_with_its_install_command(
    plugins: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugins", "show", "audio"]) == 1
    assert "-m pip install flambeau-audio" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["models", "weights", "datasets"])
@pytest.mark.parametrize("action", ["list", "show x"])
def test_a_plugin_that_is_not_there_is_a_failure(
    kind: str, action: str, plugins: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([kind, *action.split(), "--plugin", "alpah"]) == 1
    assert "no plugin 'alpah' is installed. Close names: alpha" in capsys.readouterr().err


def test_a_plugin_that_takes_no_part_is_a_failure_with_its_cause(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    site.configure({"plugins": {"disabled": ["idle"]}})
    site.add("idle", {"models": [{"name": "net", "target": "idle_plugin:net"}]})

    assert main(["models", "--plugin", "idle"]) == 1
    assert "plugin 'idle' (flambeau-idle 1.0) is disabled" in capsys.readouterr().err


def test_a_plugin_without_anything_of_the_kind_has_an_empty_listing(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    site.add("bare")
    assert main(["models", "--plugin", "bare"]) == 0
    assert capsys.readouterr().out == ""


def test_plugins_are_imported_on_request_to_see_whether_they_can_be(site: Any, shown: Any) -> None:
    site.add("hollow", modules={"__init__.py": "raise OSError('no device')"})

    assert [row["state"] for row in shown("plugins", "list", "--json")] == ["ok"]
    (row,) = shown("plugins", "list", "--load", "--json")
    assert (row["state"], row["error"]) == ("broken", "OSError: no device")


def test_a_strict_listing_imports_the_plugins_that_it_answers_for(site: Any, shown: Any) -> None:
    site.add("hollow", modules={"__init__.py": "raise OSError('no device')"})

    (row,) = shown("plugins", "list", "--strict", "--json", code=3)
    assert (row["state"], row["error"]) == ("broken", "OSError: no device")


def test_metrics_and_tags_with_control_characters_are_shown_as_text(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    red = "\x1b[31mred"
    record = {**PLAIN, "enum": "odd_plugin:W", "meta": {"_metrics": {red: {red: 1.0}}}}
    site.add("odd", {"weights": [record], "models": [{"name": "small", "target": "odd_plugin:f", "tags": [red]}]})

    for words in (["weights"], ["weights", "show", "small:V1"], ["models"], ["models", "show", "small"]):
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "\x1b" not in text
        assert r"\x1b[31mred" in text
