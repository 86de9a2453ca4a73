"""Calls of tools in the responses of language models: what they are, how they are written, and who answers them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "JSONCallParser",
    "LLMToolParser",
    "ParseResult",
    "ToolCall",
    "ToolRegistry",
    "ToolService",
    "XMLBlockParser",
]

_BLOCK = re.compile(r'<tool\s+name="([^"]*)"(?:\s+tag="([^"]*)")?\s*>(.*?)</tool>', re.DOTALL)


@dataclass
class ToolCall:
    """One call of a tool.

    Args:
        tool: its name.
        args: what it is called with.
        tag: by which the model tells the answer from others.
    """

    tool: str
    args: dict[str, Any]
    tag: str | None = None


class ParseResult(dict[str, Any]):
    """What a parser found: "text", what is left for the user; "calls", in their order; "meta", what the parser adds."""


class ToolService(Protocol):
    """A tool: called with keyword arguments, returns a dictionary.

    Its `name` is what models call it by; `schema_in` and `schema_out` describe arguments and answer.
    """

    name: str
    schema_in: dict[str, Any]
    schema_out: dict[str, Any]

    def __call__(self, **kwargs: Any) -> dict[str, Any]:
        """Do what the tool does.

        Args:
            kwargs: as `schema_in` says.
        """
        ...


class LLMToolParser(Protocol):
    """Finds the calls of tools in a response."""

    def __call__(self, response: str | dict[str, Any]) -> ParseResult:
        """The calls, and the text without them.

        Args:
            response: of a model.
        """
        ...


class ToolRegistry:
    """Tools by name.

    Args:
        services: the first of them.

    Example:
        >>> class Add:
        ...     name, schema_in, schema_out = "add", {"a": int, "b": int}, {"result": int}
        ...     def __call__(self, a, b, **kwargs):
        ...         return {"result": a + b}
        >>> ToolRegistry([Add()]).get("add")(a=1, b=2)
        {'result': 3}
    """

    def __init__(self, services: Sequence[ToolService] = ()) -> None:
        self._services = {service.name: service for service in services}

    def register(self, service: ToolService) -> None:
        """Add a tool, in the place of one of the same name.

        Args:
            service: the tool.
        """
        self._services[service.name] = service

    def get(self, name: str) -> ToolService:
        """A tool.

        Args:
            name: its name.

        Raises:
            KeyError: there is none.
        """
        if name not in self._services:
            raise KeyError(f"There is no tool {name!r}; there are {sorted(self._services)}.")
        return self._services[name]

    def __contains__(self, name: object) -> bool:
        return name in self._services


class XMLBlockParser:
    """Reads calls written as `<tool name="search" tag="A">{"query": "..."}</tool>`; the tag may be left out.

    Arguments that are no JSON are passed as the argument "raw".

    Example:
        >>> found = XMLBlockParser()('Wait. <tool name="search">{"query": "GAE"}</tool>')
        >>> found["text"], found["calls"][0].args
        ('Wait.', {'query': 'GAE'})
    """

    def __call__(self, response: str | dict[str, Any]) -> ParseResult:
        """The calls of a response.

        Args:
            response: a text, or a dictionary with one at "text".

        Raises:
            TypeError: it is neither.
        """
        text = _text(response, "text")
        calls = [ToolCall(name, _arguments(body), tag or None) for name, tag, body in _BLOCK.findall(text)]
        return ParseResult(text=_BLOCK.sub("", text).strip(), calls=calls, meta={"count": len(calls)})


def _text(response: Any, key: str) -> str:
    if isinstance(response, str):
        return response
    if not isinstance(response, Mapping):
        raise TypeError(f"A response is a text or a dictionary; got {type(response).__name__}.")
    return str(response.get(key, ""))


def _arguments(body: str) -> Any:
    if not body.strip():
        return {}
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return {"raw": body.strip()}


class JSONCallParser:
    """Reads calls written as `{"message": "...", "tools": [{"tool": "search", "args": {...}, "tag": "A"}]}`.

    A text that is no JSON is a message without calls.

    Example:
        >>> JSONCallParser()({"message": "Wait.", "tools": [{"tool": "search", "args": {"query": "GAE"}}]})["calls"]
        [ToolCall(tool='search', args={'query': 'GAE'}, tag=None)]
    """

    def __call__(self, response: str | dict[str, Any]) -> ParseResult:
        """The calls of a response.

        Args:
            response: a text, or what it says in JSON.

        Raises:
            TypeError: it is JSON, but not as above.
        """
        if isinstance(response, str):
            try:
                response = json.loads(response)
            except (ValueError, RecursionError):
                return ParseResult(text=response, calls=[], meta={"count": 0})
        message, tools = _text(response, "message"), response.get("tools", [])  # type: ignore[union-attr]
        if not isinstance(tools, list):
            raise TypeError(f"'tools' is a list of calls; got {type(tools).__name__}.")
        calls = [_call(each) for each in tools]
        return ParseResult(text=message, calls=calls, meta={"count": len(calls)})


def _call(given: Any) -> ToolCall:
    if not isinstance(given, Mapping) or not {"tool", "args"} <= set(given) <= {"tool", "args", "tag"}:
        raise TypeError(f"A call has 'tool', 'args' and may have a 'tag'; got {given!r:.200}.")
    return ToolCall(**given)
