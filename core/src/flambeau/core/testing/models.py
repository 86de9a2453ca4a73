"""Models by name, asked what models are asked."""

from __future__ import annotations

from flambeau.core.registry import MODELS
from flambeau.core.testing.model_checks import CHECKS
from flambeau.core.testing.model_subject import ModelSubject
from flambeau.core.testing.results import BoundCheck, Level, Result, bind, run
from flambeau.core.testing.samples import provision


def check_model(name: str, *, samples: object | None = None, level: Level = "default") -> list[Result]:
    """Ask everything that models are asked.

    Args:
        name: canonical id or short name of a registered model.
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.
        level: "full" compiles and exports too, and computes models of more than 100 million parameters.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
    """
    return run(bind_model(name, samples=samples, level=level))


def bind_model(name: str, *, samples: object | None = None, level: Level = "default") -> list[BoundCheck]:
    """The checks of one model."""
    entry = MODELS.entry(name)
    provided = provision(samples, entry.plugin)
    subject = ModelSubject(entry.id, provided, level)
    return bind(CHECKS, subject, entry.id, level=level, expected_failures=provided.expected_failures)
