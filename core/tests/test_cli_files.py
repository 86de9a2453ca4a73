"""Fetching, verifying, finding and removing the files of weights and datasets, from a real server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.cli import main
from flambeau.core.testing.server import FileServer, Reply

BODY = b"parameters" * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()
IDS = ["alpha/net:V1", "alpha/net:V2"]


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"v1.pth": BODY, "v2.pth": BODY[::-1], "set.bin": BODY}) as running:
        yield running


@pytest.fixture
def plugin(site: Any, server: FileServer) -> Any:
    def weights(name: str, file: str, body: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(body).hexdigest()
        facts = {"url": server.url(file), "sha256": digest, "size": len(body)}
        return {"model": "net", "enum": "alpha_plugin:Net_Weights", "name": name, **facts}

    dataset = {"url": server.url("set.bin"), "sha256": DIGEST, "size": len(BODY), "path": "set.bin"}
    site.add(
        "alpha",
        {
            "models": [{"name": "net", "target": "alpha_plugin:net"}],
            "weights": [weights("V1", "v1.pth", BODY), weights("V2", "v2.pth", BODY[::-1])],
            "datasets": [{"name": "set", "target": "alpha_plugin:Set", "splits": ["train"], "files": [dataset]}],
        },
    )
    return site


@pytest.fixture
def states(plugin: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run an action with `--json` and return its rows' ids and states."""

    def run(*words: str, code: int = 0) -> dict[str, str]:
        assert main([*words, "--json"]) == code
        return {row["id"]: row["state"] for row in json.loads(capsys.readouterr().out)}

    return run


def path_of(name: str, capsys: pytest.CaptureFixture[str]) -> Path:
    capsys.readouterr()
    assert main(["weights", "path", name]) == 0
    return Path(capsys.readouterr().out.strip())


def test_wildcards_fetch_several_files(states: Any, server: FileServer) -> None:
    assert states("weights", "fetch", "alpha/*") == dict.fromkeys(IDS, "ok")
    assert states("weights", "fetch", "alpha/*") == dict.fromkeys(IDS, "ok")
    assert server.sent("v1.pth") == len(BODY)


def test_the_listing_says_what_is_cached(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", "fetch", "net:V1"]) == 0
    capsys.readouterr()

    assert main(["weights", "list", "--json"]) == 0
    assert {row["id"]: row["cached"] for row in json.loads(capsys.readouterr().out)} == dict(
        zip(IDS, (True, False), strict=True)
    )


def test_the_path_is_printed_for_scripts(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", "fetch", "net:V1"]) == 0
    assert path_of("net:V1", capsys).read_bytes() == BODY


def test_a_path_that_is_not_there_fails_and_says_how_to_get_it(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", "path", "net:V1"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "flambeau weights fetch alpha/net:V1" in shown.err


def test_one_failing_file_does_not_keep_the_others_from_coming(states: Any, server: FileServer) -> None:
    server.always["v1.pth"] = Reply(status=404)

    assert states("weights", "fetch", "alpha/*", code=1) == {IDS[0]: "failed", IDS[1]: "ok"}


def test_what_failed_is_told_on_stderr_and_what_came_on_stdout(
    plugin: Any, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.always["v1.pth"] = Reply(status=404)
    server.always["set.bin"] = Reply(status=404)

    assert main(["weights", "fetch", "alpha/*"]) == 1
    shown = capsys.readouterr()
    assert [line.split("\t")[:2] for line in shown.out.splitlines()] == [[IDS[1], "ok"]]
    assert shown.err.startswith(f"flambeau: error: {IDS[0]}: ") and "404" in shown.err

    assert main(["datasets", "fetch", "set"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("flambeau: error: alpha/set: ")


def test_offline_says_which_file_is_missing_and_where_it_goes(
    plugin: Any, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["weights", "fetch", "net:V1", "--offline"]) == 1

    shown = capsys.readouterr()
    assert server.url("v1.pth") in shown.err and DIGEST in shown.err
    assert shown.out == ""
    assert server.requests() == []


def test_verify_reads_what_is_cached_and_finds_damage(states: Any, capsys: pytest.CaptureFixture[str]) -> None:
    states("weights", "fetch", "alpha/*")
    damaged = path_of("net:V1", capsys)
    damaged.write_bytes(b"X" + BODY[1:])

    assert states("weights", "verify", code=1) == {IDS[0]: "damaged", IDS[1]: "ok"}


def test_verify_of_a_named_file_that_is_not_there_is_missing(states: Any) -> None:
    assert states("weights", "verify") == {}
    assert states("weights", "verify", "net:V1", code=1) == {IDS[0]: "missing"}


def test_purge_removes_the_named_files_alone(states: Any, capsys: pytest.CaptureFixture[str]) -> None:
    states("weights", "fetch", "alpha/*")
    kept, gone = path_of("net:V2", capsys), path_of("net:V1", capsys)

    assert main(["weights", "purge", "net:V1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["freed"] >= len(BODY)
    assert kept.exists() and not gone.exists()
    assert not list(gone.parent.glob(f"{gone.name}*.ok"))


def test_purge_all_empties_the_cache(states: Any, capsys: pytest.CaptureFixture[str]) -> None:
    states("weights", "fetch", "alpha/*")
    path = path_of("net:V1", capsys)

    assert main(["weights", "purge", "--all"]) == 0
    assert "freed" in capsys.readouterr().out
    assert not path.exists()


@pytest.mark.parametrize("words", [[], ["net:V1", "--all"], ["--all", "--partial"]])
def test_purge_wants_to_be_told_one_thing(words: list[str], plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", "purge", *words]) == 1
    assert "say what to remove" in capsys.readouterr().err


def test_what_is_young_survives_an_age_limit(states: Any, capsys: pytest.CaptureFixture[str]) -> None:
    states("weights", "fetch", "net:V1")

    assert main(["weights", "purge", "--older-than", "1"]) == 0
    assert path_of("net:V1", capsys).exists()


def test_datasets_are_fetched_and_verified_below_a_root(states: Any, tmp_path: Path) -> None:
    root = tmp_path / "data"

    assert states("datasets", "verify", "set", "--root", str(root), code=1) == {"alpha/set": "missing"}
    assert states("datasets", "fetch", "set", "--root", str(root)) == {"alpha/set": "ok"}
    assert (root / "set.bin").read_bytes() == BODY
    assert states("datasets", "verify", "set", "--root", str(root), "--split", "train") == {"alpha/set": "ok"}
    (root / "set.bin").write_bytes(b"short")
    assert states("datasets", "verify", "set", "--root", str(root), code=1) == {"alpha/set": "damaged"}


def test_a_dataset_that_cannot_be_fetched_is_a_failure(states: Any, server: FileServer) -> None:
    server.always["set.bin"] = Reply(status=404)
    assert states("datasets", "fetch", "set", code=1) == {"alpha/set": "failed"}


def test_one_root_is_for_one_dataset(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plugin.add("beta", {"datasets": [{"name": "set", "target": "beta_plugin:Set"}]})

    assert main(["datasets", "fetch", "*/set", "--root", "data"]) == 1
    assert "--root is one dataset's folder" in capsys.readouterr().err


def test_a_split_that_does_not_exist_is_named(plugin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets", "fetch", "set", "--split", "tarin"]) == 1
    assert "alpha/set has no split 'tarin'; it has train." in capsys.readouterr().err
