"""Environments of data sets, on miniatures in their true layout: files of the Hub's repositories in a local folder."""

from __future__ import annotations

import pytest
from conversing import after

from flambeau.rl.envs.llm import CountdownEnv, GSM8KEnv, IFEvalEnv, MATHEnv, make_gsm8k_env
from flambeau.rl.envs.llm.reward import CountdownRewardParser

datasets = pytest.importorskip("datasets", reason="needs datasets")


@pytest.fixture(autouse=True)
def _cached_here(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def written(folder, rows, split="train", config=None):
    """A repository with one file of Parquet, named as the Hub names it."""
    inside = folder / (config or "data")
    inside.mkdir(parents=True)
    datasets.Dataset.from_list(rows).to_parquet(inside / f"{split}-00000-of-00001.parquet")
    if config is not None:
        files = f"  data_files:\n  - split: {split}\n    path: {config}/{split}-*"
        card = f"---\nconfigs:\n- config_name: {config}\n{files}\n---\n"
        (folder / "README.md").write_text(card)
    return str(folder)


@pytest.fixture
def gsm8k(tmp_path):
    answer = "Natalia sold 48/2 = <<48/2=24>>24 clips.\n#### {}"
    rows = [{"question": f"How many, {number}?", "answer": answer.format(number)} for number in (72, 10)]
    return written(tmp_path / "gsm8k", rows, config="main")


def test_problems_of_gsm8k_are_asked_and_answers_rewarded(gsm8k):
    env = GSM8KEnv(dataset=gsm8k, shuffle=False, num_envs=2, batch_size_dl=2)
    td = env.reset()
    assert td["history"].prompt.role == [["system", "user"]] * 2
    assert [row[1] for row in td["history"].prompt.content] == ["How many, 72?", "How many, 10?"]
    found = after(GSM8KEnv(dataset=gsm8k, shuffle=False, num_envs=2), ["<think>a</think><answer>72</answer>", "10"])
    assert found["reward"].flatten().tolist() == [1, 0]
    assert found["done"].all()  # after one turn


def test_the_order_of_problems_is_that_of_the_seed(gsm8k):
    def order(seed):
        env = GSM8KEnv(dataset=gsm8k, seed=seed, compute_reward=False)
        return [env.reset()["query"][0] for _ in range(8)]

    assert order(1) == order(1)
    assert any(order(1) != order(seed) for seed in range(2, 8))


def test_problems_of_gsm8k_are_texts_as_well(gsm8k):
    env = make_gsm8k_env(gsm8k, seed=0)
    td = env.reset()
    assert td["text"][0].endswith("Assistant: <think>") and "How many" in td["text"][0]
    number = td["answer"][0].rpartition("#### ")[2]
    found = env.step(td.set("text_response", [f"</think><answer>{number}</answer>"]))["next"]
    assert found["reward"].item() == 1


def test_problems_of_math_are_asked_and_answers_rewarded(tmp_path):
    rows = [{"problem": "2 + 2?", "level": "Level 1", "type": "Algebra", "solution": r"It is $\boxed{4}$."}]
    env = MATHEnv(dataset=written(tmp_path / "math", rows))
    assert after(env, ["<answer>4</answer>"])["reward"].item() == 1


def test_prompts_of_ifeval_are_asked_and_answers_rewarded(tmp_path):
    empty = {"num_words": None, "relation": None, "end_phrase": None}
    rows = [
        {"key": 1000, "prompt": "Write. End with: Bye.",
         "instruction_id_list": ["punctuation:no_comma", "startend:end_checker"],
         "kwargs": [empty, empty | {"end_phrase": "Bye."}]},
        {"key": 1001, "prompt": "Write little.", "instruction_id_list": ["length_constraints:number_words"],
         "kwargs": [empty | {"num_words": 3, "relation": "less than"}]},
    ]  # fmt: skip
    env = IFEvalEnv(dataset=written(tmp_path / "ifeval", rows), shuffle=False, num_envs=2, batch_size_dl=2)
    found = after(env, ["<think>so</think><answer>Hello. Bye.</answer>", "<answer>far too many words</answer>"])
    assert found["key"].tolist() == [1000, 1001]
    assert found["reward"].flatten().tolist() == pytest.approx([1.15, 0.1])


def test_every_problem_of_countdown_has_a_solution_and_seeds_repeat_them():
    env = CountdownEnv(seed=0, num_envs=3, batch_size_dl=3, num_count=3, max_number=9, max_target=50)
    asked = env.reset()
    again = CountdownEnv(seed=0, num_envs=3, batch_size_dl=3, num_count=3, max_number=9, max_target=50).reset()
    assert list(asked["answer"]) == list(again["answer"])
    for answer in asked["answer"]:
        target, numbers = CountdownRewardParser()._reference(answer)
        assert 1 <= target <= 50 and max(numbers) <= 9
        assert any(CountdownRewardParser.validate_expression(each, target, numbers) for each in expressions(numbers))
    with pytest.raises(ValueError, match="positive"):
        CountdownEnv(num_count=0)


def expressions(numbers):
    """All of them that take one number after the other."""
    if len(numbers) == 1:
        yield str(numbers[0])
        return
    for at, number in enumerate(numbers):
        for rest in expressions(numbers[:at] + numbers[at + 1 :]):
            yield from (f"({rest}) {sign} {number}" for sign in "+-*")
