"""`flambeau migrate`: what is rewritten, what is left alone and reported, and that nothing else changes."""

from __future__ import annotations

import ast
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau.core.cli import main
from flambeau.core.cli.migrate import notebooks
from flambeau.core.cli.migrate import rewrite as rewriting
from flambeau.core.cli.migrate.rewrite import rewrite
from flambeau.core.cli.migrate.table import MODULES, moved

TRAINING = '''\
"""Train a classifier.

torchvision is mentioned here and stays.
"""
from __future__ import annotations

import argparse, os
import torch, torchvision  # the usual pair
import torchvision.transforms as T
from torch import nn
from torchvision import datasets, models as zoo
from torchvision.models import (
    resnet18,
    ResNet18_Weights,   # keep this layout
)


class Net( nn.Module ):
    def __init__(self, backbone: "torchvision.models.ResNet" = None):
        super().__init__()
        self.backbone = backbone or torchvision.models.resnet50(weights = "DEFAULT")

    def forward(self, x):
        keep = torch.ops.torchvision.nms(x[:, :4], x[:, 4], .5)
        return self.backbone(torchvision.transforms.functional.resize(x[keep], [8,8]))


def load(root, *, torchvision_version=torchvision.__version__):
\treturn datasets.CIFAR10(root, transform=T.Compose([T.ToTensor()]))  # tabs live
'''

MIGRATED = '''\
"""Train a classifier.

torchvision is mentioned here and stays.
"""
from __future__ import annotations

import argparse, os
import torch, flambeau.vision  # the usual pair
import flambeau.vision.transforms as T
from torch import nn
from flambeau.vision import datasets, models as zoo
from flambeau.vision.models import (
    resnet18,
    ResNet18_Weights,   # keep this layout
)


class Net( nn.Module ):
    def __init__(self, backbone: "flambeau.vision.models.ResNet" = None):
        super().__init__()
        self.backbone = backbone or flambeau.vision.models.resnet50(weights = "DEFAULT")

    def forward(self, x):
        keep = torch.ops.flambeau_vision.nms(x[:, :4], x[:, 4], .5)
        return self.backbone(flambeau.vision.transforms.functional.resize(x[keep], [8,8]))


def load(root, *, torchvision_version=flambeau.vision.__version__):
\treturn datasets.CIFAR10(root, transform=T.Compose([T.ToTensor()]))  # tabs live
'''

SPEECH = """\
import torchaudio
from torchaudio.pipelines import WAV2VEC2_ASR_BASE_960H as bundle
from torchtext.vocab import build_vocab_from_iterator
from torchdata.datapipes.iter import IterableWrapper
from torchdata.stateful_dataloader import StatefulDataLoader
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.envs import GymEnv
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
from torchx.specs import AppDef
from captum.influence import TracInCP
import torcharrow as ta
import fbgemm_gpu

waveform, rate = torchaudio.load("a.wav")
"""

SPEECH_MIGRATED = """\
import flambeau.audio
from flambeau.audio.pipelines import WAV2VEC2_ASR_BASE_960H as bundle
from flambeau.text.vocab import build_vocab_from_iterator
from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.data.stateful_dataloader import StatefulDataLoader
from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.envs import GymEnv
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor
from flambeau.launch.specs import AppDef
from flambeau.influence import TracInCP
import flambeau.data.frame as ta
import flambeau.rec.ops

waveform, rate = flambeau.audio.load("a.wav")
"""


def migrated(source: str) -> str:
    return rewrite(source.encode()).code.decode()


@pytest.mark.parametrize(("before", "after"), [(TRAINING, MIGRATED), (SPEECH, SPEECH_MIGRATED)])
def test_a_whole_program_is_rewritten_and_keeps_its_layout(before: str, after: str) -> None:
    assert migrated(before) == after
    assert migrated(after) == after


