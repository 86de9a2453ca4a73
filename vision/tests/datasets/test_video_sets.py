"""Sets of videos read as clips: which videos belong to a fold, where classes are, how Kinetics is fetched."""

import io
import tarfile

import pytest

pytest.importorskip("av")  # vision works without it; these datasets say so when they are used

from flambeau.core.errors import DatasetMissingError
from flambeau.core.testing.server import FileServer
from flambeau.vision._miniatures.files import lines
from flambeau.vision._miniatures.videos import video
from flambeau.vision.datasets import HMDB51, UCF101, Kinetics, wrap_dataset_for_transforms_v2
from flambeau.vision.tv_tensors import Video


def labels(dataset):
    return [label for *_, label in dataset]


def names(dataset):
    return [path.rpartition("/")[2] for path in dataset.video_clips.video_paths]


def test_hmdb51_goes_by_the_tags_of_the_fold(miniature):
    hmdb = miniature("hmdb51")
    assert names(hmdb.dataset) == ["clap_a.avi", "wave_a.avi"]
    assert labels(hmdb.dataset) == [0, 0, 0, 1, 1, 1]
    assert names(hmdb.build(train=False)) == ["clap_b.avi", "wave_b.avi"]
    assert names(hmdb.build(fold=2)) == ["clap_b.avi", "wave_b.avi"]
    assert hmdb.dataset[0][0].shape == (2, 16, 32, 3)


def test_ucf101_goes_by_the_list_of_the_fold(miniature):
    ucf = miniature("ucf101")
    first, second = names(ucf.build(fold=2)), names(ucf.build(fold=2, train=False))
    assert first == ["v_Archery_g01_c01.avi", "v_YoYo_g01_c01.avi"]
    assert second == ["v_Archery_g02_c01.avi", "v_YoYo_g02_c01.avi"]
    assert names(ucf.dataset) == second
    assert labels(ucf.dataset) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", ["hmdb51", "ucf101"])
def test_a_fold_there_is_not_is_refused(miniature, name):
    with pytest.raises(ValueError, match="fold should be 1, 2 or 3, got 4"):
        miniature(name).build(fold=4)


def test_metadata_saves_reading_the_times_again(miniature):
    hmdb = miniature("hmdb51")
    again = hmdb.build(_precomputed_metadata=hmdb.dataset.metadata, train=False)
    assert len(again.metadata["video_paths"]) == 4
    assert len(again) == 6


@pytest.mark.parametrize("kind", [HMDB51, UCF101])
def test_a_missing_folder_is_named_with_where_to_get_it(tmp_path, kind):
    with pytest.raises(DatasetMissingError, match=r"missing.*obtain it from https://"):
        kind(tmp_path / "videos", str(tmp_path), 2)


def test_kinetics_puts_channels_first_unless_told(miniature):
    kinetics = miniature("kinetics")
    assert kinetics.dataset[0][0].shape == (3, 3, 16, 32)
    assert kinetics.build(output_format="THWC")[0][0].shape == (3, 16, 32, 3)
    assert (kinetics.dataset.classes, labels(kinetics.dataset)) == (["abseiling", "zumba"], [0, 0, 1, 1])
    assert len(Kinetics(kinetics.placed / "train", 3, num_workers=0, step_between_clips=3, _legacy=True)) == 4


def test_kinetics_says_that_a_download_helps(tmp_path):
    with pytest.raises(DatasetMissingError, match=r"train is missing.*download=True"):
        Kinetics(tmp_path, 3)


def test_kinetics_is_fetched_and_sorted_into_classes(tmp_path, monkeypatch):
    packed = {}
    for part, ids in (("part_0.tar.gz", ["abc", "-x_"]), ("part_1.tar.gz", ["zzz"])):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for number in ids:
                name = f"{number}_000001_000011.mp4"
                archive.add(video(tmp_path / "made" / name), name)
        packed[part] = buffer.getvalue()
    rows = ["label,youtube_id,time_start,time_end,split,is_cc", "shaking (not a drink),abc,1,11,val,0"]
    rows += ["changing gear,-x_,1,11,val,0", "changing gear,gone,1,11,val,0", "changing gear,zzz,1,11,val,0"]
    packed["val.csv"] = lines(tmp_path / "val.csv", *rows).read_bytes()
    with FileServer(packed) as server:
        packed_urls = "\n".join(server.url(part) for part in ("part_0.tar.gz", "part_1.tar.gz"))
        server.files["paths.txt"] = packed_urls.encode()
        monkeypatch.setitem(Kinetics._TAR_URLS, "600", server.url("paths.txt"))
        monkeypatch.setitem(Kinetics._ANNOTATION_URLS, "600", server.url("{split}.csv"))
        options = {"num_classes": "600", "split": "val", "num_workers": 0, "step_between_clips": 3}
        dataset = Kinetics(tmp_path / "data", 3, download=True, num_download_workers=2, **options)
        assert dataset.classes == ["changing_gear", "shaking_not_a_drink"]
        assert labels(dataset) == [0, 0, 0, 0, 1, 1]
        asked = len(server.log)
        Kinetics(tmp_path / "data", 3, download=True, **options)
        assert len(server.log) == asked == 4


@pytest.mark.parametrize("name", ["hmdb51", "kinetics"])
def test_wrapped_clips_are_typed_with_channels_first(miniature, name):
    clip, _, label = wrap_dataset_for_transforms_v2(miniature(name).dataset)[-1]
    assert isinstance(clip, Video)
    assert clip.shape[-3:] == (3, 16, 32)
    assert label == 1
