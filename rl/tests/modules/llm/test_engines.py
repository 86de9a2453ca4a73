"""Policies over engines that do not install here: vLLM and SGLang.

A double stands in their place. It has the interfaces that vLLM and SGLang document (requests, outputs, calls of
workers), answers greedily with a real tiny model, and keeps what it was asked.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.modules.llm import SGLangWrapper, Text, TransformersWrapper, vLLMWrapper
from flambeau.rl.modules.llm.backends.sglang import AsyncSGLang, SGLangError
from flambeau.rl.modules.llm.backends.vllm import AsyncVLLM, LoadBalancer, LocalLLMWrapper
from flambeau.rl.modules.llm.backends.vllm.vllm_plugin import enable_fp32_overrides, fp32_overrides_enabled
from flambeau.rl.modules.llm.backends.vllm.weight_sender import WeightSender

PROMPTS = ["one", "two words"]


@dataclass
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = 16
    stop: Any = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True


@dataclass
class CompletionOutput:
    index: int
    token_ids: list[int]
    logprobs: Any
    finish_reason: str | None = "length"
    text: str = ""


@dataclass
class Engine:
    """A `vllm.LLM`."""

    model: Any
    tokenizer: Any
    asked: list[Any] = field(default_factory=list)
    loaded: list[Any] = field(default_factory=list)
    resets: int = 0

    def get_tokenizer(self):
        return self.tokenizer

    @torch.no_grad()
    def continued(self, tokens, count):
        tokens, scores = list(tokens), []
        for _ in range(count):
            step = self.model(input_ids=torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
            tokens.append(int(step.argmax()))
            scores.append(float(step.max()))
        return tokens[-count:], scores

    @torch.no_grad()
    def scored(self, tokens):
        logits = self.model(input_ids=torch.tensor([tokens])).logits[0].log_softmax(-1)
        return [None, *(float(logits[at, token]) for at, token in enumerate(tokens[1:]))]

    def generate(self, prompts, sampling_params=None, use_tqdm=True):
        self.asked.append((prompts, sampling_params))
        made = []
        for prompt in prompts:
            ids = prompt["prompt_token_ids"]
            tokens, scores = self.continued(ids, sampling_params.max_tokens)
            reported = [{token: SimpleNamespace(logprob=score)} for token, score in zip(tokens, scores, strict=True)]
            outputs = [CompletionOutput(at, tokens, reported) for at in range(sampling_params.n)]
            known = None
            if sampling_params.prompt_logprobs is not None:
                pairs = zip(ids, self.scored(ids), strict=True)
                known = [None if score is None else {token: SimpleNamespace(logprob=score)} for token, score in pairs]
            made.append(SimpleNamespace(outputs=outputs, prompt_logprobs=known))
        return made

    def collective_rpc(self, method, args=()):
        if method == "load_weights_from":
            self.loaded.extend(args[0])
            return [None]
        return [{name: (weight.dtype, weight.shape) for name, weight in self.model.named_parameters()}]

    def reset_prefix_cache(self):
        self.resets += 1


@pytest.fixture
def engine(model, tokenizer, monkeypatch):
    module = ModuleType("vllm")
    module.SamplingParams, module.LLM = SamplingParams, Engine
    monkeypatch.setitem(sys.modules, "vllm", module)
    return Engine(model, tokenizer)


@pytest.fixture
def server(model, tokenizer):
    engine = Engine(model, tokenizer)

    class Handler(BaseHTTPRequestHandler):
        def answer(self, content, status=200):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer({"model_path": "tiny", "tp_size": 2})

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            engine.asked.append((self.path, asked))
            if self.path != "/generate":
                self.answer({"error": "no such path"}, 404)
                return
            made = []
            for ids in asked["input_ids"]:
                tokens, scores = engine.continued(ids, asked["sampling_params"]["max_new_tokens"])
                about = {
                    "output_token_logprobs": [[*pair, None] for pair in zip(scores, tokens, strict=True)],
                    "input_token_logprobs": [[*pair, None] for pair in zip(engine.scored(ids), ids, strict=True)],
                    "finish_reason": {"type": "length"},
                }
                made.append({"text": "", "meta_info": about})
            self.answer(made)

        def log_message(self, *args):
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}", engine
    served.shutdown()
    served.server_close()


def prompts():
    return TensorDict(text=Text(prompt=PROMPTS, batch_size=2), batch_size=2)


def texts():
    return TensorDict(text=Text(full=PROMPTS, batch_size=2), batch_size=2)


@pytest.fixture
def make(engine, server, model, tokenizer):
    def made(name, **options):
        kind, behind = {
            "vllm": (vLLMWrapper, engine), "sglang": (SGLangWrapper, AsyncSGLang.connect(server[0])),
            "transformers": (TransformersWrapper, model),
        }[name]  # fmt: skip
        if options.get("generate", True):
            options = {"generate_kwargs": {"max_new_tokens": 3, "do_sample": False}, **options}
        return kind(behind, tokenizer=tokenizer, input_mode="text", **options)

    return made


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_engine_answers_as_the_model_does(make, name):
    found, expected = make(name)(prompts()), make("transformers")(prompts())
    assert found["text"].full == expected["text"].full
    for part in ("response", "full"):
        pairs = zip(*(made["log_probs"].get(part, as_list=True) for made in (found, expected)), strict=True)
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_engine_scores_as_the_model_does(make, name):
    found, expected = (make(kind, generate=False)(texts()) for kind in (name, "transformers"))
    for one, other in zip(*(made["log_probs"].get("full", as_list=True) for made in (found, expected)), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_samples_of_an_engine_come_in_a_further_dimension(make, name):
    assert make(name, num_samples=2)(prompts()).batch_size == (2, 2)


def test_options_reach_vllm_by_its_names(make, engine):
    make("vllm", generate_kwargs={"max_new_tokens": 2, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["x"]})(
        prompts()
    )
    params = engine.asked[-1][1]
    assert (params.max_tokens, params.temperature, params.top_p, params.stop) == (2, 0.5, 0.9, ["x"])
    assert params.logprobs == 0


def test_greedy_options_reach_sglang(make, server):
    make("sglang")(prompts())
    asked = server[1].asked[-1][1]["sampling_params"]
    assert asked == {"max_new_tokens": 3, "temperature": 0.0, "skip_special_tokens": False}


def test_log_probabilities_of_vllm_stand_for_distributions(make):
    dist = make("vllm").get_dist(texts(), mask_key=("masks", "all_attention_mask"))
    scores = make("vllm", generate=False)(texts())["log_probs"].get("full", as_list=True)
    for row, mask, score in zip(dist.log_probs, dist.mask, scores, strict=True):
        assert torch.equal(row[mask], score)


def test_sglang_has_no_distributions(make):
    with pytest.raises(NotImplementedError, match="log_prob"):
        make("sglang").get_dist(texts())


def test_a_server_that_refuses_or_is_gone_is_reported(server):
    engine = AsyncSGLang.connect(server[0])
    with pytest.raises(SGLangError, match="404"):
        engine.flush_cache()
    with pytest.raises(SGLangError, match="does not answer"):
        AsyncSGLang.connect("http://127.0.0.1:1")
    assert (engine.get_tp_size(), engine.get_dp_size(), engine.model_path) == (2, 1, "tiny")


def test_an_engine_here_gets_weights_with_calls(engine, model):
    local = LocalLLMWrapper(engine, 1, "tiny")
    local.update_weights(iter(model.named_parameters()))
    assert [name for name, _ in engine.loaded] == [name for name, _ in model.named_parameters()]
    assert engine.resets == 1
    assert local.get_model_metadata()["lm_head.weight"][1] == model.lm_head.weight.shape


def test_weights_are_broadcast_while_all_workers_receive(model):
    calls, sent, waited = [], [], []

    class Group:
        def broadcast(self, weight, src, stream):
            sent.append((tuple(weight.shape), src))

    engines = [lambda name, args, at=at: calls.append((at, name, args)) or f"{at}/{name}" for at in range(2)]
    sender = WeightSender(
        engines, waited.extend, 2, make_group=lambda address, port, rank, size: sizes.append((rank, size)) or Group()
    )
    sizes = []
    with pytest.raises(RuntimeError, match="init_weight_update_group"):
        sender.send(iter(()))
    sender.join()
    sender.join()
    sender.send(iter([("a", torch.zeros(2, 3)), ("b", torch.zeros(4, dtype=torch.bfloat16))]))
    assert sizes == [(0, 5)]
    assert [args[2:] for _, name, args in calls[:2]] == [(1, 5), (3, 5)]
    assert calls[2:] == [
        (at, "update_weight", args) for args in (("a", "float32", (2, 3)), ("b", "bfloat16", (4,))) for at in range(2)
    ]
    assert sent == [((2, 3), 0), ((4,), 0)]
    assert len(waited) == 6


class Replicas:
    """What a load balancer asks of an `AsyncVLLM`."""

    def __init__(self, requests, usage):
        self.actors, self.requests, self.usage = [None] * len(requests), requests, usage

    def get_num_unfinished_requests(self):
        return self.requests

    def get_cache_usage(self):
        return self.usage


@pytest.mark.parametrize(("strategy", "chosen"), [("requests", 1), ("kv-cache", 2), (["prefix-aware", "kv-cache"], 2)])
def test_requests_go_where_there_is_room(strategy, chosen):
    assert LoadBalancer(Replicas([5, 0, 9], [0.5, 0.9, 0.1]), strategy).select_actor() == chosen


def test_prompts_that_begin_alike_go_to_one_engine():
    balancer = LoadBalancer(Replicas([0, 0, 0], [0, 0, 0]), prefix_length=4)
    assert len({balancer.select_actor(f"same beginning, other end {at}") for at in range(9)}) == 1
    assert balancer.select_actor([1, 2, 3, 4, 5]) == balancer.select_actor([1, 2, 3, 4, 6])


def test_an_overloaded_engine_is_passed_over():
    free = LoadBalancer(Replicas([0, 0], [0, 0]))
    favourite = free.select_actor("prompt")
    loads = [0, 0]
    loads[favourite] = 9
    assert LoadBalancer(Replicas(loads, [0, 0])).select_actor("prompt") == 1 - favourite


def test_engines_take_turns():
    balancer = LoadBalancer(Replicas([0, 0], [0, 0]), "round-robin")
    assert [balancer.select_actor() for _ in range(4)] == [0, 1, 0, 1]
    assert balancer.get_stats()["num_actors"] == 2


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="strategy"):
        LoadBalancer(Replicas([0], [0]), "fastest")
    with pytest.raises(ValueError, match="empty"):
        LoadBalancer([])
    with pytest.raises(RuntimeError, match="launch"):
        AsyncVLLM(SimpleNamespace()).generate("Hi")


def test_without_vllm_the_error_says_how_to_install_it(model, tokenizer):
    if "vllm" in sys.modules:
        pytest.skip("vLLM is installed")
    with pytest.raises(ImportError, match="pip install vllm"):
        vLLMWrapper(model, tokenizer=tokenizer)


def test_float32_logits_are_switched_on_for_processes_that_follow(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_VLLM_FP32", "0")
    assert not fp32_overrides_enabled()
    enable_fp32_overrides()
    assert fp32_overrides_enabled()


def test_answers_of_different_lengths_stay_apart(make):
    made = make("vllm")(prompts())
    assert [len(row) for row in made["tokens"].get("prompt", as_list=True)] == [
        len(row) for row in make("sglang")(prompts())["tokens"].get("prompt", as_list=True)
    ]
    assert isinstance(lazy_stack([made[0], made[1]])["text"].full, list)
