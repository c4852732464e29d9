"""Readers of a run's power, and of what stands behind a bundle's seal."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.trailer import FrameKind, TrailerFrame
from compliance.kinds.podium.documents import inference, power
from compliance.kinds.podium.results import energy
from compliance.rules import judge_document
from fuzzing.reading import Reader, each
from fuzzing.seeds import EXAMPLES, named
from submissions.signatures import armor, bundled, statement
from suite import registry
from suite.files.layout import RUN_RECORD, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.mlperf_power import checks
from suite.measurement.mlperf_power.session import (
    CLIENT_RECORD,
    DAEMON_LOG,
    SERVER_RECORD,
    find_imported_session,
)
from suite.measurement.power_readings import MeasuredWork
from suite.units import NS_PER_S
from suite.workload import Mode

ROUND: Final = registry.load_round()
SEAL: Final = b"\x01" * 32
KEY: Final = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"\x02" * 32
SIGNATURE: Final = b"\0\0\0\x0bssh-ed25519\0\0\0\x40" + b"\x03" * 64


def powered(results: Path, work: Path) -> Iterator[Reader]:
    """Readings of power and the record of the energy that follows from them."""
    example = next(EXAMPLES.glob(f"powered/**/{TELEMETRY_FILE}")).parent
    for name in (TELEMETRY_FILE, RUN_RECORD):
        run = shutil.copytree(example, work / f"powered-{name}" / "run_1")
        seeds = [(example / name).read_bytes(), *named(results, name)]
        yield Reader(
            name=f"power-{name}",
            file=run / name,
            seeds=seeds,
            read=each(recorded, *([reckoned, scored] if name == TELEMETRY_FILE else [])),
        )


def sessions(work: Path) -> Iterator[Reader]:
    """Files of a session of MLPerf Power."""
    example = next(EXAMPLES.glob("powered-session/**/spl.txt")).parents[1]
    for name in (
        CLIENT_RECORD,
        SERVER_RECORD,
        DAEMON_LOG,
        "run_1/spl.txt",
        "ranging/mlperf_log_detail.txt",
    ):
        place = shutil.copytree(example, work / f"session-{name.replace('/', '-')}" / "performance")
        yield Reader(
            name=f"session-{Path(name).name}",
            file=place / name,
            seeds=[(example / name).read_bytes()],
            read=each(of_session),
        )


def of_session(path: Path) -> object:
    """Check a session, and read its energy for a score."""
    run = path.parents[1] / "run_1"
    session = find_imported_session(run)
    found = checks.collect_session_problems(session) if session else []
    assert all(problem.found and problem.required for problem in found)
    return found, energy.read_served_energy(run, Scenario.OFFLINE)


def recorded(path: Path) -> object:
    """Judge the power of an Offline run."""
    found = power.build_run_power(
        inference.read_loadgen_run(path.parent, Mode.PERFORMANCE, Scenario.OFFLINE, ROUND)
    )
    findings = list(judge_document(found, ROUND.name)) if found else []
    assert all(finding.found and finding.required for finding in findings)
    return findings


def reckoned(path: Path) -> object:
    """Compute energies of the whole file."""
    found = power_readings.read_power_readings(path)
    times = [time for track in found.tracks.values() for time in track.times_ns] or [0]
    return (
        power_readings.build_energy_records(
            found, min(times) + 1, max(times) - 1, MeasuredWork(samples=3, queries=2)
        ),
        max(times) / NS_PER_S,
    )


def scored(path: Path) -> object:
    """Read a run's energy for its score."""
    return energy.read_served_energy(path.parent, Scenario.OFFLINE)


def behind_the_seal(work: Path) -> Iterator[Reader]:
    """Frames, statements and signatures of strangers."""
    blob = armor.SSHSIG_MAGIC + armor.SSHSIG_VERSION.to_bytes(4, "big")
    for field in (KEY, b"podium-bundle", b"", b"sha512", SIGNATURE):
        blob += len(field).to_bytes(4, "big") + field
    subject = statement.ResourceDescriptor(
        name="x.tar.zst", digest={"sha256": SEAL.hex()}, annotations={"signer": "a@b"}
    )
    outcome = statement.ResultPredicate(
        result="PASSED",
        configuration=(subject,),
        passed_tests=("a",),
        warned_tests=(),
        failed_tests=(),
    )
    made = statement.Statement(
        kind=statement.STATEMENT_TYPE,
        subject=(subject,),
        predicate_type=statement.PREDICATE_TYPE,
        predicate=outcome,
    )
    content = statement.encode_statement(made) + armor.encode_armour(blob)
    rest = (
        trailer.seal.build_bundle_seal(SEAL)
        + TrailerFrame(kind=FrameKind.SIGNATURE, content=content).encode_frame()
        + TrailerFrame(kind=FrameKind.TIME, content=b"\x30\x00").encode_frame()
    )
    yield Reader(name="signature", file=work / "signature", seeds=[content], read=signed)
    yield Reader(
        name="trailer",
        file=work / "trailer",
        seeds=[rest],
        read=lambda path: trailer.parse_trailer(path.read_bytes()),
    )


def signed(path: Path) -> object:
    """Read a frame's statement and signature."""
    return bundled.parse_bundle_signature(bundled.split_signature_frame(path.read_bytes()), SEAL)
