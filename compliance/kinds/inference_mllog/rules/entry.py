"""Check that an entry of a published inference round since v1.0 is complete, belongs to a known
benchmark, and is accurate enough.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.inference_mllog.documents.run import (
    INTERACTIVE_FOLDER,
    NUMPY_NUMBER_PATTERN,
    SCORE_PATTERNS,
    MllogEntry,
    MllogRun,
)
from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import registry
from suite.files.layout import ACCURACY_LOG as ANSWERS
from suite.files.layout import ACCURACY_TEXT
from suite.measurement.mlperf_power.session import ANALYZER_LOG, POWER_FOLDER, RANGING_FOLDER

ACCURACY_HASH_PATTERN: Final = re.compile(r"[0-9a-fA-F]{64}")
PERCENT: Final = 100.0
MAX_QUOTED_LENGTH: Final = 80
SCORE_AGAIN_ADVICE: Final = (
    "run the benchmark's accuracy script on mlperf_log_accuracy.json, and submit what it prints."
)
COUNTED_ACCURACY_PATTERN: Final = re.compile(
    r"^accuracy=([0-9]+(?:\.[0-9]+)?)%, good=(\d{1,12}), total=(\d{1,12})\b", re.MULTILINE
)
"""Output of the script for ImageNet. Source: mlcommons/inference, vision, accuracy-imagenet.py."""
COUNTED_ACCURACY_TOLERANCE: Final = 0.0011
"""In per cent, which the script prints with three decimals."""
WORD_ERROR_TOLERANCE: Final = 0.01
"""Per cent by which word error rate and accuracy may miss 100 together."""


@rule(
    "inference-mllog.complete",
    MllogEntry,
    About.SCORE,
    doubt="the figure and its accuracy",
    former="later.complete",
)
def complete(entry: MllogEntry) -> Iterator[Fault]:
    """An entry has an accuracy run and a performance run.

    Source: submission_rules.adoc, Directory structure; submission-checker.py, check_results_dir.
    Advice: submit both.
    """
    if entry.accuracy is None:
        yield entry.build_fault("no accuracy folder", "the accuracy run")
    if not entry.performance:
        yield entry.build_fault("no performance run", "performance/run_1")


@rule(
    "inference-mllog.benchmark",
    MllogEntry,
    About.IDENTITY,
    doubt="which benchmark it is a result of",
    former="later.benchmark",
)
def benchmark(entry: MllogEntry) -> Iterator[Fault]:
    """In the closed division a model's folder has the name of a benchmark of the round.

    Source: submission-checker.py, MODEL_CONFIG, models and model_mapping.
    Advice: use the round's spelling.
    """
    if entry.division == "closed" and entry.benchmark is None:
        fault = entry.build_fault(
            f"the folder '{entry.model_folder}'", f"one of {', '.join(entry.round.models)}"
        )
        last = find_last_round(entry.model_folder)
        if last:
            yield replace(fault, advice=f"it was last measured in {last}")
        else:
            yield fault


def find_last_round(model: str) -> str | None:
    """Return the last round that has a benchmark of a name; None if no round has one."""
    rounds = [
        load_inference_mllog_round(name)
        for name in registry.list_round_names()
        if registry.load_round_kind(name).name == "inference-mllog"
    ]
    return next((each.name for each in reversed(rounds) if model in each.models), None)


def check_counted_accuracy(entry: MllogEntry, path: Path) -> Iterator[Fault]:
    """Yield an accuracy that is not that of its counts, or counts of another data set."""
    for found in COUNTED_ACCURACY_PATTERN.finditer(entry.accuracy_text):
        stated, good, total = float(found[1]), int(found[2]), int(found[3])
        if not total or abs(PERCENT * good / total - stated) > COUNTED_ACCURACY_TOLERANCE:
            yield entry.build_fault(
                f"accuracy {stated:g} % with {good} of {total}",
                f"{PERCENT * good / total:.3f} %" if total else "answers",
                file=path,
            )
        size = None
        if entry.model:
            size = entry.model.accuracy_samples
        if size is not None and total != size:
            yield entry.build_fault(f"an accuracy over {total} samples", f"{size}", file=path)


@rule(
    "inference-mllog.accuracy",
    MllogEntry,
    About.QUALITY,
    doubt="the accuracy",
    former="later.accuracy",
)
def accuracy(entry: MllogEntry) -> Iterator[Fault]:
    """A closed result reaches each of its benchmark's metrics, and does not exceed the metrics that
    have an upper limit.

    Source: submission-checker.py, MODEL_CONFIG, accuracy-target and accuracy-upper-limit,
    ACC_PATTERN.
    Advice: fix the model's accuracy, and repeat all runs of the entry.
    """
    if entry.division != "closed" or entry.model is None or entry.accuracy is None:
        return
    path = entry.accuracy.folder / ACCURACY_TEXT
    if problem := describe_unreadable_scores(entry, path):
        fault = entry.build_fault(
            problem, "the output of the benchmark's accuracy script", file=path
        )
        yield replace(fault, advice=SCORE_AGAIN_ADVICE)
        return
    if found := re.search(NUMPY_NUMBER_PATTERN + r"[^)]*\)", entry.accuracy_text):
        yield replace(
            entry.build_fault(
                f"{found[0]}, as numpy shows a number",
                "the number alone",
                file=path,
                about=About.FORM,
            ),
            advice="print the scores as plain numbers: float(score), or round(float(score), 4).",
        )
    least, most = entry.model.find_minimums(entry.scenario), entry.model.accuracy_most
    for metric in {**least, **most}:
        stated = entry.claims.get(metric)
        if stated is None and metric in SCORE_PATTERNS and metric in least:
            yield replace(
                entry.build_fault(
                    f"no {metric}", f"{metric}, {least[metric]:g} or more", file=path
                ),
                advice=SCORE_AGAIN_ADVICE,
            )
        elif stated is not None and metric in least and stated < least[metric]:
            yield entry.build_fault(
                f"{metric} {stated:g}", f"at least {least[metric]:.7g}", file=path
            )
        elif stated is not None and least.get(metric, math.inf) <= PERCENT < stated:
            yield entry.build_fault(
                f"{metric} {stated:g}", f"at most {PERCENT:g}, what the metric can be", file=path
            )
        elif stated is not None and metric in most and stated > most[metric]:
            yield entry.build_fault(
                f"{metric} {stated:g}", f"at most {most[metric]:.7g}", file=path
            )
    yield from check_counted_accuracy(entry, path)
    total = entry.word_error_total
    if total is not None and abs(total - PERCENT) > WORD_ERROR_TOLERANCE:
        yield entry.build_fault(
            f"word error rate and accuracy of {total:g} % together", "100 %", file=path
        )
    for metric, scores in entry.contradictory.items():
        yield entry.build_fault(
            f"{metric} {', '.join(f'{score:g}' for score in scores)}",
            "one score; the last one counts",
            file=path,
            severity=Severity.WARNING,
        )


def describe_unreadable_scores(entry: MllogEntry, path: Path) -> str | None:
    """Say why accuracy.txt has none of the benchmark's scores; None if it has one, or if none can
    be read for this benchmark.
    """
    if not path.is_file():
        return f"no {ACCURACY_TEXT}"
    readable = entry.model is not None and any(
        metric in SCORE_PATTERNS for metric in entry.model.find_minimums(entry.scenario)
    )
    if entry.claims or not readable:
        return None
    lines = entry.accuracy_text.split("\n")
    last_line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if not last_line:
        return f"an empty {ACCURACY_TEXT}"
    return f"no score in it; its last line is {last_line[:MAX_QUOTED_LENGTH]!r}"


@rule(
    "inference-mllog.hash",
    MllogEntry,
    About.QUALITY,
    doubt="whether these answers are the accuracy run's",
    former="later.hash",
)
def hashed(entry: MllogEntry) -> Iterator[Fault]:
    """accuracy.txt contains the hash of the whole accuracy log, of which the submission has a
    truncated copy.

    Source: submission-checker.py, check_accuracy_dir: hash and MAX_ACCURACY_LOG_SIZE;
    truncate_accuracy_log.py.
    Advice: run truncate_accuracy_log.py, which writes both.
    """
    if entry.division != "closed" or entry.accuracy is None:
        return
    limit = entry.round.rules.accuracy_log_bytes
    if entry.hash is not None and not ACCURACY_HASH_PATTERN.fullmatch(entry.hash):
        yield entry.build_fault(
            f"hash={entry.hash}",
            "a SHA-256, 64 hexadecimal digits",
            file=entry.accuracy.folder / ACCURACY_TEXT,
            severity=Severity.WARNING,
        )
    if entry.hash is None and (entry.accuracy.folder / ACCURACY_TEXT).is_file():
        yield entry.build_fault(
            "no hash",
            "hash=<SHA-256 of the accuracy log>",
            file=entry.accuracy.folder / ACCURACY_TEXT,
        )
    if entry.answers_bytes is None:
        yield entry.build_fault(
            f"no {ANSWERS}",
            f"{ANSWERS}, truncated to {limit} bytes",
            file=entry.accuracy.folder,
            about=About.FORM,
        )
    elif limit is not None and entry.answers_bytes > limit:
        yield entry.build_fault(
            f"{entry.answers_bytes} bytes", f"at most {limit}", file=entry.accuracy.folder / ANSWERS
        )
    elif entry.answers_bytes == 0:
        yield entry.build_fault(
            "an empty accuracy log",
            "the first and the last of the answers",
            file=entry.accuracy.folder / ANSWERS,
        )


@rule(
    "inference-mllog.data_set",
    MllogEntry,
    About.QUALITY,
    doubt="whether the accuracy is that of the whole data set",
    former="later.data_set",
)
def data_set(entry: MllogEntry) -> Iterator[Fault]:
    """The accuracy run of a closed entry covers the benchmark's whole accuracy set.

    Source: submission_checker/checks/accuracy_check.py, dataset_check; MODEL_CONFIG: dataset-size,
    accuracy-sample-count.
    Advice: run accuracy mode over the whole set.
    """
    if (
        entry.division != "closed"
        or entry.model is None
        or entry.accuracy is None
        or entry.model.accuracy_samples is None
    ):
        return
    wanted = entry.model.find_accuracy_samples(entry.scenario)
    counted = "effective_accuracy_sample_count" in entry.accuracy.index
    key = "effective_accuracy_sample_count"
    if not counted:
        key = "qsl_reported_total_count"
    logged = entry.accuracy.find_number(key)
    if logged is not None and logged != wanted:
        yield entry.accuracy.build_fault(f"{key} {logged:g}", f"{wanted}", key)


@rule(
    "inference-mllog.inferred",
    MllogEntry,
    About.RULES,
    doubt="whether the figure was measured in this scenario",
    former="later.inferred",
)
def inferred(entry: MllogEntry) -> Iterator[Fault]:
    """Only systems of the edge category may infer results from another scenario's logs.

    Source: submission-checker.py, check_performance_dir: Offline and MultiStream from SingleStream,
    Offline from MultiStream; inferred_check.
    Advice: run the scenario itself.
    """
    for run in entry.performance:
        other = (
            run.logged_scenario is not None
            and run.logged_scenario != entry.scenario
            and entry.scenario != INTERACTIVE_FOLDER
        )
        if other and entry.category == "datacenter":
            yield run.build_fault(
                f"{entry.scenario} from a {run.logged_scenario} run, on a datacenter system",
                f"a {entry.scenario} run",
                "effective_scenario",
            )


@rule(
    "inference-mllog.one_system",
    MllogEntry,
    About.IDENTITY,
    doubt="whether accuracy and figure are of one scenario",
    former="later.one_system",
)
def one_system(entry: MllogEntry) -> Iterator[Fault]:
    """Accuracy run and performance runs have the same scenario.

    Source: submission_rules.adoc, results: a scenario's folder contains both runs;
    inference_rules.adoc: the same code runs in both modes.
    Advice: submit the accuracy run that belongs to the performance run.
    """
    scenarios = {run.logged_scenario for run in entry.performance if run.logged_scenario}
    if (
        entry.accuracy
        and entry.accuracy.logged_scenario
        and scenarios
        and entry.accuracy.logged_scenario not in scenarios
    ):
        found = f"an accuracy run of {entry.accuracy.logged_scenario}"
        yield entry.accuracy.build_fault(
            found,
            f"{', '.join(sorted(scenarios))}, as in performance",
            "effective_scenario",
            severity=Severity.WARNING,
        )


@rule("inference-mllog.system", MllogEntry, former="later.system")
def system(entry: MllogEntry) -> Iterator[Fault]:
    """The system of an entry has a description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json; submission-checker.py,
    check_system_desc_id.
    Advice: describe the system in systems/<folder name>.json.
    """
    if entry.system_file is not None and not entry.system_file.is_file():
        yield entry.build_fault(
            f"no description of {entry.system_file.stem}",
            f"systems/{entry.system_file.name}",
            file=entry.system_file,
        )


@rule(
    "inference-mllog.distinct",
    MllogEntry,
    About.SCORE,
    doubt="the figure: one run is counted twice",
    former="later.distinct",
)
def distinct(entry: MllogEntry) -> Iterator[Fault]:
    """No two runs of an entry are the same.

    Source: inference_rules.adoc: separate runs; LoadGen logs the time of each.
    Advice: submit each run once.
    """
    known_runs: dict[tuple[object, ...], MllogRun] = {}
    runs = [*entry.performance]
    if entry.accuracy:
        runs.append(entry.accuracy)
    for run in runs:
        mark = tuple(
            run.find_value(key)
            for key in ("test_datetime", "result_max_latency_ns", "result_mean_latency_ns")
        )
        if None in mark:
            continue
        other = known_runs.setdefault(mark, run)
        if other is not run:
            yield entry.build_fault(
                f"the same run as {other.folder.name}", "a separate run", file=run.folder
            )


@rule("inference-mllog.power", MllogEntry, severity=Severity.INFO, unchecked="power")
def power(entry: MllogEntry) -> Iterator[Fault]:
    """An entry with logs of a power session is judged without them.

    Source: inference_rules.adoc, Power; mlcommons/power-dev: power/client.json, power/server.json,
    ranging/ and run_1/spl.txt.
    Advice: check the power session with MLCommons' power checker.
    """
    performance = entry.folder / "performance"
    places = (
        performance / POWER_FOLDER,
        performance / RANGING_FOLDER,
        *(run.folder / ANALYZER_LOG for run in entry.performance),
    )
    found = [place for place in places if place.exists()]
    if found:
        names = ", ".join(place.relative_to(entry.folder).as_posix() for place in found)
        yield entry.build_fault(
            f"power logs ({names})", "nothing: they are not judged", file=found[0]
        )


@rule(
    "inference-mllog.division_folder",
    MllogEntry,
    severity=Severity.INFO,
    unchecked="the closed division's rules",
)
def division_folder(entry: MllogEntry) -> Iterator[Fault]:
    """The folder above an organisation is a division. Without it, an entry is judged without the
    requirements of the closed division: accuracy limits, compliance tests, documents.

    Source: submission_rules.adoc, Directory structure: organisations are in closed/, open/ and
    network/.
    Advice: check the organisation's folder inside one that is named like its division.
    """
    if entry.division is None:
        yield entry.build_fault("no division", "closed, open or network above the organisation")
