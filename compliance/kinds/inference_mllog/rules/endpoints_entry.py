"""Check an entry of a published inference round that was measured with the Endpoints client."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.accuracy import TOKENS_METRIC, AccuracyScore
from compliance.kinds.endpoints.documents.settings_table import select_tables
from compliance.kinds.endpoints.model_names import is_other_model
from compliance.kinds.endpoints.rules.accuracy import find_metric_limit
from compliance.kinds.inference_mllog.documents.endpoints_entry import EndpointsEntry
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.rounds.endpoints_curve import fold_data_set_name
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S

LOAD_PATTERNS: Final = {
    "Server": ("poisson",),
    "Interactive": ("poisson",),
    "Offline": ("max_throughput",),
    "SingleStream": ("concurrency", "agentic_inference"),
}
"""Scenario -> load patterns that measure it. Source: mlcommons/inference, submission_checker,
v6.1.
"""
BOUND_PERCENTILE: Final = "99.0"
MIN_STREAM_SHARE: Final = 0.9
MAX_LENGTH_RATIO: Final = 1.5
MAX_QUOTED_CHARACTERS: Final = 200
OTHER_DATA_SETS: Final = ("gsm8k", "mbxp", "math500", "mmlupro", "swebench", "random")
"""Folded names of data sets that the client or an earlier round has, and of no benchmark that names
them here.
"""


@rule("endpoints.seeds", EndpointsEntry, About.RULES, doubt="whether the run is the round's")
def seeds(entry: EndpointsEntry) -> Iterator[Fault]:
    """An entry's run uses the round's seeds for the schedule and the order of samples. If neither
    its summary nor config.yaml states them, that is a warning.

    Source: mlcommons/inference, submission_checker/constants.py: seeds of the round.
    Advice: run the client with the round's seeds.
    """
    if entry.run.summary is None:
        return
    rules, config = entry.round.rules, entry.run.stated_config
    for name, found, wanted in (
        ("scheduler_random_seed", config.scheduler_random_seed, rules.schedule_rng_seed),
        ("dataloader_random_seed", config.dataloader_random_seed, rules.sample_index_rng_seed),
    ):
        if found is None:
            yield entry.build_fault(f"{name} None", f"{wanted}", severity=Severity.WARNING)
        elif found != wanted:
            yield entry.build_fault(f"{name} {found}", f"{wanted}")


@rule("endpoints.load_pattern", EndpointsEntry, About.RULES, doubt="what the figure measures")
def load_pattern(entry: EndpointsEntry) -> Iterator[Fault]:
    """A scenario is measured by its load pattern: Server and Interactive by Poisson arrivals,
    Offline at once, SingleStream with one request in flight. If neither the summary nor config.yaml
    states it, that is a warning.

    Source: mlcommons/inference, submission_checker, v6.1.
    Advice: run the client with the scenario's load pattern.
    """
    wanted = LOAD_PATTERNS.get(entry.scenario or "")
    if entry.run.summary is None or wanted is None:
        return
    pattern = entry.run.stated_config.load_pattern
    if pattern.type is None:
        yield entry.build_fault("load pattern None", " or ".join(wanted), severity=Severity.WARNING)
    elif pattern.type not in wanted:
        yield entry.build_fault(f"load pattern {pattern.type}", " or ".join(wanted))
    elif entry.scenario == "SingleStream" and pattern.target_concurrency != 1:
        yield entry.build_fault(
            f"{pattern.target_concurrency} requests in flight", "1 in SingleStream"
        )


@rule("endpoints.duration", EndpointsEntry, About.RULES, doubt="whether the run was long enough")
def duration(entry: EndpointsEntry) -> Iterator[Fault]:
    """An entry's run is asked for at least the round's duration. If it took less although it was
    asked for enough, because the data set ended, that is a warning.

    Source: mlcommons/inference, submission_checker/constants.py: TEST_DURATION_MS, which the
    checker compares with the setting only; two of four Offline runs of v6.1 at hand took less.
    Advice: set min_duration_ms to the round's duration, and issue more samples.
    """
    wanted_ms = entry.round.rules.min_duration_ms
    asked_ms, took_ns = None, None
    if entry.run.config:
        asked_ms = entry.run.config.find_number("settings", "runtime", "min_duration_ms")
    if entry.run.summary:
        took_ns = entry.run.summary.duration_ns
    required = f"at least {wanted_ms / MS_PER_S:g} s"
    if asked_ms is not None and asked_ms < wanted_ms:
        yield entry.build_fault(f"min_duration_ms {asked_ms / MS_PER_S:g} s", required)
    if took_ns is not None and took_ns < wanted_ms * NS_PER_MS:
        yield entry.build_fault(
            f"a duration of {took_ns / NS_PER_S:.6g} s", required, severity=Severity.WARNING
        )


@rule("endpoints.bounds", EndpointsEntry, About.RULES, doubt="whether the latencies are allowed")
def bounds(entry: EndpointsEntry) -> Iterator[Fault]:
    """The 99th percentile that early stopping proves is below the benchmark's bound: of the time to
    the first token and per output token, or of the latency.

    Source: mlcommons/inference, submission_checker, llm_check and LLM_LATENCY_LIMITS.
    Advice: lower the rate, or run longer so that early stopping can prove the percentile.
    """
    summary, model, scenario = entry.run.summary, entry.model, entry.scenario or ""
    if summary is None or model is None or not entry.is_closed:
        return
    first, per_token = model.first_token_ns.get(scenario), model.per_token_ns.get(scenario)
    if first or per_token:
        latency = None
    else:
        latency = model.bounds_ns.get(scenario)
    for name, series, bound in (
        ("ttft", summary.ttft, first),
        ("tpot", summary.tpot, per_token),
        ("latency", summary.latency, latency),
    ):
        if bound is None:
            continue
        proven = (series.early_stopping_percentiles or {}).get(BOUND_PERCENTILE)
        if proven is None:
            yield entry.build_fault(
                f"{name}: no 99th percentile that early stopping proves",
                f"one below {bound / NS_PER_MS:g} ms: at least 662 samples",
            )
        elif proven >= bound:
            yield entry.build_fault(
                f"{name}: 99th percentile {proven / NS_PER_MS:.6g} ms",
                f"below {bound / NS_PER_MS:g} ms",
            )


@rule("endpoints.accuracy", EndpointsEntry, About.QUALITY, doubt="whether the model is accurate")
def accuracy(entry: EndpointsEntry) -> Iterator[Fault]:
    """A closed entry reaches each metric of its benchmark, in the row's unit. A value of at most 1
    where the minimum is in per cent is a fraction.

    Source: mlcommons/inference, submission_checker/constants.py: accuracy-target and
    accuracy-upper-limit.
    Advice: repeat the accuracy run; fix the model if it is not accurate enough.
    """
    if not entry.is_closed or entry.model is None:
        return
    if entry.accuracy.results is None:
        yield entry.accuracy.build_fault("no accuracy results", "accuracy_results.json")
        return
    minimums, maximums = entry.model.find_minimums(entry.scenario), entry.model.accuracy_most
    claims = entry.compute_claims()
    for metric, least in minimums.items():
        if metric == TOKENS_METRIC:  # of lengths, not of scores
            continue
        if metric not in claims:
            yield entry.accuracy.build_fault(f"no {metric}", f"{metric}, {least:g} or more")
        elif claims[metric] < least:
            yield entry.accuracy.build_fault(f"{metric} {claims[metric]:.6g}", f"{least:g} or more")
        elif claims[metric] > find_metric_limit(least):
            yield entry.accuracy.build_fault(
                f"{metric} {claims[metric]:.6g}",
                f"at most {find_metric_limit(least):g}, what the metric can be",
            )
        elif claims[metric] > maximums.get(metric, math.inf):
            yield entry.accuracy.build_fault(
                f"{metric} {claims[metric]:.6g}", f"at most {maximums[metric]:g}"
            )


@rule("endpoints.single_stream", EndpointsEntry, About.SCORE, doubt="the latency")
def single_stream(entry: EndpointsEntry) -> Iterator[Fault]:
    """In SingleStream one request is always in flight, so that latencies add up to the duration.
    Delays that a configuration sets for tools take time, too.

    Source: Little's law: 0.9999 and more in published results of v6.1.
    Advice: put summary and configuration of one run here; otherwise repeat the run with one request
    in flight.
    """
    summary = entry.run.summary
    if summary is None or entry.scenario != "SingleStream" or not summary.duration_ns:
        return
    if summary.latency.total is None or delays_tools(entry):
        return
    held = summary.latency.total / summary.duration_ns
    if held < MIN_STREAM_SHARE:
        yield entry.build_fault(
            f"latencies of {held:.6g} of the duration", f"{MIN_STREAM_SHARE:g} or more"
        )


def delays_tools(entry: EndpointsEntry) -> bool:
    """Return whether a configuration lets the tools of a data set take time."""
    data_sets = None
    if entry.run.config:
        data_sets = entry.run.config.find_value("datasets")
    settings = [each.get("agentic_inference") for each in select_tables(data_sets)]
    return any(
        isinstance(each, dict) and each.get("inject_tool_delay") is True for each in settings
    )


@rule("endpoints.model", EndpointsEntry, About.IDENTITY, doubt="which benchmark was measured")
def model(entry: EndpointsEntry) -> Iterator[Fault]:
    """The configuration has the benchmark of the entry's folder, and no other benchmark's model. In
    the closed division the model's name states no other version or size than the benchmark's, and
    no distilled model. A path or a name that states none of these may be any model.

    Source: mlcommons/endpoints, submission_ref.model and model_params.name; tried on 16
    published entries.
    Advice: submit the configuration that the run used.
    """
    yield from check_measured_model(entry)
    config = entry.run.config
    named = None
    if config:
        named = config.find_value("submission_ref", "model")
    if not isinstance(named, str) or entry.benchmark is None:
        return
    meant = entry.round.find_benchmark(named)
    if meant is not None and meant != entry.benchmark:
        yield entry.build_fault(
            f"submission_ref.model {named}",
            f"{entry.benchmark}, as in the entry's folder",
            file=entry.run.config_source.path if entry.run.config_source else None,
        )


def check_measured_model(entry: EndpointsEntry) -> Iterator[Fault]:
    """Yield a model whose name is that of another benchmark or, in the closed division, contradicts
    the benchmark's.
    """
    config, source = entry.run.config, entry.run.config_source
    named = None
    if config:
        named = config.find_value("model_params", "name")
    if not isinstance(named, str) or entry.benchmark is None:
        return
    text, own = fold_data_set_name(named), fold_data_set_name(entry.benchmark)
    others = (fold_data_set_name(each) for each in entry.round.models)
    # variants of one model are benchmarks of their own
    distinct = (each for each in others if not own.startswith(each) and not each.startswith(own))
    other = own not in text and any(each in text for each in distinct)
    if other or (entry.is_closed and is_other_model(entry.benchmark, named)):
        yield entry.build_fault(
            f"model_params.name {named}"[:MAX_QUOTED_CHARACTERS],
            f"a model of {entry.benchmark}, as in the entry's folder",
            file=source.path if source else None,
        )


@rule("endpoints.entry_data", EndpointsEntry, About.IDENTITY, doubt="what was measured")
def entry_data(entry: EndpointsEntry) -> Iterator[Fault]:
    """A closed entry has no other data set than its benchmark's, in its configuration and as the
    data that its accuracy run scored. An unknown name is a warning in the accuracy results, and
    accepted in the configuration, where published entries have names of their own.

    Source: mlcommons/endpoints, names of data sets in config.yaml and accuracy_results.json; tried
    on 14 published entries of v6.1.
    Advice: measure the entry with its benchmark's data.
    """
    if entry.model is None or not entry.is_closed:
        return
    config, wanted = entry.run.config_source, f"the data of {entry.benchmark}"
    for stated in list_data_set_names(entry):
        if find_other_data_set(entry, stated):
            yield entry.build_fault(
                f"datasets: {stated}"[:MAX_QUOTED_CHARACTERS],
                wanted,
                file=config.path if config else None,
            )
    for score in entry.accuracy.list_scores():
        for stated in dict.fromkeys(filter(None, (score.dataset_name, score.key))):
            if find_other_data_set(entry, stated):
                yield entry.accuracy.build_fault(
                    f"accuracy of {stated}"[:MAX_QUOTED_CHARACTERS], wanted
                )
        if not names_own_data_set(entry, score):
            yield entry.accuracy.build_fault(
                f"accuracy of {score.dataset_name or score.key}"[:MAX_QUOTED_CHARACTERS],
                f"{wanted}: {', '.join(entry.model.endpoints_data_sets)}",
                severity=Severity.WARNING,
            )


def names_own_data_set(entry: EndpointsEntry, score: AccuracyScore) -> bool:
    """Return whether a score is of one of the benchmark's data sets by its name, or of another
    known one, which is an error of its own. A score without a name, and a benchmark without names
    of data sets, contradict nothing.
    """
    own = entry.model.endpoints_data_sets if entry.model else ()
    names = [each for each in (score.dataset_name, score.key) if each]
    if not own or not names:
        return True
    known = [fold_data_set_name(each) for each in own]
    return any(
        any(each in fold_data_set_name(name) for each in known) or find_other_data_set(entry, name)
        for name in names
    )


def list_data_set_names(entry: EndpointsEntry) -> list[str]:
    """List the names of the data sets in an entry's configuration."""
    found = None
    if entry.run.config:
        found = entry.run.config.find_value("datasets")
    tables = select_tables(found)
    return [name for each in tables if isinstance(name := each.get("name"), str)]