CASES = {
    "a dotted import binds the package": (
        "import torchvision.models\nnet = torchvision.models.resnet50()\n",
        "import flambeau.vision.models\nnet = flambeau.vision.models.resnet50()\n",
    ),
    "an alias keeps its uses": (
        "import torchvision as tv\nnet = tv.models.resnet50()\n",
        "import flambeau.vision as tv\nnet = tv.models.resnet50()\n",
    ),
    "a parameter of the same name is another thing": (
        "import torchvision\ndef f(torchvision):\n    return torchvision.x\ntorchvision.y\n",
        "import flambeau.vision\ndef f(torchvision):\n    return torchvision.x\nflambeau.vision.y\n",
    ),
    "attributes, keywords and longer names are other things": (
        "import torchvision\nf(torchvision=self.torchvision, x=torchvision_extra.y)\n",
        "import flambeau.vision\nf(torchvision=self.torchvision, x=torchvision_extra.y)\n",
    ),
    "uses in functions, comprehensions and f-strings follow": (
        "import torchvision\ng = lambda: [torchvision.a for _ in b]\ns = f'{torchvision.__version__}'\n",
        "import flambeau.vision\ng = lambda: [flambeau.vision.a for _ in b]\ns = f'{flambeau.vision.__version__}'\n",
    ),
    "a bare use is the package": (
        "import torchvision\nreload((torchvision))\n",
        "import flambeau.vision\nreload((flambeau.vision))\n",
    ),
    "an optional import keeps its name": (
        "try:\n    import torchvision\nexcept ImportError:\n    torchvision = None\nok = torchvision is not None\n",
        "try:\n    import flambeau.vision as torchvision\nexcept ImportError:\n    torchvision = None\n"
        "ok = torchvision is not None\n",
    ),
    "a global name is kept": (
        "def load():\n    global torchvision\n    import torchvision\n",
        "def load():\n    global torchvision\n    import flambeau.vision as torchvision\n",
    ),
    "a deleted name is kept": (
        "import torchvision\ndel torchvision\n",
        "import flambeau.vision as torchvision\ndel torchvision\n",
    ),
    "an exported name is kept": (
        "import torchvision\n__all__ = ['torchvision']\n",
        "import flambeau.vision as torchvision\n__all__ = ['torchvision']\n",
    ),
    "a variable called flambeau is not hidden": (
        "import torchvision\nflambeau = 1\ntorchvision.x\n",
        "import flambeau.vision as torchvision\nflambeau = 1\ntorchvision.x\n",
    ),
    "a local import does not hide the module's": (
        "import torchaudio\ndef f():\n    torchaudio.load('x')\n    import torchvision\n    torchvision.y\n",
        "import flambeau.audio\ndef f():\n    flambeau.audio.load('x')\n    import flambeau.vision as torchvision\n"
        "    torchvision.y\n",
    ),
    "a local import alone is plain": (
        "def f():\n    import torchvision\n    return torchvision.x\n",
        "def f():\n    import flambeau.vision\n    return flambeau.vision.x\n",
    ),
    "only influence moves out of captum": (
        "# why\nfrom captum import attr, influence\n",
        "# why\nfrom captum import attr\nfrom flambeau import influence\n",
    ),
    "influence alone moves": ("from captum import influence as inf\n", "from flambeau import influence as inf\n"),
    "captum.influence by its path": (
        "import captum.influence\ncaptum.influence.TracInCP\n",
        "import flambeau.influence\nflambeau.influence.TracInCP\n",
    ),
    "captum.influence beside the rest of captum": ("import captum.influence, captum.attr\ncaptum.influence.TracInCP\n",)
    * 2,
    "captum.influence with another use of captum": ("import captum.influence\nprint(captum.__version__)\n",) * 2,
    "operators by torch.ops imported": (
        "from torch import ops\nops.fbgemm.jagged_to_padded_dense\nops.aten.add\n",
        "from torch import ops\nops.flambeau_rec.jagged_to_padded_dense\nops.aten.add\n",
    ),
    "operators in strings": (
        "a = 'torchvision::nms'\nb = \"torch.ops.torchvision.nms.default\"\nc = r'''fbgemm::x'''\n",
        "a = 'flambeau_vision::nms'\nb = \"torch.ops.flambeau_vision.nms.default\"\nc = r'''flambeau_rec::x'''\n",
    ),
    "a type alias in quotes": (
        "import torchvision\nx: 'list[torchvision.models.ResNet]'\n",
        "import flambeau.vision\nx: 'list[flambeau.vision.models.ResNet]'\n",
    ),
    "a star": ("from torchvision.transforms import *\n", "from flambeau.vision.transforms import *\n"),
    "a relative import is yours": ("from . import torchvision\ntorchvision.x\n",) * 2,
    "a module of another name is another's": ("import torchvision_extra, mytorchtext\nfrom captum import attr\n",) * 2,
    "C++ in a string is left alone": ("src = 'auto x = torchvision::ops::nms(a);'\n",) * 2,
    "crlf and no newline at the end": (
        "import torchvision\r\nx = torchvision.y",
        "import flambeau.vision\r\nx = flambeau.vision.y",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_imports_and_their_uses(before: str, after: str) -> None:
    assert migrated(before) == after
    assert migrated(after) == after


@pytest.mark.parametrize(
    ("source", "text", "reason"),
    [
        ("mock.patch('torchvision.models.resnet50')\n", "'torchvision.models.resnet50'", "flambeau.vision.models"),
        ("importlib.import_module('torchaudio')\n", "'torchaudio'", "not changed"),
        ("pytest.importorskip('torchtext')\n", "'torchtext'", "not changed"),
        ("importlib.import_module(name)  # torchvision\n", "importlib.import_module", "computed name"),
        ("import captum\ncaptum.influence.TracInCP\n", "captum.influence", "by hand"),
        ("from torchvision.transforms import *\n", "from flambeau.vision.transforms import *", "not checked"),
    ],
)
def test_what_is_not_changed_is_reported(source: str, text: str, reason: str) -> None:
    (note,) = rewrite(source.encode()).notes
    assert note.text == text
    assert reason in note.reason


@pytest.mark.parametrize(
    "source", ["print('torchvision')\n", "logger = getLogger('torchaudio')\n", "x = 'tensordict'\n"]
)
def test_a_name_in_any_other_string_is_not_worth_a_word(source: str) -> None:
    result = rewrite(source.encode())
    assert (result.changes, result.notes) == ([], [])


def test_an_encoding_declaration_is_honoured() -> None:
    source = "# -*- coding: latin-1 -*-\nimport torchvision\nname = 'é'\n".encode("latin-1")
    assert rewrite(source).code == source.replace(b"torchvision", b"flambeau.vision")


def test_the_table_covers_every_upstream_library() -> None:
    assert moved("torchvision.ops.nms") == "flambeau.vision.ops.nms"
    assert moved("captum") is None and moved("captum.influence.x") == "flambeau.influence.x"
    assert set(MODULES) == {
        *("torchvision", "torchaudio", "torchtext", "torchrec", "torchrl", "torchdata", "tensordict", "torcharrow"),
        *("torchx", "captum.influence", "fbgemm_gpu", "torchcsprng"),
    }


ROOTS = st.sampled_from(["torchvision", "torchaudio", "tensordict", "torchrec", "captum.influence", "numpy", "captum"])
PARTS = st.sampled_from(["models", "x", "ops"])
DOTTED = st.builds(lambda root, rest: ".".join([root, *rest]), ROOTS, st.lists(PARTS, max_size=2))
STATEMENTS = st.one_of(
    st.builds("import {}".format, DOTTED),
    st.builds("import {} as alias".format, DOTTED),
    st.builds("from {} import x, y as z".format, DOTTED),
    st.builds("from {} import (\n    x,  # why\n)".format, DOTTED),
    st.builds("value = {}.x(y)  # torchvision".format, DOTTED),
    st.builds("def f(torchvision={0}):\n    return torchvision, {0}.x".format, DOTTED),
    st.builds("class C:\n    import {0}\n    a: '{0}.x' = {0}.y".format, DOTTED),
    st.builds("try:\n    import {}\nexcept ImportError:\n    torchvision = None".format, DOTTED),
    st.builds("if torch.ops.torchvision.x is '{}.x':\n    del a".format, DOTTED),
    st.builds("s = f'{{{}.x!r}} torchvision::nms'".format, DOTTED),
    st.just("global_names = ['torchvision::nms']"),
    st.just("def g():\n    global torchaudio\n    import torchaudio"),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STATEMENTS, max_size=8).map("\n".join))
def test_output_parses_and_a_second_run_changes_nothing(source: str) -> None:
    first = rewrite(source.encode())
    second = rewrite(first.code)

    ast.parse(first.code)
    assert second.code == first.code
    assert second.changes == []
    assert first.code.count(b"\n") >= source.count("\n")


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# torchvision\n"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "metadata": {},
            "outputs": [{"text": ["torchvision\n"]}],
            "source": ["%matplotlib inline\n", "!pip install torchvision\n", "import torchvision as tv, torchaudio"],
        },
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%%bash\n", "echo torchaudio"]},
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "source": [
                "%%time\n",
                "wave = torchaudio.load('a')\n",
                "wave?\n",
                "files = !ls\n",
                "await tv.x(); é = 1\n",
            ],
        },
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "x = torchaudio.y"},
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def test_cells_of_a_notebook_are_one_program_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "demo.ipynb"
    path.write_text(json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    assert main(["migrate", str(path), "--write"]) == 0

    expected = json.loads(json.dumps(NOTEBOOK))
    expected["cells"][1]["source"][2] = "import flambeau.vision as tv, flambeau.audio"
    expected["cells"][3]["source"][1] = "wave = flambeau.audio.load('a')\n"
    expected["cells"][4]["source"] = "x = flambeau.audio.y"
    assert path.read_text(encoding="utf-8") == json.dumps(expected, indent=1, ensure_ascii=False) + "\n"


def test_a_notebook_keeps_how_its_json_is_written() -> None:
    content = json.dumps(NOTEBOOK, indent="\t").encode()
    notebook = notebooks.read(content)
    assert notebooks.write(notebook, notebook.source) == content


def test_places_in_a_notebook_are_given_by_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "demo.ipynb"
    path.write_text(json.dumps(NOTEBOOK))

    assert main(["migrate", str(path)]) == 0
    assert f"{path} cell 4:2: torchaudio -> flambeau.audio" in capsys.readouterr().out


def test_a_cell_that_is_no_python_is_left_alone_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [{"cell_type": "code", "source": "import torchvision"}, {"cell_type": "code", "source": "torchvision.("}]
    path = tmp_path / "demo.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))

    assert main(["migrate", str(path), "--write"]) == 1
    assert "cell 2 (not Python" in capsys.readouterr().err
    assert json.loads(path.read_text())["cells"][0]["source"] == "import flambeau.vision"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("pkg", ".git", "pkg/__pycache__", "venv"):
        (folder / name).mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("")
    for name in ("train.py", "pkg/__init__.py", "pkg/types.pyi", ".git/hook.py", "pkg/__pycache__/x.py", "venv/x.py"):
        (folder / name).write_text("import torchvision\n")
    (folder / "notes.txt").write_text("import torchvision\n")
    (folder / "other.py").write_text("import numpy\n")
    return folder


def changed(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in files if "flambeau" in path.read_text()}


def test_nothing_is_written_unless_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(project)]) == 0

    shown = capsys.readouterr().out
    assert changed(project) == set()
    assert "train.py:1: import torchvision -> import flambeau.vision" in shown
    assert "3 places in 3 files would be changed." in shown
    assert "pip install flambeau-vision" in shown


