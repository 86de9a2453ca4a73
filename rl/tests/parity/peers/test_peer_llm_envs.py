"""Environments of language models beside torchrl's: rewards, tools, conversations; chess and trading."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "llm-envs",
    ours="flambeau.rl.envs",
    peer="torchrl.envs",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
)


def module(library, name):
    return importlib.import_module(f"{'flambeau.rl' if library.ours else 'torchrl'}.{name}")


def tensordicts(library):
    if library.ours:
        return importlib.import_module("flambeau.data.tensordict")
    found = importlib.import_module("tensordict")
    # Without it torchrl makes no conversations of lists.
    found.set_list_to_stack(True).set()
    return found


def plain(value):
    """Without wrappers and kinds of lists."""
    if isinstance(value, torch.Tensor):
        return value
    value = getattr(value, "data", value) if type(value).__name__ == "NonTensorData" else value
    value = value.tolist() if hasattr(value, "tolist") else value
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def cell(group, name, call):
    SUITE.add(Cell(f"{group}/{name}", group, lambda library, given: call(library), effects=False))


# Functions of texts


TAGS = ["<think>a</think><answer>b</answer>", "<answer> b\nc </answer>", "<think>x",
        "<answer>1</answer><answer>2</answer>",
        "x", "<ANSWER>1</ANSWER>", "<think>a<answer>n</answer></think><answer>m</answer>", "<answer><b>x</b></answer>",
        "<answer>1</answer", "<answer ></answer >"]  # fmt: skip
NUMBERS = ["120.0", " $1,200 ", "12%", "1.50", "abc", "-3.00", "+4", "0.0", "", "100", "12 apples", "$ 5", "007", "1.",
           "1.2.3", ".5", "3.10%", " -0.0", "1e3"]  # fmt: skip
BOXES = [r"\boxed{1}", r"a \boxed{\frac{1}{2}} b \boxed{x^{2}}", r"\boxed 5", "none", r"\boxed{a", r"\fbox{3}",
         r"\boxed{}", r"\boxed{1}} x"]  # fmt: skip
PAIRS = [("1/2", "0.5"), (" 1 ", "1"), ("x + 1", "x+1"), ("", "1"), ("A", "a"), ("$5$", "5"), ("1,000", "1000"),
         ("", ""), ("5.0", "5")]  # fmt: skip
EXPRESSIONS = [
    ("1+2", 3, [1, 2]), ("1+1", 2, [1, 2]), ("1+1", 2, [1, 1]), ("2*3", 6, [1, 2, 3]), ("7/2", 3, [7, 2]),
    ("7/2*2", 7, [7, 2, 2]), ("(1+2)*3", 9, [1, 2, 3]), ("2**3", 8, [2, 3]), ("7//2", 3, [7, 2]), ("-1+4", 3, [1, 4]),
    ("1/0", 3, [1, 0]), ("", 0, []), ("1+2=3", 3, [1, 2]), ("12", 12, [1, 2]), ("1 2", 12, [1, 2]),
    ("1.5*2", 3, [1, 5, 2]),
    ("x", 1, [1]), ("(1+2", 3, [1, 2]), ("+3", 3, [3]), ("3", 3, [3, 4]), ("--3", 3, [3]), ("01+2", 3, [1, 2]),
    ("8%5", 3, [8, 5]), ("__import__('os')", 1, [1]),
]  # fmt: skip
for _at, _text in enumerate(TAGS):
    for _kind in ("GSM8KRewardParser", "MATHRewardParser", "CountdownRewardParser"):
        cell("tags", f"{_kind}/{_at}", lambda library, kind=_kind, text=_text: getattr(
            module(library, "envs.llm.reward"), kind).extract_tags(text))  # fmt: skip
for _at, _text in enumerate(NUMBERS):
    cell("numbers", str(_at), lambda library, text=_text: module(
        library, "envs.llm.reward").GSM8KRewardParser.normalize_answer(text))  # fmt: skip
for _at, _text in enumerate(BOXES):
    cell("boxes", str(_at), lambda library, text=_text: module(
        library, "envs.llm.reward").MATHRewardParser.extract_boxed(text))  # fmt: skip
for _at, _pair in enumerate(PAIRS):
    cell("answers", str(_at), lambda library, pair=_pair: module(
        library, "envs.llm.reward").MATHRewardParser.answers_match(*pair))  # fmt: skip
for _at, _given in enumerate(EXPRESSIONS):
    cell("expressions", str(_at), lambda library, given=_given: module(
        library, "envs.llm.reward").CountdownRewardParser.validate_expression(*given))  # fmt: skip

CALLS = {
    "tag": '<tool name="s" tag="A">{"q": 1}</tool>\nText',
    "two": 'a <tool name="b">{}</tool> m <tool name="c">{"x":[1]}</tool> e',
    "raw": '<tool name="b">not json</tool>', "empty": '<tool name="b"></tool>', "no-name": '<tool>{"a":1}</tool>',
    "single-quotes": "<tool name='b'>{}</tool>", "order": '<tool tag="A" name="b">{}</tool>',
    "list": '<tool name="b">[1,2]</tool>', "none": "none", "dictionary": {"text": "q"},
}  # fmt: skip
JSON = {
    "calls": {"message": "m", "tools": [{"tool": "s", "args": {"q": 1}, "tag": "A"}]},
    "text": '{"message":"m","tools":[]}',
    "no-json": "not", "no-args": {"tools": [{"tool": "a"}]}, "message": {"message": "x"}, "nothing": {},
    "no-list": {"message": "m", "tools": "x"},
}  # fmt: skip


def parsed(kind, response):
    def run(library):
        found = getattr(module(library, "envs.llm.transforms.tools"), kind)()(response)
        return found["text"], [(call.tool, call.args, call.tag) for call in found["calls"]], found["meta"]

    return run


for _name, _response in CALLS.items():
    cell("calls", f"xml/{_name}", parsed("XMLBlockParser", _response))
for _name, _response in JSON.items():
    cell("calls", f"json/{_name}", parsed("JSONCallParser", _response))


# Conversations


class Loader:
    def __init__(self, rows):
        self.rows, self.batch_size = rows, len(rows["query"])

    def __iter__(self):
        while True:
            yield self.rows


def talked(make, responses, answers=None, keys=("reward", "done"), system="SYS"):
    """What an environment gives after responses."""

    def run(library):
        td_library, number = tensordicts(library), len(responses)
        llm, data = module(library, "envs.llm"), module(library, "data")
        history = module(library, "data.llm").History
        rows = {"query": [f"q{row}" for row in range(number)], "answer": answers or ["48\n#### 72"] * number}
        size = (number,)
        primers = data.Composite({key: data.NonTensor(example_data="a", shape=size) for key in rows}, shape=size)
        env = llm.ChatEnv(batch_size=size, system_prompt=system)
        env = env.append_transform(llm.DataLoadingPrimer(dataloader=Loader(rows), primers=primers))
        for transform in make(module(library, "envs.llm.transforms"), module(library, "envs.llm.reward")):
            env.append_transform(transform)
        td = env.reset()
        chat = td["history"]
        said = [[response] for response in responses]
        row = history(role=[["assistant"]] * number, content=said, batch_size=(number, 1))
        chat.full, chat.response = chat.prompt.extend(row, dim=-1, inplace=False), row
        td["history"] = chat
        found = env.step(td)["next"]
        prompt = found["history"].prompt
        said = [[plain(each) for each in getattr(prompt, name)] for name in ("role", "content")]
        del td_library
        return {"said": said, **{key: plain(found.get(key, None)) for key in keys}}

    return run


RESPONSES = ["<think>q</think><answer>72</answer>", "<answer>71</answer>", "none", "<answer>72 clips</answer>",
             "<think></think><answer>$72.00</answer>", "<answer></answer>", "<think>z</think>"]  # fmt: skip
REWARDS = ("reward", "reward_answer", "reward_think", "reward_right", "success", "done", "terminated")
for _name, _options in {
    "plain": {}, "eos": {"eos_token": "72</answer>"}, "on": {"set_done_if_answer": False},
    "worth": {"correct_reward": 3.0},
    "form": {"format_reward": 0.5},
}.items():  # fmt: skip
    cell("rewards", f"gsm8k/{_name}", talked(
        lambda transforms, reward, o=_options: [reward.GSM8KRewardParser(**o)], RESPONSES, keys=REWARDS))  # fmt: skip
    cell("rewards", f"math/{_name}", talked(
        lambda transforms, reward, o=_options: [reward.MATHRewardParser(**o)], RESPONSES, [r"so \boxed{72}"] * 7,
        keys=REWARDS))  # fmt: skip
    cell("rewards", f"countdown/{_name}", talked(
        lambda transforms, reward, o=_options: [reward.CountdownRewardParser(**o)],
        ["<answer>1*2*3</answer>", "<answer>1+2</answer>", "none"], ["target=6, numbers=1,2,3"] * 3,
        keys=REWARDS))  # fmt: skip
for _name, _options in {
    "plain": {}, "user": {"role": "user", "edit_last_turn": False}, "added": {"edit_last_turn": False},
    "reward": {"zero_reward": False}, "done": {"undo_done": False}, "prompt": {"prompt": "PP"},
    "egocentric": {"role": "user", "edit_last_turn": False, "egocentric": True}, "never": {"cond": lambda td: False},
    "wrong": {"cond": lambda td: td["reward"] < 0.5},
}.items():  # fmt: skip
    cell("thinking", _name, talked(
        lambda transforms, reward, o=_options: [reward.GSM8KRewardParser(), transforms.AddThinkingPrompt(
            **{"cond": lambda td: True, **o})],
        ["<think>hm</think><answer>71</answer>", "<answer>72</answer>"],
        keys=("reward", "done", "terminated")))  # fmt: skip


class Add:
    name, schema_in, schema_out = "add", {}, {}

    def __call__(self, a, b, **kwargs):
        return {"result": a + b, "more": sorted(kwargs)}


BLOCKS = ['say <tool name="add" tag="T">{"a":1,"b":2}</tool><tool name="add">{"a":3,"b":4}</tool>', "none"]
FAILING = ['<tool name="add">{"a":1}</tool><tool name="add">{"a":3,"b":4}</tool>', "none"]
NAMED = ['<tool>add\n{"a":1,"b":2}</tool><tool>bad\n{}</tool>', "<tool>zz\n{}</tool> <tool>add\nnojson</tool>"]
for _name, (_responses, _options) in {
    "blocks": (BLOCKS, {}), "stateless": (BLOCKS, {"pass_state_to_tools": False}), "failing": (FAILING, {}),
    "stopping": (FAILING, {"stop_on_error": True}), "none": (["a", "b"], {}),
}.items():  # fmt: skip
    cell("tools", f"in-order/{_name}", talked(
        lambda transforms, reward, o=_options: [transforms.ExecuteToolsInOrder(
            transforms.ToolRegistry([Add()]), transforms.XMLBlockParser(), **o)],
        _responses, keys=("done",)))  # fmt: skip
cell("tools", "simple", talked(lambda transforms, reward: [transforms.SimpleToolTransform(
    {"add": lambda a, b: a + b, "bad": lambda: 1 / 0})], NAMED, keys=("done",)))  # fmt: skip
cell("tools", "python", talked(lambda transforms, reward: [transforms.PythonInterpreter()], [
    "Run:\n```python\na=1\nprint(a)\n```\nand ```python\nprint(2)\n```", "no code"], keys=("done",)))  # fmt: skip
cell("conversations", "version", talked(
    lambda transforms, reward: [transforms.PolicyVersion()], ["a"],
    keys=("policy_version", "query", "answer")))  # fmt: skip
cell("conversations", "plain", talked(lambda transforms, reward: [], ["a", "b"], keys=("done", "terminated")))
cell("conversations", "no-system", talked(lambda transforms, reward: [], ["a"], system=None))


# IFEval: its reward of scores, and its checks without models of languages


def aggregated(scores, thoughts, answers):
    def run(library):
        tensordicts(library)
        reward = module(library, "envs.llm.reward")
        names = ("prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc")
        values = dict(zip(names, map(torch.tensor, scores), strict=True))
        return reward.IfEvalScorer().default_reward_aggregator(
            reward.IFEvalScoreData(**values, batch_size=()), thoughts, answers
        )

    return run


SCORES = [([True], [True], [True], [True]), ([False], [True, False], [True], [True, True]),
          ([False], [False, False], [False], [False, True])]  # fmt: skip
BLOCKS_OF = [(None, None), (["a"], ["b"]), ([], ["b"]), (["a"], []), ([], []), (["a", "b"], ["b"]), (["a"], ["b", "c"])]
for _at, _scores in enumerate(SCORES):
    for _number, _blocks in enumerate(BLOCKS_OF):
        cell("ifeval-rewards", f"{_at}/{_number}", aggregated(_scores, *_blocks))

CHECKS = {
    "punctuation:no_comma": ({}, ["a b", "a, b"]),
    "startend:quotation": ({}, ['"a"', '"', 'a "b"', ' "a" ']),
    "startend:end_checker": ({"end_phrase": "The end."}, ["x the end.", 'x The end."', "the end"]),
    "combination:two_responses": ({}, ["a ****** b", "a ****** a", "a", "a ****** ****** b", "****** a ****** b"]),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say it"}, ["say it now", "it"]),
    "detectable_format:title": ({}, ["<<A>> b", "<< >>", "<A>"]),
    "detectable_format:json_format": ({}, ['```json\n{"a": 1}\n```', "{'a': 1}", "3", '```JSON\n[1]```']),
    "detectable_format:multiple_sections": ({"section_spliter": "Part", "num_sections": 2},
                                            ["Part 1 a Part 2", "Part 1", "Part x"]),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, ["*a* *b*", "**a**", "* * *a*", "***"]),
    "detectable_format:constrained_response": ({}, ["My answer is maybe.", "Maybe."]),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, ["* a\n- b", "* a\n** b", "- a", " - a\n  * b"]),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, ["x\nP.S. it", "p. s. it", "x", "PS it"]),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, ["[a] [b]", "[a]", "[a [b] c]"]),
    "length_constraints:number_words": ({"num_words": 3, "relation": "less than"},
                                         ["one two", "one two three", "a-b c"]),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2}, ["a\n***\nb", "a *** *** b", "*** a *** b ***", "a"]),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "two"},
        ['one\n\n"Two, it is', "one\n\nthree", "one", "a\n\n\n\ntwo"]),
    "keywords:existence": ({"keywords": ["Cat", "dog"]}, ["a cat, two dogs", "a cat"]),
    "keywords:frequency": ({"keyword": "a", "frequency": 2, "relation": "at least"}, ["a A", "a", "banana"]),
    "keywords:forbidden_words": ({"forbidden_words": ["cat"]}, ["concatenate", "a Cat"]),
    "keywords:letter_frequency": ({"letter": "z", "let_frequency": 2, "let_relation": "at least"}, ["zZ", "z"]),
    "language:response_language": ({"language": "de"}, ["das Haus steht auf dem Berg neben dem Wald und dem Fluss",
                                                       "the river runs through the valley and the town", "123"]),
    "change_case:english_lowercase": ({}, ["the river runs through the valley and the town", "The river", "123"]),
    "change_case:english_capital": ({}, ["THE RIVER RUNS THROUGH THE VALLEY AND THE TOWN", "The river"]),
}  # fmt: skip


def checked(identifier, arguments, answer):
    def run(library):
        td_library = tensordicts(library)
        llm, policies = module(library, "envs.llm"), module(library, "modules.llm.policies")
        history = module(library, "data.llm").History

        class Parent:
            input_mode = "history"
            base_env = property(lambda self: self)

        class Scorer(llm.IfEvalScorer):
            parent = Parent()

        response = f"<answer>{answer}</answer>"
        chat = history.from_chats([{"role": "user", "content": "p"}, {"role": "assistant", "content": response}])
        wrapped = td_library.NonTensorData
        td = td_library.TensorDict(
            {"instruction_id_list": wrapped([identifier]), "kwargs": wrapped([arguments]), "key": torch.tensor(0),
             "text": wrapped("p"), "done": torch.zeros(1, dtype=torch.bool)}, [])  # fmt: skip
        td["history"] = policies.ChatHistory(full=chat, response=chat[-1:], prompt=chat[:-1], batch_size=())
        found = Scorer()._step(td, td.clone())
        score = found["ifeval_score"]
        return score.inst_level_strict_acc, score.inst_level_loose_acc, score.prompt_level_strict_acc, found["reward"]

    return run


for _identifier, (_arguments, _answers) in CHECKS.items():
    for _at, _answer in enumerate(_answers):
        cell("ifeval-checks", f"{_identifier}/{_at}", checked(_identifier, _arguments, _answer))


# Chess


def played(fen, move, **options):
    def run(library):
        td_library = tensordicts(library)
        env = module(library, "envs.custom").ChessEnv(include_fen=True, mask_actions=False, **options)
        td = env.reset(td_library.TensorDict({"fen": fen}))
        moves = env.san_moves
        td["action"] = torch.tensor(moves.index(move))
        found = env.step(td)["next"]
        return {key: plain(found.get(key)) for key in sorted(found.keys())}, plain(td.get("fen"))

    return run


START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
ALL = {"include_san": True, "include_pgn": True, "include_legal_moves": True}
for _name, (_fen, _move, _options) in {
    "opening": (START, "e4", ALL), "mate": ("6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1", "Ra8#", {}),
    "castles": ("6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1", "O-O-O", {"include_san": True}),
    "stalemate": ("7k/8/5Q2/6K1/8/8/8/8 w - - 0 1", "Qf7", {}),
    "fifty": ("7k/8/8/6K1/8/8/8/R7 w - - 99 80", "Ra2", {}),
    "insufficient": ("7k/8/8/8/8/8/1r6/K7 w - - 0 1", "Kxb2", {}),
    "promotion": ("8/P7/8/4k3/8/8/8/4K3 w - - 0 1", "a8=N", ALL),
    "illegal": (START, "Kb2", {}), "over": ("8/8/8/8/8/5k2/6q1/7K w - - 0 1", "e4", {}), "broken": ("xx", "e4", {}),
    "stateless": (START, "Nf3", {"stateful": False}),
}.items():  # fmt: skip
    cell("chess", _name, played(_fen, _move, **_options))
cell("chess", "moves", lambda library: list(module(library, "envs.custom").ChessEnv(mask_actions=False).san_moves))
for _uci in (False, True):
    cell("chess", f"legal/{_uci}", lambda library, uci=_uci: module(
        library, "envs.custom").ChessEnv(mask_actions=False).get_legal_moves(uci=uci))  # fmt: skip


# Trading


def traded(actions, reset=True, **options):
    def run(library):
        tensordicts(library)
        kind = module(library, "envs.custom").FinancialRegimeEnv
        env = kind(window_size=options.get("window_size"), seed=0)
        env.set_seed(7)
        params = kind.gen_params(**options)
        td = env.reset(params) if reset else env.reset()
        steps = []
        for action in actions:
            td["action"] = torch.tensor([action])
            step = env.step(td)
            steps.append(step["next"])
            td = env.step_mdp(step)
        names = (
            "price_history",
            "reward",
            "current_holdings",
            "entry_price",
            "step_count",
            "done",
            "terminated",
            "truncated",
        )
        return {name: [step[name] for step in steps] for name in names}, params["params"].to_dict()

    return run


ENDS = ("done", "terminated", "truncated")
TRADES = [2, 1, 0, 1, 2, 2, 1, 0]
for _name, _options in {
    "plain": {}, "window": {"window_size": 4}, "quiet": {"volatility": 0.0}, "short": {"max_steps": 5},
    "costly": {"transaction_cost": 0.1, "drift": 0.5}, "cheap": {"initial_price": 1.0, "transaction_cost": 0.0},
}.items():  # fmt: skip
    cell("trading", _name, traded(TRADES, **_options))
cell("trading", "defaults", traded(TRADES, reset=False))


# Texts and tokens that grow


def grown(library):
    td_library = tensordicts(library)
    env = module(library, "envs.llm").LLMHashingEnv(vocab_size=10, text_output=False)
    td = env.reset(td_library.TensorDict({"observation": torch.tensor([1, 2])}))
    td["action"] = torch.tensor([3])
    found = env.step(td)["next"]
    return found["observation"], found["hashing"].shape, found["done"], sorted(found.keys())


cell("tokens", "hashing", grown)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
