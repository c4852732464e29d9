"""What accepted inference entries do, done to others: the judge has to let it pass (a warning at
most).
"""

import json
import re
from collections.abc import Callable

from ..kinds import Kinds
from .details import line_after
from .kinds import ANSWERS, CLAIM, DETAIL, SUMMARY, Edit, Entry

ACCEPTED: Kinds[Entry] = Kinds()
WHY = "published entries do this"


def each_log(change: Edit) -> Callable[[Entry], bool]:
    """Change all LoadGen logs alike."""

    def edit(entry: Entry) -> bool:
        return all(
            entry.undo.edit(folder / name, change)
            for folder in (entry.accuracy, *entry.runs)
            for name in (SUMMARY, DETAIL)
        )

    return edit


ACCEPTED.put(
    "logs_with_carriage_returns",
    each_log(lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n")),
    WHY,
)
ACCEPTED.put("logs_without_a_final_newline", each_log(lambda text: text.rstrip("\n")), WHY)
ACCEPTED.put(
    "detail_with_warnings",
    lambda entry: entry.detail(
        line_after(
            "GeneratedQueries",
            'WARNING : Logging allocation detected: "tid" : 5, "reserved_entries" : 1024',
        )
    ),
    WHY,
)


@ACCEPTED.add(WHY)
def names_with_nul_bytes(entry: Entry) -> bool:
    named = re.compile(r"(?m)(SUT\)? name ?: [^\0\n]*?)(\r?)$")
    logs = [folder / name for folder in (entry.accuracy, *entry.runs) for name in (SUMMARY, DETAIL)]
    return any([entry.undo.edit(path, lambda text: named.sub(r"\1\0\0\2", text)) for path in logs])  # noqa: C419 - each of them


@ACCEPTED.add(WHY)
def no_audit(entry: Entry) -> bool:
    return entry.undo.delete(entry.audit)


@ACCEPTED.add(WHY)
def scenario_in_small_letters(entry: Entry) -> bool:
    folder = entry.folder.with_name(entry.scenario.lower())
    entry.undo.rename(entry.measurements, entry.measurements.with_name(entry.scenario.lower()))
    entry.undo.rename(entry.folder, folder)
    entry.folder = folder
    return True


@ACCEPTED.add(WHY)
def performance_in_capitals(entry: Entry) -> bool:
    return entry.undo.rename(entry.folder / "performance", entry.folder / "Performance")


@ACCEPTED.add(WHY)
def runs_from_zero(entry: Entry) -> bool:
    return all(
        entry.undo.rename(path, path.with_name(f"run_{at}")) for at, path in enumerate(entry.runs)
    )


@ACCEPTED.add(WHY)
def logs_directly_in_performance(entry: Entry) -> bool:
    if len(entry.runs) != 1:
        return False
    run = entry.runs[0]
    for path in sorted(run.iterdir()):
        entry.undo.rename(path, run.parent / path.name)
    return entry.undo.delete(run)


@ACCEPTED.add(WHY)
def performance_answers_are_an_empty_list(entry: Entry) -> bool:
    if ": Submission" in (entry.runs[0] / DETAIL).read_text("latin-1"):
        return False
    return entry.undo.write(entry.runs[0] / ANSWERS, "[]")


@ACCEPTED.add(WHY)
def claim_after_other_lines(entry: Entry) -> bool:
    return entry.undo.edit(
        entry.accuracy / CLAIM,
        lambda text: "loading annotations into memory...\nDone (t=0.48s)\n" + text,
    )


@ACCEPTED.add(WHY)
def answers_on_one_line(entry: Entry) -> bool:
    path = entry.accuracy / ANSWERS
    return path.is_file() and entry.undo.write(path, json.dumps(json.loads(path.read_bytes())))


@ACCEPTED.add(WHY)
def answers_in_small_letters(entry: Entry) -> bool:
    return entry.undo.edit(
        entry.accuracy / ANSWERS,
        lambda text: re.sub(
            r'"data" : "(\w+)"', lambda match: f'"data" : "{match[1].lower()}"', text
        ),
    )


@ACCEPTED.add("more than the least is asked for")
def user_conf_asks_for_more(entry: Entry) -> bool:
    more = (
        f"\n*.{entry.scenario}.min_query_count = 999999\n*.{entry.scenario}.min_duration = 60000\n"
    )
    return entry.undo.edit(entry.measurements / "user.conf", lambda text: text + more)


@ACCEPTED.add(WHY)
def readme_empty(entry: Entry) -> bool:
    return entry.undo.write(entry.measurements / "README.md", "")


@ACCEPTED.add(WHY)
def further_files(entry: Entry) -> bool:
    entry.undo.write(entry.runs[0] / "mlperf_log_trace.json", "[]")
    return entry.undo.write(
        entry.measurements / "calibration_process.adoc", "as told in the README\n"
    )


@ACCEPTED.add(WHY)
def submitter_in_other_letters(entry: Entry) -> bool:
    return entry.undo.edit(
        entry.system_file,
        lambda text: re.sub(
            r'("submitter": ")(\w+)', lambda match: match[1] + match[2].upper(), text
        ),
    )


@ACCEPTED.add(WHY)
def further_system_fields(entry: Entry) -> bool:
    return "cooling" not in entry.system_file.read_text("latin-1") and entry.undo.edit(
        entry.system_file,
        lambda text: text.replace("{", '{\n    "cooling": "air",\n    "hw_notes": "",', 1),
    )


@ACCEPTED.add(WHY)
def answers_in_another_layout(entry: Entry) -> bool:
    try:
        rows = json.loads((entry.accuracy / ANSWERS).read_text())
    except (OSError, ValueError):
        return False
    turned = [{"data": row["data"], "qsl_idx": row["qsl_idx"]} for row in rows]
    return entry.undo.write(
        entry.accuracy / ANSWERS, json.dumps(turned, indent=4).replace("\n", "\r\n")
    )
