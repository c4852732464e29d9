"""Mutants of inference entries: the detail log as a witness of what happened."""

import re
from collections.abc import Callable
from typing import Final

from ..kinds import Kinds
from .kinds import (
    DETAIL,
    SUMMARY,
    Edit,
    Entry,
    field,
    in_closed,
    of_scenarios,
    once,
    substituted,
    to,
    without_line,
)

DETAILS: Kinds[Entry] = Kinds()
STAMP = re.compile(r'"ts": (\d+)ns')


def in_detail(change: Edit) -> Callable[[Entry], bool]:
    """Change the detail log of the first run."""
    return lambda entry: entry.detail(change)


def in_accuracy(change: Edit) -> Callable[[Entry], bool]:
    """Change the detail log of the accuracy run."""
    return lambda entry: entry.undo.edit(entry.accuracy / DETAIL, change)


def generated(name: str, change: Callable[[int], int]) -> Edit:
    """Change a number of what was generated."""
    return lambda text: re.sub(
        rf'(GeneratedQueries.*?"{name}" : )(\d+)',
        lambda match: match[1] + str(change(int(match[2]))),
        text,
    )


def not_offline(change: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    """Only where there are many queries."""
    return lambda entry: entry.scenario != "Offline" and change(entry)


def line_after(marker: str, message: str) -> Edit:
    """Put a line in after the one with a marker, at the same time."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        index = next((at for at, line in enumerate(lines) if marker in line), None)
        if index is not None:
            lines.insert(index + 1, lines[index].split("ns : ")[0] + f"ns : {message}\n")
        return "".join(lines)

    return change


def of_revision(revision: str) -> Edit:
    """Say that LoadGen was of another revision."""
    return lambda text: re.sub(r"(version : \S+ @ )\w+", rf"\g<1>{revision}", text)


REVISIONS: Final = {
    "unknown": "0123456789",
    "later": "deadbeef01",
    "empty": "",
    "of_another_version": "55c0ea4e77",
}
for name, revision in REVISIONS.items():
    DETAILS.put(
        f"revision_{name}",
        in_closed(in_detail(of_revision(revision))),
        "an accepted LoadGen revision",
    )
DETAILS.put(
    "accuracy_revision_unknown",
    in_closed(in_accuracy(of_revision("0123456789"))),
    "one accepted LoadGen revision",
)
DETAILS.put("version_missing", in_detail(without_line("version : ")), "a LoadGen version")
DETAILS.put(
    "version_unknown",
    in_closed(in_detail(substituted(r"version : \S+ @", "version : .9z9 @"))),
    "an accepted LoadGen version",
)
DETAILS.put("version_garbage", in_detail(field("version", to("mine"))), "a LoadGen version")
DETAILS.put(
    "loadgen_cc_modified",
    in_closed(
        in_detail(
            lambda text: re.sub(
                r"^[0-9a-f]{40} /loadgen\.cc", "0" * 40 + " /loadgen.cc", text, flags=re.MULTILINE
            )
        )
    ),
    "an accepted loadgen.cc",
)
DETAILS.put(
    "loadgen_cc_of_another_revision",
    in_closed(
        in_detail(
            substituted(
                r"^[0-9a-f]{40} /loadgen\.cc",
                "5310bbe20daf6ed879b640ea6b92ff4da12afe2c /loadgen.cc",
            )
        )
    ),
    "the revision's loadgen.cc",
)
DETAILS.put(
    "loadgen_cc_missing",
    in_closed(in_detail(without_line(" /loadgen.cc"))),
    "an accepted loadgen.cc",
)
DETAILS.put(
    "git_status_modified",
    in_closed(
        in_detail(
            lambda text: re.sub(
                r"(git_status :[ ]*\r?\n)", r"\g<1>\n M loadgen.cc\n M loadgen.h\n", text
            )
        )
    ),
    "no uncommitted changes",
)
DETAILS.put(
    "accuracy_git_status_modified",
    in_closed(
        in_accuracy(
            lambda text: re.sub(r"(git_status :[ ]*\r?\n)", r"\g<1>\n M loadgen.cc\n", text)
        )
    ),
    "no uncommitted changes",
)

DETAILS.put(
    "few_generated_queries",
    not_offline(in_detail(generated("queries", lambda _: 600))),
    "the scenario's number of queries",
)
DETAILS.put("no_generated_queries", in_detail(generated("queries", lambda _: 0)), "queries")
DETAILS.put(
    "generated_samples_per_query",
    in_detail(generated("samples per query", lambda count: count * 3 + 1)),
    "as many as were set",
)
DETAILS.put("generation_missing", in_detail(without_line("GeneratedQueries")), "what was generated")
DETAILS.put("loading_missing", in_detail(without_line("Loading QSL")), "which samples were loaded")
DETAILS.put(
    "effective_settings_missing",
    in_detail(
        lambda text: re.sub(
            r"(?ms)^.*Effective Settings:.*?^.*Requested Settings:.*?$", "", text, count=1
        )
    ),
    "effective settings",
)


DETAILS.put(
    "half_of_the_queries_generated",
    of_scenarios(
        ("Server", "MultiStream"), in_detail(generated("queries", lambda count: count // 2))
    ),
    "the scenario's number of queries",
)
DETAILS.put(
    "generated_duration_of_a_third",
    in_detail(generated("duration", lambda length: length // 3)),
    "the queries last so long",
)
DETAILS.put(
    "generated_duration_doubled",
    in_detail(generated("duration", lambda length: length * 2)),
    "the queries last so long",
)
DETAILS.put(
    "phase_missing",
    in_detail(substituted(r"^.*Starting performance mode.*\n", "")),
    "a run that was started",
)
EFFECTIVE: Final = (
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "min_duration (ms)",
    "max_duration (ms)",
    "max_query_count",
)


def effective(name: str) -> Callable[[Entry], bool]:
    """Change a setting where it is in effect, not where it is asked for."""
    pattern = rf"(ns : {re.escape(name)} ?: )(\d+)(?=\n(?:(?!Requested)[\s\S])*Requested)"
    return in_detail(substituted(pattern, lambda match: f"{match[1]}{int(match[2]) + 7}", 1))


DETAILS.made(EFFECTIVE, effective, "effective", "what was asked for is in effect")
DETAILS.put(
    "effective_min_query_count",
    not_offline(effective("min_query_count")),
    "what was asked for is in effect",
)
POWER: Final[dict[str, Edit]] = {
    "of_no_time": substituted(r'(POWER_END: .*"time" : )(.*)', r"\g<1>01-01-2019 00:00:00.000"),
    "without_an_end": substituted(r'^.*POWER_END: "mode" : Perf.*\n', ""),
    "at_no_date": substituted(r'(POWER_BEGIN: .*"time" : ).*', r"\g<1>yesterday"),
    "of_another_mode": substituted(r'(POWER_END: "mode" : )Performance', r"\g<1>Accuracy"),
}
for name, change in POWER.items():
    DETAILS.put(f"power_{name}", in_detail(change), "the times of the run's power")


@DETAILS.add("the scenario's number of queries lasts so long")
def short_generated_duration(entry: Entry) -> bool:
    return entry.scenario in ("Server", "MultiStream") and entry.detail(
        generated("duration", lambda length: length // 40)
    )


@DETAILS.add("more queries than were generated make no rate")
def generated_duration_of_half(entry: Entry) -> bool:
    return entry.scenario == "Server" and entry.detail(
        generated("duration", lambda length: length // 2)
    )


@DETAILS.add("as many as were asked for")
def one_query_too_few(entry: Entry) -> bool:
    text = (entry.runs[0] / DETAIL).read_text("latin-1")
    asked, made = (
        re.search(pattern, text)
        for pattern in (r"ns : min_query_count : (\d+)", r'"queries" : (\d+)')
    )
    least = asked is not None and made is not None and asked[1] == made[1]
    return (
        least
        and entry.scenario != "Offline"
        and entry.detail(generated("queries", lambda count: count - 1))
    )


def stamped(change: Callable[[int], int]) -> Edit:
    """Change all times."""
    return lambda text: STAMP.sub(lambda match: f'"ts": {change(int(match[1]))}ns', text)


DETAILS.put(
    "run_of_a_second",
    in_detail(stamped(lambda stamp: stamp if stamp < 10**6 else 10**6 + stamp // 5000)),
    "60 s",
)


DETAILS.put("run_of_a_tenth_of_the_time", in_detail(stamped(lambda stamp: stamp // 10)), "60 s")


@DETAILS.add("times go forward")
def time_backwards(entry: Entry) -> bool:
    def change(text: str) -> str:
        stamps = list(STAMP.finditer(text))
        last = stamps[-2]
        return text[: last.start()] + '"ts": 1ns' + text[last.end() :]

    return entry.detail(change)


@DETAILS.add("times go forward")
def lines_swapped(entry: Entry) -> bool:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if "GeneratedQueries" in line)
        return "".join([*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]])

    return entry.detail(change)


for name, message in {
    "error": "ERROR : Response buffer was reused.",
    "more_errors": "ERROR : Multiple responses to one query.",
    "fatal": "ERROR : Fatal: the SUT stopped answering.",
}.items():
    DETAILS.put(
        f"line_of_{name}",
        in_detail(line_after("GeneratedQueries", message)),
        "no error but the two accepted ones",
    )
    DETAILS.put(
        f"accuracy_line_of_{name}",
        in_accuracy(line_after("GeneratedQueries", message)),
        "no error but the two accepted ones",
    )


def loaded(change: Callable[[list[str]], list[str]]) -> Edit:
    """Change the samples that were loaded."""

    def edit(text: str) -> str:
        return re.sub(
            r'("set" : "\[)([\d,]+)(\]")',
            lambda match: match[1] + ",".join(change(match[2].split(","))) + match[3],
            text,
            count=1,
        )

    return edit


DETAILS.put(
    "fewer_samples_loaded",
    in_detail(loaded(lambda samples: samples[: len(samples) // 2])),
    "as many as were set",
)


DETAILS.put(
    "two_samples_fewer_loaded",
    once(in_detail(substituted(r'"set" : "\[\d+,\d+,\d+,', '"set" : "['))),
    "as many as were set",
)
DETAILS.put(
    "first_sample_loaded_twice_each_time",
    once(in_detail(substituted(r'"set" : "\[(\d+),\d+,', r'"set" : "[\g<1>,\g<1>,'))),
    "each sample once",
)
DETAILS.put(
    "garbage_loaded",
    in_detail(substituted(r'"set" : "\[\d+,', '"set" : "[x,')),
    "samples of the data set",
)
DETAILS.put(
    "accuracy_run_loads_fewer",
    once(in_accuracy(substituted(r'"set" : "\[\d+,\d+,', '"set" : "[', 1))),
    "the accuracy run loads each sample",
)


@DETAILS.add("each sample once, but for what fills MultiStream's last query up")
def sample_loaded_twice(entry: Entry) -> bool:
    return entry.scenario != "MultiStream" and entry.detail(
        loaded(lambda samples: [samples[1], *samples[1:]])
    )


DETAILS.put(
    "unknown_sample_loaded",
    in_detail(loaded(lambda samples: ["99999999", *samples[1:]])),
    "samples of the data set",
)


@DETAILS.add("the accuracy run loads each sample")
def accuracy_loading_missing(entry: Entry) -> bool:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        found = [index for index, line in enumerate(lines) if "Loading QSL" in line]
        return "".join([*lines[: found[-1]], *lines[found[-1] + 1 :]])

    return in_accuracy(change)(entry)


def cut_before_the_end(text: str) -> str:
    """End before the run has ended."""
    return text[: text.index("GeneratedQueries") + 60]


def cut_in_the_settings(text: str) -> str:
    """End within the settings."""
    return text[: text.index("Requested Settings") + 60]


DETAILS.put("detail_cut_before_the_end", in_detail(cut_before_the_end), "a whole log")
DETAILS.put("detail_cut_in_the_settings", in_detail(cut_in_the_settings), "a whole log")


DETAILS.put(
    "detail_without_its_last_lines",
    in_detail(lambda text: text[: text.rindex("Log Contention")]),
    "a whole log",
)


@DETAILS.add("a log of one run")
def detail_twice(entry: Entry) -> bool:
    return entry.detail(lambda text: text + text)


@DETAILS.add("a log of one run")
def summary_twice(entry: Entry) -> bool:
    return entry.summary(lambda text: text + text)


def from_another(name: str) -> Callable[[Entry], bool]:
    """Take a file of another published entry."""

    def change(entry: Entry) -> bool:
        found = (
            path
            for other in entry.others()
            for path in sorted(other.glob(f"performance/run_1/{name}"))
        )
        return (path := next(found, None)) is not None and entry.undo.copy(
            path, entry.runs[0] / name
        )

    return change


DETAILS.put("summary_of_another_entry", from_another(SUMMARY), "its own logs")
DETAILS.put("detail_of_another_entry", from_another(DETAIL), "its own logs")


@DETAILS.add("the accuracy run's log is in accuracy mode")
def performance_logs_in_the_accuracy_folder(entry: Entry) -> bool:
    return not entry.is_submission_run and all(
        entry.undo.copy(entry.runs[0] / name, entry.accuracy / name) for name in (SUMMARY, DETAIL)
    )


@DETAILS.add("the accuracy run's log is in accuracy mode")
def performance_detail_in_the_accuracy_folder(entry: Entry) -> bool:
    return not entry.is_submission_run and entry.undo.copy(
        entry.runs[0] / DETAIL, entry.accuracy / DETAIL
    )


@DETAILS.add("the accuracy run's log is in accuracy mode")
def performance_summary_in_the_accuracy_folder(entry: Entry) -> bool:
    return entry.undo.copy(entry.runs[0] / SUMMARY, entry.accuracy / SUMMARY)


@DETAILS.add("the performance run's log is in performance mode")
def accuracy_detail_in_the_performance_folder(entry: Entry) -> bool:
    return not entry.is_submission_run and entry.undo.copy(
        entry.accuracy / DETAIL, entry.runs[0] / DETAIL
    )


@DETAILS.add("the performance run's log is in performance mode")
def accuracy_logs_in_the_performance_folder(entry: Entry) -> bool:
    return all(
        entry.undo.copy(entry.accuracy / name, entry.runs[0] / name) for name in (SUMMARY, DETAIL)
    )


DETAILS.put(
    "accuracy_mode_performance", in_accuracy(field("Test mode", to("Performance"))), "accuracy mode"
)
DETAILS.put(
    "accuracy_scenario",
    in_accuracy(field("Scenario", lambda text: "Server" if text == "Offline" else "Offline")),
    "the folder's scenario",
)
DETAILS.put(
    "accuracy_seed", in_accuracy(field("sample_index_rng_seed", to(7))), "the round's seeds"
)
DETAILS.put(
    "accuracy_few_samples_in_all",
    in_accuracy(field("QSL total size", to(500))),
    "the whole data set",
)
DETAILS.put(
    "accuracy_of_another_version",
    in_accuracy(lambda text: re.sub(r"(version : )\S+ @ \w+", r"\g<1>.5a0 @ 55c0ea4e77", text)),
    "one LoadGen version per entry",
)


@DETAILS.add("its own accuracy log")
def accuracy_detail_of_another_entry(entry: Entry) -> bool:
    found = (
        path
        for other in entry.others()
        for path in [other / "accuracy" / DETAIL]
        if path.is_file() and other.parent.name != entry.model
    )
    return (path := next(found, None)) is not None and entry.undo.copy(
        path, entry.accuracy / DETAIL
    )
