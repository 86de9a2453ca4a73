"""Rewards of MATH: competition problems whose answer is an expression."""

from __future__ import annotations

import importlib
from typing import Any

from flambeau.rl.envs.llm.reward._answers import AnswerRewardParser

__all__ = ["MATHRewardParser"]


class MATHRewardParser(AnswerRewardParser):
    r"""Rewards responses to problems of MATH by whether the expression between `<answer>` tags is the right one.

    The reference is the last `\boxed{...}` of the data set's solution. Where math-verify is installed, the two are
    compared as expressions; else as texts.

    Args:
        tokenizer: decodes responses that are tokens, and knows the end of a sequence.
        in_keys: of the whole conversation and of the data set's solution; default: ((input_mode, "full"), "answer").
        out_keys: five, each (*batch, 1, 1): whether there is an answer, whether there is a thought, the reward twice,
            and whether the answer is right.
        eos_token: is taken off the end of responses; default: the tokenizer's.
        set_done_if_answer: an episode ends with an answer, right or not.
        input_mode: of the environment; default: it is asked.
        format_reward: for a wrong answer between tags.
        correct_reward: for a right one.

    References:
        D. Hendrycks et al., Measuring Mathematical Problem Solving With the MATH Dataset, 2021, arXiv:2103.03874.
    """

    @staticmethod
    def extract_boxed(text: str) -> str:
        r"""What the last `\boxed{...}` holds.

        Args:
            text: braces within may nest.

        Returns:
            It; the text itself if there is none, and nothing if its brace is not closed.

        Example:
            >>> MATHRewardParser.extract_boxed(r"so \boxed{\frac{1}{2}}.")
            '\\frac{1}{2}'
        """
        start = text.rfind(r"\boxed{")
        if start < 0:
            return text
        start += len(r"\boxed{")
        depth = 1
        for end in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                return text[start:end]
        return ""

    @staticmethod
    def answers_match(predicted: str, reference: str) -> bool:
        """Whether two answers are the same.

        Args:
            predicted: of a model.
            reference: the right one.

        Returns:
            As math-verify says; without it, whether they are equal but for white space, dollar signs and commas.
        """
        try:
            verify: Any = importlib.import_module("math_verify")
        except ImportError:
            return _plain(predicted) == _plain(reference)
        return bool(verify.verify(verify.parse(f"${reference}$"), verify.parse(f"${predicted}$")))

    def _reference(self, answer: str) -> str:
        return self.extract_boxed(answer)

    def _equal(self, answer: str, reference: str) -> bool:
        return self.answers_match(answer, reference)


def _plain(answer: str) -> str:
    return "".join(answer.split()).replace("$", "").replace(",", "")
