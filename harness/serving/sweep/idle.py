"""Idle power of a sweep: what the machine draws before the first point. It is written down, and
never subtracted.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from harness.machine.power.chosen import Chosen
from harness.machine.power.selection import readable
from harness.machine.telemetry.process import sampling
from harness.progress import Waiting
from suite.files.untrusted_files import UnreadableError
from suite.measurement import power_readings
from suite.measurement.power_readings import IDLE_S, Work
from suite.records import EnergyRecord
from suite.studies.documents import IDLE


def measure_idle(homes: Sequence[Path], power: Chosen, device: str) -> None:
    """Read the idle power of a machine into the folders of studies, unless each has it, or nothing
    can be read here.
    """
    first, *others = [home / IDLE for home in homes]
    if all(path.exists() for path in (first, *others)) or not readable(power):
        return
    first.parent.mkdir(parents=True, exist_ok=True)
    with Waiting("idle power", IDLE_S), sampling(first, device, power.openings):
        time.sleep(IDLE_S)
    for path in others if first.exists() else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(first, path)


def idle_in(home: Path) -> tuple[EnergyRecord, ...]:
    """Return the idle power of a study; nothing if none was read."""
    try:
        found = power_readings.read(home / IDLE)
    except UnreadableError:
        return ()
    window = power_readings.covered(found)
    return power_readings.records(found, *window, Work(samples=0))[0] if window else ()
