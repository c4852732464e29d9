"""Puts mutants into bases, asks the judge, and counts which kinds it catches."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.judge import Judge
from compliance.verdict import PathJudgement, Verdict

from .form_kinds import FORM_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the judge said of one mutant."""

    kind: str
    base: str
    verdict: str
    """Of the mutant; the name of an exception where the judge failed."""
    required: str
    told: str = ""
    """The errors that were found."""
    warned: bool = False
    """Whether something is told of it that is not told of its base."""

    @property
    def caught(self) -> bool:
        """Whether the judge saw it: a warning is enough where only the form of a published result
        is broken.
        """
        return self.verdict == Verdict.BROKEN or (self.kind in FORM_KINDS and self.warned)


@dataclass(slots=True)
class Court:
    """One judge for all, as a user would call it."""

    truth: Path | None = None

    def result(self, path: Path) -> PathJudgement | str:
        """Judge a path; the name of an exception where that fails."""
        try:
            return Judge(None, self.truth).judge_path(str(path))
        except Exception as error:  # noqa: BLE001 - a traceback is what is looked for
            return f"{type(error).__name__}: {error}"

    def outcome(
        self, kind: str, base: str, path: Path, required: str, before: frozenset[str] = frozenset()
    ) -> Outcome:
        """Judge a mutant, of whose base `before` is told."""
        result = self.result(path)
        if isinstance(result, str):
            return Outcome(kind=kind, base=base, verdict=result, required=required)
        return Outcome(
            kind=kind,
            base=base,
            verdict=str(result.verdict),
            required=required,
            told=told(result),
            warned=bool(list_warnings(result) - before),
        )

    def warnings(self, kind: str, path: Path) -> frozenset[str]:
        """Return what is told of a base, where a kind of mutant may be a mere warning."""
        result = self.result(path) if kind in FORM_KINDS else ""
        return frozenset() if isinstance(result, str) else list_warnings(result)


def told(result: PathJudgement) -> str:
    """Name the rules that found errors."""
    return " ".join(
        sorted({finding.rule for finding in result.findings if finding.severity == "error"})
    )


def list_warnings(result: PathJudgement) -> frozenset[str]:
    """Return the warnings as text, without their lines, which every insertion moves."""
    return frozenset(
        f"{finding.rule}: {finding.found}"
        for finding in result.findings
        if finding.severity == "warning"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """All outcomes of a family."""

    outcomes: tuple[Outcome, ...]

    def kinds(self) -> dict[str, list[Outcome]]:
        """Group them by kind."""
        grouped: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            grouped.setdefault(outcome.kind, []).append(outcome)
        return grouped

    def missed(self) -> dict[str, list[Outcome]]:
        """Give the outcomes that were not caught, by kind."""
        return {
            kind: lost
            for kind, found in self.kinds().items()
            if (lost := [outcome for outcome in found if not outcome.caught])
        }

    @property
    def share(self) -> float:
        """How much of the kinds is caught in every base."""
        return 1 - len(self.missed()) / max(len(self.kinds()), 1)

    def tracebacks(self) -> list[Outcome]:
        """Give the outcomes where the judge failed."""
        return [outcome for outcome in self.outcomes if outcome.verdict not in [*Verdict]]

    def lines(self) -> Iterator[str]:
        """Say it for people: first what is missed, then each mutant."""
        kinds, missed = self.kinds(), self.missed()
        yield (
            f"{len(kinds) - len(missed)} of {len(kinds)} kinds caught ({self.share:.1%}),"
            f" {len(self.outcomes)} mutants, {len(self.tracebacks())} tracebacks"
        )
        for kind, lost in missed.items():
            yield f"  {kind}: {len(lost)} of {len(kinds[kind])} missed"
        yield ""
        for outcome in (outcome for lost in missed.values() for outcome in lost):
            yield f"{outcome.kind} | {outcome.base} | {outcome.verdict} | {outcome.required}"


SKIPPED: Final = ("audit",)


def copied(source: Path, to: Path, parts: tuple[str, ...]) -> None:
    """Copy parts of an organisation's folder."""
    for part in parts:
        if (source / part).is_dir():
            shutil.copytree(source / part, to / part, dirs_exist_ok=True)
        elif (source / part).exists():
            (to / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, to / part)


Progress = Callable[[Outcome], None]
