"""Calibration samples for static quantisation: one list, with hashes, and its overlap with the
accuracy set.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from suite.engine import Calibration
from suite.errors import RequestError
from suite.files.layout import file_sha256
from suite.files.untrusted_files import UnreadableError, read_text
from suite.terms import QUANTISED
from suite.workload import Run
from workloads.common.pictures.decoding import PictureSet
from workloads.common.setting_values import text

T = TypeVar("T")
LIST = "calibration.list"
METHOD = "calibration.method"
NAMED = 3
"""Missing samples listed in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A calibration list: its name and its samples' names."""

    name: str
    samples: tuple[str, ...]


class Made(Sequence[tuple[T, ...]], Generic[T]):
    """The inputs of each sample, made on access, so that a list of 500 pictures need not be in
    memory.
    """

    def __init__(self, paths: Sequence[Path], make: Callable[[Path], tuple[T, ...]]) -> None:
        self._paths, self._make = paths, make

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> tuple[T, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> "Made[T]": ...
    def __getitem__(self, place: int | slice) -> "tuple[T, ...] | Made[T]":
        return (
            Made(self._paths[place], self._make)
            if isinstance(place, slice)
            else self._make(self._paths[place])
        )


def listed(run: Run, embedded: Listed) -> Listed:
    """Return the list that the user names, else the embedded one; RequestError if neither fits the
    data.
    """
    named = run.settings.get(LIST)
    if named is None and run.data is not None:
        raise RequestError(
            f"{run.precision} on data of your own needs the round's calibration list: --set"
            f" {LIST}=FILE, one name per line"
        )
    return embedded if named is None else read(Path(str(named)))


def read(path: Path) -> Listed:
    """Read a list file; RequestError if it is unreadable or empty, or names a sample twice."""
    try:
        names = tuple(
            line.strip() for line in read_text(path, "utf-8-sig").splitlines() if line.strip()
        )
    except UnreadableError as error:
        raise RequestError(f"--set {LIST}={path}: {error.reason}") from error
    if not names:
        raise RequestError(f"--set {LIST}={path}: the calibration list is empty")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RequestError(
            f"--set {LIST}={path}: names {', '.join(twice[:NAMED])} twice; each sample may occur"
            " once"
        )
    return Listed(name=path.stem, samples=names)


def calibration(
    run: Run,
    chosen: Listed,
    find: Callable[[str], Path | None],
    accuracy: Iterable[Path],
    make: Callable[[Path], tuple[T, ...]],
) -> Calibration[T]:
    """Find and hash every sample in the list; RequestError names missing ones. `make` returns the
    network's inputs for a sample.
    """
    paths = list(found(chosen, find))
    return Calibration(
        inputs=Made(paths, make),
        list_name=chosen.name,
        listed=chosen.samples,
        samples=chosen.samples,
        sha256=tuple(map(file_sha256, paths)),
        touched=tuple(touched(dict(zip(chosen.samples, paths, strict=True)), accuracy)),
        method=text(run.settings, METHOD),
    )


def of_pictures(
    run: Run,
    chosen: Listed,
    accuracy: PictureSet,
    places: Sequence[Path],
    make: Callable[[Path], tuple[T, ...]],
) -> Calibration[T]:
    """Find pictures by path below one of the folders or, as in MLPerf's ImageNet lists, by file
    name in the accuracy set.
    """
    names = {path.name: path for path in map(accuracy.path, range(len(accuracy)))}

    def find(name: str) -> Path | None:
        return next(
            (folder / name for folder in places if (folder / name).is_file()), names.get(name)
        )

    return calibration(run, chosen, find, names.values(), make)


def found(chosen: Listed, find: Callable[[str], Path | None]) -> Iterator[Path]:
    """Yield the path of each sample."""
    pairs = [(name, find(name)) for name in chosen.samples]
    missing = [name for name, path in pairs if path is None or not path.is_file()]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise RequestError(
            f"calibration list {chosen.name}: {', '.join(missing[:NAMED])}{more} of its"
            f" {len(pairs)} samples are not in the data"
        )
    yield from (path for _, path in pairs if path is not None)


def touched(samples: dict[str, Path], accuracy: Iterable[Path]) -> Iterator[str]:
    """Yield the samples that are also in the accuracy set; accuracy files whose size matches a
    sample's are compared by hash.
    """
    sizes = {path.stat().st_size for path in samples.values()}
    alike = [path for path in accuracy if path.stat().st_size in sizes]
    places, contents = set(alike), set(map(file_sha256, alike))
    yield from (
        name for name, path in samples.items() if path in places or file_sha256(path) in contents
    )


def given(run: Run, make: Callable[[], Calibration[Any]]) -> Calibration[Any] | None:
    """Create the calibration if the number format needs one, so that other formats pay nothing for
    it.
    """
    return make() if run.precision in QUANTISED else None
