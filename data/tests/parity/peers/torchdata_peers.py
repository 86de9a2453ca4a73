"""TorchData twice: 0.11, which has nodes and StatefulDataLoader, and the pipes and DataLoader2 of 0.7.1 beside it.

`tools/peers.py` installs 0.7.1 into a folder of its own. Its modules do not clash with those of 0.11, so that one
package can have both folders on its path.
"""

from __future__ import annotations

import functools
import io
import operator
import sys
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NEEDED = "needs torchdata; `nox -s parity -- peers` has it"
OLDER = Path(sys.prefix) / "peers" / "torchdata-0.7.1" / "torchdata"
DIFFERENCES = Path(__file__).with_name("differences.toml")
# Both build on torch's classes of pipes, or stand for them.
ROOTS = ("flambeau.data", "torchdata", "torch.utils.data")


def import_peers() -> None:
    """Import torchdata with both folders; skips where one is missing."""
    torchdata = pytest.importorskip("torchdata", reason=NEEDED)
    if not (OLDER / "datapipes").is_dir():
        pytest.skip(f"no torchdata 0.7.1 in {OLDER}; tools/peers.py installs it", allow_module_level=True)
    if str(OLDER) not in torchdata.__path__:
        torchdata.__path__.append(str(OLDER))


def pipes_of(root: str) -> SimpleNamespace:
    """All public names of pipes, and of DataLoader2, below a root; map pipes as `map`, utilities as `utils`."""
    names: dict[str, Any] = {"map_pipes": import_module(f"{root}.datapipes.map")}
    for module in ("datapipes.iter", "dataloader2", "dataloader2.graph", "dataloader2.adapter", "dataloader2.linter",
                   "dataloader2.random", "datapipes.utils"):  # fmt: skip
        found = import_module(f"{root}.{module}")
        names |= {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
    linter = import_module(f"{root}.dataloader2.linter")
    for name in ("check_shuffle_before_sharding", "_check_shuffle_before_sharding"):
        if hasattr(linter, name):
            names["check_shuffle_before_sharding"] = getattr(linter, name)
    names["CompressionType"] = names["Decompressor"].types
    names["SHARDING_PRIORITIES"] = import_module("torch.utils.data.datapipes.iter.sharding").SHARDING_PRIORITIES
    if root == "flambeau.data":
        names["SHARDING_PRIORITIES"] = import_module("flambeau.data.datapipes.iter").SHARDING_PRIORITIES
    return SimpleNamespace(**names)


def double(x: Any) -> Any:
    """Twice a number, or a text repeated."""
    return x * 2


def is_even(x: int) -> bool:
    """Whether a number is even."""
    return x % 2 == 0


def third(x: int) -> int:
    """The remainder of 3."""
    return x % 3


def none_if_odd(x: int) -> int | None:
    """None for an odd number."""
    return None if x % 2 else x % 4


def fail_at_7(x: int) -> int:
    """Raises for 7."""
    if x == 7:
        raise ArithmeticError("seven")
    return x


def spread(x: int) -> list[int]:
    """A list of as many numbers."""
    return [x] * x


def keyed(x: int) -> tuple[str, int]:
    """A pair of key and value."""
    return f"k{x}", x


def negative(x: Any) -> Any:
    """The number below zero."""
    return -x


def add(x: Any, y: Any) -> Any:
    """A sum of two."""
    return x + y


def length_of(x: Any) -> int:
    """Its length."""
    return len(x)


def sort_by_length(batch: list[Any]) -> list[Any]:
    """Sorted by length."""
    return sorted(batch, key=len)


def batched_double(batch: list[int]) -> list[int]:
    """Each doubled."""
    return [x * 2 for x in batch]


def same(x: Any) -> Any:
    """It."""
    return x


def merge(a: Any, b: Any) -> Any:
    """Both in a list."""
    return [a, b]


def not_bool(x: Any) -> Any:
    """No truth value."""
    return [x]


def tar_of(members: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def content_of(pairs: Any) -> list[Any]:
    """Names and contents, read when all streams are there."""
    return [(str(name), stream.read() if hasattr(stream, "read") else stream) for name, stream in list(pairs)]


def outcomes(reader: Any, count: int | None = None) -> list[Any]:
    """What each `next` gives: a sample, or the name of the class of an error, up to the end."""
    found: list[Any] = []
    errors = 0
    while count is None or len(found) < count:
        try:
            found.append(next(reader))
        except StopIteration:
            found.append("end")
            break
        except Exception as error:
            found.append(type(error).__name__)
            errors += 1
            if errors == 3:
                break
    return found


FUNCTIONS = {
    one.__name__: one
    for one in (double, is_even, third, none_if_odd, fail_at_7, spread, keyed, negative, add, length_of, sort_by_length,
                batched_double, same, merge, not_bool, tar_of, zip_of, content_of, outcomes)
} | {"io": io, "itemgetter": operator.itemgetter, "partial": functools.partial}  # fmt: skip
for _name in ("copy", "itertools", "pickle", "random", "bz2", "gzip", "lzma", "json"):
    FUNCTIONS[_name] = import_module(_name)
FUNCTIONS["torch"] = import_module("torch")
