"""Python as a tool."""

from __future__ import annotations

import re
from typing import Any, Self

from flambeau.rl.envs.llm.transforms.tools._base import ToolTransformBase
from flambeau.rl.envs.llm.transforms.tools._processes import PersistentPythonProcess, run_python

__all__ = ["PythonInterpreter"]

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


class PythonInterpreter(ToolTransformBase):
    """Runs the Python code between ```` ```python ```` and ```` ``` ```` in responses; its output is the next message.

    Code runs in processes of its own, limited in time, memory and output, without the variables of this process's
    environment; see `PersistentPythonProcess`.

    Args:
        tokenizer: is kept, for transforms that look for one.
        tool_name: the role of the messages.
        persistent: each conversation of a batch keeps its process, and so its variables, from step to step.
        timeout: seconds that a block of code may take.
        services: "ray": code runs in a `PythonExecutorService` that environments share; None: in processes of this one.
        service_name: the actor's name.
        namespace: the actor's; default: that of the connection.

    Raises:
        ValueError: other services.
    """

    def __init__(
        self,
        tokenizer: Any = None,
        tool_name: str = "tool",
        persistent: bool = False,
        timeout: float = 10.0,
        services: str | None = None,
        service_name: str = "python_executor",
        namespace: str | None = None,
    ) -> None:
        if services not in (None, "ray"):
            raise ValueError(f"services is 'ray' or None; got {services!r}.")
        super().__init__()
        self.tokenizer = tokenizer
        self.tool_role = tool_name
        self.persistent = persistent
        self.timeout = timeout
        self.services = services
        self.service_name = service_name
        self.namespace = namespace
        self.processes: list[PersistentPythonProcess | None] = []
        self.python_service = None if services is None else _actor(service_name, namespace)

    def close(self) -> None:
        """End the processes; the shared ones stay."""
        for process in self.processes:
            if process is not None:
                process.cleanup()
        self.processes = []

    def clone(self) -> Self:
        """The same transform, with processes of its own."""
        twin = super().clone()
        twin.processes = []
        return twin

    def _process_batch_item(self, content: str, index: int) -> list[Any] | None:
        return [self._run(code, index) for code in _BLOCK.findall(content)] or None

    def _run(self, code: str, index: int) -> dict[str, Any]:
        if self.python_service is not None:
            import ray  # of an actor that it made

            found: dict[str, Any] = ray.get(self.python_service.execute.remote(code))
            return found
        if not self.persistent:
            return run_python(code, self.timeout)
        self.processes += [None] * (index + 1 - len(self.processes))
        process = self.processes[index]
        if process is None:
            process = self.processes[index] = PersistentPythonProcess(self.timeout)
        return process.execute(code)

    def _messages(self, results: Any) -> Any:
        numbered = [list(enumerate(each, 1)) if each else None for each in results]
        return super()._messages(numbered)

    def _format_result(self, result: Any) -> str:
        number, found = result
        if found["success"]:
            return f"Code block {number} executed successfully:\n{found['stdout']}"
        return f"Code block {number} failed:\n{found['stderr']}"


def _actor(name: str, namespace: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("services='ray' needs Ray; pip install flambeau-rl[ray].") from error
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError as error:
        raise RuntimeError(
            f"There is no actor {name!r}. Begin one: ray.remote(PythonExecutorService).options(name={name!r}).remote()."
        ) from error
