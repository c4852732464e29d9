"""What DALI is refused for, and what it is told of a view; nothing here needs DALI itself."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extras.dali import pipeline
from extras.dali.undecoded_files import compute_dali_cut
from suite.errors import MissingError
from suite.input import View
from suite.workload import Run
from workloads.common import inputs
from workloads.common.pictures.files import PictureFiles
from workloads.resnet50 import WORKLOAD, data

MakeRun = Callable[..., Run]
EXTENT = (500, 400)


def whole(extent: tuple[int, int]) -> View:
    return View(box=(0, 0, *extent), extent=(8, 8))


def opened(run: Run) -> object:
    return inputs.open_input_reader(run, PictureFiles(whole), workers=0)


def test_what_is_missing_is_said_before_anything_is_looked_at(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A look at all of ImageNet takes minutes: the folder named here is not even there."""
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None)
    run = replace(make_run(), input="dali", data=tmp_path / "nowhere")
    with pytest.raises(MissingError, match="nvidia-dali is not installed"):
        WORKLOAD.build_training(run)


def test_a_missing_extra_is_named(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3: a sentence with what to type, no traceback."""
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None)
    with pytest.raises(
        MissingError, match=r"--input dali: nvidia-dali is not installed: pip install .*\[dali\]'"
    ) as caught:
        opened(replace(make_run(), input="dali"))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("place", ["mixed", "gpu"])
def test_a_gpu_is_asked_for_in_vain(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Quietly working on the CPU would be logged and not true."""
    monkeypatch.setattr(pipeline, "find_spec", lambda name: object())
    with pytest.raises(
        MissingError, match=f"input.device={place} needs a GPU, but the run's device is cpu"
    ):
        opened(replace(make_run(input__device=place), input="dali"))
    with pytest.raises(MissingError, match="--input default: it runs only on the CPU"):
        opened(make_run(input__device=place))


def test_no_more_is_decoded_than_the_filter_sees() -> None:
    """A window without margin would be resized with other neighbours; one with too much costs
    time.
    """
    found = compute_dali_cut(
        View(box=(20, 10, 500, 400), extent=(240, 195), window=(40, 20, 168, 148))
    )
    assert found.decoded == (
        47,
        97,
        309,
        359,
    )  # 2 pixels of the file for one of the picture, and one for rounding
    assert found.shown == (3, 3, 259, 259) and found.size == (128, 128)


def test_the_margin_ends_at_the_picture_s_edge() -> None:
    """DALI would refuse to decode what is not there."""
    found = compute_dali_cut(View(box=(0, 0, *EXTENT), extent=(50, 40)))
    assert (
        found.decoded == (0, 0, 400, 500)
        and found.shown == (0, 0, 400, 500)
        and found.size == (40, 50)
    )


def test_a_part_that_is_cut_out_has_no_neighbours() -> None:
    """The references crop first and resize then: nothing outside may shine through."""
    found = compute_dali_cut(View(box=(10, 20, 110, 90), extent=(300, 300)))
    assert found.decoded == (20, 10, 90, 110) and found.shown == (0, 0, 70, 100)


def test_a_window_is_a_part_of_the_file() -> None:
    """Resized to 320x256 and cropped to 224 in the middle: the same as resizing 350x350 pixels of
    500x400.
    """
    found = compute_dali_cut(data.build_centre_crop_view(EXTENT, 224))
    top, left, bottom, right = found.decoded
    assert found.size == (224, 224)
    assert [
        start + offset for start, offset in zip((top, left, top, left), found.shown, strict=True)
    ] == [25, 75, 375, 425]
    assert top < 25 and left < 75 and bottom > 375 and right > 425
