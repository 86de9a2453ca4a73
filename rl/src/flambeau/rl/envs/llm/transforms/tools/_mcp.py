"""Tools of servers that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from flambeau.rl.envs.llm.transforms.tools._base import ToolTransformBase

__all__ = ["MCPToolTransform"]

STARTING_S = 60.0
"""Seconds that all servers together may take to begin."""


class MCPToolTransform(ToolTransformBase):
    r"""Runs tools of MCP servers, which responses call as `<tool>server.name\n{"argument": value}</tool>`.

    Servers are programs that are begun with the transform and speak over their standard streams. They get the
    variables of the environment that their configuration names, beside the few that programs need.

    Args:
        servers: name -> {"command": a program, "args": its arguments, "env": its variables}.
        tool_call_pattern: a regular expression with a group of "server.name" and one of the arguments.
        tool_name: the role of the messages.
        timeout: seconds that a call may take.

    Raises:
        ImportError: mcp is not installed.
        RuntimeError: a server does not begin.

    References:
        https://modelcontextprotocol.io
    """

    _PATTERN = r"<tool>([\w.]+)\n(.*?)</tool>"

    def __init__(
        self,
        servers: dict[str, dict[str, Any]],
        tool_call_pattern: str | None = None,
        tool_name: str = "tool",
        timeout: float = 10.0,
    ) -> None:
        super().__init__()
        self.server_configs = dict(servers)
        self.tool_call_pattern = self._PATTERN if tool_call_pattern is None else tool_call_pattern
        self.tool_role = tool_name
        self.timeout = timeout
        self.__dict__["_sessions"] = _Sessions(self.server_configs)

    def close(self) -> None:
        """End the servers. A second call does nothing."""
        self.__dict__["_sessions"].close()

    def _process_batch_item(self, content: str, index: int) -> list[Any] | None:
        calls = re.findall(self.tool_call_pattern, content, re.DOTALL)
        return [(name, *self._answer(name, text)) for name, text in calls] or None

    def _answer(self, name: str, text: str) -> tuple[bool, str]:
        """Whether a call succeeded, and what it returned or why not."""
        server, _, tool = name.partition(".")
        if server not in self.server_configs or not tool:
            return (
                False,
                f"There is no tool {name!r}; tools are called by 'server.name', of {sorted(self.server_configs)}.",
            )
        try:
            arguments = json.loads(text) if text.strip() else {}
            if not isinstance(arguments, dict):
                raise ValueError("they are no object")
        except (ValueError, RecursionError) as error:
            return False, f"Failed to parse tool arguments: {error}"
        return self.__dict__["_sessions"].call(server, tool, arguments, self.timeout)  # type: ignore[no-any-return]

    def _format_result(self, result: Any) -> str:
        name, success, text = result
        return f"Tool {name} {'executed successfully' if success else 'failed'}:\n{text}"


class _Sessions:
    """Connections to servers, held by a thread with an event loop."""

    def __init__(self, servers: dict[str, dict[str, Any]]) -> None:
        try:
            self._mcp = importlib.import_module("mcp")
            self._stdio = importlib.import_module("mcp.client.stdio").stdio_client
        except ImportError as error:
            raise ImportError(
                "MCPToolTransform speaks to servers by mcp, which is not installed; pip install mcp."
            ) from error
        self._servers = servers
        self._sessions: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
        self._thread.start()
        self._stop = self._run(_event(), STARTING_S)
        self._ready: asyncio.Future[None] = self._run(_future(), STARTING_S)
        # Connections are opened and closed by one task, as they ask for.
        self._held = asyncio.run_coroutine_threadsafe(self._hold(), self._loop)
        try:
            self._run(_result(self._ready), STARTING_S)
        except BaseException as error:
            self.close()
            raise RuntimeError(
                f"The servers {sorted(servers)} of MCPToolTransform do not begin: {_cause(error)}."
            ) from error

    def _run(self, what: Coroutine[Any, Any, Any], timeout: float) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(timeout)

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                for name, given in self._servers.items():
                    program = self._mcp.StdioServerParameters(
                        command=given["command"], args=list(given.get("args", ())), env=given.get("env")
                    )
                    streams = await stack.enter_async_context(self._stdio(program))
                    session = await stack.enter_async_context(self._mcp.ClientSession(*streams))
                    await session.initialize()
                    self._sessions[name] = session
                self._ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if not self._ready.done():
                self._ready.set_exception(error)

    def call(self, server: str, tool: str, arguments: dict[str, Any], timeout: float) -> tuple[bool, str]:
        if server not in self._sessions:
            return False, "The server was closed."
        try:
            found = self._run(asyncio.wait_for(self._sessions[server].call_tool(tool, arguments), timeout), timeout + 5)
        except TimeoutError:
            return False, f"The tool took longer than {timeout} s."
        except Exception as error:  # of whatever server: the model is to read it
            return False, f"Tool execution failed: {error}"
        texts = [getattr(part, "text", None) or str(part) for part in found.content]
        failed = getattr(found, "is_error", None) or getattr(found, "isError", False)
        return not failed, "\n".join(texts)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._sessions = {}
        self._loop.call_soon_threadsafe(self._stop.set)
        try:
            self._held.result(STARTING_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _cause(error: BaseException) -> str:
    """What was wrong, of errors in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def _result(future: asyncio.Future[None]) -> None:
    await future
