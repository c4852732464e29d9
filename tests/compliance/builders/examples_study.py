"""Examples of the rules about studies."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from making_study import SYSTEM, write_study
from spoiling import Builder, put, setting, then

from suite.files.layout import DETAIL
from suite.studies import POINT, STUDY

TABLE: Final = f"**/{STUDY}"
FIRST: Final = f"**/{SYSTEM}/batch-8/"


def study(folder: Path) -> None:
    """A study that keeps all rules."""
    write_study(folder)


def row(**changes: Any) -> Callable[[Path], None]:
    """Change the first row of the table."""

    def change(path: Path) -> None:
        import json

        document = json.loads(path.read_text())
        document["rows"][0] |= changes
        path.write_text(json.dumps(document, indent=2) + "\n")

    return change


BASES: Final[Mapping[str, Builder]] = {"study": study}
KINDS: Final = {"study": "study"}
INVALID: Final[Mapping[str, Builder]] = {
    "study.points": then(study, f"{FIRST}{POINT}", put(threads=1)),
    "study.loop": then(study, f"{FIRST}{DETAIL}", setting("effective_samples_per_query", 4)),
    "study.figures": then(study, TABLE, row(samples_per_second=2000.0)),
    "study.summary": then(study, TABLE, put(best=[])),
    "study.accuracy": then(study, TABLE, row(scores={"top1": 0.76})),
}
