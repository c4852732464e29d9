"""Resolves --device to a device."""

from suite.errors import MissingError, RequestError
from suite.files.untrusted_files import whole_number


def resolve(device: str, local_rank: int = 0) -> str:
    """Resolve `auto` to cuda or cpu, and `cuda` to this rank's own GPU; MissingError if a GPU is requested and there is none."""
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index and whole_number(index) is None):
        raise RequestError(f"--device {device}: write auto, cpu, cuda or cuda:N")
    if kind == "cpu":
        return "cpu"
    import torch  # only after the request was checked: importing it takes a second

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto" and not count:
        return "cpu"
    number = int(index) if index else local_rank
    if number >= count:
        raise MissingError(f"--device {device}: this machine has {count} usable GPUs")
    return f"cuda:{number}"
