"""The program as a whole: commands, exit codes, errors, what is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from flambeau.core import __version__
from flambeau.core.cli import main
from flambeau.core.cli.commands import BUILT_IN

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def alone(flambeau_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the developer has installed stays out of programs that tests start, whatever state it is in."""
    names = {point.name for group in ("flambeau.manifest", "flambeau") for point in entry_points(group=group)}
    monkeypatch.setenv("FLAMBEAU_DISABLE_PLUGINS", ",".join(sorted(names)))


ECHO = """
def configure(parser):
    parser.add_argument("word")
    parser.set_defaults(run=run)

def run(arguments):
    print(arguments.word)
    return 7
"""


def command(name: str, module: str) -> dict[str, str]:
    return {"name": name, "help": f"run {name}", "target": f"{module}:configure"}


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str], site: Any) -> None:
    assert main(["--help"]) == 0

    shown = capsys.readouterr().out
    assert all(f"    {one.name}" in shown for one in BUILT_IN)


@pytest.mark.parametrize("name", [one.name for one in BUILT_IN])
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: flambeau {name}")


def test_version_is_that_of_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"flambeau-core {__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["wieghts"], "did you mean weights?"),
        (["weights", "lst"], "did you mean list?"),
        (["plugins", "show"], "NAME"),
        (["weights", "list", "--jsn"], "--jsn"),
        ([], "COMMAND"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_right(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str], site: Any
) -> None:
    assert main(words) == 2
    assert meant in capsys.readouterr().err


