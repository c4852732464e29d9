"""Examples of the rules about studies."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from making_study import SYSTEM, write_study
from spoiling import Builder, put, setting, then

from suite.files.layout import DETAIL_LOG
from suite.studies.documents import MEAN_LATENCY_KEY, POINT_FILE, STUDY_FILE
from suite.units import NS_PER_S

TABLE: Final = f"**/{STUDY_FILE}"
FIRST: Final = f"**/{SYSTEM}/batch-8/"


def study(folder: Path) -> None:
    """A study that keeps all rules."""
    write_study(folder)


def row(**changes: Any) -> Callable[[Path], None]:
    """Change the first row of the table."""

    def change(path: Path) -> None:
        document = study_in(path)
        document["rows"][0] |= changes
        path.write_text(json.dumps(document, indent=2) + "\n")

    return change


def faster(folder: Path) -> None:
    """Halve the mean latency of the first run, in LoadGen's log and in the table alike."""
    write_study(folder)
    (path,) = folder.glob(TABLE)
    (log,) = folder.glob(f"{FIRST}{DETAIL_LOG}")
    first = study_in(path)["rows"][0]
    mean_ns = int(first["mean_latency_ns"] / 2)
    setting(MEAN_LATENCY_KEY, mean_ns)(log)
    made = {
        "mean_latency_ns": float(mean_ns),
        "samples_per_second": first["batch"] * NS_PER_S / mean_ns,
    }
    row(**made)(path)
    changed = study_in(path)
    put(
        drift=[
            {**drift, "change": drift["samples_per_second"] / made["samples_per_second"] - 1}
            for drift in changed["drift"]
        ]
    )(path)
    put(
        best=[
            {**best, "samples_per_second": made["samples_per_second"]} for best in changed["best"]
        ]
    )(path)


def study_in(path: Path) -> dict[str, Any]:
    """Read a table."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


BASES: Final[Mapping[str, Builder]] = {"study": study}
KINDS: Final = {"study": "study"}
INVALID: Final[Mapping[str, Builder]] = {
    "sweep.points": then(study, f"{FIRST}{POINT_FILE}", put(threads=1)),
    "study.loop": then(study, f"{FIRST}{DETAIL_LOG}", setting("effective_samples_per_query", 4)),
    "study.figures": then(study, TABLE, row(samples_per_second=2000.0)),
    "study.queries": faster,
    "study.summary": then(study, TABLE, put(best=[])),
    "study.request": then(study, TABLE, put(drift=[])),
    "study.folders": then(
        study,
        f"**/{SYSTEM}",
        lambda folder: shutil.copytree(folder / "batch-8", folder / "batch-4"),
    ),
    "study.length": then(study, TABLE, row(low=400.0)),
    "study.accuracy": then(study, TABLE, row(scores={"top1": 0.76})),
}
