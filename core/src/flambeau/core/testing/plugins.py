"""Checks of a plugin as a whole: it stands alone, its manifest is true, and importing it does nothing but import.

What an import does is seen in fresh interpreters, where nothing has been imported before.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from flambeau.core.testing.results import BoundCheck, Catalogue, CheckFailed, Level, NotApplicable, Result, bind, run
from flambeau.core.testing.samples import Provision, provision

# CPU seconds on top of `import torch`: a package's front door is lazy and costs a hundredth of this.
IMPORT_BUDGET_S = 0.2
_TIMEOUT_S = 300
_LICENCE = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)


class PluginSubject:
    """One installed plugin."""

    def __init__(self, name: str, provided: Provision) -> None:
        from flambeau.core.plugins.manager import get_plugin

        self.name = name
        self.plugin = get_plugin(name)
        self.provided = provided

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """Its manifest.

        Raises:
            NotApplicable: it has hooks alone.
        """
        from flambeau.core.manifest.reading import read_manifest

        if self.plugin.manifest_path is None:
            raise NotApplicable("the plugin has no manifest.")
        return dict(read_manifest(self.plugin.manifest_path))

    @property
    def package(self) -> str:
        """The package the plugin lives in."""
        return self.plugin.package

    @functools.cached_property
    def modules(self) -> list[str]:
        """Every module that the manifest refers to, and the package itself, sorted."""
        targets = [target for _, target in self.targets()]
        hooks = self.manifest.get("hooks")
        named = {target.partition(":")[0] for target in targets} | ({hooks.partition(":")[0]} if hooks else set())
        return sorted({self.package, *named})

    def targets(self) -> Iterator[tuple[str, str]]:
        """Pairs of a place in the manifest and the `module:attribute` there."""
        for table in ("models", "datasets", "tensor_types", "commands", "predictors", "services"):
            for record in self.manifest.get(table, ()):
                label = record.get("name") or record.get("task")
                yield f"{table}: {label}", record["target"]
                if record.get("weights"):
                    yield f"{table}: {label}: weights", record["weights"]
        for record in self.manifest.get("weights", ()):
            label = f"weights: {record['model']}:{record['name']}"
            yield label, f"{record['enum']}.{record['name']}"
            if record.get("transforms"):
                yield f"{label}: transforms", record["transforms"]["target"]


CHECKS: Catalogue[PluginSubject] = Catalogue("plugin")


def check_plugin(name: str, *, samples: object | None = None, level: Level = "default") -> list[Result]:
    """Ask everything that plugins as a whole are asked; `plugin_checks` has what they register as well.

    Args:
        name: name of an installed plugin.
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.
        level: "full" asks checks that take long too.

    Raises:
        PluginError: no such plugin.
    """
    return run(bind_plugin(name, samples=samples, level=level))


def bind_plugin(name: str, *, samples: object | None = None, level: Level = "default") -> list[BoundCheck]:
    """The checks of one plugin as a whole."""
    provided = provision(samples, name)
    subject = PluginSubject(name, provided)
    return bind(CHECKS, subject, name, level=level, expected_failures=provided.expected_failures)


@CHECKS.check("manifest-valid")
def _manifest_valid(subject: PluginSubject) -> None:
    """The manifest fits the schema in every part."""
    from flambeau.core.manifest.schema import validate_manifest

    if faults := validate_manifest(subject.manifest):
        raise CheckFailed("; ".join(faults[:5]))


@CHECKS.check("manifest-up-to-date")
def _manifest_fresh(subject: PluginSubject) -> None:
    """The manifest says what the code registers."""
    subject.manifest  # noqa: B018  # not applicable without one
    command = [sys.executable, "-P", "-m", "flambeau.core.manifest", "build", subject.package, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise CheckFailed(f"`python -m flambeau.core.manifest build {subject.package}` would change it:\n{_tail(done)}")


@CHECKS.check("references-resolve")
def _references(subject: PluginSubject) -> None:
    """Everything its tables refer to can be imported and is what the table says."""
    for where, target in subject.targets():
        module, _, path = target.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise CheckFailed(f"{where}: {target} cannot be resolved: {error}") from error
        if where.startswith("tensor_types:") and not isinstance(found, type):
            raise CheckFailed(f"{where}: {target} is no class.")
        if where.startswith(("models:", "datasets:", "commands:", "predictors:", "services:")) and not callable(found):
            raise CheckFailed(f"{where}: {target} is not callable.")


@CHECKS.check("loads-alone")
def _loads_alone(subject: PluginSubject) -> None:
    """With every other plugin switched off it loads, and each of its modules imports."""
    from flambeau.core.plugins.manager import discover

    others = ",".join(name for name in discover() if name != subject.name and "@" not in name)
    environment = {**os.environ, "FLAMBEAU_DISABLE_PLUGINS": others, "FLAMBEAU_STRICT_PLUGINS": "1"}
    program = (
        "import importlib, sys\n"
        "from flambeau.core.plugins import load_plugin\n"
        "plugin = load_plugin(sys.argv[1])\n"
        "assert plugin.state == 'ok', f'{plugin.state}: {plugin.error}'\n"
        "for module in sys.argv[2:]: importlib.import_module(module)\n"
    )
    done = _python(program, subject.name, *subject.modules, environment=environment)
    if done.returncode:
        raise CheckFailed(f"alone with core it does not load:\n{_tail(done)}")


@CHECKS.check("no-import-side-effects")
def _side_effects(subject: PluginSubject) -> None:
    """Importing its modules opens no connection, writes no file, starts no thread, prints and changes nothing."""
    # The index of what is installed is core's, and written by whoever looks first in an environment.
    _python("import flambeau.core; flambeau.core.discover()")
    probe = Path(__file__).with_name("import_probe.py")
    done = _python(probe.read_text(encoding="utf-8"), *subject.modules)
    if done.returncode:
        raise CheckFailed(f"importing {', '.join(subject.modules)} fails:\n{_tail(done)}")
    effects = json.loads(done.stdout.splitlines()[-1])
    if effects:
        raise CheckFailed("importing its modules " + "; ".join(effects) + ".")


@CHECKS.check("light-front-door")
def _light(subject: PluginSubject) -> None:
    """Importing its package, without touching what is inside, imports neither torch nor NumPy."""
    heavy = ("torch", "numpy", "PIL", "pydantic", "pandas", "pyarrow")
    program = (
        "import importlib, json, sys\nimportlib.import_module(sys.argv[1])\nprint(json.dumps(sorted(sys.modules)))\n"
    )
    done = _python(program, subject.package)
    if done.returncode:
        raise CheckFailed(f"importing {subject.package} fails:\n{_tail(done)}")
    if loaded := [name for name in json.loads(done.stdout.splitlines()[-1]) if name in heavy]:
        raise CheckFailed(f"importing {subject.package} imports {', '.join(loaded)}; import them where they are used.")


@CHECKS.check("import-time")
def _import_time(subject: PluginSubject) -> None:
    """Importing its package adds little CPU time to importing torch."""
    # Most packages need no torch to be imported; of those that do, what comes on top of it counts.
    for before in ("", "import torch"):
        program = (
            f"import importlib, sys, time\nimport flambeau.core\n{before}\nstart = time.process_time()\n"
            "importlib.import_module(sys.argv[1])\nprint(time.process_time() - start)\n"
        )
        done = _python(program, subject.package)
        if done.returncode:
            raise CheckFailed(f"importing {subject.package} fails:\n{_tail(done)}")
        taken = float(done.stdout.splitlines()[-1])
        if taken <= IMPORT_BUDGET_S:
            return
    raise CheckFailed(f"importing {subject.package} takes {taken:.2f} s of CPU time, at most {IMPORT_BUDGET_S} s.")


@CHECKS.check("typed")
def _typed(subject: PluginSubject) -> None:
    """The package carries `py.typed`."""
    from flambeau.core.packages import package_folders

    folders = package_folders(subject.package)
    if not any((Path(folder) / "py.typed").is_file() for folder in folders):
        raise CheckFailed(f"{subject.package} has no py.typed; type checkers will ignore its annotations.")


@CHECKS.check("licence-files")
def _licence(subject: PluginSubject) -> None:
    """The distribution names its licence and carries the text."""
    distribution = metadata.distribution(subject.plugin.distribution)
    header = distribution.metadata
    stated = header.get_all("License-Expression") or header.get_all("License")
    if not stated and not any(line.startswith("License ::") for line in header.get_all("Classifier") or []):
        raise CheckFailed(f"{subject.plugin.distribution} names no licence in its metadata.")
    files = [path.as_posix() for path in distribution.files or []]
    named = header.get_all("License-File") or []
    texts = [path for path in files if ".dist-info/" in path and _LICENCE.match(path.rpartition("/")[2])]
    if not texts:
        raise CheckFailed(f"{subject.plugin.distribution} carries no licence file.")
    if lacking := [name for name in named if not any(path.endswith(name) for path in files)]:
        raise CheckFailed(f"{subject.plugin.distribution} names licence files that are not installed: {lacking}.")


@CHECKS.check("operators-sampled")
def _operators_sampled(subject: PluginSubject) -> None:
    """Each operator that it registers with torch has a sample; those whose name starts with `_` are parts of others."""
    import torch

    namespaces = [record["namespace"] for record in subject.manifest.get("kernels", ())]
    if not namespaces:
        raise NotApplicable("it has no kernels.")
    for module in subject.modules:
        importlib.import_module(module)
    samples = subject.provided.samples("op_samples")
    sampled = {(sample.operator or "").partition(".")[0] for sample in samples}
    known = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    public = (name for name in known - sampled if not name.partition("::")[2].startswith("_"))
    lacking = sorted(name for name in public if name.partition("::")[0] in namespaces)
    if lacking:
        raise CheckFailed(f"no sample in `op_samples` names the operator {', '.join(lacking)}.")


def _python(
    program: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # -P: what lies in the current folder must not stand in for what is installed.
    command = [sys.executable, "-P", "-c", program, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment
    )  # fmt: skip


def _tail(done: subprocess.CompletedProcess[str], lines: int = 12) -> str:
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-lines:])
