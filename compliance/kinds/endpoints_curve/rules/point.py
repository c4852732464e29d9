"""Check a point of a curve: its files, disclosure, seeds, load, window and figures."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeGuard

from compliance.kinds.endpoints.documents.run import AGENTIC_PATTERN, CONFIG_FILE
from compliance.kinds.endpoints.model_names import is_other_model
from compliance.kinds.endpoints.rules.run_counts import (
    SUMMED_TOLERANCE,
    USUAL_HELD_SHARE,
    build_idle_fault,
    compute_least_share,
    find_held_requests,
)
from compliance.kinds.endpoints_curve.documents.point import (
    MAX_CONCURRENCY,
    EndpointsPoint,
)
from compliance.kinds.endpoints_curve.tree import parse_point_folder
from compliance.recognition.tree_path import is_folder
from compliance.rules import rule
from compliance.rules.file_integrity import is_content_lost
from compliance.verdict import About, Fault, Severity
from suite.rounds.endpoints_curve import SeedSet, fold_model_name
from suite.units import MS_PER_S, NS_PER_S

FIXED_PATTERNS: Final = ("concurrency", AGENTIC_PATTERN)
COHORT_PATTERN: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])-C([01])")
COHORTS_PER_YEAR: Final = 24
WINDOW: Final = ("steady_state", "window")
SUMMARY_SEEDS: Final = {
    "scheduler_rng_seed": "scheduler_random_seed",
    "sample_index_rng_seed": "dataloader_random_seed",
}
"""Seed of a set -> its name in the client's summary and, in v0.7, in point.yaml."""
WARM_UP_TEXTS: Final = ("data_source", "concurrency", "initialization_steps")
"""What is declared of a warm-up beside its time and counts."""
MAX_QUOTED_CHARACTERS: Final = 200
TEXT_FIELDS: Final = (
    "division",
    "region",
    "offline",
    "model_name",
    "model_precision",
    "link_to_model",
    "dataset_name",
    "dataset_type",
    "dataset_link",
    "seed_set",
    "target_cohort",
)
COUNT_FIELDS: Final = ("concurrency", "max_supported_concurrency")
LIST_FIELDS: Final = ("nodes_used",)


@rule("endpoints.point_files", EndpointsPoint, About.RULES, doubt="what the point measured")
def point_files(point: EndpointsPoint) -> Iterator[Fault]:
    """A point has its disclosure and its system's description beside the summary of its run. A
    missing config.yaml is a warning, since the rules' text asks for it and the documentation calls
    it optional.

    Source: Endpoints rules, 8.1 and 9.1.
    Advice: submit the missing file.
    """
    for source, document in (
        (point.disclosure_source, point.disclosure),
        (point.system_source, point.system),
    ):
        if document is None and not is_content_lost(source):
            yield point.build_fault(
                f"no {source.path.name} that can be read", source.path.name, file=source.path
            )
    if point.run.config_source is None:
        yield point.build_fault(
            "no config.yaml", "the client's config.yaml", severity=Severity.WARNING
        )


@rule("endpoints.disclosure", EndpointsPoint, About.RULES, doubt="what was submitted")
def disclosure(point: EndpointsPoint) -> Iterator[Fault]:
    """A point discloses all that the rules ask for, in the rules' own words.

    Source: Endpoints rules, 8.3 and 9.1, Submission completeness.
    Advice: add the missing fields to point.yaml.
    """
    if point.disclosure is None:
        return
    rules = point.round.rules
    missing = [name for name in rules.disclosed_fields if point.find_value(name) in (None, "")]
    if missing:
        yield point.build_fault(f"no {', '.join(missing)}", "every field of 8.3")
    if point.find_value("concurrency") is None:
        yield point.build_fault("no concurrency", "the number of requests in flight")
    yield from check_disclosed_kinds(point)
    for name, values in (
        ("division", rules.divisions),
        ("region", rules.regions),
        ("offline", rules.offline_values),
    ):
        found = point.find_value(name)
        if found is not None and found not in values:
            yield point.build_fault(f"{name} {found}", f"one of {', '.join(values)}")
    cohort = point.find_text("target_cohort")
    if cohort is not None and not COHORT_PATTERN.fullmatch(cohort):
        yield point.build_fault(f"target_cohort {cohort}", "YYYY-MM-C0 or YYYY-MM-C1")


