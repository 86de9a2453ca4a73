"""Conversations: how they begin, go on and begin anew, as histories, texts and tokens; prompts from data loaders."""

from __future__ import annotations

import pytest
import torch
from conversing import Loader, after, environment, said

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.envs.llm import AddThinkingPrompt, ChatEnv, DatasetChatEnv, GSM8KRewardParser, LLMEnv, LLMHashingEnv
from flambeau.rl.envs.llm.transforms import (
    DataLoadingPrimer,
    IncrementalTokenizer,
    PolicyVersion,
    TemplateTransform,
    as_nested_tensor,
    as_padded_tensor,
)
from flambeau.rl.modules.llm.policies import Text, Tokens


def test_a_conversation_begins_with_the_system_and_goes_on():
    env = ChatEnv(batch_size=(2,), system_prompt="Be brief.")
    td = env.reset(TensorDict({"query": ["one", "two"]}, [2]))
    assert td["history"].prompt.role == [["system", "user"]] * 2
    step = env.step(said(td, ["a", "b"]))
    assert step["next", "history"].prompt.content == [["Be brief.", "one", "a"], ["Be brief.", "two", "b"]]
    assert step["history"].prompt.content == [["Be brief.", "one"], ["Be brief.", "two"]]
    assert not step["next", "done"].any()


@pytest.mark.parametrize(
    "given",
    [
        History.from_chats([[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]]),
        [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]],
    ],
    ids=["history", "messages"],
)
def test_a_conversation_may_begin_in_the_middle(given):
    env = ChatEnv(system_prompt="S")
    chat = env._conversations(given, env.batch_size)
    assert chat.role == [["system", "user", "assistant"]]


def test_what_is_no_beginning_is_refused():
    env = ChatEnv()
    with pytest.raises(RuntimeError, match="query"):
        env.reset()
    with pytest.raises(TypeError, match="History"):
        env._conversations([3], env.batch_size)
    with pytest.raises(ValueError, match="input_mode"):
        ChatEnv(input_mode="speech")
    with pytest.raises(ValueError, match="tokenizer"):
        ChatEnv(with_tokenizer=True)


def test_prompts_may_be_texts(tokenizer):
    env = ChatEnv(input_mode="text", batch_size=(1,), tokenizer=tokenizer)
    td = env.reset(TensorDict({"query": ["hello"]}, [1]))
    prompt = td["text"].prompt[0]
    assert "hello" in prompt and prompt.endswith("assistant\n")
    text = Text(prompt=[prompt], response=["hi"], full=[f"{prompt}hi"], batch_size=(1,))
    assert env.step(td.set("text", text))["next", "text"].prompt == [f"{prompt}hi"]


def test_prompts_may_be_tokens_of_different_lengths(tokenizer):
    env = ChatEnv(input_mode="tokens", batch_size=(2,), tokenizer=tokenizer)
    td = env.reset(TensorDict({"query": ["hello", "hello hello hello"]}, [2]))
    first, second = (row["tokens"].prompt for row in td.unbind(0))
    assert first.dtype == torch.int64 and len(first) < len(second)
    whole = [torch.cat([row, torch.tensor([5])]) for row in (first, second)]
    td.set("tokens", lazy_stack([Tokens(full=row, padded=False, batch_size=()) for row in whole]))
    following = env.step(td)["next"]
    assert [len(row["tokens"].prompt) for row in following.unbind(0)] == [len(first) + 1, len(second) + 1]


def test_tokens_beside_conversations_are_those_that_the_policy_wrote(tokenizer):
    env = ChatEnv.with_tokenizer(tokenizer, batch_size=(2,))
    assert isinstance(env.transform, IncrementalTokenizer)
    td = env.reset(TensorDict({"query": ["hello", "hello hello"]}, [2]))
    begun = [row["tokens", "prompt"] for row in td.unbind(0)]
    text = tokenizer.decode(begun[0])
    assert "hello" in text and len(begun[0]) < len(begun[1])
    td = said(td, ["a", "b"])
    whole = [torch.cat([row, torch.tensor([3, 4])]) for row in begun]
    td.set("tokens", lazy_stack([Tokens(full=row, padded=False, batch_size=()) for row in whole]))
    step = env.step(td)["next"]
    for row, full in zip(step.unbind(0), whole, strict=True):
        assert torch.equal(row["tokens", "prompt"], full)


