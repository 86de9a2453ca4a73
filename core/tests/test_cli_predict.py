"""`flambeau predict` and `flambeau.core.predict`: from an input and a name to an answer."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from flambeau.core.cli import main
from flambeau.core.errors import MissingInputError, PredictError, UnknownNameError
from flambeau.core.predict import PredictOptions, plan, predict

MODULE = """
import json
from functools import partial
from pathlib import Path
import torch
from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction
from flambeau.core.weights import Weights, WeightsEnum, build_with_weights, register_model

class Scale:
    def __call__(self, text):
        return torch.tensor([float(word) for word in text.split()])

class Net_Weights(WeightsEnum):
    V1 = Weights("package:sums_plugin/net.pth", Scale, {"labels": ["plus", "minus"]}, sha256="DIGEST")
    DEFAULT = V1

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sign = torch.nn.Parameter(torch.zeros(2, 1))

    def forward(self, numbers):
        return (self.sign * numbers.sum()).flatten()

@register_model(task="sum-sign")
def net(*, weights: Net_Weights | None = None, progress: bool = True):
    return build_with_weights(Net, weights, progress=progress)

def answer(text, *, model, weights, device, dtype, options):
    assert not model.training and torch.is_inference_mode_enabled()
    numbers = weights.transforms()(text).to(device, dtype)
    scores = model(numbers).tolist()
    rows = [{"class": name, "score": score, "dtype": str(dtype)} for name, score in zip(weights.meta["labels"], scores)]
    rows = sorted(rows, key=lambda row: -row["score"])[: options.top]
    return Prediction(rows, ("class", "score"), f"sign of {text.strip()}", lambda path: Path(path).write_text(text))

def from_file(source, **options):
    return answer(Path(source).read_text(), **options)

def act(env, *, model, weights, device, dtype, options):
    return Prediction([{"env": env, "return": float(model.sign.sum())}], ("env", "return"), f"in {env}")
