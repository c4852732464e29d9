"""The input seam: which pipeline a run gets, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite import registry
from suite.errors import RequestError
from suite.input import Place, View
from suite.workload import Run
from workloads.common import inputs
from workloads.common.inputs.default import resize_picture
from workloads.common.pictures.files import PictureFiles

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


def test_pipelines_say_where_they_work() -> None:
    """Doctor asks each of them."""
    assert registry.load_input_pipeline("default").places == (Place.CPU,)
    assert registry.load_input_pipeline("dali").places == (Place.CPU, Place.MIXED, Place.GPU)


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
