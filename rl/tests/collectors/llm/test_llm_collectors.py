"""Collectors of dialogs: batches of turns, whole dialogs, last turns, versions of policies, buffers."""

from __future__ import annotations

import queue

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModuleBase
from flambeau.rl.collectors.llm import LLMCollector, RayLLMCollector, vLLMUpdater, vLLMUpdaterV2
from flambeau.rl.data import LazyStackStorage, ReplayBuffer
from flambeau.rl.data.llm import History
from flambeau.rl.envs.llm import DatasetChatEnv
from flambeau.rl.envs.llm.transforms import PolicyVersion
from flambeau.rl.envs.transforms import StepCounter


class Loader:
    """Questions by their numbers."""

    def __init__(self, number):
        self.batch_size = number

    def __iter__(self):
        at = 0
        while True:
            yield {"query": [f"question {at + row}" for row in range(self.batch_size)]}
            at += self.batch_size


class Talker(TensorDictModuleBase):
    """A policy that says how often it has been asked, and has a weight."""

    in_keys, out_keys = [("history", "prompt")], [("history", "full")]

    def __init__(self):
        super().__init__()
        self.model, self.turns = nn.Linear(1, 1), 0

    def forward(self, td):
        self.turns += 1
        chat, number = td["history"], td.batch_size[0]
        said = [[f"answer {self.turns}"]] * number
        response = History(role=[["assistant"]] * number, content=said, batch_size=(number, 1))
        chat.full, chat.response = chat.prompt.extend(response, dim=-1, inplace=False), response
        return td.set("history", chat)


def environment(number=2, turns=2):
    env = DatasetChatEnv.from_dataloader(Loader(number))
    return env.append_transform(StepCounter(max_steps=turns))


def test_batches_have_turns_of_all_environments():
    collector = LLMCollector(environment(), policy=Talker(), dialog_turns_per_batch=6, total_dialog_turns=12)
    batches = list(collector)
    assert [batch.batch_size for batch in batches] == [(2, 3), (2, 3)]
    assert batches[0]["next", "done"].squeeze(-1).tolist() == [[False, True, False]] * 2
    assert batches[0][0, 2]["query"] == "question 2"
    assert batches[0]["collector", "traj_ids"].tolist() == [[0, 0, 2], [1, 1, 3]]
    assert (collector.dialog_turns_per_batch, collector.total_dialog_turns) == (6, 12)
    assert collector.is_initialized() and collector.get_policy_model() is collector.policy.model
    collector.shutdown()
    assert not collector.is_initialized()


def test_batches_may_have_one_dimension():
    collector = LLMCollector(environment(), policy=Talker(), dialog_turns_per_batch=4, flatten_data=True)
    assert next(iter(collector)).batch_size == (4,)


def test_whole_dialogs_come_as_they_end():
    collector = LLMCollector(
        environment(turns=3), policy=Talker(), total_dialog_turns=12, yield_completed_trajectories=True
    )
    dialogs = list(collector)
    assert [dialog.batch_size for dialog in dialogs] == [(3,)] * 4
    assert [dialog[0]["query"] for dialog in dialogs] == [f"question {n}" for n in range(4)]
    numbers = [set(dialog["collector", "traj_ids"].tolist()) for dialog in dialogs]
    assert all(len(each) == 1 for each in numbers) and len(set.union(*numbers)) == 4
    contents = dialogs[0][-1]["next", "history"].prompt.content
    assert contents == ["question 0", "answer 1", "answer 2", "answer 3"]


def test_last_turns_alone_may_be_given_and_all_are_counted():
    collector = LLMCollector(environment(1, turns=3), policy=Talker(), total_dialog_turns=6, yield_only_last_steps=True)
    dialogs = list(collector)
    assert [dialog.batch_size for dialog in dialogs] == [(1,)] * 2
    assert all(dialog["next", "done"].all() for dialog in dialogs)


def test_turns_go_to_a_replay_buffer_or_to_a_queue():
    buffer = ReplayBuffer(storage=LazyStackStorage(20), batch_size=2)
    collector = LLMCollector(
        environment(), policy=Talker(), dialog_turns_per_batch=4, total_dialog_turns=8, replay_buffer=buffer
    )
    assert list(collector) == [None, None] and len(buffer) == 8
    waiting = queue.Queue()
    collector = LLMCollector(
        environment(), policy=Talker(), dialog_turns_per_batch=4, total_dialog_turns=8, queue=waiting
    )
    list(collector)
    assert waiting.qsize() == 2


