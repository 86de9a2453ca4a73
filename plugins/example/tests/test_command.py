"""The command, and predictions on the command line."""

import json

from flambeau.core.cli import main


def test_the_command_measures_the_model(capsys):
    assert main(["example", "--count", "40"]) == 0
    assert capsys.readouterr().out.endswith(" of 40 points of the test split are right\n")


def test_a_point_is_classified(capsys):
    assert main(["predict", "0.1, -0.4", "--weights", "example/spiral_net:DEFAULT", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {row["class"] for row in answer["rows"]} == {"first spiral", "second spiral"}
    assert sum(row["probability"] for row in answer["rows"]) > 0.999


def test_what_is_no_point_is_explained(capsys):
    assert main(["predict", "nowhere", "--weights", "example/spiral_net:DEFAULT"]) == 1
    assert "'nowhere' is no point" in capsys.readouterr().err


def test_the_weights_are_listed(capsys):
    assert main(["weights", "list", "example/*"]) == 0
    assert capsys.readouterr().out.startswith("example/spiral_net:SPIRALS_V1\t1218\t5320\t")
