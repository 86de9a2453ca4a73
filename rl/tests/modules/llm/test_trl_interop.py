"""Reward models of transformers on tensordicts, and replay buffers as data sets."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
from flambeau.rl.modules.llm.trl_interop import HFRewardModelWrapper, TorchRLBufferDataset


@pytest.fixture(scope="module")
def classifier(tokenizer):
    from transformers import Qwen2Config, Qwen2ForSequenceClassification

    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_labels=1, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    return Qwen2ForSequenceClassification(config).eval()


@pytest.fixture
def batch():
    tokens = torch.tensor([[5, 6, 7], [8, 9, 0]])
    return TensorDict(tokens={"full": tokens}, masks={"all_attention_mask": tokens != 0}, batch_size=2)


def test_each_sequence_gets_one_reward(classifier, batch):
    expected = classifier(input_ids=batch["tokens", "full"], attention_mask=batch["masks", "all_attention_mask"]).logits
    assert torch.equal(HFRewardModelWrapper(classifier)(batch)["reward"], expected.squeeze(-1))


def test_rewards_have_gradients_unless_asked(classifier, batch):
    assert HFRewardModelWrapper(classifier)(batch.copy())["reward"].requires_grad
    assert not HFRewardModelWrapper(classifier, inference_mode=True)(batch.copy())["reward"].requires_grad


@pytest.mark.parametrize(
    ("output", "error"),
    [(SimpleNamespace(logits=torch.zeros(2, 3)), ValueError), (SimpleNamespace(scores=torch.zeros(2)), AttributeError)],
)
def test_outputs_of_another_kind_are_refused(batch, output, error):
    class Model(torch.nn.Module):
        def forward(self, **given):
            return output

    with pytest.raises(error):
        HFRewardModelWrapper(Model())(batch)


@pytest.fixture
def buffer(batch):
    made = ReplayBuffer(storage=LazyTensorStorage(4), batch_size=2)
    made.extend(batch)
    return made


def test_samples_come_one_by_one_under_names_with_points(buffer):
    found = list(TorchRLBufferDataset(buffer, 2, num_batches=3))
    assert len(found) == 6
    assert set(found[0]) == {"tokens.full", "masks.all_attention_mask"}
    assert found[0]["tokens.full"].shape == (3,)


def test_some_entries_are_chosen_and_a_stream_has_no_end(buffer):
    stream = TorchRLBufferDataset(buffer, 2, keys=[("tokens", "full")], num_batches=None)
    assert [list(sample) for sample in islice(stream, 5)] == [["tokens.full"]] * 5
    with pytest.raises(ValueError, match="num_batches"):
        TorchRLBufferDataset(buffer, 2, num_batches=0)


def test_hugging_face_reads_the_same_samples(buffer):
    pytest.importorskip("datasets", reason="needs datasets; the extra `llm` has it")
    found = list(TorchRLBufferDataset(buffer, 2).as_hf_dataset())
    assert len(found) == 2
    assert set(found[0]) == {"tokens.full", "masks.all_attention_mask"}
