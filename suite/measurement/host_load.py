"""What other programs and heat took from a run, by the telemetry beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.files.layout import TELEMETRY_FILE
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

HOST_CHANNEL: Final = "host"
GPU_CHANNEL_PREFIX: Final = "gpu"
SLOWDOWN_REASON_BITS: Final = 0x20 | 0x40 | 0x80
"""NVML, nvml.h: nvmlClocksEventReasonSwThermalSlowdown, ...HwThermalSlowdown,
...HwPowerBrakeSlowdown.
"""
MAX_TELEMETRY_BYTES: Final = 64 << 20
"""House rule: two days of a host's states."""
LINE_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """What was taken from a run."""

    others_share: float | None
    """Of the cores, 0-1, by other programs and the hypervisor; None if nobody looked."""
    throttled_share: float | None
    """Of a GPU's states, 0-1, in which heat or a power brake held its clock; None without one."""


def read_host_load(folder: Path, begin_ns: int, end_ns: int) -> HostLoad:
    """Read what was taken from a run.

    Args:
        folder: of the run.
        begin_ns: first query, UTC.
        end_ns: last answer, UTC.
    """
    taken: list[tuple[int, float]] = []
    slowed: list[bool] = []
    for before_ns, at_ns, line in iterate_states(folder):
        overlap_ns = min(at_ns, end_ns) - max(before_ns, begin_ns)
        if overlap_ns <= 0:
            continue
        for name, state in line.items():
            if not isinstance(state, Mapping):
                continue
            if name == HOST_CHANNEL and (share := read_taken_share(state)) is not None:
                taken.append((overlap_ns, share))
            reasons = state.get("event_reasons")
            if name.startswith(GPU_CHANNEL_PREFIX) and isinstance(reasons, int):
                slowed.append(bool(reasons & SLOWDOWN_REASON_BITS))
    total_ns = sum(ns for ns, _ in taken)
    return HostLoad(
        others_share=sum(ns * share for ns, share in taken) / total_ns if total_ns else None,
        throttled_share=sum(slowed) / len(slowed) if slowed else None,
    )


def read_taken_share(state: Mapping[str, Any]) -> float | None:
    """Return the share of the cores that others had; None if the host does not tell it."""
    found = [state.get("cpu_others"), state.get("steal")]
    known = [each for each in found if isinstance(each, int | float) and 0 <= each <= 1]
    return sum(known) if known else None


def iterate_states(folder: Path) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield each line with the states of channels: from when to when, UTC ns; nothing of a file
    that is missing or not the sampler's, which rules about telemetry find.
    """
    try:
        text = read_untrusted_file(folder / TELEMETRY_FILE, bytes, MAX_TELEMETRY_BYTES)
    except UnreadableError:
        return
    offset_ns = before_ns = 0
    for each in text.splitlines():
        try:
            line = LINE_DECODER.decode(each)
            if "clocks_ns" in line:
                before_ns = int(line["clocks_ns"][1])
                offset_ns = before_ns - int(line["clocks_ns"][0])
            elif HOST_CHANNEL in line or any(key.startswith(GPU_CHANNEL_PREFIX) for key in line):
                at_ns = int(line["t"]) + offset_ns
                yield before_ns, at_ns, line
                before_ns = max(before_ns, at_ns) if HOST_CHANNEL in line else before_ns
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            return
