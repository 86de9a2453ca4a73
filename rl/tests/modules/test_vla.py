"""Policies that see, read and act."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Independent

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn.probabilistic import InteractionType
from flambeau.rl.data.vla import UniformActionTokenizer, VLAAction, VLAImages, VLAObservation
from flambeau.rl.envs import InitTracker, TransformedEnv
from flambeau.rl.envs.custom import ToyVLAEnv
from flambeau.rl.modules import MultiStepActorWrapper
from flambeau.rl.modules.models import ACTModel
from flambeau.rl.modules.vla import LeRobotPolicyWrapper, TinyVLA


def observed(**changes):
    seen = {"image": torch.rand(2, 3, 16, 16), "state": torch.rand(2, 5)}
    return TensorDict({"observation": seen, "language_instruction": "pick", **changes}, [2])


def tokens(**changes):
    torch.manual_seed(0)
    return TinyVLA(action_dim=2, chunk_size=3, hidden_dim=16, action_head="tokens", vocab_size=5, **changes)


def test_a_policy_reads_what_it_is_told():
    policy = TinyVLA(action_dim=2, chunk_size=3, hidden_dim=16)
    data = observed()
    first = policy(data.clone())["vla_action"]
    assert isinstance(first, VLAAction)
    other = policy(data.clone().set_non_tensor("language_instruction", "place"))["vla_action"]
    assert first.chunk.shape == (2, 3, 2)
    assert not torch.equal(first.chunk, other.chunk)


def test_tokens_are_drawn_or_the_likeliest():
    greedy = tokens()
    data = observed()
    greedy(data.clone())  # sizes of layers are those of the first call
    drawing = greedy.get_new_version(default_interaction_type=InteractionType.RANDOM, num_samples=500)
    chosen = greedy(data.clone())["vla_action", "tokens"]
    drawn = drawing(data.clone())["vla_action", "tokens"]
    assert drawn.shape == (2, 500, 3, 2)
    shares = torch.nn.functional.one_hot(drawn, 5).float().mean(1)
    dist = greedy.get_dist(data)
    assert isinstance(dist, Independent)
    torch.testing.assert_close(shares, dist.base_dist.probs, atol=0.09, rtol=0)
    assert torch.equal(chosen, dist.base_dist.probs.argmax(-1))


def test_probabilities_of_stored_tokens_are_those_they_were_drawn_with():
    policy = tokens(mode="sample")
    data = policy(observed())
    before = data["vla_action", "log_probs"].clone()
    torch.testing.assert_close(policy.log_prob(data)["vla_action", "log_probs"], before)


def test_masked_tokens_are_not_chosen():
    policy = tokens(mode="sample")
    mask = torch.zeros(2, 3, 2, 5, dtype=torch.bool)
    mask[..., 4] = True
    policy.set_keys(action_mask="mask")
    assert (policy(observed(mask=mask))["vla_action", "tokens"] == 4).all()


def test_chunks_and_tokens_of_either_head():
    tokenizer = UniformActionTokenizer(5, low=-1.0, high=1.0)
    data = tokens(output_mode="both", action_tokenizer=tokenizer)(observed())
    torch.testing.assert_close(data["vla_action", "chunk"], tokenizer.decode(data["vla_action", "tokens"]))
    made = TinyVLA(action_dim=2, chunk_size=3, output_mode="tokens", action_tokenizer=tokenizer)(observed())
    assert list(made["vla_action"].keys()) == ["tokens"]


def test_preprocessed_observations():
    images = VLAImages(image=torch.rand(2, 3, 16, 16), batch_size=[2])
    seen = VLAObservation(images=images, state=torch.rand(2, 5), instruction="pick", batch_size=[2])
    data = TinyVLA(action_dim=2, chunk_size=3, input_mode="preprocessed")(TensorDict({"vla_observation": seen}, [2]))
    assert data["vla_action", "chunk"].shape == (2, 3, 2)


def test_keys_move_together_with_their_root():
    policy = tokens().set_keys(vla_action="plan")
    assert policy.out_keys == [("plan", "tokens"), ("plan", "log_probs")]
    assert policy(observed())["plan", "tokens"].shape == (2, 3, 2)


def test_another_version_has_the_same_parameters():
    policy = tokens()
    policy(observed())
    twin = policy.get_new_version(inplace=False, log_probs_mode="token")
    data = observed()
    assert twin(data)["vla_action", "log_probs"].shape == (2, 3, 2)
    assert data.get("vla_action", None) is None
    assert all(one is other for one, other in zip(policy.parameters(), twin.parameters(), strict=True))


def test_a_policy_of_lerobot_gets_its_own_names():
    asked = {}

    class Policy:
        def predict_action_chunk(self, batch):
            asked.update(batch)
            return torch.ones(2, 4, 7)

    policy = LeRobotPolicyWrapper(Policy(), action_dim=7, chunk_size=4, camera_name="top")
    assert policy(observed())["vla_action", "chunk"].eq(1).all()
    assert sorted(asked) == ["observation.images.top", "observation.state", "task"]
    assert asked["task"] == ["pick", "pick"]


def test_what_is_wrong_is_said():
    with pytest.raises(KeyError, match="reads image"):
        tokens()(TensorDict({}, [2]))
    with pytest.raises(RuntimeError, match="action_tokenizer"):
        TinyVLA(action_dim=2, chunk_size=3, output_mode="both")(observed())
    with pytest.raises(ValueError, match=r"expected \(\.\.\., 4, 7\)"):
        LeRobotPolicyWrapper(lambda batch: torch.ones(2, 4, 3), action_dim=7, chunk_size=4)(observed())
    with pytest.raises(ValueError, match="has no key 'far'"):
        tokens().set_keys(far="x")


def test_chunks_are_executed_in_the_toy_environment():
    policy = TinyVLA(action_dim=4, chunk_size=3, hidden_dim=16)
    env = TransformedEnv(ToyVLAEnv(batch_size=[2], seed=0), InitTracker())
    data = env.reset()
    data = policy(data.set("image", data["observation", "image"]))
    assert data["vla_action", "chunk"].shape == (2, 3, 4)
    assert MultiStepActorWrapper is not None
    step = env.step(data.set("action", data["vla_action", "chunk"][:, 0].clamp(-1, 1)))
    torch.testing.assert_close(step["next", "observation", "state"][:, :4], step["action"])


def test_an_act_model_learns_the_chunk_it_is_shown():
    torch.manual_seed(0)
    model = ACTModel(3, 2, 4, hidden_dim=16, nheads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
    seen, chunk = torch.randn(8, 3), torch.randn(8, 4, 2)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(60):
        actions, mean, log_var = model(seen, chunk)
        loss = (actions - chunk).abs().mean() + 1e-3 * (mean**2 + log_var.exp() - log_var - 1).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]
    actions, mean, log_var = model(seen[0])
    assert (actions.shape, mean.abs().sum(), log_var.abs().sum()) == ((4, 2), 0, 0)
