"""Other programs that read RAPL, for benchmarks/power.py: zeus and codecarbon on a simulated sysfs
tree. podium needs neither; to install them:

pip install "podium-suite[bench]"
"""

import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, Final

KWH_J: Final = 3.6e6
MJ: Final = 1e3
Start = Callable[[Path], Callable[[], float]]
"""Begins a measurement of the RAPL zones below a folder; returns a function for the joules since
then.
"""


def zeus(powercap: Path) -> Callable[[], float]:
    """zeus reads the counter at both ends, and watches for wraps in a process of its own."""
    from zeus.device.cpu.rapl import RAPLCPU

    cpu = RAPLCPU(0, str(powercap / "intel-rapl"))
    cpu.get_total_energy_consumption()  # the first call starts the process, which takes seconds
    begun_mj = cpu.get_total_energy_consumption().cpu_mj

    def joules() -> float:
        ended_mj = cpu.get_total_energy_consumption().cpu_mj
        cpu.rapl_file.wraparound_tracker._stop()
        return float((ended_mj - begun_mj) / MJ)

    return joules


def codecarbon(powercap: Path) -> Callable[[], float]:
    """codecarbon's reader of RAPL, without its tracker, which would ask the network where it is."""
    from codecarbon.core.cpu import IntelRAPL
    from codecarbon.core.units import Time

    rapl: Any = IntelRAPL(rapl_dir=str(powercap / "intel-rapl"))
    rapl.start()
    return lambda: (
        sum(
            value
            for name, value in rapl.get_cpu_details(Time(seconds=1)).items()
            if "Energy" in name
        )
        * KWH_J
    )


ALTERNATIVES: Final[Mapping[str, Start]] = {"zeus": zeus, "codecarbon": codecarbon}


Begun = tuple[float, Callable[[], float]] | str
"""Start of a measurement, in s of the tree, and the function for its joules; or why there
is none.
"""


def begun(name: str, powercap: Path, tree_s: float) -> Begun:
    """Begin a measurement with an alternative; a sentence if it is not installed or fails."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            joules = ALTERNATIVES[name](powercap)
    except ImportError:
        return "not installed"
    except Exception as error:  # any error of an external package is its result
        return f"{type(error).__name__}: {error}"
    return time.monotonic() - tree_s, joules


def ended(
    name: str, other: Begun, tree_s: float, truth: Callable[[float], float]
) -> dict[str, Any] | str:
    """End a measurement, and compare it with the truth over its own window."""
    if isinstance(other, str):
        return other
    first_s, joules = other
    last_s = time.monotonic() - tree_s
    found_j = joules()
    true_j = truth(last_s) - truth(first_s)
    return {
        "version": version(name),
        "true_j": true_j,
        "joules": found_j,
        "error": found_j / true_j - 1,
    }


def told(other: dict[str, Any] | str) -> str:
    """Format the result of an alternative."""
    return (
        other
        if isinstance(other, str)
        else f"{other['joules']:.2f} J of {other['true_j']:.2f} J, {100 * other['error']:+.3f} %"
    )


def version(name: str) -> str:
    """Return the version of an alternative."""
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return ""
