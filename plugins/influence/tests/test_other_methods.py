"""Similarity of activations, influence functions, nearest neighbours: what golden values do not say."""

from __future__ import annotations

import pytest
import torch
from subjects import LOSSES, Subject
from torch import nn
from torch.utils.data import TensorDataset

from flambeau.influence import ArnoldiInfluenceFunction, NaiveInfluenceFunction, SimilarityInfluence
from flambeau.influence._core.influence_function import _top_eigen
from flambeau.influence._utils.nearest_neighbors import AnnoyNearestNeighbors, ExactNearestNeighbors
from flambeau.influence.errors import InfluenceError


def similar(subject, folder, layers="fc1", **options):
    return SimilarityInfluence(subject.model, layers, subject.train_x, str(folder), batch_size=4, **options)


def test_one_layer_and_a_last_batch_smaller_than_k(tmp_path):
    subject = Subject("net")
    found = similar(subject, tmp_path).influence(subject.train_x[:2], top_k=5)
    assert list(found) == ["fc1"] and found["fc1"][0].shape == (2, 5)
    assert found["fc1"][0][:, 0].tolist() == [0, 1]  # themselves


def test_stored_activations_are_used_only_where_they_are_of_the_same_model(tmp_path):
    subject = Subject("net")
    first = similar(subject, tmp_path).influence(subject.test_x, top_k=3)["fc1"][1]
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    again = similar(subject, tmp_path).influence(subject.test_x, top_k=3)["fc1"][1]
    assert torch.equal(again, first) and {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")} == files
    subject.load(subject.model, 2)
    other = similar(subject, tmp_path).influence(subject.test_x, top_k=3)["fc1"][1]
    fresh = similar(subject, tmp_path / "fresh").influence(subject.test_x, top_k=3)["fc1"][1]
    assert torch.equal(other, fresh) and not torch.equal(other, first)


def test_a_layer_that_does_not_react_is_reported(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    influence = SimilarityInfluence(model, "0", torch.ones(4, 2), str(tmp_path))
    found = influence.influence(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert found["zero_acts-0"][0].tolist() == [1]
    assert found["0"][1][1].tolist() == [-2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "fc9"}, "layers has 'fc9'"),
        ({"similarity_direction": "up"}, "similarity_direction is 'up'"),
        ({"model_id": "../elsewhere"}, "model_id is '../elsewhere'"),
    ],
)
def test_bad_arguments_are_named(tmp_path, options, message):
    with pytest.raises(InfluenceError, match=message):
        similar(Subject("net"), tmp_path, **options)


def test_a_metric_has_to_compare_all_with_all(tmp_path):
    subject = Subject("net")
    influence = similar(subject, tmp_path, similarity_metric=lambda test, train: test.sum())
    with pytest.raises(InfluenceError, match=r"similarity_metric gave \(\), expected \(3, 4\)"):
        influence.influence(subject.test_x)


def functions(method, subject, **options):
    settings = {"layers": ["fc2"], "loss_fn": LOSSES["none"](), "batch_size": 4, "hessian_reg": 1e-2, **options}
    return method(subject.model, subject.train, subject.states[0], **settings)


def test_influence_functions_say_what_weighting_an_example_would_change():
    # A quadratic loss, of which the influence is exact: the minimum moves by H^-1 gradient.
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 3, generator=generator), torch.randn(30, 1, generator=generator)
    model = nn.Linear(3, 1, bias=False)
    hessian = 2 * x.T @ x
    with torch.no_grad():
        model.weight.copy_(torch.linalg.solve(x.T @ x, x.T @ y).T)
    data, test = TensorDataset(x, y), (x[:2] + 1, y[:2])
    naive = NaiveInfluenceFunction(
        model, data, model.state_dict(), loss_fn=nn.MSELoss(reduction="sum"), batch_size=10, hessian_reg=0.0,
        sample_wise_grads_per_batch=True,
    )  # fmt: skip
    gradients = [2 * (model(a) - b) * a for a, b in ((x, y), test)]
    expected = gradients[1] @ torch.linalg.solve(hessian, gradients[0].T)
    torch.testing.assert_close(naive.influence(test), expected.detach(), rtol=1e-3, atol=1e-4)


def test_arnoldis_iteration_finds_the_large_eigenvalues():
    subject = Subject("net")
    naive = functions(NaiveInfluenceFunction, subject, projection_dim=5)
    arnoldi = functions(ArnoldiInfluenceFunction, subject, projection_dim=5, arnoldi_tol=1e-4)
    torch.testing.assert_close(arnoldi.influence(subject.inputs), naive.influence(subject.inputs), rtol=5e-2, atol=5e-3)
    assert functions(ArnoldiInfluenceFunction, subject, arnoldi_dim=3).R.shape == (36, 3)


def test_the_model_comes_back_as_it_was():
    subject = Subject("net")
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    functions(ArnoldiInfluenceFunction, subject).influence(subject.inputs, k=2)
    assert all(torch.equal(value, before[name]) for name, value in subject.model.state_dict().items())


def test_a_hessian_without_large_eigenvalues_is_refused():
    with pytest.raises(InfluenceError, match=r"No eigenvalue of the Hessian is above hessian_inverse_tol=1\.0"):
        _top_eigen(torch.zeros(3, 3), 2, 0.0, 1.0)


def test_a_hessian_too_large_to_write_down_is_refused():
    model = nn.Linear(150, 150)
    data = TensorDataset(torch.zeros(2, 150), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InfluenceError, match=r"22650 parameters .* ArnoldiInfluenceFunction"):
        NaiveInfluenceFunction(model, data, model.state_dict(), loss_fn=LOSSES["none"]())


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_exact_search_finds_the_largest_products(block):
    generator = torch.Generator().manual_seed(0)
    data, query = torch.randn(40, 5, generator=generator), torch.randn(3, 5, generator=generator)
    search = ExactNearestNeighbors(block)
    search.setup(data)
    places, products = search.get_nearest_neighbors(query, 6)
    expected = torch.topk(query @ data.T, 6)
    assert torch.equal(places, expected.indices)
    torch.testing.assert_close(products, expected.values)
    assert search.get_nearest_neighbors(query, 100)[0].shape == (3, 40)


def test_search_needs_vectors():
    with pytest.raises(InfluenceError, match="call `setup` before"):
        ExactNearestNeighbors().get_nearest_neighbors(torch.ones(1, 2), 1)


def test_annoy_is_optional():
    try:
        search = AnnoyNearestNeighbors()
    except ImportError as error:
        assert "flambeau-influence[annoy]" in str(error)
        return
    data = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    search.setup(data)
    assert search.get_nearest_neighbors(data[:3], 5)[0].shape == (3, 5)
