"""Chunks and tokens of actions, macro actions, texts as tokens, images through networks that were trained elsewhere."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from counting_env import Counting
from observing_env import Observing

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict
from flambeau.rl.data import LazyTensorStorage, TensorDictReplayBuffer
from flambeau.rl.data.vla import ActionTokenizerBase, UniformActionTokenizer
from flambeau.rl.envs import PendulumEnv, check_env_specs
from flambeau.rl.envs.transforms import (
    ActionChunkTransform,
    ActionTokenizerTransform,
    MacroPrimitiveTransform,
    R3MTransform,
    TargetMacroAction,
    Tokenizer,
    TransformedEnv,
    VC1Transform,
    VIPRewardTransform,
    VIPTransform,
)


def trajectory(*ends: int, length: int = 5) -> TensorDict:
    done = torch.zeros(1, length, 1, dtype=torch.bool)
    done[:, list(ends)] = True
    return TensorDict(
        {"action": torch.arange(length).reshape(1, length, 1), "next": TensorDict({"done": done}, [1, length])},
        [1, length],
    )


# Chunks


@pytest.mark.parametrize("ends", [(), (1,), (0, 1, 4), (4,)])
def test_a_chunk_has_the_next_actions_of_its_episode_and_masks_the_others(ends):
    data = ActionChunkTransform(3)(trajectory(*ends))
    last = 4
    for step in reversed(range(5)):
        last = step if step in ends else last
        expected = [min(step + ahead, last) for ahead in range(3)]
        assert data["vla_action", "chunk"][0, step].flatten().tolist() == expected
        assert data["action_is_pad"][0, step].tolist() == [step + ahead > last for ahead in range(3)]


def test_a_buffer_stores_actions_and_gives_chunks():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(4), transform=ActionChunkTransform(2, done_key=None), batch_size=3
    )
    buffer.extend(TensorDict({"action": torch.randn(4, 6, 2)}, [4]))
    assert buffer.sample()["vla_action", "chunk"].shape == (3, 6, 2, 2)
    assert "vla_action" not in buffer.storage[:].keys()  # noqa: SIM118


def test_actions_without_a_dimension_of_time_are_refused():
    with pytest.raises(ValueError, match=r"\(\*batch, time, size\)"):
        ActionChunkTransform(2)(TensorDict({"action": torch.ones(3)}, [3]))


# Tokens of actions


@pytest.mark.parametrize("bins", [1, 4, 256])
def test_a_decoded_action_is_within_half_an_interval(bins):
    tokenizer = UniformActionTokenizer(bins, low=torch.tensor([-1.0, 0.0]), high=torch.tensor([1.0, 8.0]))
    actions = torch.rand(100, 2) * torch.tensor([2.0, 8.0]) - torch.tensor([1.0, 0.0])
    error = (tokenizer.decode(tokenizer.encode(actions)) - actions).abs()
    assert (error <= torch.tensor([1.0, 4.0]) / bins + 1e-5).all()
    assert tokenizer.encode(actions).max() < tokenizer.vocab_size == bins


def test_an_environment_takes_tokens():
    env = TransformedEnv(PendulumEnv(seed=0), ActionTokenizerTransform(UniformActionTokenizer(8, low=-2.0, high=2.0)))
    check_env_specs(env)
    rollout = env.rollout(4)
    assert rollout["vla_action", "tokens"].dtype == torch.int64
    assert env.full_action_spec["vla_action", "tokens"].space.n == 8


def test_encoding_and_decoding_transforms_undo_one_another():
    tokenizer = UniformActionTokenizer(8, low=-2.0, high=2.0)
    encode, decode = (ActionTokenizerTransform(tokenizer, mode=mode) for mode in ("encode", "decode"))
    data = encode(TensorDict({"action": torch.tensor([0.25, -1.75])}))
    assert decode(data.exclude("action"))["action"].tolist() == [0.25, -1.75]


def test_a_tokenizer_that_is_none_is_refused():
    with pytest.raises(TypeError, match="vocab_size"):
        ActionTokenizerTransform(torch.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="encode"):
        ActionTokenizerBase().encode(torch.ones(1))


# Macro actions


def test_a_macro_action_moves_an_environment_through_all_of_its_steps():
    env = TransformedEnv(Counting(length=100), MacroPrimitiveTransform(macro_steps=4, settle_steps=1, execute=True))
    td = env.reset().set("action", TargetMacroAction.move(torch.tensor([8.0]), steps=4, settle_steps=1).squeeze(0))
    following = env.step(td)["next"]
    assert [float(action) for action in env.base_env.seen] == [2, 4, 6, 8, 8]
    assert following["count"] == 28
    assert following["reward"].flatten().tolist() == [2, 6, 12, 20, 28]


def test_waiting_holds_the_action_that_a_subclass_knows():
    class Held(MacroPrimitiveTransform):
        def current_action(self, tensordict, batch_shape, device, dtype, action_dim):
            return torch.full((*batch_shape, action_dim), 3.0)

    wait = TargetMacroAction.wait(action_dim=2, steps=2)
    assert Held().inv(TensorDict({"action": wait}, [1]))["action"].tolist() == [[[3, 3], [3, 3]]]


def test_macro_actions_of_a_batch_take_as_many_steps():
    moves = TargetMacroAction.move(torch.ones(2, 1))
    moves.steps[0] = 3
    with pytest.raises(ValueError, match=r"\[3, 16\]"):
        MacroPrimitiveTransform().inv(TensorDict({"action": moves}, [2]))


# Texts


class Words:
    """Numbers words by their first letters, with transformers' call."""

    def __call__(self, texts, *, padding, max_length, truncation, **_):
        texts = [texts] if isinstance(texts, str) else texts
        rows = [[ord(word[0]) - 96 for word in text.split()] for text in texts]
        length = max_length if padding == "max_length" else max(map(len, rows))
        rows = [row[:length] if truncation else row for row in rows]
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids > 0).long()}

    def decode(self, ids, skip_special_tokens):
        return " ".join(chr(96 + each) for each in ids.tolist() if each or not skip_special_tokens)

    def __len__(self):
        return 27


