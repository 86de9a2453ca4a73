"""Conversations, policies over language models, and their losses do what torchrl's do, with the same weights."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")
pytest.importorskip("transformers", reason="needs transformers; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "llm",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-4,
)
MADE: dict[str, object] = {}


def part(library, name):
    return import_module(f"{'flambeau.rl' if library.ours else 'torchrl'}.{name}")


def containers(library):
    return import_module("flambeau.data.tensordict" if library.ours else "tensordict")


def tokenizer(side="left"):
    from flambeau.rl.testing.tiny_llm import tiny_tokenizer

    return MADE.setdefault(f"tokenizer-{side}", tiny_tokenizer(padding_side=side))


def model(seed=0):
    from flambeau.rl.testing.tiny_llm import tiny_causal_lm

    return MADE.setdefault(f"model-{seed}", tiny_causal_lm(tokenizer(), seed=seed))


# --- Conversations

SYSTEM, USER, ANSWER = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
)
CALL = {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]}
TOOL = {"role": "tool", "content": "42"}
CHATS = {
    "user": [USER], "answer": [USER, ANSWER], "system": [SYSTEM, USER, ANSWER], "turns": [USER, ANSWER, USER, ANSWER],
    "late-system": [USER, SYSTEM], "tools": [USER, CALL, TOOL, TOOL, ANSWER], "other": [{"role": "zz", "content": "q"}],
}  # fmt: skip
TEMPLATES = ("chatml_format", "qwen", "dialogpt", "falcon", "deepseek", "llama")
WAYS = {
    "text": {}, "closed": {"add_generation_prompt": False}, "tokens": {"tokenize": True},
    "dict": {"tokenize": True, "return_dict": True}, "mask": {"return_assistant_tokens_mask": True},
    "cut": {"return_assistant_tokens_mask": True, "truncation": True, "max_length": 7},
    "padded": {"return_assistant_tokens_mask": True, "padding": "max_length", "max_length": 90},
    "no-dict": {"return_assistant_tokens_mask": True, "return_dict": False},
}  # fmt: skip


def plain(value):
    if isinstance(value, list):
        return [plain(one) for one in value]
    if hasattr(value, "keys"):
        return {key: value.get(key) for key in sorted(value.keys())}
    return value


def rendered(chat, template, way):
    def run(library, given):
        history = part(library, "data.llm").History.from_chats(chat)
        return plain(history.apply_chat_template(tokenizer=tokenizer(), chat_template_name=template, **way))

    return run


def messages(history):
    return [
        (m.role, m.content, m.is_complete, None if m.tool_calls is None else list(m.tool_calls),
         None if m.tool_responses is None else list(m.tool_responses)) for m in history.unbind(0)
    ]  # fmt: skip


def read(text, template):
    return lambda library, given: messages(
        part(library, "data.llm").History.from_text(text, chat_template_name=template)
    )


CHATML = {
    "plain": "words", "one": "<|im_start|>user\nhi<|im_end|>", "spaces": "<|im_start|>user\n  hi \n\n<|im_end|>",
    "before": "pre<|im_start|>user\nhi<|im_end|>",
    "open": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nwell",
    "prompt": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "empty": "<|im_start|>user\n<|im_end|>",
    "no-line": "<|im_start|>user hi<|im_end|>", "end": "<|im_start|>user\nhi<|im_end|><|endoftext|>",
    "call": '<|im_start|>assistant\nx\n<tool_call>\n{"name": "f"}\n</tool_call><|im_end|>',
    "bad-call": "<|im_start|>assistant\n<tool_call>\nnope\n</tool_call><|im_end|>",
    "response": "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>",
    "tool": "<|im_start|>tool\n<tool_response>\n42\n</tool_response><|im_end|>", "nothing": "",
}  # fmt: skip
LLAMA = {
    "turns": "<|header_start|>user<|header_end|>\n\nhi<|eot|><|header_start|>assistant<|header_end|>\n\nyo<|eot|>",
    "open": "<|header_start|>assistant<|header_end|>\n\nyo", "plain": "words",
    "prompt": "<|header_start|>user<|header_end|>\n\nhi<|eot|><|header_start|>assistant<|header_end|>\n\n",
}  # fmt: skip
SPEAKERS = {
    "turns": "User: hi\n\nAssistant: yo<|end_of_sentence|>", "user": "User: hi\n\n",
    "lines": "User: a\nb\nAssistant: c",
    "prompt": "User: hi\n\nAssistant:", "system": "S\n\nUser: hi\n\nAssistant: yo<|end_of_sentence|>", "plain": "words",
}  # fmt: skip
TEXTS = {
    "chatml_format": CHATML, "qwen": CHATML, "llama": LLAMA, "deepseek": SPEAKERS, "falcon": SPEAKERS,
    "dialogpt": {"words": "hi", "turns": "User: hi\nAssistant: yo", "blank": "\n\n"}, "zz": {"unknown": "x"},
}  # fmt: skip

for (_chat, _messages), _template in product(CHATS.items(), TEMPLATES):
    SUITE.add(
        Cell(f"render/{_template}/{_chat}", "render", rendered(_messages, _template, WAYS["text"]), effects=False)
    )
for (_way, _options), _template in product(WAYS.items(), TEMPLATES):
    SUITE.add(Cell(f"ways/{_template}/{_way}", "ways", rendered(CHATS["turns"], _template, _options), effects=False))
for _template, _texts in TEXTS.items():
    for _name, _text in _texts.items():
        SUITE.add(Cell(f"read/{_template}/{_name}", "read", read(_text, _template), effects=False))


def grown(method, batch, dim, inplace):
    def run(library, given):
        kind = part(library, "data.llm").History
        chats = [[USER, ANSWER], [USER, ANSWER]]
        history = kind.from_chats(chats if batch else chats[0])
        rank = history.ndim - (method == "append")
        added = kind.from_chats([None, [USER, ANSWER], chats][rank]) if rank else kind(**USER, batch_size=())
        made = getattr(history, method)(added, dim=dim, inplace=inplace)
        return list(made.role), list(history.role), tuple(made.batch_size), made is history

    return run


for _method, _batch, _dim, _inplace in product(("append", "extend"), (False, True), (-1, 0, 1), (False, True)):
    SUITE.add(
        Cell(
            f"grow/{_method}/{_batch}/{_dim}/{_inplace}", "grow", grown(_method, _batch, _dim, _inplace), effects=False
        )
    )

# --- Policies

FULL = [
    [USER, ANSWER],
    [{"role": "user", "content": "What is the capital?"}, {"role": "assistant", "content": "Paris"}],
]
GREEDY = {"max_new_tokens": 4, "do_sample": False}


def asked(library, mode, generate):
    """A batch for a mode."""
    td = containers(library)
    name = "prompt" if generate else "full"
    common = part(library, "modules.llm.policies.common")
    texts = ["one", "two words"]
    if mode == "history":
        chats = [chat[:1] for chat in FULL] if generate else FULL
        history = part(library, "data.llm").History.from_chats(chats)
        return td.TensorDict(history=common.ChatHistory(**{name: history}, batch_size=(2,)), batch_size=(2,))
    if mode == "text":
        return td.TensorDict(text=common.Text(**{name: texts}, batch_size=(2,)), batch_size=(2,))
    rows = [torch.tensor(tokenizer()(text)["input_ids"]) for text in texts]
    return td.lazy_stack([td.TensorDict(tokens=td.TensorDict({name: row})) for row in rows])


def entries(made, *, full_scores):
    """Tokens, masks, texts and scores, element by element."""
    found = []
    for element in made.reshape(-1).unbind(0):
        one = {}
        for container, names in (
            ("tokens", ("prompt", "response", "full")), ("masks", ("all_attention_mask", "all_assistant_mask")),
            ("log_probs", ("full",) if full_scores else ()), ("text", ("prompt", "response", "full")),
        ):  # fmt: skip
            held = element.get(container, None)
            for name in names if held is not None else ():
                value = held.get(name, None)
                value = getattr(value, "data", value) if not isinstance(value, torch.Tensor | str) else value
                one[f"{container}.{name}"] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        found.append(one)
    return found


def answered(mode, generate, options):
    def run(library, given):
        more = {"generate_kwargs": dict(GREEDY)} if generate else {"generate": False}
        kind = part(library, "modules.llm").TransformersWrapper
        policy = kind(model(), tokenizer=tokenizer(), input_mode=mode, **more, **options)
        made = policy(asked(library, mode, generate))
        return {
            "in": policy.in_keys,
            "batch": tuple(made.batch_size),
            "entries": entries(made, full_scores=not generate),
        }

    return run


POLICIES = {
    "plain": {}, "padded": {"pad_output": True}, "new": {"inplace": False}, "empty": {"inplace": "empty"},
    "chatml": {"chat_template_name": "chatml_format"}, "named": {"tokens_key": "tokens"},
    "silent": {"return_log_probs": True}, "device": {"device": "cpu"}, "limits": {"min_batch_size": 1},
}  # fmt: skip
for _mode, _generate, (_case, _options) in product(("history", "text", "tokens"), (True, False), POLICIES.items()):
    SUITE.add(Cell(f"policy/{_mode}/{'answer' if _generate else 'score'}/{_case}", "policy",
                   answered(_mode, _generate, _options), effects=False))  # fmt: skip

REFUSED = {
    "mode": {"input_mode": "zz"}, "padding": {"pad_model_input": True},
    "scores": {"generate": False, "return_log_probs": False},
    "temperature": {"generate_kwargs": {"temperature": -1.0}}, "top_p": {"generate_kwargs": {"top_p": 2.0}},
    "top_k": {"generate_kwargs": {"top_k": -1}}, "repetition": {"generate_kwargs": {"repetition_penalty": -1.0}},
    "greedy": {"generate_kwargs": {"do_sample": False, "temperature": 1.0}},
}  # fmt: skip


def constructed(options):
    return lambda library, given: (
        part(library, "modules.llm").TransformersWrapper(model(), tokenizer=tokenizer(), **options).in_keys
    )


for _case, _options in REFUSED.items():
    SUITE.add(Cell(f"refused/{_case}", "refused", constructed(_options), effects=False))

# --- Losses by examples and by teachers


def conversations(library, masked):
    """Conversations with a reference's log-probabilities, 0 where the assistant does not speak if `masked`."""
    td, llm = containers(library), part(library, "modules.llm")
    history = part(library, "data.llm").History.from_chats(FULL)
    common = part(library, "modules.llm.policies.common")
    scorer = llm.TransformersWrapper(model(1), tokenizer=tokenizer(), generate=False)
    scored = scorer(td.TensorDict(history=common.ChatHistory(full=history, batch_size=(2,)), batch_size=(2,)))
    rows = []
    for element, chat in zip(scored.unbind(0), history.unbind(0), strict=True):
        known = element["log_probs"].full.detach()
        known = known * element["masks"].all_assistant_mask if masked else known
        score = td.TensorDict(full=known)
        following = td.TensorDict(ref_log_probs=score, teacher_log_probs=score)
        rows.append(td.TensorDict(history=common.ChatHistory(full=chat), next=following))
    return td.lazy_stack(rows)


