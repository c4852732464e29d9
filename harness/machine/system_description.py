"""Writes the system description from what this machine reports; unknown fields are null, never
invented.

The fields are those of mlcommons/policies, submission_rules.adoc, System description; podium's own
are in the block `podium`. The user may give what a machine does not report (say, the type of its
accelerators' memory) with --system-file.
"""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any, Final

from harness.machine.gpus import list_gpus
from harness.machine.power.nvpmodel import read_power_mode
from suite.errors import RequestError, build_unknown_name_error
from suite.files.layout import ResultsEntry, convert_to_slug, find_existing_parent
from suite.files.untrusted_files import UnreadableError, parse_document_count, read_untrusted_toml
from suite.process.devices import expand_device_name
from suite.process.launcher import read_launcher_variable
from suite.rounds import Profile
from suite.terms import COUNTED_FIELDS
from suite.units import GIB

CPU_INFO_FILE: Final = Path("/proc/cpuinfo")
GOVERNOR_FILE: Final = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
NO_ACCELERATOR: Final = "N/A"
"""MLCommons' value of accelerator fields on machines without accelerators."""
FRAMEWORK_DISTRIBUTIONS: Final = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorrt-cu12": ("tensorrt-cu12", "tensorrt-cu13", "tensorrt"),
}
"""Package -> the distributions that may provide it, if not only one of its own name."""
NAME_LINE: Final = re.compile(r"^Name:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
VERSION_LINE: Final = re.compile(r"^Version:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
SERVED_TABLE: Final = "served"
"""Of the user's file: what serves behind a network."""
COMMIT_PREFIX: Final = "# branch.oid "
NO_COMMIT: Final = "(initial)"
"""What `git status --porcelain=v2` says of a branch without a commit."""


def build_system_name(device: str) -> str:
    """Name this machine after its device, and a Jetson after its power mode:
    `2c-intel-xeon-processor`, `1x-nvidia-h200`, `1x-cuda-device-maxn`.
    """
    power_mode_name = read_power_mode()
    mode = f"-{power_mode_name}" if power_mode_name else ""
    if device.startswith("cuda"):
        known = list_gpus()
        served = len(expand_device_name(device) or ())
        count = served if served > 1 else os.environ.get("LOCAL_WORLD_SIZE", "1")
        return convert_to_slug(f"{count}x-{known[0].name if known else 'cuda-device'}{mode}")
    processor = strip_cpu_model(read_cpu_model() or platform.machine())
    return convert_to_slug(f"{len(os.sched_getaffinity(0))}c-{processor}{mode}")


def strip_cpu_model(model: str) -> str:
    """Remove trade marks and clock rates from a processor's name."""
    return re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|@.*|\b\d+-Core\b", " ", model)


def read_cpu_fields() -> list[dict[str, str]]:
    """Read /proc/cpuinfo: one dict per logical processor; empty if there is no such file."""
    try:
        text = CPU_INFO_FILE.read_text("utf-8")
    except OSError:
        return []
    blocks = (block.splitlines() for block in text.strip().split("\n\n"))
    return [
        {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block)}
        for block in blocks
    ]


def has_bf16_instructions() -> bool:
    """Return whether the processor has instructions for bf16; x86 and Arm name them differently."""
    fields = next(iter(read_cpu_fields()), {})
    return not {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}.isdisjoint(
        f"{fields.get('flags', '')} {fields.get('Features', '')}".split()
    )


def is_bf16_emulated(device: str) -> bool:
    """Return whether a device is a processor that computes bf16 without instructions for it."""
    return device == "cpu" and not has_bf16_instructions()


def read_cpu_model() -> str | None:
    """Return the processor's name for itself."""
    return (
        next(
            (fields["model name"] for fields in read_cpu_fields() if fields.get("model name")), None
        )
        or platform.processor()
        or None
    )


def count_processors() -> int | None:
    """Count the processors of this machine."""
    return (
        len({fields["physical id"] for fields in read_cpu_fields() if "physical id" in fields})
        or None
    )


def count_cores_per_processor() -> int | None:
    """Count the physical cores of one processor."""
    import psutil

    cores, processors = psutil.cpu_count(logical=False), count_processors()
    if cores and processors:
        return cores // processors or None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionContext:
    """Other content of the description: the round's rules, the framework, and the user's own
    fields.
    """

    round: str
    profile: Profile
    framework: str
    system_file: Path | None


def describe_system(entry: ResultsEntry, run: DescriptionContext) -> dict[str, Any]:
    """Describe the system that produces results; the user's --system-file completes or corrects
    it.
    """
    found: dict[str, Any] = {
        "submitter": entry.org,
        "division": entry.division.value,
        "status": "onprem" if run.profile is Profile.FULL else "research",
        "system_name": entry.system,
        "number_of_nodes": count_run_nodes(),
        **describe_host(entry.results),
        **describe_accelerators(),
        "framework": describe_framework(run.framework),
        "other_software_stack": describe_other_software(),
        "operating_system": describe_operating_system(),
    }
    return {
        **found,
        **read_system_file(run.system_file, found),
        "podium": describe_environment(run),
    }


def read_system_table(path: Path | None) -> dict[str, Any]:
    """Read the user's TOML file, of whatever fields; nothing without one. RequestError if that
    fails.
    """
    if path is None:
        return {}
    try:
        table = read_untrusted_toml(path)
        json.dumps(table, allow_nan=False)
    except UnreadableError as error:
        raise RequestError(f"--system-file {error}") from error
    except (TypeError, ValueError) as error:  # dates and infinite numbers
        raise RequestError(f"--system-file {path}: not a JSON value: {error}") from error
    return table


def read_system_file(
    path: Path | None, fields: Mapping[str, Any], beside: str = ""
) -> dict[str, Any]:
    """Read the description's fields in the user's TOML file, without the table `beside`;
    RequestError for a field that the description does not have.
    """
    table = read_system_table(path)
    table.pop(beside, None)
    for key in table:
        if key not in fields:
            raise build_unknown_name_error("field of the system description", key, fields)
    for key in COUNTED_FIELDS.keys() & table.keys():
        count = parse_document_count(table[key])
        if count is None or count < COUNTED_FIELDS[key]:
            raise RequestError(
                f"--system-file {path}: {key} {table[key]!r}: a whole number from"
                f" {COUNTED_FIELDS[key]} on is required"
            )
    return table


def count_run_nodes() -> int:
    """Count the machines of this run, from torchrun's variables."""
    return read_launcher_variable("WORLD_SIZE", 1) // max(
        1, read_launcher_variable("LOCAL_WORLD_SIZE", 1)
    )


