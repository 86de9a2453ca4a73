"""Tools by name, in the order of their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from flambeau.rl.envs.llm.transforms.tools._base import ToolTransformBase
from flambeau.rl.envs.llm.transforms.tools._calls import LLMToolParser, ToolCall, ToolRegistry

__all__ = ["ExecuteToolsInOrder", "SimpleToolTransform"]


class ExecuteToolsInOrder(ToolTransformBase):
    """Runs the tools that a response calls, in the order of the calls, and adds one message with all their answers.

    What a tool raises is told to the model.

    Args:
        registry: of tools.
        parser: finds the calls.
        stop_on_error: calls after one that failed are not made.
        pass_state_to_tools: tools get what the environment gave, as the keyword argument `_state`.

    Example:
        >>> ExecuteToolsInOrder(ToolRegistry(), XMLBlockParser()).tool_role
        'tool'
    """

    def __init__(
        self,
        registry: ToolRegistry,
        parser: LLMToolParser,
        stop_on_error: bool = False,
        pass_state_to_tools: bool = True,
    ) -> None:
        super().__init__()
        self.registry = registry
        self.parser = parser
        self.stop_on_error = stop_on_error
        self.pass_state_to_tools = pass_state_to_tools
        self.__dict__["_state"] = None

    def _answered(self, tensordict: Any) -> Any:
        self.__dict__["_state"] = tensordict
        try:
            return super()._answered(tensordict)
        finally:
            self.__dict__["_state"] = None

    def _process_batch_item(self, content: str, index: int) -> list[Any] | None:
        answers = []
        for call in self.parser(content)["calls"]:
            answers.append(self._answer(call, index))
            if self.stop_on_error and "error" in answers[-1]:
                break
        return [answers] if answers else None

    def _answer(self, call: ToolCall, index: int) -> dict[str, Any]:
        found: dict[str, Any] = {"tool": call.tool, "tag": call.tag}
        try:
            if not isinstance(call.args, dict):
                raise TypeError(f"arguments are given by name; got {call.args!r:.200}")
            state = {"_state": self.__dict__["_state"]} if self.pass_state_to_tools else {}
            found["result"] = self.registry.get(call.tool)(**(call.args | state))
        except Exception as error:  # of whatever tool: the model is to read it
            found["error"] = str(error)
        return found

    def _format_result(self, result: Any) -> str:
        lines = ["<tool_results>"]
        for number, each in enumerate(result, 1):
            tag = f" [tag: {each['tag']}]" if each["tag"] else ""
            lines.append(f"Tool {each['tool']} (call {number}){tag} {'failed' if 'error' in each else 'succeeded'}:")
            lines.append(f"  Error: {each['error']}" if "error" in each else f"  Result: {_shown(each['result'])}")
        return "\n".join([*lines, "</tool_results>"])


def _shown(result: Any) -> str:
    return json.dumps(result, indent=2, default=str)


class SimpleToolTransform(ToolTransformBase):
    r"""Runs functions that responses call as `<tool>name\n{"argument": value}</tool>`; each answer becomes a message.

    Args:
        tools: name -> function of keyword arguments.
        tool_schemas: name -> what is told of it to models; default: nothing.
        parser: finds calls: of a response, a list of (name, arguments in JSON); default: by `tool_call_pattern`.
        tool_call_pattern: a regular expression with a group of the name and one of the arguments.
        tool_name: the role of the messages.
        timeout: seconds, for tools that ask for it.
    """

    _PATTERN = r"<tool>(.*?)\n(.*?)</tool>"

    def __init__(
        self,
        tools: dict[str, Callable[..., Any]],
        tool_schemas: dict[str, dict[str, Any]] | None = None,
        parser: Callable[[str], list[tuple[str, str]]] | None = None,
        tool_call_pattern: str | None = None,
        tool_name: str = "tool",
        timeout: float = 10.0,
    ) -> None:
        super().__init__()
        self.tools = dict(tools)
        self.tool_schemas = {} if tool_schemas is None else tool_schemas
        self.parser = parser
        self.tool_call_pattern = self._PATTERN if tool_call_pattern is None else tool_call_pattern
        self.tool_role = tool_name
        self.timeout = timeout

    def _calls(self, content: str) -> list[tuple[str, str]]:
        if self.parser is not None:
            return self.parser(content)
        return re.findall(self.tool_call_pattern, content, re.DOTALL)

    def _process_batch_item(self, content: str, index: int) -> list[Any] | None:
        return [(name, *self._answer(name, text)) for name, text in self._calls(content)] or None

    def _answer(self, name: str, text: str) -> tuple[bool, str]:
        """Whether a call succeeded, and what it returned or why not."""
        if name not in self.tools:
            return False, f"Tool {name} not found"
        try:
            arguments = json.loads(text)
            if not isinstance(arguments, dict):
                raise ValueError("they are no object")
        except (ValueError, RecursionError) as error:
            return False, f"Failed to parse tool arguments: {error}"
        try:
            return True, str(self.tools[name](**arguments))
        except Exception as error:  # of whatever tool: the model is to read it
            return False, f"Tool execution failed: {error}"

    def _format_result(self, result: Any) -> str:
        name, success, text = result
        return f"Tool {name} {'executed successfully' if success else 'failed'}:\n{text}"