def find_other_data_set(entry: EndpointsEntry, text: str) -> str | None:
    """Return the data set that a text names, if it is another benchmark's, anywhere in the text, or
    known and of none, as the whole of it but for a variant behind colons.
    """
    folded, whole = fold_data_set_name(text), fold_data_set_name(text.partition("::")[0])
    if entry.model:
        own = entry.model.endpoints_data_sets
    else:
        own = ()
    if any(fold_data_set_name(each) in folded for each in own):
        return None
    others = (name for row in entry.round.models.values() for name in row.endpoints_data_sets)
    found = next((name for name in others if fold_data_set_name(name) in folded), None)
    return found or next((each for each in OTHER_DATA_SETS if each == whole), None)


@rule("endpoints.other_answers", EndpointsEntry, About.QUALITY, severity=Severity.WARNING)
def other_answers(entry: EndpointsEntry) -> Iterator[Fault]:
    """Answers of the performance run are on average as long as those of the accuracy run, within
    half of that length, if the configuration gives both the same data file.

    Source: reviewers compare both runs, so that none answers more briefly than the other.
    Advice: explain the difference, or repeat both runs with one configuration.
    """
    summary = entry.run.summary
    mean = None
    if summary:
        mean = summary.output_sequence_lengths.avg
    lengths = [each.lengths for each in entry.accuracy.list_scores()]
    answers = sum(each.count for each in lengths)
    if not mean or not answers or not is_data_shared(entry):
        return
    other = sum(float(each.total or 0) for each in lengths) / answers
    if other and not 1 / MAX_LENGTH_RATIO <= mean / other <= MAX_LENGTH_RATIO:
        yield entry.build_fault(
            f"answers of {mean:.6g} tokens on average",
            f"about {other:.6g}, as in the accuracy run",
        )


