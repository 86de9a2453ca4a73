"""The whole schema of a manifest: what the generator, the doctor and the tests hold it to."""

from pathlib import Path

import pytest

from flambeau.core import Manifest, validate_manifest
from flambeau.core.manifest.reading import HEAD_OPTIONAL, HEAD_REQUIRED, TABLES
from flambeau.core.manifest.reference import page

HEAD = {"schema": 1, "plugin": "alpha", "api": "1.0"}
MODEL = {"name": "net", "target": "alpha.zoo:net", "weights": "alpha.facts:Net_Weights", "task": "t", "tags": ["a"]}
MEMBER = {
    "model": "net",
    "enum": "alpha.facts:Net_Weights",
    "name": "V1",
    "url": "https://e.example/net-12345678.pth",
    "sha256": "0123456789abcdef" * 4,
    "size": 1234,
    "mirrors": ["https://mirror.example/net.pth"],
    "format": "auto",
    "default": True,
    "aliases": ["BEST"],
    "meta": {"num_categories": 1000, "_metrics": {"set": {"acc": 0.5}}},
    "transforms": {"target": "alpha.presets:Preset", "params": {"crop_size": 224}},
    "license": "BSD-3-Clause",
    "safe_globals": ["argparse.Namespace"],
    "num_params": 10,
    "task": "image-classification",
}
FULL = {
    **HEAD,
    "requires": {"torch": ">=2.8,<3"},
    "home_page": "https://alpha.example/start",
    "hooks": "alpha.hooks",
    "conformance": "alpha.conformance",
    "models": [MODEL],
    "weights": [MEMBER],
    "datasets": [
        {
            "name": "toy",
            "target": "alpha.data:Toy",
            "task": "t",
            "splits": ["train"],
            "files": [{"url": "https://e.example/toy.zip", "size": 3}],
            "license": None,
            "gated": None,
            "homepage": "https://toy.example",
        }
    ],
    "tensor_types": [{"name": "wave", "target": "alpha.types:Wave"}],
    "kernels": [{"namespace": "flambeau_alpha", "library": "_kernels", "package": "alpha"}],
    "commands": [{"name": "greet", "help": "say hello", "target": "alpha.cli:configure"}],
    "predictors": [{"task": "t", "target": "alpha.predict:run", "suffixes": [".png"], "default_weights": "net:V1"}],
}


def test_a_full_manifest_is_valid():
    assert validate_manifest(FULL) == []
    assert validate_manifest(HEAD) == []


def test_the_model_gives_typed_access():
    manifest = Manifest.model_validate(FULL)
    assert (manifest.plugin, manifest.schema_version) == ("alpha", 1)
    assert manifest.weights[0].transforms.params == {"crop_size": 224}


def test_keys_of_a_later_version_are_kept():
    assert Manifest.model_validate({**HEAD, "future": 1}).future == 1
    assert validate_manifest({**FULL, "models": [{**MODEL, "future": 1}]}) == []


def with_record(table, **changes):
    return {**FULL, table: [{**FULL[table][0], **changes}]}


FAULTS = [
    ([], "$: "),
    (None, "$: "),
    ({}, "$.schema: "),
    ({**FULL, "schema": 2}, "$.schema: "),
    ({**FULL, "plugin": "Big Name"}, "$.plugin: "),
    ({**FULL, "api": "1"}, "$.api: "),
    ({**FULL, "requires": {"torch": "newest"}}, "$.requires.torch: "),
    ({**FULL, "home_page": "javascript:alert(1)"}, "$.home_page: "),
    ({**FULL, "hooks": "not a module"}, "$.hooks: "),
    (with_record("models", target="alpha.zoo"), "$.models[0].target: "),
    (with_record("models", target="alpha.zoo:<lambda>"), "$.models[0].target: "),
    (with_record("models", tags="a"), "$.models[0].tags: "),
    (with_record("weights", url="net.pth"), "$.weights[0].url: "),
    (with_record("weights", url="https://e.example/"), "$.weights[0].url: "),
    (with_record("weights", mirrors=["nowhere"]), "$.weights[0].mirrors[0]: "),
    (with_record("weights", sha256="XYZ"), "$.weights[0].sha256: "),
    (with_record("weights", sha256="0" * 7), "$.weights[0].sha256: "),
    (with_record("weights", size="12"), "$.weights[0].size: "),
    (with_record("weights", size=-1), "$.weights[0].size: "),
    (with_record("weights", transforms={"params": {}}), "$.weights[0].transforms.target: "),
    (with_record("weights", model="other"), "$.weights[0].model: there is no model 'other'"),
    (with_record("weights", enum="alpha.facts:Other"), "$.weights[0].enum: "),
    (with_record("datasets", homepage="toy"), "$.datasets[0].homepage: "),
    (with_record("kernels", namespace="a-b"), "$.kernels[0].namespace: "),
    (with_record("commands", name="Say Hello"), "$.commands[0].name: "),
    (with_record("predictors", suffixes=["png"]), "$.predictors[0].suffixes[0]: "),
    ({**FULL, "tensor_types": FULL["tensor_types"] * 2}, "$.tensor_types[1] and $.tensor_types[0] are both named"),
]


@pytest.mark.parametrize(("data", "fault"), FAULTS, ids=[fault for _, fault in FAULTS])
def test_each_fault_is_named_with_its_path(data, fault):
    assert [found for found in validate_manifest(data) if found.startswith(fault)]


def test_all_faults_are_named_at_once():
    data = {**FULL, "plugin": "X", "models": [{"name": 1}]}
    assert len(validate_manifest(data)) >= 3


@pytest.mark.parametrize(
    "url",
    [
        "https://e.example/a.pth",
        "http://127.0.0.1:8000/a.pth",
        "hf://owner/name/model.safetensors@main",
        "package:alpha.weights/digits.safetensors",
    ],
)
def test_every_form_of_address_that_can_be_fetched_is_valid(url):
    assert validate_manifest(with_record("weights", url=url)) == []


PAGE = Path(__file__).parents[1] / "MANIFEST.md"


def test_the_page_about_manifests_says_what_the_schema_says():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m flambeau.core.manifest reference > MANIFEST.md"


def test_every_key_that_reading_knows_is_on_the_page():
    keys = {*HEAD_REQUIRED, *HEAD_OPTIONAL, *(key for tables in TABLES.values() for keys in tables for key in keys)}
    assert [key for key in sorted(keys) if f"`{key}`" not in page()] == []


def test_every_key_of_the_page_is_explained():
    rows = [line for line in page().splitlines() if line.startswith(("| `", "| **`"))]
    assert len(rows) > 80
    assert [row for row in rows if row.rstrip(" |").count("|") < 3] == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"files": [{"url": "nowhere"}]}, "$.datasets[0].files[0].url: "),
        ({"files": [{"path": "a", "md5": "x"}]}, "$.datasets[0].files[0].md5: "),
        ({"files": [{"path": "a", "contents": [{}]}]}, "$.datasets[0].files[0].contents[0].path: "),
        ({"schema": [{"key": "image"}]}, "$.datasets[0].schema[0].kind: "),
        ({"gated": {"kind": "maybe"}}, "$.datasets[0].gated.kind: "),
        ({"sizes": {"train": -1}}, "$.datasets[0].sizes.train: "),
    ],
)
def test_faults_inside_a_datasets_record_are_named_with_their_path(changes, fault):
    found = validate_manifest(with_record("datasets", **changes))
    assert [one for one in found if one.startswith(fault)]
