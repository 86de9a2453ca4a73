"""A policy over a model of transformers: what it writes, and how likely it says that is."""

from __future__ import annotations

import pickle
import threading

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.modules.llm import ChatHistory, Text, TransformersWrapper

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    [{"role": "user", "content": "The capital of France?"}, {"role": "assistant", "content": "Paris"}],
]
GREEDY = {"max_new_tokens": 4, "do_sample": False}


@pytest.fixture
def prompts():
    history = History.from_chats([chat[:1] for chat in CHATS])
    return TensorDict(history=ChatHistory(prompt=history, batch_size=2), batch_size=2)


@pytest.fixture
def conversations():
    return TensorDict(history=ChatHistory(full=History.from_chats(CHATS), batch_size=2), batch_size=2)


@pytest.fixture
def make(model, tokenizer):
    def made(**kwargs):
        if kwargs.get("generate", True):
            kwargs = {"generate_kwargs": GREEDY, **kwargs}
        return TransformersWrapper(model, tokenizer=tokenizer, **kwargs)

    return made


def rows(td, *key):
    return td.get(key, as_list=True)


def true_log_probs(model, tokens):
    logits = model(input_ids=tokens[None]).logits[0].log_softmax(-1)
    return logits[:-1].gather(-1, tokens[1:, None]).squeeze(-1)


def test_a_prompt_is_continued_as_text_tokens_and_conversation(make, prompts):
    made = make()(prompts)
    assert made is prompts
    assert [text.startswith(prompt) for text, prompt in zip(made["text"].full, made["text"].prompt, strict=True)]
    for prompt, response, full in zip(
        *(rows(made, "tokens", name) for name in ("prompt", "response", "full")), strict=True
    ):
        assert torch.equal(torch.cat([prompt, response]), full)
    assert [row[:1] for row in made["history"].full.content] == [["Hi"], ["The capital of France?"]]
    assert [row[-1] for row in made["history"].full.role] == ["assistant", "assistant"]
    assert made["history"].response.role == [["assistant"], ["assistant"]]


def test_log_probs_of_an_answer_are_those_of_its_tokens(make, model, prompts):
    made = make(generate_kwargs={"max_new_tokens": 5, "do_sample": True, "temperature": 0.7})(prompts)
    fulls, scores, responses = (
        rows(made, "tokens", "full"),
        rows(made, "log_probs", "full"),
        rows(made, "log_probs", "response"),
    )
    for full, score, response in zip(fulls, scores, responses, strict=True):
        expected = true_log_probs(model, full)[-len(response) :]
        torch.testing.assert_close(response, expected, rtol=1e-4, atol=1e-4)
        assert torch.equal(score[-len(response) :], response)
        assert not score[: -len(response)].any()


@pytest.mark.parametrize("padded", [True, False])
def test_a_sequence_is_scored_alike_padded_packed_and_alone(make, model, conversations, padded):
    made = make(generate=False, pad_model_input=padded)(conversations)
    for tokens, score in zip(rows(made, "tokens", "full"), rows(made, "log_probs", "full"), strict=True):
        assert score[0] == 0
        torch.testing.assert_close(score[1:], true_log_probs(model, tokens), rtol=1e-4, atol=1e-4)


def test_the_assistant_mask_covers_what_the_assistant_said(make, tokenizer, conversations):
    made = make(generate=False)(conversations)
    masks = rows(made, "masks", "all_assistant_mask")
    said = [tokenizer.decode(row[mask]) for row, mask in zip(rows(made, "tokens", "full"), masks, strict=True)]
    assert said == ["Hello.", "Paris"]


def test_scores_have_gradients_and_answers_none(make, model, prompts, conversations):
    model.zero_grad()
    sum(score.sum() for score in rows(make(generate=False)(conversations), "log_probs", "full")).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not any(score.requires_grad for score in rows(make()(prompts), "log_probs", "response"))


def test_padded_output_has_prompts_on_the_left_and_responses_on_the_right(make, prompts):
    loose, padded = make(inplace=False)(prompts), make(inplace=False, pad_output=True)(prompts)
    full, mask = padded["tokens"].full, padded["masks"].all_attention_mask
    for row, seen, expected in zip(full, mask, rows(loose, "tokens", "full"), strict=True):
        assert torch.equal(row[seen], expected)
    assert padded["tokens"].prompt.shape[-1] + padded["tokens"].response.shape[-1] == full.shape[-1]
    assert padded["text"].full == loose["text"].full


def test_samples_come_in_a_further_dimension(make, prompts):
    made = make(num_samples=3, generate_kwargs={"max_new_tokens": 3, "do_sample": True})(prompts)
    assert made.batch_size == (2, 3)
    assert made["tokens"].batch_size == (2, 3)
    first, second = made["text"].prompt
    assert len(set(first)) == len(set(second)) == 1


def test_an_answer_ends_with_its_end(make):
    policy = make(inplace=False)
    prompt = TensorDict(history=ChatHistory(prompt=History.from_chats(CHATS[0][:1])))
    said = policy(prompt)["tokens"].response
    made = make(inplace=False, generate_kwargs=GREEDY | {"eos_token_id": int(said[1])})(prompt)
    assert torch.equal(made["tokens"].response, said[:2])


