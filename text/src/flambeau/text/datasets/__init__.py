"""Text datasets as pipelines; each loads when its name is first used, and the registry has the facts without that.

A function takes `root` and `split` and gives a pipeline that fetches, verifies and unpacks its files when it is first
read. `get_dataset("text/sst2", split="dev")` gives the same items by index, and `flambeau.data.load_dataset` streams
those. Each module has its `URL`, `MD5` and `NUM_LINES`; they are read at each call, so that changing them changes where
files come from.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.text.datasets._tables import DATASETS as DATASETS
    from flambeau.text.datasets._tables import MD5 as MD5
    from flambeau.text.datasets._tables import NUM_LINES as NUM_LINES
    from flambeau.text.datasets._tables import URLS as URLS
    from flambeau.text.datasets.ag_news import AG_NEWS as AG_NEWS
    from flambeau.text.datasets.amazonreviewfull import AmazonReviewFull as AmazonReviewFull
    from flambeau.text.datasets.amazonreviewpolarity import AmazonReviewPolarity as AmazonReviewPolarity
    from flambeau.text.datasets.cc100 import CC100 as CC100
    from flambeau.text.datasets.cnndm import CNNDM as CNNDM
    from flambeau.text.datasets.cola import CoLA as CoLA
    from flambeau.text.datasets.conll2000chunking import CoNLL2000Chunking as CoNLL2000Chunking
    from flambeau.text.datasets.dbpedia import DBpedia as DBpedia
    from flambeau.text.datasets.enwik9 import EnWik9 as EnWik9
    from flambeau.text.datasets.imdb import IMDB as IMDB
    from flambeau.text.datasets.iwslt2016 import IWSLT2016 as IWSLT2016
    from flambeau.text.datasets.iwslt2017 import IWSLT2017 as IWSLT2017
    from flambeau.text.datasets.mnli import MNLI as MNLI
    from flambeau.text.datasets.mrpc import MRPC as MRPC
    from flambeau.text.datasets.multi30k import Multi30k as Multi30k
    from flambeau.text.datasets.penntreebank import PennTreebank as PennTreebank
    from flambeau.text.datasets.qnli import QNLI as QNLI
    from flambeau.text.datasets.qqp import QQP as QQP
    from flambeau.text.datasets.rte import RTE as RTE
    from flambeau.text.datasets.sogounews import SogouNews as SogouNews
    from flambeau.text.datasets.squad1 import SQuAD1 as SQuAD1
    from flambeau.text.datasets.squad2 import SQuAD2 as SQuAD2
    from flambeau.text.datasets.sst2 import SST2 as SST2
    from flambeau.text.datasets.stsb import STSB as STSB
    from flambeau.text.datasets.udpos import UDPOS as UDPOS
    from flambeau.text.datasets.wikitext2 import WikiText2 as WikiText2
    from flambeau.text.datasets.wikitext103 import WikiText103 as WikiText103
    from flambeau.text.datasets.wnli import WNLI as WNLI
    from flambeau.text.datasets.yahooanswers import YahooAnswers as YahooAnswers
    from flambeau.text.datasets.yelpreviewfull import YelpReviewFull as YelpReviewFull
    from flambeau.text.datasets.yelpreviewpolarity import YelpReviewPolarity as YelpReviewPolarity

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_tables": ("DATASETS", "MD5", "NUM_LINES", "URLS"),
        "ag_news": ("AG_NEWS",),
        "amazonreviewfull": ("AmazonReviewFull",),
        "amazonreviewpolarity": ("AmazonReviewPolarity",),
        "cc100": ("CC100",),
        "cnndm": ("CNNDM",),
        "cola": ("CoLA",),
        "conll2000chunking": ("CoNLL2000Chunking",),
        "dbpedia": ("DBpedia",),
        "enwik9": ("EnWik9",),
        "imdb": ("IMDB",),
        "iwslt2016": ("IWSLT2016",),
        "iwslt2017": ("IWSLT2017",),
        "mnli": ("MNLI",),
        "mrpc": ("MRPC",),
        "multi30k": ("Multi30k",),
        "penntreebank": ("PennTreebank",),
        "qnli": ("QNLI",),
        "qqp": ("QQP",),
        "rte": ("RTE",),
        "sogounews": ("SogouNews",),
        "squad1": ("SQuAD1",),
        "squad2": ("SQuAD2",),
        "sst2": ("SST2",),
        "stsb": ("STSB",),
        "udpos": ("UDPOS",),
        "wikitext103": ("WikiText103",),
        "wikitext2": ("WikiText2",),
        "wnli": ("WNLI",),
        "yahooanswers": ("YahooAnswers",),
        "yelpreviewfull": ("YelpReviewFull",),
        "yelpreviewpolarity": ("YelpReviewPolarity",),
    },
)
