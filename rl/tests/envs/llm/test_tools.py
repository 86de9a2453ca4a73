"""Tools: how calls are read, what runs code, and what becomes of the answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conversing import after, environment

from flambeau.rl.envs.llm.transforms import (
    BrowserTransform,
    ExecuteToolsInOrder,
    JSONCallParser,
    MCPToolTransform,
    PythonExecutorService,
    PythonInterpreter,
    SimpleToolTransform,
    ToolCall,
    ToolRegistry,
    XMLBlockParser,
)
from flambeau.rl.envs.llm.transforms.tools import PersistentPythonProcess, ToolTransformBase


class Add:
    name, schema_in, schema_out = "add", {"a": int, "b": int}, {"result": int}

    def __call__(self, a, b, **kwargs):
        return {"result": a + b, "more": sorted(kwargs)}


# Calls


@pytest.mark.parametrize(
    ("response", "text", "calls"),
    [
        ('<tool name="s" tag="A">{"q": 1}</tool>\nText', "Text", [ToolCall("s", {"q": 1}, "A")]),
        ('a <tool name="b">{}</tool> m <tool name="c"></tool>', "a  m", [ToolCall("b", {}), ToolCall("c", {})]),
        ('<tool name="b">no json</tool>', "", [ToolCall("b", {"raw": "no json"})]),
        ("<tool>{}</tool>", "<tool>{}</tool>", []),
        ({"text": "plain"}, "plain", []),
    ],
)
def test_calls_are_read_of_blocks(response, text, calls):
    found = XMLBlockParser()(response)
    assert (found["text"], found["calls"], found["meta"]) == (text, calls, {"count": len(calls)})


def test_calls_are_read_of_json():
    parser = JSONCallParser()
    found = parser('{"message": "m", "tools": [{"tool": "s", "args": {"q": 1}, "tag": "A"}]}')
    assert (found["text"], found["calls"]) == ("m", [ToolCall("s", {"q": 1}, "A")])
    assert parser("no json")["text"] == "no json"
    for wrong in ({"tools": [{"tool": "a"}]}, {"tools": "x"}, "[1]"):
        with pytest.raises(TypeError):
            parser(wrong)


def test_a_registry_knows_its_tools():
    registry = ToolRegistry()
    registry.register(Add())
    assert registry.get("add")(1, b=2) == {"result": 3, "more": []}
    assert "add" in registry and "sub" not in registry
    with pytest.raises(KeyError, match=r"sub.*add"):
        registry.get("sub")


# Python


@pytest.fixture
def process():
    made = PersistentPythonProcess(timeout=5.0)
    yield made
    made.cleanup()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_variables_and_functions_stay(process):
    process.execute("x = 2\ndef double():\n    return twice()\ndef twice():\n    return 2 * x")
    assert process.execute("print(double())") == {"success": True, "stdout": "4\n", "stderr": "", "returncode": 0}


def test_exceptions_are_told_and_the_process_goes_on(process):
    found = process.execute("print('a')\nraise ValueError('b')")
    assert (found["success"], found["stdout"], found["returncode"]) == (False, "a\n", 1)
    assert found["stderr"].endswith("ValueError: b\n") and "_interpreter" not in found["stderr"]
    assert not process.execute("no python")["success"]
    assert not process.execute("input()")["success"]
    assert process.execute("import sys; print(1, file=sys.stderr)")["success"]
    assert process.execute("import sys; sys.exit(3)")["returncode"] == 1
    assert process.execute("print(5)")["stdout"] == "5\n"


def test_code_that_takes_too_long_is_ended_with_what_it_began(process, tmp_path):
    process.timeout = 1.0
    note = tmp_path / "pid"
    began = f"p = subprocess.Popen(['sleep', '60'])\nopen({str(note)!r}, 'w').write(str(p.pid))"
    code = f"import subprocess\n{began}\nwhile True: pass"
    found = process.execute(code)
    assert found["returncode"] == -1 and "longer than 1.0 s" in found["stderr"]
    deadline = time.monotonic() + 10
    while alive(int(note.read_text())) and not zombie(int(note.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert zombie(int(note.read_text())) or not alive(int(note.read_text()))
    process.timeout = 5.0
    assert process.execute("print(7)")["stdout"] == "7\n"


def zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_process_that_ends_is_begun_anew(process):
    assert not process.execute("import os; os._exit(2)")["success"]
    assert process.execute("print(7)")["stdout"] == "7\n"


def test_memory_output_and_files_are_limited(process):
    assert "MemoryError" in process.execute("x = bytearray(4 << 30)")["stderr"]
    found = process.execute("print('x' * 3_000_000)")
    assert found["success"] and len(found["stdout"]) < 1_100_000
    assert not process.execute("import os\nwhile True: os.write(1, b'x' * 100_000)")["success"]


def test_code_sees_no_variables_of_this_process_and_has_a_folder_of_its_own(process, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    with_secret = PersistentPythonProcess()
    found = with_secret.execute("import os; print('SECRET_TOKEN' in os.environ, os.getcwd())")["stdout"].split()
    with_secret.cleanup()
    assert found[0] == "False" and Path(found[1]) != Path.cwd() and not Path(found[1]).exists()


def test_nothing_of_a_process_stays():
    process = PersistentPythonProcess()
    pid = process.process.pid
    descriptors = len(os.listdir("/proc/self/fd"))
    process.cleanup()
    process.cleanup()
    assert not alive(pid) and len(os.listdir("/proc/self/fd")) == descriptors - 2
    assert not process.execute("1")["success"]
    forgotten = PersistentPythonProcess()
    pid = forgotten.process.pid
    del forgotten
    assert not alive(pid)


def test_a_service_takes_its_processes_in_turn():
    service = PythonExecutorService(pool_size=2, timeout=5.0)
    service.execute("x = 1")
    assert not service.execute("print(x)")["success"]
    assert service.execute("print(x)")["stdout"] == "1\n"
    service.cleanup()
    with pytest.raises(ValueError, match="pool_size"):
        PythonExecutorService(pool_size=0)


def test_the_output_of_code_is_the_next_message():
    env = environment(PythonInterpreter(), query=["a", "b"])
    prompt = after(env, ["Run:\n```python\nprint(1)\n```\nand\n```python\nno\n```", "no code"])["history"].prompt
    assert prompt.role == [
        ["system", "user", "assistant", "tool", "tool"],
        ["system", "user", "assistant", "<none>", "<none>"],
    ]
    assert prompt.content[0][3] == "Code block 1 executed successfully:\n1\n"
    assert prompt.content[0][4].startswith("Code block 2 failed:\n") and "NameError" in prompt.content[0][4]


def test_persistent_processes_belong_to_conversations_and_end_with_the_transform():
    transform = PythonInterpreter(persistent=True)
    env = environment(transform, query=["a", "b"])
    after(env, ["```python\nx = 1\n```", "```python\nx = 2\n```"])
    prompt = after(env, ["```python\nprint(x)\n```"] * 2)["history"].prompt
    assert [row[-1] for row in prompt.content] == [f"Code block 1 executed successfully:\n{x}\n" for x in (1, 2)]
    processes = [each.process for each in transform.processes]
    transform.close()
    assert all(process.poll() is not None for process in processes)
    with pytest.raises(ValueError, match="services"):
        PythonInterpreter(services="slurm")


# Tools by name


def test_tools_run_in_the_order_of_their_calls_and_failures_are_told():
    transform = ExecuteToolsInOrder(ToolRegistry([Add()]), XMLBlockParser())
    calls = '<tool name="add" tag="T">{"a": 1, "b": 2}</tool><tool name="no">{}</tool><tool name="add">[1]</tool>'
    content = after(environment(transform, query=["q"]), [calls])["history"].prompt.content[0][-1]
    assert content.startswith('<tool_results>\nTool add (call 1) [tag: T] succeeded:\n  Result: {\n  "result": 3,')
    assert '"_state"' in content and "Tool no (call 2) failed:" in content and "Tool add (call 3) failed:" in content


def test_calls_after_a_failure_may_be_left_out():
    transform = ExecuteToolsInOrder(
        ToolRegistry([Add()]), XMLBlockParser(), stop_on_error=True, pass_state_to_tools=False
    )
    calls = '<tool name="no">{}</tool><tool name="add">{"a": 1, "b": 2}</tool>'
    content = after(environment(transform, query=["q"]), [calls])["history"].prompt.content[0][-1]
    assert "call 1" in content and "call 2" not in content


def test_functions_are_called_by_name():
    transform = SimpleToolTransform({"add": lambda a, b: a + b, "bad": lambda: 1 / 0})
    calls = '<tool>add\n{"a": 1, "b": 2}</tool><tool>bad\n{}</tool><tool>no\n{}</tool><tool>add\n[</tool>'
    content = after(environment(transform, query=["q"]), [calls])["history"].prompt.content[0][3:]
    assert content[0] == "Tool add executed successfully:\n3"
    assert content[1] == "Tool bad failed:\nTool execution failed: division by zero"
    assert content[2] == "Tool no failed:\nTool no not found"
    assert content[3].startswith("Tool add failed:\nFailed to parse tool arguments")


def test_a_transform_without_tools_says_so():
    with pytest.raises(NotImplementedError, match="_process_batch_item"):
        after(environment(ToolTransformBase(), query=["q"]), ["x"])


SERVER = """
from mcp.server import MCPServer
server = MCPServer("sums")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

