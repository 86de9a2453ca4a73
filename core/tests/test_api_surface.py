"""The public names, where they are, and what an import costs: each import in a process of its own."""

import json
import subprocess
import sys

import pytest

import flambeau.core

SURFACE = {
    "plugins": "discover Plugin get_plugin load_plugin plugin_manager hookspec hookimpl PluginError PluginWarning",
    "registry": "Registry Entry MODELS DATASETS WEIGHTS TENSOR_TYPES RegistryError UnknownNameError AmbiguousNameError "
    "DuplicateNameError",
    "weights": "Weights WeightsEnum get_weight get_model_weights register_model list_models get_model "
    "get_model_builder list_weights load_state_dict load_into build_with_weights empty_parameters "
    "UnsafeCheckpointError",
    "hub": "fetch verify cache_dir cached purge extract_archive read_archive HubError DownloadError HashMismatchError "
    "OfflineError GatedError DiskFullError UnsafeArchiveError",
    "datasets": "DatasetInfo register_dataset list_datasets get_dataset get_dataset_info fetch_dataset",
    "tensors": "TypedTensor tensor_type TensorTypeInfo register_kernel get_kernel wrap unwrap rewrap set_return_type "
    "collate summary",
    "native": "KernelLibrary register_op status include_dir cmake_dir",
    "manifest": "Manifest read_manifest validate_manifest MANIFEST_NAME SCHEMA_VERSION",
    "cli": "main",
}
NAMES = [(module, name) for module, names in SURFACE.items() for name in names.split()]

BASES = {
    "RegistryError": ("LookupError",),
    "UnknownNameError": ("RegistryError", "KeyError", "ValueError"),
    "AmbiguousNameError": ("RegistryError", "KeyError"),
    "DuplicateNameError": ("RegistryError", "ValueError"),
    "PluginError": ("RuntimeError",),
    "PluginWarning": ("UserWarning",),
    "HubError": ("RuntimeError",),
    "DownloadError": ("HubError", "OSError"),
    "HashMismatchError": ("DownloadError",),
    "OfflineError": ("DownloadError",),
    "GatedError": ("DownloadError",),
    "DiskFullError": ("DownloadError",),
    "UnsafeArchiveError": ("HubError", "ValueError"),
    "UnsafeCheckpointError": ("HubError", "UnpicklingError"),
}
HEAVY = ("torch", "numpy", "pydantic", "pluggy", "urllib3", "PIL")


def run(code):
    """What a fresh interpreter prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def loaded_by(code):
    """The heavy modules that code makes an interpreter load."""
    return run(f"import json, sys\n{code}\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))")


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_is_in_its_module_and_at_the_top(module, name):
    home = __import__(f"flambeau.core.{module}", fromlist=[name])
    assert getattr(home, name) is getattr(flambeau.core, name)


def test_the_top_lists_these_names_and_no_others():
    expected = {name for _, name in NAMES} | {"__version__", "API_VERSION"}
    assert set(flambeau.core.__all__) == expected
    assert flambeau.core.__all__ == sorted(flambeau.core.__all__)
    assert expected | set(SURFACE) <= set(dir(flambeau.core))


def test_versions_are_a_string_and_a_pair():
    assert flambeau.core.API_VERSION == (1, 0)
    assert flambeau.core.__version__.count(".") == 2


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'flambeau\.core' has no attribute 'nothing'"):
        flambeau.core.nothing


@pytest.mark.parametrize(("name", "bases"), BASES.items())
def test_errors_are_what_callers_catch(name, bases):
    assert set(bases) <= {base.__name__ for base in getattr(flambeau.core, name).__mro__}


@pytest.mark.parametrize(
    "code",
    [
        "import flambeau.core",
        *(f"import flambeau.core.{name}" for name in SURFACE if name != "tensors"),
        "import flambeau.core; flambeau.core.discover()",
        "import flambeau.core; dir(flambeau.core)",
        "import flambeau.core as c; list(c.MODELS), list(c.WEIGHTS), list(c.DATASETS), list(c.TENSOR_TYPES)",
        "import flambeau.core as c; c.list_models(), c.list_weights(), c.list_datasets()",
        "from flambeau.core.manifest import read_manifest, MANIFEST_NAME",
    ],
)
def test_importing_and_listing_load_nothing_heavy(code):
    assert loaded_by(code) == []


def test_importing_core_loads_nothing_of_ours_but_the_version():
    code = "import json, sys, flambeau.core; print(json.dumps([name for name in sys.modules if 'flambeau.' in name]))"
    assert sorted(run(code)) == ["flambeau.core", "flambeau.core.version"]


def test_no_distribution_claims_the_namespace():
    assert run("import json, flambeau; print(json.dumps(getattr(flambeau, '__file__', None)))") is None


def test_listing_with_plugins_imports_none_of_their_code(site):
    records = [{"name": f"net{n}", "target": "alpha_plugin.zoo:net"} for n in range(50)]
    site.plugin("alpha", models=records, requires={"torch": ">=2.8"})
    code = (
        "import sys, flambeau.core as c\n"
        "assert len(c.MODELS.entries('alpha')) == len(c.list_models('alpha')) == 50\n"
        f"print([name for name in (*{HEAVY}, 'alpha_plugin') if name in sys.modules])"
    )
    assert site.run("-c", code).stdout.strip() == "[]"
