"""Ledger entries of a LoadGen run, or of a compliance test: its start and how it ended."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.serving.setup import ServingSetup
from suite.errors import PodiumError
from suite.ledger.book import compute_json_sha256, compute_target_hashes
from suite.ledger.steps import AttemptKind, StepKind


@dataclass(slots=True, kw_only=True)
class LedgerAttempt:
    """One LoadGen run, or compliance test, that has started."""

    serving_setup: ServingSetup
    what: AttemptKind
    folder: Path
    """Final folder of its files."""
    over: bool = False

    @property
    def ledger_folder(self) -> str:
        """Return its folder as the ledger records it."""
        return self.folder.relative_to(self.serving_setup.entry.results).as_posix()

    def record_end(self, step: StepKind, files: dict[str, str], verdict: str = "") -> None:
        """Record how it ended."""
        self.serving_setup.ledger.append(
            step,
            files,
            what=self.what,
            of=self.ledger_folder,
            nonce=self.serving_setup.checkpoint.record.nonce,
            verdict=verdict,
        )
        self.over = True

    def record_completion(self, folder: Path, verdict: str) -> None:
        """Record that it completed, while its complete files are still in a `.partial` folder."""
        self.record_end(
            StepKind.SERVED,
            compute_target_hashes(folder, self.folder, self.serving_setup.entry.results),
            verdict,
        )


@contextmanager
def record_attempt(
    serving_setup: ServingSetup, what: AttemptKind, folder: Path
) -> Iterator[LedgerAttempt]:
    """Record that a LoadGen run or a compliance test starts, and that it was aborted if the block
    fails; after a kill the next command records that.
    """
    ledger_attempt = LedgerAttempt(serving_setup=serving_setup, what=what, folder=folder)
    serving_setup.ledger.begin(
        ledger_attempt.what,
        ledger_attempt.ledger_folder,
        serving_setup.checkpoint.record.nonce,
        options=describe_serving_request(serving_setup),
        system=compute_json_sha256(serving_setup.description),
    )
    try:
        yield ledger_attempt
    except BaseException:
        if not ledger_attempt.over:
            with suppress(PodiumError):  # the original exception says more
                ledger_attempt.record_end(StepKind.ABORTED, {})
        raise


def describe_serving_request(serving_setup: ServingSetup) -> dict[str, object]:
    """Return the request as JSON types."""
    request, identity = serving_setup.request, serving_setup.identity
    chosen = {
        f"setting {key}": list(value) if isinstance(value, tuple) else value
        for key, value in sorted(request.chosen.items())
    }
    named = {
        "engine": identity.engine.text,
        "framework": serving_setup.framework,
        "input": request.options.input,
        "device": serving_setup.device,
    }
    return {
        **named,
        "precision": identity.precision.text,
        "profile": request.profile.value,
        "system": serving_setup.entry.system,
        "threads": serving_setup.threads,
        **chosen,
    }