def trained(name, options, masked, change=lambda data: data):
    def run(library, given):
        network = model()
        network.zero_grad()
        actor = part(library, "modules.llm").TransformersWrapper(network, tokenizer=tokenizer(), generate=False)
        loss = getattr(part(library, "objectives.llm"), name)(actor, tokenizer=tokenizer(), **options)
        found = loss(change(conversations(library, masked)))
        names = ("loss_sft", "loss_kl_to_ref", "kl_to_ref") if name == "SFTLoss" else ("loss_distill", "kl_to_teacher")
        values = {key: getattr(found, key) for key in names}
        sum(value.sum() for key, value in values.items() if key.startswith("loss") and value is not None).backward()
        return {
            "values": {key: None if value is None else value.detach() for key, value in values.items()},
            "gradient": network.lm_head.weight.grad.clone(), "in": sorted(map(str, loss.in_keys)),
            "keys": sorted(vars(loss.tensor_keys).items()), "kind": type(found).__name__,
        }  # fmt: skip

    return run


REDUCTIONS = [
    {"reduction": name, "normalize_by_seq_length": by} for name in ("mean", "sum", "none") for by in (True, False)
]
SFT = [*REDUCTIONS, {"kl_to_ref_coeff": 0.1}, {"kl_to_ref_coeff": 0.5, "reduction": "sum"}, {"reduction": "zz"},
       {"loss_function": "minor_sft"}, {"loss_function": "minor_sft", "beta": 0.01, "normalize_by_seq_length": False},
       {"loss_function": "minor_sft", "reduction": "none", "kl_to_ref_coeff": 0.2}, {"loss_function": "zz"},
       {"tokenizer_kwargs": {"chat_template_name": "chatml_format"}}]  # fmt: skip
