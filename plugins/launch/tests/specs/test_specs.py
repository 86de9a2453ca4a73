"""Handles, macros, mounts, resources and states."""

from __future__ import annotations

import json

import pytest

from flambeau.launch.specs import (
    AppState,
    AppStatus,
    BindMount,
    DeviceMount,
    MalformedAppHandleException,
    ReplicaStatus,
    Resource,
    Role,
    RoleStatus,
    VolumeMount,
    macros,
    make_app_handle,
    named_resources,
    parse_app_handle,
    parse_mounts,
    resource,
)
from flambeau.launch.specs.status import AppStatusError


def test_a_handle_is_put_together_and_taken_apart():
    assert tuple(parse_app_handle(make_app_handle("slurm", "s", "12"))) == ("slurm", "s", "12")


@pytest.mark.parametrize("text", ["", "a", "local:///a", "local://s/", "local:/s/a"])
def test_what_is_no_handle_is_refused(text):
    with pytest.raises(MalformedAppHandleException, match="expected <scheduler>"):
        parse_app_handle(text)


def test_macros_are_filled_in_and_the_role_itself_stays():
    words = ["${replica_id}", "$${HOME}", "${unknown}"]
    role = Role("r", "i", args=words, env={"ID": "${app_id}"}, metadata={"kubernetes": ["${rank0_env}"]})
    filled = macros.Values("/img", "app-1", "3", "HOST").apply(role)
    assert filled.args == ["3", "${HOME}", "${unknown}"]
    assert (filled.env, filled.metadata) == ({"ID": "app-1"}, {"kubernetes": ["HOST"]})
    assert role.args == words


def test_mounts_are_read_one_after_the_other():
    words = [
        "type=bind",
        "src=/a",
        "dst=/b",
        "readonly",
        "type=volume",
        "source=v",
        "target=/v",
        "type=device",
        "src=/dev/x",
    ]
    assert parse_mounts(words) == [BindMount("/a", "/b", True), VolumeMount("v", "/v"), DeviceMount("/dev/x", "/dev/x")]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["src=/a"], KeyError),
        (["type=bind", "src=/a"], KeyError),
        (["type=bind", "sorce=/a"], KeyError),
        (["type=tape", "src=/a", "dst=/b"], ValueError),
        (["type=device", "src=/dev/x", "perm=q"], ValueError),
    ],
)
def test_mounts_that_make_no_sense_are_refused(words, error):
    with pytest.raises(error):
        parse_mounts(words)


def test_resources_are_known_by_name():
    assert resource(h="gpu.small") == named_resources["gpu.small"] == Resource(8, 1, 32768)
    assert resource() == Resource(2, 0, 1024)
    with pytest.raises(KeyError, match=r"Did you mean .*gpu.small"):
        named_resources["gpu.smal"]


def test_a_status_shows_the_first_error_of_its_replicas():
    error = {"message": {"message": "out of memory", "errorCode": 1, "extraInfo": {"timestamp": 0}}}
    replicas = [
        ReplicaStatus(1, AppState.FAILED, "r", "h1", json.dumps(error)),
        ReplicaStatus(0, AppState.RUNNING, "r", "h0"),
    ]
    status = AppStatus(AppState.FAILED, roles=[RoleStatus("r", replicas)])
    text = status.format()
    assert text.index("r[0]:RUNNING") < text.index("*r[1]:FAILED (exitcode: 1)")
    assert "out of memory" in text and "hostname: h1" in text
    assert "r[1]" not in status.format(["other"])


@pytest.mark.parametrize(
    "text", ["not JSON", "[1]", '{"message": "plain"}', '{"message": {"extraInfo": {"timestamp": "x"}}}']
)
def test_whatever_a_replica_wrote_as_its_error_a_status_can_be_shown(text):
    status = AppStatus(
        AppState.FAILED,
        structured_error_msg=text,
        roles=[RoleStatus("r", [ReplicaStatus(0, AppState.FAILED, "r", "h", text)])],
    )
    assert "r[0]:FAILED" in status.format() and "AppStatus" in repr(status)


def test_a_status_raises_unless_it_succeeded():
    AppStatus(AppState.SUCCEEDED).raise_for_status()
    with pytest.raises(AppStatusError) as caught:
        AppStatus(AppState.CANCELLED).raise_for_status()
    assert caught.value.status.state is AppState.CANCELLED
