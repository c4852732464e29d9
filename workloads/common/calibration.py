"""Calibration samples for static quantisation: one list, with hashes, and its overlap with the
accuracy set.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, overload

from suite.engine import Calibration
from suite.errors import RequestError
from suite.files.layout import compute_file_sha256
from suite.files.untrusted_files import UnreadableError, read_untrusted_text
from suite.workload import Run
from workloads.common.pictures.decoding import PictureSet
from workloads.common.setting_values import require_text_setting

T = TypeVar("T")
CALIBRATION_LIST_SETTING = "calibration.list"
CALIBRATION_METHOD_SETTING = "calibration.method"
MAX_NAMED_LIST_SAMPLES = 3
"""Missing samples listed in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSamples:
    """A calibration list: its name and its samples' names."""

    name: str
    samples: tuple[str, ...]


class LazyCalibrationInputs(Sequence[tuple[T, ...]], Generic[T]):
    """The inputs of each sample, made on access, so that a list of 500 images need not be in
    memory.
    """

    def __init__(self, paths: Sequence[Path], make: Callable[[Path], tuple[T, ...]]) -> None:
        self._paths, self._make = paths, make

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> tuple[T, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> "LazyCalibrationInputs[T]": ...
    def __getitem__(self, place: int | slice) -> "tuple[T, ...] | LazyCalibrationInputs[T]":
        if isinstance(place, slice):
            return LazyCalibrationInputs(self._paths[place], self._make)
        return self._make(self._paths[place])


def choose_calibration_list(run: Run, embedded: CalibrationSamples) -> CalibrationSamples:
    """Return the list that the user names, else the embedded one; RequestError if neither fits the
    data.
    """
    named = run.settings.get(CALIBRATION_LIST_SETTING)
    if named is None and run.data is not None:
        raise RequestError(
            f"{run.precision} on your own data needs the round's calibration list: --set"
            f" {CALIBRATION_LIST_SETTING}=FILE, one name per line"
        )
    return embedded if named is None else read_calibration_list(Path(str(named)))


def read_calibration_list(path: Path) -> CalibrationSamples:
    """Read a list file; RequestError if it is unreadable or empty, or names a sample twice."""
    try:
        names = tuple(
            line.strip()
            for line in read_untrusted_text(path, "utf-8-sig").splitlines()
            if line.strip()
        )
    except UnreadableError as error:
        raise RequestError(f"--set {CALIBRATION_LIST_SETTING}={path}: {error.reason}") from error
    if not names:
        raise RequestError(
            f"--set {CALIBRATION_LIST_SETTING}={path}: the calibration list is empty"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RequestError(
            f"--set {CALIBRATION_LIST_SETTING}={path}: lists "
            f"{', '.join(twice[:MAX_NAMED_LIST_SAMPLES])} twice; each sample may occur only once"
        )
    return CalibrationSamples(name=path.stem, samples=names)


def build_calibration(
    run: Run,
    chosen: CalibrationSamples,
    find: Callable[[str], Path | None],
    accuracy: Iterable[Path],
    make: Callable[[Path], tuple[T, ...]],
) -> Calibration[T]:
    """Find and hash every sample in the list; RequestError names missing ones. `make` returns the
    network's inputs for a sample.
    """
    paths = list(iterate_calibration_paths(chosen, find))
    return Calibration(
        inputs=LazyCalibrationInputs(paths, make),
        list_name=chosen.name,
        listed=chosen.samples,
        samples=chosen.samples,
        sha256=tuple(map(compute_file_sha256, paths)),
        touched=tuple(
            find_accuracy_overlap(dict(zip(chosen.samples, paths, strict=True)), accuracy)
        ),
        method=require_text_setting(run.settings, CALIBRATION_METHOD_SETTING),
    )


def build_picture_calibration(
    run: Run,
    chosen: CalibrationSamples,
    accuracy: PictureSet,
    folders: Sequence[Path],
    make: Callable[[Path], tuple[T, ...]],
) -> Calibration[T]:
    """Find images by path below one of the folders or, as in MLPerf's ImageNet lists, by file
    name in the accuracy set.
    """
    names = {path.name: path for path in map(accuracy.path, range(len(accuracy)))}

    def find_picture_path(name: str) -> Path | None:
        return next(
            (folder / name for folder in folders if (folder / name).is_file()), names.get(name)
        )

    return build_calibration(run, chosen, find_picture_path, names.values(), make)


def iterate_calibration_paths(
    chosen: CalibrationSamples, find: Callable[[str], Path | None]
) -> Iterator[Path]:
    """Yield the path of each sample."""
    pairs = [(name, find(name)) for name in chosen.samples]
    missing = [name for name, path in pairs if path is None or not path.is_file()]
    if missing:
        more = ""
        if len(missing) > MAX_NAMED_LIST_SAMPLES:
            more = f" and {len(missing) - MAX_NAMED_LIST_SAMPLES} more"
        raise RequestError(
            f"calibration list {chosen.name}: {', '.join(missing[:MAX_NAMED_LIST_SAMPLES])}{more}"
            f" of its {len(pairs)} samples are not in the data"
        )
    yield from (path for _, path in pairs if path is not None)


def find_accuracy_overlap(samples: dict[str, Path], accuracy: Iterable[Path]) -> Iterator[str]:
    """Yield the samples that are also in the accuracy set; accuracy files whose size matches a
    sample's are compared by hash.
    """
    sizes = {path.stat().st_size for path in samples.values()}
    same_size_paths = [path for path in accuracy if path.stat().st_size in sizes]
    known_paths, known_hashes = set(same_size_paths), set(map(compute_file_sha256, same_size_paths))
    yield from (
        name
        for name, path in samples.items()
        if path in known_paths or compute_file_sha256(path) in known_hashes
    )
