"""Breaks small results one thing at a time: what the table of examples is made of."""

import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import making
import zstandard
from making import (
    LOADS,
    RISING,
    ROUND,
    SHA256,
    START_MS,
    Event,
    changed,
    training_events,
    without,
    write_log,
    write_run,
)
from system_records import put_system

from compliance.bundle.manifest import BUNDLE_FORMAT, read_run_environment
from compliance.bundle.seal import build_bundle_seal
from suite.files.layout import DETAIL_LOG, compute_file_sha256, compute_folder_sha256
from suite.ledger.steps import compute_ledger_head
from suite.loadgen.scenario import Scenario
from suite.terms import Profile

Builder = Callable[[Path], object]
SINGLE, MULTI, SRV, OFF = (
    Scenario.SINGLE_STREAM,
    Scenario.MULTI_STREAM,
    Scenario.SERVER,
    Scenario.OFFLINE,
)
LOG = "result_0.txt"


def log(events: Sequence[Event], profile: Profile = Profile.SMOKE) -> Builder:
    """A folder with one log."""
    return lambda folder: write_log(folder / LOG, events)


def text(change: Callable[[str], str]) -> Builder:
    """A folder with one log whose text is changed."""

    def build(folder: Path) -> None:
        path = write_log(folder / LOG, training_events())
        path.write_bytes(change(path.read_text()).encode("utf-8", "surrogateescape"))

    return build


