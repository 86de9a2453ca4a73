"""Rewards of GSM8K: school problems whose answer is a number."""

from __future__ import annotations

from flambeau.rl.envs.llm.reward._answers import AnswerRewardParser

__all__ = ["GSM8KRewardParser"]


class GSM8KRewardParser(AnswerRewardParser):
    """Rewards responses to problems of GSM8K by whether the number between `<answer>` tags is the right one.

    The reference is what follows "####" in the data set's answer. Both are compared without thousands separators,
    dollar and percent signs, and zeros at the end of decimals.

    Args:
        tokenizer: decodes responses that are tokens, and knows the end of a sequence.
        in_keys: of the whole conversation and of the data set's answer; default: ((input_mode, "full"), "answer").
        out_keys: five, each (*batch, 1, 1): whether there is an answer, whether there is a thought, the reward twice,
            and whether the answer is right.
        eos_token: is taken off the end of responses; default: the tokenizer's.
        set_done_if_answer: an episode ends with an answer, right or not.
        input_mode: of the environment; default: it is asked.
        format_reward: for a wrong answer between tags.
        correct_reward: for a right one.

    Raises:
        ValueError: the data set's answer has no "####".

    Example:
        >>> GSM8KRewardParser.normalize_answer("$1,200.50")
        '1200.5'

    References:
        K. Cobbe et al., Training Verifiers to Solve Math Word Problems, 2021, arXiv:2110.14168.
    """

    @staticmethod
    def normalize_answer(answer: str) -> str:
        """A number as it is compared.

        Args:
            answer: such as "$1,200.0".

        Returns:
            Such as "1200"; anything else than a number loses the signs alone.
        """
        text = answer.strip()
        for sign in ",$%":
            text = text.replace(sign, "")
        return text.rstrip("0").rstrip(".") if "." in text else text

    def _reference(self, answer: str) -> str:
        _, mark, number = answer.rpartition("####")
        if not mark:
            raise ValueError(f"An answer of GSM8K ends with '#### number'; got {answer!r:.200}.")
        return number

    def _equal(self, answer: str, reference: str) -> bool:
        return self.normalize_answer(answer).strip() == self.normalize_answer(reference).strip()