TEACHER = [*REDUCTIONS, {"kl_direction": "forward"}, {"kl_direction": "forward", "reduction": "sum"},
           {"kl_direction": "zz"}, {"reduction": "zz"}]  # fmt: skip


def named(options):
    return "-".join(f"{key}={value}" for key, value in options.items()) or "plain"


for _options in SFT:
    SUITE.add(Cell(f"sft/{named(_options)}", "sft", trained("SFTLoss", _options, True), effects=False))
for _options in TEACHER:
    SUITE.add(Cell(f"teacher/{named(_options)}", "teacher", trained("DistillationLoss", _options, True), effects=False))
for _options in (
    {"assistant_only": False},
    {"assistant_only": False, "reduction": "sum", "normalize_by_seq_length": False},
):
    SUITE.add(
        Cell(f"teacher/{named(_options)}", "teacher", trained("DistillationLoss", _options, False), effects=False)
    )
SUITE.add(Cell("sft/all-reference", "sft", trained("SFTLoss", {"kl_to_ref_coeff": 0.1}, False), effects=False))
for _key in ("history", "next"):
    SUITE.add(
        Cell(
            f"sft/without-{_key}",
            "sft",
            trained("SFTLoss", {"kl_to_ref_coeff": 0.1}, True, lambda td, key=_key: td.exclude(key)),
            effects=False,
        )
    )
