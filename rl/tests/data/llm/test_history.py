"""Conversations: made of dictionaries, written and read by chat templates, and made longer."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import lazy_stack
from flambeau.rl.data.llm import ContentBase, History, add_chat_template
from flambeau.rl.data.llm.chat_templates import CHAT_TEMPLATES, INVERSE_PARSERS
from flambeau.rl.errors import ChatFormatError

CHAT = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "Ciao."},
]  # fmt: skip


def spoken(history):
    return [(message.role, message.content) for message in history]


@pytest.mark.parametrize("template", ["chatml_format", "qwen", "falcon", "deepseek", "llama"])
def test_a_conversation_survives_being_written_and_read(template, tokenizer):
    history = History.from_chats(CHAT)
    text = history.apply_chat_template(tokenizer=tokenizer, chat_template_name=template, add_generation_prompt=False)
    back = History.from_text(text, chat_template_name=template, tokenizer=tokenizer)
    assert spoken(back) == [(message["role"], message["content"]) for message in CHAT]


def test_dialogpt_keeps_all_but_the_system_message(tokenizer):
    text = History.from_chats(CHAT).apply_chat_template(
        tokenizer=tokenizer, chat_template_name="dialogpt", add_generation_prompt=False
    )
    back = History.from_text(text, chat_template_name="dialogpt", tokenizer=tokenizer)
    assert spoken(back) == [(message["role"], message["content"]) for message in CHAT[1:]]


@pytest.mark.parametrize("template", list(CHAT_TEMPLATES))
def test_the_mask_covers_what_the_assistant_said(template, tokenizer):
    found = History.from_chats(CHAT).apply_chat_template(
        tokenizer=tokenizer, chat_template_name=template, return_assistant_tokens_mask=True
    )
    told = tokenizer.decode(found["input_ids"][found["assistant_masks"].bool()])
    assert told.replace(" ", "") == "Hello.Ciao."


def test_the_mask_is_found_where_a_template_marks_nothing(tokenizer):
    found = History.from_chats(CHAT[1:3]).apply_chat_template(
        tokenizer=tokenizer, return_assistant_tokens_mask=True,
        chat_template="{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}",
    )  # fmt: skip
    assert tokenizer.decode(found["input_ids"][found["assistant_masks"].bool()]).strip() == "Hello."


def test_conversations_of_different_lengths_make_one_history():
    history = History.from_chats([CHAT[:2], CHAT[:3]])
    assert history.batch_size == (2, -1)
    assert history.content == [["Be brief.", "Hi"], ["Be brief.", "Hi", "Hello."]]
    assert history[1, 2].role == "assistant"


def test_many_conversations_give_lists_of_texts_and_stacks_of_tokens(tokenizer):
    history = History.from_chats([CHAT[:2], CHAT[:3]])
    texts = history.apply_chat_template(tokenizer=tokenizer)
    tokens = history.apply_chat_template(tokenizer=tokenizer, tokenize=True, return_dict=True)
    ids = tokens.get("input_ids", as_list=True)
    assert [tokenizer.decode(each) for each in ids] == texts


@pytest.mark.parametrize(("method", "added"), [("append", "user"), ("extend", ["user"])])
@pytest.mark.parametrize("inplace", [True, False])
def test_a_history_grows_in_place_or_into_another(method, added, inplace):
    history = History.from_chats(CHAT[:2])
    one = History(
        role=added, content="More" if method == "append" else ["More"], batch_size=() if method == "append" else (1,)
    )
    longer = getattr(history, method)(one, inplace=inplace)
    assert longer.content == ["Be brief.", "Hi", "More"]
    assert (longer is history) == inplace
    assert len(history) == (3 if inplace else 2)


def test_ragged_conversations_grow_by_a_message_each():
    history = History.from_chats([CHAT[:1], CHAT[:2]])
    answers = History.from_chats([{"role": "user", "content": "A"}, {"role": "user", "content": "B"}])
    longer = history.append(answers, inplace=False)
    assert longer.content == [["Be brief.", "A"], ["Be brief.", "Hi", "B"]]


def test_a_message_grows_only_after_it_has_a_dimension():
    message = History(role="user", content="Hi")
    with pytest.raises(RuntimeError, match=r"unsqueeze\(0\)"):
        message.append(message)
    assert message.unsqueeze(0).append(message).content == ["Hi", "Hi"]


@pytest.mark.parametrize("wrong", ["append", "extend"])
def test_a_history_of_another_rank_is_refused(wrong):
    history = History.from_chats(CHAT)
    other = history if wrong == "append" else history[0]
    with pytest.raises(RuntimeError, match="dimensions"):
        getattr(history, wrong)(other)


def test_tool_calls_and_responses_are_read_from_their_tags():
    text = (
        "<|im_start|>assistant\nLet me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n"
    )  # fmt: skip
    call, answer = History.from_text(text, chat_template_name="qwen")
    assert call.tool_calls == [{"name": "add", "arguments": {"a": 1}}]
    assert answer.tool_responses == ["42"]


def test_a_tool_call_that_is_no_json_stays_text():
    (message,) = History.from_text("<|im_start|>assistant\n<tool_call>\nnope\n</tool_call><|im_end|>")
    assert message.tool_calls is None
    assert "nope" in message.content


def test_a_text_that_ends_within_a_message_is_not_complete():
    history = History.from_text("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell")
    assert history.is_complete == [True, False]


@pytest.mark.parametrize("template", ["chatml_format", "qwen", "falcon", "deepseek", "llama"])
def test_text_without_messages_is_refused_with_the_likely_cause(template):
    with pytest.raises(ChatFormatError, match="skip_special_tokens"):
        History.from_text("plain words", chat_template_name=template)


def test_calls_of_tools_are_written_between_their_tags(tokenizer):
    chat = [
        {"role": "user", "content": "Add"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "arguments": {"a": 1}}]},
        {"role": "tool", "content": "42"}, {"role": "tool", "content": "43"},
    ]  # fmt: skip
    text = History.from_chats(chat).apply_chat_template(tokenizer=tokenizer, add_generation_prompt=False)
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>' in text
    assert text.count("<|im_start|>tool") == 1
    assert text.count("<tool_response>") == 2


@pytest.fixture
def without_additions():
    templates, parsers = dict(CHAT_TEMPLATES), dict(INVERSE_PARSERS)
    yield
    for current, before in ((CHAT_TEMPLATES, templates), (INVERSE_PARSERS, parsers)):
        current.clear()
        current.update(before)


@pytest.mark.usefixtures("without_additions")
def test_an_added_template_is_chosen_by_the_name_of_the_model(tokenizer):
    template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}"

    def parse(text):
        return lazy_stack([History("user", words, batch_size=()) for words in text.split("|")[:-1]])

    add_chat_template("barred", template, parse, ["BarModel"])
    tokenizer.name_or_path, before = "org/barmodel-7b", tokenizer.name_or_path
    try:
        text = History.from_chats(CHAT[:2]).apply_chat_template(tokenizer=tokenizer)
        back = History.from_text(text, tokenizer=tokenizer)
    finally:
        tokenizer.name_or_path = before
    assert text == "Be brief.|Hi|"
    assert back.content == ["Be brief.", "Hi"]


def test_a_template_without_marks_is_refused():
    with pytest.raises(ValueError, match="generation"):
        add_chat_template("bare", "{{ messages }}")


def test_unknown_templates_are_refused(tokenizer):
    with pytest.raises(KeyError, match="chatml_format"):
        History.from_chats(CHAT).apply_chat_template(tokenizer=tokenizer, chat_template_name="nope")
    with pytest.raises(NotImplementedError, match="add_chat_template"):
        History.from_text("x", chat_template_name="nope")


@pytest.mark.parametrize(
    ("chats", "error"),
    [
        ([], ValueError), ("text", TypeError), ([{"role": "user"}], TypeError),
        ([{"role": "user", "content": "", "x": 1}], AttributeError),
    ],
)  # fmt: skip
def test_chats_that_are_none_are_refused(chats, error):
    with pytest.raises(error):
        History.from_chats(chats)


def test_a_message_has_parts():
    history = History("user", [ContentBase("text", text="Look:"), ContentBase("image", url="a.png")])
    assert [part.type for part in history.content] == ["text", "image"]


def test_the_spec_gives_histories():
    made = History.default_spec((2,)).zero()
    assert isinstance(made, History)
    assert made.is_complete is True or torch.as_tensor(made.is_complete).all()
