"""Files submitted with an inference entry: accuracy.txt, the measurements folder, LoadGen's
configuration files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from compliance.logs.source_file import Kind, SourceFile, read_document, read_text
from compliance.recognition.tree_path import is_file
from compliance.verdict import Severity

LENIENCY: Final = {Kind.ENCODING: Severity.INFO, Kind.CUT: Severity.INFO}
TEXT_LIMIT: Final = 4 << 20
"""accuracy.txt may contain everything that an accuracy script printed."""
LINE_LIMIT: Final = 4096
"""Longest line that is searched, in characters, since a pattern's time may grow quadratically.
Accepted files have up to 202.
"""
NUMBER: Final = r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|nan|inf)"
PATTERNS: Final = (
    ("accuracy", re.compile(rf"^\s*accuracy\s*=\s*{NUMBER}\s*%", re.IGNORECASE)),
    ("mAP", re.compile(rf"^\s*mAP\s*=\s*{NUMBER}\s*%", re.IGNORECASE)),
    ("BLEU", re.compile(rf"\bBLEU\s*[:=]\s*{NUMBER}", re.IGNORECASE)),
    ("AUC", re.compile(rf"^\s*AUC\s*=\s*{NUMBER}", re.IGNORECASE)),
    ("F1", re.compile(rf"[\"']f1[\"']\s*:\s*{NUMBER}", re.IGNORECASE)),
    ("WER", re.compile(rf"Word Error Rate\s*:.*accuracy\s*=\s*{NUMBER}\s*%", re.IGNORECASE)),
    ("DICE", re.compile(rf"Accuracy\s*:\s*mean\s*=\s*{NUMBER}", re.IGNORECASE)),
)
"""What the accuracy scripts print. Source: mlcommons/inference, submission-checker.py,
ACC_PATTERN.
"""
COUNTS: Final = re.compile(r"good\s*=\s*(\d+)\s*,\s*total\s*=\s*(\d+)")
AVERAGE_PRECISION: Final = re.compile(
    r"Average Precision\s+\(AP\) @\[ IoU=0\.50:0\.95 \| area=\s*all \| maxDets=100 \] ="
    r" (-?[0-9]*\.?[0-9]+)"
)
HASH: Final = re.compile(r"hash\s*=\s*([0-9a-fA-F]{32,})")
DOCUMENT: Final = msgspec.json.Decoder()


class Claim(NamedTuple):
    """A score claimed in accuracy.txt."""

    value: float
    line: int
    tolerance: float
    """Half a unit of the last printed digit."""


@dataclass(slots=True)
class Claims:
    """The parsed accuracy.txt."""

    source: SourceFile
    scores: dict[str, list[Claim]] = field(default_factory=dict)
    """Metric -> scores in the order of the file."""
    counts: list[tuple[int, int, int]] = field(default_factory=list)
    """Correct answers, all answers, line."""
    table: Claim | None = None
    """Average precision in COCO's own table, 0-1."""
    hash: str | None = None

    @property
    def empty(self) -> bool:
        """Whether the file claims no score."""
        return not self.scores


def read_claims(path: Path) -> Claims:
    """Read accuracy.txt; any other output of the accuracy script may surround the score."""
    claims = Claims(SourceFile(path, leniency=LENIENCY))
    for number, whole in enumerate(read_text(claims.source, TEXT_LIMIT).splitlines(), 1):
        line = whole[:LINE_LIMIT]
        for metric, pattern in PATTERNS:
            if match := pattern.search(line):
                claims.scores.setdefault(metric, []).append(claim(match[1], number))
        if match := COUNTS.search(line):
            claims.counts.append((int(match[1][:18]), int(match[2][:18]), number))
        if match := AVERAGE_PRECISION.search(line):
            claims.table = claim(match[1], number)
        if match := HASH.search(line):
            claims.hash = match[1].casefold()
    return claims


def claim(text: str, line: int) -> Claim:
    """Parse a printed number; tolerance 0.51 of its last digit, since the preceding digit may have
    been rounded from a float.
    """
    decimals = text.casefold().partition("e")[0].partition(".")[2]
    return Claim(float(text), line, 0.51 * 10.0 ** -len(decimals))


class Configured(NamedTuple):
    """One line of a LoadGen configuration file."""

    model: str
    scenario: str
    key: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The measurements folder of an entry."""

    folder: Path
    names: Sequence[str]
    """Files in it."""
    document: Path | None
    """The file that documents how the model was made."""
    implementation: str | None
    """The implementation in that file's name: the folder below code/<model>."""
    fields: Mapping[str, Any]
    sources: Sequence[SourceFile]
    """The files that were read."""
    configuration: Mapping[str, Sequence[Configured]]
    """mlperf.conf and user.conf -> their lines."""


def read_measurements(folder: Path, system: str, scenario: str) -> Measurements:
    """Read a measurements folder; a missing folder counts as empty."""
    try:
        names = sorted(path.name for path in folder.iterdir() if is_file(path))
    except OSError:
        names = []
    document, implementation = implementation_of(names, system, scenario)
    sources: list[SourceFile] = []
    fields: Any = None
    if document:
        sources.append(SourceFile(folder / document, leniency=LENIENCY))
        fields = read_document(sources[-1], DOCUMENT)
        if fields is not None and not isinstance(fields, dict):
            sources[-1].add(Kind.SHAPE, f"a {type(fields).__name__}", "a JSON object")
    configuration: dict[str, Sequence[Configured]] = {}
    for name in ("mlperf.conf", "user.conf"):
        if name in names:
            sources.append(SourceFile(folder / name, leniency=LENIENCY))
            configuration[name] = read_configuration(sources[-1])
    return Measurements(
        folder=folder,
        names=names,
        document=folder / document if document else None,
        implementation=implementation,
        fields=fields if isinstance(fields, dict) else {},
        sources=sources,
        configuration=configuration,
    )


def implementation_of(
    names: Sequence[str], system: str, scenario: str
) -> tuple[str | None, str | None]:
    """Find `<system>_<implementation>_<Scenario>.json`, and return the file and its implementation;
    the scenario, or both, may be missing from the name.

    Source: mlcommons/inference, v0.5/tools/submission/submission-checker.py, check_measurement_dir.
    """
    ending = f"_{scenario}.json".casefold()
    wanted = [name for name in names if name.startswith(system) and name.endswith(".json")]
    wanted.sort(key=lambda name: not name.casefold().endswith(ending))
    if not wanted:
        return None, None
    name = wanted[0]
    cut = len(ending) if name.casefold().endswith(ending) else len(".json")
    return name, name[len(system) + 1 : -cut]


def read_configuration(source: SourceFile) -> Sequence[Configured]:
    """Read `model.scenario.key = value` lines; anything else is a flaw."""
    found = []
    for number, line in enumerate(read_text(source, TEXT_LIMIT).splitlines(), 1):
        text = line.partition("#")[0].strip()
        name, equals, value = (part.strip() for part in text.partition("="))
        parts = name.split(".", 2)
        if not text or not equals:
            continue
        if len(parts) == 3:
            found.append(
                Configured(parts[0], parts[1], parts[2], value.split()[0] if value else "", number)
            )
    return found
