"""The package itself: light to import, quick to ask, complete without extras, with torchx's names."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from importlib import import_module

import pytest

from flambeau.core.testing.golden import upstream_facts

UPSTREAM = upstream_facts("api", __file__)["modules"]
LEFT_OUT = (  # `tools/missing_names.py` has the reasons
    "torchx.pipelines.kfp.*",
    "torchx.schedulers.aws_sagemaker_scheduler.AWSSageMakerOpts.*",
)
NEEDS = {"ray_driver": "ray"}


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


@pytest.mark.parametrize("module", [module for module in UPSTREAM if not fnmatch(f"{module}.", LEFT_OUT[0])])
def test_names_are_torchxs(module):
    if needed := NEEDS.get(module.rpartition(".")[2]):
        pytest.importorskip(needed)
    ours = import_module(module.replace("torchx", "flambeau.launch", 1))
    names = [name for name, _ in UPSTREAM[module].items()]
    names += [f"{name}.{one}" for name, about in UPSTREAM[module].items() for one in about.get("members", ())]
    wanted = [name for name in names if not any(fnmatch(f"{module}.{name}", pattern) for pattern in LEFT_OUT)]
    missing = [name for name in wanted if not there(ours, name)]
    assert not missing


def there(module: object, name: str) -> bool:
    """Whether a module has a name, or one of its classes a member or field."""
    owner, _, member = name.partition(".")
    value = getattr(module, owner, None)
    if not member:
        return hasattr(module, owner)
    return hasattr(value, member) or member in getattr(value, "__annotations__", ())