def test_tokens_are_made_anew_where_the_policy_wrote_none(tokenizer):
    env = ChatEnv.with_tokenizer(tokenizer, batch_size=(1,))
    td = env.reset(TensorDict({"query": ["hello"]}, [1]))
    step = env.step(said(td, ["hello again"]))["next"]
    assert "hello again" in tokenizer.decode(step[0]["tokens", "prompt"])


def test_conversations_are_written_as_texts_and_read(tokenizer):
    transform = TemplateTransform(tokenizer=tokenizer)
    history = History.from_chats([[{"role": "user", "content": "q"}]])
    written = transform(TensorDict({}, [1]).set("history", history))["text"]
    assert "q" in written[0]
    assert transform._inv_apply_transform(written).content[0][-1] == "q"


# Beginnings from loaders


class Counted:
    """Batches of questions, of which there are so many."""

    def __init__(self, batches, size):
        self.batches, self.batch_size = batches, size

    def __iter__(self):
        for batch in range(self.batches):
            yield {
                "query": [f"{batch}-{row}" for row in range(self.batch_size)],
                "number": torch.full((self.batch_size,), batch),
            }


def queries(env, times):
    return [list(env.reset()["query"]) for _ in range(times)]


def test_each_episode_begins_with_the_next_item_and_the_loader_begins_anew():
    env = ChatEnv(batch_size=(2,)).append_transform(DataLoadingPrimer(Counted(2, 2)))
    assert queries(env, 3) == [["0-0", "0-1"], ["1-0", "1-1"], ["0-0", "0-1"]]
    env.transform.reset_dataloader()
    assert queries(env, 1) == [["0-0", "0-1"]]


def test_items_are_repeated_one_after_the_other_or_in_one_batch():
    env = ChatEnv(batch_size=(2,)).append_transform(DataLoadingPrimer(Counted(2, 2), repeats=2))
    assert queries(env, 2) == [["0-0", "0-0"], ["0-1", "0-1"]]
    env = DatasetChatEnv.from_dataloader(Counted(2, 2), repeats=2, group_repeats=True)
    assert env.batch_size == (4,) and queries(env, 1) == [["0-0", "0-0", "0-1", "0-1"]]


def test_episodes_that_go_on_keep_their_item():
    env = ChatEnv(batch_size=(2,)).append_transform(DataLoadingPrimer(Counted(3, 2)))
    td = env.reset()
    again = env.reset(td.set("_reset", torch.tensor([[False], [True]])))
    assert list(again["query"]) == ["0-0", "1-0"]
    assert again["number"].tolist() == [0, 1]
    assert again["history"].prompt.content == [["0-0"], ["1-0"]]


def test_conversations_of_different_lengths_begin_anew_one_by_one():
    env = environment(query=["a", "b"])
    td = env.step_mdp(env.step(said(env.reset(), ["x", "y"])))
    again = env.reset(td.set("_reset", torch.tensor([[True], [False]])))
    assert again["history"].prompt.content == [["Be brief.", "a"], ["Be brief.", "b", "y"]]


def test_a_loader_is_given_once_and_gives_something():
    with pytest.raises(ValueError, match="not both"):
        DataLoadingPrimer()
    with pytest.raises(RuntimeError, match="nothing"):
        DataLoadingPrimer([])
    with pytest.raises(TypeError, match="dictionaries"):
        DataLoadingPrimer(["text"])


def test_tensors_of_different_lengths_are_padded_or_nested():
    rows = [TensorDict({"a": torch.arange(size), "b": torch.ones(2)}) for size in (2, 3)]
    assert as_padded_tensor(rows)["a"].tolist() == [[0, 1, 0], [0, 1, 2]]
    assert [each.tolist() for each in as_nested_tensor(rows)["a"].unbind()] == [[0, 1], [0, 1, 2]]


# Thinking again, versions


@pytest.mark.parametrize(
    ("options", "content", "reward", "done"),
    [
        ({}, ["<think>hm</think>Again."], 0.0, False),
        ({"edit_last_turn": False}, ["<think>hm</think><answer>71</answer>", "Again."], 0.1, False),
        ({"role": "user", "edit_last_turn": False, "zero_reward": True},
         ["<think>hm</think><answer>71</answer>", "Again."], 0.0, False),
        ({"undo_done": False}, ["<think>hm</think>Again."], 0.0, True),
    ],
)  # fmt: skip
def test_a_model_is_asked_to_think_again_where_it_is_wrong(options, content, reward, done):
    transform = AddThinkingPrompt(lambda td: td["reward"] < 0.5, prompt="Again.", **options)
    env = environment(GSM8KRewardParser(), transform, query=["q"] * 2, answer=["#### 72"] * 2)
    found = after(env, ["<think>hm</think><answer>71</answer>", "<answer>72</answer>"])
    assert found[0]["history"].prompt.content[2:] == content
    assert found[1]["history"].prompt.content[2:] == ["<answer>72</answer>"]
    assert found["reward"].flatten().tolist() == pytest.approx([reward, 1])
    assert found["done"].flatten().tolist() == [done, True]