def check_disclosed_kinds(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield disclosed values of another kind than their field's."""
    for names, wanted, is_right in (
        (TEXT_FIELDS, "a text", lambda value: isinstance(value, str)),
        (COUNT_FIELDS, "a whole number", is_whole_number),
        (LIST_FIELDS, "a list", lambda value: isinstance(value, list)),
    ):
        for name in names:
            found = point.find_value(name)
            if found is not None and not is_right(found):
                yield point.build_fault(f"{name} {found}"[:MAX_QUOTED_CHARACTERS], wanted)


def is_whole_number(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number that a count can be."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_CONCURRENCY


@rule("endpoints.model_name", EndpointsPoint, About.IDENTITY, doubt="which benchmark was measured")
def model_name(point: EndpointsPoint) -> Iterator[Fault]:
    """A point has a benchmark of the round, the same as its folder and its configuration. Another
    spelling of it is a warning. The model
    that the configuration names states no other version or size than the benchmark's, and no
    distilled model. A path or a name that states none of these may be any model.

    Source: Endpoints rules, 3.2 and 8.5. No curve is published; names of 16 published entries of
    Inference v6.1 were tried.
    Advice: use the benchmark's name of the round, in the folder and in model_name.
    """
    named, folder = point.find_text("model_name"), point.folder.parent.name
    if named is None:
        return
    spelled = point.round.find_model_name(named)
    if spelled is None:
        known = ", ".join(point.round.models)
        yield point.build_fault(f"model_name {named}", f"one of {known}")
    elif fold_model_name(named) != fold_model_name(folder):
        yield point.build_fault(
            f"model_name {named}",
            f"{folder}, as in the point's folder",
            severity=None if point.round.find_model(folder) else Severity.WARNING,
        )
    elif named != spelled:
        yield point.build_fault(
            f"model_name {named}",
            f"{spelled}, as the official checker asks for it",
            severity=Severity.WARNING,
        )
    configured = None
    if point.run.config:
        configured = point.run.config.find_value("model_params", "name")
    found = None
    if isinstance(configured, str):
        found = point.round.find_model(configured)
    other = found is not None and found is not point.model
    contradicts = isinstance(configured, str) and is_other_model(named, configured)
    if point.model is not None and (other or contradicts):
        yield point.build_fault(
            f"model_params.name {configured}",
            f"{named}, as disclosed",
            file=point.folder / CONFIG_FILE,
        )


@rule("endpoints.point_name", EndpointsPoint, About.FORM, severity=Severity.WARNING)
def point_name(point: EndpointsPoint) -> Iterator[Fault]:
    """A point's folder is named r<N> by its concurrency.

    Source: Endpoints rules, 8.1.
    Advice: rename the folder, or correct concurrency in point.yaml.
    """
    named, found = parse_point_folder(point.folder), point.concurrency
    if named is not None and found is not None and named != found:
        yield point.build_fault(f"concurrency {found}", f"{named}, as in the folder's name")


@rule("endpoints.warm_up", EndpointsPoint, About.RULES, doubt="what preceded the measurement")
def warm_up(point: EndpointsPoint) -> Iterator[Fault]:
    """A point declares its warm-up, which takes at most a day, and keeps the logs of it.

    Source: Endpoints rules, 6.3; of missing fields and missing logs 9.1 flags the point.
    Advice: declare the warm-up in point.yaml.
    """
    if point.disclosure is None:
        return
    if not isinstance(point.find_value("warmup"), dict):
        yield point.build_fault("no warmup", "a declaration", severity=Severity.WARNING)
        return
    seconds, most = point.find_number("warmup", "duration_s"), point.round.rules.max_warm_up_s
    if seconds is None or not 0 <= seconds <= most:
        yield point.build_fault(f"warmup.duration_s {seconds}", f"between 0 and {most} s")
    issued, completed = (
        point.find_integer("warmup", f"requests_{name}") for name in ("issued", "completed")
    )
    if issued is None or completed is None or not 0 <= completed <= issued:
        yield point.build_fault(
            f"{completed} requests completed of {issued} issued in the warm-up",
            "counts, of which the completed ones are no more than the issued ones",
        )
    missing = [name for name in WARM_UP_TEXTS if point.find_value("warmup", name) is None]
    if missing:
        yield point.build_fault(
            f"no {', '.join(f'warmup.{name}' for name in missing)}",
            "each field of 6.3.3",
            severity=Severity.WARNING,
        )
    held = point.find_number("warmup", "concurrency")
    used = bool(seconds or issued or completed)
    if held is not None and (held < 0 or (held == 0 and used)):
        least = "above 0" if used else "at least 0"
        yield point.build_fault(f"warmup.concurrency {held}", least)
    if issued and point.find_value("warmup", "logs_retained") is not True:
        yield point.build_fault(
            f"warmup.logs_retained {point.find_value('warmup', 'logs_retained')}",
            "true: the requests' logs are kept",
            severity=Severity.WARNING,
        )


@rule("endpoints.seed_set", EndpointsPoint, About.RULES, doubt="whether the run is the round's")
def seed_set(point: EndpointsPoint) -> Iterator[Fault]:
    """A point uses a published set of seeds, not before its first cohort, in its settings and in
    its run.

    Source: Endpoints rules, 2.1.1; submission rules, 4.6.
    Advice: run the client with the seeds of a set that is open for the cohort.
    """
    name = point.find_text("seed_set")
    if name is None:
        return
    published = point.round.seeds.get(name)
    if published is None:
        known = ", ".join(point.round.seeds)
        yield point.build_fault(f"seed_set {name}", f"a published set: {known}")
        return
    yield from check_disclosed_seeds(point, published)
    yield from check_run_seeds(point, published)
    cohort = COHORT_PATTERN.fullmatch(point.find_text("target_cohort") or "")
    begin = COHORT_PATTERN.fullmatch(published.cohort)
    if cohort and begin and count_cohorts(cohort) < count_cohorts(begin):
        yield point.build_fault(
            f"seed_set {name} in cohort {cohort[0]}", f"in {published.cohort} or later"
        )


def count_cohorts(cohort: re.Match[str]) -> int:
    """Return the number of a cohort: there are two in each month."""
    return int(cohort[1]) * COHORTS_PER_YEAR + 2 * (int(cohort[2]) - 1) + int(cohort[3])


def check_disclosed_seeds(point: EndpointsPoint, published: SeedSet) -> Iterator[Fault]:
    """Yield seeds in point.yaml that are not those of the set."""
    for name in ("scheduler_rng_seed", "sample_index_rng_seed", "model_seed"):
        found = point.find_value("runtime_settings", "runtime", name)
        if found is None and name in SUMMARY_SEEDS:
            found = point.find_value("runtime_settings", "runtime", SUMMARY_SEEDS[name])
        wanted = getattr(published, name)
        if isinstance(found, str) and found.strip() == str(wanted):
            yield point.build_fault(
                f"{name} '{found}', a text", f"{wanted}, a number", severity=Severity.WARNING
            )
        elif found != wanted:
            yield point.build_fault(f"{name} {found}", f"{wanted}")


def check_run_seeds(point: EndpointsPoint, published: SeedSet) -> Iterator[Fault]:
    """Yield seeds of the run that are not those of the set, in its summary or its settings."""
    summary, config = point.summary, point.run.config
    for name, field in SUMMARY_SEEDS.items():
        ran = None
        if summary:
            ran = getattr(summary.run_config, field)
        configured = None
        if config:
            configured = config.find_value("settings", "runtime", field)
        for found, file in (
            (ran, point.run.summary_source.path),
            (configured, point.folder / CONFIG_FILE),
        ):
            if found is not None and found != getattr(published, name):
                yield point.build_fault(
                    f"{field} {found}", f"{getattr(published, name)}", file=file
                )


@rule("endpoints.point_load", EndpointsPoint, About.RULES, doubt="what the figure measures")
def point_load(point: EndpointsPoint) -> Iterator[Fault]:
    """A point holds its number of requests in flight, in its disclosure as in its run, and streams
    its answers. Only the Offline run may have another load pattern.

    Source: Endpoints rules, 6.1 and 6.5.
    Advice: run the client with the load pattern concurrency, or agentic_inference.
    """
    if point.disclosure is None or point.is_offline_run:
        return
    disclosed = point.find_text("runtime_settings", "load_pattern")
    if disclosed is not None and disclosed not in FIXED_PATTERNS:
        yield point.build_fault(f"load_pattern {disclosed}", " or ".join(FIXED_PATTERNS))
    if (point.concurrency or 0) <= 0:
        yield point.build_fault(f"concurrency {point.concurrency}", "above 0")
    summary_file = point.run.summary_source.path
    pattern = None
    if point.summary:
        pattern = point.summary.run_config.load_pattern
    if pattern is not None and pattern.type is not None:
        if pattern.type not in FIXED_PATTERNS:
            yield point.build_fault(
                f"load pattern {pattern.type}", " or ".join(FIXED_PATTERNS), file=summary_file
            )
        elif pattern.target_concurrency not in (None, point.concurrency):
            yield point.build_fault(
                f"{pattern.target_concurrency} requests in flight",
                f"{point.concurrency}, as disclosed",
                file=summary_file,
            )
    elif pattern is not None:
        yield point.build_fault(
            "no load pattern of the run",
            "run_config.load_pattern, as the client writes it",
            file=summary_file,
            severity=Severity.WARNING,
        )
    yield from check_requests_in_flight(point)
    config = point.run.config
    if config is not None and config.find_value("model_params", "streaming") in ("off", False):
        yield point.build_fault("streaming off", "on, so that there are times of tokens")
    yield from check_streamed_chunks(point)


def check_streamed_chunks(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield settings by which the client does not count each chunk of an answer."""
    config = point.run.config
    for found, file in (
        (point.find_value("runtime_settings", "stream_all_chunks"), None),
        (
            config.find_value("settings", "client", "stream_all_chunks") if config else None,
            point.folder / CONFIG_FILE,
        ),
    ):
        if found is False:
            yield point.build_fault(
                "stream_all_chunks false", "true", file=file, severity=Severity.WARNING
            )


def check_requests_in_flight(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield latencies that add up to more than the disclosed number of requests for the whole
    duration, by Little's law, and those that add up to much less, where the run itself does not say
    its number.
    """
    summary, disclosed = point.summary, point.concurrency
    if summary is None or summary.latency.total is None or not summary.duration_ns:
        return
    held, file = summary.latency.total / summary.duration_ns, point.run.summary_source.path
    if disclosed is None or disclosed <= 0:
        return
    if held > disclosed * (1 + SUMMED_TOLERANCE):
        yield point.build_fault(
            f"latencies of {held:.6g} requests at a time",
            f"at most {disclosed}, as disclosed",
            file=file,
        )
    share = compute_least_share(summary, disclosed)
    silent = find_held_requests(point.run) is None and not point.is_agentic
    if silent and share is not None and share < USUAL_HELD_SHARE:
        yield build_idle_fault(point.run, held, disclosed, share)


@rule("endpoints.point_duration", EndpointsPoint, About.RULES, severity=Severity.WARNING)
def point_duration(point: EndpointsPoint) -> Iterator[Fault]:
    """A point is measured for at least as long as its concurrency requires: the steady window if it
    has one, else the whole run. The client was not set to less than the round's shortest time. Its
    setting 0 means the whole data set.

    Source: Endpoints rules, 6.2; 9.1 flags the point.
    Advice: issue more passes over the data set.
    """
    yield from check_duration_settings(point)
    if point.summary is None or point.summary.duration_ns is None or point.concurrency is None:
        return
    window = point.find_number(*WINDOW, "duration_s")
    whole = point.summary.duration_ns / NS_PER_S
    found = whole if window is None else window
    wanted = point.round.find_min_duration_ms(point.concurrency, point.is_agentic) / MS_PER_S
    if found < wanted:
        basis = "the steady window"
        if window is None:
            basis = "the whole run"
        yield point.build_fault(f"{found:.6g} s, {basis}", f"at least {wanted:g} s")


def check_duration_settings(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield settings of a shorter run than any point may be."""
    config, least = point.run.config, point.round.rules.min_duration_ms
    for found, file in (
        (point.find_number("runtime_settings", "min_duration_ms"), None),
        (
            config.find_number("settings", "runtime", "min_duration_ms") if config else None,
            point.folder / CONFIG_FILE,
        ),
    ):
        if found is not None and found and found < least:
            yield point.build_fault(f"min_duration_ms {found}", f"at least {least}", file=file)


@rule("endpoints.whole_passes", EndpointsPoint, About.RULES, doubt="which samples count")
def whole_passes(point: EndpointsPoint) -> Iterator[Fault]:
    """A point issues its whole data set once or several times. The Offline run's concurrency is the
    size of the data set. At the lowest concurrencies a point may state a part of the data set,
    which needs MLCommons' approval: a warning.

    Source: Endpoints rules, 6.4, 6.5, 8.3 and 5.7.1.
    Advice: issue a whole multiple of the data set.
    """
    size, whole = find_issued_size(point), find_data_set_size(point)
    issued = None
    if point.summary:
        issued = point.summary.n_samples_issued
    if size is None or issued is None:
        return
    if size != whole:
        yield point.build_fault(
            f"{size} samples of the data set",
            f"{whole}, all of them, unless MLCommons approved of fewer",
            severity=Severity.WARNING,
        )
    if issued < size or issued % size:
        yield point.build_fault(
            f"{issued} samples issued",
            f"a multiple of {size}, {'the data set' if size == whole else 'the stated samples'}",
            file=point.run.summary_source.path,
        )
    if point.is_offline_run and point.concurrency != size:
        yield point.build_fault(
            f"an Offline run with concurrency {point.concurrency}",
            f"{size}, the size of the data set",
        )


def find_issued_size(point: EndpointsPoint) -> int | None:
    """Return the number of samples that a point issues in a pass: those that it states, where it
    may have fewer than the data set; None if no text says it.
    """
    whole, part, concurrency = find_data_set_size(point), point.subset_size, point.concurrency
    if whole is None or part is None or concurrency is None:
        return whole
    low = 0 < concurrency <= point.round.regions.ultra_low_concurrency
    if low and 0 < part < whole:
        return part
    return whole


def find_data_set_size(point: EndpointsPoint) -> int | None:
    """Return the number of samples in a point's performance data set; None if no text says it. An
    agentic benchmark counts turns, of which there is no fixed number.
    """
    if point.model is None or point.is_agentic:
        return None
    return point.model.data_sets.get(point.data_set_name or "", point.model.samples)


@rule("endpoints.shared_paths", EndpointsPoint, About.RULES, doubt="whether others can repeat it")
def shared_paths(point: EndpointsPoint) -> Iterator[Fault]:
    """shared_src and shared_docs name folders of the submission.

    Source: Endpoints rules, 8.1 and 9.1, Shared path resolution.
    Advice: name the folders below src and docs, relative to the submission.
    """
    if point.root == point.folder.parent:
        return
    for name in ("shared_src", "shared_docs"):
        found = point.find_value(name)
        if found is None:
            continue
        if isinstance(found, str):
            path = Path(found)
        else:
            path = Path()
        below = path.parts and not path.is_absolute() and ".." not in path.parts
        if not below or not is_folder(point.root / path):
            yield point.build_fault(
                f"{name} {found}"[:MAX_QUOTED_CHARACTERS],
                "the relative path of a folder of the submission",
            )
