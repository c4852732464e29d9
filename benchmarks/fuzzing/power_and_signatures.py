"""Readers of a run's power, and of what stands behind a bundle's seal."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.trailer import Frame, Kind
from compliance.documents.podium import inference, power
from compliance.rules import judge
from fuzzing.reading import Reader, each
from fuzzing.seeds import EXAMPLES, named
from submissions.score import energy
from submissions.signatures import armor, bundled, statement
from suite import registry
from suite.energy import NS_PER_S
from suite.files.layout import RUN_RECORD, TELEMETRY
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.mlperf_power import checks
from suite.measurement.mlperf_power.session import CLIENT, DAEMON_LOG, SERVER, beside
from suite.measurement.power_readings import Work
from suite.workload import Mode

ROUND: Final = registry.round()
SEAL: Final = b"\x01" * 32
KEY: Final = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"\x02" * 32
SIGNATURE: Final = b"\0\0\0\x0bssh-ed25519\0\0\0\x40" + b"\x03" * 64


def powered(results: Path, work: Path) -> Iterator[Reader]:
    """Readings of power and the record of the energy that follows from them."""
    example = next(EXAMPLES.glob(f"powered/**/{TELEMETRY}")).parent
    for name in (TELEMETRY, RUN_RECORD):
        run = shutil.copytree(example, work / f"powered-{name}" / "run_1")
        seeds = [(example / name).read_bytes(), *named(results, name)]
        yield Reader(
            name=f"power-{name}",
            file=run / name,
            seeds=seeds,
            read=each(recorded, *([reckoned] if name == TELEMETRY else [scored])),
        )


def sessions(work: Path) -> Iterator[Reader]:
    """Files of a session of MLPerf Power."""
    example = next(EXAMPLES.glob("powered-session/**/spl.txt")).parents[1]
    for name in (CLIENT, SERVER, DAEMON_LOG, "run_1/spl.txt", "ranging/mlperf_log_detail.txt"):
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
    session = beside(run)
    found = checks.problems(session) if session else []
    assert all(problem.found and problem.required for problem in found)
    return found, energy.served(run)


def recorded(path: Path) -> object:
    """Judge the power of an Offline run."""
    found = power.of_run(inference.read_run(path.parent, Mode.PERFORMANCE, Scenario.OFFLINE, ROUND))
    findings = list(judge(found, ROUND.name)) if found else []
    assert all(finding.found and finding.required for finding in findings)
    return findings


def reckoned(path: Path) -> object:
    """Compute energies of the whole file."""
    found = power_readings.read(path)
    times = [time for track in found.tracks.values() for time in track.times_ns] or [0]
    return (
        power_readings.records(found, min(times) + 1, max(times) - 1, Work(samples=3, queries=2)),
        max(times) / NS_PER_S,
    )


def scored(path: Path) -> object:
    """Read a run's energy for its score."""
    return energy.told(energy.served(path.parent))


def behind_the_seal(work: Path) -> Iterator[Reader]:
    """Frames, statements and signatures of strangers."""
    blob = armor.MAGIC + armor.VERSION.to_bytes(4, "big")
    for field in (KEY, b"podium-bundle", b"", b"sha512", SIGNATURE):
        blob += len(field).to_bytes(4, "big") + field
    subject = statement.Descriptor(
        name="x.tar.zst", digest={"sha256": SEAL.hex()}, annotations={"signer": "a@b"}
    )
    outcome = statement.Outcome(
        result="PASSED",
        configuration=(subject,),
        passed_tests=("a",),
        warned_tests=(),
        failed_tests=(),
    )
    made = statement.Statement(
        kind=statement.STATEMENT,
        subject=(subject,),
        predicate_type=statement.PREDICATE,
        predicate=outcome,
    )
    content = statement.encode(made) + armor.armoured(blob)
    rest = (
        trailer.seal.seal(SEAL)
        + Frame(kind=Kind.SIGNATURE, content=content).encode()
        + Frame(kind=Kind.TIME, content=b"\x30\x00").encode()
    )
    yield Reader(name="signature", file=work / "signature", seeds=[content], read=signed)
    yield Reader(
        name="trailer",
        file=work / "trailer",
        seeds=[rest],
        read=lambda path: trailer.parse(path.read_bytes()),
    )


def signed(path: Path) -> object:
    """Read a frame's statement and signature."""
    return bundled.signature_of(bundled.split(path.read_bytes()), SEAL)
