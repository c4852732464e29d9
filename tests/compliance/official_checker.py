"""Ask the official training checker (PyPI mlperf-logging) what it says of a log or of a set."""

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from mlperf_logging.benchmark_meta import get_result_file_counts
from mlperf_logging.compliance_checker import mlp_compliance
from mlperf_logging.package_checker.seed_checker import SeedChecker
from mlperf_logging.rcp_checker import rcp_checker

FIRST_RULESET_WITH_SETS: Final = (1, 0)
"""Seeds and convergence points are checked from this round on."""
MOST_FAILED_LOGS: Final = {"unet3d": 4}
"""Logs of a set that may fail ("olympic scoring"); one of all other benchmarks."""


@dataclass(slots=True)
class Opinion:
    """What the official checker says: it accepts what it has no message about."""

    messages: list[str] = field(default_factory=list)

    @property
    def accepts(self) -> bool:
        """Whether it found nothing."""
        return not self.messages


class MessageCollector(logging.Handler):
    """Keep what the checker logs: it has no other way of saying why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def collect_messages() -> Iterator[list[str]]:
    """Collect the checker's messages, and nothing of its output."""
    collector, root = MessageCollector(), logging.getLogger()
    others, level = root.handlers[:], root.level
    root.handlers, root.level = [collector], logging.WARNING
    loader, yaml.BaseLoader = yaml.BaseLoader, yaml.CBaseLoader  # the same parser in C
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield collector.messages
    finally:
        root.handlers, root.level, yaml.BaseLoader = others, level, loader


def check_log_officially(path: Path, version: str) -> Opinion:
    """Check one log by a round's rules, as `0.7.0`; a traceback is a refusal."""
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", version, True, False)
    with collect_messages() as messages:
        try:
            valid: Any = checker.check_file(str(path), f"training_{version}/common.yaml")
        except Exception as error:  # noqa: BLE001 - whatever it falls over is its answer
            return Opinion([f"{type(error).__name__}: {error}"])
    if valid:
        return Opinion()
    return Opinion(split_messages(messages) or ["no reason given"])


def split_messages(messages: list[str]) -> list[str]:
    """Split what one log's checker says at once."""
    parts = (part.strip() for text in messages for part in text.split("-" * 30))
    return [" ".join(part.split()) for part in parts if part]


def check_set_officially(folder: Path, version: str, *, closed: bool, aside: Path) -> Opinion:
    """Check a set as `package_checker.py` does: its logs, their number, and for closed sets since
    v1.0 seeds and convergence points. The set is copied: the checker writes into what it reads.
    """
    logs = sorted(folder.glob("result_*.txt"))
    opinion = Opinion()
    failed = [said for log in logs if not (said := check_log_officially(log, version)).accepts]
    if len(failed) > MOST_FAILED_LOGS.get(folder.name, 1):
        opinion.messages += [text for said in failed for text in said.messages]
    wanted = get_result_file_counts("training").get(folder.name)
    if wanted is not None and len(logs) != wanted:
        opinion.messages.append(f"{len(logs)} logs instead of {wanted}")
    if not closed or tuple(map(int, version.split(".")[:2])) < FIRST_RULESET_WITH_SETS:
        return opinion
    params = folder / "package_checker_params", folder.parent / "package_checker_params"
    options = {line for file in params if file.is_file() for line in file.read_text().split()}
    with collect_messages() as messages:
        bypassed = "seed-checker-bypass" in options
        if not SeedChecker(version).check_seeds(list(map(str, logs)), bypassed):
            opinion.messages.append("seeds: " + " ".join(" ".join(messages).split()))
    copy = aside / folder.parent.name / folder.name
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    with collect_messages():
        try:
            passed, message, _ = rcp_checker.check_directory(
                str(copy),
                "training",
                version,
                False,
                False,
                rcp_pass="pruned_rcps",
                rcp_bypass="rcp-bypass" in options,
                set_scaling=False,
            )
        except BaseException as error:  # noqa: BLE001 - it also ends with sys.exit
            passed, message = False, f"{type(error).__name__}: {error}"
    if not passed:
        opinion.messages.append(f"convergence: {message}")
    return opinion
