"""Names of devices in options and records: `cpu`, `cuda:3`, and several GPUs in the notation of the
kernel's lists, `cuda:0-3,6`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from suite.files.untrusted_files import parse_digits

CUDA: Final = "cuda"
ALL_GPUS: Final = "all"
VISIBLE_DEVICES_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
MAX_EXPANDED_NUMBERS: Final = 1024
"""House rule: no node has so many GPUs or cores; a record's longer list is not expanded."""

NumberSpans: TypeAlias = tuple[tuple[int, int], ...]
"""First and last number of each range, ascending and distinct."""


def is_gpu_list(device: str) -> bool:
    """Return whether a text is a list of GPUs, correct or not, and no single device."""
    kind, _, index = device.partition(":")
    return kind == CUDA and (index == ALL_GPUS or "," in index or "-" in index)


def parse_number_spans(text: str) -> NumberSpans | None:
    """Read numbers and ranges with commas, in any order; None if a part is none, a range runs
    backwards, or a number is there twice.
    """
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = parse_digits(first), parse_digits(last if dash else first)
        if low is None or high is None or high < low:
            return None
        found.append((low, high))
    found.sort()
    if any(low <= before for (_, before), (low, _) in zip(found, found[1:], strict=False)):
        return None
    return tuple(found)


def expand_number_list(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a list such as `0-3,8`, ascending; None for a malformed one, or one of
    more than MAX_EXPANDED_NUMBERS.
    """
    found = parse_number_spans(text)
    if found is None or sum(high - low + 1 for low, high in found) > MAX_EXPANDED_NUMBERS:
        return None
    return tuple(number for low, high in found for number in range(low, high + 1))


def format_gpu_names(ordinals: Iterable[int]) -> tuple[str, ...]:
    """Name GPUs by their numbers."""
    return tuple(f"{CUDA}:{ordinal}" for ordinal in ordinals)


def parse_gpu_number(device: str) -> int:
    """Return the number of one GPU; 0 where none is named."""
    return int(device.partition(":")[2] or 0)


def format_device_name(devices: Sequence[str]) -> str:
    """Return the one name of devices, all of them GPUs if they are several."""
    different = sorted(set(devices), key=lambda device: (len(device), device))
    if len(different) == 1:
        return different[0]
    return f"{CUDA}:{format_number_list(sorted(map(parse_gpu_number, different)))}"


def name_as_only_gpu(device: str) -> str:
    """Return a GPU's name in a process that sees no other; processors are the same everywhere."""
    if device.startswith(CUDA):
        return f"{CUDA}:0"
    return device


def build_visibility_variable(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that lets a process see one GPU alone, of those that this one sees;
    nothing for processors.

    Frameworks that take memory of every GPU that they see, or use the current one where none is
    named, would meet on the first. CUDA reads the variable when it is initialised (CUDA C++
    Programming Guide, CUDA environment variables): numbers, or UUIDs of GPUs and their slices.
    """
    if not device.startswith(CUDA):
        return {}
    words = [
        word.strip()
        for word in environment.get(VISIBLE_DEVICES_VARIABLE, "").split(",")
        if word.strip()
    ]
    number = parse_gpu_number(device)
    return {VISIBLE_DEVICES_VARIABLE: words[number] if number < len(words) else str(number)}


def expand_device_name(device: str) -> tuple[str, ...] | None:
    """Return the devices of a name that `format_device_name` has made; None for a list that it
    would not have written, or of more than MAX_EXPANDED_NUMBERS.
    """
    if not is_gpu_list(device):
        return (device,)
    found = expand_number_list(device.partition(":")[2])
    devices = format_gpu_names(found or ())
    if len(devices) > 1 and format_device_name(devices) == device:
        return devices
    return None


def format_number_list(numbers: Sequence[int]) -> str:
    """Write numbers in ascending order as the kernel's lists have them: `0-3,8`."""
    if not numbers:
        return ""
    starts = [
        index
        for index, number in enumerate(numbers)
        if index == 0 or number != numbers[index - 1] + 1
    ]
    parts = (
        numbers[first:last] for first, last in zip(starts, [*starts[1:], len(numbers)], strict=True)
    )
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