SUITE.add(
    Cell(
        "teacher/without",
        "teacher",
        trained("DistillationLoss", {}, True, lambda td: td.exclude("next")),
        effects=False,
    )
)

# --- Advantages within groups


def trajectory(library, group, rewards, ends=True):
    td, steps = containers(library), len(rewards)
    done = torch.tensor([False] * (steps - 1) + [ends]).reshape(steps, 1)
    following = td.TensorDict(reward=torch.tensor(rewards).reshape(steps, 1), done=done, batch_size=[steps])
    return td.TensorDict(group=torch.full((steps,), group), next=following, batch_size=[steps])


def grouped(options, batches):
    def run(library, given):
        transform = part(library, "objectives.llm").MCAdvantage(**{"grpo_size": 2, "prompt_key": "group", **options})
        found = []
        for batch in batches:
            made = transform.inv(torch.cat([trajectory(library, *one) for one in batch]))
            found.append(None if made is None else (made["advantage"], made["group"]))
        return found, transform.get_stats()

    return run


ONE = [[(1, [0.0])], [(1, [0.0])], [(1, [0.0])], [(1, [1.0])]]
GROUPS = {
    "pair": [[(7, [0.0, 1.0])], [(7, [0.0, 0.0, 2.0])]],
    "two": [[(1, [1.0])], [(2, [1.0])], [(2, [0.0])], [(1, [3.0])]],
    "cat": [[(1, [1.0, 2.0]), (1, [0.0, 0.0, 5.0])]], "mixed": [[(1, [1.0]), (2, [0.0]), (1, [5.0])]],
    "equal": [[(1, [1.0])], [(1, [1.0])]], "late": ONE, "open": [[(1, [1.0], False)]],
}  # fmt: skip
RULES = {
    "steps": {}, "sum": {"trajectory_return": "sum"}, "max": {"trajectory_return": "max"},
    "mean": {"trajectory_return": "mean"}, "bounds": {"trajectory_return": "sum", "keep_return_bounds": (0.1, 0.9)},
    "more": {"trajectory_return": "sum", "keep_return_bounds": (0.1, 0.9), "candidate_group_size": 4},
    "least": {"trajectory_return": "sum", "candidate_group_size": 4, "candidate_selection_min_size": 3},
    "one": {"grpo_size": 1},
    "wrong-return": {"trajectory_return": "zz"}, "wrong-bounds": {"keep_return_bounds": (0, 1)},
    "few": {"trajectory_return": "sum", "candidate_group_size": 1},
}  # fmt: skip
for (_rule, _options), (_case, _batches) in product(RULES.items(), GROUPS.items()):
    SUITE.add(Cell(f"groups/{_rule}/{_case}", "groups", grouped(_options, _batches), effects=False))

