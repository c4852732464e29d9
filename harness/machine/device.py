"""Resolves --device to a device, or to several."""

from typing import Final

from suite.errors import MissingError, RequestError
from suite.files.untrusted_files import whole_number
from suite.process.devices import ALL, CUDA, Spans, name_of, names_several, numbered, spans

KINDS: Final = ("auto", "cpu", CUDA)


def devices_of(option: str) -> tuple[str, ...]:
    """Resolve --device to the devices that serve, ascending: `cuda:0-3,6` and `cuda:all` are
    several.

    RequestError for a list that is malformed or names a GPU twice, MissingError for a GPU that is
    not there.
    """
    if not names_several(option):
        return (resolve(option),)
    wanted, count = listed(option), usable_gpus()
    if (
        not wanted and not count or wanted and wanted[-1][1] >= count
    ):  # before the list is expanded: a slip may name billions
        raise not_here(option, count)
    return numbered(
        number for low, high in wanted or ((0, count - 1),) for number in range(low, high + 1)
    )


def resolve(device: str, local_rank: int = 0) -> str:
    """Resolve `auto` to cuda or cpu, and `cuda` to this rank's own GPU; MissingError if a GPU is
    requested and there is none.

    RequestError for several devices: most commands take one.
    """
    kind, _, index = device.partition(":")
    if several(device):
        raise RequestError(
            f"--device {device}: this command takes one device; podium infer takes several"
        )
    if kind not in KINDS or (index and whole_number(index) is None):
        raise malformed(device)
    if kind == "cpu":
        return "cpu"
    count = usable_gpus()
    if kind == "auto" and not count:
        return "cpu"
    number = int(index) if index else local_rank
    if number >= count:
        raise not_here(device, count)
    return f"{CUDA}:{number}"


def several(device: str) -> bool:
    """Tell whether --device names several GPUs; RequestError for a list that is none."""
    return names_several(device) and listed(device) is not None


def listed(device: str) -> Spans:
    """Read a list of GPUs; nothing for all of them, RequestError for a list that is none."""
    index = device.partition(":")[2]
    if index == ALL:
        return ()
    found = spans(index)
    if found is None:
        raise malformed(device)
    return found


def usable_gpus() -> int:
    """Count the GPUs that PyTorch sees."""
    import torch  # only after the request was checked: importing it takes a second

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def malformed(device: str) -> RequestError:
    """Say what --device takes."""
    return RequestError(
        f"--device {device}: write auto, cpu, cuda or cuda:N; podium infer also takes several GPUs,"
        " each once: cuda:0-3,6 or cuda:all"
    )


def not_here(device: str, count: int) -> MissingError:
    """Say which GPUs there are."""
    return MissingError(
        f"--device {device}: this machine has {count} usable"
        f" GPUs{f': {name_of(numbered(range(count)))}' if count else ''}"
    )
