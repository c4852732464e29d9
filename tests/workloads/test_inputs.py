"""The input seam: which pipeline a run gets, what is refused, and what DALI is told of a view;
nothing here needs DALI itself.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite import registry
from suite.errors import MissingError, RequestError
from suite.input import Place, View
from suite.workload import Run
from workloads.common import inputs
from workloads.common.inputs import dali
from workloads.common.inputs.dali_random_draws import compute_dali_cut
from workloads.common.inputs.default import resize_picture
from workloads.common.pictures.files import PictureFiles
from workloads.resnet50 import WORKLOAD, data

MakeRun = Callable[..., Run]
EXTENT = (500, 400)


def whole(extent: tuple[int, int]) -> View:
    return View(box=(0, 0, *extent), extent=(8, 8))


def opened(run: Run) -> object:
    return inputs.open_input_reader(run, PictureFiles(whole), workers=0)


def test_an_unknown_pipeline_is_a_wrong_request(make_run: MakeRun) -> None:
    """Exit 2, with the nearest name."""
    with pytest.raises(
        RequestError, match="unknown input pipeline 'dalli'; did you mean 'dali'"
    ) as caught:
        opened(replace(make_run(), input="dalli"))
    assert caught.value.exit_code == 2


def test_what_is_missing_is_said_before_anything_is_looked_at(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A look at all of ImageNet takes minutes: the folder named here is not even there."""
    monkeypatch.setattr(dali, "find_spec", lambda name: None)
    run = replace(make_run(), input="dali", data=tmp_path / "nowhere")
    with pytest.raises(MissingError, match="nvidia-dali is not installed"):
        WORKLOAD.build_training(run)


def test_a_missing_extra_is_named(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3: a sentence with what to type, no traceback."""
    monkeypatch.setattr(dali, "find_spec", lambda name: None)
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
    monkeypatch.setattr(dali, "find_spec", lambda name: object())
    with pytest.raises(
        MissingError, match=f"input.device={place} needs a GPU, but the run's device is cpu"
    ):
        opened(replace(make_run(input__device=place), input="dali"))
    with pytest.raises(MissingError, match="--input default: it runs only on the CPU"):
        opened(make_run(input__device=place))


def test_pipelines_say_where_they_work() -> None:
    """Doctor asks each of them."""
    assert registry.load_input_pipeline("default").places == (Place.CPU,)
    assert registry.load_input_pipeline("dali").places == (Place.CPU, Place.MIXED, Place.GPU)


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


@pytest.mark.parametrize("extent", [(1, 1), (500, 400), (80, 61), (10_000, 2), (3, 700)])
@pytest.mark.parametrize("wanted", [(32, 32), (224, 224), (300, 7)])
def test_pictures_are_resized_as_pillow_does(
    extent: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """What the references resize with; noise and slopes, one step of 255 apart at most."""
    noise_HWC = np.random.default_rng(0).integers(0, 256, (*extent[::-1], 3), dtype=np.uint8)
    slope_HWC = np.linspace(0, 255, noise_HWC.size).astype(np.uint8).reshape(noise_HWC.shape)
    for picture_HWC in (noise_HWC, slope_HWC):
        theirs_HWC = np.asarray(
            Image.fromarray(picture_HWC).resize(wanted, Image.Resampling.BILINEAR)
        )
        ours_HWC = resize_picture(picture_HWC, wanted)[0].permute(1, 2, 0).numpy()
        assert (
            ours_HWC.shape == theirs_HWC.shape
            and np.abs(ours_HWC.astype(int) - theirs_HWC).max() <= 1
        )


def test_settings_name_the_places(make_run: MakeRun, tmp_path: Path) -> None:
    """The round's choices and the seam's are one list."""
    assert registry.load_round().settings["input.device"].choices == tuple(Place)
