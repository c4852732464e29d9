"""Where mutants of training rounds are put: a run of each set, alone and in its tree, and the sets
themselves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..judging import Court, Outcome, copied
from ..kinds import Kind
from ..undoing import Undo
from .log import Log
from .sets import TrainingSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBase:
    """A published set, copied with its organisation's system descriptions."""

    name: str
    origin: Path
    home: Path
    folder: Path
    run: int
    """Which of its runs single-log mutants go into."""

    @property
    def log(self) -> Path:
        """That run in the copy."""
        runs = sorted(self.folder.glob("result_*.txt"))
        return runs[self.run % len(runs)]

    @property
    def oldest(self) -> bool:
        """Whether its logs have the text form."""
        return b":::MLL" not in self.log.read_bytes()

    def a_set(self, aside: Path) -> TrainingSet:
        """Give the copy to change."""
        return TrainingSet(home=self.home, folder=self.folder, origin=self.origin, undo=Undo(aside))


def set_bases(corpus: Path, work: Path, rounds: str = "training_v0.[67]") -> Iterator[SetBase]:
    """Copy each set into a tree of its own."""
    for index, folder in enumerate(
        sorted(path for path in corpus.glob(f"{rounds}/*/results/*/*") if path.is_dir())
    ):
        org, inside = folder.parents[2], folder.relative_to(folder.parents[2])
        home = work / f"set{index:02}" / org.parent.name / org.name
        copied(org, home, ("systems", str(inside)))
        yield SetBase(
            name="/".join(
                (org.parent.name.removeprefix("training_"), org.name, *folder.parts[-2:])
            ),
            origin=folder,
            home=home,
            folder=home / inside,
            run=1 + index % 3,
        )


def contents(kind: Kind[Log], texts: Kind[list[str]] | None, base: SetBase) -> bytes | None:
    """Make a mutant of the base's run; None where the kind makes no sense in it."""
    before = base.log.read_bytes()
    if texts is not None:
        lines = before.decode("latin-1").splitlines(keepends=True)
        return "".join(lines).encode("latin-1") if texts.change(lines) else None
    log = Log.of(before)
    return log.content() if kind.change(log) and log.content() != before else None


def logs_judged(
    kinds: Iterable[Kind[Log]], bases: list[SetBase], court: Court, work: Path, most: int
) -> Iterator[Outcome]:
    """Put each kind into up to so many bases, alone and in the tree."""
    for at, kind in enumerate(kinds):
        taken = 0
        for base in bases[at % max(len(bases), 1) :] + bases[: at % max(len(bases), 1)]:
            content = contents(kind, None, base) if taken < most else None
            if content is None:
                continue
            taken += 1
            yield from log_judged(
                kind.name, kind.required, kind.in_tree, content, base, court, work
            )


def oldest_judged(
    kinds: Iterable[Kind[list[str]]], bases: list[SetBase], court: Court, work: Path
) -> Iterator[Outcome]:
    """Put each kind into the bases of the text form."""
    for kind in kinds:
        for base in bases:
            lines = base.log.read_bytes().decode("latin-1").splitlines(keepends=True)
            if kind.change(lines):
                yield from log_judged(
                    kind.name,
                    kind.required,
                    kind.in_tree,
                    "".join(lines).encode("latin-1"),
                    base,
                    court,
                    work,
                )


def log_judged(
    name: str, required: str, in_tree: bool, content: bytes, base: SetBase, court: Court, work: Path
) -> Iterator[Outcome]:
    """Judge one mutant of a log."""
    if not in_tree:
        alone = work / "alone" / base.log.name
        alone.parent.mkdir(exist_ok=True)
        alone.write_bytes(base.log.read_bytes())
        before = court.warnings(name, alone)
        alone.write_bytes(content)
        yield court.outcome(name, f"{base.name}/{base.log.name} alone", alone, required, before)
    undo, path = Undo(work / "aside"), base.log
    before = court.warnings(name, path)
    undo.write(path, content)
    yield court.outcome(name, f"{base.name}/{path.name}", path, required, before)
    undo.back()


def sets_judged(
    kinds: Iterable[Kind[TrainingSet]], bases: list[SetBase], court: Court, work: Path, most: int
) -> Iterator[Outcome]:
    """Put each kind into up to so many sets."""
    (work / "aside").mkdir(exist_ok=True)
    for at, kind in enumerate(kinds):
        taken = 0
        for base in bases[at % max(len(bases), 1) :] + bases[: at % max(len(bases), 1)]:
            if taken >= most:
                break
            a_set = base.a_set(work / "aside")
            before = court.warnings(f"set_{kind.name}", a_set.folder)
            try:
                if kind.change(a_set):
                    taken += 1
                    yield court.outcome(
                        f"set_{kind.name}", base.name, a_set.folder, kind.required, before
                    )
            finally:
                a_set.undo.back()
