"""Names of devices in options and records: `cpu`, `cuda:3`, and several GPUs in the notation of the
kernel's lists, `cuda:0-3,6`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from suite.files.untrusted_files import whole_number

CUDA: Final = "cuda"
ALL: Final = "all"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
MOST: Final = 1024
"""House rule: no node has so many GPUs or cores; a record's longer list is not expanded."""

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""First and last number of each range, ascending, none of them twice."""


def names_several(device: str) -> bool:
    """Tell whether a text is a list of GPUs, correct or not, and no single device."""
    kind, _, index = device.partition(":")
    return kind == CUDA and (index == ALL or "," in index or "-" in index)


def spans(text: str) -> Spans | None:
    """Read numbers and ranges with commas, in any order; None if a part is none, a range runs
    backwards, or a number is there twice.
    """
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = whole_number(first), whole_number(last if dash else first)
        if low is None or high is None or high < low:
            return None
        found.append((low, high))
    found.sort()
    return (
        None
        if any(low <= before for (_, before), (low, _) in zip(found, found[1:], strict=False))
        else tuple(found)
    )


def expanded(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a list such as `0-3,8`, ascending; None for a malformed one, or one of
    more than MOST.
    """
    found = spans(text)
    if found is None or sum(high - low + 1 for low, high in found) > MOST:
        return None
    return tuple(number for low, high in found for number in range(low, high + 1))


def numbered(ordinals: Iterable[int]) -> tuple[str, ...]:
    """Name GPUs by their numbers."""
    return tuple(f"{CUDA}:{ordinal}" for ordinal in ordinals)


def ordinal(device: str) -> int:
    """Return the number of one GPU; 0 where none is named."""
    return int(device.partition(":")[2] or 0)


def name_of(devices: Sequence[str]) -> str:
    """Return the one name of devices, all of them GPUs if they are several."""
    different = sorted(set(devices), key=lambda device: (len(device), device))
    return (
        different[0]
        if len(different) == 1
        else f"{CUDA}:{written(sorted(map(ordinal, different)))}"
    )


def alone(device: str) -> str:
    """Return a GPU's name in a process that sees no other; processors are the same everywhere."""
    return f"{CUDA}:0" if device.startswith(CUDA) else device


def visible_alone(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that lets a process see one GPU alone, of those that this one sees;
    nothing for processors.

    Frameworks that take memory of every GPU that they see, or use the current one where none is
    named, would meet on the first. CUDA reads the
    variable when it is initialised (CUDA C++ Programming Guide, CUDA environment variables):
    numbers, or UUIDs of GPUs and their slices.
    """
    if not device.startswith(CUDA):
        return {}
    words = [word.strip() for word in environment.get(VISIBLE, "").split(",") if word.strip()]
    number = ordinal(device)
    return {VISIBLE: words[number] if number < len(words) else str(number)}


def members(device: str) -> tuple[str, ...] | None:
    """Return the devices of a name that `name_of` has made; None for a list that it would not have
    written, or of more than MOST.
    """
    if not names_several(device):
        return (device,)
    found = expanded(device.partition(":")[2])
    devices = numbered(found or ())
    return devices if len(devices) > 1 and name_of(devices) == device else None


def written(numbers: Sequence[int]) -> str:
    """Write numbers in ascending order as the kernel's lists have them: `0-3,8`."""
    if not numbers:
        return ""
    starts = [
        place
        for place, number in enumerate(numbers)
        if place == 0 or number != numbers[place - 1] + 1
    ]
    parts = (
        numbers[first:last] for first, last in zip(starts, [*starts[1:], len(numbers)], strict=True)
    )
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
