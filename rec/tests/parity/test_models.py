"""Models give the recorded outputs, gradients and names of parameters."""

from __future__ import annotations

import types

import pytest
import torch

from flambeau.core.testing.fill import fill_, integers, matches, tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.models.bert4rec import BERT4Rec
from flambeau.rec.models.deepfm import SimpleDeepFMNN
from flambeau.rec.models.dlrm import DLRM, DLRM_DCN, DLRM_Projection, DLRMTrain
from flambeau.rec.models.experimental.transformerdlrm import DLRM_Transformer
from flambeau.rec.models.two_tower import TwoTower, TwoTowerTrainTask, convert_TwoTower_to_TwoTowerRetrieval

CASES = golden_values("rec_modules", __file__)["cases"]


def collection():
    return EmbeddingBagCollection(
        [
            EmbeddingBagConfig(10, 8, "t1", feature_names=["f1", "f3"]),
            EmbeddingBagConfig(10, 8, "t2", feature_names=["f2"]),
        ]
    )


def ids():
    lengths = integers("lens", (12,), 4)
    return KeyedJaggedTensor(["f1", "f2", "f3"], integers("values", (int(lengths.sum()),), 10), lengths=lengths)


BUILT = {
    "dlrm": lambda: DLRM(collection(), 13, [16, 8], [12, 1]),
    "dlrm_dcn": lambda: DLRM_DCN(collection(), 13, [16, 8], [12, 1], 2, 4),
    "dlrm_projection": lambda: DLRM_Projection(collection(), 13, [16, 8], [12, 1], [16, 16], [8, 8]),
    "deepfm_nn": lambda: SimpleDeepFMNN(13, collection(), 16, 4),
    "dlrm_transformer": lambda: DLRM_Transformer(collection(), 13, [16, 8], [12, 1], nhead=2, ntransformer_layers=2),
}


@pytest.mark.parametrize("name", BUILT)
def test_a_model_gives_the_recorded_outputs_and_gradients(name):
    model = fill_(BUILT[name]()).eval()
    assert {key: list(value.shape) for key, value in model.state_dict().items()} == CASES[name]["state_dict"]
    if name == "dlrm_transformer":
        return  # what is recorded of it was made with dropout; `peers` compares it
    output = model(tensor("dense", (4, 13)), ids())
    assert matches(output, CASES[name]["output"]) is None
    (output * tensor("g", tuple(output.shape))).sum().backward()
    for key, value in model.named_parameters():
        assert float(value.grad.abs().sum()) == pytest.approx(CASES[name]["grads"][key], rel=1e-3, abs=1e-4)


def test_training_a_dlrm_has_the_recorded_loss():
    task = DLRMTrain(fill_(BUILT["dlrm"]()))
    fill_(task)
    batch = types.SimpleNamespace(
        dense_features=tensor("dense", (4, 13)), sparse_features=ids(), labels=torch.tensor([0, 1, 0, 1])
    )
    loss, (detached, logits, labels) = task(batch)
    expected = CASES["dlrm_train"]
    assert matches(loss, expected["loss"]) is None
    assert matches(logits, expected["logits"]) is None
    assert not detached.requires_grad
    assert torch.equal(labels, batch.labels)


def test_bert4rec_gives_the_recorded_scores():
    model = fill_(BERT4Rec(vocab_size=20, max_len=6, emb_dim=8, nhead=2, num_layers=2, dropout=0)).eval()
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    assert shapes == CASES["bert4rec"]["state_dict"]
    histories = KeyedJaggedTensor(["item"], integers("b4r_ids", (18,), 20), lengths=torch.tensor([6, 6, 6]))
    assert matches(model(histories), CASES["bert4rec"]["output"]) is None


def towers():
    tables = [EmbeddingBagConfig(50, 8, f"t_{name}", feature_names=[name]) for name in ("userId", "movieId")]
    return TwoTower(EmbeddingBagCollection(tables), [16, 8])


def pairs():
    return KeyedJaggedTensor(["userId", "movieId"], integers("tt_ids", (12,), 50), lengths=torch.ones(12).long())


def test_two_towers_give_the_recorded_vectors_and_loss():
    model = fill_(towers())
    query, candidate = model(pairs())
    expected = CASES["two_tower"]
    assert {key: list(value.shape) for key, value in model.state_dict().items()} == expected["state_dict"]
    assert matches(query, expected["query"]) is None
    assert matches(candidate, expected["candidate"]) is None
    batch = types.SimpleNamespace(sparse_features=pairs(), labels=integers("tt_lab", (6,), 2))
    task = TwoTowerTrainTask(model)
    losses = []
    for filled in (False, True):  # the record does not say by which names its parameters were filled
        loss, (_, logits, _) = (fill_(task) if filled else task)(batch)
        losses.append((float(loss.detach()), matches(logits, CASES["two_tower_train"]["logits"])))
    assert (pytest.approx(CASES["two_tower_train"]["loss"], rel=1e-4), None) in losses


def test_the_state_of_two_towers_becomes_that_of_retrieval():
    state = convert_TwoTower_to_TwoTowerRetrieval(TwoTowerTrainTask(towers()).state_dict(), ["t_userId"], ["t_movieId"])
    assert {key: list(value.shape) for key, value in state.items()} == CASES["two_tower_conversion_keys"]
