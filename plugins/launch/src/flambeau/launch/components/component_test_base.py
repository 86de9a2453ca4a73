"""What tests of components share; for unittest, as upstream has it."""

from __future__ import annotations

import time
import unittest
from collections.abc import Callable
from inspect import getabsfile
from types import ModuleType
from typing import Any

from flambeau.launch.runner import get_runner
from flambeau.launch.specs import AppDef, AppStatus
from flambeau.launch.specs.builders import materialize_appdef
from flambeau.launch.specs.file_linter import validate

__all__ = ["ComponentTestCase"]


class ComponentTestCase(unittest.TestCase):
    """A test case that can validate and run components."""

    def setUp(self) -> None:
        """Make a runner."""
        self._runner = get_runner()

    def tearDown(self) -> None:
        """Close it, and everything that it launched."""
        self._runner.close()

    def validate(self, module: ModuleType, function_name: str) -> None:
        """Fail where a component breaks the rules for components, or its `--help` cannot be shown."""
        messages = validate(getabsfile(module), function_name)
        self.assertEqual([], [message.description for message in messages])
        with self.assertRaises(SystemExit) as stop:
            materialize_appdef(getattr(module, function_name), ["--help"])
        self.assertEqual(0, stop.exception.code)

    def run_component(
        self,
        component: Callable[..., AppDef],
        args: dict[str, Any] | None = None,
        scheduler_params: dict[str, Any] | None = None,
        scheduler: str = "local_cwd",
        interval: float = 0.1,
        timeout: float = 1,
    ) -> AppStatus | None:
        """Run a component to its end.

        Args:
            component: the component.
            args: its arguments.
            scheduler_params: options of the scheduler.
            scheduler: its name.
            interval: seconds between two questions.
            timeout: seconds after which it is cancelled.

        Raises:
            TimeoutError: it was cancelled.
        """
        handle = self._runner.run(component(**(args or {})), scheduler, scheduler_params or {})
        end = time.monotonic() + timeout
        while True:
            status = self._runner.status(handle)
            if status is None or status.is_terminal():
                return status
            if time.monotonic() > end:
                self._runner.cancel(handle)
                raise TimeoutError(f"{handle} did not end within {timeout} seconds and was cancelled.")
            time.sleep(interval)
