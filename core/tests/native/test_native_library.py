"""A kernel library is found, judged and bound; whatever is wrong with it, the python tier serves and says why."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.native import LIBRARIES, KernelLibrary, cmake_dir, include_dir, status, tiers

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


@pytest.fixture(autouse=True)
def forget_libraries(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_NATIVE", raising=False)
    known = list(LIBRARIES)
    yield
    LIBRARIES[:] = known


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A new importable package; returns its folder."""
    folder = tmp_path / f"kernels_of_{tmp_path.name}".replace("-", "_")
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def library_of(package: Path) -> KernelLibrary:
    return KernelLibrary(package.name, namespace="test_library")


def test_a_package_without_a_library_is_served_by_python(package):
    library = library_of(package)
    assert (library.load(), library.provider, library.path) == (None, "python", None)
    assert library.reason == f"no file _kernels{SUFFIX} in package {package.name}"
    assert library.native_operators() == []


def test_a_package_that_does_not_exist_is_served_by_python():
    library = KernelLibrary("no_such_package.at_all", namespace="test_library")
    assert library.provider == "python"
    assert "no_such_package.at_all" in library.reason


def test_a_function_of_a_library_that_is_not_loaded_names_the_reason(package):
    with pytest.raises(RuntimeError, match=r"fb_scale_f32 of .* cannot be called: no file _kernels"):
        library_of(package).function("fb_scale_f32", [], None)


def test_a_damaged_file_is_served_by_python(package):
    (package / f"_kernels{SUFFIX}").write_bytes(b"not a library at all")
    library = library_of(package)
    assert library.provider == "python"
    assert "cannot be loaded" in library.reason


def test_a_library_that_is_not_built_with_the_header_is_not_used(package, compile_cpp, tmp_path):
    source = tmp_path / "plain.cpp"
    source.write_text('extern "C" __attribute__((visibility("default"))) int answer() { return 42; }')
    compile_cpp(source, package / f"_kernels{SUFFIX}")
    library = library_of(package)
    assert library.provider == "python"
    assert library.reason.endswith("was not built with flambeau/kernel.h")


def test_a_library_of_functions_alone_is_called_through_ctypes(package, compile_cpp, tmp_path):
    import ctypes

    source = tmp_path / "functions.cpp"
    source.write_text("#include <flambeau/kernel.h>\nFB_EXPORT int32_t fb_answer() noexcept { return 42; }\n")
    compile_cpp(source, package / f"_kernels{SUFFIX}")
    library = library_of(package)
    assert (library.provider, library.reason, library.native_operators()) == ("ctypes", "", [])
    assert library.function("fb_answer", [], ctypes.c_int32)() == 42


def test_a_library_for_another_kernel_interface_is_not_used(package, compile_cpp, tmp_path):
    source = tmp_path / "future.cpp"
    source.write_text('extern "C" __attribute__((visibility("default"))) int fb_abi() { return 999; }')
    compile_cpp(source, package / f"_kernels{SUFFIX}")
    library = library_of(package)
    assert library.provider == "python"
    assert "kernel interface 999" in library.reason
    assert "rebuild it" in library.reason


