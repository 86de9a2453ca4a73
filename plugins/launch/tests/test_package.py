"""The package itself: light to import, quick to ask, complete without extras."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'torch', 'ray', 'boto3', 'docker', 'kubernetes', 'google.cloud', 'optuna', 'yaml', 'fsspec'}"
    assert run(f"import flambeau.launch, sys; print({heavy} & set(sys.modules))") == "set()"


def test_a_runner_and_its_schedulers_names_load_neither_torch_nor_a_scheduler():
    code = """
import sys
from flambeau.launch.runner import get_runner
names = get_runner().scheduler_backends()
assert {'local_cwd', 'slurm', 'ray', 'kubernetes'} <= set(names)
heavy = {'torch', 'ray', 'boto3', 'docker', 'kubernetes', 'flambeau.launch.schedulers.slurm_scheduler'}
print(heavy & set(sys.modules))
"""
    assert run(code) == "set()"


def test_help_of_the_command_loads_no_torch():
    code = """
import sys
from flambeau.core.cli import main
run = ['launch', 'run', '-s', 'local_cwd', 'utils.echo']
for words in (['launch'], ['launch', 'run'], run):
    assert main([*words, '--help']) == 0
print({'torch', 'ray', 'boto3', 'docker', 'kubernetes'} & set(sys.modules))
"""
    assert run(code).splitlines()[-1] == "set()"


def test_every_scheduler_says_what_it_lacks():
    from flambeau.launch.cli.cmd_doctor import checks

    rows = {row["scheduler"]: row for row in checks()}
    assert rows["local_cwd"] == {"scheduler": "local_cwd", "state": "ready", "remedy": ""}
    assert all(row["remedy"] for row in rows.values() if row["state"] == "incomplete")
