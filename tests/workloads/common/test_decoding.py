"""Folders as ImageNet has them, and what is wrong with folders that are not quite."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.overrides import TorchFunctionMode

from suite.errors import RequestError
from workloads.common.device_constants import keep_constant_on_device
from workloads.common.pictures import decoding as files
from workloads.common.pictures import file_checks
from workloads.resnet50.images import imagenet


def cut(path: Path, share: float = 0.5) -> None:
    """Truncate a file."""
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def test_index_is_sorted(tiny: Path) -> None:
    """Sample numbers must mean the same on every machine, whatever order the disk lists files
    in.
    """
    found = imagenet.index_imagenet_split(tiny, "val")
    assert found.classes == ("circle", "cross", "star")
    assert found.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert found.path(5) == tiny / "val" / "cross" / "cross_1.JPEG"
    assert len(found) == 12


def test_other_files_are_passed_over(own_tiny: Path) -> None:
    """A README or a directory listing among the pictures is no sample."""
    (own_tiny / "val" / "cross" / "notes.txt").write_text("none")
    assert len(imagenet.index_imagenet_split(own_tiny, "val")) == 12


@pytest.mark.parametrize("split", ["train", "val"])
def test_what_file_systems_put_there_is_left_out(own_tiny: Path, split: str) -> None:
    """A NAS's thumbnails are no class, which would shift all labels, and macOS's `._x.JPEG` is no
    picture.
    """
    before = imagenet.index_imagenet_split(own_tiny, split)
    picture = before.path(0).read_bytes()
    for name in ("@eaDir", ".ipynb_checkpoints", "lost+found"):
        (own_tiny / split / name).mkdir()
    (own_tiny / split / "@eaDir" / "circle_0.JPEG").write_bytes(picture)
    (own_tiny / split / ".montage.JPEG").write_bytes(picture)
    (own_tiny / split / "cross" / "Thumbs.db").write_bytes(b"x")
    (own_tiny / split / "cross" / "._cross_0.JPEG").write_bytes(b"x")
    (own_tiny / split / "star" / "@eaDir").mkdir()
    found = imagenet.index_imagenet_split(own_tiny, split)
    assert found.classes == before.classes and found.names.tolist() == before.names.tolist()
    assert found.left_out == (
        "._cross_0.JPEG",
        ".ipynb_checkpoints",
        ".montage.JPEG",
        "@eaDir",
        "Thumbs.db",
        "lost+found",
    )


@pytest.mark.parametrize(
    "name",
    ["#recycle", "#snapshot", "~snapshot", "__MACOSX", "RECYCLER", "Network Trash Folder"],
)
def test_recycle_bins_and_snapshots_are_no_classes(own_tiny: Path, name: str) -> None:
    """A NAS and macOS's zip files keep whole pictures in them."""
    before = imagenet.index_imagenet_split(own_tiny, "val")
    (own_tiny / "val" / name).mkdir()
    (own_tiny / "val" / name / "circle_0.JPEG").write_bytes(before.path(0).read_bytes())
    found = imagenet.index_imagenet_split(own_tiny, "val")
    assert (found.classes, found.left_out) == (before.classes, (name,))


@pytest.mark.parametrize(
    ("split", "known"),
    [("train", ""), ("val", ", by val_map.txt or the devkit's ground truth")],
)
def test_pictures_beside_the_class_folders_are_counted(
    own_tiny: Path, split: str, known: str
) -> None:
    """ImageNet's val comes unsorted; nothing would be read, or a part only."""
    for path in (own_tiny / split / "cross").iterdir():
        path.rename(own_tiny / split / path.name)
    count = len(list((own_tiny / split).glob("*.JPEG")))
    told = f"{count} pictures lie directly in {split}; sort them into class folders{known}"
    with pytest.raises(RequestError, match=f"{told}$"):
        imagenet.index_imagenet_split(own_tiny, split)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_kaggles_folder_is_named(own_tiny: Path, start: int) -> None:
    """ImageNet from Kaggle lies three folders deeper."""
    given = own_tiny.parent / "kaggle"
    deep = given.joinpath(*("ILSVRC", "Data", "CLS-LOC")[start:])
    deep.mkdir(parents=True)
    own_tiny.rename(deep / "moved")
    (deep / "moved" / "val").rename(deep / "val")
    with pytest.raises(RequestError, match=f"val: no such folder; pass .*--data {deep}$"):
        imagenet.index_imagenet_split(given, "val")