def describe_host(folder: Path) -> dict[str, Any]:
    """Describe processors, memory and the storage that contains a folder."""
    import psutil  # late, as everywhere here: doctor reads this module without it

    return {
        "host_processors_per_node": count_processors(),
        "host_processor_model_name": read_cpu_model(),
        "host_processor_core_count": count_cores_per_processor(),
        "host_memory_capacity": f"{psutil.virtual_memory().total / GIB:.1f} GiB",
        "host_storage_type": find_storage_type(folder),
        "host_storage_capacity": (
            f"{psutil.disk_usage(str(find_existing_parent(folder))).total / GIB:.0f} GiB"
        ),
    }


def find_storage_type(folder: Path) -> str | None:
    """Return NVMe, SSD or HDD; a virtual disk reports nothing reliable about the storage below
    it.
    """
    number = find_existing_parent(folder).stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (device / "partition").exists():
        disk = device.parent
    else:
        disk = device
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual disk"
    try:
        if (disk / "queue" / "rotational").read_text("utf-8").strip() == "1":
            return "HDD"
        return "SSD"
    except OSError:
        return None


def describe_accelerators() -> dict[str, Any]:
    """Describe the GPUs."""
    found = list_gpus()
    first = found[0] if found else None
    return {
        "accelerators_per_node": len(found),
        "accelerator_model_name": first.name if first else NO_ACCELERATOR,
        "accelerator_memory_configuration": None if first else NO_ACCELERATOR,
        "accelerator_memory_capacity": (
            f"{first.memory_bytes / GIB:.0f} GiB" if first else NO_ACCELERATOR
        ),
    }


