"""Text datasets in data loaders: shuffled, shared out among workers, and by name."""

import pickle
import warnings
from collections import Counter

import pytest
from torch.utils.data import DataLoader

from flambeau.core.datasets import get_dataset
from flambeau.data import load_dataset
from flambeau.data.datapipes.map import SequenceWrapper

REPRESENTATIVE = ("AG_NEWS", "SST2", "UDPOS", "Multi30k", "SQuAD2", "CNNDM")


def as_is(batch):
    return batch


def loaded(pipe, **options):
    with warnings.catch_warnings():
        # Python 3.12 and later warn that a process with threads forks; the workers run no code that takes their locks.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        return [item for batch in DataLoader(pipe, batch_size=2, collate_fn=as_is, **options) for item in batch]


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_workers_share_the_items_and_fetch_the_files_once(publish, name):
    published = publish(name)
    items = loaded(published.pipe("train"), num_workers=2)
    assert Counter(map(repr, items)) == Counter(map(repr, published.items["train"]))
    archives = {download.path for download in published.module._plan("train").source.downloads}
    assert {path: len(published.server.requests(path)) for path in archives} == dict.fromkeys(archives, 1)


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_loader_switches_shuffling_on(publish, name):
    published = publish(name)
    orders = {repr(loaded(published.pipe("train"), shuffle=True)) for _ in range(6)}
    assert len(orders) > 1
    assert loaded(published.pipe("train")) == published.items["train"]
    (order, *_) = orders
    assert len(order) == len(repr(published.items["train"]))


def test_by_name_a_split_is_indexed_or_streamed_by_index(publish):
    published = publish("SST2")
    dataset = get_dataset("text/sst2", root=published.root, split="dev")
    assert dataset[1] == published.items["dev"][1]
    assert "6 items of split 'dev'" in repr(dataset)
    pipe = load_dataset("text/sst2", root=published.root, split="dev", shuffle=True, seed=1)
    assert len(pipe) == 6
    assert Counter(pipe) == Counter(published.items["dev"])


def test_a_pipeline_goes_on_with_any_other_pipe(publish):
    published = publish("AG_NEWS")
    pipe = published.pipe("test").map(len).batch(3).in_batch_shuffle()
    assert list(pipe) == [[2, 2, 2], [2, 2, 2], [2, 2]]
    zipped = published.pipe("test").enumerate()
    assert next(iter(zipped)) == (0, published.items["test"][0])
    assert len(SequenceWrapper(published.indexed("test"))) == 8


def test_a_pipeline_resumes_where_its_state_says(publish):
    published = publish("IMDB")
    pipe = published.pipe("train")
    reader = iter(pipe)
    first = [next(reader) for _ in range(5)]
    state = pickle.loads(pickle.dumps(pipe.state_dict()))
    again = published.pipe("train")
    again.load_state_dict(state)
    assert first + list(again) == published.items["train"]


def test_cola_keeps_its_first_line_when_told_to(publish):
    published = publish("CoLA")
    whole = published.indexed("train", skip_header=False)
    assert len(whole) == len(published.items["train"]) + 1
    assert whole[1] == published.items["train"][0]


def test_options_choose_languages_and_sets(publish):
    talks = publish("IWSLT2016")
    with pytest.raises(ValueError, match="IWSLT2016 does not translate 'de' into 'fr'"):
        talks.pipe("train", language_pair=("de", "fr"))
    with pytest.raises(ValueError, match="test_set='tst2014' does not exist for cs-en"):
        talks.pipe("train", language_pair=("cs", "en"))
    with pytest.raises(ValueError, match="list or tuple"):
        talks.pipe("train", language_pair="de")
    web = publish("CC100")
    with pytest.raises(ValueError, match="no language 'xx'"):
        web.pipe("train", language_code="xx")


def test_multi30k_has_later_test_sets_and_further_languages_from_its_own_repository(publish):
    captions = publish("Multi30k")
    turned = captions.pipe("test_2018_flickr", language_pair=("en", "de"))
    assert list(turned) == [(target, source) for source, target in captions.items["test_2018_flickr"]]
    with pytest.raises(AssertionError, match=r"test_2017_mscoco.*de, en, fr"):
        captions.pipe("test_2017_mscoco", language_pair=("cs", "en"))
    with pytest.raises(AssertionError, match="language_pair"):
        captions.pipe("train", language_pair=("en", "en"))
    plan = captions.module._plan("train", ("fr", "cs"))
    assert [each.url for each in plan.source.downloads] == [
        captions.server.url(f"task1/raw/train.{language}.gz") for language in ("fr", "cs")
    ]
