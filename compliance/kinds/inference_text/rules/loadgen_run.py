"""Check one LoadGen run of a published inference round: mode, scenario, validity, LoadGen
version.
"""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.inference_text.documents.entry import SUMMARY_HEADLINES, TextRun
from compliance.kinds.inference_text.logs.legacy_detail import (
    HEAD_KEYS,
    SETTING_BLOCKS,
    LoadGenRemark,
    normalise_test_mode,
)
from compliance.kinds.inference_text.logs.legacy_detail import LegacyTestMode as LoadGenMode
from compliance.logs.source_file import ParseErrorKind
from compliance.recognition.tree_path import match_scenario_folder
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.loadgen_errors import LOADGEN_MESSAGES, UNCOMMITTED_BUILD, is_harmless_error
from suite.loadgen.scenario import Scenario

SUBMISSION_MODE: Final = LoadGenMode.SUBMISSION
LOADGEN_SOURCE_NAME: Final = "/loadgen.cc"
MINIMUMS_SATISFIED_KEYS: Final = ("Min duration satisfied", "Min queries satisfied")
CONSTRAINTS_SATISFIED_KEY: Final = "Performance constraints satisfied"


def has_readable_detail_log(run: TextRun) -> bool:
    """Return whether the detail log could be read; otherwise the file's own finding is
    sufficient.
    """
    return run.detail.stamped_lines > 0


def has_performance_summary(run: TextRun) -> bool:
    """Return whether this is a performance run whose summary could be read."""
    return run.performance and run.summary.has_results


@rule(
    "inference-text.mode",
    TextRun,
    About.SCORE,
    doubt="the figure: it is another kind of run",
    former="served.mode",
)
def mode(run: TextRun) -> Iterator[Fault]:
    """A performance folder contains a performance run, an accuracy folder an accuracy run. A
    submission run counts as both.

    Source: mlcommons/inference, loadgen/test_settings.h, TestMode; submission_rules.adoc, results:
    accuracy and performance folders.
    Advice: submit the logs of the run that the folder's name states.
    """
    if run.performance:
        wanted = LoadGenMode.PERFORMANCE
    else:
        wanted = LoadGenMode.ACCURACY
    if has_readable_detail_log(run):
        logged = run.find_record("effective_test_mode")
        if logged is None or run.logged_mode not in (wanted, SUBMISSION_MODE):
            yield run.build_fault(
                f"test mode {logged.text if logged else 'missing'}",
                f"{wanted} or {SUBMISSION_MODE}",
                logged.line if logged else None,
            )
        if run.phase is None:
            yield run.build_fault(
                f"no '{wanted}' phase",
                f"the line 'Starting {wanted.casefold()} mode:' and its phase",
            )
        others = {phase.mode for phase in run.detail.phases} - {wanted}
        if run.logged_mode == wanted and others:
            yield run.build_fault(
                f"another phase of mode {', '.join(sorted(others))}",
                f"only the {wanted.casefold()} phase",
                run.detail.phases[0].line,
            )
    if run.summary_source.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE):
        return
    if run.performance and not run.summary.has_results:
        yield run.build_summary_fault(
            "", "a summary without results", "the summary of a performance run"
        )
    if not run.performance and run.summary.has_results and run.logged_mode != SUBMISSION_MODE:
        yield run.build_summary_fault(
            "Mode",
            "the summary of a performance run in an accuracy folder",
            "the summary of an accuracy run, which has no results",
        )
    named = run.summary.values.get("Mode")
    if run.summary.has_results and (
        named is None or normalise_test_mode(named.text) != run.logged_mode
    ):
        yield run.build_summary_fault(
            "Mode",
            f"mode {named.text if named else 'missing'}",
            f"{run.logged_mode}, as in the detail log",
        )


@rule(
    "inference-text.scenario",
    TextRun,
    About.IDENTITY,
    doubt="which scenario it is a result of",
    former="served.scenario",
)
def scenario(run: TextRun) -> Iterator[Fault]:
    """The folder, the requested settings, the effective settings and the summary have the same
    scenario.

    Source: submission_rules.adoc, results: one folder for each scenario; mlcommons/inference,
    loadgen/test_settings_internal.cc.
    Advice: submit the logs of the scenario that the folder's name states.
    """
    wanted = run.scenario
    if wanted is None:
        yield run.build_fault(
            "no scenario", f"one of {', '.join(each.folder for each in Scenario)}"
        )
        return
    if has_readable_detail_log(run):
        for block in SETTING_BLOCKS:
            logged = run.find_record(f"{block}_scenario")
            if logged is None or match_scenario_folder(logged.text.replace(" ", "")) is not wanted:
                found = f"{block} scenario {logged.text if logged else 'missing'}"
                yield run.build_fault(found, wanted.folder, logged.line if logged else None)
    if run.summary.has_results:
        named = run.summary.values.get("Scenario")
        if named is None or match_scenario_folder(named.text.replace(" ", "")) is not wanted:
            yield run.build_summary_fault(
                "Scenario", f"scenario {named.text if named else 'missing'}", wanted.folder
            )


