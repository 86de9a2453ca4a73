"""Rewards of answers between tags: numbers, expressions, expressions of given numbers."""

from __future__ import annotations

import pytest
import torch
from conversing import after, environment

from flambeau.rl.data import Composite, Unbounded
from flambeau.rl.envs.llm import CountdownRewardParser, GSM8KRewardParser, MATHRewardParser


@pytest.mark.parametrize(
    ("written", "number"),
    [("120.0", "120"), (" $1,200 ", "1200"), ("12%", "12"), ("1.50", "1.5"), ("-3.00", "-3"), ("100", "100"),
     ("12 apples", "12 apples"), ("1.", "1"), ("", "")],
)  # fmt: skip
def test_numbers_are_compared_without_signs_and_zeros(written, number):
    assert GSM8KRewardParser.normalize_answer(written) == number


@pytest.mark.parametrize(
    ("response", "tags"),
    [
        ("<think>a</think><answer> b\nc </answer>", ("a", "b\nc")),
        ("<answer>1</answer><answer>2</answer>", ("", "1")),
        ("<think>open <answer>1</answer", ("", "")),
        ("nothing", ("", "")),
    ],
)
def test_the_first_thought_and_answer_are_taken(response, tags):
    assert GSM8KRewardParser.extract_tags(response) == tags


RESPONSES = ["<think>t</think><answer>72</answer>", "<answer>71</answer>", "72", "<answer>$72.00</answer>"]


def test_right_answers_wrong_ones_and_none_have_their_rewards():
    env = environment(GSM8KRewardParser(), query=["q"] * 4, answer=["48 + 24\n#### 72"] * 4)
    found = after(env, RESPONSES)
    assert found["reward"].shape == (4, 1, 1)
    assert found["reward"].flatten().tolist() == pytest.approx([1, 0.1, 0, 1])
    assert found["reward_answer"].flatten().tolist() == [1, 1, 0, 1]
    assert found["reward_think"].flatten().tolist() == [1, 0, 0, 0]
    assert found["success"].flatten().tolist() == [True, False, False, True]
    assert found["done"].flatten().tolist() == [True, True, False, True]
    assert torch.equal(found["terminated"], found["done"])


def test_an_answer_need_not_end_an_episode_and_may_be_worth_more():
    parser = GSM8KRewardParser(set_done_if_answer=False, correct_reward=5.0, format_reward=2.0)
    found = after(environment(parser, query=["q"] * 4, answer=["#### 72"] * 4), RESPONSES)
    assert found["reward"].flatten().tolist() == [5, 2, 0, 5]
    assert not found["done"].any()


def test_the_end_of_a_sequence_is_no_part_of_a_response():
    parser = GSM8KRewardParser(eos_token="<|end|>")
    found = after(environment(parser, query=["q"], answer=["#### 7"]), ["<answer>7</answer><|end|>"])
    assert found["reward"].item() == 1


def test_an_answer_of_the_data_set_without_a_number_is_refused():
    with pytest.raises(ValueError, match="####"):
        after(environment(GSM8KRewardParser(), query=["q"], answer=["72"]), ["<answer>72</answer>"])


def test_specs_of_rewards_have_the_five_entries():
    spec = GSM8KRewardParser().transform_reward_spec(Composite(reward=Unbounded((4, 1)), shape=(4,)))
    assert list(spec.keys()) == ["reward", "reward_answer", "reward_think", "reward_right", "success"]
    assert {tuple(each.shape) for each in spec.values()} == {(4, 1, 1)}
    assert spec["success"].dtype == torch.bool


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"a \boxed{\frac{1}{2}} b \boxed{x^{2}}", "x^{2}"),
        (r"\boxed{1}} x", "1"),
        ("none", "none"),
        (r"\boxed{a", ""),
    ],
)
def test_the_last_box_is_the_reference(text, boxed):
    assert MATHRewardParser.extract_boxed(text) == boxed


def test_expressions_are_rewarded_by_the_box_of_the_solution():
    env = environment(MATHRewardParser(), query=["q"] * 3, answer=[r"so \boxed{x + 1}"] * 3)
    found = after(env, ["<answer>x+1</answer>", "<answer>x</answer>", "x+1"])
    assert found["reward"].flatten().tolist() == pytest.approx([1, 0.1, 0])


@pytest.mark.parametrize(
    ("expression", "target", "numbers", "valid"),
    [
        ("(1 + 2) * 3", 9, [1, 2, 3], True),
        ("7 / 2 * 2", 7, [7, 2, 2], True),
        ("1/3*3", 1, [1, 3, 3], True),
        ("-1 + 4", 3, [1, 4], True),
        ("3", 3, [3, 4], True),
        ("1 + 1", 2, [1, 2], False),  # 1 is there once
        ("12", 12, [1, 2], False),
        ("1 / 0", 1, [1, 0], False),
        ("2 ** 3", 8, [2, 3], False),
        ("7 // 2", 3, [7, 2], False),
        ("1.5 * 2", 3, [1, 5, 2], False),
        ("True + 2", 3, [1, 2], False),
        ("1 + 2 = 3", 3, [1, 2], False),
        ("(1 + 2", 3, [1, 2], False),
        ("__import__('os').getpid()", 1, [1], False),
        ("", 0, [], False),
        ("(" * 2000, 1, [1], False),
    ],
)
def test_expressions_use_each_number_once_and_are_not_run(expression, target, numbers, valid):
    assert CountdownRewardParser.validate_expression(expression, target, numbers) is valid


@pytest.mark.parametrize("answer", ["target=6, numbers=1,2,3", '{"target": 6, "numbers": [1, 2, 3]}'])
def test_target_and_numbers_are_read_in_both_forms(answer):
    env = environment(CountdownRewardParser(), query=["q"] * 2, answer=[answer] * 2)
    found = after(env, ["<answer>1 * 2 * 3</answer>", "<answer>1 + 2</answer>"])
    assert found["reward"].flatten().tolist() == pytest.approx([1, 0.1])


def test_a_target_that_cannot_be_read_is_refused():
    env = environment(CountdownRewardParser(), query=["q"], answer=["6 of 1, 2, 3"])
    with pytest.raises(ValueError, match="target=24"):
        after(env, ["<answer>6</answer>"])
