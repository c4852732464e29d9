"""The section of a study of speed alone: its table, and what was measured."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from submissions.report.document import Note, Section, Table
from submissions.report.sections.studies.measured import build_measured_section
from suite.rounds import HyperValue
from suite.served_identity import NOT_STATED
from suite.studies.measured import MeasuredStudy
from suite.studies.subject import StudySubject

VERDICT_NOTE: Final = (
    "A verdict on a study says whether its logs bear out these figures, not that they are a result."
)
INPUT_SETTINGS: Final = {"onnx.shape.": "sizes of", "onnx.value.": "value of", "onnx.data": "data"}
"""Begin of a setting that says what an ONNX file was given -> what it is."""


def build_speed_section(study: MeasuredStudy, name: str) -> Section:
    """Show a study of speed alone; the settings are those of its first run."""
    section = build_measured_section(study, name)
    if study.first:
        settings = study.first.record.settings
    else:
        settings = {}
    return replace(
        section,
        notes=(Note(text=VERDICT_NOTE), *section.notes),
        tables=(*section.tables, build_subject_table(study.subject, settings)),
    )


def build_subject_table(subject: StudySubject, settings: Mapping[str, HyperValue]) -> Table:
    """Show what was measured, and with what."""
    inputs = (
        (f"{words} {key.removeprefix(start)}".strip(), str(value))
        for start, words in INPUT_SETTINGS.items()
        for key, value in settings.items()
        if key.startswith(start)
    )
    return Table(
        title="What was measured",
        columns=("what", "value"),
        rows=(
            ("weights", subject.origin or "a trained checkpoint"),
            ("SHA-256", subject.checkpoint_sha256),
            *subject.identity.describe_properties().items(),
            ("CPU threads", str(subject.threads or NOT_STATED)),
            *inputs,
        ),
    )
