"""The process that watches over a detached application: `python -m flambeau.launch.schedulers.local_supervisor FILE`.

It says "started", or why not, in one line on its output, and then needs nobody any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flambeau.launch.schedulers.local_apps import LocalApp, PopenRequest, RestartRule
from flambeau.launch.schedulers.local_images import ReplicaParam
from flambeau.launch.specs.apps import RetryPolicy

__all__ = ["decoded", "encoded", "main"]


def encoded(request: PopenRequest, session: str, described: dict[str, Any]) -> dict[str, Any]:
    """A request as JSON has it."""
    return {"request": asdict(request), "session": session, "described": described}


def decoded(fields: dict[str, Any]) -> tuple[PopenRequest, str, dict[str, Any]]:
    """What `encoded` made."""
    request = dict(fields["request"])
    params = {role: [ReplicaParam(**one) for one in many] for role, many in request.pop("role_params").items()}
    rules = {
        role: RestartRule(rule["max_retries"], RetryPolicy(rule["policy"]))
        for role, rule in request.pop("restarts").items()
    }
    return PopenRequest(**request, role_params=params, restarts=rules), fields["session"], fields["described"]


def main(argv: list[str]) -> int:
    """Start an application, wait for its end, and return 0 where it was reached."""
    if os.fork():  # whoever launched it waits for this process alone, and is nobody's parent
        os._exit(0)
    request, session, described = decoded(json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    application = LocalApp(request, session, described)
    try:
        application.start()
    except OSError as error:
        print(error, flush=True)  # noqa: T201  (the launcher reads it)
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: setattr(application, "_cancelled", True))
    print("started", flush=True)  # noqa: T201  (the launcher reads it)
    # The launcher may close its end, and nothing is written any more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    application.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
