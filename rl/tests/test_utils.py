"""Seeds, timers, functions for ranges of versions, and words that mean yes or no."""

from __future__ import annotations

import types

import pytest
import torch

from flambeau.rl import _utils
from flambeau.rl._utils import (
    KeyDependentDefaultDict,
    auto_unwrap_transformed_env,
    compile_with_warmup,
    context_decorator,
    get_binary_env_var,
    implement_for,
    seed_generator,
    set_auto_unwrap_transformed_env,
    strtobool,
    timeit,
)


def test_seeds_follow_one_another():
    assert seed_generator(0) == 795726461
    seeds = [0]
    for _ in range(20):
        seeds.append(seed_generator(seeds[-1]))
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 - 1 for seed in seeds)


@pytest.mark.parametrize(("word", "meaning"), [("yes", True), ("On", True), (1, True), ("f", False), (False, False)])
def test_words_mean_yes_or_no(word, meaning):
    assert strtobool(word) is meaning


def test_other_words_are_an_error(monkeypatch):
    with pytest.raises(ValueError, match="neither yes nor no"):
        strtobool("perhaps")
    assert get_binary_env_var("NOTHING_OF_THE_KIND") is None
    monkeypatch.setenv("SOMETHING", "off")
    assert get_binary_env_var("SOMETHING") is False


def library(version):
    return types.SimpleNamespace(__version__=version)


@pytest.mark.parametrize(
    ("version", "chosen"),
    [("0.9", "old"), ("1.0", "middle"), ("1.9.9", "middle"), ("2.0.0a1", "new"), ("2.1+cpu", "new")],
)
def test_a_function_is_chosen_by_the_version_of_a_library(version, chosen):
    def installed():
        return library(version)

    @implement_for(installed, None, "1.0")
    def era():
        return "old"

    @implement_for(installed, "1.0", "2.0")
    def era():  # noqa: F811  # that is how such functions are written
        return "middle"

    @implement_for(installed, "2.0")
    def era():  # noqa: F811  # that is how such functions are written
        return "new"

    implement_for._implementations[f"{__name__}.{era.__qualname__}"][:-3] = []
    assert era() == chosen


def test_a_function_for_no_version_that_is_installed_is_an_error():
    @implement_for("nothing_of_the_kind")
    def era():
        return None

    with pytest.raises(ModuleNotFoundError, match="nothing_of_the_kind"):
        era()


def test_a_timer_sums_up_by_name_and_forgets_when_told_to():
    timeit.erase()
    for _ in range(3):
        with timeit("block"):
            pass
    timeit("function")(lambda: None)()
    assert timeit._REG["block"][2] == 3
    assert set(timeit.todict(prefix="time")) == {"time/block", "time/function"}
    assert "block took" in timeit.print()
    timeit.erase()
    assert timeit.todict() == {}


def test_whether_transformed_environments_are_unwrapped_is_set_for_a_block():
    assert auto_unwrap_transformed_env()
    with set_auto_unwrap_transformed_env(False):
        assert not auto_unwrap_transformed_env()
    assert auto_unwrap_transformed_env(allow_none=True) is None


def test_values_are_made_from_keys():
    made = KeyDependentDefaultDict(len)
    assert made["word"] == 4
    assert dict(made) == {"word": 4}


def test_a_function_runs_in_a_context():
    assert context_decorator(torch.no_grad, torch.is_grad_enabled)() is False


def test_the_first_calls_are_not_compiled():
    compiled = []

    def doubled(x):
        compiled.append(torch.compiler.is_compiling())
        return 2 * x

    function = compile_with_warmup(doubled, warmup=2, backend="eager", fullgraph=False)
    assert [function(torch.ones(1)).item() for _ in range(2)] == [2.0, 2.0]
    assert compiled == [False, False]


def test_folders_are_written_to_the_log(tmp_path, caplog):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file.txt").write_text("text")
    with caplog.at_level("INFO", logger="flambeau.rl"):
        _utils.print_directory_tree(tmp_path)
    assert any("file.txt" in message for message in caplog.messages)
