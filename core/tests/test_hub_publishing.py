"""A published model is built again by whoever knows its repository's name."""

import json
import sys
import types

import pytest
import torch
from torch import nn

from flambeau.core.errors import HubError, OfflineError, UnknownNameError
from flambeau.core.hub import fetching, push
from flambeau.core.registry import MODELS
from flambeau.core.weights import Weights, get_model, register_model

pytestmark = pytest.mark.usefixtures("flambeau_home")


class Tied(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.register_buffer("view", torch.arange(100.0)[10:20])


@pytest.fixture
def name():
    def published_net(*, width: int = 4) -> nn.Module:
        """A net for this test.

        It has two layers that share a matrix.

        Args:
            width: of both.
        """
        return Tied(width)

    register_model("published_net", task="test-task")(published_net)
    entry = MODELS.entry("published_net").id
    yield entry
    MODELS.unregister(entry)


@pytest.fixture
def service(monkeypatch, tmp_path):
    """A stand-in for the Hugging Face hub that keeps what is uploaded in a folder."""
    calls = []

    class HfApi:
        def create_repo(self, repository, **options):
            if repository.count("/") != 1:
                raise ValueError("not a repository")
            calls.append((repository, options))

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            calls.append((repo_id, commit_message))
            for path in folder_path.iterdir():
                (tmp_path / path.name).write_bytes(path.read_bytes())
            return f"https://huggingface.co/{repo_id}/commit/1"

    library = types.ModuleType("huggingface_hub")
    library.HfApi, library.calls = HfApi, calls
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return library


def test_a_pushed_model_is_built_again_from_its_repository(name, service, tmp_path, monkeypatch):
    model = Tied(3)
    url = push(model, "owner/net", name=name, arguments={"width": 3}, private=True, message="First")
    assert url == "https://huggingface.co/owner/net/commit/1"
    assert service.calls == [("owner/net", {"private": True, "exist_ok": True}), ("owner/net", "First")]
    monkeypatch.setattr(fetching, "fetch", lambda url, **options: tmp_path / url.rpartition("/")[2])
    again = get_model("hf:owner/net")
    assert again.second.weight is again.first.weight
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in again.state_dict().items())


def test_a_folder_can_be_written_in_place_of_an_upload(name, tmp_path):
    assert push(Tied(4), tmp_path / "net", name="published_net") == str(tmp_path / "net")
    files = {path.name for path in (tmp_path / "net").iterdir()}
    assert files == {"model.safetensors", "flambeau.json", "README.md"}
    assert json.loads((tmp_path / "net" / "flambeau.json").read_text()) == {"model": name, "arguments": {}}
    assert (tmp_path / "net" / "model.safetensors").stat().st_size < 1000


def test_the_card_tells_what_is_known(name, tmp_path):
    facts = Weights("", dict, {"license": "mit", "accuracy": 0.9, "categories": ["a", "b"]})
    push(Tied(4), tmp_path, name=name, weights=facts)
    card = (tmp_path / "README.md").read_text()
    assert card.startswith('---\nlibrary_name: "flambeau"\npipeline_tag: "test-task"\nlicense: "mit"\n---\n')
    assert "A net for this test." in card
    assert "width: of both" not in card
    assert "| accuracy | 0.9 |" in card
    config = json.loads((tmp_path / "flambeau.json").read_text())
    assert config["meta"]["categories"] == ["a", "b"]
    assert config["transforms"] == {"target": "builtins:dict", "params": {}}


def test_arguments_that_build_another_model_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"4 tensors differ, the first is 'first\.bias', here \(3,\) and there \(4,\)"):
        push(Tied(3), tmp_path / "net", name=name)
    with pytest.raises(ValueError, match="JSON"):
        push(Tied(4), tmp_path / "net", name=name, weights=Weights("", dict, {"made": object()}))
    with pytest.raises(ValueError, match="leave them out"):
        push(Tied(4), tmp_path / "net", name=name, arguments={"weights": "DEFAULT"})
    assert not (tmp_path / "net").exists()


def test_a_model_that_nobody_registered_cannot_be_built_again(tmp_path):
    with pytest.raises(UnknownNameError):
        push(Tied(3), tmp_path, name="no_such_model")


def test_nothing_is_uploaded_offline(name, service, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    with pytest.raises(OfflineError, match="owner/net"):
        push(Tied(4), "owner/net", name=name)
    assert service.calls == []


def test_a_refused_upload_says_how_to_sign_in(name, service):
    with pytest.raises(HubError, match=r"not a repository.*hf auth login"):
        push(Tied(4), "net", name=name)


def test_without_the_hubs_library_the_error_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HubError, match=r"pip install 'flambeau-core\[hub\]'"):
        push(Tied(4), "owner/net", name=name)
