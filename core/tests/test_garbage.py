"""Pauses of the garbage collector end with the work they were made for."""

from __future__ import annotations

import gc

import pytest

from flambeau.core.garbage import collection_paused


def test_nothing_is_collected_meanwhile_and_all_is_afterwards():
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause():
    with pytest.raises(ArithmeticError), collection_paused():
        raise ArithmeticError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
