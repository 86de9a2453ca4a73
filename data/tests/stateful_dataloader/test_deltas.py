"""Patches of states."""

import copy

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.data._deltas import Decoder, Encoder, apply, difference, same

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=2)
STATES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=25
)


@settings(deadline=None)
@given(STATES, STATES)
def test_a_patch_turns_the_old_into_the_new(old, new):
    assert same(apply(copy.deepcopy(old), difference(old, new)), new)


@settings(deadline=None)
@given(st.lists(STATES, min_size=1, max_size=8))
def test_a_decoder_knows_what_the_encoder_was_given_last(states):
    encoder, decoder = Encoder(), Decoder()
    padding = "x" * 5000  # large enough to be compared
    for state in states:
        decoder.receive(encoder.encode({"state": state, "padding": padding}))
        assert same(decoder.value(), {"state": state, "padding": padding})


def test_a_state_that_its_owner_changes_in_place_is_noticed():
    encoder, decoder = Encoder(), Decoder()
    buffer = list(range(5000))
    for step in range(200):
        buffer[step] = -1
        message = encoder.encode({"buffer": buffer})
        decoder.receive(message)
        assert step == 0 or len(message[1]) < 200
    assert decoder.value() == {"buffer": buffer}


def test_tensors_are_compared_by_content():
    assert same({"a": torch.ones(2)}, {"a": torch.ones(2)})
    assert not same({"a": torch.ones(2)}, {"a": torch.zeros(2)})
    assert not same(1, True)