def is_data_shared(entry: EndpointsEntry) -> bool:
    """Return whether a configuration's performance and accuracy data sets are one file."""
    data_sets = None
    if entry.run.config:
        data_sets = entry.run.config.find_value("datasets")
    paths: dict[object, set[object]] = {}
    if isinstance(data_sets, list):
        for each in data_sets:
            if isinstance(each, dict) and isinstance(each.get("path"), str):
                paths.setdefault(each.get("type"), set()).add(each["path"])
    return bool(paths.get("performance")) and paths.get("performance") == paths.get("accuracy")


@rule("endpoints.tokens_per_sample", EndpointsEntry, About.QUALITY, doubt="the accuracy")
def tokens_per_sample(entry: EndpointsEntry) -> Iterator[Fault]:
    """Answers of the accuracy run have the length that the benchmark requires. Missing lengths are
    a warning, since the client writes them only if it finds a tokenizer.

    Source: mlcommons/inference, submission_checker/constants.py: accuracy-target and
    accuracy-upper-limit, TOKENS_PER_SAMPLE.
    Advice: check that the system's answers end where the reference's do.
    """
    if entry.model is None or not entry.is_closed or entry.accuracy.results is None:
        return
    least = entry.model.find_minimums(entry.scenario).get(TOKENS_METRIC, 0.0)
    most = entry.model.accuracy_most.get(TOKENS_METRIC, math.inf)
    found, file = entry.accuracy.compute_mean_tokens(), entry.accuracy.source.path
    if least:
        allowed = f"between {least:g} and {most:g}"
    else:
        allowed = f"at most {most:g}"
    if found is None:
        if least:
            yield entry.build_fault(
                "no lengths of answers", allowed, file=file, severity=Severity.WARNING
            )
    elif not least <= found <= most:
        yield entry.build_fault(f"{found:.6g} tokens per answer", allowed, file=file)
