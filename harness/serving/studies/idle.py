"""Idle power of a study: what the machine draws before the first point. It is written down, and
never subtracted.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from harness.machine.power.chosen import ChosenPower
from harness.machine.power.selection import has_readable_power
from harness.machine.telemetry.process import sample_during_block
from harness.progress import WaitProgress
from suite.measurement.power_readings import IDLE_POWER_S
from suite.studies.documents import IDLE_TELEMETRY_FILE


def measure_idle_power(study_folders: Sequence[Path], power: ChosenPower, device: str) -> None:
    """Read the idle power of a machine into the folders of studies, unless each has it, or nothing
    can be read here.
    """
    first, *others = [home / IDLE_TELEMETRY_FILE for home in study_folders]
    if all(path.exists() for path in (first, *others)) or not has_readable_power(power):
        return
    first.parent.mkdir(parents=True, exist_ok=True)
    with (
        WaitProgress("idle power", IDLE_POWER_S),
        sample_during_block(first, device, power.openings),
    ):
        time.sleep(IDLE_POWER_S)
    if not first.exists():
        return
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(first, path)