def test_a_function_may_change_batches():
    collector = LLMCollector(environment(), policy=Talker(), dialog_turns_per_batch=2)
    collector.set_postproc(lambda batch: batch.set("seen", torch.ones(batch.batch_size)))
    assert next(iter(collector))["seen"].all()
    with pytest.raises(RuntimeError, match="postproc"):
        collector.set_postproc(lambda batch: batch)


@pytest.mark.parametrize("tracked", [True, PolicyVersion("uuid")], ids=["counted", "identified"])
def test_versions_change_with_the_weights(tracked):
    collector = LLMCollector(environment(), policy=Talker(), dialog_turns_per_batch=2, track_policy_version=tracked)
    batches = iter(collector)
    first = next(batches)
    before = collector.policy_version
    weights = TensorDict.from_module(collector.policy).data.clone().zero_()
    collector.update_policy_weights_(weights)
    assert collector.get_policy_version() != before
    assert not collector.policy.model.weight.any()
    next(batches)  # its first states were given before
    last = next(batches)
    seen = [batch["policy_version"] for batch in (first, last)]
    values = [each.flatten().tolist() if isinstance(each, torch.Tensor) else each for each in seen]
    assert values[0] != values[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "dialog_turns_per_batch"),
        ({"yield_only_last_steps": True, "yield_completed_trajectories": False}, "whole dialogs"),
        ({"dialog_turns_per_batch": 2, "async_envs": True}, "AsyncEnvPool"),
        ({"dialog_turns_per_batch": 2, "queue": queue.Queue(), "replay_buffer": ReplayBuffer()}, "not to both"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LLMCollector(environment(), policy=Talker(), **options)


class Engine:
    """A double of an engine of vLLM, with the methods by which it takes weights: vLLM needs a graphics card."""

    def __init__(self, model):
        self.model, self.joined, self.taken = model, 0, {}

    def get_tp_size(self):
        return 2

    def get_model_metadata(self):
        return {name: (value.dtype, value.shape) for name, value in self.model.state_dict().items()}

    def init_weight_update_group(self):
        self.joined += 1

    def update_weights(self, weights):
        self.taken.update({name: value.clone() for name, value in weights})


def test_weights_go_to_an_engine_that_takes_them():
    policy = Talker()
    engine = Engine(policy.model)
    updater = vLLMUpdater(engine, v2=True)
    assert isinstance(updater, vLLMUpdaterV2) and updater.get_tp_size() == 2
    with pytest.raises(RuntimeError, match="init"):
        updater.push_weights(policy)
    updater.init(updater.get_model_metadata(policy))
    updater.init()
    collector = LLMCollector(
        environment(), policy=policy, dialog_turns_per_batch=2, weight_updater=updater, track_policy_version=True
    )
    updater.push_weights_from_transformers_optimized(policy, batch_size=1)
    assert engine.joined == 1 and torch.equal(engine.taken["weight"], policy.model.weight)
    assert collector.policy_version == 1
    with pytest.raises(ValueError, match="other"):
        vLLMUpdaterV2(engine).init({"other": (torch.float32, torch.Size([1]))})
    with pytest.raises(TypeError, match="update_weights"):
        vLLMUpdaterV2(object())


def test_an_updater_without_vllm_or_a_collector_says_so():
    updater = vLLMUpdater(model_metadata={})
    assert updater.master_address == "localhost" and updater.master_port == updater.master_port > 0
    with pytest.raises(RuntimeError, match="collector"):
        updater.push_weights(Talker())


@pytest.mark.slow
def test_dialogs_are_collected_in_an_actor():
    ray = pytest.importorskip("ray", reason="needs Ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    try:
        collector = RayLLMCollector(
            environment, policy_factory=Talker, dialog_turns_per_batch=4, total_dialog_turns=8, sync_iter=False,
            track_policy_version=True,
        )  # fmt: skip
        assert collector.is_initialized() and collector.dialog_turns_per_batch == 4
        collector.update_policy_weights_(TensorDict.from_module(Talker()).data)
        assert collector.policy_version == 1
        assert [batch.batch_size for batch in collector] == [(2, 2), (2, 2)]
        collector.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            collector.next()
    finally:
        ray.shutdown()
