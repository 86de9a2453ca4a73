"""A server of SGLang, started here or elsewhere, over HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import torch
from torch import Tensor

from flambeau.core.errors import FlambeauError
from flambeau.rl.modules.llm.backends.sglang.base import RLSGLangEngine

__all__ = ["AsyncSGLang", "SGLangError"]

_GROUP = "flambeau_weights"


class SGLangError(FlambeauError, RuntimeError):
    """A server of SGLang refuses, or does not answer."""


class AsyncSGLang(RLSGLangEngine):
    """A server of SGLang. `connect` finds one that runs, `from_pretrained` starts one.

    Args:
        server_url: such as "http://localhost:30000".
        timeout_s: how long a request may take.
        process: of the server, where it was started here; ended by `shutdown`.
    """

    def __init__(
        self, server_url: str, timeout_s: float = 300.0, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.server_url, self.timeout_s = server_url.rstrip("/"), timeout_s
        self._process = process
        self._address, self._port = "localhost", 0
        self._group: Any = None
        self._information: dict[str, Any] | None = None

    @classmethod
    def connect(cls, server_url: str, timeout_s: float = 300.0) -> AsyncSGLang:
        """A server that runs.

        Args:
            server_url: its URL.
            timeout_s: how long a request may take.

        Raises:
            SGLangError: it does not answer.
        """
        made = cls(server_url, timeout_s)
        made._asked("/health", None)
        return made

    @classmethod
    def from_pretrained(
        cls, model_name: str, tp_size: int = 1, dp_size: int = 1, port: int | None = None, timeout_s: float = 300.0,
        **options: Any,
    ) -> AsyncSGLang:  # fmt: skip
        """Start a server and wait until it answers.

        Args:
            model_name: the model's name or folder.
            tp_size: workers that share a model's tensors.
            dp_size: replicas.
            port: of the server; a free one by default.
            timeout_s: how long to wait, and how long a request may take.
            **options: further options of `python -m sglang.launch_server`, with underscores.

        Raises:
            ImportError: SGLang is not installed.
            SGLangError: it ended, or does not answer in time.
        """
        from importlib.util import find_spec

        if find_spec("sglang") is None:
            raise ImportError("a server is started with SGLang, which is not installed. Run: pip install sglang")
        port = port or _free_port()
        command = [sys.executable, "-m", "sglang.launch_server", "--model-path", model_name, "--port", str(port)]
        for name, value in {"tp_size": tp_size, "dp_size": dp_size, **options}.items():
            command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        made = cls(f"http://127.0.0.1:{port}", timeout_s, subprocess.Popen(command))
        try:
            made._wait()
        except SGLangError:
            made.shutdown()
            raise
        return made

    def _wait(self) -> None:
        deadline = time.monotonic() + self.timeout_s
        while True:
            if self._process is not None and self._process.poll() is not None:
                raise SGLangError(f"the server ended with status {self._process.returncode}; see what it printed.")
            try:
                self._asked("/health", None, timeout_s=2.0)
            except SGLangError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def _asked(self, path: str, content: Any, timeout_s: float | None = None) -> Any:
        """The answer to a request, as JSON where it is some."""
        data = None if content is None else json.dumps(content).encode()
        request = Request(self.server_url + path, data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=timeout_s or self.timeout_s) as answer:
                body = answer.read()
        except HTTPError as error:
            raise SGLangError(f"{self.server_url}{path} answers {error.code}: {error.read()[:500]!r}.") from error
        except (URLError, OSError) as error:
            raise SGLangError(f"{self.server_url}{path} does not answer ({error}); is the server running?") from error
        return json.loads(body) if body.strip() else None

    # --- Requests

    def generate(
        self, prompts: str | Sequence[str] | None = None, sampling_params: dict[str, Any] | None = None, *,
        input_ids: Sequence[int] | Sequence[Sequence[int]] | None = None, return_logprob: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """Answer prompts.

        Args:
            prompts: one text or several.
            sampling_params: see SGLang.
            input_ids: tokens of one prompt or of several, instead.
            return_logprob: report the log-probabilities of tokens.
            **options: further fields of SGLang's request.

        Returns:
            For each prompt a dictionary with "text" and "meta_info".

        Raises:
            ValueError: there are both texts and tokens, or neither.
            SGLangError: the server refuses, or does not answer.
        """
        if (prompts is None) == (input_ids is None):
            raise ValueError("give either prompts or input_ids.")
        given = {"text": prompts} if input_ids is None else {"input_ids": input_ids}
        return self._asked("/generate", {
            **given, "sampling_params": sampling_params or {}, "return_logprob": return_logprob, **options,
        })  # fmt: skip

    def _information_of(self, name: str, otherwise: Any) -> Any:
        if self._information is None:
            self._information = {
                **(self._asked("/get_server_info", None) or {}),
                **(self._asked("/get_model_info", None) or {}),
            }
        return self._information.get(name, otherwise)

    @property
    def model_path(self) -> str:
        """The model's name or folder."""
        return str(self._information_of("model_path", ""))

    def flush_cache(self) -> None:
        """Forget what was computed of prompts."""
        self._asked("/flush_cache", {})

    # --- Weights

    def get_tp_size(self) -> int:
        """How many workers share a model's tensors."""
        return int(self._information_of("tp_size", 1))

    def get_dp_size(self) -> int:
        """How many replicas there are."""
        return int(self._information_of("dp_size", 1))

    def get_model_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The dtypes and shapes of the weights, of the model's configuration built without memory for them."""
        from transformers import AutoConfig, AutoModelForCausalLM

        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                AutoConfig.from_pretrained(self.model_path)
            )
        return {name: (weight.dtype, weight.shape) for name, weight in model.named_parameters()}

    def get_master_address(self) -> str:
        """The trainer's host."""
        return self._address

    def get_master_port(self) -> int:
        """The trainer's port."""
        if not self._port:
            self._port = _free_port()
        return self._port

    def init_weight_update_group(self, master_address: str | None = None, master_port: int | None = None) -> None:
        """Join a process group with the server's workers, as rank 0.

        Args:
            master_address: this host, as the server sees it.
            master_port: a port here; a free one by default.
        """
        self._address = master_address or self._address
        self._port = master_port or self.get_master_port()
        size = 1 + self.get_tp_size() * self.get_dp_size()
        joining = _Call(self._asked, "/init_weights_update_group", {
            "master_address": self._address, "master_port": self._port, "rank_offset": 1, "world_size": size,
            "group_name": _GROUP, "backend": "nccl",
        })  # fmt: skip
        from flambeau.rl.modules.llm.backends.sglang.weight_group import trainer_group

        self._group = trainer_group(self._address, self._port, size, _GROUP)
        joining.result()

    def update_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Broadcast weights, and forget what was computed with the former ones.

        Args:
            weights: names and tensors, on the GPU of the group.

        Raises:
            SGLangError: `init_weight_update_group` was not called, or the server refuses.
        """
        if self._group is None:
            raise SGLangError("there is no process group yet; call init_weight_update_group first.")
        for name, weight in weights:
            receiving = _Call(self.update_weights_from_distributed, name, weight.dtype, tuple(weight.shape))
            torch.distributed.broadcast(weight.detach(), src=0, group=self._group)
            receiving.result()
        self.flush_cache()

    def update_weights_from_distributed(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """Have the server receive one tensor that is broadcast meanwhile.

        Args:
            name: of the weight.
            dtype: of the tensor.
            shape: of the tensor.
        """
        self._asked("/update_weights_from_distributed", {
            "names": [name], "dtypes": [str(dtype).removeprefix("torch.")], "shapes": [list(shape)],
            "group_name": _GROUP,
        })  # fmt: skip

    def shutdown(self) -> None:
        """End the server, where it was started here."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None


class _Call:
    """A request that runs while something else happens."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function, args), daemon=True)
        self._thread.start()

    def _run(self, function: Any, args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except SGLangError as error:
            self._error = error

    def result(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