def test_who_asks_has_prompts_that_fit():
    assert AddThinkingPrompt(bool).prompt == AddThinkingPrompt.DEFAULT_PROMPTS_EG[0]
    asking = AddThinkingPrompt(bool, role="user", edit_last_turn=False, random_prompt=True)
    assert asking.prompt in AddThinkingPrompt.DEFAULT_PROMPTS_COG
    with pytest.raises(ValueError, match="edit_last_turn"):
        AddThinkingPrompt(bool, role="user")


def test_versions_are_counted_or_identified():
    version = PolicyVersion()
    env = environment(version, query=["q"])
    assert env.reset()["policy_version"].tolist() == [0]
    version.increment_version()
    assert after(env, ["a"])["policy_version"].tolist() == [1]
    assert [(change.old_version, change.new_version) for change in version.version_history] == [(None, 0), (0, 1)]
    named = PolicyVersion("uuid")
    first = named.version
    named.increment_version()
    assert isinstance(first, str) and named.version != first
    with pytest.raises(ValueError, match="version_type"):
        PolicyVersion(float)


# Texts and tokens without conversations


def test_texts_and_tokens_grow_by_what_is_said():
    env = LLMEnv.from_dataloader(Loader({"text": ["one", "two"]}))
    td = env.reset()
    step = env.step(td.set("text_response", ["!", "?"]))
    assert list(step["next", "text"]) == ["one!", "two?"]
    env = LLMEnv(from_text=False, batch_size=[1], assign_reward=True, assign_done=True, eos_token_id=9)
    td = env.reset(TensorDict({"tokens": torch.tensor([[1, 2]])}, [1]))
    following = env.step(td.set("tokens_response", torch.tensor([[3, 9]])))["next"]
    assert following["tokens"].tolist() == [[1, 2, 3, 9]]
    assert following["attention_mask"].tolist() == [[1, 1, 1, 1]]
    assert following["done"].all() and following["reward"].tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="from_text"):
        LLMEnv(eos_token_id=1)


def test_chains_of_tokens_are_known_by_their_hashes():
    env = LLMHashingEnv(vocab_size=10, text_output=False)
    td = env.reset(TensorDict({"observation": torch.tensor([[1, 2], [1, 3]])}, [2]))
    assert td["hashing"].shape == (2, 1) and td["hashing"][0] != td["hashing"][1]
    step = env.step(td.set("action", torch.tensor([[3], [2]])))["next"]
    assert step["observation"].tolist() == [[1, 2, 3], [1, 3, 2]]
    assert step["hashing"][0] == env.reset(TensorDict({"observation": torch.tensor([1, 2, 3])}))["hashing"]
    with pytest.raises(ValueError, match="vocab_size"):
        LLMHashingEnv()


def test_chains_of_tokens_have_texts(tokenizer):
    env = LLMHashingEnv(tokenizer=tokenizer)
    td = env.reset(env.make_tensordict(["hello"]))
    assert "hello" in td["text"][0]
    assert env.rollout(2, tensordict=td, auto_reset=False)["next", "hashing"].shape == (1, 2, 1)


@pytest.mark.slow
def test_environments_share_a_loader_in_an_actor():
    ray = pytest.importorskip("ray", reason="needs Ray")
    from flambeau.rl.envs.llm.transforms import RayDataLoadingPrimer

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    try:
        # Of classes that the actor can import.
        items = [{"query": f"{batch}-{row}", "number": batch} for batch in range(4) for row in range(2)]
        loader = torch.utils.data.DataLoader(items, batch_size=2)
        options = {"dataloader": loader, "use_ray_service": True, "actor_name": "questions"}
        primers = [DataLoadingPrimer(**options) for _ in range(2)]
        assert all(isinstance(primer, RayDataLoadingPrimer) for primer in primers)
        assert primers[0].primers.shape == (2,) and set(primers[0].data_keys) == {"query", "number"}
        first, second = (ChatEnv(batch_size=(2,)).append_transform(primer) for primer in primers)
        asked = [list(env.reset()["query"]) for env in (first, second, first)]
        assert asked == [["0-0", "0-1"], ["1-0", "1-1"], ["2-0", "2-1"]]
    finally:
        ray.shutdown()
