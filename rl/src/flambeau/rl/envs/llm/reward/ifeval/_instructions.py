"""The 25 verifiable instructions of IFEval, each a function of a response and of the instruction's arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.rl.envs.llm.reward.ifeval._counting import capital_words, language, sentences, words

__all__ = ["INSTRUCTIONS", "follows", "follows_loosely"]

Check = Callable[..., bool]

INSTRUCTIONS: dict[str, Check] = {}
"""Identifier of an instruction -> whether a response follows it."""

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def follows(instruction: str, arguments: Mapping[str, Any], response: str) -> bool:
    """Whether a response follows an instruction.

    Args:
        instruction: its identifier, such as "punctuation:no_comma".
        arguments: the instruction's; those that are None are taken for absent, as in the published table, which has one
            column for each argument.
        response: an empty one follows nothing.

    Raises:
        KeyError: there is no such instruction.
        ValueError: the instruction has other arguments.
    """
    try:
        check = INSTRUCTIONS[instruction]
    except KeyError:
        raise KeyError(
            f"There is no instruction {instruction!r}; IFEval has {', '.join(sorted(INSTRUCTIONS))}."
        ) from None
    given = {name: value for name, value in arguments.items() if value is not None}
    if not response.strip():
        return False
    try:
        return bool(check(response, **given))
    except TypeError as error:
        raise ValueError(f"The instruction {instruction!r} was given the arguments {given}: {error}.") from error


def follows_loosely(instruction: str, arguments: Mapping[str, Any], response: str) -> bool:
    """Whether a response, or it without its first line, its last, both, or its asterisks, follows an instruction.

    Args:
        instruction: as for `follows`.
        arguments: likewise.
        response: likewise.
    """
    lines = response.split("\n")
    parts = (lines, lines[1:], lines[:-1], lines[1:-1])
    variants = ["\n".join(part).strip() if part is not lines else response for part in parts]
    variants += [variant.replace("*", "") for variant in variants]
    return any(follows(instruction, arguments, variant) for variant in variants)


def _instruction(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        INSTRUCTIONS[name] = check
        return check

    return register


def _compares(count: int, relation: str, number: float) -> bool:
    if relation == "at least":
        return count >= number
    if relation == "less than":
        return count < number
    raise ValueError(f"A relation of IFEval is 'at least' or 'less than'; got {relation!r}.")


# Keywords


@_instruction("keywords:existence")
def _keywords(response: str, keywords: Sequence[str]) -> bool:
    return all(re.search(keyword, response, re.IGNORECASE) for keyword in keywords)


@_instruction("keywords:frequency")
def _keyword_frequency(response: str, keyword: str, frequency: int, relation: str) -> bool:
    return _compares(len(re.findall(keyword, response, re.IGNORECASE)), relation, frequency)


@_instruction("keywords:forbidden_words")
def _forbidden_words(response: str, forbidden_words: Sequence[str]) -> bool:
    return not any(re.search(rf"\b{word}\b", response, re.IGNORECASE) for word in forbidden_words)


@_instruction("keywords:letter_frequency")
def _letter_frequency(response: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compares(response.lower().count(letter.lower()), let_relation, let_frequency)


# Language, length


@_instruction("language:response_language")
def _response_language(response: str, language: str) -> bool:
    return _is_in(response, language)


def _is_in(response: str, code: str) -> bool:
    # What has no letters is in no other language.
    return language(response) in (None, code)


@_instruction("length_constraints:number_sentences")
def _number_sentences(response: str, num_sentences: int, relation: str) -> bool:
    return _compares(sentences(response), relation, num_sentences)


@_instruction("length_constraints:number_words")
def _number_words(response: str, num_words: int, relation: str) -> bool:
    return _compares(words(response), relation, num_words)


@_instruction("length_constraints:number_paragraphs")
def _number_paragraphs(response: str, num_paragraphs: int) -> bool:
    """Paragraphs are divided by three asterisks."""
    paragraphs = [part.strip() for part in re.split(r"\s?\*\*\*\s?", response)]
    return all(paragraphs[1:-1]) and sum(map(bool, paragraphs)) == num_paragraphs


@_instruction("length_constraints:nth_paragraph_first_word")
def _nth_paragraph(response: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Paragraphs are divided by an empty line; quotation marks before the word do not count, nor what follows it."""
    paragraphs = [part.strip() for part in response.split("\n\n")]
    if nth_paragraph > sum(map(bool, paragraphs)) or not paragraphs[nth_paragraph - 1]:
        return False
    word = paragraphs[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    word = re.split(r"[.,?!'\"]", word)[0].lower()
    return sum(map(bool, paragraphs)) == num_paragraphs and word == first_word.lower()


# Content


@_instruction("detectable_content:number_placeholders")
def _placeholders(response: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", response)) >= num_placeholders


@_instruction("detectable_content:postscript")
def _postscript(response: str, postscript_marker: str) -> bool:
    known = {"P.P.S": r"\s*p\.\s?p\.\s?s.*$", "P.S.": r"\s*p\.\s?s\..*$"}
    pattern = known.get(postscript_marker, rf"\s*{postscript_marker.lower()}.*$")
    return re.search(pattern, response.lower(), re.MULTILINE) is not None


# Format


@_instruction("detectable_format:number_bullet_lists")
def _bullets(response: str, num_bullets: int) -> bool:
    stars = re.findall(r"^\s*\*[^\*].*$", response, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", response, re.MULTILINE)
    return len(stars) + len(dashes) == num_bullets


@_instruction("detectable_format:constrained_response")
def _constrained_response(response: str) -> bool:
    return any(answer in response for answer in ANSWERS)


@_instruction("detectable_format:number_highlighted_sections")
def _highlights(response: str, num_highlights: int) -> bool:
    """Of *one* and of **two** asterisks, each for itself."""
    found = re.findall(r"\*[^\n\*]*\*", response) + re.findall(r"\*\*[^\n\*]*\*\*", response)
    return sum(bool(each.strip("*").strip()) for each in found) >= num_highlights


@_instruction("detectable_format:multiple_sections")
def _multiple_sections(response: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"\s?{section_spliter}\s?\d+\s?", response)) >= num_sections


@_instruction("detectable_format:json_format")
def _json(response: str) -> bool:
    text = response.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):  # of deep nesting
        return False
    return True


@_instruction("detectable_format:title")
def _title(response: str) -> bool:
    return any(title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", response))


# Combinations, beginnings and ends


@_instruction("combination:two_responses")
def _two_responses(response: str) -> bool:
    """Two different ones, divided by six asterisks."""
    parts = [part.strip() for part in response.split("******")]
    found = [part for part in parts if part]
    return all(parts[1:-1]) and len(found) == 2 and found[0] != found[1]


@_instruction("combination:repeat_prompt")
def _repeat_prompt(response: str, prompt_to_repeat: str) -> bool:
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_instruction("startend:end_checker")
def _end(response: str, end_phrase: str) -> bool:
    return response.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_instruction("startend:quotation")
def _quotation(response: str) -> bool:
    text = response.strip()
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


# Capitals, punctuation


@_instruction("change_case:capital_word_frequency")
def _capital_words(response: str, capital_frequency: int, capital_relation: str) -> bool:
    return _compares(capital_words(response), capital_relation, capital_frequency)


@_instruction("change_case:english_capital")
def _english_capital(response: str) -> bool:
    return response.isupper() and _is_in(response, "en")


@_instruction("change_case:english_lowercase")
def _english_lowercase(response: str) -> bool:
    return response.islower() and _is_in(response, "en")


@_instruction("punctuation:no_comma")
def _no_comma(response: str) -> bool:
    return "," not in response
