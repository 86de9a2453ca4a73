"""Indices of vectors: exact search, and the inverted file of product-quantized vectors beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rec.errors import OptionError
from flambeau.rec.retrieval import ExactIndex, IVFPQIndex, ProductQuantizer, get_index, recall_at_k
from flambeau.rec.retrieval.kmeans import kmeans, nearest_centroids

DIM = 16


def clustered(count: int, *, clusters: int = 50, seed: int = 0) -> torch.Tensor:
    """Points around some centres, as vectors of items are."""
    drawn = torch.Generator().manual_seed(seed)
    centres = torch.randn(clusters, DIM, generator=torch.Generator().manual_seed(99)) * 2
    return centres[torch.randint(clusters, (count,), generator=drawn)] + torch.randn(count, DIM, generator=drawn)


def filled(count: int = 3000, **options) -> tuple[IVFPQIndex, torch.Tensor]:
    items = clustered(count)
    index = IVFPQIndex(DIM, **{"num_centroids": 20, "num_subquantizers": 8, "num_probe": 20, **options})
    index.train(items)
    index.add(items)
    return index, items


# --- exact -----------------------------------------------------------------------------------------------------------


def test_exact_search_finds_what_all_distances_say():
    items, queries = clustered(200), clustered(5, seed=1)
    index = ExactIndex(DIM)
    index.add(items[:120])
    index.add(items[120:])
    distances, ids = index.search(queries, 7)
    expected = torch.cdist(queries, items).square().topk(7, largest=False)
    torch.testing.assert_close(distances, expected.values)
    assert torch.equal(ids, expected.indices)


def test_exact_search_by_products_gives_the_largest_first():
    items, queries = clustered(200), clustered(5, seed=1)
    index = ExactIndex(DIM, metric="inner_product")
    index.add(items)
    scores, ids = index.search(queries, 7)
    expected = (queries @ items.T).topk(7)
    torch.testing.assert_close(scores, expected.values)
    assert torch.equal(ids, expected.indices)


@pytest.mark.parametrize(("metric", "worst"), [("l2", torch.inf), ("inner_product", -torch.inf)])
def test_what_is_not_there_is_minus_one(metric, worst):
    for index in (ExactIndex(DIM, metric), filled(300, metric=metric)[0]):
        wanted = index.ntotal + 2
        scores, ids = index.search(clustered(2, seed=1), wanted)
        assert ids[:, -2:].tolist() == [[-1, -1]] * 2
        assert (scores[:, -2:] == worst).all()
        assert sorted(ids[0, :-2].tolist()) == list(range(index.ntotal))


# --- training --------------------------------------------------------------------------------------------------------


def test_kmeans_finds_clusters_that_lie_apart():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = centres.repeat(50, 1) + 0.1 * torch.randn(150, 2, generator=torch.Generator().manual_seed(0))
    found = kmeans(points, 3)
    assert torch.cdist(centres, found).amin(1).max() < 0.1


def test_kmeans_of_several_sets_keeps_them_apart():
    points = torch.stack([clustered(300), clustered(300, seed=1) + 100])
    low, high = kmeans(points, 8)
    assert low.abs().max() < 50 < high.min()


def test_equal_points_leave_no_centroid_that_is_no_number():
    found = kmeans(torch.ones(20, 3), 4)
    assert found.isfinite().all()
    torch.testing.assert_close(found, torch.ones(4, 3), rtol=0.01, atol=0)


def test_each_iteration_brings_centroids_nearer():
    points = clustered(2000)

    def error(iterations):
        centroids = kmeans(points, 30, iterations=iterations)
        near = nearest_centroids(points[None], centroids[None])[0]
        return float((points - centroids[near]).square().mean())

    assert error(10) < error(3) < error(1)


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_more_bits_stand_nearer_to_the_vectors(bits):
    vectors = clustered(600)
    quantizer = ProductQuantizer(DIM, 4, bits)
    quantizer.train(vectors)
    codes = quantizer.encode(vectors)
    assert codes.dtype == torch.uint8
    assert int(codes.max()) < 2**bits
    error = float((quantizer.decode(codes) - vectors).square().mean() / vectors.var())
    assert error < {1: 0.9, 4: 0.4, 8: 0.12}[bits]


def test_products_of_codes_are_those_of_what_they_stand_for():
    vectors, queries = clustered(300), clustered(4, seed=1)
    quantizer = ProductQuantizer(DIM, 4, 5)
    quantizer.train(vectors)
    codes = quantizer.encode(vectors)
    table = quantizer.products(queries)
    summed = table[:, torch.arange(4), codes.long()].sum(-1)
    torch.testing.assert_close(summed, queries @ quantizer.decode(codes).T)


# --- the inverted file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
def test_distances_are_those_to_what_stands_for_the_vectors(metric):
    index, items = filled(500, metric=metric)
    queries = clustered(6, seed=1)
    made = index.reconstruct(torch.arange(len(items)))
    expected = ExactIndex(DIM, metric)
    expected.add(made)
    scores, ids = index.search(queries, 10)
    wanted, wanted_ids = expected.search(queries, 10)
    torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-3)
    assert recall_at_k(ids, wanted_ids) > 0.98  # of equally near ones either


def test_recall_grows_with_the_lists_that_are_searched():
    index, items = filled(num_subquantizers=16)
    exact = ExactIndex(DIM)
    exact.add(items)
    queries = clustered(100, seed=1)
    expected = exact.search(queries, 10)[1]
    recalls = []
    for index.nprobe in (1, 3, 20):
        recalls.append(recall_at_k(index.search(queries, 10)[1], expected))
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.9


def test_vectors_added_in_parts_are_found_like_those_added_at_once():
    index, items = filled(1000)
    parts = IVFPQIndex(DIM, 20, 8, num_probe=20)
    parts.train(items)
    parts.add(items[:300])
    parts.search(items[:1], 1)  # which brings them into their lists
    for some in items[300:].split(250):
        parts.add(some)
    for mine, other in zip(parts.search(items[::50], 5), index.search(items[::50], 5), strict=True):
        assert torch.equal(mine, other)


def test_vectors_have_the_numbers_that_they_are_given():
    index, items = filled(1000)
    named = IVFPQIndex(DIM, 20, 8, num_probe=20)
    named.train(items)
    named.add_with_ids(items, torch.arange(1000) * 7 + 5)
    assert torch.equal(named.search(items[:20], 3)[1], index.search(items[:20], 3)[1] * 7 + 5)
    assert torch.equal(named.reconstruct([5, 12]), index.reconstruct([0, 1]))


def test_removed_vectors_are_found_no_more():
    index, items = filled(1000)
    first = index.search(items[:50], 1)[1].flatten()
    assert index.remove_ids(first) == len(first.unique())
    assert index.ntotal == 1000 - len(first.unique())
    again = index.search(items[:50], 5)[1]
    assert not torch.isin(again, first).any()
    with pytest.raises(OptionError, match="not in the index"):
        index.reconstruct(first[:1])


def test_arrays_get_arrays():
    index, items = filled(400)
    tensors = index.search(items[:3], 2)
    arrays = index.search(items[:3].numpy(), 2)
    for tensor, array in zip(tensors, arrays, strict=True):
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(array, tensor.numpy())


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
def test_a_saved_index_finds_the_same(tmp_path, metric):
    index, items = filled(500, metric=metric, num_probe=3, bits_per_code=5)
    index.save(tmp_path / "index.safetensors")
    again = IVFPQIndex.load(tmp_path / "index.safetensors")
    assert repr(again) == repr(index)
    for mine, other in zip(again.search(items[:9], 4), index.search(items[:9], 4), strict=True):
        assert torch.equal(mine, other)
    again.add(items[:1])
    assert again.ntotal == 501


def test_files_that_are_none_are_refused(tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "text").write_text("no index")
    with pytest.raises(OptionError, match=r"IVFPQIndex\.save wrote"):
        IVFPQIndex.load(tmp_path / "text")
    save_file({"a": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(OptionError, match="of the format None"):
        IVFPQIndex.load(tmp_path / "other")


def test_training_gives_the_same_each_time():
    for one, other in zip(filled(800)[0].search(clustered(5), 3), filled(800)[0].search(clustered(5), 3), strict=True):
        assert torch.equal(one, other)


def test_the_index_of_upstreams_example():
    index = get_index(
        embedding_dim=8, num_centroids=4, num_probe=2, num_subquantizers=4, bits_per_code=3, device=torch.device("cpu")
    )
    assert repr(index) == "IVFPQIndex(0 vectors of 8 columns in 4 lists, 4 x 3 bits, l2, nprobe 2, not trained)"


@given(
    count=st.integers(8, 60),
    queries=st.integers(0, 4),
    k=st.integers(1, 70),
    probes=st.integers(1, 6),
    bits=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_results_are_ordered_distinct_and_of_the_index(count, queries, k, probes, bits, seed):
    items = clustered(count, seed=seed)
    index = IVFPQIndex(DIM, 5, 4, bits, num_probe=probes)
    index.train(items, iterations=3)
    index.add(items)
    distances, ids = index.search(clustered(queries, seed=seed + 100), k)
    assert distances.shape == ids.shape == (queries, k)
    assert (distances.diff(dim=1).nan_to_num(0.0) >= 0).all()
    assert ((ids >= -1) & (ids < count)).all()
    assert torch.equal(ids < 0, distances.isinf())
    for row in ids:
        real = row[row >= 0]
        assert len(real.unique()) == len(real)
    if probes >= 5:
        assert ((ids >= 0).sum(1) == min(k, count)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index, items: index.search(items[:, :3], 1), r"x has shape \(500, 3\), expected \(n, 16\)"),
        (lambda index, items: index.search(items, 0), "k is 0"),
        (lambda index, items: index.search(items.long(), 1), "expected floating-point"),
        (lambda index, items: index.add(items / 0 * 0), "infinite or no number"),
        (lambda index, items: index.add_with_ids(items, torch.arange(3)), "expected"),
        (lambda index, items: index.add_with_ids(items[:1], [-1]), "at least 0"),
        (lambda index, items: index.train(items), "holds 500 vectors"),
        (lambda index, items: IVFPQIndex(DIM).search(items, 1), "call train"),
        (lambda index, items: IVFPQIndex(DIM).train(items[:30]), "at least 256"),
        (lambda index, items: IVFPQIndex(DIM, num_subquantizers=3), "multiple of num_subquantizers"),
        (lambda index, items: IVFPQIndex(DIM, bits_per_code=9), "expected 1 to 8"),
        (lambda index, items: IVFPQIndex(DIM, num_centroids=0), "num_centroids is 0"),
        (lambda index, items: IVFPQIndex(DIM, metric="cosine"), "one of l2, inner_product"),
        (lambda index, items: recall_at_k(torch.zeros(2, 1), torch.zeros(3, 1)), "give"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call, message):
    index, items = filled(500)
    with pytest.raises(OptionError, match=message):
        call(index, items)


def test_faiss_finds_as_much_with_the_same_sizes():
    faiss = pytest.importorskip("faiss")
    index, items = filled(num_probe=4)
    theirs = faiss.IndexIVFPQ(faiss.IndexFlatL2(DIM), DIM, 20, 8, 8)
    theirs.train(items.numpy())
    theirs.add(items.numpy())
    theirs.nprobe = 4
    exact = ExactIndex(DIM)
    exact.add(items)
    queries = clustered(200, seed=1)
    expected = exact.search(queries, 10)[1]
    mine = recall_at_k(index.search(queries, 10)[1], expected)
    other = recall_at_k(torch.from_numpy(theirs.search(queries.numpy(), 10)[1]), expected)
    assert mine > other - 0.03


def test_an_empty_index_finds_nothing():
    index = ExactIndex(DIM)
    assert index.search(clustered(2), 3)[1].tolist() == [[-1] * 3] * 2
    trained, items = filled(300)
    trained.reset()
    assert trained.search(items[:2], 3)[1].tolist() == [[-1] * 3] * 2
