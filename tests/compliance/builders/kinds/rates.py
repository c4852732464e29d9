"""Examples of the rules about studies of rates, of engines and precisions, and of curves."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy
from making_curve import write_curve
from making_precision import write_precision
from making_rates import write_peak, write_speed
from spoiling import Builder, put, setting, then

from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, START_RECORD_FILE, TOKEN_RECORD_FILE
from suite.studies.documents import STUDY_FILE

TABLE: Final = f"**/{STUDY_FILE}"
ANSWERS: Final = f"**/in-flight-40/{ACCURACY_LOG}"
STARTS: Final = f"**/in-flight-2/{START_RECORD_FILE}"
FIRST_TOKENS: Final = f"**/in-flight-2/{TOKEN_RECORD_FILE}"


def peak(folder: Path) -> None:
    """A search that keeps all rules."""
    write_peak(folder)


def speed(folder: Path) -> None:
    """Speed alone that keeps all rules."""
    write_speed(folder)


def precision(folder: Path) -> None:
    """A row of engine and precision that keeps all rules."""
    write_precision(folder)


def curve(folder: Path) -> None:
    """A curve that keeps all rules."""
    write_curve(folder)


def first(table: str, **changes: Any) -> Callable[[Path], None]:
    """Change the first element of a list."""

    def change(path: Path) -> None:
        import json

        document = json.loads(path.read_text())
        document[table][0] |= changes
        path.write_text(json.dumps(document, indent=2) + "\n")

    return change


def begin_at_once(path: Path) -> None:
    """Let all prompts begin with the first."""
    starts = numpy.load(path)
    numpy.save(path, numpy.full_like(starts, starts.min()))


def begin_answers_later(path: Path) -> None:
    """Move all first tokens half of the way towards the ends of their answers."""
    tokens = numpy.load(path)
    tokens[:, 1] += (tokens[:, 2] - tokens[:, 1]) // 2
    numpy.save(path, tokens)


def answer_otherwise(path: Path) -> None:
    """Change the last byte of all answers in a log."""
    path.write_text(re.sub(r'([0-9A-F])" }', change_digit, path.read_text()))


def change_digit(found: "re.Match[str]") -> str:
    """Another digit for the last one."""
    return f'{int(found[1], 16) ^ 1:X}" }}'


BASES: Final[Mapping[str, Builder]] = {
    "peak": peak,
    "speed": speed,
    "precision": precision,
    "curve": curve,
}
KINDS: Final = {"peak": "peak", "speed": "speed", "precision": "precision", "curve": "curve"}
INVALID: Final[Mapping[str, Builder]] = {
    "peak.trials": then(peak, f"**/trial-01/{DETAIL_LOG}", setting("effective_target_qps", 40.0)),
    "peak.figures": then(peak, TABLE, first("trials", over=7)),
    "peak.answer": then(peak, TABLE, put(answer__valid=90.0)),
    "peak.steps": then(peak, TABLE, put(sought__tolerance=0.01)),
    "curve.points": then(curve, TABLE, put(note="the best there is")),
    "curve.figures": then(curve, TABLE, first("points", tps_per_user=500.0)),
    "curve.loop": then(curve, STARTS, begin_at_once),
    "curve.answers": then(curve, ANSWERS, answer_otherwise),
    "curve.steps": then(curve, FIRST_TOKENS, begin_answers_later),
    "precision.rows": then(precision, TABLE, first("rows", samples_per_second=500.0)),
    "speed.rows": then(speed, TABLE, first("rows", value=500.0)),
}
