"""Prompts, pairs and rewards: tokenized once, chosen, and rolled out."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data import LazyStackStorage, ReplayBuffer
from flambeau.rl.data.llm import (
    AdaptiveKLController,
    ConstantKLController,
    PairwiseDataset,
    PromptData,
    PromptTensorDictTokenizer,
    RewardData,
    RolloutFromModel,
    TensorDictTokenizer,
    TokenizedDatasetLoader,
    TopKRewardSelector,
    create_infinite_iterator,
    get_dataloader,
)
from flambeau.rl.data.llm.reward import pre_tokenization_hook

PAIRS = {
    "prompt": ["Is this short?", "And this?", "Are these equal?"],
    "chosen": ["yes it is a short text", "no it is not so very long", "one two three four five"],
    "rejected": ["no it is a long text", "yes", "one two three four five"],
    "label": [" it is", " it is not", " they are"],
}


def test_texts_are_encoded_to_one_length(tokenizer):
    found = TensorDictTokenizer(tokenizer, 6)({"text": ["Hi", "a much longer text"]})
    assert found.batch_size == (2,)
    assert found["input_ids"].shape == (2, 6)
    assert TensorDictTokenizer(tokenizer, 6)({"text": "Hi"}).batch_size == ()
    assert isinstance(TensorDictTokenizer(tokenizer, 6, return_tensordict=False)({"text": ["Hi"]})["input_ids"], list)


def test_prompts_tell_where_they_end(tokenizer):
    found = PromptTensorDictTokenizer(tokenizer, 12)({"prompt": ["ab", "a long prompt"], "label": ["!?", "no"]})
    end = found["prompt_rindex"][0]
    assert tokenizer.decode(found["input_ids"][0, : end + 1]) == "ab"
    assert found["valid_sample"].tolist() == [True, False]


def test_masking_the_label_leaves_the_prompt():
    data = PromptData(
        input_ids=torch.tensor([[1, 2, 3, 4]]),
        attention_mask=torch.ones(1, 4),
        prompt_rindex=torch.tensor([2]),
        batch_size=[1],
    )
    masked = data.mask_label(pad_token_id=0)
    assert masked.input_ids.tolist() == [[1, 2, 0, 0]]
    assert masked.attention_mask.tolist() == [[1, 1, 0, 0]]


class TestStoredText:
    """With a data set of the library `datasets` in a folder."""

    @pytest.fixture
    def folder(self, tmp_path):
        datasets = pytest.importorskip("datasets", reason="needs datasets; the extra `llm` has it")
        datasets.DatasetDict({"train": datasets.Dataset.from_dict(PAIRS)}).save_to_disk(str(tmp_path / "pairs"))
        return tmp_path / "pairs"

    def options(self, folder, tokenizer):
        return {"from_disk": True, "root_dir": folder.parent / "kept", "num_workers": 1, "tokenizer_class": tokenizer}

    def test_pairs_that_do_not_differ_or_are_short_are_left_out(self, folder, tokenizer):
        pairs = PairwiseDataset.from_dataset("train", str(folder), max_length=16, **self.options(folder, tokenizer))
        assert pairs.batch_size == (1,)
        assert tokenizer.decode(pairs.chosen_data.input_ids[0]).startswith("Is this short?")

    def test_tokens_are_made_once_and_kept(self, folder, tokenizer):
        def refuse(dataset):
            raise AssertionError("it was read again")

        options = {"split": "train", "max_length": 16, "dataset_name": str(folder), **self.options(folder, tokenizer)}
        first = TokenizedDatasetLoader(
            **options, tokenizer_fn=TensorDictTokenizer, pre_tokenization_hook=pre_tokenization_hook
        )
        made = first.load()
        again = TokenizedDatasetLoader(**options, tokenizer_fn=TensorDictTokenizer, pre_tokenization_hook=refuse).load()
        assert (made == again).all()
        (first.data_dir / "complete").unlink()  # as a killed call leaves it
        with pytest.raises(AssertionError, match="again"):
            TokenizedDatasetLoader(**options, tokenizer_fn=TensorDictTokenizer, pre_tokenization_hook=refuse).load()

    def test_prompts_come_in_batches(self, folder, tokenizer):
        class Prompts(PromptData):
            @classmethod
            def from_dataset(cls, *args, **kwargs):
                return PromptData.from_dataset(*args, **kwargs, tokenizer_class=tokenizer)

        options = self.options(folder, tokenizer)
        options.pop("tokenizer_class")
        batches = get_dataloader(2, 24, Prompts, "cpu", str(folder), **options)
        first, *_ = islice(batches, 3)
        assert isinstance(first, PromptData)
        assert first.input_ids.shape == (2, 24)


def test_an_iterator_begins_again():
    assert list(islice(create_infinite_iterator([1, 2]), 5)) == [1, 2, 1, 2, 1]
    assert list(create_infinite_iterator([])) == []


def answer(prompt, reward):
    following = TensorDict(reward=torch.full((2, 1), reward), done=torch.ones(1, 1, dtype=torch.bool))
    return TensorDict({"next": following, ("text", "prompt"): prompt})


def test_the_best_answers_to_each_prompt_are_kept():
    buffer = ReplayBuffer(storage=LazyStackStorage(9), batch_size=2, transform=TopKRewardSelector(3, 2, verbose=False))
    buffer.extend(lazy_stack([answer("a", 1.0), answer("b", 9.0), answer("a", 3.0)]))
    assert len(buffer) == 0
    buffer.extend(lazy_stack([answer("a", 2.0)]))
    assert buffer[:]["next", "reward"][:, 0].flatten().tolist() == [3.0, 2.0]


def test_answers_without_an_end_are_refused():
    unfinished = answer("a", 1.0)
    unfinished["next", "done"] = torch.zeros(1, 1, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="does not end"):
        TopKRewardSelector(2, 1).inv(unfinished)
    with pytest.raises(ValueError, match="topk_size"):
        TopKRewardSelector(2, 3)


@pytest.mark.parametrize(
    ("values", "factor"), [([6.0], 1.0), ([60.0], 1.02), ([0.0, 0.0], 0.96), ([6.6], 1.01), ([], 1.0)]
)
def test_the_coefficient_follows_the_divergence(values, factor):
    controller = AdaptiveKLController(init_kl_coef=0.5, target=6.0, horizon=10)
    assert controller.update(values) == pytest.approx(0.5 * factor)


def test_controllers_write_to_their_model():
    class Model:
        kl_coef = 0.3

    model = Model()
    assert ConstantKLController(model=model).update() == 0.3
    AdaptiveKLController(init_kl_coef=0.1, target=1.0, horizon=1, model=model).update([2.0])
    assert model.kl_coef == pytest.approx(0.12)
    with pytest.raises(AttributeError, match="kl_coef"):
        ConstantKLController(model=object())


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    from flambeau.rl.modules.models import GPT2RewardModel

    config = {
        "vocab_size": 40,
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 32,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    folder = tmp_path_factory.mktemp("gpt2")
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**config, bos_token_id=1)).save_pretrained(folder)
    return GPT2RewardModel(folder).eval()


def test_the_end_score_is_that_of_the_last_token(reward_model):
    tokens = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 8, 9, 3]])
    rewards, ends = reward_model(tokens, (tokens != 0).long())
    assert rewards.shape == (2, 5, 1)
    assert torch.equal(ends, torch.stack([rewards[0, 2, 0], rewards[1, 4, 0]]))


def test_pairs_are_compared_from_where_they_part(reward_model):
    chosen, rejected = (
        torch.tensor([[5, 6, 7, 0, 0], [5, 6, 8, 9, 3]]),
        torch.tensor([[5, 6, 7, 0, 0], [5, 6, 8, 4, 0]]),
    )
    batches = []
    for tokens in (chosen, rejected):
        rewards, ends = reward_model(tokens, (tokens != 0).long())
        batches.append(RewardData(tokens, (tokens != 0).long(), rewards, ends, batch_size=[2]))
    expected = -torch.nn.functional.logsigmoid(batches[0].rewards[1, 3:] - batches[1].rewards[1, 3:]).mean()
    torch.testing.assert_close(reward_model.compute_reward_loss(*batches), expected)
    torch.testing.assert_close(type(reward_model).compute_reward_loss(*batches, pad_token_id=0), expected)
    with pytest.raises(ValueError, match="all equal"):
        reward_model.compute_reward_loss(batches[0], batches[0])


def test_a_reward_model_is_saved_whole(reward_model, tmp_path):
    reward_model.save_pretrained(tmp_path)
    back = type(reward_model).from_pretrained(tmp_path).eval()
    tokens = torch.tensor([[5, 6, 7]])
    assert torch.equal(back(tokens, torch.ones_like(tokens))[0], reward_model(tokens, torch.ones_like(tokens))[0])
    assert back.pad_id == 0


@pytest.fixture
def rollouts(reward_model):
    import transformers

    torch.manual_seed(0)
    models = [transformers.GPT2LMHeadModel(reward_model.config).eval() for _ in range(2)]
    return RolloutFromModel(*models, reward_model, kl_coef=0.2, max_new_tokens=4)


PROMPTS = PromptData(
    input_ids=torch.tensor([[5, 6, 7, 0, 0], [9, 9, 4, 4, 4]]), attention_mask=torch.ones(2, 5),
    prompt_rindex=torch.tensor([1, 3]), batch_size=[2],
)  # fmt: skip


def test_each_token_of_an_answer_is_a_step(rollouts):
    made = rollouts.rollout_from_data(PROMPTS)
    assert made.batch_size == (2, 4)
    assert made["input_ids"].shape == (2, 4, 9)
    for row, size in zip(made.unbind(0), (2, 4), strict=True):
        assert row["attention_mask"].sum(-1).tolist() == [size, size + 1, size + 2, size + 3]
        assert torch.equal(row["input_ids"][1:], row["next", "input_ids"][:-1])
        assert row["next", "input_ids"][0, size] == row["action"][0]
    torch.testing.assert_close(made["next", "reward"], made["next", "reward_raw"] + made["next", "reward_kl"])
    assert made["next", "done"][:, -1].all()


def test_log_probs_of_a_rollout_are_the_models(rollouts):
    made = rollouts.rollout_from_data(PROMPTS)
    tokens = made["next", "input_ids"][1, -1, :8]
    logits = rollouts.model(input_ids=tokens[None]).logits[0].log_softmax(-1)
    expected = logits[3:7].gather(-1, tokens[4:8, None])
    torch.testing.assert_close(made["sample_log_prob"][1], expected, rtol=1e-4, atol=1e-4)


def test_the_scheduler_sees_the_divergences_since_its_last_step(rollouts):
    rollouts.kl_scheduler = AdaptiveKLController(init_kl_coef=0.2, target=1e-6, horizon=10, model=rollouts)
    rollouts.create_rollout_td(PROMPTS, *rollouts.generate(PROMPTS)[:2], torch.full((2, 4), 0.5))
    rollouts.step_scheduler()
    assert rollouts.kl_coef == pytest.approx(0.2 * 1.02)
    rollouts.step_scheduler()
    assert rollouts.kl_coef == pytest.approx(0.2 * 1.02)
