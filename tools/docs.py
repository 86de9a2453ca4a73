"""Render the API reference and the tables that come from the registries into `site/`.

    python tools/docs.py [--serve]

Every public name of every installed package gets an entry with its signature and docstring; models, weights, datasets,
commands and environment variables are listed from what is registered. Nothing is listed by hand. The pages are written
to a temporary folder, then rendered by MkDocs in strict mode, where a broken link is an error.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

import tables

ROOT = Path(__file__).parent.parent.resolve()
LINKS = re.compile(r"\]\((?!https?://|#)[^)]*\)")


def reference_pages(package: str) -> dict[str, str]:
    """Page path -> Markdown: one page a public module, an entry for each name that is public there."""
    pages: dict[str, str] = {}
    for name in _public_modules(package):
        module = importlib.import_module(name)
        entries = [_entry(module, public) for public in sorted(getattr(module, "__all__", ()))]
        if text := "\n\n".join(entry for entry in entries if entry):
            introduction = inspect.getdoc(module) or ""
            pages[f"reference/{name}.md"] = f"# {name}\n\n{introduction}\n\n{text}\n"
    return pages


def _public_modules(package: str) -> list[str]:
    """Importable modules at and below a package, without private ones and the programs."""
    root = importlib.import_module(package)
    names = [package]
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        parts = found.name.split(".")
        # A library that programs are linked with lies beside the modules and is none.
        spec = found.module_finder.find_spec(found.name, None)
        native = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
        if "cli" not in parts and not native and not any(part.startswith("_") for part in parts):
            names.append(found.name)
    return sorted(names)


def _entry(module: ModuleType, public: str) -> str:
    """A directive that renders the name where it is defined, or a line for a plain value."""
    value = getattr(module, public)
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, ModuleType) or not (inspect.isclass(value) or inspect.isroutine(value)) or not home:
        return f"### `{public}`\n\n`{type(value).__name__}`" if not isinstance(value, ModuleType) else ""
    if not str(home).startswith("flambeau.") or "<locals>" in str(qualified):
        return f"### `{public}`\n\nFrom `{home}`."
    return f"::: {home}.{qualified}\n    options:\n      heading_level: 3"


def registry_pages() -> dict[str, str]:
    """The listings of the command line as tables."""
    pages = {}
    for what in ("models", "weights", "datasets", "plugins"):
        run = subprocess.run(
            [sys.executable, "-m", "flambeau.core", what, "list", "--json"], capture_output=True, text=True, check=True
        )
        pages[f"{what}.md"] = f"# {what.capitalize()}\n\n{_table(json.loads(run.stdout))}\n"
    return pages


def _table(rows: list[dict[str, object]] | dict[str, object]) -> str:
    """JSON rows as a Markdown table; keys of the first row are the columns."""
    if isinstance(rows, dict):
        rows = next(value for value in rows.values() if isinstance(value, list))
    if not rows:
        return "None."
    columns = [key for key, value in rows[0].items() if not isinstance(value, list | dict)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join(str(row.get(c, "") if row.get(c) is not None else "") for c in columns) + " |" for row in rows
    ]
    return "\n".join(lines)


def command_page() -> str:
    """The help of every command, as the program prints it."""

    def help_of(*words: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "flambeau.core", *words, "--help"], capture_output=True, text=True, check=True
        )
        return f"```text\n{run.stdout}```\n"

    from flambeau.core.environment import VARIABLES

    top = help_of()
    names = re.findall(r"^ {2,4}([a-z][a-z-]+) {2,}", top, re.MULTILINE)
    parts = [f"# Command line\n\n{top}", *(f"## flambeau {name}\n\n{help_of(name)}" for name in names)]
    rows = [f"| `{v.name}` | {v.meaning} | {v.default} |" for v in VARIABLES]
    parts.append("## Environment variables\n\n| variable | meaning | without it |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def write_site(folder: Path) -> Path:
    """Write all pages and the configuration below `folder`; returns the configuration."""
    pages = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8"), "command-line.md": command_page()}
    for path in tables.packages():
        for readme in ("README.md", "CHANGELOG.md", "MIGRATION.md"):
            if (path / readme).is_file():
                pages[f"packages/{path.name}/{readme}"] = (path / readme).read_text(encoding="utf-8")
        package = tables.import_name(path)
        pages |= reference_pages(package)
    pages |= registry_pages()
    for name, text in pages.items():
        target = folder / "docs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Links of the README lead to files of the repository, which are no pages of the site.
        target.write_text(LINKS.sub("](#)", text) if "reference" not in name else text, encoding="utf-8")
    sources = [str(path / "src") for path in tables.packages()]
    configuration = {
        "site_name": "Flambeau",
        "docs_dir": "docs",
        "site_dir": str(ROOT / "site"),
        "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "search.suggest"]},
        "markdown_extensions": ["admonition", "pymdownx.highlight", "pymdownx.superfences", "tables"],
        "plugins": [
            "search",
            {"mkdocstrings": {"handlers": {"python": {"paths": sources, "options": {
                "docstring_style": "google", "show_root_heading": True, "show_source": False,
                "merge_init_into_class": True, "separate_signature": True, "show_signature_annotations": True,
            }}}}},
        ],
    }  # fmt: skip
    path = folder / "mkdocs.yml"
    path.write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
    return path


def main(argv: list[str]) -> int:
    """Build the site, or serve it while files change."""
    folder = Path(tempfile.mkdtemp(prefix="flambeau-docs-"))
    try:
        configuration = write_site(folder)
        words = ["serve"] if "--serve" in argv else ["build", "--strict", "--quiet"]
        return subprocess.run(
            [sys.executable, "-m", "mkdocs", *words, "-f", str(configuration)], check=False
        ).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
