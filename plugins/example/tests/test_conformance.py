"""The checks that Flambeau asks of every plugin."""

from flambeau.core.testing import parametrize_with_checks


@parametrize_with_checks("example")
def test_conformance(check):
    check()
