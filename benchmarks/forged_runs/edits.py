"""The forgeries: what each edits, with sizes of the edit. The ids are those of the attempts on the
judge that found nothing when they were first made.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forged_runs.tree import (
    ForgedTree,
    Inapplicable,
    Line,
    delay_start,
    find_time_ms,
    link_steps,
    scale_times,
    scale_value,
    shorten_epochs,
    shorten_evaluations,
)
from suite.files.layout import LEDGER_FOLDER
from suite.ledger.steps import LedgerStep, StepKind, parse_ledger

TELEMETRY = "*/*/results/*/*/telemetry_0.jsonl"
RUNS = "*/*/results/*/*/*/performance/run_*"
LEDGERS = f"*/*/{LEDGER_FOLDER}"
SYSTEM = "*/*/results/*/*/*/system.json"
MEASURED = "*/*/measurements/*/*/*/*.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """One forgery, in several sizes."""

    id: str
    what: str
    variants: Sequence[tuple[str, Callable[[ForgedTree], object]]]
    """Name of each size, and the edit."""


def vary(id: str, what: str, edit: Callable[[ForgedTree, Any], object], *sizes: Any) -> Forgery:
    """Build a forgery whose edit takes a size."""
    return Forgery(
        id=id,
        what=what,
        variants=[(format_size(size), lambda tree, size=size: edit(tree, size)) for size in sizes],
    )


def format_size(size: Any) -> str:
    """Name a size of an edit."""
    return size if isinstance(size, str) else json.dumps(size)


# ---- the time of training ----


def squeeze(tree: ForgedTree, factor: float) -> None:
    """Shorten the training, and nothing else."""
    tree.edit_log(lambda lines: scale_times(lines, factor))


def squeeze_and_move(tree: ForgedTree, factor: float) -> None:
    """Shorten the training and the ledger's steps behind it, and remove the telemetry."""
    lines: list[Line] = []
    tree.edit_log(lines.extend)
    length_ms = max(line["time_ms"] for line in lines) - find_time_ms(lines, "run_start")
    squeeze(tree, factor)
    tree.remove(TELEMETRY)
    moved_s = -round((1 - factor) * length_ms / 1000)
    tree.moved_s = {StepKind.TRAINED: moved_s, StepKind.EXPORTED: moved_s}


def squeeze_and_forget(tree: ForgedTree, factor: float) -> None:
    """Shorten the training, and remove telemetry and ledger."""
    squeeze(tree, factor)
    tree.remove(TELEMETRY, LEDGERS)
    tree.is_relinked = False


def hasten_evaluations(tree: ForgedTree, milliseconds: int) -> None:
    """Shorten every evaluation."""
    tree.edit_log(lambda lines: shorten_evaluations(lines, milliseconds))


def hasten_evaluations_alone(tree: ForgedTree, milliseconds: int) -> None:
    """Shorten every evaluation, and remove the telemetry."""
    hasten_evaluations(tree, milliseconds)
    tree.remove(TELEMETRY)


TIMES = (
    vary(
        "Y08",
        "training shortened, telemetry gone, two steps moved",
        squeeze_and_move,
        0.1,
        0.5,
        0.9,
    ),
    vary("V03", "training shortened, ledger linked again", squeeze, 0.1, 0.5, 0.8),
    vary("Y06", "training shortened, telemetry and ledger gone", squeeze_and_forget, 0.5, 0.1, 0.9),
    vary("Y09", "evaluations of a moment, telemetry gone", hasten_evaluations_alone, 1, 10, 100),
    vary("X09", "evaluations of a moment", hasten_evaluations, 1, 10, 100),
    vary("B01", "all times behind run_start scaled", squeeze, 0.9, 0.95, 0.97),
    vary(
        "X07",
        "seconds off each epoch",
        lambda tree, seconds: tree.edit_log(lambda lines: shorten_epochs(lines, seconds)),
        7,
        4,
        2,
    ),
    vary(
        "B03",
        "the clock starts within the first epoch",
        lambda tree, share: tree.edit_log(lambda lines: delay_start(lines, share)),
        0.9,
        0.5,
        0.3,
    ),
)


# ---- what is left out ----


def delete(tree: ForgedTree, pattern: str) -> None:
    """Delete files, and link the ledger again without them."""
    tree.remove(pattern)


def delete_named(tree: ForgedTree, pattern: str) -> None:
    """Delete files that the ledger names, and leave the ledger."""
    tree.is_relinked = False
    tree.remove(pattern)


def spoil(tree: ForgedTree, pattern: str) -> None:
    """Write garbage into files, and link the ledger again with it."""
    for path in tree.find(pattern):
        path.write_bytes(b"garbage\n")


