"""Configuration files: where they are looked for, what stands over what, and what is wrong with them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from flambeau.launch.runner import config


def write(folder: Path, text: str, name: str = ".flambeauconfig") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


def applied(scheduler: str = "local_cwd", **given):
    options = dict(given)
    config.apply(scheduler, options)
    return options


def test_the_current_folder_stands_over_home_and_a_call_over_both(tmp_path):
    write(tmp_path / "home", "[local_cwd]\nlog_dir = home\nprepend_cwd = true\n")
    write(Path.cwd(), "[local_cwd]\nlog_dir = here\n")
    assert applied() == {"log_dir": "here", "prepend_cwd": True}
    assert applied(log_dir="call") == {"log_dir": "call", "prepend_cwd": True}
    assert applied(log_dir=None)["log_dir"] is None


def test_upstreams_file_is_read_where_ours_is_not():
    write(Path.cwd(), "[local_cwd]\nlog_dir = theirs\n", ".torchxconfig")
    assert applied() == {"log_dir": "theirs"}
    write(Path.cwd(), "[local_cwd]\nlog_dir = ours\n")
    assert applied() == {"log_dir": "ours"}


@pytest.mark.parametrize("variable", ["FLAMBEAUCONFIG", "TORCHXCONFIG"])
def test_a_file_that_the_environment_names_is_the_only_one(variable, monkeypatch, tmp_path):
    write(Path.cwd(), "[local_cwd]\nlog_dir = here\n")
    (tmp_path / "other").write_text("[local_cwd]\nprepend_cwd = true\n")
    monkeypatch.setenv(variable, str(tmp_path / "other"))
    assert applied() == {"prepend_cwd": True}
    monkeypatch.setenv(variable, "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        applied()


def test_sections_of_components_keep_percent_signs_and_capitals():
    write(Path.cwd(), "[component:dist.ddp]\nmemMB = 5\nenv = A=%d\n")
    assert config.load_sections("component") == {"dist.ddp": {"memMB": "5", "env": "A=%d"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[local_cwd\nlog_dir=x", "cannot be read"),
        ("log_dir=x", "cannot be read"),
        ("[local_cwd]\nprepend_cwd = maybe", "'prepend_cwd' is true or false"),
        ("[aws_batch]\npriority = x", "'priority' must be of type int"),
        ("[local_cwd]\nlog_dir = \x00\xff", None),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(text, said):
    write(Path.cwd(), text)
    if said is None:
        assert "log_dir" in applied()
        return
    with pytest.raises(ValueError, match=said) as caught:
        applied("aws_batch" if "aws" in text else "local_cwd")
    assert ".flambeauconfig" in str(caught.value)


def test_an_option_that_nobody_has_is_told_and_left_out(caplog):
    write(Path.cwd(), "[local_cwd]\nlogdir = x\n")
    assert applied() == {}
    assert "did you mean log_dir" in caplog.text


def test_a_written_file_reads_back_as_the_defaults():
    text = io.StringIO()
    config.dump(text, ["local_cwd", "slurm"])
    write(Path.cwd(), text.getvalue())
    assert applied("slurm") == dict.fromkeys(
        ("partition", "time", "comment", "constraint", "mail-user", "mail-type", "job_dir")
    )
    assert applied()["prepend_cwd"] is False


def test_required_options_are_to_be_filled_in():
    text = io.StringIO()
    config.dump(text, ["kubernetes"], required_only=True)
    assert text.getvalue().splitlines()[:2] == ["[kubernetes]", "queue = #FIXME:queue of Volcano that it waits in"]
    write(Path.cwd(), text.getvalue())
    assert applied("kubernetes") == {}
