"""A thread takes batches one ahead, hands errors on, and stops."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.distributed.train_pipeline.utils import DataLoadingThread

CPU = torch.device("cpu")


def started(batches) -> DataLoadingThread:
    thread = DataLoadingThread(CPU, iter(batches), to_device_non_blocking=False)
    thread.start()
    return thread


def test_batches_come_in_order_and_then_none():
    thread = started([torch.tensor([at]) for at in range(3)])
    assert [int(thread.get_next_batch()) for _ in range(3)] == [0, 1, 2]
    assert thread.get_next_batch() is None
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_an_error_of_the_iterator_is_raised_where_the_batch_is_asked_for():
    def broken():
        yield torch.tensor([0])
        raise ArithmeticError("the second batch")

    thread = started(broken())
    assert int(thread.get_next_batch()) == 0
    with pytest.raises(ArithmeticError, match="the second batch"):
        thread.get_next_batch()


def test_a_thread_whose_batches_nobody_takes_can_be_stopped():
    thread = started(torch.tensor([at]) for at in range(1000))
    thread.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
