"""Every method gives the scores and orders that captum computed."""

from __future__ import annotations

import pytest
import torch
from subjects import LOSSES, Subject
from torch import nn
from torch.utils.data import TensorDataset

from flambeau.core.testing.fill import matches
from flambeau.core.testing.golden import golden_values
from flambeau.influence import (
    ArnoldiInfluenceFunction,
    NaiveInfluenceFunction,
    SimilarityInfluence,
    TracInCP,
    TracInCPFast,
    TracInCPFastRandProj,
)
from flambeau.influence._core.similarity_influence import cosine_similarity, euclidean_distance

GOLDEN = golden_values("influence", __file__)
KINDS = ("net", "conv")


def require_close(found, expected, rtol=1e-4, atol=1e-6):
    torch.testing.assert_close(found, torch.tensor(expected), rtol=rtol, atol=atol)


def require_order(found, expected):
    assert found.indices.tolist() == expected["indices"]
    require_close(found.influence_scores, expected["scores"])


def tracin(subject, loss, each, **options):
    return TracInCP(
        subject.model, subject.train, iter(range(3)), subject.load, loss_fn=LOSSES[loss](), batch_size=4,
        sample_wise_grads_per_batch=each, **options,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "each"), [("none", False), ("sum", True), ("mean", True)])
def test_tracin(kind, loss, each):
    subject = Subject(kind)
    influence = tracin(subject, loss, each)
    golden = GOLDEN[kind][f"TracInCP.{loss}_persample_{'on' if each else 'off'}"]
    require_close(influence.influence(subject.inputs), golden["influence"])
    require_close(influence.self_influence(), golden["self_influence_train"])
    require_close(influence.self_influence(subject.inputs), golden["self_influence_test"])
    require_close(influence.self_influence(outer_loop_by_checkpoints=True), golden["self_influence_outer_checkpoints"])
    require_close(influence.influence(subject.inputs, aggregate=True), golden["aggregate"])
    require_order(influence.influence(subject.inputs, k=3), golden["proponents_k3"])
    require_order(influence.influence(subject.inputs, k=3, proponents=False), golden["opponents_k3"])
    quantities = influence.compute_intermediate_quantities(subject.inputs)
    assert matches(quantities, golden["intermediate_quantities"]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_tracin_of_some_layers(kind):
    subject = Subject(kind)
    influence = tracin(subject, "none", False, layers=[subject.last])
    golden = GOLDEN[kind][f"TracInCP.layers_{subject.last}"]
    require_close(influence.influence(subject.inputs), golden["influence"])
    require_close(influence.self_influence(), golden["self_influence_train"])


@pytest.mark.parametrize("kind", KINDS)
def test_tracin_of_two_losses(kind):
    subject = Subject(kind)

    def repeated(labels):
        return labels.float().unsqueeze(1).repeat(1, subject.classes)

    influence = TracInCP(
        subject.model, TensorDataset(subject.train_x, repeated(subject.train_y)), iter(range(3)), subject.load,
        loss_fn=nn.MSELoss(reduction="sum"), test_loss_fn=nn.L1Loss(reduction="sum"), batch_size=4,
        sample_wise_grads_per_batch=True,
    )  # fmt: skip
    scores = influence.influence((subject.test_x, repeated(subject.test_y)))
    require_close(scores, GOLDEN[kind]["TracInCP.mse_train_l1_test"]["influence"], atol=1e-5)


def last_layer(method, subject, **options):
    return method(
        subject.model, subject.last, subject.train, iter(range(3)), subject.load, batch_size=4, **options
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_tracin_of_the_last_layer(kind, loss):
    subject, golden = Subject(kind), GOLDEN[kind][f"TracInCPFast.{loss}"]
    influence = last_layer(TracInCPFast, subject, loss_fn=LOSSES[loss]())
    require_close(influence.influence(subject.inputs), golden["influence"])
    require_close(influence.self_influence(), golden["self_influence_train"])
    require_order(influence.influence(subject.inputs, k=3), golden["proponents_k3"])
    require_order(influence.influence(subject.inputs, k=3, proponents=False), golden["opponents_k3"])


@pytest.mark.parametrize("kind", KINDS)
def test_stored_gradients(kind):
    subject, golden = Subject(kind), GOLDEN[kind]["TracInCPFastRandProj.no_projection_exact_search"]
    influence = last_layer(TracInCPFastRandProj, subject, loss_fn=LOSSES["sum"]())
    require_close(influence.influence(subject.inputs, k=None), golden["influence"])
    require_order(influence.influence(subject.inputs, k=3), golden["proponents_k3"])
    require_order(influence.influence(subject.inputs, k=3, proponents=False), golden["opponents_k3"])
    quantities = influence.compute_intermediate_quantities(subject.inputs)
    assert matches(quantities, golden["intermediate_quantities_test"]) is None
    shapes = GOLDEN[kind]["TracInCPFastRandProj.projection_dim_9_shapes"]
    projected = last_layer(TracInCPFastRandProj, subject, loss_fn=LOSSES["sum"](), projection_dim=9)
    first, second = projected._projections
    assert [list(first.shape), list(second.shape)] == [shapes["jacobian_projection"], shapes["layer_input_projection"]]
    assert projected.compute_intermediate_quantities(subject.inputs).shape == (3, 3 * 9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_similarities(kind, metric, tmp_path):
    subject, golden = Subject(kind), GOLDEN[kind][f"SimilarityInfluence.{metric}"]["result"]
    subject.load(subject.model, 0)
    influence = SimilarityInfluence(
        subject.model, list(golden), subject.train_x[:8], str(tmp_path), batch_size=4,
        similarity_metric=cosine_similarity if metric == "cosine" else euclidean_distance,
        similarity_direction="max" if metric == "cosine" else "min",
    )  # fmt: skip
    found = influence.influence(subject.test_x, top_k=3)
    for layer, expected in golden.items():
        assert found[layer][0].tolist() == expected["indices"]
        require_close(found[layer][1], expected["values"])


@pytest.mark.parametrize("kind", KINDS)
def test_influence_functions(kind):
    subject, golden = Subject(kind), GOLDEN[kind]["NaiveInfluenceFunction"]
    options = {
        "layers": [subject.last], "loss_fn": LOSSES["none"](), "batch_size": 4, "projection_dim": 200,
        "hessian_reg": 1e-2, "hessian_inverse_tol": 1e-4,
    }  # fmt: skip
    naive = NaiveInfluenceFunction(subject.model, subject.train, subject.states[0], **options)
    scores = naive.influence(subject.inputs)
    # An eigenvalue problem: digits of the smallest eigenvalues are lost on the way.
    require_close(scores, golden["influence"], rtol=2e-3, atol=2e-3)
    require_close(naive.self_influence(), golden["self_influence_train"], rtol=2e-3, atol=2e-3)
    arnoldi = ArnoldiInfluenceFunction(subject.model, subject.train, subject.states[0], arnoldi_tol=1e-4, **options)
    both = torch.stack([arnoldi.influence(subject.inputs).flatten(), scores.flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.95