def test_texts_of_a_batch_are_filled_up_and_masked():
    data = Tokenizer(["x"], ["t"], tokenizer=Words())(TensorDict({"x": NonTensorStack("a b c", "d")}, [2]))
    assert data["t"].tolist() == [[1, 2, 3], [4, 0, 0]]
    assert data["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_long_texts_are_cut():
    transform = Tokenizer(["x"], ["t"], tokenizer=Words(), max_length=2)
    assert transform(TensorDict({"x": NonTensorData("a b c")}))["t"].tolist() == [1, 2]


def test_tokens_become_the_texts_that_an_environment_reads():
    transform = Tokenizer([], [], ["x"], ["t"], tokenizer=Words())
    assert transform.inv(TensorDict({"t": torch.tensor([[1, 2], [3, 0]])}, [2]))["x"] == ["a b", "c"]


# Images

needs_vision = pytest.mark.skipif(find_spec("flambeau.vision") is None, reason="the networks are flambeau-vision's")


@needs_vision
@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: R3MTransform("resnet18", in_keys=["pixels"], size=32), 512),
        (lambda: VIPTransform("resnet50", in_keys=["pixels"], out_keys=["r3m_vec"], size=32), 1024),
        (lambda: VC1Transform(in_keys=["pixels"], out_keys=["r3m_vec"]), 512),
    ],
    ids=["R3M", "VIP", "VC1"],
)
def test_an_environment_gives_vectors_in_the_place_of_images(make, size):
    env = TransformedEnv(Observing((2,)), make())
    check_env_specs(env)
    rollout = env.rollout(2)
    assert rollout["next", "r3m_vec"].shape == (2, 2, size)
    assert "pixels" not in rollout.keys()  # noqa: SIM118
    assert not rollout["r3m_vec"].requires_grad


@needs_vision
def test_two_images_make_one_vector_or_two():
    images = TensorDict({"a": torch.zeros(2, 8, 8, 3, dtype=torch.uint8)}, [2])
    images["b"] = images["a"] + 200
    torch.manual_seed(0)
    both = R3MTransform("resnet18", in_keys=["a", "b"], size=32)
    torch.manual_seed(0)
    each = R3MTransform("resnet18", in_keys=["a", "b"], size=32, stack_images=False)
    apart = each(images.clone())
    torch.testing.assert_close(both(images.clone())["r3m_vec"], torch.cat([apart["r3m_vec_0"], apart["r3m_vec_1"]], -1))


@needs_vision
def test_a_trained_encoder_gets_gradients_and_a_frozen_one_stays_in_evaluation():
    image = TensorDict({"a": torch.zeros(2, 8, 8, 3, dtype=torch.uint8)}, [2])
    trained = R3MTransform("resnet18", in_keys=["a"], size=32, requires_grad=True).train()
    trained(image.clone())["r3m_vec"].sum().backward()
    assert all(each.grad is not None for each in trained.parameters())
    frozen = R3MTransform("resnet18", in_keys=["a"], size=32).train()
    assert not any(each.training for each in frozen[-1].modules())


@needs_vision
def test_a_step_is_rewarded_by_how_much_nearer_it_comes_to_a_goal():
    env = TransformedEnv(Observing(), VIPRewardTransform("resnet50", in_keys=["pixels"], size=32))
    goal = torch.full((6, 8, 3), 3, dtype=torch.uint8)
    td = env.reset(TensorDict({"goal_image": goal}))
    for _ in range(3):
        td = env.step(env.rand_action(td))
        before, after = (td["goal_embedding"] - each["vip_vec"] for each in (td, td["next"]))
        torch.testing.assert_close(td["next", "reward"], (before.norm() - after.norm()).reshape(1))
        td = env.step_mdp(td)
    torch.testing.assert_close(td["vip_vec"], td["goal_embedding"])


@needs_vision
def test_a_goal_is_needed():
    env = TransformedEnv(Observing(), VIPRewardTransform("resnet50", in_keys=["pixels"], size=32))
    with pytest.raises(KeyError, match="goal_image"):
        env.reset()


def test_networks_without_weights_are_named():
    with pytest.raises(NotImplementedError, match="resnet18, resnet34, resnet50"):
        R3MTransform("resnet19", in_keys=["a"])


def test_a_missing_package_is_named():
    with pytest.raises(ImportError, match="vc_models"):
        VC1Transform(model_name="base")
