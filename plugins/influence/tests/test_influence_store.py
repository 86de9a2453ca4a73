"""Vectors on disk: precision, what survives a cut, several processes, folders that hold something else."""

from __future__ import annotations

import json

import pytest
import torch
from subjects import LOSSES, Subject

from flambeau.influence import TracInCP
from flambeau.influence.errors import InfluenceError, StoreError
from flambeau.influence.influence_store import InfluenceStore

ROWS = torch.randn(11, 5, generator=torch.Generator().manual_seed(0)) * torch.logspace(-9, 9, 11).unsqueeze(1)


def filled(folder, **options):
    store = InfluenceStore(folder, 11, 5, shard=4, **options)
    for number in store.missing():
        store.write(number, ROWS[list(store.span(number))])
    return store


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("float16", 1e-3), ("int8", 5e-3)])
def test_rows_of_any_size_keep_the_precision_of_their_dtype(tmp_path, dtype, error):
    store = filled(tmp_path, dtype=dtype)
    found = torch.cat(list(store.blocks()))
    assert len(store) == 11 and store.shards == 3
    assert ((found - ROWS).abs() <= error * ROWS.abs().amax(1, keepdim=True)).all()
    size = {"float32": 4, "float16": 2, "int8": 1}[dtype]
    assert (tmp_path / "shard-000000.bin").stat().st_size == 4 * (4 + 5 * size)


def test_zeros_are_kept(tmp_path):
    store = InfluenceStore(tmp_path, 2, 3, dtype="int8")
    store.write(0, torch.zeros(2, 3))
    assert store.read(0).abs().max() == 0


def test_search_finds_what_all_scores_say(tmp_path):
    store = filled(tmp_path, dtype="float32")
    queries = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    scores = store.scores(queries)
    torch.testing.assert_close(scores, queries @ ROWS.T, rtol=1e-5, atol=1e-3)
    places, products = store.search(queries, 4)
    expected = scores.topk(4)
    assert torch.equal(places, expected.indices)
    torch.testing.assert_close(products, expected.values)
    assert store.search(queries, 50)[0].shape == (3, 11)


def test_a_run_that_was_cut_off_goes_on_with_the_missing_shards(tmp_path):
    subject = Subject("net")
    tracin = TracInCP(
        subject.model, subject.train, iter(range(3)), subject.load, loss_fn=LOSSES["none"](), batch_size=4
    )
    whole = tracin.compute_intermediate_quantities(subject.loader())
    calls = []

    def embed(loader):
        calls.append(len(loader.dataset))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return tracin.compute_intermediate_quantities(loader)

    options = {"dtype": "float32", "shard": 4, "about": {"method": "TracInCP", "checkpoints": (0, 1, 2)}}
    store = InfluenceStore(tmp_path, *whole.shape, **options)
    with pytest.raises(KeyboardInterrupt):
        store.fill(embed, subject.train, batch_size=3)
    assert store.missing() == [1, 2]
    again = InfluenceStore(tmp_path, *whole.shape, **options)
    again.fill(embed, subject.train, batch_size=3)
    assert calls == [4, 4, 4, 3] and not again.missing()
    torch.testing.assert_close(torch.cat(list(again.blocks())), whole)
    assert InfluenceStore(tmp_path).about == {"method": "TracInCP", "checkpoints": [0, 1, 2]}


def test_processes_fill_shards_of_their_own(tmp_path):
    data = torch.utils.data.TensorDataset(ROWS)
    for rank in (1, 0):
        store = InfluenceStore(tmp_path, 11, 5, shard=2)
        store.fill(lambda loader: torch.cat([rows for (rows,) in loader]), data, rank=rank, world_size=2)
        assert store.missing(rank, 2) == [] and len(store.missing()) == (3 if rank else 0)


def test_a_shard_that_cannot_be_written_is_not_there(tmp_path, monkeypatch):
    store = InfluenceStore(tmp_path, 4, 5)

    def fail(*_):
        raise OSError("no space left on the device")

    monkeypatch.setattr("flambeau.core.files.replace", fail)
    with pytest.raises(OSError, match="no space"):
        store.write(0, ROWS[:4])
    assert store.missing() == [0] and [path.name for path in tmp_path.iterdir()] == ["store.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": 12, "numbers": 5}, "whose examples is 11, expected 12"),
        ({"examples": 11, "numbers": 6}, "whose numbers is 5, expected 6"),
        ({"examples": 11, "numbers": 5, "dtype": "int8"}, "whose dtype is 'float16', expected 'int8'"),
        ({"examples": 11, "numbers": 5, "about": {"seed": 1}}, "whose about is {}, expected {'seed': 1}"),
        ({"examples": 11, "numbers": 5, "dtype": "float8"}, "dtype is 'float8', expected one of"),
        ({"examples": 0, "numbers": 5}, "describes no store"),
    ],
)
def test_another_store_is_refused(tmp_path, options, message):
    filled(tmp_path)
    with pytest.raises(StoreError, match=message):
        InfluenceStore(tmp_path, **{"shard": 4, **options})


@pytest.mark.parametrize(
    "header",
    ["", "[]", "{}", '{"version": 1, "examples": true, "numbers": 1, "shard": 1, "dtype": "int8", "about": {}}'],
)
def test_a_damaged_header_is_reported(tmp_path, header):
    (tmp_path / "store.json").write_text(header)
    with pytest.raises(StoreError, match=r"store\.json"):
        InfluenceStore(tmp_path)


def test_what_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(StoreError, match="holds no store; pass `examples` and `numbers`"):
        InfluenceStore(tmp_path)
    store = filled(tmp_path)
    path = tmp_path / "shard-000001.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"shard-000001\.bin has 55 bytes, expected 56"):
        store.scores(torch.ones(1, 5))
    path.unlink()
    with pytest.raises(StoreError, match="has no shard 1"):
        store.search(torch.ones(1, 5), 1)
    header = json.loads((tmp_path / "store.json").read_text())
    assert header["version"] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.write(0, ROWS[:3]), r"takes \(4, 5\), got \(3, 5\)"),
        (lambda s: s.write(0, ROWS[:4] * float("nan")), "not finite"),
        (lambda s: s.write(9, ROWS), "there is no 9"),
        (lambda s: s.scores(torch.ones(1, 4)), r"Queries are \(1, 4\), expected \(test, 5\)"),
        (lambda s: s.search(torch.ones(1, 5), 0), "k is 0"),
        (lambda s: s.fill(None, torch.utils.data.TensorDataset(ROWS[:3])), "has 3 examples"),
        (lambda s: s.fill(None, torch.utils.data.TensorDataset(ROWS), rank=0), "belong together"),
        (lambda s: s.fill(None, torch.utils.data.TensorDataset(ROWS), rank=2, world_size=2), "rank is 2"),
    ],
)
def test_bad_arguments_are_named(tmp_path, call, message):
    with pytest.raises(InfluenceError, match=message):
        call(filled(tmp_path))
