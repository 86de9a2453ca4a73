"""Rewards of Countdown: an expression of given numbers that comes to a target."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections import Counter
from fractions import Fraction
from typing import Any

from flambeau.rl.envs.llm.reward._answers import AnswerRewardParser

__all__ = ["CountdownRewardParser"]

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_MAX_LENGTH = 1000
_WRITTEN = re.compile(r"target=(-?\d+),\s*numbers=(\d+(?:,\d+)*)")


class CountdownRewardParser(AnswerRewardParser):
    """Rewards expressions between `<answer>` tags that come to a target and use each of the numbers at most once.

    What the expressions are compared with is a text such as `target=24, numbers=4,6,1`, or
    `{"target": 24, "numbers": [4, 6, 1]}`. Expressions are computed exactly, and as such: nothing of them is run.

    Args:
        tokenizer: decodes responses that are tokens, and knows the end of a sequence.
        in_keys: of the whole conversation and of target and numbers; default: ((input_mode, "full"), "answer").
        out_keys: five, each (*batch, 1, 1): whether there is an answer, whether there is a thought, the reward twice,
            and whether the answer is right.
        eos_token: is taken off the end of responses; default: the tokenizer's.
        set_done_if_answer: an episode ends with an answer, right or not.
        input_mode: of the environment; default: it is asked.
        format_reward: for a wrong expression between tags.
        correct_reward: for a right one.

    Example:
        >>> CountdownRewardParser.validate_expression("4 * 6 / 1", target=24, numbers=[4, 6, 1])
        True
    """

    @staticmethod
    def validate_expression(expression: str, target: int, numbers: list[int]) -> bool:
        """Whether an expression comes to the target, of the numbers, each used at most once.

        Args:
            expression: of integers, +, -, *, / and parentheses.
            target: what it should come to.
            numbers: those that may be used, each as often as it is there.
        """
        if len(expression) > _MAX_LENGTH:
            return False
        used: list[int] = []
        try:
            value = _value(ast.parse(expression.strip(), mode="eval").body, used)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return False
        return value == target and not Counter(used) - Counter(numbers)

    def _reference(self, answer: str) -> tuple[int, list[int]]:
        return _target_and_numbers(answer)

    def _equal(self, answer: str, reference: tuple[int, list[int]]) -> bool:
        return self.validate_expression(answer, *reference)


def _value(node: ast.AST, used: list[int]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand, used)
        return value if isinstance(node.op, ast.UAdd) else -value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        apply: Any = _OPERATORS[type(node.op)]
        found: Fraction = apply(_value(node.left, used), _value(node.right, used))
        return found
    raise ValueError(f"An expression has integers, +, -, *, / and parentheses; got {ast.dump(node):.100}.")


def _target_and_numbers(answer: str) -> tuple[int, list[int]]:
    try:
        given = json.loads(answer) if answer.lstrip().startswith("{") else _written(answer)
        return int(given["target"]), [int(number) for number in given["numbers"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"Countdown compares with a text such as 'target=24, numbers=4,6,1', or this in JSON; got {answer!r:.200}."
        ) from error


def _written(answer: str) -> dict[str, Any]:
    found = _WRITTEN.fullmatch(answer.strip())
    if found is None:
        raise ValueError(answer)
    return {"target": found[1], "numbers": found[2].split(",")}
