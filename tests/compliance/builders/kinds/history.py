"""The examples of the rules about histories."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from histories import MACHINE, build_line
from spoiling import Builder

from suite.history.book import append_history_lines
from suite.history.records import HISTORY_FILE, HistoryLine


def write_lines(*lines: HistoryLine) -> Builder:
    """Write a history of some lines."""

    def build(folder: Path) -> None:
        append_history_lines(folder / HISTORY_FILE, lines)

    return build


def write_spoiled(spoil: Callable[[str], str]) -> Builder:
    """Write a history whose text is changed."""

    def build(folder: Path) -> None:
        write_lines(FIRST, SECOND)(folder)
        file = folder / HISTORY_FILE
        file.write_text(spoil(file.read_text()))

    return build


FIRST: Final = build_line(0, 100.0)
SECOND: Final = build_line(1, 101.0)
BASES: Final[Mapping[str, Builder]] = {"history": write_lines(FIRST, SECOND)}
KINDS: Final = {"history": "history"}
INVALID: Final[Mapping[str, Builder]] = {
    "history.digest": write_spoiled(lambda text: text.replace("101.0", "120.0")),
    "history.machine": write_lines(FIRST, build_line(1, 101.0, replace(MACHINE, cores="64"))),
    "history.once": write_lines(FIRST, replace(FIRST, commit=SECOND.commit)),
    "history.commit": write_lines(FIRST, replace(SECOND, commit=FIRST.commit)),
}