def whole_seconds(events: Sequence[Event]) -> list[Event]:
    """Events between which whole seconds pass."""
    return [replace(event, after_ms=event.after_ms // 1000 * 1000) for event in events]


def logs(*runs: Sequence[Event], gap_ms: int = 10**6, start_ms: int = START_MS) -> Builder:
    """A set."""

    def build(folder: Path) -> None:
        for number, events in enumerate(runs):
            write_log(folder / f"result_{number}.txt", events, start_ms + number * gap_ms)

    return build


def run(scenario: Scenario = SINGLE, mode: str = "performance", **edits: Any) -> Builder:
    """A LoadGen run; each edit is of a value of the detail log, in the summary too where it stands
    there.
    """

    def build(folder: Path) -> None:
        place = (
            folder / scenario.folder / ("accuracy" if mode == "accuracy" else "performance/run_1")
        )
        write_run(place, LOADS[scenario], mode)
        for key, value in edits.items():
            set_value(
                place / DETAIL_LOG,
                key.replace("p_", ".", 1) if key.startswith("result_9") else key,
                value,
            )

    return build


def then(builder: Builder, pattern: str, change: Callable[[Path], object]) -> Builder:
    """What a builder makes, with the files that match a pattern changed."""

    def build(folder: Path) -> None:
        builder(folder)
        found = sorted(folder.glob(pattern))
        assert found, pattern
        for path in found:
            change(path)

    return build


def swap(old: str, new: str) -> Callable[[Path], None]:
    """Replace text in a file; it must be there."""

    def change(path: Path) -> None:
        content = path.read_text()
        assert re.search(old, content), f"{old} in {path}"
        path.write_text(re.sub(old, new, content, count=1))

    return change


def put(**fields: Any) -> Callable[[Path], None]:
    """Change fields of a JSON document; a double underscore goes one level down."""

    def change(path: Path) -> None:
        document = json.loads(path.read_text())
        for name, value in fields.items():
            *above, last = name.split("__")
            table = document
            for each in above:
                table = table[each]
            table[last] = value
        path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")

    return change


def set_value(path: Path, key: str, value: Any) -> None:
    """Change a value of a detail log; `...` takes the line out."""
    lines = path.read_text().splitlines(keepends=True)
    places = [place for place, each in enumerate(lines) if f'"key": "{key}"' in each]
    assert places, key
    document = json.loads(lines[places[0]].removeprefix(":::MLLOG "))
    lines[places[0]] = (
        "" if value is ... else ":::MLLOG " + json.dumps({**document, "value": value}) + "\n"
    )
    path.write_text("".join(lines))


def setting(key: str, value: Any) -> Callable[[Path], None]:
    """Change a value of a detail log."""
    return lambda path: set_value(path, key, value)


def tree(folder: Path) -> Path:
    """One scenario with its run set, system files, measurements, truth and checkpoint
    record.
    """
    return making.write_tree(folder)


def entry(folder: Path) -> Path:
    """One scenario on its own, outside a tree."""
    root = making.write_entry(folder / "whole")
    shutil.move(root, folder / "SingleStream")
    shutil.rmtree(folder / "whole")
    return folder


def trained(pattern: str, change: Callable[[Path], object]) -> Builder:
    return then(making.write_trained, pattern, change)


def in_tree(pattern: str, change: Callable[[Path], object]) -> Builder:
    return then(tree, pattern, change)


PERFORMANCE, ACCURATE = "**/performance/run_1/", "**/accuracy/"
RUN = PERFORMANCE + "run.json"
SYSTEM = "**/system.json"
FULL = training_events(0, Profile.FULL, scores=(*RISING, 0.77))


def resumed(
    events: Sequence[Event],
    offset: int | None = None,
    again: float = making.SCORES[0],
    epoch: int = 2,
    void: str = "epoch_start",
) -> Builder:
    """A log that goes on from a checkpoint behind epoch 1; what was logged behind it stands in the
    file, void.
    """

    def build(folder: Path) -> None:
        at = next(
            place
            for place, event in enumerate(events)
            if event.key == "block_start" and (event.metadata or {})["first_epoch_num"] == 1
        )
        prefix = making.written(events[:at])
        lost = [
            Event("block_start", None, {"first_epoch_num": 1, "epoch_count": 1}),
            Event(void, 4, {"epoch_num": 1}),
        ]
        lost += [
            Event("epoch_stop", None, {"epoch_num": 1}),
            Event("block_stop", None, {"first_epoch_num": 1}),
            Event("eval_start", None, {"epoch_num": 1}),
        ]
        lost += [
            Event("eval_accuracy", again, {"epoch_num": 1}),
            Event("eval_stop", None, {"epoch_num": 1}),
        ]
        back = Event(
            "resumed",
            None,
            {
                "epoch_num": epoch,
                "step": 0,
                "log_offset": len(prefix.encode()) if offset is None else offset,
            },
        )
        write_log(folder / LOG, [*events[:at], *lost, back, *events[at:]])

    return build


def dropped(event: str) -> list[Event]:
    return without(training_events(), event)


def doubled(event: str, **changes: Any) -> list[Event]:
    """Events with the last of a key there twice."""
    events = training_events()
    at = max(place for place, each in enumerate(events) if each.key == event)
    return [*events[: at + 1], replace(events[at], **changes), *events[at + 1 :]]


def moved(key: str, behind: str) -> list[Event]:
    """Events with one behind another."""
    events = training_events()
    event = next(each for each in events if each.key == key)
    rest = [each for each in events if each is not event]
    at = max(place for place, each in enumerate(rest) if each.key == behind)
    return [*rest[: at + 1], event, *rest[at + 1 :]]


def smoke(**fields: Any) -> list[Event]:
    """Events with other values."""
    events = training_events()
    for key, value in fields.items():
        events = changed(events, key, value=value)
    return events


DISCLOSED: Mapping[str, Any] = {
    "lowest_numerical_precision_in_linear": "bfloat16",
    "lowest_numerical_precision_in_attn": "bfloat16",
    "lowest_numerical_precision_in_comm": "fp32",
    "tensor_parallelism": 1,
    "pipeline_parallelism": 1,
    "context_parallelism": 1,
    "expert_parallelism": 1,
    "micro_batch_size": 64,
    "config_filename": "workloads/resnet50/podium-v1.toml",
}
"""What the log of the usual training would disclose for MLPerf Training."""


def disclosed(events: Sequence[Event] | None = None, **changes: Any) -> list[Event]:
    """Events that disclose precision and parallelism, some of them otherwise."""
    events = training_events() if events is None else events
    (at,) = (place for place, event in enumerate(events) if event.key == "quality_target")
    facts = {**DISCLOSED, **changes}
    return [*events[:at], *(Event(key, value) for key, value in facts.items()), *events[at:]]


def missed(index: int = 0) -> list[Event]:
    """A legal run that did not reach its target."""
    events = changed(
        training_events(index, scores=(0.5, 0.625)), "run_stop", metadata={"status": "aborted"}
    )
    return without(without(events, "checkpoint_sha256"), "reference_accuracy")


def bundle(
    spoil: Callable[[dict[str, bytes]], None] = lambda files: None,
    cut: int = 0,
    made: Builder = tree,
) -> Builder:
    """A bundle of the tree: manifest first, then the files."""

    def build(folder: Path) -> None:
        made(folder / "t")
        files = {
            path.relative_to(folder / "t").as_posix(): path.read_bytes()
            for path in sorted((folder / "t").rglob("*"))
            if path.is_file()
        }
        sealed = {
            name: {"sha256": compute_file_sha256(folder / "t" / name), "size": len(content)}
            for name, content in files.items()
        }
        manifest = {
            "format": BUNDLE_FORMAT,
            "round": ROUND.name,
            "profile": "smoke",
            "workloads": ["resnet50"],
            "nonce": {"resnet50": making.NONCE},
            "checkpoints": {"resnet50": SHA256},
            "files": sealed,
            "environment": environments(folder / "t"),
            "commands": recorded_commands(folder / "t"),
            "seeds": [100],
            "version": "0.1.0",
        }
        manifest["ledger"] = {
            name: compute_ledger_head(content)
            for name, content in files.items()
            if "/ledger/" in name
        }
        shutil.rmtree(folder / "t")
        files = {"manifest.json": encode_as_podium(manifest), **files}
        spoil(files)
        packed = zstandard.ZstdCompressor(level=19).compress(tarred(files))
        packed += build_bundle_seal(hashlib.sha256(packed).digest())
        (folder / "acme.tar.zst").write_bytes(packed[: len(packed) - cut])

    return build


def encode_as_podium(manifest: dict[str, Any]) -> bytes:
    """The only form of a manifest that counts; what its type does not know is in it, too."""
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()


def recorded_commands(results: Path) -> list[list[str]]:
    """What a manifest repeats of the commands in training logs and run records."""
    logged = re.compile(r'"key": "command_line", "value": (\[.*?\])')
    found = [
        json.loads(command)
        for path in sorted(results.rglob("result_*.txt"))
        for command in logged.findall(path.read_text())
    ]
    found += [json.loads(path.read_text())["command"] for path in sorted(results.rglob("run.json"))]
    return [command for place, command in enumerate(found) if command not in found[:place]]


def environments(results: Path) -> dict[str, Any]:
    """What a manifest repeats of each system's description."""
    return {
        path.stem: read_run_environment(path) for path in sorted(results.glob("*/*/systems/*.json"))
    }


def tarred(files: dict[str, bytes]) -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return stream.getvalue()


def edit_member(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def spoil(files: dict[str, bytes]) -> None:
        found = next(each for each in files if each.endswith(name))
        assert old in files[found]
        files[found] = files[found].replace(old, new)

    return spoil


def second_scenario(folder: Path) -> None:
    """A tree whose second scenario serves another checkpoint."""
    making.write_tree(folder, SINGLE, OFF)
    for path in folder.glob("**/Offline/system.json"):
        put_system(checkpoint_sha256="7b" * 32)(path)


def same_run(folder: Path) -> None:
    """A tree whose second scenario has the times of the first one's runs."""
    making.write_tree(folder, SINGLE, OFF)
    for path in folder.glob(f"**/Offline/**/{DETAIL_LOG}"):
        for key in ("power_begin", "power_end"):
            own = next(
                folder.glob(
                    f"**/SingleStream/{path.parent.relative_to(next(folder.glob('**/Offline')))}/{DETAIL_LOG}"
                )
            )
            set_value(path, key, value_in(own, key))


def at_one_moment(folder: Path) -> None:
    """A tree whose accuracy runs began with the performance runs."""
    tree(folder)
    path = next(folder.glob(f"**/accuracy/{DETAIL_LOG}"))
    begin = value_in(next(folder.glob(f"{PERFORMANCE}{DETAIL_LOG}")), "power_begin")
    set_value(path, "power_begin", begin.replace(".000", ".250"))
    set_value(path, "power_end", begin.replace(":00.000", ":09.250"))


def value_in(path: Path, key: str) -> Any:
    """Give a value of a detail log."""
    line = next(line for line in path.read_text().splitlines() if f'"key": "{key}"' in line)
    return json.loads(line.removeprefix(":::MLLOG "))["value"]


def with_offline_of_ten(folder: Path) -> None:
    """A tree that trains 533 pictures a second in fp32, and serves ten."""
    making.write_tree(folder, OFF)
    log = next(folder.glob("**/resnet/result_0.txt"))
    swap('"key": "precision", "value": "bf16"', '"key": "precision", "value": "fp32"')(log)


def squeezed() -> list[Event]:
    """A run whose marks lie a millisecond apart, its throughput typed to match."""
    events = [replace(event, after_ms=min(event.after_ms, 1)) for event in training_events()]
    return [
        (
            replace(event, value={"throughput": 4_800_000.0, "loss": 1.25})
            if event.key == "tracked_stats"
            else event
        )
        for event in events
    ]


def linked(path: Path) -> None:
    """Move a folder away, and link to it."""
    shutil.move(path, path.parents[7] / "elsewhere")
    path.symlink_to(os.path.relpath(path.parents[7] / "elsewhere", path.parent))


def no_record(files: dict[str, bytes]) -> None:
    """Take the checkpoint's record out, as if it had never been sealed."""
    name = next(name for name in files if name.endswith("record.json"))
    del files[name]
    manifest = json.loads(files["manifest.json"])
    del manifest["files"][name]
    files["manifest.json"] = encode_as_podium(manifest)


def rename(name: str) -> Callable[[Path], None]:
    return lambda path: shutil.move(path, path.with_name(name)) and None


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def twice(path: Path) -> None:
    """Copy a performance run as the second."""
    shutil.copytree(path, path.with_name("run_2"))


def add(name: str, content: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(content) and None


def first_answer(change: Callable[[str], str]) -> Callable[[Path], None]:
    """Change the first answer of an accuracy log."""

    def edit(path: Path) -> None:
        lines = path.read_text().split("\n")
        lines[1] = change(lines[1])
        path.write_text("\n".join(lines))

    return edit


def no_first_answer(path: Path) -> None:
    """Take the first answer out."""
    lines = path.read_text().split("\n")
    path.write_text("\n".join([lines[0], *lines[2:]]))


def relabelled(folder: Path) -> None:
    """A tree whose labels were rewritten to what was answered, with score and hashes to match."""
    tree(folder)
    labels = next(folder.glob("**/labels.txt"))
    labels.write_text("".join(f"{answer}\n" for answer in making.ANSWERS))
    for path in folder.glob("**/accuracy/accuracy.txt"):
        swap(r"top1=[0-9.]+", "top1=1.000000")(path)
    for path in folder.glob("**/*_podium_*.json"):
        put(truth_sha256=compute_folder_sha256(labels.parent))(path)


def two_ceilings(folder: Path) -> None:
    """A tree with a second performance run, made on a host that is four times as fast."""
    run = next(tree(folder).glob("**/performance/run_1"))
    twice(run)
    put(ceiling=360_000.0)(run.with_name("run_2") / "run.json")


def sealed_note(files: dict[str, bytes]) -> None:
    """A file that is no part of a result, named in the manifest."""
    files["notes.txt"] = b"do not look\n"
    manifest = json.loads(files["manifest.json"])
    manifest["files"]["notes.txt"] = {
        "sha256": hashlib.sha256(files["notes.txt"]).hexdigest(),
        "size": len(files["notes.txt"]),
    }
    files["manifest.json"] = encode_as_podium(manifest)
