"""The examples in docstrings print what they say; those that fetch a model at least import what there is."""

import doctest
import pkgutil
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

import flambeau.text

MODULES = [
    module.name
    for module in pkgutil.walk_packages(flambeau.text.__path__, "flambeau.text.")
    if not module.name.endswith(".libflambeau_text")  # the native library is no module
]
# Their models and vocabularies are fetched.
FETCHING = {
    "flambeau.text.models.bert.preprocessing.BertTransform",
    "flambeau.text.models.roberta.bundler.RobertaBundle",
    "flambeau.text.models.t5.bundler.T5Bundle",
    "flambeau.text.models.t5.t5_transform.T5Transform",
    "flambeau.text.prototype.generate.GenerationUtils",
}


def examples() -> dict[str, doctest.DocTest]:
    finder, globs = doctest.DocTestFinder(exclude_empty=True), {"torch": torch}
    found = [test for name in MODULES for test in finder.find(import_module(name), name, extraglobs=globs)]
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - FETCHING))
def test_an_example_prints_what_it_says(name):
    if "Regex" in name and not any(find_spec(engine) for engine in ("re2", "regex")):
        pytest.skip("needs google-re2 or regex")
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


@pytest.mark.parametrize("name", sorted(FETCHING))
def test_what_an_example_that_fetches_imports_exists(name):
    for example in EXAMPLES[name].examples:
        compile(example.source, name, "exec")
        if example.source.startswith("from "):
            exec(example.source, {})


def test_there_are_examples():
    assert len(EXAMPLES) >= 25
