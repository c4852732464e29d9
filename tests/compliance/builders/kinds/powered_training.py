"""For the rules about power small training runs with a meter beside them, whose log names its
readings; with what breaks them.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kinds.power import METER, of, parted
from kinds.records import SECOND_NS, observed
from making import line
from spoiling import Builder, swap, then

from suite import events
from suite.files.layout import compute_file_sha256

LOG: Final = "result_0.txt"
TELEMETRY: Final = "telemetry_0.jsonl"
LATE_MS: Final = 60_000
"""After run_stop, when the checkpoint has been scored."""
Change = Callable[[list[dict[str, Any]]], object]


def trained(change: Change | None = None, *, named: bool = True, period_ms: int = 250) -> Builder:
    """A training run beside a meter; `change` edits the telemetry's lines, before the log names
    them or after.
    """

    def build(folder: Path) -> None:
        observed(linger_s=math.ceil(2 * period_ms / 1000))(folder)
        lines = [json.loads(text) for text in (folder / TELEMETRY).read_text().splitlines()]
        lines[0]["channels"].append({"id": 1, **METER, "root": "/", "period_ms": period_ms})
        begin_ns, end_ns = lines[0]["clocks_ns"][0], lines[-1]["end"]["clocks_ns"][0]
        steps = (end_ns - begin_ns) // (period_ms * SECOND_NS // 1000)
        more = [
            {
                "t": begin_ns + place * period_ms * SECOND_NS // 1000 + 7,
                "i": 1,
                "p": 231_500_000 + 1000 * place,
            }
            for place in range(steps)
        ]
        lines[-1]["end"].update(readings=[*lines[-1]["end"]["readings"], len(more)], missed=[0, 0])
        lines = [lines[0], *sorted([*lines[1:-1], *more], key=lambda each: each["t"]), lines[-1]]
        if change and named:
            change(lines)
        write(folder, lines)
        name(folder)
        if change and not named:
            change(lines)
            write(folder, lines)

    return build


def write(folder: Path, lines: list[dict[str, Any]]) -> None:
    """Write the telemetry."""
    (folder / TELEMETRY).write_text(
        "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
    )


def name(folder: Path) -> None:
    """Log the SHA-256 of the telemetry, as `podium train` does."""
    last_ms = json.loads((folder / LOG).read_text().splitlines()[-1][9:])["time_ms"]
    with (folder / LOG).open("a") as stream:
        sha256 = compute_file_sha256(folder / TELEMETRY)
        stream.write(line(events.TELEMETRY, sha256, last_ms + LATE_MS, {}))


def edited(pattern: str, text: str) -> Builder:
    """A run whose log was edited."""
    return then(trained(), LOG, swap(pattern, text))


def scaled(lines: list[dict[str, Any]]) -> None:
    """Half of every reading."""
    for each in lines:
        if "p" in each:
            each["p"] //= 2


def fallen(lines: list[dict[str, Any]]) -> None:
    """The meter became a counter, which falls without having reached its range."""
    lines[0]["channels"][1]["kind"] = "energy"
    for place, each in enumerate(of(lines, 1)):
        each["e"] = 10_000_000 * (place % 50)
        del each["p"]


def cut(lines: list[dict[str, Any]]) -> None:
    """The last readings are gone."""
    for each in [each for each in lines if "p" in each][-20:]:
        lines.remove(each)


def foreign(lines: list[dict[str, Any]]) -> None:
    """Readings of an hour later."""
    lines[0]["clocks_ns"][1] += 3600 * SECOND_NS
    lines[-1]["end"]["clocks_ns"][1] += 3600 * SECOND_NS


TRAINED_BASES: Final[Mapping[str, Builder]] = {"powered-training": trained()}
TRAINED_INVALID: Final[Mapping[str, Builder]] = {
    "power.readings": trained(period_ms=2000),
    "power.counter": trained(fallen),
}
TRAINED_VALID: Final[Mapping[str, str]] = dict.fromkeys(TRAINED_INVALID, "powered-training")
TRAINED_MUTANTS: Final[Mapping[str, Builder]] = {
    "training: other readings named": edited(r'(telemetry_sha256", "value": )"[^"]+"', r'\1"7b"'),
    "training: no readings named": edited(r"(?m)^.*telemetry_sha256.*\n", ""),
    "training: readings of another run named, too": edited(
        r'(?m)^(.*telemetry_sha256", "value": )"[^"]+"(.*\n)', r'\g<0>\1"7b"\2'
    ),
    "training: clock that was set": trained(parted, named=False),
    "training: readings gone": then(trained(), TELEMETRY, lambda path: path.unlink()),
    "training: readings scaled": trained(scaled, named=False),
    "training: tail cut": trained(cut, named=False),
    "training: foreign telemetry": trained(foreign, named=False),
    "training: rehearsal": trained(lambda lines: lines[0]["channels"][1].update(root="/tmp/tree")),
}
"""Kinds of violation of a training run's power."""
