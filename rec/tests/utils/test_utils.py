"""Signatures, experimental names, percentiles, and decisions that are noted."""

from __future__ import annotations

import inspect
import logging
import warnings

import pytest

from flambeau.rec.errors import OptionError
from flambeau.rec.schema.utils import is_signature_compatible
from flambeau.rec.utils.emo_logger import DecisionCategory, EMODecision, EMOLogger, get_logger, log_emo_decision
from flambeau.rec.utils.experimental import experimental
from flambeau.rec.utils.percentile_logger import PercentileLogger

SIGNATURES = {
    "plain": lambda a, b=1: 0,
    "less": lambda a: 0,
    "more": lambda a, b=1, c=2: 0,
    "keyword": lambda a, b=1, *, c=1: 0,
    "required": lambda a, b=1, *, c: 0,
    "renamed": lambda a, x=1: 0,
    "default": lambda a, b=2: 0,
    "args": lambda a, b=1, *args: 0,
    "kwargs": lambda a, b=1, **kwargs: 0,
    "both": lambda a, b=1, *args, **kwargs: 0,
    "between": lambda a, c=2, b=1: 0,
    "keywords": lambda a, b=1, *, c=1, d=2: 0,
}
# What torchrec says of each as the previous one.
COMPATIBLE = {
    "plain": "plain more keyword required args kwargs both keywords",
    "less": "plain less more keyword required renamed default args kwargs both between keywords",
    "more": "more",
    "keyword": "keyword required keywords",
    "required": "keyword required keywords",
    "renamed": "renamed",
    "default": "default",
    "args": "args both",
    "kwargs": "more keyword required args kwargs both keywords",
    "both": "both",
    "between": "between",
    "keywords": "keywords",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_that_calls_fit_are_compatible(name):
    previous = inspect.signature(SIGNATURES[name])
    fitting = {
        other for other, made in SIGNATURES.items() if is_signature_compatible(previous, inspect.signature(made))
    }
    assert fitting == set(COMPATIBLE[name].split())


def test_annotations_are_part_of_a_signature():
    def before(a: int) -> int: ...
    def other_argument(a: float) -> int: ...
    def other_result(a: int) -> str: ...

    for after, same in ((before, True), (other_argument, False), (other_result, False)):
        assert is_signature_compatible(inspect.signature(before), inspect.signature(after)) is same


def test_what_is_experimental_says_so_once():
    @experimental
    def add(a, b):
        """Adds."""
        return a + b

    with pytest.warns(UserWarning, match="`add` is experimental"):
        assert add(1, b=2) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert add(2, 2) == 4
    assert add.__doc__ == "Adds."


def test_experimental_classes_stay_themselves():
    class Thing:
        def __init__(self, size):
            self.size = size

    assert experimental(Thing, feature="things", since="1.2") is Thing
    with pytest.warns(UserWarning, match=r"\[since 1\.2\] `things`"):
        assert Thing(3).size == 3
    with pytest.raises(OptionError, match="expected a function or a class"):
        experimental(3)


def test_percentiles_of_the_last_values_are_logged(caplog):
    with caplog.at_level(logging.INFO):
        logger = PercentileLogger("latency", window_size=5, log_interval=6)
        for value in range(6):
            logger.add(float(value))
    (line,) = caplog.messages
    assert line == "latency of the last 5: p50=3, p75=4, p90=4.6, p95=4.8, p99=4.96"
    PercentileLogger("nothing").log_percentiles()
    assert len(caplog.messages) == 1
    with pytest.raises(OptionError, match="window_size is 0"):
        PercentileLogger("latency", 0)


def test_decisions_are_kept_and_logged(caplog):
    logger = get_logger()
    assert logger is EMOLogger.get_instance()
    logger.reset()
    with caplog.at_level(logging.DEBUG):
        log_emo_decision(DecisionCategory.CLF, logging.INFO, "half of the rows", table_name="t", share=0.5)
        logger.log(DecisionCategory.KERNEL, logging.DEBUG, "as asked")
    assert logger.get_summary().decisions == [
        EMODecision(DecisionCategory.CLF, "half of the rows", "t", {"share": 0.5}),
        EMODecision(DecisionCategory.KERNEL, "as asked"),
    ]
    assert caplog.messages == ["[clf] t: half of the rows share=0.5", "[kernel] as asked"]
    logger.get_summary().clear()
    assert logger.get_summary().decisions == []
