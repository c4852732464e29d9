"""Examples of the rules about studies of rates, of engines and precisions, and of curves."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy
from making_curve import write_curve
from making_precision import write_precision
from making_rates import write_peak, write_speed
from spoiling import Builder, put, setting, then

from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    ARRIVAL_RECORD_FILE,
    DETAIL_LOG,
    GAP_RECORD_FILE,
    START_RECORD_FILE,
    TOKEN_RECORD_FILE,
)
from suite.loadgen.arrival_record import ARRIVAL_RECORD_FIELDS
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


def write_other_score(path: Path) -> None:
    """State another score than the answers have."""
    path.write_text(re.sub(r"=0\.\d+", "=0.990000", path.read_text()))


def begin_at_once(path: Path) -> None:
    """Let all prompts begin with the first."""
    starts = numpy.load(path)
    numpy.save(path, numpy.full_like(starts, starts.min()))


def ask_for_fewer(path: Path) -> None:
    """Let the command ask for one point of two."""
    document = json.loads(path.read_text())
    document["requests"][0]["request"]["concurrencies"] = [2]
    path.write_text(json.dumps(document))


def drop_last_start(path: Path) -> None:
    """Leave a prompt out."""
    numpy.save(path, numpy.load(path)[:-1])


def add_long_arrivals(path: Path) -> None:
    """Let each answer arrive for longer than from its first token to its last."""
    tokens = numpy.load(path)
    rows = numpy.ones((len(tokens), len(ARRIVAL_RECORD_FIELDS)), "<i8")
    numpy.save(path.with_name(ARRIVAL_RECORD_FILE), rows)
    numpy.save(path.with_name(GAP_RECORD_FILE), tokens[:, 2] - tokens[:, 1] + 1)


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
    "study.points": then(curve, "**/in-flight-2/point.json", put(point__concurrency=3)),
    "study.plan": then(curve, TABLE, ask_for_fewer),
    "study.answer": then(curve, STARTS, drop_last_start),
    "curve.figures": then(
        curve, f"**/in-flight-2/{DETAIL_LOG}", setting("result_tokens_per_second", 500.0)
    ),
    "curve.loop": then(curve, STARTS, begin_at_once),
    "curve.answers": then(curve, ANSWERS, answer_otherwise),
    "curve.steps": then(curve, FIRST_TOKENS, begin_answers_later),
    "study.arrivals": then(curve, FIRST_TOKENS, add_long_arrivals),
    "study.scores": then(precision, f"**/accuracy/{ACCURACY_TEXT}", write_other_score),
}
