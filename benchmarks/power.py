"""Tests power measurement on simulated sysfs trees and loopback meters, in one run: energy of a
square wave, cost of the sampler, the harness ceiling with and without it, and alignment of the
window.

The counter wraps in the middle of the square wave. zeus and codecarbon, where installed (pip
install "podium-suite[bench]"), read it beside podium; they read at the very edges of their windows,
podium interpolates between readings each 100 ms.

Aims: the square wave's energy within 1 %; the sampler under 1 % of a core; the ceiling with it at
least 0.99 of that without; a meter of 100 W outside and 50 W inside the window gives 50 W within 1
%.

Usage: python benchmarks/power.py [--seconds 10] [--pairs 5] [--format text|json]
"""

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common import power_alternatives as alternatives
from common.tiny import add_tiny_option, choose_size

from harness.machine.power.selection import REHEARSAL_VARIABLE, choose_power_sources
from harness.machine.telemetry.process import sample_during_block
from harness.request import locate_cache_folder
from harness.serving.harness_ceiling import (
    build_null_schedule,
    compute_ceiling_rate,
    run_null_system,
)
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork

LOW_W, HIGH_W, HALF_S = 20, 100, 0.7
"""The square wave: its two powers, and the seconds at each."""
RANGE_UJ: Final = 262_143_328_850
START_UJ: Final = RANGE_UJ - 400_000_000
"""Start of the counter: it wraps after some seconds of the square wave."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=choose_size(10.0, 1.0))
    parser.add_argument("--pairs", type=int, default=choose_size(5, 1))
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    return parser.parse_args()


def joules_until(passed_s: float) -> float:
    """The square wave's true energy after so many seconds."""
    whole, rest = divmod(passed_s, 2 * HALF_S)
    return (
        whole * HALF_S * (LOW_W + HIGH_W)
        + min(rest, HALF_S) * LOW_W
        + max(0.0, rest - HALF_S) * HIGH_W
    )


def powercap(root: Path) -> Path:
    """The kernel's folder of zones."""
    return root / "sys" / "class" / "powercap"


@contextmanager
def counter(root: Path) -> Iterator[float]:
    """A RAPL tree whose counter follows the square wave, as a kernel's does about each millisecond,
    and soon wraps; gives when it began.
    """
    zone = powercap(root) / "intel-rapl" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (powercap(root) / "intel-rapl:0").symlink_to(zone)
    for name, value in {
        "name": "package-0",
        "max_energy_range_uj": RANGE_UJ,
        "energy_uj": START_UJ,
    }.items():
        (zone / name).write_text(f"{value}\n")
    begun, stop = time.monotonic(), threading.Event()

    def follow() -> None:
        descriptor = os.open(zone / "energy_uj", os.O_WRONLY)
        while not stop.is_set():
            counted = START_UJ + int(joules_until(time.monotonic() - begun) * 1e6)
            os.pwrite(
                descriptor, b"%012d\n" % (counted % RANGE_UJ), 0
            )  # one length, as the range: never half a number
            time.sleep(0.001)
        os.close(descriptor)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield begun
    finally:
        stop.set()
        thread.join()


def square_wave(seconds: float) -> dict[str, Any]:
    """Measure the square wave by podium, and by what else is installed, at the same time."""
    with TemporaryDirectory(prefix="podium-benchmark-") as name, counter(Path(name)) as begun:
        os.environ[REHEARSAL_VARIABLE] = name
        try:
            chosen = choose_power_sources("rapl", None, {})
            with sample_during_block(Path(name) / "telemetry.jsonl", "cpu", chosen.openings):
                time.sleep(0.5)
                others = {
                    each: alternatives.begun(each, powercap(Path(name)), begun)
                    for each in alternatives.ALTERNATIVES
                }
                first_s, first_ns = time.monotonic() - begun, time.time_ns()
                time.sleep(seconds)
                last_s, last_ns = time.monotonic() - begun, time.time_ns()
                beside = {
                    each: alternatives.ended(each, other, begun, joules_until)
                    for each, other in others.items()
                }
                time.sleep(chosen.linger_s)
        finally:
            del os.environ[REHEARSAL_VARIABLE]
        (found,), _ = power_readings.build_energy_records(
            power_readings.read_power_readings(Path(name) / "telemetry.jsonl"),
            first_ns,
            last_ns,
            MeasuredWork(samples=1),
        )
        lines = (Path(name) / "telemetry.jsonl").read_text().splitlines()
        head, end = json.loads(lines[0]), json.loads(lines[-1])["end"]
    true_j = joules_until(last_s) - joules_until(first_s)
    cpu_share = end["cpu_ms"] / 1000 / ((end["clocks_ns"][0] - head["clocks_ns"][0]) / 1e9)
    figures = {
        "true_j": true_j,
        "podium_j": found.joules,
        "error": found.joules / true_j - 1,
        "edge_j": found.edge_j,
    }
    return {**figures, "sampler_core_share": cpu_share, "beside": beside}


