"""IFEval: each instruction followed and not, scores, and the reward they come to."""

from __future__ import annotations

import pytest
import torch
from conversing import after, environment

from flambeau.rl.envs.llm import IFEvalScoreData, IfEvalScorer
from flambeau.rl.envs.llm.reward.ifeval._counting import _by_rules
from flambeau.rl.envs.llm.reward.ifeval._instructions import INSTRUCTIONS, follows, follows_loosely

ENGLISH = "the river runs through the valley and the people of the town walk along it every day"

TABLE = [
    ("keywords:existence", {"keywords": ["Cat", "dog"]}, "a cat, two dogs", "a cat"),
    ("keywords:frequency", {"keyword": "a", "frequency": 2, "relation": "at least"}, "a A", "a"),
    ("keywords:frequency", {"keyword": "a", "frequency": 2, "relation": "less than"}, "a", "a A"),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "a Cat"),
    ("keywords:letter_frequency", {"letter": "z", "let_frequency": 2, "let_relation": "at least"}, "zZ", "z"),
    ("language:response_language", {"language": "en"}, ENGLISH, "das Haus steht auf dem Berg neben dem Wald"),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "One. Two.", "One"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "one two", "one two three"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb\n***", "a *** *** b"),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "two"},
     'one\n\n"Two, it is', "one\n\nthree"),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "two"},
     "one\n\n", None),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] [b]", "[a]"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "x\nP. P. S it is", "P.S. it is"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "x\nP.S. it is", "x"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n** b **"),
    ("detectable_format:constrained_response", {}, "Well. My answer is maybe.", "Maybe."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a*", "* *"),
    ("detectable_format:multiple_sections", {"section_spliter": "Part", "num_sections": 2}, "Part 1 a Part 2",
     "Part 1"),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{'a': 1}"),
    ("detectable_format:title", {}, "<<A>> b", "<< >>"),
    ("combination:two_responses", {}, "a ****** b", "a ****** a"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it"}, "say it now", "it"),
    ("startend:end_checker", {"end_phrase": "The end."}, 'x the end."', "the end"),
    ("startend:quotation", {}, '"a"', '"'),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"},
     "A BIG one", "A big one"),
    ("change_case:english_capital", {}, ENGLISH.upper(), ENGLISH),
    ("change_case:english_lowercase", {}, ENGLISH, ENGLISH.upper()),
    ("punctuation:no_comma", {}, "a b", "a, b"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), TABLE)
def test_every_instruction_tells_what_follows_it(name, arguments, yes, no):
    expected = no is not None
    assert follows(name, arguments | {"unused": None}, yes) is expected
    if expected:
        assert follows(name, arguments, no) is False
    assert follows(name, arguments, " \n") is False


def test_every_instruction_of_the_paper_is_there():
    assert len(INSTRUCTIONS) == 25
    assert {name for name, *_ in TABLE} == set(INSTRUCTIONS)


def test_an_unknown_instruction_and_other_arguments_are_refused():
    with pytest.raises(KeyError, match="punctuation:no_comma"):
        follows("punctuation:no_dots", {}, "x")
    with pytest.raises(ValueError, match="num_words"):
        follows("punctuation:no_comma", {"num_words": 3}, "x")
    with pytest.raises(ValueError, match="at least"):
        follows("length_constraints:number_words", {"num_words": 3, "relation": "about"}, "x")


@pytest.mark.parametrize("response", ['Here it is:\n"a"', '"a"\nThat is it.', 'Here:\n"a"\nEnd', '*"a"*'])
def test_loosely_first_and_last_lines_and_asterisks_may_be_left_out(response):
    assert not follows("startend:quotation", {}, response)
    assert follows_loosely("startend:quotation", {}, response)


@pytest.mark.parametrize(
    ("text", "count"),
    [("One. Two! Three?", 3), ("Mr. Smith came. He left.", 2), ("It costs 3.50 now.", 1), ("No end", 1), ("", 0),
     ("J. Doe said so... Then he went", 2)],
)  # fmt: skip
def test_rules_find_the_ends_of_sentences(text, count):
    assert _by_rules(text) == count


def scored(responses, identifiers, **options):
    number = len(responses)
    rows = {"query": ["q"] * number, "key": list(range(number)), "instruction_id_list": identifiers,
            "kwargs": [[{} for _ in each] for each in identifiers]}  # fmt: skip
    return after(environment(IfEvalScorer(**options), **rows), responses)


def test_scores_and_rewards_are_of_the_answer():
    found = scored(
        ["<think>q, q</think><answer><<t>> a</answer>", "<answer>a, b\n\nx</answer>", "no, tags"],
        [["punctuation:no_comma", "detectable_format:title"], ["punctuation:no_comma"], ["punctuation:no_comma"]],
    )
    first, second, third = found["ifeval_score"].unbind(0)
    assert first.inst_level_strict_acc.tolist() == [True, True]
    assert (second.prompt_level_strict_acc.item(), second.prompt_level_loose_acc.item()) == (False, True)
    assert not third.prompt_level_loose_acc.any()
    assert found["reward"].flatten().tolist() == pytest.approx([1.15, 0.4, 0])
    assert found["done"].flatten().tolist() == [True, True, False]


def test_the_reward_may_be_left_out_or_made_by_a_function():
    found = scored(["<answer>a</answer>"], [["punctuation:no_comma"]], aggregate_reward=False)
    assert found.get("reward", None) is None
    made = scored(
        ["<answer>a</answer>"],
        [["punctuation:no_comma"]],
        aggregate_reward=lambda score, think_blocks, answer_blocks: torch.full((1, 1), len(answer_blocks) + 0.5),
    )
    assert made["reward"].item() == 1.5


@pytest.mark.parametrize(
    ("scores", "thoughts", "answers", "reward"),
    [
        ((True, [True], True, [True]), None, None, 1.0),
        ((True, [True], True, [True]), ["a"], ["b"], 1.15),
        ((True, [True], True, [True]), ["a", "b"], ["b"], 1.1),
        ((False, [True, False], True, [True, True]), [], [], 0.45),
        ((False, [False, False], False, [False, True]), ["a"], ["b", "c"], 0.1),
    ],
)
def test_the_reward_weighs_the_scores_and_adds_for_form(scores, thoughts, answers, reward):
    strict, each_strict, loose, each_loose = scores
    score = IFEvalScoreData(
        prompt_level_strict_acc=torch.tensor([strict]), inst_level_strict_acc=torch.tensor(each_strict),
        prompt_level_loose_acc=torch.tensor([loose]), inst_level_loose_acc=torch.tensor(each_loose), batch_size=(),
    )  # fmt: skip
    found = IfEvalScorer().default_reward_aggregator(score, thoughts, answers)
    assert found.shape == (1, 1)
    assert found.item() == pytest.approx(reward)