def test_native_kernels_can_be_switched_off(package, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_NATIVE", "off")
    library = library_of(package)
    assert (library.load(), library.provider, library.reason) == (None, "python", "FLAMBEAU_NATIVE=off")


def test_an_unknown_choice_is_reported_and_means_auto(monkeypatch, caplog):
    monkeypatch.setenv("FLAMBEAU_NATIVE", "dispatched")
    with caplog.at_level(logging.WARNING, "flambeau.native"):
        assert tiers.wanted() == ("dispatcher", "ctypes", "python")
    assert "'dispatched', expected one of auto, dispatcher, ctypes, off" in caplog.text


@pytest.mark.parametrize("version", ["2.8.0", "2.9.1+cu128", "2.13.0+cpu", "2.13.2a0+gitabc"])
def test_the_dispatcher_tier_serves_tested_torch_versions(version):
    assert tiers.dispatcher_objection(version) == ""


@pytest.mark.parametrize("version", ["2.7.1", "2.14.0", "3.0.0", "1.13.1", "unknown"])
def test_the_dispatcher_tier_leaves_other_torch_versions_alone_unless_asked_for(version, monkeypatch):
    assert version in tiers.dispatcher_objection(version)
    monkeypatch.setenv("FLAMBEAU_NATIVE", "dispatcher")
    assert tiers.dispatcher_objection(version) == ""


def test_an_untested_torch_gets_the_ctypes_tier(toy, run_python):
    code = (
        "import json, torch; torch.__version__ = torch.torch_version.TorchVersion('2.99.0')\n"
        "import toy_kernels as toy\n"
        "print(json.dumps([toy.LIBRARY.provider, toy.LIBRARY.reason, toy.scale(torch.ones(2), 3.0).tolist()]))"
    )
    provider, reason, result = run_python(code, toy)
    assert (provider, result) == ("ctypes", [3.0, 3.0])
    assert "torch 2.99.0 is outside 2.8 to 2.13" in reason


def test_a_libtorch_without_the_c_interface_gets_the_ctypes_tier(toy, run_python):
    code = (
        "import json, sys, pathlib, torch\n"
        "from flambeau.core.native import library\n"
        "library.libtorch_path = lambda: pathlib.Path(sys.executable)\n"
        "library._OPERATORS = 64  # as if the interface's functions were not found\n"
        "import toy_kernels as toy\n"
        "print(json.dumps([toy.LIBRARY.provider, toy.LIBRARY.reason, toy.scale(torch.ones(2), 3.0).tolist()]))"
    )
    provider, reason, result = run_python(code, toy)
    assert (provider, result) == ("ctypes", [3.0, 3.0])
    assert "does not offer its C interface" in reason


def test_a_library_is_found_where_an_editable_install_puts_it(tmp_path, monkeypatch):
    sources, site = tmp_path / "sources", tmp_path / "site"
    for folder in (sources / "space_of_kernels" / "part", site / "space_of_kernels" / "part"):
        folder.mkdir(parents=True)
    (sources / "space_of_kernels" / "part" / "__init__.py").touch()
    installed = site / "space_of_kernels" / "part" / f"_kernels{SUFFIX}"
    installed.touch()
    for folder in (site, sources):
        monkeypatch.syspath_prepend(str(folder))
    assert KernelLibrary("space_of_kernels.part", namespace="test_library").path == installed


def test_finding_a_library_does_not_import_its_package(package):
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / f"_kernels{SUFFIX}").touch()
    assert library_of(package).path is not None


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_a_library_needs_nothing_but_the_c_library(toy):
    listing = subprocess.run(
        ["readelf", "--dynamic", str(toy / "toy_kernels" / "_kernels.so")], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split("[")[1].rstrip("]") for line in listing.splitlines() if "(NEEDED)" in line}
    assert {name.split(".")[0] for name in needed} <= {"libc", "libm", "libdl"}


def test_status_tells_what_serves_each_operator(toy, run_python):
    code = (
        "import json, toy_kernels\nfrom flambeau.core.native import status\n"
        "print(json.dumps([record for record in status() if record['namespace'] == 'toy']))"
    )
    (record,) = run_python(code, toy, FLAMBEAU_DISABLE_PLUGINS="*")
    assert record["package"] == "toy_kernels"
    assert record["library"] == str(toy / "toy_kernels" / f"_kernels{SUFFIX}")
    assert (record["provider"], record["reason"]) == ("dispatcher", "")
    assert record["threads"] in ("torch", "openmp")
    assert record["operators"] == [
        {"name": "forgetful", "provider": None, "triton": None},
        {"name": "head", "provider": "dispatcher", "triton": None},
        {"name": "pack", "provider": "dispatcher", "triton": None},
        {"name": "scale", "provider": "dispatcher", "triton": "toy_triton:scale"},
        {"name": "weigh", "provider": "dispatcher", "triton": None},
    ]


def test_status_shows_a_library_that_only_a_manifest_names(site):
    kernels = {"namespace": "flambeau_alpha", "library": "_kernels", "package": "alpha_plugin"}
    site.add("alpha", {"kernels": [kernels]})
    record = next(record for record in status() if record["namespace"] == "flambeau_alpha")
    assert (record["provider"], record["library"]) == ("python", None)
    assert "no file" in record["reason"]


def test_status_shows_a_library_that_only_a_hook_declares(site):
    hooks = """
    from flambeau.core import KernelLibrary, hookimpl

    @hookimpl
    def flambeau_kernels():
        return [KernelLibrary("beta_plugin", namespace="flambeau_beta")]
    """
    site.add("beta", modules={"hooks.py": hooks}, hooks="beta_plugin.hooks")
    assert "flambeau_beta" in [record["namespace"] for record in status()]


def test_asking_for_the_build_folders_imports_no_torch(run_python, tmp_path):
    code = (
        "import json, sys, flambeau.core.native as native\n"
        "print(json.dumps([str(native.cmake_dir()), str(native.include_dir()), 'torch' in sys.modules]))"
    )
    assert run_python(code, tmp_path) == [str(cmake_dir()), str(include_dir()), False]
    assert (cmake_dir() / "FlambeauConfig.cmake").is_file()
    assert (include_dir() / "flambeau" / "kernel.h").is_file()