VALUES = {"rare": [0.0, 0.0, 0.0, 1.0], "spread": [3.0, 1.0, 2.0, 0.0, 5.0], "none": [0.0, 0.0, 0.0],
          "many": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "few": [1.0]}  # fmt: skip


def chosen(strategy, values, size, bounds, most):
    def run(library, given):
        candidates = containers(library).TensorDict({"return": torch.tensor(values)}, [len(values)])
        kind = part(library, "objectives.llm").MCAdvantageSelector
        return kind(strategy, max_combinations=most).select(candidates, group_size=size, keep_return_bounds=bounds)

    return run


for _strategy, (_name, _values), _size, _bounds, _most in product(
    ("first", "uniform", "balanced"), VALUES.items(), (2, 3), (None, (0.1, 0.9), (1.0, 2.0)), (1, 1000)
):
    SUITE.add(Cell(f"select/{_strategy}/{_name}/{_size}/{_bounds}/{_most}", "select",
                   chosen(_strategy, _values, _size, _bounds, _most), effects=False))  # fmt: skip

# --- Text


def encoded(kind, sample, options):
    def run(library, given):
        process = getattr(part(library, "data.llm"), kind)(tokenizer("right"), 9, return_tensordict=False, **options)
        return dict(process(sample))

    return run


for _case, _options in {
    "plain": {},
    "free": {"padding": False},
    "whole": {"truncation": False, "padding": "longest"},
}.items():
    SUITE.add(
        Cell(
            f"encode/text/{_case}",
            "encode",
            encoded("TensorDictTokenizer", {"text": ["Hi", "a longer text"]}, _options),
            effects=False,
        )
    )
    SUITE.add(Cell(f"encode/prompt/{_case}", "encode", encoded(
        "PromptTensorDictTokenizer", {"prompt": ["Hi", "a"], "label": [" you", "!"]}, _options
    ), effects=False))  # fmt: skip


def masked_label(library, given):
    data = part(library, "data.llm").PromptData(
        input_ids=torch.tensor([[1, 2, 3, 4]]),
        attention_mask=torch.ones(1, 4),
        prompt_rindex=torch.tensor([2]),
        batch_size=[1],
    )
    made = data.mask_label(pad_token_id=0)
    return made.input_ids, made.attention_mask, made.prompt_rindex


SUITE.add(Cell("encode/mask-label", "encode", masked_label, effects=False))


def controlled(values):
    def run(library, given):
        controller = part(library, "data.llm").AdaptiveKLController(init_kl_coef=1.0, target=6.0, horizon=10)
        return float(controller.update(values))

    return run


for _values in ([6.0], [12.0], [0.0, 0.0]):
    SUITE.add(Cell(f"controller/{_values}", "controller", controlled(_values), effects=False))


def scored(options, key):
    def run(library, given):
        generate = options.get("generate", True)
        more = {"generate_kwargs": dict(GREEDY)} if generate else {}
        policy = part(library, "modules.llm").TransformersWrapper(
            model(), tokenizer=tokenizer(), input_mode="text", **more, **options
        )
        made = policy(asked(library, "text", generate))
        return [row.detach().clone() for row in made.get(("log_probs", key), as_list=True)]

    return run


SUITE.add(Cell("scores/answer", "scores", scored({}, "response"), effects=False))
SUITE.add(Cell("scores/packed", "scores", scored({"generate": False, "pad_model_input": False}, "full"), effects=False))
SUITE.add(Cell("scores/padded", "scores", scored({"generate": False, "pad_model_input": True}, "full"), effects=False))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
