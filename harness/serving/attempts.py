"""Ledger entries of a LoadGen run, or of a compliance test: its start and how it ended."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.serving.setup import Bench
from suite.errors import PodiumError
from suite.ledger.book import compute_json_sha256, compute_target_hashes
from suite.ledger.steps import AttemptKind, StepKind


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One LoadGen run, or compliance test, that has started."""

    bench: Bench
    what: AttemptKind
    folder: Path
    """Final folder of its files."""
    over: bool = False

    @property
    def of(self) -> str:
        """Return its folder as the ledger records it."""
        return self.folder.relative_to(self.bench.entry.results).as_posix()

    def note(self, step: StepKind, files: dict[str, str], verdict: str = "") -> None:
        """Record how it ended."""
        self.bench.ledger.append(
            step,
            files,
            what=self.what,
            of=self.of,
            nonce=self.bench.checkpoint.record.nonce,
            verdict=verdict,
        )
        self.over = True

    def served(self, folder: Path, verdict: str) -> None:
        """Record that it completed, while its complete files still lie in a `.partial` folder."""
        self.note(
            StepKind.SERVED,
            compute_target_hashes(folder, self.folder, self.bench.entry.results),
            verdict,
        )


@contextmanager
def attempted(bench: Bench, what: AttemptKind, folder: Path) -> Iterator[Attempt]:
    """Record that a LoadGen run or a compliance test starts, and that it was aborted if the block
    fails; after a kill the next command records that.
    """
    attempt = Attempt(bench=bench, what=what, folder=folder)
    bench.ledger.begin(
        attempt.what,
        attempt.of,
        bench.checkpoint.record.nonce,
        options=asked(bench),
        system=compute_json_sha256(bench.description),
    )
    try:
        yield attempt
    except BaseException:
        if not attempt.over:
            with suppress(PodiumError):  # the original exception says more
                attempt.note(StepKind.ABORTED, {})
        raise


def asked(bench: Bench) -> dict[str, object]:
    """Return the request as JSON types."""
    request = bench.request
    options = request.options
    chosen = {
        f"setting {key}": list(value) if isinstance(value, tuple) else value
        for key, value in sorted(request.chosen.items())
    }
    named = {
        "engine": options.engine,
        "framework": options.framework,
        "input": options.input,
        "device": bench.device,
    }
    return {
        **named,
        "precision": bench.precision.value,
        "profile": request.profile.value,
        "system": bench.entry.system,
        "threads": bench.threads,
        **chosen,
    }
