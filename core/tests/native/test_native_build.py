"""A third party builds its kernels with CMake against flambeau-core alone."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.native import cmake_dir

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(third_party LANGUAGES CXX)
find_package(Flambeau CONFIG REQUIRED)
flambeau_add_kernels(_kernels toy.cpp)
install(TARGETS _kernels DESTINATION third_party)
"""


def cmake(*words: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
    if not program:
        pytest.skip("needs CMake")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=200)


def test_a_project_builds_and_installs_its_library(tmp_path):
    shutil.copy(Path(__file__).with_name("toy.cpp"), tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    configured = cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DFlambeau_DIR={cmake_dir()}")
    assert configured.returncode == 0, configured.stderr
    built = cmake("--build", tmp_path / "build", "--config", "Release")
    assert built.returncode == 0, built.stdout + built.stderr
    assert "warning" not in (built.stdout + built.stderr).lower()
    installed = cmake("--install", tmp_path / "build", "--prefix", tmp_path / "site")
    assert installed.returncode == 0, installed.stderr

    (library,) = (tmp_path / "site" / "third_party").iterdir()
    assert library.stem == "_kernels"
    assert ctypes.CDLL(str(library)).fb_abi() == 1


def test_a_target_without_sources_is_refused(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.replace(" toy.cpp", ""))
    configured = cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DFlambeau_DIR={cmake_dir()}")
    assert configured.returncode != 0
    assert "no sources given" in configured.stderr
