"""A policy in an actor of Ray answers as one here."""

from __future__ import annotations

import pytest

from flambeau.data.tensordict import TensorDict
from flambeau.rl.modules.llm import RemoteTransformersWrapper, Text, TransformersWrapper


def prompts():
    return TensorDict(text=Text(prompt=["one", "two words"], batch_size=2), batch_size=2)


@pytest.mark.slow
def test_a_policy_in_an_actor_answers_as_one_here(model, tokenizer):
    ray = pytest.importorskip("ray", reason="needs Ray; the extra `ray` has it")
    ray.init(num_cpus=1, include_dashboard=False, ignore_reinit_error=True)
    options = {
        "tokenizer": tokenizer,
        "input_mode": "text",
        "generate_kwargs": {"max_new_tokens": 3, "do_sample": False},
    }
    with RemoteTransformersWrapper(model, num_gpus=0, **options) as remote:
        given = prompts()
        found, expected = remote(given), TransformersWrapper(model, **options)(prompts())
        assert found is given
        assert found["text"].full == expected["text"].full
        assert (remote.in_keys, remote.generate, remote.batching) == ([("text", "prompt")], True, False)
        assert remote.get_new_version(generate=False).in_keys == [("text", "full")]
        with pytest.raises(AttributeError, match="nothing"):
            remote.nothing()
    ray.shutdown()


def test_what_is_no_model_is_refused():
    pytest.importorskip("ray", reason="needs Ray; the extra `ray` has it")
    with pytest.raises(TypeError, match="name of a model"):
        RemoteTransformersWrapper(3)