def test_a_folder_is_searched_for_sources_of_yours(project: Path) -> None:
    assert main(["migrate", str(project), "--write"]) == 0
    assert changed(project) == {"train.py", "pkg/__init__.py", "pkg/types.pyi"}


def test_permissions_and_links_survive(project: Path, tmp_path: Path) -> None:
    (project / "train.py").chmod(0o755)
    link = tmp_path / "link.py"
    link.symlink_to(project / "train.py")

    assert main(["migrate", str(link), "--write"]) == 0

    assert link.is_symlink()
    assert (project / "train.py").read_text() == "import flambeau.vision\n"
    assert stat.S_IMODE((project / "train.py").stat().st_mode) == 0o755


def test_the_diff_is_what_patch_understands(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(project / "train.py"), "--diff"]) == 0

    path = project / "train.py"
    assert capsys.readouterr().out == (
        f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-import torchvision\n+import flambeau.vision\n"
    )


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream library whose package here is none that an environment could have installed."""
    for table in (MODULES, rewriting._SIMPLE):
        monkeypatch.setitem(table, "torchx", "flambeau.lost")


@pytest.mark.usefixtures("lost")
def test_json_has_changes_notes_and_what_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.py"
    path.write_text("import torchx\nfrom torchx.data import nothing\npatch('torchx.x')\n")

    assert main(["migrate", str(path), "--json"]) == 0

    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    (file,) = report["files"]
    assert (report["written"], report["distributions"]) == (False, ["flambeau-lost"])
    assert file["changes"][0] == {"line": 1, "before": "import torchx", "after": "import flambeau.lost"}
    assert [note["text"] for note in file["notes"]] == ["'torchx.x'"]
    assert {(item["line"], item["name"]) for item in file["absent"]} == {
        (1, "flambeau.lost"),
        (2, "flambeau.lost.data.nothing"),
    }


@pytest.mark.usefixtures("lost")
def test_names_that_do_not_exist_here_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "site" / "flambeau" / "lost"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import enum\nhere = 1\nclass W(enum.Enum):\n    A = 1\n")
    (package / "vocab.py").write_text("class Vocab:\n    pass\n")
    monkeypatch.setattr(flambeau, "__path__", [*flambeau.__path__, str(package.parent)])
    source = tmp_path / "a.py"
    source.write_text(
        "import torchx\nfrom torchx.vocab import Vocab, GloVe\nimport torchx.data.utils\n"
        "torchx.here.whatever\ntorchx.W.A\ntorchx.W.B\nVocab.anything\n"
    )

    try:
        assert main(["migrate", str(source), "--json"]) == 0
    finally:
        for name in [name for name in sys.modules if name.startswith("flambeau.lost")]:
            del sys.modules[name]

    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert [item["name"] for item in file["absent"]] == [
        "flambeau.lost.vocab.GloVe",
        "flambeau.lost.data.utils",
        "flambeau.lost.W.B",
    ]
    assert file["absent"][0]["reason"] == "flambeau.lost.vocab.GloVe does not exist in the installed flambeau-lost"


def test_a_file_that_does_not_parse_is_reported_and_the_others_are_done(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "broken.py").write_text("import torchvision\nprint 'old'\n")

    assert main(["migrate", str(project), "--write"]) == 1
    assert "broken.py: line 2: not Python" in capsys.readouterr().err
    assert "train.py" in changed(project)


def test_a_path_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "no/such/path"]) == 1
    assert "no/such/path does not exist" in capsys.readouterr().err


def test_without_libcst_the_way_to_get_it_is_printed(
    monkeypatch: pytest.MonkeyPatch, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flambeau.core.cli.migrate.find_spec", lambda name: None)

    assert main(["migrate", str(project)]) == 1
    assert f"{sys.executable} -m pip install 'flambeau-core[migrate]'" in capsys.readouterr().err
