"""For the rules about power small training runs with a meter beside them, whose log tells their
energy; with what breaks them.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kinds.power import METER, backwards, of, parted
from kinds.records import SECOND_NS, observed
from making import line
from spoiling import Builder, swap, then

from harness.training.energy import compute_run_energy
from suite import events
from suite.records import convert_record_to_json

LOG: Final = "result_0.txt"
TELEMETRY: Final = "telemetry_0.jsonl"
LATE_MS: Final = 60_000
"""After run_stop, when the checkpoint has been scored."""
Change = Callable[[list[dict[str, Any]]], object]


def trained(
    change: Change | None = None, *, refigured: bool = True, period_ms: int = 250
) -> Builder:
    """A training run beside a meter; `change` edits the telemetry's lines, before the log tells the
    energy or after.
    """

    def build(folder: Path) -> None:
        observed()(folder)
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
        if change and refigured:
            change(lines)
        write(folder, lines)
        tell(folder)
        if change and not refigured:
            change(lines)
            write(folder, lines)

    return build


def write(folder: Path, lines: list[dict[str, Any]]) -> None:
    """Write the telemetry."""
    (folder / TELEMETRY).write_text(
        "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
    )


def tell(folder: Path) -> None:
    """Log the energy that follows from the telemetry, as `podium train` does."""
    energy, reasons = compute_run_energy(folder / LOG, folder / TELEMETRY) or ((), ())
    last_ms = json.loads((folder / LOG).read_text().splitlines()[-1][9:])["time_ms"]
    with (folder / LOG).open("a") as stream:
        stream.write(
            line(
                events.ENERGY,
                [convert_record_to_json(each) for each in energy],
                last_ms + LATE_MS,
                {"no_energy": list(reasons)},
            )
        )


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
    "power.energy": edited(r'"joules": [0-9.]+', '"joules": 1000.0'),
    "power.clock": trained(parted, refigured=False),
    "power.counter": trained(fallen, refigured=False),
    "power.order": trained(backwards, refigured=False),
}
TRAINED_VALID: Final[Mapping[str, str]] = dict.fromkeys(TRAINED_INVALID, "powered-training")
TRAINED_MUTANTS: Final[Mapping[str, Builder]] = {
    "training: joules edited": edited(r'"joules": [0-9.]+', '"joules": 1.0'),
    "training: watts edited": edited(r'"average_w": [0-9.]+', '"average_w": 1.0'),
    "training: edge error hidden": edited(r'"edge_j": [0-9.]+', '"edge_j": 0.0'),
    "training: MLPerf's mean edited": edited(r'"mlperf_mean_w": [0-9.]+', '"mlperf_mean_w": 1.0'),
    "training: J/sample told": edited(r'"per_sample_j": null', '"per_sample_j": 1.0'),
    "training: samples/s/W told": edited(
        r'"samples_per_s_per_w": null', '"samples_per_s_per_w": 1.0'
    ),
    "training: readings added": edited(r'"readings": [0-9]+', '"readings": 10000'),
    "training: gap hidden": edited(r'"longest_gap_ms": [0-9]+', '"longest_gap_ms": 1'),
    "training: scope changed": edited(r'"scope": \["system"\]', '"scope": ["gpu0"]'),
    "training: source changed": edited(r'"source": "meter"', '"source": "hwmon"'),
    "training: a call that no reading has": edited(
        r'"average_w"', '"call": "nvmlDeviceGetPowerUsage", "average_w"'
    ),
    "training: channel invented": edited(
        r'"key": "energy", "value": \[(.*)\], "metadata"',
        r'"key": "energy", "value": [\1, \1], "metadata"',
    ),
    "training: a sum called the system": edited(r'"source": "meter"', '"source": "components"'),
    "training: clock that was set": trained(parted, refigured=False),
    "training: grade raised": edited(r'"grade": "meter"', '"grade": "analyzer"'),
    "training: no list of energies": edited(r'"joules": [0-9.]+', '"joules": "few"'),
    "training: told twice": then(
        trained(), LOG, swap(r"(?m)^(.*\"key\": \"energy\".*\n)", r"\1\1")
    ),
    "training: energy moved from another run": then(
        trained(), TELEMETRY, lambda path: path.unlink()
    ),
    "training: readings scaled": trained(scaled, refigured=False),
    "training: tail cut": trained(cut, refigured=False),
    "training: foreign telemetry": trained(foreign, refigured=False),
    "training: rehearsal": trained(lambda lines: lines[0]["channels"][1].update(root="/tmp/tree")),
    "training: channel not told": edited(
        r'"key": "energy", "value": \[.*\], "metadata"', '"key": "energy", "value": [], "metadata"'
    ),
}
"""Kinds of violation of a training run's power."""