"""


@pytest.fixture
def sums(site: Any) -> Any:
    checkpoint = io.BytesIO()
    torch.save({"sign": torch.tensor([[1.0], [-1.0]])}, checkpoint)
    digest = hashlib.sha256(checkpoint.getvalue()).hexdigest()
    model = {"name": "net", "target": "sums_plugin:net", "weights": "sums_plugin:Net_Weights", "task": "sum-sign"}
    weights = {"model": "net", "enum": "sums_plugin:Net_Weights", "name": "V1", "url": "package:sums_plugin/net.pth"}
    folder = site.add(
        "sums",
        {
            "models": [model, {"name": "taskless", "target": "sums_plugin:net"}],
            "weights": [
                weights | {"sha256": digest, "default": True, "task": "sum-sign"},
                weights | {"model": "taskless", "enum": "sums_plugin:Other_Weights"},
                weights | {"model": "odd", "enum": "sums_plugin:Odd_Weights", "task": "sum-sing"},
            ],
            "predictors": [
                {
                    "task": "sum-sign",
                    "target": "sums_plugin:from_file",
                    "suffixes": [".num"],
                    "default_weights": "sums/net:V1",
                }
            ],
        },
        modules={"__init__.py": MODULE.replace("DIGEST", digest)},
    )
    (folder / "net.pth").write_bytes(checkpoint.getvalue())
    return site


@pytest.fixture
def texts(sums: Any) -> Any:
    """A second plugin, which answers the same task about texts."""
    sums.add("texts", {"predictors": [{"task": "text-sign", "target": "sums_plugin:answer", "accepts": "text"}]})
    model = {"name": "words", "target": "sums_plugin:net", "weights": "sums_plugin:Net_Weights", "task": "text-sign"}
    weights = {
        "model": "words",
        "enum": "sums_plugin:Net_Weights",
        "name": "V1",
        "url": "package:sums_plugin/net.pth",
        "default": True,
    }
    sums.add("words", {"models": [model], "weights": [weights]})
    return sums


@pytest.fixture
def policies(sums: Any) -> Any:
    """A plugin whose model acts in an environment."""
    model = {"name": "walker", "target": "sums_plugin:net", "weights": "sums_plugin:Net_Weights", "task": "walking"}
    weights = {
        "model": "walker",
        "enum": "sums_plugin:Net_Weights",
        "name": "V1",
        "url": "package:sums_plugin/net.pth",
        "default": True,
    }
    predictor = {"task": "walking", "target": "sums_plugin:act", "accepts": "environment"}
    predictor |= {"environments": {"Walker-v1": "walkers/walker:V1"}}
    sums.add("walkers", {"models": [model], "weights": [weights], "predictors": [predictor]})
    return sums


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "some.num"
    path.write_text("1 2 -8.5\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--weights", "sums/net:V1"],
        ["--weights", "net:DEFAULT"],
        ["--weights", "Net_Weights.V1"],
        ["--model", "net"],
        ["--model", "net", "--weights", "V1"],
        ["--model", "sums/net", "--weights", "Net_Weights.DEFAULT"],
    ],
    ids=" ".join,
)
def test_a_file_is_answered_by_suffix_weights_or_model(
    words: list[str], sums: Any, numbers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(numbers), *words]) == 0
    assert capsys.readouterr().out == "minus\t5.5\nplus\t-5.5\n"


def test_probabilities_are_shown_in_percent_and_kept_as_they_are_in_json(
    sums: Any, numbers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = numbers.parent / "site" / "sums_plugin" / "__init__.py"
    module.write_text(module.read_text().replace('"score"', '"probability"'))

    assert main(["predict", str(numbers), "--top", "1"]) == 0
    assert capsys.readouterr().out == "minus\t550.0 %\n"
    assert main(["predict", str(numbers), "--top", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["probability"] == 5.5


def test_json_says_what_was_used(sums: Any, numbers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(numbers), "--top", "1", "--dtype", "float64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "source": str(numbers),
        "task": "sum-sign",
        "model": "sums/net",
        "weights": "sums/net:V1",
        "title": "sign of 1 2 -8.5",
        "columns": ["class", "score"],
        "rows": [{"class": "minus", "score": 5.5, "dtype": "torch.float64"}],
        "out": None,
    }


def test_the_answer_is_drawn_into_a_file(
    sums: Any, numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(numbers), "--out", str(tmp_path / "drawn.txt")]) == 0
    assert (tmp_path / "drawn.txt").read_text() == numbers.read_text()
    assert "drawn.txt" in capsys.readouterr().err


def test_a_folder_for_the_drawing_that_is_not_there_is_named_first(
    sums: Any, numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(numbers), "--out", str(tmp_path / "no" / "drawn.txt")]) == 1
    assert capsys.readouterr().err.startswith("flambeau: error: --out: the folder")


def test_a_text_is_given_as_it_is_or_in_a_file_or_through_stdin(
    texts: Any, numbers: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("3 -1"))
    for source, best in (
        ("1 2", "plus\t3"),
        (str(numbers), "minus\t5.5"),
        ("-", "plus\t2"),
        ("7 " * 999, "plus\t6993"),
    ):
        assert main(["predict", source, "--weights", "words/words:V1", "--top", "1"]) == 0
        assert capsys.readouterr().out == f"{best}\n"


def test_a_prediction_is_made_from_python_too(sums: Any, numbers: Path) -> None:
    prediction = predict(numbers, weights="sums/net:DEFAULT", options=PredictOptions(top=1))
    assert prediction.rows[0]["class"] == "minus"


def test_a_plan_imports_no_plugin(sums: Any, numbers: Path) -> None:
    import sys

    assert plan(numbers).task == "sum-sign"
    assert "sums_plugin" not in sys.modules


def test_the_models_own_plugin_answers_before_others(sums: Any, numbers: Path) -> None:
    sums.add("first", {"predictors": [{"task": "sum-sign", "target": "nowhere:answer"}]})
    assert plan(numbers).predictor == "sums_plugin:from_file"


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("some.nun", {"weights": "net:V1"}, MissingInputError, "Close names there: some.num"),
        ("some.num", {"weights": "net:V2"}, UnknownNameError, "net:V1"),
        ("some.num", {"model": "nett"}, UnknownNameError, "sums/net"),
        ("some.num", {"model": "net", "weights": "V2"}, PredictError, "it has sums/net:V1"),
        ("some.jpg", {}, PredictError, "there are some for .num"),
        ("some.num", {"weights": "taskless:V1"}, PredictError, "states no task"),
        ("some.num", {"weights": "odd:V1"}, UnknownNameError, "no model 'sums/odd'"),
        ("some.num", {"model": "taskless", "weights": "V1"}, PredictError, "register_model"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    source: str, options: dict[str, str], error: type[Exception], message: str, sums: Any, numbers: Path
) -> None:
    with pytest.raises(error, match=message):
        plan(numbers.with_name(source), **options)


def test_a_task_without_a_predictor_names_those_there_are(sums: Any, numbers: Path) -> None:
    sums.add(
        "lone",
        {
            "models": [{"name": "lone", "target": "sums_plugin:net", "task": "sum-sing"}],
            "weights": [{"model": "lone", "enum": "sums_plugin:W", "name": "V1", "url": "package:sums_plugin/net.pth"}],
        },
    )

    with pytest.raises(PredictError, match=r"no installed plugin has a predictor for the task 'sum-sing'.*sum-sign"):
        plan(numbers, weights="lone/lone:V1")


def test_two_defaults_for_a_suffix_are_a_choice_to_make(sums: Any, numbers: Path) -> None:
    predictor = {"task": "t", "target": "x_plugin:f", "suffixes": [".num"], "default_weights": "x/net:V1"}
    sums.add("x", {"predictors": [predictor]})

    with pytest.raises(PredictError, match="sums/net:V1, x/net:V1"):
        plan(numbers)


def test_what_looks_like_no_file_gets_the_default_for_texts(texts: Any) -> None:
    record = {"task": "x", "target": "sums_plugin:answer", "accepts": "text", "default_weights": "words/words:V1"}
    texts.add("default", {"predictors": [record]})

    for text in ("one", "it is 1.5 or 2.5", "a sentence. And another", "line\nline\0" * 999):
        assert plan(text).weights.id == "words/words:V1"
    with pytest.raises(PredictError, match=r"no installed plugin has default weights for 'misspelled\.nmu'"):
        plan("misspelled.nmu")


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_a_device_that_cannot_be_used_is_named(device: str, sums: Any, numbers: Path) -> None:
    with pytest.raises(PredictError, match=device):
        predict(numbers, device=device)


def test_at_least_one_row_is_asked_for(sums: Any, numbers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(numbers), "--top", "0"]) == 1
    assert "expected at least 1" in capsys.readouterr().err


def test_a_task_that_compares_files_gets_them_all(
    sums: Any, numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.num"
    more.write_text("10")
    record = {"task": "sum-of-files", "target": "several_plugin:answer", "accepts": "files"}
    model = {"name": "several", "target": "sums_plugin:net", "weights": "sums_plugin:Net_Weights"}
    weights = {
        "model": "several",
        "enum": "sums_plugin:Net_Weights",
        "name": "V1",
        "url": "package:sums_plugin/net.pth",
        "default": True,
        "task": "sum-of-files",
    }
    sums.add(
        "several",
        {"predictors": [record], "models": [model], "weights": [weights]},
        modules={
            "__init__.py": """
                from pathlib import Path
                import sums_plugin

                def answer(sources, **options):
                    return sums_plugin.answer(" ".join(Path(one).read_text() for one in sources), **options)
            """
        },
    )
    words = ["--weights", "several/several:V1", "--top", "1"]
    assert main(["predict", str(numbers), str(more), *words]) == 0
    assert capsys.readouterr().out == "plus\t4.5\n"
    assert main(["predict", str(numbers), str(more), *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == [str(numbers), str(more)]
    assert predict([numbers], weights="several/several:V1").rows[0]["class"] == "minus"
    with pytest.raises(MissingInputError, match=r"absent\.num"):
        plan([numbers, tmp_path / "absent.num"], weights="several/several:V1")


def test_a_task_of_one_input_refuses_more(sums: Any, numbers: Path) -> None:
    with pytest.raises(PredictError, match=r"'sum-sign' takes one input, 2 were given"):
        plan([numbers, numbers])
    with pytest.raises(PredictError, match="there is no input"):
        plan([])


@pytest.mark.parametrize("words", [[], ["--weights", "walkers/walker:V1"], ["--model", "walker"]], ids=" ".join)
def test_a_policy_acts_in_an_environment(words: list[str], policies: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--env", "Walker-v1", *words]) == 0
    assert capsys.readouterr().out == "Walker-v1\t0\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--env", "Walker-v2"],
            "no installed plugin has a policy for the environment 'Walker-v2'; there are some for",
        ),
        (["--env", "Walker-v1", "--model", "net"], "sums/net is no policy"),
        (["--env", "Walker-v1", "file.num"], "either an INPUT, or an environment"),
        ([], "either an INPUT, or an environment"),
    ],
    ids=str,
)
def test_what_cannot_act_is_told(
    words: list[str], message: str, policies: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *words]) != 0
    assert message in capsys.readouterr().err