@pytest.mark.parametrize(
    ("tar", "told"),
    [
        ("ILSVRC2012_img_val.tar", "val: no such folder, but ILSVRC2012_img_val.tar; unpack each"),
        ("val/n01440764.tar", "val: only tar files, n01440764.tar; unpack each tar file, so that"),
        ("val/n01440764/all.tar", "n01440764: no images of that class; unpack the tar file in it"),
    ],
)
def test_tar_files_are_to_be_unpacked(tmp_path: Path, tar: str, told: str) -> None:
    """ImageNet is downloaded as tar files, and its train.tar contains a thousand more."""
    path = tmp_path / tar
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w"):
        pass
    with pytest.raises(RequestError, match=told):
        imagenet.index_imagenet_split(tmp_path, "val")


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_missing_split_is_named(tmp_path: Path, split: str) -> None:
    """`--data` at the wrong level is the commonest slip; the message says what is wanted."""
    with pytest.raises(
        RequestError, match=f"{split}: no such folder; expected {split}/<class>/<name>.JPEG"
    ):
        imagenet.index_imagenet_split(tmp_path, split)


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    """No classes: nothing to train on."""
    (tmp_path / "train").mkdir()
    with pytest.raises(RequestError, match="no images"):
        imagenet.index_imagenet_split(tmp_path, "train")


def test_an_empty_class_is_named(own_tiny: Path) -> None:
    """A half-unpacked archive leaves empty class folders; labels would still fit, but the data
    would not be ImageNet.
    """
    for path in (own_tiny / "train" / "cross").iterdir():
        path.unlink()
    with pytest.raises(RequestError, match="cross: no images of that class"):
        imagenet.index_imagenet_split(own_tiny, "train")


def test_differing_classes_are_refused(own_tiny: Path) -> None:
    """Labels are positions in the sorted class list: with one class more, all behind it would be
    wrong.
    """
    (own_tiny / "val" / "cross").rename(own_tiny / "val" / "blob")
    with pytest.raises(RequestError, match="differ between train and val: blob, cross"):
        imagenet.check_equal_class_folders(
            imagenet.index_imagenet_split(own_tiny, "train"),
            imagenet.index_imagenet_split(own_tiny, "val"),
        )


def test_same_classes_agree(tiny: Path) -> None:
    """The check must not refuse good folders."""
    imagenet.check_equal_class_folders(
        imagenet.index_imagenet_split(tiny, "train"), imagenet.index_imagenet_split(tiny, "val")
    )


def test_whole_pictures_pass(tiny: Path) -> None:
    """No false alarm."""
    found = imagenet.index_imagenet_split(tiny, "train")
    assert file_checks.inspect_split_pictures(found)[0].broken == ()


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98])
def test_truncated_pictures_are_seen(own_tiny: Path, share: float, deep: bool) -> None:
    """Cut anywhere, in the header or just before the end, with and without decoding."""
    path = own_tiny / "val" / "star" / "star_0.JPEG"
    cut(path, share)
    assert not file_checks.inspect_picture_file(path, deep=deep)[0]


def test_files_that_are_no_pictures_are_seen(own_tiny: Path) -> None:
    """An HTML error page with the right name."""
    path = own_tiny / "val" / "star" / "star_0.JPEG"
    path.write_text("<html>404</html>")
    assert not file_checks.inspect_picture_file(path, deep=False)[0]


def test_a_file_that_is_gone_is_seen(tmp_path: Path) -> None:
    """A dangling link must not end the scan with a traceback."""
    (tmp_path / "a.JPEG").symlink_to(tmp_path / "nowhere")
    assert not file_checks.inspect_picture_file(tmp_path / "a.JPEG", deep=True)[0]


def test_a_png_under_a_jpeg_name_is_good(tmp_path: Path) -> None:
    """ImageNet has one (n02105855_2933): it has no JPEG end marker and decodes well."""
    path = tmp_path / "a.JPEG"
    Image.new("RGB", (8, 8)).save(path, "PNG")
    assert file_checks.inspect_picture_file(path, deep=False)[0]


def test_bytes_behind_the_end_marker_are_good(own_tiny: Path) -> None:
    """Some of ImageNet's files carry a few."""
    path = own_tiny / "val" / "star" / "star_0.JPEG"
    path.write_bytes(path.read_bytes() + b"\0" * 100)
    assert file_checks.inspect_picture_file(path, deep=False)[0]


def test_broken_pictures_are_counted_and_named(own_tiny: Path) -> None:
    """The user must be able to find them: five by name, the rest counted."""
    found = imagenet.index_imagenet_split(own_tiny, "train")
    for index in range(7):
        cut(found.path(index))
    looked, _ = file_checks.inspect_split_pictures(found)
    assert looked.broken == tuple(range(7))
    with pytest.raises(
        RequestError,
        match=r"7 of 24 images are unreadable: .*circle_0\.JPEG.* and 2 more; restore them: they",
    ):
        looked.check_usability(found.folder, "train", skip=False)


