"""Rails of a Jetson from the output of NVIDIA's tegrastats: for boards whose INA3221 is not
readable.

In `RAIL a/b` or `RAIL amW/bmW` the first number is the present power; the second is the mean since
the program started.
Source: Jetson Linux Developer Guide, tegrastats Utility.
"""

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from extras.jetson.boards import RailBoard, identify_board, resolve_rail_scope
from extras.jetson.rails import Rails
from suite.power import PERIOD_MS, ROOT, Channel, Grade, PowerReading, Quantity
from suite.units import UW_PER_MW

TEGRASTATS_PROGRAM: Final = "tegrastats"
JETPACK_BIN_FOLDER: Final = "usr/bin"
"""Where JetPack puts the program."""
RAIL_READING: Final = re.compile(
    r"\b((?:VDD|POM|VIN|GPU|CPU|SOC|CV|VDDRQ|SYS)[A-Z0-9_]*) (\d+)(?:mW)?/(\d+)(?:mW)?(?=\s|$)"
)
TEGRASTATS_LIMIT_S: Final = 2.0
"""Time limit of the first line."""
MAX_PIPE_READ_BYTES: Final = 1 << 16


class Tegrastats:
    """The rails in the program's output."""

    name: ClassVar[str] = "tegrastats"

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting = b""
        self.t_ns, self.powers = 0, dict[str, int]()

    def probe(self, root: Path) -> Sequence[Channel] | str:
        """Find the rails that the program prints; none if the kernel's own files are readable."""
        if not isinstance(Rails().probe(root), str):
            return "not needed: the kernel's own files can be read (ina3221)"
        if root == ROOT:
            program = shutil.which(TEGRASTATS_PROGRAM)
        else:
            program = shutil.which(TEGRASTATS_PROGRAM, path=root / JETPACK_BIN_FOLDER)
        if program is None:
            return f"the program {TEGRASTATS_PROGRAM} is not there: this is no Jetson"
        self.process = subprocess.Popen(
            [program, "--interval", str(PERIOD_MS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.update_powers(TEGRASTATS_LIMIT_S)
        except OSError as error:
            return str(error)
        known = identify_board(root)
        return [
            self.build_channel(label, known) for label in self.powers
        ] or f"{TEGRASTATS_PROGRAM} prints no rails"

    def build_channel(self, label: str, known: RailBoard | None) -> Channel:
        """Build a rail's channel."""
        scope, within = resolve_rail_scope(label, known, self.powers)
        facts: dict[str, Any] = {"rail": label, "board": known.name if known else "unknown"}
        return Channel(
            name=f"{self.name}:{label}",
            source=self.name,
            grade=Grade.SENSOR,
            scope=scope,
            within=within,
            quantity=Quantity.POWER,
            facts=facts,
        )

    def read(self, channel: Channel) -> PowerReading:
        """Return the newest line's value, with its time; OSError if the program stopped
        printing.
        """
        self.update_powers(0.0)
        return PowerReading(
            t_ns=self.t_ns, value=self.powers[str(channel.facts["rail"])] * UW_PER_MW
        )

    def update_powers(self, wait_s: float) -> None:
        """Read the lines that have arrived; OSError if the program has ended, or was silent for
        long.
        """
        if self.process is None or self.process.stdout is None:
            raise OSError(f"{TEGRASTATS_PROGRAM} does not run")
        descriptor = self.process.stdout.fileno()  # not its buffer, in which `select` sees no line
        while select.select([descriptor], [], [], wait_s)[0]:
            piece = os.read(descriptor, MAX_PIPE_READ_BYTES)
            if not piece:
                raise OSError(f"{TEGRASTATS_PROGRAM} ended")
            *lines, self.waiting = (self.waiting + piece).split(b"\n")
            for line in lines:
                self.t_ns, self.powers, wait_s = (
                    time.monotonic_ns(),
                    dict(parse_rail_powers(line.decode("utf-8", "replace"))),
                    0.0,
                )
        if time.monotonic_ns() - self.t_ns > TEGRASTATS_LIMIT_S * 1e9:
            raise OSError(f"{TEGRASTATS_PROGRAM} says nothing")

    def close(self) -> None:
        """End the program."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def parse_rail_powers(line: str) -> Mapping[str, int]:
    """Parse a line: rail -> present mW."""
    return {label: int(now) for label, now, _ in RAIL_READING.findall(line)}
