"""Write the tables that are derived from the packages into the README, or check that they are current.

    python tools/tables.py            rewrite
    python tools/tables.py --check    exit 1 and say what is stale

The README holds `<!-- packages -->` and `<!-- /packages -->`; what stands between them comes from the pyproject files.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

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


TABLES = {"packages": package_table}


def render(text: str) -> str:
    """The text with every table between its markers replaced by the current one."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md lacks the markers <!-- {name} --> and <!-- /{name} -->.")
        current = table()
        text = pattern.sub(lambda match, current=current: match[1] + current + "\n" + match[2], text)
    return text


def main(argv: list[str]) -> int:
    """Rewrite or check the README."""
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = render(old)
    if "--check" in argv:
        if old != new:
            print("README.md: a derived table is stale. Run: python tools/tables.py", file=sys.stderr)
        return int(old != new)
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
