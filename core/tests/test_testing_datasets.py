"""The kit's checks of datasets: a sound dataset passes all, and each check catches the one that is wrong its way."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

from flambeau.core.datasets import DatasetInfo, Field, fetch_dataset, prepare_dataset, register_dataset
from flambeau.core.errors import OfflineError
from flambeau.core.testing import Result, check_dataset, dataset_file_checks, dataset_item_checks, run
from flambeau.core.testing.datasets import bind_dataset
from flambeau.core.testing.schema import field_fault, item_fault

CATALOGUES = (dataset_item_checks.CHECKS, dataset_file_checks.CHECKS)

pytestmark = pytest.mark.usefixtures("site")

INFO = DatasetInfo(
    "numbers",
    sizes={"train": 1000},
    files=[
        {
            "url": "https://host.example/numbers.tar.gz",
            "sha256": "0" * 64,
            "extract": True,
            "contents": [{"path": "numbers/values.txt", "md5": "0" * 32}],
        }
    ],
    schema=[Field("value", "tensor", (2,), "float32"), Field("label", "label", classes=10)],
    license="CC0-1.0",
    homepage="https://host.example",
    citation="@misc{numbers}",
)


class Numbers:
    """Sound in every respect: lines of a text file."""

    def __init__(
        self, root: str | Path, *, transform: Callable[[Any], Any] | None = None, download: bool = False
    ) -> None:
        folder = prepare_dataset(INFO, root, download=download)
        self.values = [int(line) for line in (folder / "numbers/values.txt").read_text().split()]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        value = torch.full((2,), float(self.values[index]))
        return self.transform(value) if self.transform else value, self.values[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__} with {len(self)} items"


def write(name: str, root: Path) -> dict[str, Any]:
    (root / "numbers").mkdir()
    (root / "numbers/values.txt").write_text("3 1 4 5 9")
    return {"root": root}


SAMPLES = SimpleNamespace(dataset_fixture=write)


def checked(target: Any, info: DatasetInfo = INFO, samples: object = SAMPLES) -> dict[str, Result]:
    register_dataset(info=info, plugin="doc")(target)
    return {result.check: result for result in check_dataset("doc/numbers", samples=samples)}


def asked(check: str, target: Any, info: DatasetInfo = INFO, samples: object = SAMPLES) -> Result:
    """What comes of one check alone."""
    register_dataset(info=info, plugin="doc")(target)
    [result] = run([bound for bound in bind_dataset("doc/numbers", samples=samples) if bound.check == check])
    return result


def test_a_sound_dataset_passes_every_check() -> None:
    results = checked(Numbers)

    assert {n: str(r) for n, r in results.items() if r.status != "passed"} == {
        "state-resumes": "not-applicable: state-resumes:doc/numbers (it keeps no state.)"
    }
    assert set(results) == {check.name for checks in CATALOGUES for check in checks.at("default")}


# One fault each


class CountsOneTooMany(Numbers):
    def __len__(self) -> int:
        return super().__len__() + 1

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(min(index, len(self.values) - 1))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.values)))


class NeverStops(Numbers):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index % len(self.values))


class GivesDoubles(Numbers):
    def __getitem__(self, index: int) -> Any:
        value, label = super().__getitem__(index)
        return value.double(), label


class NoNegativeIndices(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index < 0:
            raise IndexError(index)
        return super().__getitem__(index)


class WrongNegativeIndices(Numbers):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(abs(index))


class RaisesKeyError(Numbers):
    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise KeyError(index)
        return super().__getitem__(index)


class TransformsTwice(Numbers):
    def __getitem__(self, index: int) -> Any:
        if self.transform:
            self.transform(torch.zeros(2))
        return super().__getitem__(index)


class IgnoresTransform(Numbers):
    def __getitem__(self, index: int) -> Any:
        value, label = super().__getitem__(index)
        return torch.zeros(2) if self.transform else value, label


class HoldsFile(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        super().__init__(root, download=download)
        self.handle = (Path(root) / "numbers/values.txt").open()

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.handle.close()


class ForgetsInPickle(Numbers):
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "values": self.values[:2]}


class DependsOnWorker(Numbers):
    def __getitem__(self, index: int) -> Any:
        value, label = super().__getitem__(index)
        return value + (0 if get_worker_info() is None else 1), label


class EmptyWhenAbsent(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        try:
            super().__init__(root, download=download)
        except FileNotFoundError:
            self.values, self.transform = [], None


class SaysNothing(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        try:
            super().__init__(root, download=download)
        except FileNotFoundError:
            raise RuntimeError("Dataset not found or corrupted.") from None


class SaysWhereAlone(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        try:
            super().__init__(root, download=download)
        except FileNotFoundError:
            raise FileNotFoundError(str(root)) from None


class FetchesAlways(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        if download:
            for path in Path(root).rglob("*.*"):
                path.unlink()
        super().__init__(root, download=download)


class NeverVerifies(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        if (Path(root) / "numbers/values.txt").exists():
            self.values = list((Path(root) / "numbers/values.txt").read_bytes())
            self.transform = None
        else:
            super().__init__(root, download=download)
            self.values = list((Path(root) / "numbers/values.txt").read_bytes())


class FetchesElsewhere(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        self.values, self.transform = [3, 1, 4, 5, 9], None


class Drifts(Numbers):
    def __init__(self, root: str | Path, *, download: bool = False) -> None:
        super().__init__(root, download=download)
        self.reads = 0

    def __getitem__(self, index: int) -> Any:
        self.reads += 1
        value, label = super().__getitem__(index)
        return value + self.reads, label


class BareRepr(Numbers):
    def __repr__(self) -> str:
        return object.__repr__(self)


class LongRepr(Numbers):
    def __repr__(self) -> str:
        return "\n".join(map(str, range(100)))


class ReprWithoutLength(Numbers):
    def __repr__(self) -> str:
        return "Numbers"


@pytest.mark.parametrize(
    ("target", "check", "finding"),
    [
        (CountsOneTooMany, "length-agrees-with-iteration", "len is 6, but iteration gives 5"),
        (NeverStops, "length-agrees-with-iteration", "more items"),
        (GivesDoubles, "schema-agrees-with-samples", "dtype float64, expected float32"),
        (NoNegativeIndices, "index-bounds", "IndexError: -1"),
        (WrongNegativeIndices, "index-bounds", "index -1 is not the last item"),
        (NeverStops, "index-bounds", "index 5 of 5 items gives an item"),
        (RaisesKeyError, "index-bounds", "KeyError: 5"),
        (TransformsTwice, "transforms-applied-once", "called 4 times for 2 items"),
        (IgnoresTransform, "transforms-applied-once", "result of transform is not in the item"),
        (HoldsFile, "pickles", "pickle"),
        (ForgetsInPickle, "pickles", "2 parts, expected 5"),
        (DependsOnWorker, "workers-agree-fork", "two workers by fork"),
        (EmptyWhenAbsent, "clear-error-when-absent", "nothing was raised"),
        (SaysNothing, "clear-error-when-absent", "does not say where it looked"),
        (SaysWhereAlone, "clear-error-when-absent", "does not say that download=True helps"),
        (FetchesAlways, "download-idempotent", "asked the server for numbers.tar.gz"),
        (FetchesElsewhere, "download-idempotent", "asked nothing"),
        (NeverVerifies, "corrupted-file-detected", "read all the same"),
        (FetchesAlways, "offline-once-present", "OfflineError"),
        (Drifts, "shards-partition", "depends on what was read before"),
        (BareRepr, "repr-one-screen", "says nothing"),
        (LongRepr, "repr-one-screen", "100 lines"),
        (ReprWithoutLength, "repr-one-screen", "number of items (5)"),
    ],
)
def test_a_faulty_dataset_is_caught(target: type[Numbers], check: str, finding: str) -> None:
    result = asked(check, target)

    assert result.status == "failed", result
    assert finding in result.message


class Stream(IterableDataset[Any]):
    """A sound stream: shares its items among workers, and resumes."""

    def __init__(self, stop: int = 6) -> None:
        self.stop, self.start = stop, 0

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        step, offset = (worker.num_workers, worker.id) if worker else (1, 0)
        for index in range(self.start + offset, self.stop, step):
            self.start = index + 1
            yield index

    def state_dict(self) -> dict[str, Any]:
        return {"start": self.start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state["start"]

    def __repr__(self) -> str:
        return "Stream"


class EachWorkerAll(Stream):
    def __iter__(self) -> Iterator[int]:
        return iter(range(self.stop))


class LosesItems(Stream):
    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        return iter([0, 0, 1] if worker and worker.id else [2, 2, 3]) if worker else iter(range(self.stop))


class ForgetsState(Stream):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class KeepsTensorState(Stream):
    def state_dict(self) -> dict[str, Any]:
        return {"start": torch.tensor(self.start)}


STREAM = DatasetInfo("numbers", schema=[Field("value", "int")])


def test_a_sound_stream_passes_what_applies_to_streams() -> None:
    results = checked(Stream, STREAM, SimpleNamespace())

    passed = {name for name, result in results.items() if result.status == "passed"}
    assert passed == {
        "fixture", "facts-complete", "schema-agrees-with-samples", "pickles", "shards-partition", "state-resumes",
        "repr-one-screen",
    }  # fmt: skip
    assert all(result.ok for result in results.values())


@pytest.mark.parametrize(
    ("target", "check", "finding"),
    [
        (EachWorkerAll, "shards-partition", "two workers give 12 items"),
        (LosesItems, "shards-partition", "leave an item out"),
        (ForgetsState, "state-resumes", "resumed after 2 items"),
        (KeepsTensorState, "state-resumes", "not JSON serializable"),
    ],
)
def test_a_faulty_stream_is_caught(target: type[Stream], check: str, finding: str) -> None:
    result = asked(check, target, STREAM, SimpleNamespace())

    assert result.status == "failed", result
    assert finding in result.message


@pytest.mark.parametrize("fact", ["license", "citation", "homepage", "schema"])
def test_incomplete_facts_are_caught(fact: str) -> None:
    facts = {**vars(INFO), fact: None if fact != "schema" else ()}

    result = asked("facts-complete", Numbers, DatasetInfo(**facts))

    assert result.status == "failed"
    assert fact in result.message


def test_a_file_without_any_digest_is_caught() -> None:
    info = DatasetInfo(**{**vars(INFO), "files": [{"url": "https://host.example/numbers.tar.gz"}]})

    assert "numbers.tar.gz" in asked("facts-complete", Numbers, info).message


def test_without_a_fixture_one_check_fails_and_says_what_is_missing() -> None:
    results = checked(Numbers, samples=SimpleNamespace())

    assert results["fixture"].status == "failed"
    assert "it needs root" in results["fixture"].message
    assert results["pickles"].status == "not-applicable"


def test_a_fixture_with_a_single_item_is_refused() -> None:
    def write_one(name: str, root: Path) -> dict[str, Any]:
        config = write(name, root)
        (root / "numbers/values.txt").write_text("3")
        return config

    result = asked("fixture", Numbers, samples=SimpleNamespace(dataset_fixture=write_one))

    assert "fewer than two items" in result.message


def test_a_fixture_may_write_the_archive_itself() -> None:
    def write_archive(name: str, root: Path) -> dict[str, Any]:
        config = write(name, root)
        with tarfile.open(root / "numbers.tar.gz", "w:gz") as archive:
            archive.add(root / "numbers", "numbers")
        return config

    results = checked(Numbers, samples=SimpleNamespace(dataset_fixture=write_archive))

    assert all(result.ok for result in results.values()), [str(r) for r in results.values() if not r.ok]


def test_a_fixture_that_writes_none_of_the_files_is_caught() -> None:
    info = DatasetInfo(**{**vars(INFO), "files": [{"url": "https://host.example/other.bin", "md5": "0" * 32}]})

    result = asked("download-idempotent", Numbers, info)

    assert "none of the files" in result.message


def test_a_dataset_without_the_option_download_is_fetched_by_name() -> None:
    class Reads(Numbers):
        def __init__(self, root: str | Path) -> None:
            super().__init__(root)

    assert asked("download-idempotent", Reads).status == "passed"


def test_files_placed_by_hand_are_never_fetched() -> None:
    info = DatasetInfo(**{**vars(INFO), "gated": {"kind": "manual"}})

    results = checked(Numbers, info)

    assert results["download-idempotent"].status == "not-applicable"
    assert results["clear-error-when-absent"].status == "passed"


@pytest.mark.slow
def test_spawned_workers_are_asked_at_level_full(site: Any) -> None:
    site.add("spawny", modules={"data.py": SPAWNY})
    __import__("spawny_plugin.data")

    bound = {
        (name, check.check): check
        for name in ("good", "bad")
        for check in bind_dataset(f"spawny/{name}", samples=SimpleNamespace(), level="full")
    }
    wanted = [("good", "workers-agree-spawn"), ("bad", "workers-agree-fork"), ("bad", "workers-agree-spawn")]
    statuses = [result.status for result in run(bound[key] for key in wanted)]

    assert statuses == ["passed", "passed", "failed"]
    assert "workers-agree-spawn" not in {check.name for check in dataset_item_checks.CHECKS.at("default")}


SPAWNY = '''
from flambeau.core.datasets import register_dataset

OFFSET = [0]


@register_dataset("good")
class Good:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return range(4)[index]


@register_dataset("bad")
class Bad(Good):
    """Rests on a module variable that spawned processes do not see."""

    def __init__(self):
        OFFSET[0] = 1

    def __getitem__(self, index):
        return super().__getitem__(index) + OFFSET[0]
'''


def test_the_published_facts_are_back_after_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked("download-idempotent", Numbers)
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")

    with pytest.raises(OfflineError, match=r"host\.example"):
        fetch_dataset(INFO, tmp_path / "elsewhere")


# The schema


@pytest.mark.parametrize(
    ("value", "field", "finding"),
    [
        (torch.zeros(3, 4, 5), Field("x", "image", ("C", "H", "W")), None),
        (torch.zeros(3, 4, 4), Field("x", "image", (3, "S", "S")), None),
        (torch.zeros(3, 4, 5), Field("x", "image", (3, "S", "S")), "shape"),
        (torch.zeros(2, 3, 4, 5), Field("x", "tensor", ("...", 4, 5)), None),
        (torch.zeros(4), Field("x", "tensor", ("...", 4, 5)), "shape"),
        (torch.zeros(5, 3), Field("x", "boxes", ("N", 4)), "shape"),
        (torch.zeros(5, 3, dtype=torch.int64), Field("x", "tensor", dtype="float32"), "dtype int64"),
        (7, Field("x", "label", classes=7), "[0, 7)"),
        (True, Field("x", "int"), "bool"),
        ("a", Field("x", "text"), None),
        (b"a", Field("x", "text"), "bytes"),
        (None, Field("x", "text"), "None"),
        (None, Field("x", "text", optional=True), None),
        (1, Field("x", "colour"), "known are"),
    ],
)
def test_a_value_is_judged_by_its_field(value: Any, field: Field, finding: str | None) -> None:
    fault = field_fault(value, field)

    assert (fault is None) if finding is None else (finding in str(fault))


@pytest.mark.parametrize(
    ("item", "finding"),
    [
        ((1, "a"), None),
        ({"n": 1, "t": "a"}, None),
        ({"n": 1}, "keys"),
        ({"n": 1, "t": "a", "more": 2}, "keys"),
        ((1,), "1 parts, the schema 2"),
        (1, "2 fields"),
    ],
)
def test_an_item_has_a_part_per_field(item: Any, finding: str | None) -> None:
    fault = item_fault(item, [Field("n", "int"), Field("t", "text")])

    assert (fault is None) if finding is None else (finding in str(fault))


def test_pictures_are_judged_as_channels_height_width() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (5, 4))

    assert field_fault(image, Field("x", "image", (3, 4, 5), "uint8")) is None
    assert "shape (3, 4, 5)" in str(field_fault(image, Field("x", "image", (3, 5, 4))))


def test_a_tensor_type_can_be_a_kind() -> None:
    from flambeau.core.tensors import TypedTensor, tensor_type

    @tensor_type(name="speech")
    class Speech(TypedTensor):
        pass

    [kind] = [name for name in __import__("flambeau.core.registry").core.registry.TENSOR_TYPES if "speech" in name]
    assert field_fault(Speech(torch.zeros(2)), Field("x", kind)) is None
    assert "expected a Speech" in str(field_fault(torch.zeros(2), Field("x", kind)))
    assert list(itertools.islice(iter(Speech(torch.zeros(2))), 1))