def begin_again(tree: ForgedTree, kept: str) -> None:
    """Replace a ledger by one line that names all results as older."""

    def adopt(path: Path) -> bytes:
        steps = list(parse_ledger(path.read_bytes()))
        files = {name: sha256 for step in steps for name, sha256 in step.files.items()}
        present = {name: sha256 for name, sha256 in files.items() if (tree.root / name).is_file()}
        return link_steps([replace(steps[0], files=present)])

    for path in tree.find(f"{LEDGERS}/{kept}"):
        path.write_bytes(adopt(path))


def scale_tokens(tree: ForgedTree, scenario: str, factor: float) -> None:
    """Raise the tokens per second of a scenario, and remove the tokens."""
    tree.remove(f"*/*/results/*/*/{scenario}/performance/run_*/tokens.npy")
    for path in tree.find(f"*/*/results/*/*/{scenario}/performance/run_*/mlperf_log_*.t*"):
        scale_value(
            path,
            [
                r'result_(?:completed_)?tokens_per_second", "value": ',
                r"[Tt]okens per second\s*: ",
            ],
            factor,
        )


def scale_token_times(tree: ForgedTree, letters: str, factor: float) -> None:
    """Lower the times of first or further tokens, and remove the tokens."""
    tree.remove(f"{RUNS}/tokens.npy")
    key = {"TTFT": "first_token", "TPOT": "time_per_output_token"}[letters]
    for path in tree.find(f"{RUNS}/mlperf_log_*.t*"):
        patterns = [
            rf'result_{key}[a-z0-9_.]*_ns", "value": ',
            rf'result_[0-9.]+_percentile_{key}[a-z0-9_.]*_ns", "value": ',
            rf"{letters}[^\n:]*: ",
        ]
        scale_value(path, patterns, factor)


LEFT_OUT = (
    vary(
        "Y03",
        "Offline's tokens/s raised, tokens.npy gone",
        lambda tree, factor: scale_tokens(tree, "Offline", factor),
        1.2,
        1.5,
        1.05,
    ),
    vary(
        "Y04",
        "Server's tokens/s raised, tokens.npy gone",
        lambda tree, factor: scale_tokens(tree, "Server", factor),
        1.2,
        1.5,
        1.05,
    ),
    vary(
        "Y01",
        "first tokens sooner, tokens.npy gone",
        lambda tree, factor: scale_token_times(tree, "TTFT", factor),
        0.5,
        0.8,
        0.95,
    ),
    vary(
        "Y02",
        "further tokens sooner, tokens.npy gone",
        lambda tree, factor: scale_token_times(tree, "TPOT", factor),
        0.5,
        0.8,
        0.95,
    ),
    vary(
        "Z03",
        "records gone that the ledger names",
        delete_named,
        f"{RUNS}/queries.npy",
        f"{RUNS}/telemetry.jsonl",
        TELEMETRY,
    ),
    vary(
        "Z03b",
        "records gone, ledger linked again",
        delete,
        f"{RUNS}/queries.npy",
        f"{RUNS}/telemetry.jsonl",
        TELEMETRY,
    ),
    vary(
        "Z03c",
        "garbage in place of records",
        spoil,
        f"{RUNS}/queries.npy",
        f"{RUNS}/telemetry.jsonl",
        TELEMETRY,
    ),
    vary("T16", "tokens.npy gone from all runs", delete, f"{RUNS}/tokens.npy"),
    vary("D01", "the ledger gone", delete_named, LEDGERS),
    vary("D01b", "the ledger begun again behind the results", begin_again, "*.jsonl"),
)


# ---- what two documents state ----


def state_in(pattern: str, *keys: str) -> Callable[[ForgedTree, Any], None]:
    """Return an edit that states a value in all documents of a pattern."""

    def edit(tree: ForgedTree, value: Any) -> None:
        def state(document: Line) -> None:
            table = document
            for key in keys[:-1]:
                table = table[next(iter(table))] if key == "*" else table[key]
            if keys[-1] not in table:
                raise Inapplicable(keys[-1])
            table[keys[-1]] = value

        tree.edit_json(pattern, state)

    return edit


def describe_training_system(tree: ForgedTree, change: Callable[[Line], object]) -> None:
    """Edit the description of the system that trained."""
    tree.edit_json(tree.training_system.relative_to(tree.root).as_posix(), change)


def enlarge_host(tree: ForgedTree, threads: int) -> None:
    """State more hardware threads in the telemetry of the training."""
    path = tree.find_one(TELEMETRY)
    head, *lines = path.read_text().splitlines(keepends=True)
    document = json.loads(head)
    for channel in document["channels"]:
        if "cores" in channel:
            channel["cores"] = threads
    path.write_text("".join([json.dumps(document) + "\n", *lines]))


def forge_version(tree: ForgedTree, version: str) -> None:
    """State another version of podium in all records."""
    state_in(SYSTEM, "version")(tree, version)
    state_in("checkpoints/*/*/record.json", "version")(tree, version)

    def state(lines: list[Line]) -> None:
        next(line for line in lines if line["key"] == "podium_version")["value"] = version

    tree.edit_log(state)


