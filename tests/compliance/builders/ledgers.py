"""Ledgers of small results, line by line as podium writes them, and what may be done to one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC as ZULU
from datetime import datetime
from pathlib import Path
from typing import Any

import making
from kinds.records import add_run_records, add_training_telemetry
from making import LOADS, SHA256, written_by
from spoiling import LOG

from compliance.kinds.podium.documents.recorded_run import FIRST_VERSION
from suite.files.layout import compute_file_sha256
from suite.ledger.steps import (
    AttemptKind,
    LedgerStep,
    StepKind,
    compute_campaign_nonce,
    compute_line_sha256,
    encode_ledger_step,
    parse_ledger,
)
from suite.loadgen.scenario import Scenario

UTC = "2023-11-14T23:00:00Z"
CHALLENGE, RANDOM = "1f0c" * 8, "5a" * 32
LEDGER = "open/acme/ledger/resnet50.jsonl"
Edit = Callable[[list[LedgerStep]], Sequence[LedgerStep]]


def chained(steps: Sequence[LedgerStep]) -> bytes:
    """Number the steps and link each to the one before."""
    text, before = b"", ""
    for number, step in enumerate(steps):
        line = encode_ledger_step(replace(step, n=number, previous=before))
        text, before = text + line, compute_line_sha256(line[:-1])
    return text


def step(kind: StepKind, files: dict[str, str] | None = None, **told: Any) -> LedgerStep:
    return LedgerStep(
        n=0,
        step=kind,
        utc=told.pop("utc", UTC),
        files=files or {},
        previous="",
        nonce=told.pop("nonce", making.NONCE),
        **told,
    )


def hashed(root: Path, paths: Sequence[Path]) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): compute_file_sha256(path) for path in sorted(paths)}


def moment(line: str) -> str:
    """When a line of a training log was written, as a ledger has it."""
    time_ms = json.loads(line.removeprefix(":::MLLOG "))["time_ms"]
    return datetime.fromtimestamp(time_ms // 1000, tz=ZULU).strftime("%Y-%m-%dT%H:%M:%SZ")


def late(steps: list[LedgerStep]) -> list[LedgerStep]:
    """The run set's end was written five minutes after the log's last line: so long did the
    run take that the log tells of.
    """
    return [steps[0], replace(steps[1], utc="2023-11-14T22:19:00Z"), *steps[2:]]


def steps_of(root: Path) -> list[LedgerStep]:
    """What a campaign writes that made the tree, with a performance run that was INVALID first."""
    (log,) = root.glob("open/acme/results/*/*/result_0.txt")
    at = log.parent.relative_to(root).as_posix()
    lines = log.read_text().splitlines()
    first = moment(next(line for line in lines if '"run_start"' in line))
    last = moment(lines[-1])
    found = [
        step(
            StepKind.BEGIN,
            utc=first,
            what=AttemptKind.TRAINING,
            of=at,
            options={"runs": 1, "seed": 100},
            system="5c" * 32,
        )
    ]
    found.append(
        step(
            StepKind.TRAINED,
            hashed(root, [log, *log.parent.glob("telemetry_0.jsonl")]),
            utc=last,
            what=AttemptKind.TRAINING,
            of=at,
            verdict="reached",
        )
    )
    found.append(
        step(
            StepKind.EXPORTED,
            hashed(root, list(root.glob(f"checkpoints/*/{SHA256}/record.json"))),
        )
    )
    for what, place in (
        (AttemptKind.ACCURACY, "accuracy"),
        (AttemptKind.PERFORMANCE, "performance/run_1"),
    ):
        for folder in sorted(root.glob(f"open/acme/results/*/*/*/{place}")):
            found += served(root, folder, what, len(found))
    return [*found, step(StepKind.CHECKED)]


def served(root: Path, folder: Path, what: AttemptKind, place: int) -> list[LedgerStep]:
    """A run that is kept, from a place on; a performance run had to be done twice."""
    own: dict[str, Any] = {"what": what, "of": folder.relative_to(root).as_posix()}
    files = hashed(root, [path for path in folder.iterdir() if path.is_file()])
    begin, kept = (
        step(StepKind.BEGIN, **own),
        step(
            StepKind.SERVED,
            files,
            verdict="VALID" if what is AttemptKind.PERFORMANCE else "ACCURACY",
            **own,
        ),
    )
    if what is AttemptKind.ACCURACY:
        return [begin, kept]
    other = dict.fromkeys(files, "0b" * 32)
    return [
        begin,
        step(StepKind.SERVED, other, verdict="INVALID", **own),
        step(StepKind.SUPERSEDED, other, made=place + 1),
        begin,
        kept,
    ]


LOG_OPTIONS: dict[str, str] = {
    "round": "podium_round",
    "profile": "podium_profile",
    "org": "submission_org",
    "system": "submission_platform",
    "input": "input_pipeline",
    **{
        name: name for name in ("framework", "device", "precision", "threads", "world_size", "seed")
    },
}
"""Option of a step that begins a training -> the event that states it."""
SERVED_OPTIONS = ("device", "engine", "framework", "input", "precision", "profile", "threads")
"""Options of a step that begins a served run, under the names that system.json has for them."""


def requested(root: Path) -> Edit:
    """The steps that begin something state what was requested, as podium writes it."""

    def state(step: LedgerStep) -> LedgerStep:
        if step.step is not StepKind.BEGIN:
            return step
        if step.what == AttemptKind.TRAINING:
            return replace(step, options=step.options | read_logged_request(root / step.of))
        (path,) = {
            folder / "system.json"
            for folder in (root / step.of).parents
            if (folder / "system.json").is_file()
        }
        system = json.loads(path.read_text())
        told = {name: system[name] for name in SERVED_OPTIONS}
        return replace(step, options={**told, "system": system["name"]})

    return lambda steps: [state(step) for step in steps]


def read_logged_request(folder: Path) -> dict[str, Any]:
    """What the first log of a set states of what was requested."""
    lines = [json.loads(text[9:]) for text in (folder / LOG).read_text().splitlines()]
    stated = {line["key"]: line["value"] for line in reversed(lines)}
    return {
        "data": None,
        **{name: stated[key] for name, key in LOG_OPTIONS.items()},
        **{f"setting {key}": value for key, value in stated["settings"].items()},
    }


def keep(root: Path, edit: Edit = list) -> Path:
    """Write the ledger of a tree, its steps changed before they are linked."""
    (workload,) = (path.name for path in (root / "checkpoints").iterdir())
    path = root / LEDGER.replace("resnet50", workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(chained(edit(steps_of(root))))
    return root


def tree(folder: Path) -> Path:
    """The usual tree with its ledger."""
    return keep(making.write_tree(folder))


def edited(edit: Edit) -> Callable[[Path], Path]:
    """A tree whose ledger's steps were changed, and linked again."""
    return lambda folder: keep(making.write_tree(folder), edit)


