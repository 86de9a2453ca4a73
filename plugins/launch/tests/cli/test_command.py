"""`flambeau launch`, as people type it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from flambeau.core.cli import main


def launch(*words: str) -> int:
    return main(["launch", *words])


def test_a_component_runs_and_its_lines_are_told_apart(capsys):
    assert launch("run", "-s", "local_cwd", "utils.echo", "--msg", "good morning", "--num_replicas", "2") == 0
    handle, *lines = capsys.readouterr().out.splitlines()
    assert handle.startswith("local_cwd://torchx/echo-")
    assert sorted(lines) == ["echo/0 good morning", "echo/1 good morning"]


def test_a_failure_is_told_and_the_exit_code_is_1(capsys):
    assert launch("run", "-s", "local_cwd", "utils.sh", "sh", "-c", "exit 7") == 1
    assert "FAILED: sh/0 exited with 7" in capsys.readouterr().err


def test_everything_about_a_job_can_be_asked_for(capsys):
    assert launch("run", "-s", "local_cwd", "-cfg", "log_dir=logs", "utils.sh", "sh", "-c", "echo a; echo b") == 0
    handle = capsys.readouterr().out.splitlines()[0]
    assert launch("status", handle) == 0
    assert "State: SUCCEEDED" in capsys.readouterr().out
    assert launch("status", handle, "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "SUCCEEDED"
    assert launch("log", f"{handle}/sh/0", "--regex", "b") == 0
    assert capsys.readouterr().out == "sh/0 b\n"
    assert launch("describe", handle) == 0
    assert "'entrypoint': 'sh'" in capsys.readouterr().out
    assert launch("list", "-s", "local_cwd", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"handle": handle, "state": "SUCCEEDED"}]
    assert launch("cancel", handle) == 0


@pytest.mark.parametrize("verb", ["status", "describe", "cancel", "log"])
def test_unknown_jobs_are_told(verb, capsys):
    assert launch(verb, "local_cwd://torchx/nobody") == 1
    assert "not known to its scheduler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("run -s nowhere utils.echo", 2, "invalid choice: 'nowhere'"),
        ("run -s local_cwd -s slurm utils.echo", 2, "given twice"),
        ("run -s local_cwd utils.ecko", 1, "did you mean utils.echo"),
        ("run -s local_cwd utils.echo --num_replicas x", 2, "invalid int value"),
        ("run -s local_cwd utils.echo --nobody", 2, "unrecognized arguments"),
        ("run -s local_cwd -cfg logdir=x utils.echo", 1, "did you mean log_dir"),
        ("run -s local_cwd -cfg nonsense utils.echo", 1, "expected KEY=VALUE"),
        ("run -s local_cwd", 1, "which component?"),
        ("run -s local_cwd dist.ddp", 1, "give one of them"),
        ("log nonsense", 1, "names no application"),
        ("log local_cwd://torchx/x --regex [", 1, "is no pattern"),
        ("status nonsense", 1, "is not an app handle"),
        ("stauts x", 2, "did you mean status"),
        ("runopts nowhere", 1, "no scheduler 'nowhere'"),
    ],
)
def test_mistakes_are_answered_in_a_line_or_with_the_usage(words, code, said, capsys):
    assert launch(*words.split()) == code
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told


def test_a_dry_run_shows_the_application_and_the_request_and_starts_nothing(capsys):
    assert launch("run", "-s", "local_cwd", "--dryrun", "utils.touch", "--file", "made") == 0
    told = capsys.readouterr().out
    assert "=== APPLICATION ===" in told and "=== SCHEDULER REQUEST ===" in told and "'made'" in told
    assert not Path("made").exists()


def test_the_request_alone_is_what_the_scheduler_reads(capsys):
    assert launch("run", "-s", "slurm", "--print_request", "utils.echo") == 0
    told = capsys.readouterr().out
    assert told.startswith("#!/bin/bash\n") and "=== " not in told


def test_a_file_of_configuration_names_scheduler_component_and_arguments(capsys):
    Path(".flambeauconfig").write_text(
        "[cli:run]\nscheduler = local_cwd\ncomponent = utils.echo\n[component:utils.echo]\nmsg = from the file\n"
    )
    from flambeau.launch.cli.argparse_util import torchxconfig

    torchxconfig._subcmd_configs.clear()
    assert launch("run") == 0
    assert "from the file" in capsys.readouterr().out
    assert launch("run", "--", "--msg", "from the line") == 0
    assert "from the line" in capsys.readouterr().out
    torchxconfig._subcmd_configs.clear()


def test_a_launch_can_be_described_by_json(capsys, monkeypatch):
    request = {"scheduler": "local_cwd", "component_name": "utils.echo", "component_args": {"msg": "json"}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    assert launch("run", "--stdin") == 0
    assert "echo/0 json" in capsys.readouterr().out
    for text in ("[]", "{", '{"component": 1}'):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert launch("run", "--stdin") == 1


def test_components_options_and_checks_are_listed(capsys):
    assert launch("builtins") == 0
    assert " dist.ddp\n" in capsys.readouterr().out
    assert launch("builtins", "--print", "utils.echo") == 0
    assert "def echo(" in capsys.readouterr().out
    assert launch("runopts", "slurm") == 0
    assert "partition=PARTITION (str, None)" in capsys.readouterr().out
    assert launch("doctor", "--json") == 0
    assert {"scheduler": "local_cwd", "state": "ready", "remedy": ""} in json.loads(capsys.readouterr().out)


def test_a_configuration_file_is_written_once(capsys):
    assert launch("configure", "-s", "local_cwd,kubernetes", "-a") == 0
    assert "queue = #FIXME:" in Path(".flambeauconfig").read_text()
    assert launch("configure") == 1
    assert "is there already" in capsys.readouterr().err


def test_what_runs_left_is_listed(capsys, tmp_path):
    from flambeau.launch.tracker.runlog import create

    tracker = create(None)
    tracker.add_metadata("run", accuracy=0.9)
    tracker.add_artifact("run", "model", "/m.pt")
    tracker.add_source("run", "parent")
    for words, said in (
        ("jobs", "run"),
        ("metadata run", "0.9"),
        ("artifacts run", "/m.pt"),
        ("lineage run", "parent"),
    ):
        assert launch("tracker", "list", *words.split()) == 0
        assert said in capsys.readouterr().out


def test_the_program_of_its_own_is_the_same_command(capsys):
    from flambeau.launch.cli.main import main as own

    own(["builtins"])
    assert "utils.echo" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        own(["status", "nonsense"])
    assert stop.value.code == 1


def test_verbs_of_other_distributions_are_found(tmp_path, monkeypatch, capsys):
    from flambeau.core.cli import main

    folder = tmp_path / "site"
    about = folder / "more_verbs-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: more-verbs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[torchx.cli.cmds]\ngreet = more_verbs:Greet\n")
    (folder / "more_verbs.py").write_text(
        "from flambeau.launch.cli.cmd_base import SubCommand\n"
        "class Greet(SubCommand):\n"
        "    def add_arguments(self, subparser): subparser.add_argument('name')\n"
        "    def run(self, args): print('good morning', args.name)\n"
    )
    monkeypatch.syspath_prepend(folder)
    assert main(["launch", "greet", "you"]) == 0
    assert capsys.readouterr().out == "good morning you\n"
