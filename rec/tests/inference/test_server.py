"""Requests of many threads are answered in batches, each with its own."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from flambeau.rec.errors import OptionError
from flambeau.rec.inference.requests import combine, split
from flambeau.rec.inference.server import (
    BatchingPredictor,
    PredictionRequest,
    PredictorClosed,
    QueueFull,
    SparseFeatures,
)
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

KINDS = {"x": "dense", "ids": "sparse"}


def request(batch, seed, *, features=2):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 3, (features * batch,), generator=generator)
    values = torch.randint(0, 100, (int(lengths.sum()),), generator=generator)
    dense = torch.randn(batch, 3, generator=generator)
    return PredictionRequest(batch, {"x": dense}, {"ids": SparseFeatures(features, lengths, values)})


def model(batch):
    """Sums of the ids of each feature, and of the dense numbers."""
    keyed = KeyedJaggedTensor(["a", "b"], batch["ids.values"].float(), lengths=batch["ids.lengths"])
    sums = [torch.stack([row.sum() for row in keyed[name].to_dense()]) for name in ("a", "b")]
    return {"ids": torch.stack(sums, 1), "dense": batch["x"].sum(1)}


def test_requests_become_one_batch_feature_by_feature():
    one, two = request(2, 0), request(3, 1)
    together = combine([one, two])
    keyed = KeyedJaggedTensor(["a", "b"], together["ids.values"], lengths=together["ids.lengths"])
    for at, name in enumerate(("a", "b")):
        expected = []
        for part in (one, two):
            features = part.sparse["ids"]
            alone = KeyedJaggedTensor(["a", "b"], features.values, lengths=features.lengths)
            expected += [row.tolist() for row in alone[("a", "b")[at]].to_dense()]
        assert [row.tolist() for row in keyed[name].to_dense()] == expected
    torch.testing.assert_close(together["x"], torch.cat([one.dense["x"], two.dense["x"]]))


def test_weights_move_with_their_ids():
    parts = [
        PredictionRequest(
            1, sparse={"ids": SparseFeatures(2, torch.tensor([1, 2]), torch.tensor(ids), torch.tensor(ids) / 10)}
        )
        for ids in ([1, 2, 3], [4, 5, 6])
    ]
    together = combine(parts)
    assert together["ids.values"].tolist() == [1, 4, 2, 3, 5, 6]
    torch.testing.assert_close(together["ids.weights"], together["ids.values"] / 10)


def test_each_caller_gets_the_answer_to_its_own_request():
    requests = [request(1 + at % 4, at) for at in range(40)]
    expected = [model(combine([one])) for one in requests]
    answers: list = [None] * len(requests)
    with BatchingPredictor(model, KINDS, max_batch_size=16, max_delay_s=0.05) as predictor:

        def ask(at):
            answers[at] = predictor.predict(requests[at])

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = predictor.statistics
    for answer, wanted in zip(answers, expected, strict=True):
        torch.testing.assert_close(answer, wanted)
    assert done.requests == 40 and done.examples == sum(one.batch_size for one in requests)
    assert done.batches < 40 and done.failures == 0 and done.waiting == 0


def test_a_batch_has_at_most_the_size_that_was_asked_for():
    sizes = []

    def measured(batch):
        sizes.append(len(batch["x"]))
        return model(batch)

    with BatchingPredictor(measured, KINDS, max_batch_size=8, max_delay_s=0.2) as predictor:
        answers = [predictor.submit(request(3, at)) for at in range(9)]
        [answer.result(30) for answer in answers]
    assert max(sizes) <= 8 and sum(sizes) == 27


def test_a_request_larger_than_a_batch_makes_one_of_its_own():
    with BatchingPredictor(model, KINDS, max_batch_size=2, max_delay_s=0) as predictor:
        assert predictor.predict(request(5, 0))["dense"].shape == (5,)


def test_one_bad_request_spoils_nobody_elses_batch():
    def fragile(batch):
        if (batch["ids.values"] == 666).any():
            raise LookupError("no such id")
        return model(batch)

    bad = PredictionRequest(
        1, {"x": torch.zeros(1, 3)}, {"ids": SparseFeatures(2, torch.tensor([1, 0]), torch.tensor([666]))}
    )
    with BatchingPredictor(fragile, KINDS, max_batch_size=64, max_delay_s=0.1) as predictor:
        answers = [predictor.submit(one) for one in (request(2, 0), bad, request(1, 1))]
        with pytest.raises(LookupError, match="no such id"):
            answers[1].result(30)
        torch.testing.assert_close(answers[0].result(30), model(combine([request(2, 0)])))
        torch.testing.assert_close(answers[2].result(30), model(combine([request(1, 1)])))
        assert predictor.statistics.failures == 1


def test_a_full_queue_refuses_and_a_closed_predictor_too():
    go = threading.Event()

    def slow(batch):
        go.wait(30)
        return model(batch)

    predictor = BatchingPredictor(slow, KINDS, max_batch_size=1, max_delay_s=0, max_waiting=1)
    first = predictor.submit(request(1, 0))
    while predictor.statistics.waiting:
        time.sleep(0.001)
    second = predictor.submit(request(1, 1))
    with pytest.raises(QueueFull, match="max_waiting is 1"):
        predictor.submit(request(1, 2))
    go.set()
    predictor.close()
    assert first.done() and second.done()
    with pytest.raises(PredictorClosed):
        predictor.submit(request(1, 3))


def test_waiting_ends_when_the_caller_says_so():
    go = threading.Event()
    with BatchingPredictor(lambda batch: go.wait(30) and model(batch), KINDS, max_delay_s=0) as predictor:
        with pytest.raises(TimeoutError):
            predictor.predict(request(1, 0), timeout_s=0.01)
        go.set()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (PredictionRequest(0), "batch_size is 0"),
        (PredictionRequest(1, {"x": torch.zeros(1, 3)}), r"missing: \['ids'\], unknown: \[\]"),
        (
            PredictionRequest(2, {"x": torch.zeros(1, 3)}, {"ids": request(2, 0).sparse["ids"]}),
            r"'x' has shape \(1, 3\), expected \(2, \.\.\.\)",
        ),
        (
            PredictionRequest(3, {"x": torch.zeros(3, 3)}, {"ids": request(2, 0).sparse["ids"]}),
            "'ids' has 4 lengths, expected 2 features times 3 examples",
        ),
        (
            PredictionRequest(
                1, {"x": torch.zeros(1, 3)}, {"ids": SparseFeatures(2, torch.tensor([1, 1]), torch.tensor([1]))}
            ),
            "'ids' has 1 values, its lengths add up to 2",
        ),
        (
            PredictionRequest(
                1,
                {"x": torch.zeros(1, 3)},
                {"ids": SparseFeatures(2, torch.tensor([0, 1]), torch.tensor([1]), torch.ones(1))},
            ),
            "brings weights only where it is weighted",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_refused_at_once(changed, message):
    with BatchingPredictor(model, KINDS) as predictor, pytest.raises(OptionError, match=message):
        predictor.submit(changed)


def test_predictions_that_are_not_one_for_each_example_are_a_fault():
    with pytest.raises(OptionError, match=r"the model's 'p' has shape \(2,\), expected \(3, \.\.\.\)"):
        split({"p": torch.zeros(2)}, [1, 2])


@pytest.mark.parametrize("option", [{"max_batch_size": 0}, {"max_delay_s": -1}, {"workers": 0}, {"max_waiting": 0}])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        BatchingPredictor(model, KINDS, **option)
