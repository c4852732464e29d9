"""Calibration with provenance: one list, every sample found and hashed, what the accuracy set has
too is named.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from suite import registry
from suite.engine import Calibration, Executable, Network, Plan
from suite.errors import RequestError
from suite.files.layout import compute_names_sha256
from suite.terms import Precision, Profile
from suite.workload import Run
from workloads.common import calibration, weights
from workloads.common.calibration import CalibrationSamples
from workloads.resnet50 import model
from workloads.resnet50.images import embedded
from workloads.resnet50.inference import ResNet50Inference

MakeRun = Callable[..., Run]


class Keeper:
    """An engine that keeps the plan that it is given, and gives up."""

    name = "keeper"
    accepts = frozenset({"torch"})

    def missing(self, device: str, precision: Precision) -> str | None:
        return None

    def compile(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
    ) -> Executable[torch.Tensor]:
        raise Planned(plan)


class Planned(Exception):
    """What the engine was given."""

    def __init__(self, plan: Plan[torch.Tensor]) -> None:
        self.plan = plan


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    weights.write_exported_weights(
        model.build_resnet50(3),
        model.ResNet50Description(
            workload="resnet50", classes=("circle", "cross", "star"), picture_size=32
        ),
        folder,
    )
    return folder


def planned(run: Run, checkpoint: Path) -> Calibration[torch.Tensor] | None:
    with pytest.raises(Planned) as found:
        ResNet50Inference(run, checkpoint, Keeper())
    return found.value.plan.calibration


@pytest.fixture
def listed(tmp_path: Path) -> Callable[..., str]:
    def write(*names: str) -> str:
        path = tmp_path / "some_list.txt"
        path.write_text("".join(f"{name}\n" for name in names))
        return str(path)

    return write


def test_the_embedded_list_is_the_rounds_and_of_the_training_part_alone() -> None:
    """The judge knows the list by its hash; a picture of the accuracy set in it would be statistics
    of what is measured.
    """
    names = tuple(embedded.iterate_embedded_calibration())
    rows = registry.load_round().benchmark("resnet50").inference[Profile.SMOKE].calibration
    row = rows[embedded.RESNET50_CALIBRATION_LIST]
    assert (row.samples, row.names_sha256) == (len(names), compute_names_sha256(names))
    assert not row.of_accuracy_set and all(name.startswith("train/") for name in names)


def test_the_list_of_the_earlier_pictures_is_still_the_rounds() -> None:
    """Bundles quantised with it must be judged as they were; its classes were twelve outlines."""
    outlines = (
        "arrow",
        "bolt",
        "circle",
        "crescent",
        "cross",
        "ell",
        "heart",
        "ring",
        "rod",
        "square",
        "star",
        "triangle",
    )
    names = tuple(
        f"train/{name}/{embedded.format_embedded_file_name(name, number)}"
        for name in outlines
        for number in range(embedded.CALIBRATION_IMAGES_PER_CLASS)
    )
    row = (
        registry.load_round().benchmark("resnet50").inference[Profile.SMOKE].calibration["embedded"]
    )
    assert (row.samples, row.names_sha256, row.of_accuracy_set) == (
        len(names),
        compute_names_sha256(names),
        False,
    )


@pytest.mark.slow
def test_only_a_quantised_run_pays_for_calibration(make_run: MakeRun, checkpoint: Path) -> None:
    assert planned(make_run(), checkpoint) is None


@pytest.mark.slow
def test_each_sample_is_hashed_and_prepared_as_the_served_ones_are(
    make_run: MakeRun, checkpoint: Path, tiny: Path, listed: Callable[..., str]
) -> None:
    names = ("train/star/star_1.JPEG", "train/circle/circle_0.JPEG")
    found = planned(
        make_run(
            precision=Precision.INT8,
            calibration__list=listed(*names),
            calibration__method="entropy",
        ),
        checkpoint,
    )
    assert found is not None
    assert (found.list_name, found.listed, found.samples, found.method, found.touched) == (
        "some_list",
        names,
        names,
        "entropy",
        (),
    )
    assert found.sha256 == tuple(
        hashlib.sha256((tiny / name).read_bytes()).hexdigest() for name in names
    )
    (picture_1CHW,), _ = found.inputs
    assert picture_1CHW.shape == (1, 3, 32, 32) and len(found.inputs[:1]) == 1


@pytest.mark.slow
def test_pictures_of_the_accuracy_set_are_named_by_place_and_by_content(
    make_run: MakeRun, checkpoint: Path, own_tiny: Path, listed: Callable[..., str]
) -> None:
    """MLPerf's lists name files of the validation set without their folder; a copy under another
    name is the same picture.
    """
    copy = own_tiny / "train" / "star" / "star_0.JPEG"
    copy.write_bytes((own_tiny / "val" / "star" / "star_2.JPEG").read_bytes())
    names = ("cross_3.JPEG", "train/star/star_0.JPEG", "train/star/star_1.JPEG")
    found = planned(
        make_run(data=own_tiny, precision=Precision.INT8, calibration__list=listed(*names)),
        checkpoint,
    )
    assert found is not None and found.touched == names[:2]


@pytest.mark.slow
def test_a_missing_sample_is_named_before_anything_is_built(
    make_run: MakeRun, checkpoint: Path, listed: Callable[..., str]
) -> None:
    names = ["train/star/star_1.JPEG", *(f"gone_{number}.JPEG" for number in range(5))]
    run = make_run(precision=Precision.INT8, calibration__list=listed(*names))
    with pytest.raises(
        RequestError,
        match=(
            "calibration list some_list: gone_0.JPEG, gone_1.JPEG, gone_2.JPEG and 2 more of its 6"
            " samples are not in the data"
        ),
    ):
        ResNet50Inference(run, checkpoint, Keeper())


def test_an_empty_list_and_one_that_is_not_there_are_refused(
    listed: Callable[..., str], tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=r"some_list.txt: the calibration list is empty"):
        calibration.read_calibration_list(Path(listed("", " ")))
    with pytest.raises(RequestError, match="--set calibration.list=.*none.txt: No such file"):
        calibration.read_calibration_list(tmp_path / "none.txt")


def test_a_list_names_each_sample_once_and_may_come_from_any_editor(
    listed: Callable[..., str], tmp_path: Path
) -> None:
    """The judge would refuse the result after hours of work; a mark that an editor puts first would
    be part of a name.
    """
    with pytest.raises(RequestError, match="lists a.jpg twice; each sample may occur only once"):
        calibration.read_calibration_list(Path(listed("a.jpg", "b.jpg", "a.jpg")))
    (tmp_path / "marked.txt").write_text("a.jpg\r\nb.jpg\r\n", "utf-8-sig")
    assert calibration.read_calibration_list(tmp_path / "marked.txt").samples == ("a.jpg", "b.jpg")


def test_data_of_ones_own_needs_the_rounds_list(make_run: MakeRun) -> None:
    """The embedded list names pictures that other data do not have."""
    with pytest.raises(
        RequestError,
        match=(
            "int8 on your own data needs the round's calibration list: --set calibration.list=FILE"
        ),
    ):
        calibration.choose_calibration_list(
            make_run(precision=Precision.INT8), CalibrationSamples(name="embedded", samples=("a",))
        )
