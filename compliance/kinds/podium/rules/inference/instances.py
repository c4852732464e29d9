"""Check several instances of one system under test: their work adds up to the run's, in similar
shares.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import RUN_RECORD
from suite.process.devices import expand_device_name, expand_number_list, is_gpu_list
from suite.records import ServedRun

INSTANCES_KEY: Final = "sut.instances"
PIN_KEY: Final = "sut.pin"
LOADGEN_CORES_KEY: Final = "sut.loadgen_cores"
MIN_INSTANCE_SHARE: Final = 0.5
"""House rule: an instance that answered less than half of an equal share was slower than the
others, or idle.
"""
MIN_BATCHES_PER_INSTANCE: Final = 8
"""House rule: with fewer batches per instance, shares differ by chance."""


@rule("loadgen.instances", LoadGenRun, About.RULES)
def instances(run: LoadGenRun) -> Iterator[Fault]:
    """A system has as many instances as its setting requires, on each of the run's devices.
    Instances share no core with each other or with LoadGen's process, and are pinned if the
    settings require it. Together they answered the run's batches and samples. An instance that
    answered less than half of an equal share is a warning.

    Source: house rule: run.json states what each process answered; harness/serving/instances.
    Advice: check the placement of the instances, and other users of their cores; keep run.json
    and LoadGen's log of one run together.
    """
    record = run.record
    if record is None or not (
        record.instances
        or record.loadgen_cores
        or record.settings.get(INSTANCES_KEY)
        or is_gpu_list(record.system.device)
    ):
        return
    if fault := find_instance_count_fault(run, record):
        yield fault
        return
    yield from check_instance_cores(run, record)
    batches, samples = (
        sum(each.batches for each in record.instances),
        sum(each.samples for each in record.instances),
    )
    batch_count = record.batches.get("count", 0.0)
    if (
        batches != batch_count
        or round(batch_count * record.batches.get("mean_size", 0.0)) != samples
        or min(each.samples for each in record.instances) < 0
    ):
        yield run.build_fault(
            f"{batches} batches and {samples} samples in all instances",
            f"{batch_count:g} batches and their samples, as in the run",
            file=RUN_RECORD,
        )
    if batches >= MIN_BATCHES_PER_INSTANCE * len(record.instances):
        yield from check_instance_shares(run, [each.samples for each in record.instances])


def find_instance_count_fault(run: LoadGenRun, record: ServedRun) -> Fault | None:
    """Return the problem with the number of instances on each device."""
    devices, requested = (
        expand_device_name(record.system.device),
        record.settings.get(INSTANCES_KEY),
    )
    if devices is None:
        return run.build_fault(
            f"device {record.system.device}",
            "GPUs in ascending order, each once, such as cuda:0-3,6",
            file=run.system_source.path,
        )
    each = requested if len(devices) == 1 else requested or 1
    counts = Counter(instance.device or record.system.device for instance in record.instances)
    if dict(counts) == dict.fromkeys(devices, each):
        return None
    where = ", ".join(f"{count} on {device}" for device, count in sorted(counts.items()))
    if len(devices) == 1:
        required = f"the setting {INSTANCES_KEY}"
    else:
        required = f"the same number on each device of {record.system.device}"
    return run.build_fault(
        f"{len(record.instances)} instances{where and f': {where}'}",
        f"{each!r}, {required}",
        file=RUN_RECORD,
    )


def check_instance_cores(run: LoadGenRun, record: ServedRun) -> Iterator[Fault]:
    """Yield the problems with the cores of the instances and of LoadGen's process."""
    cores = [core for each in record.instances for core in each.cores]
    if len(set(cores)) != len(cores):
        yield run.build_fault(
            f"instances on the cores {cores}", "cores that they do not share", file=RUN_RECORD
        )
    pin, requested_cores = (
        record.settings.get(PIN_KEY),
        str(record.settings.get(LOADGEN_CORES_KEY) or ""),
    )
    if (pin == "on" and not all(each.cores for each in record.instances)) or (
        pin == "off" and cores
    ):
        yield run.build_fault(
            f"instances on the cores {cores}",
            f"{PIN_KEY} {pin}, as in the settings",
            file=RUN_RECORD,
        )
    if record.loadgen_cores != (expand_number_list(requested_cores) if requested_cores else ()):
        yield run.build_fault(
            f"LoadGen on the cores {list(record.loadgen_cores)}",
            f"{requested_cores or 'none'}, the setting {LOADGEN_CORES_KEY}",
            file=RUN_RECORD,
        )
    if shared := sorted(set(cores) & set(record.loadgen_cores)):
        yield run.build_fault(
            f"instances and LoadGen on the same cores {shared}",
            "cores that they do not share",
            file=RUN_RECORD,
        )


def check_instance_shares(run: LoadGenRun, samples: list[int]) -> Iterator[Fault]:
    """Yield the instances that did much less than their share."""
    share = sum(samples) / len(samples)
    for number, answered in enumerate(samples):
        if answered < MIN_INSTANCE_SHARE * share:
            found = f"{answered} samples answered by instance {number}"
            yield replace(
                run.build_fault(found, f"about {share:g}, an equal share", file=RUN_RECORD),
                severity=Severity.WARNING,
            )