def test_text_and_tokens_are_read_alike(make, tokenizer):
    texts = ["one", "two words"]
    by_text = make(input_mode="text")(TensorDict(text=Text(prompt=texts, batch_size=2), batch_size=2))
    encoded = [torch.tensor(tokenizer(text)["input_ids"]) for text in texts]
    batch = lazy_stack([TensorDict(tokens=TensorDict(prompt=row)) for row in encoded])
    by_tokens = make(input_mode="tokens")(batch)
    for one, other in zip(rows(by_text, "tokens", "full"), rows(by_tokens, "tokens", "full"), strict=True):
        assert torch.equal(one, other)


def test_padded_tokens_are_read_by_their_mask(make):
    tokens = torch.tensor([[0, 0, 50, 51], [52, 53, 54, 55]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    batch = TensorDict(tokens=TensorDict(full=tokens, batch_size=2), attention_mask=mask, batch_size=2)
    made = make(input_mode="tokens", generate=False, inplace=False)(batch)
    alone = make(input_mode="tokens", generate=False)(TensorDict(tokens=TensorDict(full=tokens[0, 2:])))
    torch.testing.assert_close(made[0]["log_probs"].full[2:], alone["log_probs"].full)
    assert torch.equal(made["masks"].all_attention_mask, mask.bool())


def test_the_distribution_scores_as_the_policy_does(make, conversations):
    policy = make(generate=False, inplace=False, pad_output=True)
    made = policy(conversations)
    for dist, mask in (
        (policy._get_rlhf_dist(conversations), made["masks"].all_assistant_mask),
        (policy._get_generic_dist(conversations), made["masks"].all_attention_mask),
    ):
        assert torch.equal(dist.mask, mask)
        predicted = mask & (made["log_probs"].full != 0)  # nothing predicts the first token of a sequence
        found = dist.log_prob(made["tokens"].full)
        torch.testing.assert_close(found[predicted], made["log_probs"].full[predicted])


def test_what_stands_behind_the_prompt_counts_in_fine_tuning(make, prompts):
    made = make(pad_output=True)(prompts)
    dist = make(input_mode="tokens", generate=False)._get_sft_dist(made)
    count = made["tokens"].response.shape[-1]
    assert dist.mask[:, -count:].all()
    assert not dist.mask[:, :-count].any()
    torch.testing.assert_close(
        dist.log_prob(made["tokens"].full)[:, -count:], made["log_probs"].response, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("inplace", "same", "kept"), [(True, True, True), (False, False, False), ("empty", False, False)]
)
def test_results_go_where_inplace_says(make, prompts, inplace, same, kept):
    prompts["other"] = torch.zeros(2)
    made = make(inplace=inplace)(prompts)
    assert (made is prompts) == same
    assert ("other" in list(made.keys())) == kept


def test_another_version_reads_and_writes_otherwise(make, model):
    policy = make()
    scorer = policy.get_new_version(generate=False)
    assert scorer.in_keys == [("history", "full")]
    assert scorer.model is model
    assert policy.get_new_version(input_mode="text").in_keys == [("text", "prompt")]


def test_known_tokens_of_a_prompt_are_used_where_asked(make, prompts):
    kept = lazy_stack([row.set("tokens", TensorDict(prompt=torch.tensor([50, 51]))) for row in prompts.unbind(0)])
    made = make(prefer_tokens=True, inplace=False)(kept)
    assert [row.tolist() for row in rows(made, "tokens", "prompt")] == [[50, 51], [50, 51]]


def test_calls_of_many_threads_run_together_and_each_gets_its_own(make, prompts):
    policy = make(batching=True, min_batch_size=2, batching_timeout=20)
    expected = make(inplace=False)(prompts)["text"].response
    sizes, generate = [], policy._generate_answers
    policy._generate_answers = lambda tokens, options: sizes.append(len(tokens)) or generate(tokens, options)
    results = [None, None]

    def call(at):
        results[at] = policy(prompts[at].copy())["text"].response

    threads = [threading.Thread(target=call, args=(at,)) for at in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert results == expected
    assert sizes == [2]
    assert policy.get_batching_state()["queue_size"] == 0


def test_an_error_reaches_all_callers_of_a_batch(make, prompts):
    policy = make(batching=True)

    def fail(tokens, options):
        raise RuntimeError("out of memory")

    policy._generate_answers = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        policy(prompts)


def test_a_policy_is_pickled_with_its_batching(make, prompts):
    policy = pickle.loads(pickle.dumps(make(max_batch_size=3, inplace=False)))
    assert policy.batching
    assert policy(prompts)["text"].response == make(inplace=False)(prompts)["text"].response


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_mode": "picture"}, "input_mode"), ({"pad_model_input": True}, "pad_model_input"),
        ({"generate": False, "return_log_probs": False}, "return_log_probs"),
        ({"generate_kwargs": {"temperature": -1}}, "temperature"), ({"generate_kwargs": {"top_p": 2.0}}, "top_p"),
        ({"generate_kwargs": {"top_k": 0}}, "top_k"), ({"min_batch_size": 3, "max_batch_size": 2}, "min_batch_size"),
        ({"generate_kwargs": {"do_sample": False, "temperature": 1.0}}, "do_sample"),
        ({"batching": False, "min_batch_size": 3}, "batching"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_what_is_missing_is_named(make, conversations):
    with pytest.raises(ValueError, match="'history', 'prompt'"):
        make()(conversations)
    with pytest.raises(ValueError, match="no tokens"):
        make(input_mode="text")(TensorDict(text=Text(prompt="")))
