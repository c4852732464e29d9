"""For each rule about power one small run that keeps it and one that breaks it: Offline, with a
meter and two counters beside it.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kinds.records import BEGIN_NS, SECOND_NS, recorded
from spoiling import OFF, Builder, then

from suite.files.layout import RUN_RECORD, TELEMETRY_FILE, compute_file_sha256
from suite.loadgen import power_window
from suite.loadgen.detail_log import read_detail_log

PERIOD_NS: Final = SECOND_NS // 10
RANGE_UJ: Final = 262_143_328_850
METER: Final = {
    "name": "meter",
    "kind": "power",
    "source": "meter",
    "grade": "meter",
    "scope": ["system"],
    "within": [],
    "model": "wt310e",
}
PACKAGE: Final = {
    "name": "rapl:package0",
    "kind": "energy",
    "source": "rapl",
    "grade": "counter",
    "scope": ["package0"],
    "within": ["psys"],
    "range_uj": RANGE_UJ,
    "limit_w": 165.0,
}
MEMORY: Final = {**PACKAGE, "name": "rapl:dram0", "scope": ["dram0"], "limit_w": 40.0}
CHANNELS: Final = (METER, PACKAGE, MEMORY)
WATTS: Final = (231.5, 118.0, 9.5)
"""Of each channel, about."""
Change = Callable[[list[dict[str, Any]]], object]


def readings(
    seconds: int, watts: tuple[float, ...] = WATTS, lead_s: int = 2
) -> list[dict[str, Any]]:
    """Readings of all channels each 100 ms, a little later one after another; the package's counter
    begins anew on the way.
    """
    lines = []
    for place in range((seconds + lead_s - 2) * 10 + 10):
        t = BEGIN_NS - lead_s * SECOND_NS + place * PERIOD_NS + 1_000_000
        for number, mean in enumerate(watts, start=1):
            wave = mean * (1 + 0.002 * place)
            counted = (RANGE_UJ - 300_000_000 + round(mean * place * 1e5)) % RANGE_UJ
            lines.append(
                {
                    "t": t + number,
                    "i": number,
                    **({"p": round(wave * 1e6)} if number == 1 else {"e": counted}),
                }
            )
    return lines


def powered(
    change: Change | None = None,
    *,
    named: bool = True,
    scenario: Any = OFF,
    watts: tuple[float, ...] = WATTS,
    idle: bool = False,
) -> Builder:
    """A performance run whose telemetry has power; `change` edits the telemetry's lines, before the
    record names them or after.

    `idle`: power was read for a while before the run.
    """

    def build(folder: Path) -> None:
        recorded(scenario)(folder)
        (place,) = folder.glob("*/performance/run_1")
        lines = [json.loads(line) for line in (place / TELEMETRY_FILE).read_text().splitlines()]
        lead_s = 8 if idle else 2
        lines[0]["clocks_ns"] = [
            clock - (lead_s - 2) * SECOND_NS for clock in lines[0]["clocks_ns"]
        ]
        begun = power_window.parse_power_time_ns(read_detail_log(place).values["power_begin"])
        assert begun is not None
        for clocks in (lines[0]["clocks_ns"], lines[-1]["end"]["clocks_ns"]):
            clocks[1] = begun + clocks[0] - BEGIN_NS
        own = {"root": "/", "period_ms": 100}
        lines[0]["channels"] += [
            {"id": number, **channel, **own} for number, channel in enumerate(CHANNELS, start=1)
        ]
        more = readings(len(lines) - 2, watts, lead_s)
        lines[-1]["end"]["readings"] += [len(more) // len(CHANNELS)] * len(CHANNELS)
        lines[-1]["end"]["missed"] += [0] * len(CHANNELS)
        lines = [lines[0], *sorted([*lines[1:-1], *more], key=lambda line: line["t"]), lines[-1]]
        if change and named:
            change(lines)
        write(place, lines)
        name_readings(place, idle=idle)
        if change and not named:
            change(lines)
            write(place, lines)

    return build


def write(place: Path, lines: list[dict[str, Any]]) -> None:
    """Write the telemetry."""
    (place / TELEMETRY_FILE).write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    )


def name_readings(place: Path, *, idle: bool = False) -> None:
    """Name the telemetry in run.json, as `podium infer` does."""
    sha256 = compute_file_sha256(place / TELEMETRY_FILE)
    edit(
        place / RUN_RECORD,
        lambda record: record.update(telemetry_sha256=sha256, began_idle=idle),
    )


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def renamed(**changes: Any) -> Builder:
    """A run whose record says other things of its telemetry."""
    return then(
        powered(),
        f"**/{RUN_RECORD}",
        lambda path: edit(path, lambda record: record.update(changes)),
    )


def of(lines: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """The readings of one channel."""
    return [line for line in lines if line.get("i") == number]


def fallen(lines: list[dict[str, Any]]) -> None:
    """A counter that falls without having reached its range."""
    lines[0]["channels"][3].pop("range_uj")
    readings = of(lines, 3)
    readings[40]["e"] = readings[39]["e"] - 5


def stuck(lines: list[dict[str, Any]]) -> None:
    """A sensor that always says the same."""
    for line in of(lines, 1):
        line["p"] = 33_000_000


def swinging(lines: list[dict[str, Any]]) -> None:
    """A sensor whose last digit moves, and nothing else."""
    for place, line in enumerate(of(lines, 1)):
        line["p"] = 33_000_000 + place % 2


def late(lines: list[dict[str, Any]]) -> None:
    """The meter was not read for 1.6 s around the run's begin."""
    for line in of(lines, 1):
        if abs(line["t"] - BEGIN_NS) < 800_000_000:
            lines.remove(line)
    lines[-1]["end"]["readings"][1] = len(of(lines, 1))


