"""The peers of the chosen packages are installed once each; those linked with absent libraries load all the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import old_peers
import peers

ROOT = Path(__file__).parents[2]


def test_every_peer_is_an_exact_release_and_is_tried():
    for name, one in peers.PEERS.items():
        assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", wheel) for wheel in (*one.wheels, *one.apart)), name
        compile(one.check, name, "exec")
        assert "import" in one.check


def test_peers_are_those_of_packages_that_are_there():
    folders = [folder for name in peers.PEERS for folder in (ROOT / name, ROOT / "plugins" / name) if folder.is_dir()]
    assert len(folders) == len(peers.PEERS)
    assert all((folder / "pyproject.toml").is_file() for folder in folders)


def test_a_peer_of_two_packages_is_installed_once():
    first = peers.Peers(("a==1.0", "b==2.0"), ("x", "y"))
    second = peers.Peers(("b==2.0", "c==3.0"), ("y", "z"))
    assert peers.choose([first, second]) == (["a==1.0", "b==2.0", "c==3.0"], ["x", "y", "z"])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_releases_of_a_peer_the_later_is_installed(order):
    both = [peers.Peers(("a==0.7.1",)), peers.Peers(("a==0.11.0",))]
    assert peers.choose([both[i] for i in order])[0] == ["a==0.11.0"]


def test_an_older_release_goes_into_a_folder_of_its_own(monkeypatch, tmp_path):
    installed = []
    monkeypatch.setattr(sys, "argv", ["peers.py", "data"])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(peers, "_pip", lambda *words: installed.append(words))
    monkeypatch.setattr(peers, "complete", lambda site: [])
    monkeypatch.setattr(peers, "_runs", lambda name, check: True)
    assert peers.main() == 0
    folder = str(tmp_path / "peers" / "torchdata-0.7.1")
    assert ("--no-deps", "--upgrade", "--target", folder, "torchdata==0.7.1") in installed
    assert "torchdata==0.11.0" in installed[0]
    assert "torchdata==0.7.1" not in installed[0]


def test_a_package_without_peers_is_told_and_installs_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peers.py", "example"])
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: pytest.fail(f"ran {words}"))
    assert peers.main() == 0
    assert capsys.readouterr().out == "example has no peers\n"


def test_a_peer_that_does_not_load_is_told(capfd):
    assert peers._runs("audio", "import sys")
    assert not peers._runs("audio", "import a_peer_that_is_not_there")
    assert "the peers of audio do not load" in capfd.readouterr().err


@pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("cc", "nm", "readelf"))),
    reason="needs binutils and cc on Linux",
)
def test_stand_ins_are_made_for_what_torch_lacks_and_not_for_another_ffmpeg(tmp_path):
    def build(name: str, source: str, *options: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".c").write_text(source)
        command = ["cc", "-shared", "-fPIC", "-w", str(path.with_suffix(".c")), "-o", str(path), *options]
        subprocess.run(command, check=True)
        return path

    def loads(path: Path) -> bool:
        code = f"import ctypes; ctypes.CDLL({str(path)!r})"
        return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0

    long_path = "-Wl,-rpath,/a/folder/that/exists/on/the/builders/machine/alone"
    for folder in ("torchcodec", "torchcodec.libs"):
        (tmp_path / folder).mkdir()
    cuda = build("gone/libgone_cuda.so", "int cuda() { return 7; }", "-Wl,-soname,libgone_cuda.so")
    ffmpeg = build("gone/libavutil.so.999", "int av() { return 7; }", "-Wl,-soname,libavutil.so.999")
    ours = build("torchcodec/libours.so", "int cuda(); int f() { return cuda(); }", str(cuda), long_path)
    source = "int cuda(); int av(); int f() { return cuda() + av(); }"
    newer = build("torchcodec/libnewer.so", source, str(cuda), str(ffmpeg), long_path)
    shutil.rmtree(tmp_path / "gone")
    assert not loads(ours)
    assert [path.name for path in peers.complete(tmp_path)] == ["libgone_cuda.so"]
    assert loads(ours)
    assert not loads(newer)
    assert peers.complete(tmp_path) == []


def test_an_old_peer_brings_its_torch_and_our_packages():
    for name, one in old_peers.PEERS.items():
        assert all("==" in wheel for wheel in one.wheels) and one.wheels[0].startswith("torch=="), name
        assert name in one.packages and all((ROOT / package / "pyproject.toml").is_file() for package in one.packages)
