"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import flambeau.data.dataloader2
import flambeau.data.datapipes

MODULES = [
    module.name
    for package in (flambeau.data.datapipes, flambeau.data.dataloader2)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 7


def test_a_module_that_is_imported_again_registers_its_methods_again():
    from flambeau.data.datapipes.datapipe import IterDataPipe
    from flambeau.data.datapipes.iter import shard_names

    before = IterDataPipe.functions["shard_expand"]
    importlib.reload(shard_names)
    assert IterDataPipe.functions["shard_expand"] is not before
    IterDataPipe.functions["shard_expand"] = before
