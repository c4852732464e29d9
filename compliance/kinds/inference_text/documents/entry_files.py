"""Files submitted with an inference entry: accuracy.txt, the measurements folder, LoadGen's
configuration files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from compliance.logs.source_file import (
    ANY_JSON_DECODER,
    ParseErrorKind,
    SourceFile,
    read_json_document,
    read_source_text,
)
from compliance.recognition.tree_path import is_file
from compliance.verdict import Severity

ENTRY_FILE_LENIENCY: Final = {
    ParseErrorKind.ENCODING: Severity.INFO,
    ParseErrorKind.CUT: Severity.INFO,
}
MAX_ENTRY_TEXT_BYTES: Final = 4 << 20
"""accuracy.txt may contain everything that an accuracy script printed."""
MAX_SEARCHED_CHARACTERS: Final = 4096
"""Longest line that is searched, in characters, since a pattern's time may grow quadratically.
Accepted files have up to 202.
"""
CLAIM_NUMBER_PATTERN: Final = r"([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|nan|inf)"
CLAIM_PATTERNS: Final = (
    ("accuracy", re.compile(rf"^\s*accuracy\s*=\s*{CLAIM_NUMBER_PATTERN}\s*%", re.IGNORECASE)),
    ("mAP", re.compile(rf"^\s*mAP\s*=\s*{CLAIM_NUMBER_PATTERN}\s*%", re.IGNORECASE)),
    ("BLEU", re.compile(rf"\bBLEU\s*[:=]\s*{CLAIM_NUMBER_PATTERN}", re.IGNORECASE)),
    ("AUC", re.compile(rf"^\s*AUC\s*=\s*{CLAIM_NUMBER_PATTERN}", re.IGNORECASE)),
    ("F1", re.compile(rf"[\"']f1[\"']\s*:\s*{CLAIM_NUMBER_PATTERN}", re.IGNORECASE)),
    (
        "WER",
        re.compile(
            rf"Word Error Rate\s*:.*accuracy\s*=\s*{CLAIM_NUMBER_PATTERN}\s*%", re.IGNORECASE
        ),
    ),
    ("DICE", re.compile(rf"Accuracy\s*:\s*mean\s*=\s*{CLAIM_NUMBER_PATTERN}", re.IGNORECASE)),
)
"""What the accuracy scripts print. Source: mlcommons/inference, submission-checker.py,
ACC_PATTERN.
"""
ANSWER_COUNTS_PATTERN: Final = re.compile(
    r"good\s*=\s*(\d+)\s*,\s*total\s*=\s*(\d+)(?:\s*,\s*queries\s*=\s*(\d+))?"
)
AVERAGE_PRECISION_PATTERN: Final = re.compile(
    r"Average Precision\s+\(AP\) @\[ IoU=0\.50:0\.95 \| area=\s*all \| maxDets=100 \] ="
    r" (-?[0-9]*\.?[0-9]+)"
)
CLAIM_HASH_PATTERN: Final = re.compile(r"hash\s*=\s*([0-9a-fA-F]{32,})")


class Claim(NamedTuple):
    """A score claimed in accuracy.txt."""

    value: float
    line: int
    tolerance: float
    """Half a unit of the last printed digit."""


@dataclass(frozen=True, slots=True)
class ClaimedCounts:
    """One line of counts."""

    good: int
    """Correct answers."""
    total: int
    """All answers."""
    samples: int
    """Samples that LoadGen issued: the total, or DLRM's `queries`, which have several answers each.

    Source: mlcommons/inference, v0.5/recommendation/pytorch: samples of aggregated pairs.
    """
    line: int


@dataclass(slots=True)
class Claims:
    """The parsed accuracy.txt."""

    source: SourceFile
    scores: dict[str, list[Claim]] = field(default_factory=dict)
    """Metric -> scores in the order of the file."""
    counts: list[ClaimedCounts] = field(default_factory=list)
    table: Claim | None = None
    """Average precision in COCO's own table, 0-1."""
    hash: str | None = None

    @property
    def empty(self) -> bool:
        """Return whether the file claims no score."""
        return not self.scores


