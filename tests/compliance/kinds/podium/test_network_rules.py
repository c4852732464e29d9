"""What the judge asks of the name of a system behind a network."""

import json
from pathlib import Path

import pytest
from kinds.network import BASES, NETWORK, RUNS

from compliance.judge import Judge

LISTS = ("servers", "nodes", "machines", "round_trip_p50_ns", "round_trip_p99_ns")
"""Fields of the record that have a value for each endpoint."""


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("Network SUT: podium at h1:800, podium at h1:8001", True),
        ("Network SUT: podium at h1:8001, podium at h1:8001", False),
        ("Network SUT: podium at h1:800, podium at h1:80011", False),
    ],
)
def test_servers_whose_ports_begin_alike_are_told_apart(
    tmp_path: Path, name: str, right: bool
) -> None:
    """The shorter address is a part of the longer one."""
    BASES["networked"](tmp_path)
    for path in tmp_path.glob(RUNS):
        told = json.loads(path.read_text())
        told["network"] |= {
            "endpoints": ["grpcs://h1:800", "grpcs://h1:8001"],
            **{field: NETWORK[field] * 2 for field in LISTS},
        }
        path.write_text(json.dumps(told))
        for log in path.parent.glob("mlperf_log_*.txt"):
            log.write_text(log.read_text().replace("Network SUT: podium at h1:8001", name))
    found = {finding.rule for finding in Judge().judge_path(str(tmp_path)).findings}
    assert ("network.name" not in found) is right
