"""Results of published inference rounds since v1.0: a LoadGen run from its detail log, and an entry
with everything filed with it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compliance.documents.inference.entry import performance_folders
from compliance.documents.training.values import finite
from compliance.logs.loadgen import summary as loadgen_summary
from compliance.logs.loadgen.summary import Summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import Record
from compliance.logs.source_file import Kind, SourceFile, read_text
from compliance.recognition.tree_path import INTERACTIVE as INTERACTIVE
from compliance.recognition.tree_path import Place, is_file, is_folder
from compliance.verdict import Fault, Severity
from suite.files.layout import ACCURACY as ANSWERS
from suite.files.layout import ACCURACY_TEXT, DETAIL, SUMMARY
from suite.rounds.served import ServedModel, ServedRound
from suite.workload import Mode

LENIENCY: Final[Mapping[Kind, Severity]] = dict.fromkeys(
    (Kind.ENCODING, Kind.FOREIGN, Kind.CUT), Severity.WARNING
)
"""Flaws that other programs cause by writing among LoadGen's records."""
FOLDERS: Final = {
    "singlestream": "SingleStream",
    "multistream": "MultiStream",
    "server": "Server",
    "offline": "Offline",
    "interactive": INTERACTIVE,
}
NUMBER: Final = r"\s*'?([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
PATTERNS: Final[Mapping[str, str]] = {
    "acc": r"(?m)^(?:\{\"accuracy|accuracy)[\": ]*=?" + NUMBER,
    "AUC": r"(?m)^AUC=" + NUMBER,
    "mAP": r"(?:mAP=|'Total':)" + NUMBER,
    "bleu": r"BLEU:" + NUMBER,
    "F1": r"[\"']f1[\"']:" + NUMBER,
    "WER": r"Word Error Rate:.*accuracy=" + NUMBER,
    "ACCURACY": r"Word Error Rate:.*accuracy=" + NUMBER,
    "DICE": r"Accuracy:\s*mean\s*=" + NUMBER,
    "F1_HIERARCHICAL": r"\{.*\"f1\":" + NUMBER,
    "DLRM_NE": r"metric/lifetime_ne/rating:" + NUMBER,
    "DLRM_ACC": r"metric/lifetime_accuracy/rating:" + NUMBER,
    "DLRM_AUC": r"metric/lifetime_gauc/rating:" + NUMBER,
    **{
        name: rf"'{spelt}':" + NUMBER
        for name, spelt in {
            "ROUGE1": "rouge1",
            "ROUGE2": "rouge2",
            "ROUGEL": "rougeL",
            "ROUGELSUM": "rougeLsum",
            "GEN_LEN": "gen_len",
            "GEN_NUM": "gen_num",
            "TOKENS_PER_SAMPLE": "tokens_per_sample",
            "CLIP_SCORE": "CLIP_SCORE",
            "FID_SCORE": "FID_SCORE",
            "exact_match": "exact_match",
            "gsm8k_accuracy": "gsm8k",
            "mbxp_accuracy": "mbxp",
            "vbench_score": "vbench_score",
        }.items()
    },
}
"""Metric -> its pattern in accuracy.txt. Source: mlcommons/inference,
tools/submission/submission-checker.py, ACC_PATTERN; E2E_ACCURACY of v6.1 has none.
"""
HASH: Final = re.compile(r"(?m)^hash=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterRun:
    """One LoadGen run, from its detail log."""

    folder: Path
    mode: Mode
    """From the folder name."""
    scenario: str | None
    """From the entry's folder; None outside an entry."""
    source: SourceFile
    index: Mapping[str, Sequence[Record]]
    summary: Summary
    summary_source: SourceFile
    model: ServedModel | None
    closed: bool
    round: ServedRound

    def value(self, key: str) -> Any:
        """Return the value of an event's last record; None if there is none."""
        found = self.index.get(key)
        return found[-1].value if found else None

    def number(self, key: str) -> float | None:
        """Return the value of an event as a number."""
        told = self.value(key)
        return float(told) if finite(told) else None

    def line(self, key: str) -> int | None:
        """Return the line of an event's last record."""
        found = self.index.get(key)
        return found[-1].line if found else None

    @property
    def logged(self) -> str | None:
        """The scenario that LoadGen ran."""
        told = self.value("effective_scenario")
        return FOLDERS.get(told.replace(" ", "").casefold()) if isinstance(told, str) else None

    @property
    def performance(self) -> bool:
        """Whether the folder is that of a performance run."""
        return self.mode is Mode.PERFORMANCE

    def fault(
        self, found: str, required: str, key: str = "", severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for the detail log."""
        return Fault(
            file=self.source.path,
            line=self.line(key),
            found=found,
            required=required,
            severity=severity,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterEntry:
    """One scenario of a system and benchmark."""

    folder: Path
    scenario: str | None
    benchmark: str | None
    model_folder: str
    model: ServedModel | None
    division: str | None
    system_file: Path | None
    category: str | None
    """datacenter, edge or both, from the system's description; None if it does not tell."""
    accuracy: LaterRun | None
    performance: Sequence[LaterRun]
    claims: Mapping[str, float]
    """Metric -> score in accuracy.txt."""
    tokens: float | None
    """Tokens of an answer in accuracy.txt; None if it does not tell."""
    characters: float | None
    """Characters of an answer, the same way."""
    contradictory: Mapping[str, Sequence[float]]
    """Metric -> scores in accuracy.txt, where they differ."""
    hash: str | None
    """Hash of the whole accuracy log in accuracy.txt; None if there is none."""
    answers_bytes: int | None
    """Size of the accuracy run's accuracy log; None if it is missing."""
    round: ServedRound

    @property
    def runs(self) -> Sequence[LaterRun]:
        """The accuracy run and the performance run."""
        return (*((self.accuracy,) if self.accuracy else ()), *self.performance)

    def fault(
        self, found: str, required: str, file: Path | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for this entry."""
        return Fault(file=file or self.folder, found=found, required=required, severity=severity)


def scenario_folder(name: str) -> str | None:
    """Parse the name of a scenario's folder, ignoring case."""
    return FOLDERS.get(name.replace("_", "").replace("-", "").casefold())


def read_run(
    folder: Path,
    mode: Mode,
    round: ServedRound,
    scenario: str | None = None,
    model: ServedModel | None = None,
    closed: bool = False,
) -> LaterRun:
    """Read a run's detail log and summary."""
    source = SourceFile(folder / DETAIL, leniency=LENIENCY)
    summary_source = SourceFile(
        folder / SUMMARY, leniency={**LENIENCY, Kind.DUPLICATE: Severity.INFO}
    )  # LoadGen writes three of its lines twice
    index: dict[str, list[Record]] = {}
    for record in mllog_lines.read(source):
        index.setdefault(record.key, []).append(record)
    return LaterRun(
        folder=folder,
        mode=mode,
        scenario=scenario,
        source=source,
        index=index,
        summary=loadgen_summary.read(summary_source),
        summary_source=summary_source,
        model=model,
        closed=closed,
        round=round,
    )


def read_entry(
    folder: Path, place: Place | None, round: ServedRound, category: str | None = None
) -> LaterEntry:
    """Read an entry: `.../<system>/<model>/<Scenario>`."""
    named, division = folder.parent.name, place.division if place else None
    benchmark, scenario, closed = (
        round.benchmark_of(named),
        scenario_folder(folder.name),
        division == "closed",
    )
    model = round.models.get(benchmark or "")
    accuracy = folder / "accuracy"
    answers = accuracy / ANSWERS
    return LaterEntry(
        folder=folder,
        scenario=scenario,
        benchmark=benchmark,
        model_folder=named,
        model=model,
        division=division,
        system_file=place.home / "systems" / f"{folder.parent.parent.name}.json" if place else None,
        category=category,
        accuracy=(
            read_run(accuracy, Mode.ACCURACY, round, scenario, model, closed)
            if is_folder(accuracy)
            else None
        ),
        performance=[
            read_run(each, Mode.PERFORMANCE, round, scenario, model, closed)
            for each in performance_folders(folder)
        ],
        claims=claims_in(accuracy / ACCURACY_TEXT, model),
        tokens=mean_of(accuracy / ACCURACY_TEXT, "TOKENS_PER_SAMPLE"),
        characters=mean_of(accuracy / ACCURACY_TEXT, "GEN_LEN", "GEN_NUM"),
        contradictory={
            metric: told
            for metric, told in scores_in(accuracy / ACCURACY_TEXT, model).items()
            if len(set(told)) > 1
        },
        hash=hash_in(accuracy / ACCURACY_TEXT),
        answers_bytes=answers.stat().st_size if is_file(answers) else None,
        round=round,
    )


def claims_in(path: Path, model: ServedModel | None) -> Mapping[str, float]:
    """Read the scores in accuracy.txt that a benchmark requires; the last of several counts."""
    return {metric: told[-1] for metric, told in scores_in(path, model).items()}


def scores_in(path: Path, model: ServedModel | None) -> Mapping[str, Sequence[float]]:
    """Read all scores in accuracy.txt of the metrics that a benchmark requires, in order."""
    text = read_text(SourceFile(path, leniency=LENIENCY))
    metrics = {**model.accuracy, **model.accuracy_most} if model else {}
    found = {metric: re.findall(PATTERNS[metric], text) for metric in metrics if metric in PATTERNS}
    return {metric: [float(each) for each in told] for metric, told in found.items() if told}


def hash_in(path: Path) -> str | None:
    """Read the hash of the accuracy log from accuracy.txt; the last of several counts."""
    found = HASH.findall(read_text(SourceFile(path, leniency=LENIENCY)))
    return found[-1] if found else None


def mean_of(path: Path, name: str, count: str = "") -> float | None:
    """Read a mean from accuracy.txt, or a sum and its count; None if there is none, or none above
    0.
    """
    text = read_text(SourceFile(path, leniency=LENIENCY))
    told = [
        float(found[-1]) if (found := re.findall(PATTERNS[each], text)) else 0.0
        for each in filter(None, (name, count))
    ]
    return told[0] / (told[1] if count else 1.0) if all(told) else None
