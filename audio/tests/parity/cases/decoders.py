"""Decoders of CTC and of transducers."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import torch

from flambeau.core.testing.fill import fill_, tensor

from .models import RNNT
from .registry import DECODERS

TOKENS = ["-", "|", "a", "b", "c", "d"]
LEXICON = "ab a b |\nba b a |\ncab c a b |\ndad d a d |\nabc a b c |\ndd d d |\na a |\n"
ARPA = """\\data\\
ngram 1=10
ngram 2=9

\\1-grams:
-1.2\t<s>\t-0.3
-1.0\t</s>
-2.0\t<unk>
-0.9\tab\t-0.25
-1.1\tba\t-0.2
-1.3\tcab\t-0.15
-1.4\tdad\t-0.3
-1.2\tabc\t-0.1
-1.5\tdd\t-0.2
-0.7\ta\t-0.4

\\2-grams:
-0.4\t<s> ab
-0.9\t<s> a
-0.5\tab ba
-0.8\tab cab
-0.6\tba </s>
-0.7\ta dad
-0.3\tdad </s>
-0.5\tcab ab
-0.9\tabc dd

\\end\\
"""
TOKEN_ARPA = """\\data\\
ngram 1=9
ngram 2=6

\\1-grams:
-1.2\t<s>\t-0.3
-1.0\t</s>
-2.0\t<unk>
-1.6\t-\t-0.2
-0.8\t|\t-0.3
-0.7\ta\t-0.25
-0.9\tb\t-0.2
-1.1\tc\t-0.15
-1.0\td\t-0.3

\\2-grams:
-0.4\t<s> a
-0.5\ta b
-0.6\tb |
-0.3\t| c
-0.7\tc a
-0.4\td d

\\end\\
"""


def emissions(batch=2, frames=24):
    return (tensor("em", (batch, frames, len(TOKENS))) * 4).log_softmax(-1).contiguous()


def hypo(h):
    return {
        "tokens": h.tokens.tolist(),
        "words": list(h.words),
        "score": round(float(h.score), 4),
        "timesteps": h.timesteps.tolist(),
    }


def ctc(audio, lexicon=True, lm=None, lengths=None, **kw):
    dec = importlib.import_module(audio.__name__ + ".models.decoder")
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        (d / "lexicon.txt").write_text(LEXICON)
        (d / "lm.arpa").write_text(TOKEN_ARPA if lm == "token" else ARPA)
        lm_arg = str(d / "lm.arpa") if lm in ("word", "token") else lm
        decoder = dec.ctc_decoder(lexicon=str(d / "lexicon.txt") if lexicon else None, tokens=TOKENS, lm=lm_arg, **kw)
        return [[hypo(h) for h in hs] for hs in decoder(emissions(), lengths)]


def decoder_case(name, function):
    DECODERS[name] = (function, 1e-3, 1e-3)


decoder_case("ctc/lexicon,no lm", lambda audio: ctc(audio, nbest=3, beam_size=50))
decoder_case("ctc/lexicon,word kenlm", lambda audio: ctc(audio, lm="word", nbest=3, lm_weight=2.0, word_score=-0.5))
decoder_case(
    "ctc/lexicon,word kenlm,beam 500,log_add", lambda audio: ctc(audio, lm="word", nbest=3, beam_size=500, log_add=True)
)
decoder_case(
    "ctc/lexicon,sil_score,unk",
    lambda audio: ctc(audio, lm="word", nbest=2, sil_score=0.5, unk_score=-1.0, word_score=1.0),
)
decoder_case(
    "ctc/lexicon,beam_size_token=3,threshold=8",
    lambda audio: ctc(audio, nbest=2, beam_size=5, beam_size_token=3, beam_threshold=8.0),
)
decoder_case("ctc/lexicon,lengths", lambda audio: ctc(audio, nbest=2, lengths=torch.tensor([24, 13])))
decoder_case("ctc/lexicon-free,no lm", lambda audio: ctc(audio, lexicon=False, nbest=3))
decoder_case("ctc/lexicon-free,no lm,beam 1", lambda audio: ctc(audio, lexicon=False, nbest=1, beam_size=1))
decoder_case("ctc/lexicon-free,no lm,log_add", lambda audio: ctc(audio, lexicon=False, nbest=3, log_add=True))
decoder_case(
    "ctc/lexicon-free,token kenlm", lambda audio: ctc(audio, lexicon=False, lm="token", nbest=3, lm_weight=1.5)
)
decoder_case(
    "ctc/lexicon-free,token kenlm,log_add,sil",
    lambda audio: ctc(audio, lexicon=False, lm="token", nbest=3, lm_weight=0.7, log_add=True, sil_score=-0.5),
)


def ctc_online(audio):
    dec = importlib.import_module(audio.__name__ + ".models.decoder")
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "lexicon.txt"
        path.write_text(LEXICON)
        decoder = dec.ctc_decoder(lexicon=str(path), tokens=TOKENS, nbest=2)
        em = emissions(1)[0]
        decoder.decode_begin()
        for i in range(0, 24, 6):
            decoder.decode_step(em[i : i + 6].contiguous())
        decoder.decode_end()
        return [hypo(h) for h in decoder.get_final_hypothesis()]


decoder_case("ctc/online decode_step", ctc_online)


def custom_lm(audio):
    dec = importlib.import_module(audio.__name__ + ".models.decoder")

    class LM(dec.CTCDecoderLM):
        def __init__(self):
            super().__init__()
            self.states = {}

        def start(self, start_with_nothing):
            state = dec.CTCDecoderLMState()
            self.states[state] = 0
            return state

        def score(self, state, token):
            new = state.child(token)
            self.states.setdefault(new, self.states.get(state, 0) + 1)
            return new, -0.1 * token - 0.05 * self.states[new]

        def finish(self, state):
            return state, -0.5

    return ctc(audio, lexicon=False, lm=LM(), nbest=2, beam_size=10)


decoder_case("ctc/lexicon-free,custom CTCDecoderLM", custom_lm)


def tiny_rnnt(audio):
    return fill_(audio.models.emformer_rnnt_model(**RNNT).eval())


def rnnt_hypo(h):
    return {"tokens": list(h[0]), "score": round(float(h[3]), 4)}


def rnnt_search(audio, streaming=False, **kw):
    decoder = audio.models.RNNTBeamSearch(tiny_rnnt(audio), 8, step_max_tokens=3, **kw)
    with torch.no_grad():
        if not streaming:
            return [rnnt_hypo(h) for h in decoder(tensor("x", (1, 18, 10)), torch.tensor([18]), 4)]
        state, hypos, out = None, None, []
        for i in range(3):
            hypos, state = decoder.infer(
                tensor(f"x{i}", (1, 6, 10)), torch.tensor([6]), 4, state=state, hypothesis=hypos
            )
            out.append([rnnt_hypo(h) for h in hypos])
        return out


decoder_case("rnnt/beam 4", lambda audio: rnnt_search(audio))
decoder_case("rnnt/beam 4,temperature 0.7", lambda audio: rnnt_search(audio, temperature=0.7))
decoder_case("rnnt/streaming", lambda audio: rnnt_search(audio, streaming=True))