def alignment(seconds: float) -> dict[str, Any]:
    """A meter that draws 100 W outside the window and 50 W inside it."""
    with TemporaryDirectory(prefix="podium-benchmark-") as name:
        profile = Path(name) / "profile"
        profile.write_text("0 100\n")
        chosen = choose_power_sources(
            "off", f"podium meter fake --profile {profile} --period-ms 10", {}
        )
        with sample_during_block(Path(name) / "telemetry.jsonl", "cpu", chosen.openings):
            time.sleep(0.5)
            begin = step(profile, 50)
            time.sleep(seconds)
            end = step(profile, 100)
            time.sleep(0.5)
        (found,), _ = power_readings.build_energy_records(
            power_readings.read_power_readings(Path(name) / "telemetry.jsonl"),
            begin,
            end,
            MeasuredWork(samples=1),
        )
    return {"watts": found.average_w, "error": found.average_w / 50 - 1}


def step(profile: Path, watts: int) -> int:
    """Change the power; give when, UTC in ns."""
    now = time.time_ns()
    with profile.open("a") as stream:
        stream.write(f"{now} {watts}\n")
    return now


def ceiling(cache: Path) -> float:
    """Return the rate of a model that does nothing, Offline, in samples/s."""
    return compute_ceiling_rate(
        Scenario.OFFLINE, run_null_system(build_null_schedule(Scenario.OFFLINE), cache)
    )


def ceilings(pairs: int) -> dict[str, Any]:
    """Measure the harness ceiling in turns, with a sampler of one counter and a meter beside it and
    without.
    """
    with_, without, cache = [], [], locate_cache_folder()
    with (
        TemporaryDirectory(prefix="podium-benchmark-") as name,
        counter(Path(name)),
    ):  # made in both turns: only the sampler differs
        for turn in range(2 * pairs):
            if turn % 2 == (turn // 2) % 2:
                without.append(ceiling(cache))
                continue
            os.environ[REHEARSAL_VARIABLE] = name
            chosen = choose_power_sources("rapl", "podium meter fake", {})
            del os.environ[REHEARSAL_VARIABLE]
            with sample_during_block(Path(name) / "telemetry.jsonl", "cpu", chosen.openings):
                with_.append(ceiling(cache))
    ratio = statistics.median(with_) / statistics.median(without)
    return {"with": with_, "without": without, "ratio": ratio, "n": pairs}


def main() -> None:
    """Measure all of it."""
    given = arguments()
    found = {"square_wave": square_wave(given.seconds), "alignment": alignment(given.seconds)}
    if given.pairs:
        found["ceiling"] = ceilings(given.pairs)
    if given.format == "json":
        print(json.dumps(found | {"load": os.getloadavg()}, indent=2))
        return
    wave, aligned = found["square_wave"], found["alignment"]
    print(
        f"square wave {LOW_W}/{HIGH_W} W, {given.seconds:g} s: {wave['podium_j']:.2f} J of"
        f" {wave['true_j']:.2f} J, {100 * wave['error']:+.3f} % (aim: 1 %)"
    )
    print(
        f"  bound of the error at the edges: {wave['edge_j']:.2f} J; the error is"
        f" {wave['podium_j'] - wave['true_j']:+.2f} J"
    )
    for name, other in wave["beside"].items():
        print(f"  {name} {alternatives.version(name)}: {alternatives.told(other)}")
    print(f"sampler: {100 * wave['sampler_core_share']:.2f} % of a core (aim: 1 %)")
    print(
        f"alignment: {aligned['watts']:.3f} W of 50 W, {100 * aligned['error']:+.3f} % (aim: 1 %)"
    )
    if given.pairs:
        print(
            f"harness ceiling with / without: {found['ceiling']['ratio']:.4f}, n = {given.pairs}"
            " pairs (aim: 0.99)"
        )


if __name__ == "__main__":
    main()
