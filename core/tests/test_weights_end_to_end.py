"""From an enum's member over HTTP to a model: fetched once, verified, built meanwhile, loaded without a copy."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flambeau.core.errors import (
    CheckpointError,
    HashMismatchError,
    OfflineError,
    UnknownNameError,
    UnsafeCheckpointError,
)
from flambeau.core.hub import cache_dir, fetching
from flambeau.core.testing.server import FileServer, Reply
from flambeau.core.weights import (
    Weights,
    WeightsEnum,
    build_with_weights,
    get_model,
    get_weight,
    load_state_dict,
    register_model,
)


def written(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


NET = nn.Linear(3, 2)
DATA = written(NET.state_dict())
FILE = f"net-{digest(DATA)[:8]}.pth"


@pytest.fixture
def server(site: Any) -> Iterator[FileServer]:
    with FileServer({FILE: DATA}) as server:
        yield server


def weights(server: FileServer, file: str = FILE, **facts: Any) -> type[WeightsEnum]:
    """An enum with one member, `V1`, of a model `net` that is registered with it."""
    value = Weights(server.url(file), dict, facts.pop("meta", {"num_params": 8}), **facts)

    class Net_Weights(WeightsEnum):
        V1 = value
        DEFAULT = V1

    def net(*, weights: Any = None, progress: bool = True) -> nn.Linear:
        return build_with_weights(nn.Linear, Net_Weights.verify(weights), 3, 2, progress=progress)

    net.__annotations__["weights"] = Net_Weights | None
    register_model(f"net{len(server.requests())}")(net)
    return Net_Weights


class TestTheWholeWay:
    def test_a_model_by_name_has_the_files_values_and_the_file_is_fetched_once(self, server: FileServer) -> None:
        weights(server)
        for _ in range(2):
            assert torch.equal(get_model("net0", weights="DEFAULT").weight, NET.weight)
        assert server.sent() == len(DATA)

    @pytest.mark.parametrize("way", ["member", "value", "url", "registered name", "enum name"])
    def test_a_state_dict_by_any_source(self, server: FileServer, way: str) -> None:
        member = weights(server).V1  # type: ignore[attr-defined]
        source = {
            "member": member,
            "value": member.value,
            "url": server.url(FILE),
            "registered name": "net0:V1",
            "enum name": "Net_Weights.V1",
        }[way]
        assert torch.equal(load_state_dict(source)["weight"], NET.weight)

    def test_members_read_verify_and_load_by_themselves(self, server: FileServer, tmp_path: Path) -> None:
        member = get_weight(f"{weights(server).__name__}.V1")
        assert torch.equal(member.get_state_dict(progress=False, check_hash=True)["weight"], NET.weight)
        assert torch.equal(member.load().weight, NET.weight)  # type: ignore[arg-type]
        assert member.verify_file() == member.fetch()
        elsewhere = member.get_state_dict(model_dir=tmp_path / "mine", file_name="my.pth", map_location="cpu")
        assert torch.equal(elsewhere["bias"], NET.bias)
        assert (tmp_path / "mine" / "my.pth").is_file()

    def test_the_file_arrives_while_the_model_is_built(self, server: FileServer) -> None:
        built = threading.Event()
        server.next(FILE, Reply(wait_after=100, gate=built))  # the rest of the file comes after the constructor ran

        def net() -> nn.Module:
            server.wait(lambda server: server.sent() > 0)
            built.set()
            return nn.Linear(3, 2)

        assert torch.equal(build_with_weights(net, server.url(FILE)).weight, NET.weight)  # type: ignore[arg-type]

    def test_a_constructor_that_fails_does_not_wait_for_the_file(self, server: FileServer) -> None:
        never = threading.Event()
        server.next(FILE, Reply(wait_after=100, gate=never))

        def net() -> nn.Module:
            raise LookupError("no such layer")

        with pytest.raises(LookupError, match="no such layer"):
            build_with_weights(net, server.url(FILE))
        assert not never.is_set()

    def test_mirrors_are_asked_in_turn(self, server: FileServer) -> None:
        member = weights(server, "gone.pth", mirrors=(server.url(FILE),), sha256=digest(DATA)).V1  # type: ignore[attr-defined]
        server.always["gone.pth"] = Reply(status=404)
        assert torch.equal(member.get_state_dict()["weight"], NET.weight)


class TestVerification:
    def test_a_wrong_digest_in_the_name_stops_everything(self, server: FileServer) -> None:
        server.files["net-00000000.pth"] = DATA
        with pytest.raises(HashMismatchError, match="00000000"):
            build_with_weights(nn.Linear, server.url("net-00000000.pth"), 3, 2)
        assert not [path for path in cache_dir("files").rglob("*.pth") if path.is_file()]

    def test_a_stated_digest_or_size_is_compared(self, server: FileServer) -> None:
        with pytest.raises(HashMismatchError):
            weights(server, sha256="f" * 64).V1.get_state_dict()  # type: ignore[attr-defined]
        with pytest.raises(HashMismatchError):
            weights(server, size=len(DATA) + 1).V1.get_state_dict()  # type: ignore[attr-defined]

    def test_check_hash_false_takes_the_file_as_it_is(self, server: FileServer) -> None:
        server.files["net-00000000.pth"] = DATA
        assert torch.equal(load_state_dict(server.url("net-00000000.pth"), check_hash=False)["weight"], NET.weight)

    def test_a_cached_file_that_was_damaged_later_is_found_on_demand(self, server: FileServer) -> None:
        member = weights(server).V1  # type: ignore[attr-defined]
        path, stat = member.fetch(), member.fetch().stat()
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        path.write_bytes(damaged)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with pytest.raises(HashMismatchError):
            member.verify_file()

    def test_offline_says_what_is_missing(self, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
        with pytest.raises(OfflineError, match=FILE):
            build_with_weights(nn.Linear, server.url(FILE), 3, 2)
        assert not server.requests()


class Danger:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


class TestSafety:
    def test_a_verified_file_that_would_run_code_is_still_not_run(self, server: FileServer, tmp_path: Path) -> None:
        server.files["evil.pth"] = written({"weight": Danger(tmp_path / "marker")})
        with pytest.raises(UnsafeCheckpointError, match="mkdir"):
            build_with_weights(nn.Linear, server.url("evil.pth"), 3, 2)
        assert not (tmp_path / "marker").exists()

    def test_a_member_can_name_classes_that_its_file_needs(self, server: FileServer) -> None:
        server.files["options.pth"] = written({**NET.state_dict(), "options": Namespace(depth=3)})
        with pytest.raises(UnsafeCheckpointError, match=r"argparse\.Namespace"):
            weights(server, "options.pth").V1.get_state_dict()  # type: ignore[attr-defined]
        member = weights(server, "options.pth", safe_globals=("argparse:Namespace",)).V1  # type: ignore[attr-defined]
        assert member.get_state_dict()["options"].depth == 3

    def test_a_file_of_another_format_than_announced_is_not_read(self, server: FileServer) -> None:
        with pytest.raises(CheckpointError, match="format is torch, expected safetensors"):
            weights(server, format="safetensors").V1.get_state_dict()  # type: ignore[attr-defined]


class TestLicences:
    @pytest.mark.parametrize(
        ("license", "told"),
        [
            ("CC-BY-NC-4.0", True),
            ("CC BY-NC 4.0", True),
            ("non-commercial research only", True),
            ("BSD-3-Clause", False),
            (None, False),
        ],
    )
    def test_a_restricted_licence_is_told_when_the_file_is_first_fetched(
        self, server: FileServer, caplog: pytest.LogCaptureFixture, license: str | None, told: bool
    ) -> None:
        member = weights(server, meta={"license": license}).V1  # type: ignore[attr-defined]
        for expected in (told, False):
            caplog.clear()
            with caplog.at_level(logging.INFO, "flambeau.core.weights"):
                member.get_state_dict()
            assert [f"{FILE} is licensed {license}: no commercial use." in caplog.text] == [expected]


class TestRepositories:
    @pytest.fixture
    def repository(self, server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
        """URL -> file of a hub on this machine; what it fetches is asked of this table."""
        from safetensors.torch import save_file

        save_file(NET.state_dict(), tmp_path / "model.safetensors")
        config = tmp_path / "flambeau.json"
        config.write_text(json.dumps({"model": "linear", "arguments": {"bias": True}}))
        files = {
            "hf://owner/net/model.safetensors@v2": tmp_path / "model.safetensors",
            "hf://owner/net/flambeau.json@v2": config,
        }
        monkeypatch.setattr(fetching, "fetch", lambda url, **options: files[url])

        def linear(*, bias: bool, **config: Any) -> nn.Module:
            return nn.Linear(3, 2, bias=bias, **config)

        register_model()(linear)
        return files

    def test_a_repository_is_a_source_of_weights(self, repository: dict[str, Path]) -> None:
        assert torch.equal(load_state_dict("hf:owner/net@v2")["weight"], NET.weight)
        assert torch.equal(get_model("linear", weights="hf:owner/net@v2", bias=True).weight, NET.weight)  # type: ignore[arg-type]

    def test_a_repository_is_a_model(self, repository: dict[str, Path]) -> None:
        assert torch.equal(get_model("hf:owner/net@v2").weight, NET.weight)  # type: ignore[arg-type]
        assert not torch.equal(get_model("hf:owner/net@v2", weights=None).weight, NET.weight)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            '"linear"',
            "{}",
            '{"model": 3}',
            '{"model": "linear", "arguments": 3}',
            '{"model": "hf:owner/net@v2"}',
            '{"model": "linear", "arguments": {"weights": "/etc/passwd"}}',
        ],
    )
    def test_a_repository_that_does_not_describe_its_model_is_refused(
        self, repository: dict[str, Path], text: str
    ) -> None:
        repository["hf://owner/net/flambeau.json@v2"].write_text(text)
        with pytest.raises(CheckpointError, match=r"flambeau\.json"):
            get_model("hf:owner/net@v2")

    def test_a_repositorys_model_must_be_registered_here(self, repository: dict[str, Path]) -> None:
        repository["hf://owner/net/flambeau.json@v2"].write_text('{"model": "nosuch/model"}')
        with pytest.raises(UnknownNameError, match="nosuch/model"):
            get_model("hf:owner/net@v2")