@pytest.mark.parametrize(
    ("split", "broken", "advice"),
    [
        ("train", 1, "--set data.skip_broken=true skips them"),
        ("train", 2, "restore them: they are too many to leave out"),
        ("train", 100, "restore them: they are too many to leave out"),
        ("val", 1, "restore them: a run is scored on all of val"),
    ],
)
def test_leaving_out_is_advised_where_the_data_stay_the_same(
    tmp_path: Path, split: str, broken: int, advice: str
) -> None:
    """Not for half of the training pictures, and for no picture that is scored."""
    survey = file_checks.PictureSplitSurvey(count=100, broken=tuple(range(broken)), named=("a",))
    with pytest.raises(RequestError, match=f"; {advice}$"):
        survey.check_usability(tmp_path, split, skip=False)


def test_broken_pictures_can_be_left_out(own_tiny: Path) -> None:
    """Names and labels stay side by side."""
    found = imagenet.index_imagenet_split(own_tiny, "train")
    for index in (0, 8, 9):
        cut(found.path(index))
    kept = file_checks.inspect_split_pictures(found)[0].drop_broken_pictures(found)
    assert len(kept) == 21
    assert kept.labels.tolist() == [0] * 7 + [1] * 6 + [2] * 8
    assert kept.path(7).name == "cross_2.JPEG"


def test_a_folder_of_broken_pictures_is_refused(tiny: Path) -> None:
    """Leaving out all would train on nothing."""
    found = imagenet.index_imagenet_split(tiny, "val")
    with pytest.raises(RequestError, match="none of 12"):
        file_checks.PictureSplitSurvey(count=12, broken=tuple(range(12)), named=()).check_usability(
            found.folder, "val", skip=True
        )


def test_shuffled_labels_are_the_same_labels_elsewhere(tiny: Path) -> None:
    """A permutation keeps the classes' sizes: the run differs from an honest one in nothing but
    sense.
    """
    found = imagenet.index_imagenet_split(tiny, "train")
    shuffled = found.shuffle_labels(3)
    assert sorted(shuffled.labels) == sorted(found.labels)
    assert not np.array_equal(shuffled.labels, found.labels)
    assert np.array_equal(shuffled.labels, found.shuffle_labels(3).labels)
    assert not np.array_equal(shuffled.labels, found.shuffle_labels(4).labels)


def test_grey_pictures_have_three_channels(tmp_path: Path) -> None:
    """ImageNet has some in grey and in CMYK."""
    for mode in ("L", "CMYK"):
        Image.new(mode, (10, 10)).save(tmp_path / f"{mode}.JPEG")
        assert files.read_rgb_picture(tmp_path / f"{mode}.JPEG").mode == "RGB"


def test_constants_are_made_once_and_change_no_bit() -> None:
    """A constant made from numbers waits for a copy to a GPU at each micro-batch; one made in an
    evaluation serves training too.
    """

    class CountedTensors(TorchFunctionMode):
        """Counts tensors made from numbers."""

        made = 0

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.made += function is torch.tensor
            return function(*args, **(kwargs or {}))

    keep_constant_on_device.cache_clear()
    picture_NHWC = torch.randint(0, 256, (2, 4, 7, 3), dtype=torch.uint8)
    mean_C, std_C = torch.tensor(files.IMAGENET_MEAN_C), torch.tensor(files.IMAGENET_STD_C)
    wanted_NHWC = (picture_NHWC.float() - mean_C * 255) * (1 / (std_C * 255))
    with torch.inference_mode():
        assert torch.equal(files.normalise_pictures(picture_NHWC).permute(0, 2, 3, 1), wanted_NHWC)
    with CountedTensors() as counted:
        again_NCHW = files.normalise_pictures(picture_NHWC)
    assert counted.made == 0 and torch.equal(again_NCHW.permute(0, 2, 3, 1), wanted_NHWC)
    assert not any(part.is_inference() for part in files.build_row_constants(again_NCHW.device, 7))


def test_normalised_pictures() -> None:
    """Mean and deviation per channel, C before H and W, in channels-last memory."""
    picture_NHWC = torch.zeros(2, 4, 5, 3, dtype=torch.uint8)
    picture_NHWC[..., 1] = 255
    picture_NCHW = files.normalise_pictures(picture_NHWC)
    assert picture_NCHW.shape == (2, 3, 4, 5)
    assert picture_NCHW.is_contiguous(memory_format=torch.channels_last)
    assert picture_NCHW[0, :, 0, 0].tolist() == pytest.approx(
        [-0.485 / 0.229, (1 - 0.456) / 0.224, -0.406 / 0.225], rel=1e-5
    )