def relabelled(source: str, grade: str, **changes: Any) -> Change:
    """The package's counter, or the channel with another number, is called something else."""
    number = changes.pop("number", 2)
    return lambda lines: lines[0]["channels"][number].update(source=source, grade=grade, **changes)


def apart(lines: list[dict[str, Any]]) -> None:
    """The package's cores as a part beside it: they would count twice."""
    lines[0]["channels"][3].update(name="rapl:core0", scope=["core0"], within=[])


def superchip(lines: list[dict[str, Any]]) -> None:
    """A GPU and the module that it is part of, which would be added."""
    for number, scope in ((2, "gpu0"), (3, "module0")):
        lines[0]["channels"][number].update(
            name=f"nvml:{scope}", source="nvml", scope=[scope], within=["psys"]
        )


def endless(lines: list[dict[str, Any]]) -> None:
    """The last line is gone, by which the clocks are compared."""
    lines.pop()


def cut(lines: list[dict[str, Any]]) -> None:
    """The meter's last readings are gone."""
    for line in of(lines, 1)[-40:]:
        lines.remove(line)


def backwards(lines: list[dict[str, Any]]) -> None:
    """One reading from before the last."""
    readings = of(lines, 1)
    readings[30]["t"] = readings[28]["t"]


def negative(lines: list[dict[str, Any]]) -> None:
    """A power below zero, before the run began."""
    of(lines, 1)[0]["p"] = -1


def rooted(lines: list[dict[str, Any]]) -> None:
    """Counters of a made-up tree."""
    lines[0]["channels"][2]["root"] = "/tmp/tree"


def raised(lines: list[dict[str, Any]]) -> None:
    """Counters that call themselves a sensor."""
    lines[0]["channels"][2]["grade"] = "sensor"


def parted(lines: list[dict[str, Any]]) -> None:
    """UTC was set during the run."""
    lines[-1]["end"]["clocks_ns"][1] += 80_000_000


def shifted(lines: list[dict[str, Any]], by_ns: int) -> None:
    """Readings of another time."""
    for clocks in (lines[0]["clocks_ns"], lines[-1]["end"]["clocks_ns"]):
        clocks[1] += by_ns


POWER_BASES: Final[Mapping[str, Builder]] = {
    "powered": powered(),
    "powered-idle": powered(idle=True),
}
POWER_KINDS: Final = {"power": "powered"}
POWER_INVALID: Final[Mapping[str, Builder]] = {
    "power.same_run": then(powered(), f"**/{TELEMETRY_FILE}", lambda path: path.unlink()),
    "power.window": powered(lambda lines: shifted(lines, 3 * SECOND_NS), idle=True),
    "power.edge": powered(late),
    "power.order": powered(negative),
    "power.stuck": powered(stuck),
    "power.scope": powered(apart),
    "power.grade": powered(raised),
    "power.rehearsal": powered(rooted),
}
MUTANTS: Final[Mapping[str, Builder]] = {
    "other readings named": renamed(telemetry_sha256="7b" * 32),
    "no readings named": renamed(telemetry_sha256=""),
    "an idle machine of no readings": renamed(began_idle=True),
    "idle watts in the time of the run": powered(
        lambda lines: shifted(lines, 3 * SECOND_NS), idle=True
    ),
    "one reading edited": powered(
        lambda lines: of(lines, 1)[60].update(p=90_000_000_000), named=False
    ),
    "all readings scaled": powered(
        lambda lines: [line.update(p=line["p"] // 2) for line in of(lines, 1)], named=False
    ),
    "window shifted": powered(lambda lines: shifted(lines, 700_000_000), named=False),
    "tail cut": powered(cut, named=False),
    "counter that falls": powered(fallen, named=False),
    "counter that jumps": powered(
        lambda lines: [line.update(e=line["e"] + 10**9) for line in of(lines, 3)[50:]],
        named=False,
    ),
    "times backwards": powered(backwards, named=False),
    "grade raised in the readings": powered(raised),
    "scopes that overlap": powered(
        lambda lines: lines[0]["channels"][3].update(within=["package0"]), named=False
    ),
    "a scope of the readings": powered(
        lambda lines: lines[0]["channels"][1].update(scope=["module"]), named=False
    ),
    "rehearsal": powered(rooted),
    "clock that was set": powered(parted, named=False),
    "foreign telemetry": powered(lambda lines: shifted(lines, 3600 * SECOND_NS), named=False),
    "telemetry gone": then(powered(), f"**/{TELEMETRY_FILE}", lambda path: path.unlink()),
    "analyzer without a session": powered(relabelled("ptdaemon", "analyzer", number=1)),
    "analyzer of a plugin": powered(relabelled("acme", "analyzer", number=1)),
    "counter called another source": powered(relabelled("nvml", "sensor")),
    "counter called a source of plugins, of the system": powered(
        relabelled("acme", "counter", name="acme:1", scope=["system"], within=[])
    ),
    "a GPU beside its module": powered(superchip),
    "counter called a meter of plugins": powered(
        relabelled("acme", "meter", name="acme:1", scope=["system"], within=[])
    ),
    "cores beside their package": powered(apart),
    "no last line": powered(endless, named=False),
    "meter's clock off": powered(
        lambda lines: lines[0]["channels"][1].update(clock_offset_ns=3600 * SECOND_NS),
        named=False,
    ),
}
"""Kinds of violation, each of which some rule about power finds."""