@rule(
    "inference-text.valid",
    TextRun,
    About.SCORE,
    doubt="the figure: LoadGen did not accept the run",
    former="served.valid",
)
def valid(run: TextRun) -> Iterator[Fault]:
    """LoadGen reports the run as VALID, and each constraint as satisfied.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log; submission-checker.py,
    check_performance_dir.
    Advice: follow the summary's recommendations and repeat the run.
    """
    if not has_performance_summary(run):
        return
    wanted = {"Result is": "VALID", **dict.fromkeys(MINIMUMS_SATISFIED_KEYS, "Yes")}
    if run.scenario in (Scenario.SERVER, Scenario.MULTI_STREAM):
        wanted[CONSTRAINTS_SATISFIED_KEY] = "Yes"
    for name, value in wanted.items():
        found = run.summary.values.get(name)
        if found is None or found.text != value:
            yield run.build_summary_fault(
                name, f"{name}: {found.text if found else 'missing'}", value
            )
    for recommendation in run.summary.recommendations:
        yield run.build_fault(
            f"a recommendation: {recommendation.text}",
            "no recommendation in a valid run",
            recommendation.line,
            file=run.summary_source.path,
        )


@rule("inference-text.headline", TextRun, About.SCORE, doubt="the figure", former="served.headline")
def headline(run: TextRun) -> Iterator[Fault]:
    """The summary contains its scenario's result, and no other scenario's. A run has a summary or a
    detail log.

    Source: mlcommons/inference, loadgen/loadgen.cc, PerformanceSummary::Log; submission-checker.py,
    RESULT_FIELD.
    Advice: put LoadGen's summary of this scenario's run here.
    """
    sources = (run.summary_source, run.detail_source)
    if run.performance and all(each.has_parse_error(ParseErrorKind.MISSING) for each in sources):
        yield run.build_fault(
            "neither a summary nor a detail log",
            "LoadGen's files, as the run wrote them",
            file=run.folder,
        )
    if not has_performance_summary(run) or run.scenario is None:
        return
    wanted = SUMMARY_HEADLINES[run.scenario][0]
    value = run.summary.find_number(wanted)
    if value is None or not 0 < value < float("inf"):
        found = run.summary.values.get(wanted)
        yield run.build_summary_fault(
            wanted, f"{wanted}: {found.text if found else 'missing'}", "a number above 0"
        )
    for name, _ in (pair for each, pair in SUMMARY_HEADLINES.items() if each is not run.scenario):
        if name in run.summary.values:
            yield run.build_summary_fault(name, f"'{name}'", f"only '{wanted}'")


def is_accepted_error(run: TextRun, remark: LoadGenRemark) -> bool:
    """Return whether an error is harmless, or accepted by the round."""
    return is_harmless_error(remark.text) or any(
        LOADGEN_MESSAGES[name].is_in(remark.text) for name in run.round.loadgen.accepted_errors
    )


@rule(
    "inference-text.errors",
    TextRun,
    About.SCORE,
    doubt="the figure: LoadGen could not measure the run",
    former="served.errors",
)
def errors(run: TextRun) -> Iterator[Fault]:
    """LoadGen logged no errors except those that the round accepts, and summary and detail log
    agree on their number.

    Source: mlcommons/inference, submission-checker.py, ignore_errors;
    suite/loadgen/loadgen_errors.py; loadgen/logging.cc: errors and warnings are counted.
    Advice: fix the cause given in the error's line, and repeat the run.
    """
    for remark in run.detail.errors:
        if not is_accepted_error(run, remark):
            weight = None
            if UNCOMMITTED_BUILD.is_in(remark.text) and not run.closed:
                weight = Severity.WARNING
            yield run.build_fault(remark.text, "no errors", remark.line, severity=weight)
    if not has_readable_detail_log(run) or run.summary_source.has_parse_error(
        ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE
    ):
        return
    pairs = (
        ("errors", run.summary.errors, run.detail.errors, None),
        ("warnings", run.summary.warnings, run.detail.warnings, Severity.WARNING),
    )
    for name, counted, logged, severity in pairs:
        if counted is None:
            source = run.detail.hashes.get(LOADGEN_SOURCE_NAME)
            if source and source.text in run.round.loadgen.revisions:
                weight = None
            else:
                weight = Severity.WARNING
            yield run.build_summary_fault(
                "",
                f"no number of {name}",
                f"the number of {name}, at the end of the summary",
                weight,
            )
        elif int(counted.text[:9]) != len(logged):
            found = f"{counted.text} {name}"
            if logged and all(is_accepted_error(run, each) for each in logged):
                weight = Severity.WARNING
            else:
                weight = severity
            yield run.build_fault(
                found,
                f"{len(logged)}, as in the detail log",
                counted.line,
                file=run.summary_source.path,
                severity=weight,
            )


