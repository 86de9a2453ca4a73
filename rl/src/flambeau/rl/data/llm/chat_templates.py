"""Templates that write conversations as text, with the assistant's words marked, and how a tokenizer's is chosen.

Tokenizers' own templates rarely mark what the assistant says (`{% generation %}`), without which no mask of its tokens
can be made; these do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["CHAT_TEMPLATES", "INVERSE_PARSERS", "add_template", "family_of", "template_of"]

_CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '' }}{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# What Qwen 2.5 was trained on: functions in the system message, calls and answers between tags.
_QWEN = (
    "{% set first = messages[0] %}"
    "{{ '<|im_start|>system\\n' }}"
    "{{ first['content'] if first['role'] == 'system' else 'You are a helpful assistant.' }}"
    "{% if tools %}"
    "{{ '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n"
    "You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}"
    "{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}"
    "{{ '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\\n<tool_call>\\n"
    '{"name": <function-name>, "arguments": <args-json-object>}'
    "\\n</tool_call>' }}"
    "{% endif %}"
    "{{ '<|im_end|>\\n' }}"
    "{% for message in messages %}"
    "{% set role = message['role'] %}"
    "{% if role == 'user' or (role == 'system' and not loop.first) %}"
    "{{ '<|im_start|>' + role + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% elif role == 'assistant' and not message['tool_calls'] %}"
    "{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] }}{% endgeneration %}{{ '<|im_end|>\\n' }}"
    "{% elif role == 'assistant' %}"
    "{{ '<|im_start|>assistant' }}"
    "{% if message['content'] %}"
    "{{ '\\n' }}{% generation %}{{ message['content'] }}{% endgeneration %}"
    "{% endif %}"
    "{% for call in message['tool_calls'] %}"
    "{% set called = call['function'] or call %}"
    "{% generation %}"
    "{{ '\\n<tool_call>\\n{\"name\": \"' + called['name'] + '\", \"arguments\": ' + (called['arguments'] | tojson) }}"
    "{{ '}\\n</tool_call>' }}"
    "{% endgeneration %}"
    "{% endfor %}"
    "{{ '<|im_end|>\\n' }}"
    "{% elif role == 'tool' %}"
    "{% if loop.first or loop.previtem['role'] != 'tool' %}{{ '<|im_start|>tool' }}{% endif %}"
    "{{ '\\n<tool_response>\\n' + message['content'] + '\\n</tool_response>' }}"
    "{% if loop.last or loop.nextitem['role'] != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_DIALOGPT = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ message['content'] }}{{ eos_token }}"
    "{% elif message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] }}{% endgeneration %}{{ eos_token }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ ' ' }}{% endif %}"
)


def _by_speaker(start: str, end: str) -> str:
    """Turns that begin with the speaker's name, after `start`, an assistant's turn with `end` behind it."""
    return (
        start + "{% for message in messages %}"
        "{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}"
        "{% elif message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
        "{% elif message['role'] == 'assistant' %}"
        "{{ 'Assistant:' }}{% generation %}{{ ' ' + message['content'] }}{% endgeneration %}" + end + "{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    )


_LLAMA = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' }}"
    "{% set parts = [{'text': message['content']}] if message['content'] is string else message['content'] %}"
    "{% for part in parts %}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ part['text'] }}{% endgeneration %}"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}"
    "{{ '<|eot|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\\n\\n' }}{% endif %}"
)

CHAT_TEMPLATES: dict[str, str] = {
    "chatml_format": _CHATML,
    "qwen": _QWEN,
    "dialogpt": _DIALOGPT,
    "falcon": _by_speaker("", "{{ '\\n' }}"),
    "deepseek": _by_speaker("{{ bos_token }}", "{{ eos_token }}"),
    "llama": _LLAMA,
}
INVERSE_PARSERS: dict[str, Callable[[str], Any]] = {}  # of added templates

_DEFAULT = "chatml_format"
_FAMILIES: dict[str, tuple[str, ...]] = {
    name: (name,) for name in ("qwen", "dialogpt", "falcon", "deepseek", "llama")
}  # template -> words in names of models that speak it


def add_template(
    name: str, template: str, inverse_parser: Callable[[str], Any] | None, keywords: Iterable[str] | None
) -> None:
    """Add a template to those that are known; see `flambeau.rl.data.llm.add_chat_template`."""
    if "{% generation %}" not in template:
        raise ValueError(
            f"template {name!r} marks nothing that the assistant says, so that no mask of its tokens can be made; put "
            "{% generation %} and {% endgeneration %} around the content of its messages."
        )
    CHAT_TEMPLATES[name] = template
    if inverse_parser is not None:
        INVERSE_PARSERS[name] = inverse_parser
    if keywords:
        _FAMILIES[name] = tuple(keyword.lower() for keyword in keywords)


def family_of(tokenizer: Any) -> str:
    """The name of the template that fits a tokenizer, by the name of its model; those added last come first."""
    model = str(getattr(tokenizer, "name_or_path", "")).lower()
    for name, keywords in reversed(_FAMILIES.items()):
        if any(keyword in model for keyword in keywords):
            return name
    return _DEFAULT


def template_of(tokenizer: Any, name: str | None) -> str:
    """The template of a name, or the one that fits the tokenizer.

    Raises:
        RuntimeError: neither is given.
        KeyError: no template has this name.
    """
    if name is None:
        if tokenizer is None:
            raise RuntimeError("tokenizer is missing; give it, or chat_template or chat_template_name.")
        name = family_of(tokenizer)
    if name not in CHAT_TEMPLATES:
        raise KeyError(
            f"chat_template_name is {name!r}, expected one of {sorted(CHAT_TEMPLATES)}; add_chat_template adds one."
        )
    return CHAT_TEMPLATES[name]