def describe_framework(framework: str) -> str:
    """Return a framework's name and version."""
    for distribution in FRAMEWORK_DISTRIBUTIONS.get(framework, (framework,)):
        with suppress(PackageNotFoundError):
            return f"{framework} {version(distribution)}"
    return framework


def describe_other_software() -> str:
    """Return interpreter, C library and driver."""
    parts = [f"Python {platform.python_version()}", " ".join(platform.libc_ver()).strip()]
    parts += [f"NVIDIA driver {gpu.driver}" for gpu in list_gpus()[:1]]
    return ", ".join(part for part in parts if part)


def describe_operating_system() -> str:
    """Return the distribution and the kernel."""
    name = platform.system()
    with suppress(OSError):
        name = platform.freedesktop_os_release().get("PRETTY_NAME", name)
    return f"{name}, kernel {platform.release()}"


def describe_environment(run: DescriptionContext) -> dict[str, Any]:
    """Describe the environment of a result: packages, source, clocks, governor, power mode."""
    import psutil

    commit, dirty = read_source_commit()
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {
        "packages": dict(list_installed_packages()),
        "git_commit": commit,
        "git_dirty": dirty,
        "cpu_governor": read_kernel_line(GOVERNOR_FILE),
        "power_mode": read_power_mode(),
        "cpu_clock_mhz": round(frequency.current, 1) if frequency else None,
        "gpu_clock_mhz": [gpu.clock_mhz for gpu in list_gpus()],
        "python": platform.python_version(),
        "round": run.round,
        "profile": run.profile.value,
    }


@cache
def list_installed_packages() -> Mapping[str, str]:
    """Return every installed distribution with its version, sorted; a command reads them once."""
    found = dict(map(read_name_and_version, distributions()))
    return {name: found[name] for name in sorted(filter(None, found), key=str.casefold)}


def read_name_and_version(item: Distribution) -> tuple[str, str]:
    """Read two lines of a distribution's metadata; to parse all of it takes eight times as long."""
    head = (item.read_text("METADATA") or "").partition("\n\n")[0]
    name, package_version = NAME_LINE.search(head), VERSION_LINE.search(head)
    if name and package_version:
        return name[1], package_version[1]
    metadata = item.metadata
    return metadata["Name"], metadata["Version"]


def read_source_commit() -> tuple[str | None, bool | None]:
    """Return the commit of podium's own source, and whether its files were changed since; no result
    depends on tests, five times as many files.
    """
    status = run_git(
        "status",
        "--porcelain=v2",
        "--branch",
        "--no-ahead-behind",
        "--untracked-files=no",
        "--",
        ".",
        ":(exclude)tests",
    )
    if status is None:
        return run_git("rev-parse", "HEAD"), None  # an old git, or a status that took too long
    lines = status.splitlines()
    commit = next(
        (line.removeprefix(COMMIT_PREFIX) for line in lines if line.startswith(COMMIT_PREFIX)), None
    )
    return commit if commit != NO_COMMIT else None, any(not line.startswith("#") for line in lines)


def run_git(*arguments: str) -> str | None:
    """Run git on podium's own source; None if it is not a checkout, or git is missing."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        # killed with podium, a `status` that writes would leave its lock behind
        command = [
            "git",
            "--no-optional-locks",
            "-C",
            str(root),
            *arguments,
        ]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def read_kernel_line(path: Path) -> str | None:
    """Read a line of /sys, or None."""
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return None