def read_claims(path: Path) -> Claims:
    """Read accuracy.txt; any other output of the accuracy script may surround the score."""
    claims = Claims(SourceFile(path, leniency=ENTRY_FILE_LENIENCY))
    for number, whole in enumerate(
        read_source_text(claims.source, MAX_ENTRY_TEXT_BYTES).splitlines(), 1
    ):
        line = whole[:MAX_SEARCHED_CHARACTERS]
        for metric, pattern in CLAIM_PATTERNS:
            if match := pattern.search(line):
                claims.scores.setdefault(metric, []).append(parse_claim(match[1], number))
        if match := ANSWER_COUNTS_PATTERN.search(line):
            good, total, samples = (int(each[:18]) for each in match.groups(default=match[2]))
            claims.counts.append(ClaimedCounts(good, total, samples, number))
        if match := AVERAGE_PRECISION_PATTERN.search(line):
            claims.table = parse_claim(match[1], number)
        if match := CLAIM_HASH_PATTERN.search(line):
            claims.hash = match[1].casefold()
    return claims


def parse_claim(text: str, line: int) -> Claim:
    """Parse a printed number; tolerance 0.51 of its last digit, since the preceding digit may have
    been rounded from a float.
    """
    decimals = text.casefold().partition("e")[0].partition(".")[2]
    return Claim(float(text), line, 0.51 * 10.0 ** -len(decimals))


class ConfigurationLine(NamedTuple):
    """One line of a LoadGen configuration file."""

    model: str
    scenario: str
    key: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementsFolder:
    """The measurements folder of an entry."""

    folder: Path
    names: Sequence[str]
    """Files in it."""
    document: Path | None
    """The file that describes how the model was made."""
    implementation: str | None
    """The implementation in that file's name: the folder below code/<model>."""
    fields: Mapping[str, Any]
    sources: Sequence[SourceFile]
    """All files that were read."""
    configuration: Mapping[str, Sequence[ConfigurationLine]]
    """mlperf.conf and user.conf -> their lines."""


def read_measurements_folder(folder: Path, system: str, scenario: str) -> MeasurementsFolder:
    """Read a measurements folder; a missing folder counts as empty."""
    try:
        names = sorted(path.name for path in folder.iterdir() if is_file(path))
    except OSError:
        names = []
    document, implementation = find_implementation_file(names, system, scenario)
    sources: list[SourceFile] = []
    fields: Any = None
    if document:
        sources.append(SourceFile(folder / document, leniency=ENTRY_FILE_LENIENCY))
        fields = read_json_document(sources[-1], ANY_JSON_DECODER)
        if fields is not None and not isinstance(fields, dict):
            sources[-1].add_parse_error(
                ParseErrorKind.SHAPE, f"a {type(fields).__name__}", "a JSON object"
            )
    configuration: dict[str, Sequence[ConfigurationLine]] = {}
    for name in ("mlperf.conf", "user.conf"):
        if name in names:
            sources.append(SourceFile(folder / name, leniency=ENTRY_FILE_LENIENCY))
            configuration[name] = read_loadgen_configuration(sources[-1])
    return MeasurementsFolder(
        folder=folder,
        names=names,
        document=folder / document if document else None,
        implementation=implementation,
        fields=fields if isinstance(fields, dict) else {},
        sources=sources,
        configuration=configuration,
    )


def find_implementation_file(
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
    if name.casefold().endswith(ending):
        cut = len(ending)
    else:
        cut = len(".json")
    return name, name[len(system) + 1 : -cut]


def read_loadgen_configuration(source: SourceFile) -> Sequence[ConfigurationLine]:
    """Read `model.scenario.key = value` lines; anything else is a parse error."""
    found = []
    for number, line in enumerate(read_source_text(source, MAX_ENTRY_TEXT_BYTES).splitlines(), 1):
        text = line.partition("#")[0].strip()
        name, equals, value = (part.strip() for part in text.partition("="))
        parts = name.split(".", 2)
        if not text or not equals:
            continue
        if len(parts) == 3:
            found.append(
                ConfigurationLine(
                    parts[0], parts[1], parts[2], value.split()[0] if value else "", number
                )
            )
    return found
