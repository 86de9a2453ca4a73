"""Projections whose matrices are functions of a seed and a place."""

from __future__ import annotations

import pytest
import torch

from flambeau.influence import _projection
from flambeau.influence._projection import RandomProjection
from flambeau.influence.errors import InfluenceError

MASK = (1 << 64) - 1


def mixed(word):
    """SplitMix64's function, in Python's whole numbers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def test_the_words_are_splitmix64s():
    # The first numbers of the generator with seed 1234567, as its authors' program prints them.
    gamma, state = 0x9E3779B97F4A7C15, 1234567
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    words = torch.tensor([_projection._signed(state + gamma * step) for step in (1, 2, 3)])
    assert [int(word) & MASK for word in _projection._mixed(words)] == expected


@pytest.mark.parametrize("dim", [1, 64, 100])
def test_entries_are_bits_of_a_counter(dim):
    projection, gamma = RandomProjection(dim, seed=-3, stream=2), 0x9E3779B97F4A7C15
    key = mixed((mixed(-3 & MASK) + 2 * gamma) & MASK)
    found = projection.matrix(5)
    for row in range(5):
        for column in (0, dim // 2, dim - 1):
            word = mixed((key + (row * (1 << 24) + column // 64) * gamma) & MASK)
            sign = 1 if word >> (column % 64) & 1 else -1
            assert float(found[row, column]) == pytest.approx(sign / dim**0.5)


@pytest.mark.parametrize("entries", [1, 640, 1 << 24])
def test_rows_are_projected_by_the_dense_matrix_in_pieces_of_any_size(monkeypatch, entries):
    monkeypatch.setattr(_projection, "_ENTRIES", entries)
    rows = torch.randn(7, 123, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    projection = RandomProjection(70, seed=5)
    expected = rows @ projection.matrix(123).double()
    torch.testing.assert_close(projection(rows), expected, rtol=1e-6, atol=1e-6)
    alone = torch.cat([projection(rows[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(alone, projection(rows))


def test_scalar_products_are_kept_about():
    rows = torch.randn(40, 2000, generator=torch.Generator().manual_seed(0))
    projected = RandomProjection(4096)(rows)
    # The deviation of a product is the product of lengths over the root of the dimension.
    error = (projected @ projected.T - rows @ rows.T) / (rows.norm(dim=1).unsqueeze(1) * rows.norm(dim=1))
    assert error.abs().max() < 5 / 64 and error.std() == pytest.approx(1 / 64, rel=0.2)


def test_seeds_and_streams_give_matrices_of_their_own():
    matrices = [RandomProjection(64, seed, stream).matrix(200).flatten() for seed in (0, 1) for stream in (0, 1)]
    likeness = torch.corrcoef(torch.stack(matrices)) - torch.eye(4)
    assert likeness.abs().max() < 0.05
    assert abs(float(matrices[0].sign().mean())) < 0.05


@pytest.mark.parametrize("dim", [0, -1, 2.5])
def test_a_dimension_is_a_positive_number(dim):
    with pytest.raises(InfluenceError, match="dimension of a projection is"):
        RandomProjection(dim)