@rule(
    "inference-text.version",
    TextRun,
    About.RULES,
    doubt="whether an unmodified LoadGen measured the run",
    former="served.version",
)
def version(run: TextRun) -> Iterator[Fault]:
    """A closed result uses one of the round's LoadGen revisions, with unmodified sources.

    Source: inference_rules.adoc v0.5, Load generator: the provided one; mlcommons/inference,
    loadgen/version.cc; the round's table of revisions.
    Advice: build LoadGen from the round's revision without changes, and repeat the run.
    """
    if not has_readable_detail_log(run):
        return
    log, rules = run.detail, run.round.loadgen
    weight = None
    if not run.closed:
        weight = Severity.WARNING
    if log.git_status:
        yield run.build_fault(
            f"LoadGen's git status: {log.git_status[0].text}",
            "no uncommitted changes",
            log.git_status[0].line,
            severity=weight,
        )
    if log.version is None:
        yield run.build_fault(
            "no version of LoadGen", "the block LoadgenVersionInfo, which every LoadGen writes"
        )
        return
    name, _, revision = (part.strip() for part in log.version.text.partition("@"))
    if rules.versions and name not in rules.versions:
        yield run.build_fault(
            f"LoadGen {name}", " or ".join(rules.versions), log.version.line, severity=weight
        )
    if log.commit and revision and not log.commit.text.startswith(revision):
        yield run.build_fault(
            f"revision {revision}",
            f"{log.commit.text[: len(revision)]}, as in git's log",
            log.version.line,
            severity=weight,
        )
    if not rules.revisions:
        return
    known = {each: sha1 for sha1, revisions in rules.revisions.items() for each in revisions}
    if revision not in known:
        yield run.build_fault(
            f"revision {revision or 'missing'}",
            f"one of {', '.join(sorted(known))}",
            log.version.line,
            severity=weight,
        )
    source = log.hashes.get(LOADGEN_SOURCE_NAME)
    if (
        source is None
        or source.text not in rules.revisions
        or source.text != known.get(revision, source.text)
    ):
        required = known.get(revision) or " or ".join(sorted(rules.revisions))
        yield run.build_fault(
            f"SHA-1 of loadgen.cc {source.text if source else 'missing'}",
            required,
            source.line if source else log.version.line,
            severity=weight,
        )


@rule("inference-text.clock", TextRun, former="served.clock")
def clock(run: TextRun) -> Iterator[Fault]:
    """The times of LoadGen's clock never decrease in its detail log.

    Source: mlcommons/inference, loadgen/logging.cc: one thread writes the lines, each with the
    steady clock's time; no accepted log differs.
    Advice: repeat the run with a clock that nobody sets.
    """
    for line, now, before in run.detail.clock_steps_back:
        yield run.build_fault(f"{now} ns after {before} ns", "increasing times", line)


@rule(
    "inference-text.whole",
    TextRun,
    About.SCORE,
    doubt="the figure and the settings that it was measured with",
    former="served.whole",
)
def whole(run: TextRun) -> Iterator[Fault]:
    """The detail log is complete: header, settings, loaded and generated samples, and the end of
    each phase.

    Source: mlcommons/inference, loadgen/loadgen.cc, StartTest and IssueQueries.
    Advice: copy the whole detail log again; if it is cut off at the source, repeat the run.
    """
    if not has_readable_detail_log(run):
        return
    log = run.detail
    missing = {
        **{
            f"{block} settings": not any(key.startswith(f"{block}_") for key in run.index)
            for block in SETTING_BLOCKS
        },
        **{
            f"'{name}'": not run.find_value(HEAD_KEYS[name])
            for name in ("QSL total size", "Date + time of test")
        },
    }
    for name in (name for name, lacks in missing.items() if lacks):
        yield run.build_fault(f"no {name}", "a complete log, from its header on")
    for phase in log.phases:
        counts = (len(phase.loaded), len(phase.generated), len(phase.counters))
        if len(set(counts)) != 1 or not counts[0]:
            found = "loaded {} set(s), generated queries {} time(s), ended {} time(s)".format(
                *counts
            )
            yield run.build_fault(found, "equal numbers, at least 1", phase.line)
        begun, ended = (
            [line for what, _, _, line in phase.power if what == each] for each in ("BEGIN", "END")
        )
        if len(begun) != len(ended) or (begun and len(begun) != len(phase.counters)):
            yield run.build_fault(
                f"POWER_BEGIN {len(begun)} time(s), POWER_END {len(ended)} time(s)",
                "each once for each set",
                phase.line,
            )
        for _, logged_mode, _, line in phase.power:
            if logged_mode != phase.mode:
                yield run.build_fault(f"mode {logged_mode}", f"{phase.mode}, as in the phase", line)
