"""What the recipes' command lines have in common."""

import importlib
import json

import pytest
import recipe_options

RECIPES = (
    "ctc_inference", "dnn_beamformer", "forced_alignment", "hubert_finetune", "hubert_pretrain", "source_separation",
    "tacotron2", "wavernn",
)  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_explains_itself_and_has_a_trial(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"python audio/recipes/{name}.py --tiny" in shown
    assert "--json" in shown


def test_results_are_lines_or_json(capsys):
    recipe_options.report({"word_error_rate": 2.5, "bundle": "X"}, as_json=False)
    assert capsys.readouterr().out == "word error rate: 2.5000\nbundle: X\n"
    recipe_options.report({"steps": 3, "history": [{"loss": 0.5}]}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"steps": 3, "history": [{"loss": 0.5}]}


def test_what_a_trial_can_do_without_must_else_be_given(capsys):
    parser = recipe_options.parser_of("A recipe.")
    parser.add_argument("--root")
    recipe_options.add_training(parser)
    with pytest.raises(SystemExit):
        recipe_options.required(parser, parser.parse_args(["--out", "run"]), "root", "out", "stop_after")
    assert "--root, --stop-after must be given, or --tiny" in capsys.readouterr().err
