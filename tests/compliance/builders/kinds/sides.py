"""Examples of the rules about studies of two sides."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from making import wall
from making_ab import build_training_request, write_ab
from spoiling import Builder, setting, then

from suite.files.layout import DETAIL_LOG
from suite.studies.documents import STUDY_FILE

TABLE: Final = f"**/{STUDY_FILE}"
THIRD_RUN: Final = f"**/block-001-turn-3/{DETAIL_LOG}"


def ab(folder: Path) -> None:
    """An A/B that keeps all rules."""
    write_ab(folder)


def ask_for_one_thread(path: Path) -> None:
    """Let the command ask side A for another number of threads than its runs had."""
    document = json.loads(path.read_text())
    document["requests"][0]["request"]["a"]["options"]["threads"] = "1"
    path.write_text(json.dumps(document))


def begin_early(path: Path) -> None:
    """Let a run begin before the one before it."""
    setting("power_begin", wall(20_000.0))(path)
    setting("power_end", wall(25_000.0))(path)


def training_ab(folder: Path) -> None:
    """An A/B of optimizer steps that keeps all rules."""
    write_ab(folder, build_training_request())


BASES: Final[Mapping[str, Builder]] = {"ab": ab, "ab-training": training_ab}
KINDS: Final = {"ab": "ab", "ab-training": "ab"}
INVALID: Final[Mapping[str, Builder]] = {
    "ab.sides": then(ab, TABLE, ask_for_one_thread),
    "ab.order": then(ab, THIRD_RUN, begin_early),
    "ab.steps": then(training_ab, THIRD_RUN, setting("effective_samples_per_query", 16)),
}
