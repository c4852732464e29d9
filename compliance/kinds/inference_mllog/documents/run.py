"""Read results of published inference rounds since v1.0: a LoadGen run from its detail log, and an
entry with all its documents.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import FolderDocument
from compliance.documents.loadgen import EntryRun
from compliance.kinds.inference_mllog.round import InferenceMllogModel, InferenceMllogRound
from compliance.logs.loadgen import summary as loadgen_summary
from compliance.logs.loadgen.summary import LoadGenSummary
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import ParseErrorKind, SourceFile, read_source_text
from compliance.recognition.loadgen_folders import find_performance_folders
from compliance.recognition.tree_path import INTERACTIVE_FOLDER as INTERACTIVE_FOLDER
from compliance.recognition.tree_path import TreePosition, is_file, is_folder
from compliance.verdict import Severity
from suite.files.layout import ACCURACY_LOG as ANSWERS
from suite.files.layout import ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG
from suite.workload import Mode

MLLOG_FILE_LENIENCY: Final[Mapping[ParseErrorKind, Severity]] = dict.fromkeys(
    (ParseErrorKind.ENCODING, ParseErrorKind.FOREIGN, ParseErrorKind.CUT), Severity.WARNING
)
"""Defects that other programs cause by writing among LoadGen's records."""
SCENARIO_FOLDERS: Final = {
    "singlestream": "SingleStream",
    "multistream": "MultiStream",
    "server": "Server",
    "online": "Server",
    "offline": "Offline",
    "interactive": INTERACTIVE_FOLDER,
}
NUMPY_NUMBER_PATTERN: Final = r"(?:np|numpy)\.(?:float|u?int)\d*\("
"""How numpy 2 shows a number within a Python dictionary: np.float64(44.5)."""
SCORE_NUMBER_PATTERN: Final = (
    rf"\s*'?(?:{NUMPY_NUMBER_PATTERN})?([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
SCORE_PATTERNS: Final[Mapping[str, str]] = {
    "acc": r"(?m)^(?:\{\"accuracy|accuracy)[\": ]*=?" + SCORE_NUMBER_PATTERN,
    "AUC": r"(?m)^AUC=" + SCORE_NUMBER_PATTERN,
    "mAP": r"(?:mAP=|'Total':)" + SCORE_NUMBER_PATTERN,
    "bleu": r"BLEU:" + SCORE_NUMBER_PATTERN,
    "F1": r"[\"']f1[\"']:" + SCORE_NUMBER_PATTERN,
    "WER": r"Word Error Rate:.*accuracy=" + SCORE_NUMBER_PATTERN,
    "ACCURACY": r"Word Error Rate:.*accuracy=" + SCORE_NUMBER_PATTERN,
    "DICE": r"Accuracy:\s*mean\s*=" + SCORE_NUMBER_PATTERN,
    "F1_HIERARCHICAL": r"\{.*\"f1\":" + SCORE_NUMBER_PATTERN,
    "DLRM_NE": r"metric/lifetime_ne/rating:" + SCORE_NUMBER_PATTERN,
    "DLRM_ACC": r"metric/lifetime_accuracy/rating:" + SCORE_NUMBER_PATTERN,
    "DLRM_AUC": r"metric/lifetime_gauc/rating:" + SCORE_NUMBER_PATTERN,
    **{
        name: rf"'{spelt}':" + SCORE_NUMBER_PATTERN
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
WORD_ERROR_PATTERN: Final = re.compile(
    rf"Word Error Rate:{SCORE_NUMBER_PATTERN}%,? accuracy={SCORE_NUMBER_PATTERN}%"
)
"""Speech recognition's two figures, which add up to 100 %."""
SCORE_HASH_PATTERN: Final = re.compile(r"(?m)^hash=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogRun(EntryRun[MllogRecord]):
    """One LoadGen run, from its detail log."""

    document_name: ClassVar[str] = "a LoadGen run"

    scenario: str | None
    """From the entry's folder; None outside an entry."""
    source: SourceFile
    summary: LoadGenSummary
    model: InferenceMllogModel | None
    closed: bool
    round: InferenceMllogRound

    @property
    def logged_scenario(self) -> str | None:
        """Return the scenario that LoadGen ran."""
        logged_value = self.find_value("effective_scenario")
        if not isinstance(logged_value, str):
            return None
        return SCENARIO_FOLDERS.get(logged_value.replace(" ", "").casefold())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogEntry(FolderDocument):
    """One scenario of a system and benchmark."""

    document_name: ClassVar[str] = "an inference entry"

    scenario: str | None
    benchmark: str | None
    model_folder: str
    model: InferenceMllogModel | None
    division: str | None
    system_file: Path | None
    category: str | None
    """datacenter, edge or both, from the system's description; None if it does not state it."""
    accuracy: MllogRun | None
    performance: Sequence[MllogRun]
    accuracy_text: str
    """accuracy.txt; empty if it is missing."""
    claims: Mapping[str, float]
    """Metric -> score in accuracy.txt."""
    tokens: float | None
    """Tokens per answer in accuracy.txt; None if it does not state them."""
    characters: float | None
    """Characters per answer, in the same way."""
    word_error_total: float | None
    """Sum of word error rate and accuracy in accuracy.txt, in per cent; None without them."""
    contradictory: Mapping[str, Sequence[float]]
    """Metric -> scores in accuracy.txt, if they differ."""
    hash: str | None
    """Hash of the whole accuracy log in accuracy.txt; None if there is none."""
    answers_bytes: int | None
    """Size of the accuracy run's accuracy log; None if it is missing."""
    round: InferenceMllogRound

    @property
    def runs(self) -> Sequence[MllogRun]:
        """Return the accuracy run and the performance run."""
        if self.accuracy:
            return (self.accuracy, *self.performance)
        return tuple(self.performance)


def parse_scenario_folder(name: str) -> str | None:
    """Parse the name of a scenario's folder, ignoring case."""
    return SCENARIO_FOLDERS.get(name.replace("_", "").replace("-", "").casefold())


def read_mllog_run(
    folder: Path,
    mode: Mode,
    round: InferenceMllogRound,
    scenario: str | None = None,
    model: InferenceMllogModel | None = None,
    closed: bool = False,
) -> MllogRun:
    """Read a run's detail log and summary."""
    source = SourceFile(folder / DETAIL_LOG, leniency=MLLOG_FILE_LENIENCY)
    # LoadGen writes three of its lines twice
    summary_source = SourceFile(
        folder / SUMMARY_LOG,
        leniency={**MLLOG_FILE_LENIENCY, ParseErrorKind.DUPLICATE: Severity.INFO},
    )
    return MllogRun(
        folder=folder,
        mode=mode,
        scenario=scenario,
        source=source,
        index=LogIndex(mllog_lines.read_mllog_records(source), last=True),
        summary=loadgen_summary.read_loadgen_summary(summary_source),
        summary_source=summary_source,
        model=model,
        closed=closed,
        round=round,
    )


def read_mllog_entry(
    folder: Path,
    place: TreePosition | None,
    round: InferenceMllogRound,
    category: str | None = None,
) -> MllogEntry:
    """Read an entry: `.../<system>/<model>/<Scenario>`."""
    named, division = folder.parent.name, place.division if place else None
    benchmark, scenario, closed = (
        round.find_benchmark(named),
        parse_scenario_folder(folder.name),
        division == "closed",
    )
    model = round.models.get(benchmark or "")
    accuracy = folder / "accuracy"
    answers = accuracy / ANSWERS
    text = read_accuracy_text(accuracy / ACCURACY_TEXT)
    scores = parse_claimed_scores(text, model)
    system_file = accuracy_run = None
    if place:
        systems = place.organisation_folder / "systems"
        system_file = systems / f"{folder.parent.parent.name}.json"
    if is_folder(accuracy):
        accuracy_run = read_mllog_run(accuracy, Mode.ACCURACY, round, scenario, model, closed)
    return MllogEntry(
        folder=folder,
        scenario=scenario,
        benchmark=benchmark,
        model_folder=named,
        model=model,
        division=division,
        system_file=system_file,
        category=category,
        accuracy=accuracy_run,
        performance=[
            read_mllog_run(each, Mode.PERFORMANCE, round, scenario, model, closed)
            for each in find_performance_folders(folder)
        ],
        accuracy_text=text,
        claims={metric: claimed[-1] for metric, claimed in scores.items()},
        tokens=parse_claimed_mean(text, "TOKENS_PER_SAMPLE"),
        characters=parse_claimed_mean(text, "GEN_LEN", "GEN_NUM"),
        word_error_total=parse_word_error_total(text),
        contradictory={
            metric: claimed for metric, claimed in scores.items() if len(set(claimed)) > 1
        },
        hash=parse_claimed_hash(text),
        answers_bytes=answers.stat().st_size if is_file(answers) else None,
        round=round,
    )


def read_accuracy_text(path: Path) -> str:
    """Read the output of an accuracy script; empty if it is missing."""
    return read_source_text(SourceFile(path, leniency=MLLOG_FILE_LENIENCY))


def parse_claimed_scores(
    text: str, model: InferenceMllogModel | None
) -> Mapping[str, Sequence[float]]:
    """Parse all scores in accuracy.txt of the metrics that a benchmark requires, in order; the last
    of several counts.
    """
    if model:
        metrics = {**model.accuracy, **model.accuracy_most}
    else:
        metrics = {}
    found = {
        metric: re.findall(SCORE_PATTERNS[metric], text)
        for metric in metrics
        if metric in SCORE_PATTERNS
    }
    return {metric: [float(each) for each in texts] for metric, texts in found.items() if texts}


def parse_word_error_total(text: str) -> float | None:
    """Parse the sum of word error rate and accuracy from accuracy.txt; None without them."""
    found = WORD_ERROR_PATTERN.findall(text)
    if found:
        return sum(map(float, found[-1]))
    return None


def parse_claimed_hash(text: str) -> str | None:
    """Parse the hash of the accuracy log from accuracy.txt; the last of several counts."""
    found = SCORE_HASH_PATTERN.findall(text)
    return found[-1] if found else None


def parse_claimed_mean(text: str, name: str, count: str = "") -> float | None:
    """Parse a mean from accuracy.txt, or a sum and its count; None if there is none, or none above
    0.
    """
    figures = [
        float(found[-1]) if (found := re.findall(SCORE_PATTERNS[each], text)) else 0.0
        for each in filter(None, (name, count))
    ]
    if all(figures):
        return figures[0] / (figures[1] if count else 1.0)
    return None
