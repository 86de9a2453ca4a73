"""What the Tab key offers, and the scripts that ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.cli import main
from flambeau.core.cli.commands import BUILT_IN
from flambeau.core.cli.completion import SCRIPTS, complete


@pytest.fixture
def plugin(site: Any) -> Any:
    weights = {"model": "net", "enum": "alpha_plugin:Net_Weights", "name": "V1", "url": "https://example.org/net.pth"}
    site.add(
        "alpha",
        {
            "models": [{"name": "net", "target": "alpha_plugin:net"}, {"name": "nest", "target": "alpha_plugin:nest"}],
            "weights": [weights],
            "datasets": [{"name": "set", "target": "alpha_plugin:Set"}],
            "commands": [{"name": "shine", "target": "alpha_plugin.shine:configure"}],
        },
    )
    return site


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["we"], ["weights"]),
        (["sh"], ["shine"]),
        (["weights", "fe"], ["fetch"]),
        (["weights", "fetch", "alpha/n"], ["alpha/net:V1"]),
        (["models", "show", ""], ["alpha/nest", "alpha/net"]),
        (["datasets", "fetch", "x", ""], ["alpha/set"]),
        (["plugins", "disable", ""], ["alpha"]),
        (["weights", "list", "--max"], ["--max-parameters"]),
        (["weights", "list", "--plugin", ""], ["alpha"]),
        (["migrate", ""], []),
        (["weights", "nonsense"], []),
    ],
)
def test_words_are_completed_from_commands_options_and_registries(
    words: list[str], offered: list[str], plugin: Any
) -> None:
    assert complete(words) == offered


def test_all_commands_are_offered_first(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "words", "--", ""]) == 0
    assert capsys.readouterr().out.split() == sorted([*(command.name for command in BUILT_IN), "shine"])


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_what_the_shell_accepts(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert "flambeau completion words --" in script.read_text()
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n", str(script)], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("flambeau weigh", ["weights"]),
        ("flambeau weights fetch alpha/net:V", ["V1"]),
        ("flambeau weights path al", ["alpha/net:V1"]),
    ],
)
def test_bash_completes_a_line(line: str, reply: list[str], plugin: Any, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "flambeau"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flambeau.core "$@"\n')
    program.chmod(0o755)
    # As bash does: words end at blanks and at each colon, which is a word of its own.
    words = line.replace(":", " : ").split(" ")
    code = (
        'eval "$(flambeau completion bash)"; '
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE='{line}'; COMP_POINT={len(line)}; _flambeau; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )

    done = subprocess.run(
        ["bash", "-c", code],
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == reply
