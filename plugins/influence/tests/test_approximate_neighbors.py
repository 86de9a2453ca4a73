"""Search by libraries with indexes: nearly what exact search finds, ranked exactly."""

from __future__ import annotations

import builtins

import pytest
import torch

from flambeau.influence._utils import approximate_neighbors
from flambeau.influence._utils.approximate_neighbors import (
    FaissNearestNeighbors,
    UsearchNearestNeighbors,
    default_nearest_neighbors,
)
from flambeau.influence._utils.nearest_neighbors import ExactNearestNeighbors
from flambeau.influence.errors import InfluenceError

SEARCHES = {
    "usearch-f32": lambda: UsearchNearestNeighbors("f32"),
    "usearch-f16": UsearchNearestNeighbors,
    "usearch-i8": lambda: UsearchNearestNeighbors("i8", candidates=10),
    "faiss-graph": FaissNearestNeighbors,
    "faiss-flat": lambda: FaissNearestNeighbors("Flat"),
    "faiss-cells": lambda: FaissNearestNeighbors("IVF8,Flat", candidates=20),
}
GENERATOR = torch.Generator().manual_seed(0)
DATA, QUERIES = torch.randn(400, 8, generator=GENERATOR) * 3, torch.randn(20, 8, generator=GENERATOR)


def built(name):
    pytest.importorskip(name.partition("-")[0], reason="an optional library of nearest neighbours")
    search = SEARCHES[name]()
    search.setup(DATA)
    return search


@pytest.mark.parametrize("name", SEARCHES)
def test_most_of_what_is_nearest_is_found_and_ranked_exactly(name):
    places, products = built(name).get_nearest_neighbors(QUERIES, 5)
    exact = (QUERIES @ DATA.T).topk(5).indices
    found = (places.unsqueeze(2) == exact.unsqueeze(1)).any(2).float().mean()
    # One of eight cells is looked into by default, the other indexes look nearly everywhere.
    assert found > (0.2 if name == "faiss-cells" else 0.9)
    torch.testing.assert_close(products, (QUERIES @ DATA.T).gather(1, places))
    assert (products.diff(dim=1) <= 0).all()


@pytest.mark.parametrize("name", SEARCHES)
def test_more_than_there_are_are_not_given(name):
    places, _ = built(name).get_nearest_neighbors(QUERIES[:1], 1000)
    assert sorted(places[0].tolist()) == list(range(400))


def test_an_index_is_kept_in_a_file(tmp_path):
    pytest.importorskip("usearch", reason="an optional library of nearest neighbours")
    search = UsearchNearestNeighbors(path=tmp_path / "kept" / "index.usearch")
    search.setup(DATA)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["index.usearch"]
    in_memory = built("usearch-f16").get_nearest_neighbors(QUERIES, 3)
    assert (search.get_nearest_neighbors(QUERIES, 3)[0] == in_memory[0]).float().mean() > 0.9


@pytest.mark.parametrize("make", [UsearchNearestNeighbors, FaissNearestNeighbors])
def test_what_is_not_installed_is_named(monkeypatch, make):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] in ("usearch", "faiss"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'flambeau-influence\[(usearch|faiss)\]'"):
        make()
    monkeypatch.setattr(approximate_neighbors, "_EXACT", 10)
    assert isinstance(default_nearest_neighbors(11), ExactNearestNeighbors)


def test_the_default_is_exact_for_what_is_small(monkeypatch):
    assert isinstance(default_nearest_neighbors(1000), ExactNearestNeighbors)
    pytest.importorskip("usearch", reason="an optional library of nearest neighbours")
    monkeypatch.setattr(approximate_neighbors, "_EXACT", 10)
    assert isinstance(default_nearest_neighbors(11), UsearchNearestNeighbors)


def test_bad_arguments_are_named():
    with pytest.raises(InfluenceError, match="dtype is 'b1'"):
        UsearchNearestNeighbors("b1")
    with pytest.raises(InfluenceError, match="candidates is 0"):
        UsearchNearestNeighbors(candidates=0)
    pytest.importorskip("faiss", reason="an optional library of nearest neighbours")
    with pytest.raises(InfluenceError, match="factory is 'Nonsense', which faiss does not know"):
        FaissNearestNeighbors("Nonsense").setup(DATA)
