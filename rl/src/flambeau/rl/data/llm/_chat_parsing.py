"""Text that was written by a chat template, taken apart into messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.rl.errors import ChatFormatError

__all__ = ["PARSERS", "Message"]

Message = dict[str, Any]

_CHATML = re.compile(r"<\|im_start\|>([^\n]*?)\n(.*?)(<\|im_end\|>|<\|endoftext\|>|\Z)", re.DOTALL)
_LLAMA = re.compile(r"<\|header_start\|>(.*?)<\|header_end\|>\n\n(.*?)(<\|eot\|>|\Z)", re.DOTALL)
_TOOL_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_TOOL_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_SPEAKER = re.compile(r"(User|Assistant):")
_SENTENCE_ENDS = ("<|end_of_sentence|>", "<｜end▁of▁sentence｜>")
_SENTENCE_STARTS = ("<|begin_of_sentence|>", "<｜begin▁of▁sentence｜>")


def _unreadable(text: str, name: str) -> ChatFormatError:
    return ChatFormatError(
        f"text has no message in the format {name!r}: {text[:200]!r}. Keep special tokens when decoding "
        "(skip_special_tokens=False; vLLM: include_stop_str_in_output=True), and name the template that wrote it."
    )


def _tool_fields(role: str, content: str) -> dict[str, list[Any]]:
    """What an assistant calls, and what others answer to that."""
    if role == "assistant":
        calls = []
        for found in _TOOL_CALL.findall(content):
            try:
                calls.append(json.loads(found))
            except json.JSONDecodeError:  # a model wrote it: then it is plain text
                continue
        return {"tool_calls": calls} if calls else {}
    responses = _TOOL_RESPONSE.findall(content)
    return {"tool_responses": responses} if responses else {}


def _tagged(pattern: re.Pattern[str], text: str) -> Iterator[Message]:
    for role, content, end in pattern.findall(text):
        role, content = role.strip(), content.strip()
        yield {"role": role, "content": content, "is_complete": bool(end), **_tool_fields(role, content)}


def _chatml(text: str, eos: str | None) -> list[Message]:
    return list(_tagged(_CHATML, text))


def _qwen(text: str, eos: str | None) -> list[Message]:
    return _without_prompt(list(_tagged(_CHATML, text)))


def _llama(text: str, eos: str | None) -> list[Message]:
    return _without_prompt(list(_tagged(_LLAMA, text)))


def _without_prompt(messages: list[Message]) -> list[Message]:
    """Without the beginning of an answer that has no words yet."""
    if messages and not messages[-1]["content"] and not messages[-1]["is_complete"]:
        return messages[:-1]
    return messages


def _dialogpt(text: str, eos: str | None) -> list[Message]:
    if eos is not None and eos in text:
        turns = [turn.strip() for turn in text.removesuffix(" ").removesuffix(eos).split(eos)]
        return [_complete(("user", "assistant")[at % 2], turn) for at, turn in enumerate(turns)]
    messages = []
    for line in filter(None, map(str.strip, text.splitlines())):
        speaker = _SPEAKER.match(line)
        role = speaker[1].lower() if speaker else "user"
        messages.append(_complete(role, line[speaker.end() :].strip() if speaker else line))
    return messages


def _by_speaker(text: str, eos: str | None) -> list[Message]:
    """Turns that begin with the speaker's name; what stands before the first is the system's."""
    for token in (*_SENTENCE_STARTS, *_SENTENCE_ENDS, *filter(None, [eos])):
        text = text.replace(token, "")
    before, *turns = _SPEAKER.split(text)
    messages = [_complete("system", before.strip())] if before.strip() and turns else []
    for speaker, content in zip(turns[::2], turns[1::2], strict=True):
        messages.append(_complete(speaker.lower(), content.strip()))
    if messages and messages[-1] == _complete("assistant", ""):
        messages.pop()
    return messages


def _complete(role: str, content: str) -> Message:
    return {"role": role, "content": content, "is_complete": True}


PARSERS: dict[str, Callable[[str, str | None], list[Message]]] = {
    "chatml_format": _chatml,
    "qwen": _qwen,
    "dialogpt": _dialogpt,
    "falcon": _by_speaker,
    "deepseek": _by_speaker,
    "llama": _llama,
}


def messages_of(text: str, name: str, eos: str | None) -> list[Message]:
    """The messages of a text.

    Args:
        text: as the template wrote it, with its special tokens.
        name: of the template, one of `PARSERS`.
        eos: the token behind each turn, where the template takes the tokenizer's.

    Raises:
        ChatFormatError: there is no message in it.
    """
    messages = PARSERS[name](text, eos)
    if not messages:
        raise _unreadable(text, name)
    return messages