@server.tool()
def fail() -> str:
    raise RuntimeError("out of order")

server.run()
"""


@pytest.mark.slow
def test_tools_of_a_server_are_called(tmp_path):
    pytest.importorskip("mcp", reason="needs mcp")
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    transform = MCPToolTransform({"sums": {"command": sys.executable, "args": [str(program)]}}, timeout=60.0)
    calls = '<tool>sums.add\n{"a": 1, "b": 2}</tool><tool>sums.fail\n{}</tool><tool>other.add\n{}</tool>'
    content = after(environment(transform, query=["q"]), [calls])["history"].prompt.content[0][3:]
    assert content[0] == "Tool sums.add executed successfully:\n3"
    assert content[1].startswith("Tool sums.fail failed:\n")
    assert "There is no tool 'other.add'" in content[2]
    transform.close()
    assert transform._answer("sums.add", "{}") == (False, "The server was closed.")
    transform.close()


# A browser


@pytest.mark.parametrize(
    ("domains", "url", "opened"),
    [
        (["example.org"], "https://example.org/a", True),
        (["example.org"], "https://docs.example.org", True),
        (["example.org"], "https://badexample.org", False),
        (["example.org"], "https://example.org.evil.net", False),
        (["example.org"], "https://example.org@evil.net", False),
        (["example.org"], "file:///etc/passwd", False),
        (["localhost"], "http://localhost:80", True),
        (None, "http://127.0.0.1:80/", False),
        (None, "http://169.254.169.254/latest", False),
        (None, "http://[::1]/", False),
        (None, "javascript:alert(1)", False),
    ],
)
def test_pages_outside_what_is_allowed_are_refused(domains, url, opened):
    assert (BrowserTransform(domains)._refusal(url) is None) is opened


class Page:
    """A double with the methods of Playwright's page that are used: no browser can be installed for tests."""

    url = "https://example.org/"

    def __init__(self):
        self.done = []

    def goto(self, url):
        self.done.append(("goto", url))

    def title(self):
        return "Example"

    def fill(self, selector, text):
        self.done.append(("fill", selector, text))


def test_actions_of_a_browser_are_those_of_its_page():
    transform = BrowserTransform(["example.org"])
    transform.__dict__["page"] = page = Page()
    calls = [
        '{"action": "navigate", "url": "https://example.org/"}', '{"action": "navigate", "url": "https://evil.net"}',
        '{"action": "type", "selector": "#q", "text": "GAE"}', '{"action": "fly"}',
    ]  # fmt: skip
    env = environment(transform, query=["q"])
    content = after(env, ["".join(f"<tool>browser\n{call}</tool>" for call in calls)])["history"].prompt.content[0][3:]
    assert content[0] == "Tool browser executed successfully:\nExample (https://example.org/)"
    assert "is none of the domains" in content[1] and "action is one of" in content[3]
    assert page.done == [("goto", "https://example.org/"), ("fill", "#q", "GAE")]


def test_importing_tools_imports_no_browser_and_no_server():
    program = (
        "import sys, flambeau.rl.envs.llm.transforms as t; t.BrowserTransform, t.MCPToolTransform; "
        "print('mcp' in sys.modules, 'playwright' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
