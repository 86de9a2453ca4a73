"""Check built wheels: namespace, contents, tags, linked libraries and size.

    python tools/check_wheels.py dist/*.whl

A wheel passes when no file stands at `flambeau/__init__.py`, `py.typed` and the licence are inside, a plugin's
manifest lies where its entry point says, compiled code is tagged for a platform but for no Python version, and it is
under 10 MB. On Linux its tag is manylinux for a glibc no newer than torch itself asks for, and compiled code needs
nothing but the C library and the compiler's runtime: no C++ library of the machine that built it.
"""

from __future__ import annotations

import configparser
import io
import re
import sys
import zipfile
from pathlib import Path

MOST_BYTES = 10_000_000
NEWEST_GLIBC = (2, 28)  # of torch's own wheels from 2.6 on
# Libraries that every Linux has which a manylinux tag names.
EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[\w-]*)\.so\.\d+")


def faults(path: Path) -> list[str]:
    """What is wrong with one wheel, one sentence each; empty when it is sound."""
    found = []
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        information = next(name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info"))
        entry_points = _entry_points(wheel, f"{information}/entry_points.txt", names)
    tag = path.stem.split("-", 2)[2]
    if "flambeau/__init__.py" in names:
        found.append("holds flambeau/__init__.py, which would hide every other distribution of the namespace")
    if not any(name.endswith("/py.typed") for name in names):
        found.append("holds no py.typed")
    if not any(name.startswith(f"{information}/licenses/") for name in names):
        found.append("holds no licence")
    compiled = [name for name in names if name.endswith((".so", ".dylib", ".dll", ".pyd"))]
    if compiled and (not tag.startswith("py3-none-") or tag.endswith("-any")):
        found.append(f"has compiled code {compiled} but the tag {tag}, expected py3-none-<platform>")
    if compiled and "linux" in tag:
        found += _linux_faults(path, compiled, tag)
    if not compiled and tag != "py3-none-any":
        found.append(f"has no compiled code but the tag {tag}, expected py3-none-any")
    for value in entry_points:
        package, _, file = value.partition(":")
        if f"{package.replace('.', '/')}/{file}" not in names:
            found.append(f"names the manifest {value}, which it does not hold")
    if (size := path.stat().st_size) > MOST_BYTES:
        found.append(f"has {size:,} bytes, at most {MOST_BYTES:,} are allowed")
    return found


def _linux_faults(path: Path, compiled: list[str], tag: str) -> list[str]:
    """What keeps compiled code from other Linux machines."""
    versions = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)_", tag)]
    if not versions:
        return [f"is tagged {tag}, which no index takes; expected manylinux, by `auditwheel repair`"]
    found = []
    if max(versions) > NEWEST_GLIBC:
        newest = ".".join(map(str, NEWEST_GLIBC))
        found.append(f"is tagged {tag}, expected one for glibc {newest} or older, which torch itself asks for")
    with zipfile.ZipFile(path) as wheel:
        for name in compiled:
            strange = [needed for needed in needed_libraries(wheel.read(name)) if not EVERYWHERE.fullmatch(needed)]
            if strange:
                found.append(f"{name} needs {', '.join(strange)}, which other machines may lack")
    return found


def needed_libraries(content: bytes) -> list[str]:
    """The libraries that an ELF file names as needed."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    sections = ELFFile(io.BytesIO(content)).iter_sections()
    return [
        entry.needed
        for section in sections
        if isinstance(section, DynamicSection)
        for entry in section.iter_tags()
        if entry.entry.d_tag == "DT_NEEDED"
    ]


def _entry_points(wheel: zipfile.ZipFile, member: str, names: set[str]) -> list[str]:
    """The values of the entry-point group that names manifests."""
    if member not in names:
        return []
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(wheel.read(member).decode())
    return list(parser["flambeau.manifest"].values()) if parser.has_section("flambeau.manifest") else []


def main(argv: list[str]) -> int:
    """Check every wheel named; 1 when one has a fault."""
    bad = False
    for path in map(Path, argv):
        wrong = faults(path)
        bad |= bool(wrong)
        print(f"{path.name}: {path.stat().st_size:,} bytes, " + ("sound" if not wrong else "; ".join(wrong)))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
