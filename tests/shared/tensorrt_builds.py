"""Builds by a real TensorRT for RTX, and the table of docs/reference/tensorrt.md that says how they end."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from extras.tensorrt.ahead_of_time import AheadBuilder, build_in_precision, resolve_build_request
from extras.tensorrt.library import RTX, TensorRTLibrary, load_library, parse_target
from harness.request import build_reading_options
from harness.serving.checkpoint_selection import choose_checkpoint
from harness.serving.weights.initial import export_random_weights
from suite.rounds import Profile
from suite.terms import Precision
from workloads.resnet50.images.embedded import iterate_embedded_calibration
from workloads.ssd.data import iterate_ssd_calibration_names

TARGETS = ("sm75", "sm89")
PRECISIONS = (Precision.FP32, Precision.FP16, Precision.BF16, Precision.INT8)
TABLE = Path(__file__).parents[2] / "docs/reference/tensorrt.md"
CALIBRATION = {"resnet50": iterate_embedded_calibration, "ssd": iterate_ssd_calibration_names}
"""Workload -> the names of its images to calibrate with."""
SAMPLES = 4
"""Of these images: all would take minutes, and the graph is the same."""
HEADER = "| network | " + " | ".join(f"{t} {p}" for t in TARGETS for p in PRECISIONS) + " |"
Combination = tuple[str, Precision]
"""Target and precision."""


def require_rtx() -> TensorRTLibrary:
    """Load the library, or skip the test and say why."""
    if not any(map(find_spec, RTX.modules)):
        pytest.skip("TensorRT for RTX is not installed: podium-suite[tensorrt-rtx]")
    return load_library(RTX)


def read_table() -> dict[str, dict[Combination, str]]:
    """Read what the documentation says: network -> combination -> `built` or `refused`."""
    _, _, below = TABLE.read_text("utf-8").partition(HEADER + "\n")
    assert below, "docs/reference/tensorrt.md has no table of builds"
    keys = [(target, precision) for target in TARGETS for precision in PRECISIONS]
    rows = {}
    for line in below.splitlines()[1:]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = dict(zip(keys, cells, strict=True))
    return rows


@dataclass(frozen=True)
class Outcome:
    """How the builds of a workload ended."""

    ends: Mapping[Combination, str]
    reasons: Mapping[Combination, str]
    builder: AheadBuilder


def summarise(builder: AheadBuilder, precisions: Sequence[Precision] = PRECISIONS) -> Outcome:
    """Tell of each combination whether it was built."""
    reasons = {(each.target, Precision(each.precision)): each.reason for each in builder.refused}
    built = {(each.target, Precision(each.precision)) for each in builder.engines}
    keys = [(target, precision) for target in TARGETS for precision in precisions]
    assert built.isdisjoint(reasons) and built | set(reasons) == set(keys)
    return Outcome(
        ends={key: "built" if key in built else "refused" for key in keys},
        reasons=reasons,
        builder=builder,
    )


def build_workload(workload: str, folder: Path, assignments: tuple[str, ...] = ()) -> Outcome:
    """Build a workload of random weights in all precisions for all targets."""
    library = require_rtx()
    if workload in CALIBRATION:
        chosen = folder / "samples.txt"
        chosen.write_text("\n".join(islice(CALIBRATION[workload](), SAMPLES)))
        assignments = (*assignments, f"calibration.list={chosen}")
    options = build_reading_options(
        Profile.SMOKE, None, folder / "results", assignments=assignments
    )
    weights = export_random_weights(workload, options)
    builder = AheadBuilder(library, [parse_target(name, library) for name in TARGETS], folder)
    for precision in PRECISIONS:
        request = resolve_build_request(workload, replace(options, engine="tensorrt"), precision)
        build_in_precision(request, choose_checkpoint(request.request, weights), builder)
    return summarise(builder)


def list_unnamed(outcome: Outcome) -> Iterator[str]:
    """Yield the refusals of a target that name no layer."""
    for (target, precision), reason in outcome.reasons.items():
        named = re.search(r"'[^']*(node|Layer|linear)[^']*'|(Conv|Gemm|MatMul|LSTM) \S+", reason)
        if precision is not Precision.INT8 and not named:
            yield f"{target} {precision}: {reason}"
