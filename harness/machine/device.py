"""Resolves --device to a device, or to several."""

from typing import Final

from suite.errors import MissingError, RequestError
from suite.files.untrusted_files import parse_digits
from suite.process.devices import (
    ALL_GPUS,
    CUDA,
    NumberSpans,
    format_device_name,
    format_gpu_names,
    is_gpu_list,
    parse_number_spans,
)

DEVICE_KINDS: Final = ("auto", "cpu", CUDA)


def resolve_serving_devices(option: str) -> tuple[str, ...]:
    """Resolve --device to the devices that serve, ascending: `cuda:0-3,6` and `cuda:all` are
    several.

    RequestError for a list that is malformed or names a GPU twice, MissingError for a GPU that is
    not there.
    """
    if not is_gpu_list(option):
        return (resolve_device(option),)
    wanted, count = parse_gpu_list(option), count_usable_gpus()
    # before the list is expanded: a slip may name billions
    if not wanted and not count or wanted and wanted[-1][1] >= count:
        raise build_missing_gpu_error(option, count)
    return format_gpu_names(
        number for low, high in wanted or ((0, count - 1),) for number in range(low, high + 1)
    )


def resolve_device(device: str, local_rank: int = 0) -> str:
    """Resolve `auto` to cuda or cpu, and `cuda` to this rank's own GPU; MissingError if a GPU is
    requested and there is none.

    RequestError for several devices: most commands take one.
    """
    kind, _, index = device.partition(":")
    if has_several_gpus(device):
        raise RequestError(
            f"--device {device}: this command takes one device; podium infer takes several"
        )
    if kind not in DEVICE_KINDS or (index and parse_digits(index) is None):
        raise build_malformed_device_error(device)
    if kind == "cpu":
        return "cpu"
    count = count_usable_gpus()
    if kind == "auto" and not count:
        return "cpu"
    number = int(index) if index else local_rank
    if number >= count:
        raise build_missing_gpu_error(device, count)
    return f"{CUDA}:{number}"


def has_several_gpus(device: str) -> bool:
    """Return whether --device names several GPUs; RequestError for a list that is none."""
    return is_gpu_list(device) and parse_gpu_list(device) is not None


def parse_gpu_list(device: str) -> NumberSpans:
    """Read a list of GPUs; nothing for all of them, RequestError for a list that is none."""
    index = device.partition(":")[2]
    if index == ALL_GPUS:
        return ()
    found = parse_number_spans(index)
    if found is None:
        raise build_malformed_device_error(device)
    return found


def count_usable_gpus() -> int:
    """Count the GPUs that PyTorch sees."""
    import torch  # only after the request was checked: importing it takes a second

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return 0


def build_malformed_device_error(device: str) -> RequestError:
    """Describe the values of --device."""
    return RequestError(
        f"--device {device}: write auto, cpu, cuda or cuda:N; podium infer also takes several GPUs,"
        " each once: cuda:0-3,6 or cuda:all"
    )


def build_missing_gpu_error(device: str, count: int) -> MissingError:
    """Describe the available GPUs."""
    return MissingError(
        f"--device {device}: this machine has {count} usable"
        f" GPUs{f': {format_device_name(format_gpu_names(range(count)))}' if count else ''}"
    )
