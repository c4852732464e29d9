"""Recognise results of Inference since v1.0 by the seeds of LoadGen or of the Endpoints client."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from compliance.kinds.endpoints.documents.run import CONFIG_FILES
from compliance.kinds.endpoints.recognition import ENDPOINTS_SUMMARY_FILES
from compliance.recognition.first_record import LOADGEN_EVENT_PATTERN
from compliance.recognition.loadgen_seeds import read_loadgen_head, read_seed_evidence
from compliance.recognition.round_evidence import FileHead, RoundEvidence, map_rounds_by_seed
from suite.files.untrusted_files import open_regular_file
from suite.files.untrusted_yaml import MAX_YAML_BYTES

SCHEDULER_SEED_PATTERN: Final = re.compile(rb'\bscheduler_random_seed"?:\s*(\d{1,20})\b')
"""In a summary, or in the configuration of a run."""
MAX_CONFIG_DEPTH: Final = 3
"""Folders between a summary and the configuration of its scenario."""


def read_mllog_evidence(file: FileHead) -> RoundEvidence | None:
    """Read LoadGen's seed, or the client's; a detail log of LoadGen's without a round's own seed is
    of an unknown round.
    """
    if file.path.name in ENDPOINTS_SUMMARY_FILES:
        return parse_client_evidence(file.record) or read_config_evidence(file.path)
    if file.path.suffix == ".json":
        return None
    is_detail_log = file.record.startswith(b":::MLLOG")
    if file.record.startswith(b":::ML") and not (
        is_detail_log and LOADGEN_EVENT_PATTERN.search(file.record)
    ):
        return None
    if found := read_seed_evidence(file, "inference-mllog"):
        return found
    head = read_loadgen_head(file.record)
    if head is None or not is_detail_log:
        return None
    if head.round is not None:
        return RoundEvidence(head.round, f"{head.indicated_by}, that of {head.round}")
    return RoundEvidence(None, head.indicated_by, sure=False)


def parse_client_evidence(summary: bytes) -> RoundEvidence | None:
    """Read the seed in a summary of the Endpoints client, which has the seeds of the schedule and
    of the order of samples alone; None if it is no round's.
    """
    seed = SCHEDULER_SEED_PATTERN.search(summary)
    name = None
    if seed:
        name = map_rounds_by_seed("schedule_rng_seed").get(int(seed[1]))
    if seed is None or name is None:
        return None
    return RoundEvidence(
        name, f"the Endpoints client with scheduler_random_seed {int(seed[1])}, that of {name}"
    )


def read_config_evidence(summary: Path) -> RoundEvidence | None:
    """Read the seed in the configuration of a run whose summary states none, as older builds of the
    client write it; None if there is no such file.
    """
    for folder in summary.parents[:MAX_CONFIG_DEPTH]:
        for name in CONFIG_FILES:
            with suppress(OSError, ValueError), open_regular_file(folder / name) as stream:
                return parse_client_evidence(stream.read(MAX_YAML_BYTES))
    return None
