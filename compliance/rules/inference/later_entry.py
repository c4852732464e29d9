"""An entry of a published inference round since v1.0: complete, of a known benchmark, and accurate enough."""

from collections.abc import Iterator

from compliance.documents.inference.served import LaterEntry, LaterRun
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.files.layout import ACCURACY_TEXT


@rule("later.complete", LaterEntry)
def complete(entry: LaterEntry) -> Iterator[Fault]:
    """An entry has an accuracy run and a performance run.

    Source: submission_rules.adoc, Directory structure; submission-checker.py, check_results_dir.
    Advice: submit both.
    """
    if entry.accuracy is None:
        yield entry.fault("no accuracy folder", "the accuracy run")
    if not entry.performance:
        yield entry.fault("no performance run", "performance/run_1")


@rule("later.benchmark", LaterEntry)
def benchmark(entry: LaterEntry) -> Iterator[Fault]:
    """In the closed division a model's folder is named after a benchmark of the round.

    Source: submission-checker.py, MODEL_CONFIG, models and model_mapping.
    Advice: use the round's spelling.
    """
    if entry.division == "closed" and entry.benchmark is None:
        yield entry.fault(f"the folder '{entry.model_folder}'", f"one of {', '.join(entry.round.models)}")


@rule("later.accuracy", LaterEntry)
def accuracy(entry: LaterEntry) -> Iterator[Fault]:
    """A closed result reaches each of its benchmark's metrics, and does not pass those that have an upper limit.

    Source: submission-checker.py, MODEL_CONFIG, accuracy-target and accuracy-upper-limit, ACC_PATTERN.
    Advice: fix the model's accuracy, and repeat all runs of the entry.
    """
    if entry.division != "closed" or entry.model is None or entry.accuracy is None:
        return
    path = entry.accuracy.folder / ACCURACY_TEXT
    for metric, least in entry.model.accuracy.items():
        told, most = entry.claims.get(metric), entry.model.accuracy_most.get(metric)
        if told is None:
            yield entry.fault(f"no {metric}", f"{metric}, {least:g} or more", path, Severity.WARNING)
        elif told < least:
            yield entry.fault(f"{metric} {told:g}", f"at least {least:g}", path)
        elif most is not None and told > most:
            yield entry.fault(f"{metric} {told:g}", f"at most {most:g}", path)


@rule("later.system", LaterEntry)
def system(entry: LaterEntry) -> Iterator[Fault]:
    """The system of an entry has a description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json; submission-checker.py, check_system_desc_id.
    Advice: describe the system in systems/<folder name>.json.
    """
    if entry.system_file is not None and not entry.system_file.is_file():
        yield entry.fault(f"no description of {entry.system_file.stem}", f"systems/{entry.system_file.name}", entry.system_file)


@rule("later.distinct", LaterEntry)
def distinct(entry: LaterEntry) -> Iterator[Fault]:
    """No two runs of an entry are the same.

    Source: inference_rules.adoc: separate runs; LoadGen logs the moment of each.
    Advice: submit each run once.
    """
    seen: dict[tuple[object, ...], LaterRun] = {}
    for run in entry.performance:
        mark = tuple(run.value(key) for key in ("test_datetime", "result_max_latency_ns", "result_mean_latency_ns"))
        other = seen.setdefault(mark, run) if None not in mark else run
        if other is not run:
            yield entry.fault(f"the same run as {other.folder.name}", "a separate run", run.folder)
