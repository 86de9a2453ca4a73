"""Write the tables that are derived from the packages into their pages, or check that they are current.

    python tools/tables.py            rewrite
    python tools/tables.py --check    exit 1 and say what is stale

A page holds `<!-- packages -->` and `<!-- /packages -->`; what stands between is derived. In the README that is the
table of packages, from the pyproject files; in a package's `MIGRATION.md` the intended differences, from the file that
its differential tests read, and the names that are left out, from `missing_names.py`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from missing_names import LEFT_OUT, left_out_table

from flambeau.core.testing.differential.differences import render_differences

ROOT = Path(__file__).parent.parent.resolve()
PLANNED = {
    "data": "TensorDict, pipelines that resume exactly, data frames",
    "audio": "audio processing, streaming, speech recognition",
    "text": "tokenizers, vocabularies, language models, text datasets",
    "rec": "recommender models, jagged tensors, sharded embeddings",
    "rl": "environments, replay buffers, losses for reinforcement learning",
    "tools": "documentation site, releases, `flambeau bench`, `flambeau profile`",
}


def packages() -> list[Path]:
    """The folders that hold a distribution, lower rooms of the house first."""
    order = ("core", "data", "vision", "audio", "text", "rec", "rl", "tools")
    folders = [*(ROOT / name for name in order), *sorted((ROOT / "plugins").glob("*"))]
    return [folder for folder in folders if (folder / "pyproject.toml").is_file()]


def package_table() -> str:
    """One row a distribution: name, import name, version, what it needs, how far it is, what it is for."""
    rows = [
        "| distribution | import | version | core | torch | maturity | what it is |",
        "|---|---|---|---|---|---|---|",
    ]
    for folder in packages():
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        needs = {match[1]: match[2] for d in project["dependencies"] if (match := re.match(r"([\w-]+)\s*(.*)", d))}
        maturity = next(c.rpartition(" - ")[2] for c in project["classifiers"] if c.startswith("Development Status"))
        cells = [
            f"[`{project['name']}`]({folder.relative_to(ROOT).as_posix()}/README.md)",
            f"`{import_name(folder)}`",
            project["version"],
            needs.get("flambeau-core", ""),
            needs.get("torch", "through core"),
            maturity,
            project["description"],
        ]
        rows.append("| " + " | ".join(cells) + " |")
    have = {folder.name for folder in packages()}
    coming = [f"`{name}` ({what})" for name, what in PLANNED.items() if name not in have]
    return "\n".join(rows) + (f"\n\nTo come: {'; '.join(coming)}." if coming else "")


def import_name(folder: Path) -> str:
    """The package whose folder holds the `py.typed` marker, nearest to the root."""
    marker = min((folder / "src").glob("**/py.typed"), key=lambda path: len(path.parts))
    return ".".join(marker.parent.relative_to(folder / "src").parts)


Tables = Mapping[str, Callable[[], str]]
"""Name of the markers -> what renders the text between them."""


def pages() -> Mapping[Path, Tables]:
    """Every page with derived tables."""
    found: dict[Path, dict[str, Callable[[], str]]] = {ROOT / "README.md": {"packages": package_table}}
    for folder in packages():
        differences = folder / "tests" / "parity" / "peers" / "differences.toml"
        if differences.is_file():
            page = folder / "MIGRATION.md"
            found[page] = {"differences": lambda path=differences: render_differences(path)}
            if "<!-- left-out -->" in page.read_text(encoding="utf-8") and folder.name in LEFT_OUT:
                found[page]["left-out"] = lambda name=folder.name: left_out_table(name)
    return found


def render(text: str, tables: Tables, page: str = "the page") -> str:
    """The text with every table between its markers replaced by the current one.

    Raises:
        SystemExit: markers are missing.
    """
    for name, table in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{page} lacks the markers <!-- {name} --> and <!-- /{name} -->.")
        current = table()
        text = pattern.sub(lambda match, current=current: match[1] + current + "\n" + match[2], text)
    return text


def main(argv: list[str]) -> int:
    """Rewrite or check all pages."""
    stale = []
    for path, tables in pages().items():
        name = path.relative_to(ROOT).as_posix()
        old = path.read_text(encoding="utf-8")
        new = render(old, tables, name)
        if old != new:
            stale.append(name)
            if "--check" not in argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in argv:
        print(f"{', '.join(stale)}: a derived table is stale. Run: python tools/tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
