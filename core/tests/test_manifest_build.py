"""`python -m flambeau.core.manifest build`: the tables of a manifest follow from the code."""

import json

import pytest

from flambeau.core import read_manifest, validate_manifest

FACTS = """
from functools import partial
from flambeau.core.weights import Weights, WeightsEnum

class Preset:
    def __init__(self, crop_size): ...

class Net_Weights(WeightsEnum):
    V1 = Weights("https://e.example/net-12345678.pth", partial(Preset, crop_size=4),
                 {"categories": ["a", "b"], "size": (1, 2)}, sha256="12345678")
    V2 = Weights("https://e.example/net-87654321.pth", partial(Preset, crop_size=8), {"license": "MIT"}, size=7)
    DEFAULT = V2
"""
ZOO = """
from __future__ import annotations
from flambeau.core.weights import register_model
from alpha_plugin.facts import Net_Weights

@register_model(task="image-classification", tags=("small",))
def net(*, weights: Net_Weights | None = None, progress: bool = True): ...

@register_model("plain")
def make_plain(): ...
"""
KINDS = """
from flambeau.core.datasets import register_dataset
from flambeau.core.registry import TENSOR_TYPES

@register_dataset("toy", task="image-classification")
class Toy:
    def __len__(self): return 0

class Wave: ...
TENSOR_TYPES.register("wave", Wave, info={"fields": ("rate",)})
"""
MODULES = {"__init__.py": "", "facts.py": FACTS, "zoo/__init__.py": "", "zoo/nets.py": ZOO, "kinds.py": KINDS}