def relined(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """A tree whose ledger's lines were changed, and not linked again."""

    def build(folder: Path) -> None:
        path = tree(folder) / LEDGER
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return build


def challenged(steps: list[LedgerStep], random: str = RANDOM) -> list[LedgerStep]:
    """The run set begins with a challenge from which its nonce was not made, unless that is
    how it was.
    """
    return [replace(steps[0], challenge=CHALLENGE, random=random), *steps[1:]]


def recorded_tree(folder: Path) -> Path:
    """A tree as podium leaves it: a ledger, and beside each run its records."""
    with written_by(FIRST_VERSION):
        making.write_tree(folder, Scenario.SERVER)
    (log,) = folder.glob(f"open/acme/results/*/resnet/{LOG}")
    add_training_telemetry(log)
    for place in folder.glob("open/acme/results/*/resnet50/*/performance/run_1"):
        add_run_records(place, LOADS[Scenario.SERVER])
    return keep(folder)


def relinked(
    pattern: str, change: Callable[[Path], object], edit: Edit = list
) -> Callable[[Path], None]:
    """Such a tree with files changed or removed, and with a ledger of what is left."""

    def build(folder: Path) -> None:
        recorded_tree(folder)
        found = sorted(folder.glob(pattern))
        assert found, pattern
        for path in found:
            change(path)
        keep(folder, edit)

    return build


def fresh(folder: Path) -> None:
    """A tree whose nonce was made from a challenge."""
    nonce = compute_campaign_nonce(CHALLENGE, RANDOM)
    before, making.NONCE = making.NONCE, nonce
    try:
        keep(making.write_tree(folder), challenged)
    finally:
        making.NONCE = before


def adopted(steps: list[LedgerStep]) -> list[LedgerStep]:
    """A ledger that begins behind all results: its first line names them as older."""
    made = {
        path: sha256 for step in steps for path, sha256 in step.files.items() if sha256 != "0b" * 32
    }
    return [replace(steps[0], files=made)]


def put_back(steps: list[LedgerStep]) -> list[LedgerStep]:
    """The run that lies here was superseded, and another one kept."""
    kept = max(
        place
        for place, each in enumerate(steps)
        if each.what == AttemptKind.PERFORMANCE and each.step is StepKind.SERVED
    )
    other = dict.fromkeys(steps[kept].files, "0c" * 32)
    again = [replace(steps[kept - 1]), replace(steps[kept], files=other)]
    return [
        *steps[: kept + 1],
        step(StepKind.SUPERSEDED, dict(steps[kept].files), made=kept),
        *again,
        *steps[kept + 1 :],
    ]


def served_first(steps: list[LedgerStep]) -> list[LedgerStep]:
    """The accuracy run was served before the checkpoint was stored."""
    return [*steps[:2], *steps[3:5], steps[2], *steps[5:]]


def one_more(steps: list[LedgerStep]) -> list[LedgerStep]:
    """A second performance run was served, and is not there."""
    last = max(
        (
            each
            for each in steps
            if each.what == AttemptKind.PERFORMANCE and each.step is StepKind.SERVED
        ),
        key=steps.index,
    )
    moved = {name.replace("/run_1/", "/run_2/"): "0d" * 32 for name in last.files}
    of = last.of.replace("run_1", "run_2")
    return [
        *steps,
        step(StepKind.BEGIN, what=AttemptKind.PERFORMANCE, of=of),
        replace(last, of=of, files=moved),
    ]


def read(path: Path) -> list[LedgerStep]:
    return list(parse_ledger(path.read_bytes()))