def test_an_option_may_stand_before_the_action(capsys: pytest.CaptureFixture[str], site: Any) -> None:
    assert main(["plugins", "--json", "list"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_a_failure_is_a_message_and_no_traceback(program: Program) -> None:
    done = program("weights", "show", "no_such_weights_anywhere")

    assert done.returncode == 1
    assert done.stderr.startswith("flambeau: error: no weights 'no_such_weights_anywhere'")
    assert "Traceback" not in done.stderr


def test_a_damaged_configuration_is_named(program: Program, flambeau_home: Path) -> None:
    flambeau_home.mkdir()
    flambeau_home.joinpath("config.json").write_text("{")

    done = program("plugins")

    assert done.returncode == 1
    assert "config.json is not valid JSON" in done.stderr


@pytest.mark.parametrize("module", ["flambeau.core", "flambeau.core.cli"])
def test_both_modules_run_the_program(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("flambeau-core ")


def test_a_closed_pipe_is_no_error(plugin_site: Any) -> None:
    many = [{"name": f"model{i}", "target": "many_plugin:f"} for i in range(20_000)]
    plugin_site.add("many", {"models": many})

    with subprocess.Popen(
        [sys.executable, "-m", "flambeau.core", "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


HEAVY = ("torch", "numpy", "pydantic", "pluggy", "urllib3", "PIL", "tqdm", "requests", "libcst", "filelock")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["weights", "list"],
        ["weights", "list", "--json"],
        ["weights", "--help"],
        ["models", "list"],
        ["models", "show", "light/net"],
        ["datasets"],
        ["datasets", "show", "light/set", "--urls"],
        ["plugins", "list"],
        ["plugins", "show", "light"],
    ],
    ids=" ".join,
)
def test_help_and_listings_import_nothing_heavy_and_no_plugin(
    words: list[str], plugin_site: Any, program: Program
) -> None:
    weights = {"model": "net", "enum": "light_plugin:Net_Weights", "name": "V1", "url": "https://example.org/net.pth"}
    files = [{"url": "https://example.org/set.zip"}]
    tables = {
        "models": [{"name": "net", "target": "light_plugin:net"}],
        "weights": [weights],
        "datasets": [{"name": "set", "target": "light_plugin:Set", "files": files}],
        "commands": [command("light", "light_plugin.command")],
    }
    plugin_site.add("light", tables)
    code = (
        "import sys; from flambeau.core.cli import main; code = main(sys.argv[1:]); "
        f"loaded = sorted(set(sys.modules) & {{*{HEAVY!r}, 'light_plugin'}}); "
        "sys.stderr.write(','.join(loaded)); sys.exit(code)"
    )

    done = program(*words, code=code)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_a_plugin_adds_a_command_by_its_manifest(plugin_site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plugin_site.add("say", {"commands": [command("echo", "say_plugin.echo")]}, modules={"echo.py": ECHO})

    assert main(["--help"]) == 0
    assert "run echo [say]" in capsys.readouterr().out
    assert main(["echo", "hello"]) == 7
    assert capsys.readouterr().out == "hello\n"


def test_two_plugins_with_one_command_are_told_apart_by_their_names(
    plugin_site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        module = {"echo.py": ECHO.replace("arguments.word", f"{name!r}")}
        plugin_site.add(name, {"commands": [command("echo", f"{name}_plugin.echo")]}, modules=module)

    assert main(["echo", "hello"]) == 2
    assert "one/echo" in capsys.readouterr().err
    assert main(["two/echo", "hello"]) == 7
    assert capsys.readouterr().out == "two\n"


def test_a_plugin_cannot_take_over_our_commands(plugin_site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plugin_site.add("bold", {"commands": [command("plugins", "bold_plugin.echo")]}, modules={"echo.py": ECHO})

    assert main(["plugins", "list", "bold"]) == 0
    assert "flambeau-bold" in capsys.readouterr().out
    assert main(["bold/plugins", "hello"]) == 7


def test_a_command_that_cannot_be_imported_names_its_plugin(
    plugin_site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin_site.add("sick", {"commands": [command("ache", "sick_plugin.nowhere")]})

    assert main(["ache"]) == 1
    shown = capsys.readouterr().err
    assert "command 'ache' of plugin 'sick'" in shown and "flambeau plugins disable sick" in shown


@pytest.mark.parametrize(
    "module",
    [
        "raise ValueError('out of order')",
        "raise SystemError('out of order')",
        "def configure(parser): raise LookupError('out of order')",
    ],
)
def test_a_command_whose_module_raises_is_a_message_and_no_traceback(
    module: str, plugin_site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin_site.add("sick", {"commands": [command("ache", "sick_plugin.ache")]}, modules={"ache.py": module})

    assert main(["ache"]) == 1
    shown = capsys.readouterr().err
    assert "command 'ache' of plugin 'sick'" in shown and "Error: out of order" in shown
    assert "flambeau plugins disable sick" in shown


def test_a_command_may_have_a_percent_sign_in_its_help(plugin_site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plugin_site.add("say", {"commands": [command("echo", "say_plugin.echo") | {"help": "100 % of %(it)s"}]})

    assert main(["--help"]) == 0
    assert "100 % of %(it)s [say]" in capsys.readouterr().out


def test_a_configuration_that_cannot_be_written_is_a_message_with_the_remedy(
    plugin_site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin_site.add("fine")
    tmp_path.joinpath("file").write_text("")
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "file"))

    assert main(["plugins", "disable", "fine"]) == 1
    assert "set FLAMBEAU_HOME to a folder" in capsys.readouterr().err


def test_listings_work_where_the_home_is_no_folder(
    plugin_site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {"model": "net", "enum": "fine_plugin:W", "name": "V1", "url": "https://example.org/net.pth"}
    tmp_path.joinpath("file").write_text("")
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "file"))
    plugin_site.add("fine", {"weights": [weights]})

    assert main(["weights", "list"]) == 0
    assert capsys.readouterr().out.startswith("fine/net:V1")


def test_a_hook_adds_a_command(plugin_site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    hooks = """
from flambeau.core import hookimpl

@hookimpl
def flambeau_cli(subparsers):
    parser = subparsers.add_parser("hooked", help="added by code")
    parser.set_defaults(run=lambda arguments: print("from the hook") or 0)
"""
    plugin_site.add("hooky", {"hooks": "hooky_plugin.hooks"}, modules={"hooks.py": hooks})

    assert main(["hooked"]) == 0
    assert capsys.readouterr().out == "from the hook\n"