@pytest.fixture
def build(site):
    def build(*options, package="alpha_plugin", code=0):
        done = site.run("-m", "flambeau.core.manifest", "build", package, *options, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return build


def test_tables_follow_from_what_the_code_registers(site, build):
    path = site.plugin("alpha", modules=MODULES)
    assert "written" in build()
    manifest = read_manifest(path)
    assert validate_manifest(manifest) == []
    assert [(record["name"], record["target"], record["task"]) for record in manifest["models"]] == [
        ("net", "alpha_plugin.zoo.nets:net", "image-classification"),
        ("plain", "alpha_plugin.zoo.nets:make_plain", None),
    ]
    assert manifest["models"][0]["weights"] == "alpha_plugin.facts:Net_Weights"
    assert manifest["models"][0]["tags"] == ["small"]
    assert [(record["name"], record["default"]) for record in manifest["weights"]] == [("V1", False), ("V2", True)]
    first = manifest["weights"][0]
    assert first["transforms"] == {"target": "alpha_plugin.facts:Preset", "params": {"crop_size": 4}}
    assert first["meta"] == {"num_categories": 2, "size": [1, 2]}
    assert [record["target"] for record in manifest["datasets"]] == ["alpha_plugin.kinds:Toy"]
    assert manifest["tensor_types"] == [{"name": "wave", "fields": ["rate"], "target": "alpha_plugin.kinds:Wave"}]
    assert manifest["kernels"] == []


def test_what_is_listed_from_the_manifest_equals_what_the_code_says(site, build):
    site.plugin("alpha", modules=MODULES)
    build()
    code = """if 1:
        import json
        from flambeau.core.registry import by_kind
        listed = {entry.id: entry.info for registry in by_kind().values() for entry in registry.entries("alpha")}
        import alpha_plugin.zoo.nets, alpha_plugin.kinds
        for registry in by_kind().values():
            for entry in registry.registrations():
                assert json.loads(json.dumps(entry.info)).items() <= listed.pop(entry.id).items(), entry
        assert not listed
    """
    site.run("-c", code)


def test_building_again_changes_nothing(site, build):
    path = site.plugin("alpha", modules=MODULES)
    build()
    text = path.read_text()
    assert "up to date" in build()
    assert "up to date" in build("--check")
    assert path.read_text() == text


def test_a_stale_manifest_fails_the_check_with_a_diff_and_is_left_alone(site, build):
    path = site.plugin("alpha", modules=MODULES)
    build()
    text = path.read_text()
    site.folder.joinpath("alpha_plugin/zoo/nets.py").write_text(ZOO.replace('"plain"', '"renamed"'))
    report = build("--check", code=1)
    assert '-    {"name": "plain"' in report
    assert '+    {"name": "renamed"' in report
    assert "python -m flambeau.core.manifest build alpha_plugin" in report
    assert path.read_text() == text


def test_the_hand_written_head_is_kept_and_comes_first(site, build):
    head = {
        "models": [],
        "extra": {"of": "ours"},
        "commands": [{"name": "greet", "help": "say hello", "target": "alpha_plugin.cli:configure"}],
        "requires": {"torch": ">=2.8"},
        "api": "1.0",
        "plugin": "alpha",
        "schema": 1,
    }
    path = site.plugin("alpha", manifest=head, modules=MODULES)
    build()
    manifest = read_manifest(path)
    assert {key: manifest[key] for key in head if key != "models"} == {k: v for k, v in head.items() if k != "models"}
    assert list(manifest)[:5] == ["schema", "plugin", "api", "requires", "commands"]
    assert list(manifest)[-5:] == ["models", "weights", "datasets", "tensor_types", "kernels"]


def test_each_record_has_a_line_of_its_own(site, build):
    path = site.plugin("alpha", modules=MODULES)
    build()
    lines = path.read_text().splitlines()
    for record in read_manifest(path)["weights"]:
        assert any(json.loads(line.rstrip(",")) == record for line in lines if line.startswith("    {"))
    assert all(len(line) < 1000 for line in lines)


def test_a_first_manifest_takes_the_plugins_name_from_the_entry_point(site, build):
    path = site.plugin("alpha", package="other_name", modules={"__init__.py": ""})
    path.unlink()
    build(package="other_name")
    assert read_manifest(path)["plugin"] == "alpha"


def test_a_target_that_moved_to_another_module_does_not_stop_the_build(site, build):
    path = site.plugin("alpha", modules=MODULES, models=[{"name": "net", "target": "alpha_plugin.old:net"}])
    build()
    assert read_manifest(path)["models"][0]["target"] == "alpha_plugin.zoo.nets:net"


def test_what_runs_as_a_program_or_serves_tests_is_not_imported(site, build):
    bomb = "raise AssertionError('imported')"
    modules = {**MODULES, "__main__.py": bomb, "conformance.py": bomb}
    site.plugin("alpha", modules=modules, conformance="alpha_plugin.conformance")
    build()


KERNELS = """
from flambeau.core.native import KernelLibrary, register_op

LIBRARY = KernelLibrary("alpha_plugin", "_kernels", namespace="flambeau_alpha")

def double(values): return values * 2

register_op("double(Tensor values) -> Tensor", library=LIBRARY, symbol=None, fake=double, python=double,
            triton="alpha_plugin.gpu:double")
"""


def test_kernels_are_found_and_a_module_for_accelerators_need_not_be_importable(site, build):
    modules = {"__init__.py": "", "a_ops.py": KERNELS, "gpu.py": "import triton_that_is_not_there"}
    path = site.plugin("alpha", modules=modules)
    build()
    kernels = [{"namespace": "flambeau_alpha", "library": "_kernels", "package": "alpha_plugin"}]
    assert read_manifest(path)["kernels"] == kernels


def test_what_kernels_for_accelerators_share_need_not_be_importable_either(site, build):
    shared = "raise ModuleNotFoundError(\"No module named 'triton'\", name='triton')"
    path = site.plugin("alpha", modules={"__init__.py": "", "a_ops.py": KERNELS, "gpu.py": "", "gpu_parts.py": shared})
    build()
    assert len(read_manifest(path)["kernels"]) == 1


def test_a_package_without_anything_registered_has_empty_tables(site, build):
    path = site.plugin("alpha", modules={"__init__.py": ""}, models=[{"name": "old", "target": "alpha_plugin:old"}])
    build()
    assert read_manifest(path)["models"] == []


def register(statement):
    return f"from flambeau.core.registry import MODELS\n{statement}\n"


UNFIT = [
    ({"broken.py": "import not_there_at_all"}, "importing alpha_plugin.broken failed: ModuleNotFoundError"),
    ({"broken.py": "raise SystemExit(3)"}, "importing alpha_plugin.broken failed: SystemExit: 3"),
    (
        {"a.py": register("def f(): ...\nMODELS.register('x', f, info={'when': {1, 2}})")},
        "which JSON cannot hold",
    ),
    ({"a.py": register("def f(): ...\nMODELS.register('x', f, info={'a': float('nan')})")}, "is nan"),
    ({"a.py": register("def f(): ...\nMODELS.register('x', f, plugin='other')")}, "the manifest's plugin is 'alpha'"),
    (
        {"a.py": register("f = lambda: 0\nf.__module__ = __name__\nMODELS.register('x', f)")},
        "cannot be imported; register a function or a class",
    ),
    (
        {"a.py": FACTS},
        "alpha_plugin.a:Net_Weights belongs to no registered model",
    ),
    ({"a.py": register("def f(): ...\nMODELS.register('x', f, info={'tags': 'small'})")}, "$.models[0].tags"),
]


@pytest.mark.parametrize(("modules", "fault"), UNFIT, ids=[fault for _, fault in UNFIT])
def test_what_no_manifest_can_hold_stops_the_build_and_leaves_the_file(site, build, modules, fault):
    path = site.plugin("alpha", modules={"__init__.py": "", **modules})
    text = path.read_text()
    assert fault in build(code=1)
    assert path.read_text() == text


def test_several_packages_are_built_at_once_and_one_failure_does_not_stop_the_rest(site, build):
    site.plugin("alpha", modules={"__init__.py": "1 / 0"})
    path = site.plugin("beta", modules={"__init__.py": ""})
    report = build("beta_plugin", code=1)
    assert "importing alpha_plugin failed" in report
    assert "kernels" in read_manifest(path)


def test_a_package_that_is_not_there_is_named(build):
    assert "importing nowhere failed" in build(package="nowhere", code=1)


def test_a_module_is_no_package(site, build):
    site.distribution("flat", files={"flat.py": ""})
    assert "is no package with an __init__.py" in build(package="flat", code=1)
