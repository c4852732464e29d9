"""Makes a small study of engines and precisions, as `podium precision` writes it: one compliant row."""

from dataclasses import asdict
from pathlib import Path

from making import LOADS, RESNET50, ROUND, entry_of, write_run, write_truth
from making_rates import write_search

from suite.measurement.score_limits import ScoreLimits
from suite.studies.documents import STUDIES_FOLDER, STUDY_TRUTH_FOLDER
from suite.studies.precision import PRECISION_KIND
from suite.studies.precision_rows import (
    PRECISION_RUNS,
    PRECISION_SCENARIOS,
    ComparedSystem,
    PrecisionPoint,
    PrecisionRequest,
    build_round_conditions,
)
from suite.studies.records import PointRecord, write_point_record

MACHINE = "box"


def write_precision(root: Path) -> Path:
    """The study of ResNet-50 in torch fp32."""
    folder = root / STUDIES_FOLDER / "resnet50-precision"
    system = ComparedSystem(engine="torch", precision="fp32")
    where = entry_of(folder, f"{MACHINE}-torch-fp32")
    places = []
    for number, (name, (scenario, mode)) in enumerate(PRECISION_RUNS.items(), 1):
        place = folder / where.system / name
        write_run(place, LOADS[scenario], mode.value, where)
        point = PrecisionPoint(engine="torch", precision="fp32", run=name)
        record = PointRecord(number=number, repeat=1, point=asdict(point), seconds=6.0)
        write_point_record(place, record)
        places.append(place.relative_to(folder).as_posix())
    write_truth(folder / STUDY_TRUTH_FOLDER)
    request = PrecisionRequest(
        systems=(system,),
        score_limits=ScoreLimits(
            reference=dict(RESNET50.reference), share=ROUND.loadgen.accuracy_share
        ),
        conditions={
            each.label: build_round_conditions(LOADS[each].row) for each in PRECISION_SCENARIOS
        },
        settings={},
    )
    write_search(folder, request, places, PRECISION_KIND)
    return folder