def forge_gpu(tree: ForgedTree, model: str) -> None:
    """Say that an accelerator served."""
    state_in(SYSTEM, "device")(tree, "cuda:0")
    state_in(MEASURED, "device")(tree, "cuda:0")
    name = json.loads(tree.find_one(SYSTEM).read_text())["name"]
    told = {
        "accelerators_per_node": 1,
        "accelerator_model_name": model,
        "accelerator_memory_capacity": "80 GiB",
    }
    tree.edit_json(f"*/*/systems/{name}.json", lambda document: document.update(told))


def forge_option(tree: ForgedTree, option: tuple[str, Any]) -> None:
    """State another option in the ledger."""
    name, value = option
    stated: list[int] = []

    def state(step: LedgerStep) -> LedgerStep:
        if name not in step.options:
            return step
        stated.append(step.n)
        return replace(step, options={**step.options, name: value})

    tree.edit_steps(state)
    if not stated:
        raise Inapplicable(name)


def forge_nonce(tree: ForgedTree, letters: str) -> None:
    """State another nonce in all steps of the ledger."""
    tree.edit_steps(lambda step: replace(step, nonce=letters * 16 if step.nonce else ""))


def forge_engine_file(tree: ForgedTree, scenario: str) -> None:
    """State another hash of the engine's file in one scenario."""
    state_in(f"*/*/measurements/*/*/{scenario}/*.json", "engine_description", "*", "file")(
        tree, "5a" * 32
    )


def forge_verification(tree: ForgedTree, factor: float) -> None:
    """State other scores in the text of a compliance test."""
    for path in tree.find("*/*/compliance/*/*/*/*/verify_performance.txt"):
        scale_value(path, [r"= ", r": "], factor)


STATED_TWICE = (
    vary(
        "Z01",
        "less memory where training ran than its telemetry saw",
        lambda tree, memory: describe_training_system(
            tree, lambda document: document.update(host_memory_capacity=memory)
        ),
        "1.0 GiB",
        "2.0 GiB",
        "4.0 GiB",
    ),
    vary("Z02", "telemetry of training from a larger host", enlarge_host, 64, 128, 1024),
    vary(
        "A09",
        "engine_description: graph optimisation",
        state_in(MEASURED, "engine_description", "*", "graph_optimization"),
        "none",
        "basic",
        "extended",
    ),
    vary(
        "A10",
        "engine_description: threads",
        state_in(MEASURED, "engine_description", "*", "threads"),
        1,
        8,
        64,
    ),
    vary(
        "B11",
        "an accelerator that no record saw",
        forge_gpu,
        "NVIDIA H100",
        "NVIDIA A100",
        "NVIDIA B200",
    ),
    vary("A14", "version of podium", forge_version, "9.0.0", "0.3.0", "0.1.0"),
    vary(
        "B12",
        "framework of the training system",
        lambda tree, text: describe_training_system(
            tree, lambda document: document.update(framework=text)
        ),
        "torch 1.0.0",
        "torch 2.1.0",
        "tensorflow 2.16.1",
    ),
    vary(
        "B18",
        "Python of the training system",
        lambda tree, text: describe_training_system(
            tree, lambda document: document["podium"].update(python=text)
        ),
        "2.7.1",
        "3.8.0",
        "3.14.0",
    ),
    vary(
        "D07",
        "ledger's options: threads",
        forge_option,
        ("threads", 1),
        ("threads", 64),
        ("precision", "int8"),
    ),
    vary("D08", "ledger's options: seed", forge_option, ("seed", 1), ("seed", 42), ("seed", 7)),
    vary(
        "D09",
        "ledger's options: settings",
        forge_option,
        ("setting lars_opt_momentum", 0.5),
        ("setting global_batch_size", 4096),
        ("setting lars_opt_base_learning_rate", 10.0),
    ),
    vary("D10", "nonce of all steps", forge_nonce, "5a", "0f", "c3"),
    vary(
        "A12",
        "hash of the engine's file in one scenario",
        forge_engine_file,
        "Offline",
        "Server",
        "SingleStream",
    ),
    vary("U04", "scores in a compliance test's text", forge_verification, 1.1, 0.9, 1.02),
)
FORGERIES: Sequence[Forgery] = (*TIMES, *LEFT_OUT, *STATED_TWICE)


def iterate_variants(
    ids: Sequence[str], first_alone: bool
) -> Iterator[tuple[Forgery, str, Callable[[ForgedTree], object]]]:
    """Yield each forgery in each size, of the given ids if there are any."""
    for forgery in FORGERIES:
        if ids and forgery.id not in ids:
            continue
        for name, edit in forgery.variants[: 1 if first_alone else None]:
            yield forgery, name, edit
