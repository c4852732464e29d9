"""`podium data`: one look over a data set, a manifest, and what becomes of both when something
changes.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from podium_fakes import fake, records
from podium_fakes.drive import events, log_path, options

from harness import data_manifest, data_survey
from harness.commands.data import data as command
from harness.commands.infer import infer
from harness.data_survey import add_survey_results, add_survey_results_on_ranks
from harness.request import resolve_request
from harness.training.run_set import train_run_set
from suite.cli import group
from suite.dataset import StaleError, Survey
from suite.errors import MissingError, PodiumError, RequestError
from suite.files import layout
from suite.files.cache import LOCK_SUFFIX
from suite.process.signals import Interrupted
from suite.terms import Precision
from suite.workload import Run

WORDS = "words.txt"


class Words:
    """A file of words, and a folder of more of them."""

    parts = (WORDS, "more")
    looks = 0
    during: Any = staticmethod(lambda root: None)
    """What happens while it is looked over."""

    def __init__(self, run: Run) -> None:
        assert run.data is not None
        self.run, self.root = run, run.data
        self.settings = {"global_batch_size": run.settings["global_batch_size"]}

    def survey(self) -> Survey:
        type(self).looks += 1
        type(self).during(self.root)
        words = (self.root / WORDS).read_text().split()
        return Survey(
            samples={"train": len(words)},
            sha256={WORDS: hashlib.sha256(" ".join(words).encode()).hexdigest()},
            found={"words": tuple(words)},
        )

    def check(self, found: Mapping[str, Any]) -> None:
        if "bad" in found["words"]:
            raise RequestError("a bad word")
        if "old" in found["words"]:
            raise StaleError("an old word")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake workload reads words."""
    folder = tmp_path / "own"
    (folder / "more" / "deep").mkdir(parents=True)
    (folder / WORDS).write_text("one two three")
    (folder / "more" / "deep" / "four.txt").write_text("four")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fake, "Words", Words, raising=False)
    monkeypatch.setattr(records, "FAKE", replace(records.FAKE, data_set="podium_fakes.fake:Words"))
    monkeypatch.setattr(Words, "looks", 0)
    return folder


def manifests(root: Path) -> list[Path]:
    found = sorted((root.parent / "cache").rglob("*.json*"))
    return [path for path in found if path.suffix != LOCK_SUFFIX]


def looked(root: Path, *words: str) -> Any:
    return CliRunner().invoke(command, ["fake", "--data", str(root), *words])


def told(root: Path, **changes: Any) -> Run:
    request = resolve_request(options(root.parent / "results", data=root, **changes), "fake")
    return add_survey_results(request, request.build_run(1, Precision.FP32))


def test_two_at_once_look_once(root: Path, monkeypatch: pytest.MonkeyPatch):
    """As two servers that start in a new cache: they would write one `.partial` file."""
    monkeypatch.setattr(Words, "during", staticmethod(lambda root: time.sleep(0.3)))
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: told(root), range(2))
    assert Words.looks == 1
    assert first.found == second.found == {"words": ["one", "two", "three"]}
    assert len(manifests(root)) == 1


def test_a_look_is_printed_and_kept(root: Path):
    """Counts, sizes and hashes for people; one object for programs, and nothing else on its
    stream.
    """
    done = looked(root)
    assert (
        done.exit_code == 0
        and "3 train samples in 2 files" in done.stdout
        and done.stdout.splitlines()[-1].endswith(f"  {WORDS}")
    )
    (path,) = manifests(root)
    assert str(path) in done.stdout
    found = json.loads(looked(root, "--format", "json").stdout)
    assert (
        found["manifest"] == str(path)
        and found["samples"] == {"train": 3}
        and (found["files"], found["bytes"]) == (2, 17)
    )
    assert set(found) == {
        "workload",
        "profile",
        "data",
        "manifest",
        "samples",
        "files",
        "bytes",
        "sha256",
    }
    assert Words.looks == 2, "the command looks whether or not that was done before"


@pytest.mark.slow
def test_a_training_without_a_manifest_looks_first(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The first day is one command; the look is a step that is seen, before log and cache_clear,
    and is done once.
    """
    results = root.parent / "results"
    monkeypatch.setattr(
        Words,
        "during",
        staticmethod(
            lambda _: (
                (_ for _ in ()).throw(AssertionError) if list(results.rglob("result_0*")) else None
            )
        ),
    )
    train_run_set("fake", options(results, data=root), seed=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"fake: surveying the data in {root}, once" and lines[2].startswith(
        "fake: 3 train samples in 2 files"
    )
    train_run_set("fake", options(root.parent / "again", data=root), seed=1)
    assert Words.looks == 1 and "surveying" not in capsys.readouterr().out
    assert [event["key"] for event in events(log_path(results))].count("run_stop") == 1


def test_runs_are_told_what_was_found(root: Path):
    """As JSON has it, whether it was found just now or by an earlier command."""
    assert (
        told(root).found == told(root).found == {"words": ["one", "two", "three"]}
        and Words.looks == 1
    )


def test_other_settings_are_another_look(root: Path):
    """Those that decide what is found; a manifest of others would be wrong, and is kept for
    them.
    """
    told(root)
    told(root, assignments=("global_batch_size=4",))
    told(root)
    assert Words.looks == 2 and len(manifests(root)) == 2


CHANGES = {
    "longer": (
        lambda root: (root / WORDS).write_text("one two three four"),
        f"{WORDS} has 18 bytes and had 13",
    ),
    "written to": (lambda root: os.utime(root / WORDS, ns=(1, 1)), f"{WORDS} was written to"),
    "gone": (lambda root: (root / WORDS).unlink(), f"{WORDS} is gone"),
    "more files": (
        lambda root: (root / "more" / "deep" / "five.txt").write_text("five"),
        "more/deep has 2 files and had 1",
    ),
    "renamed": (
        lambda root: (root / "more" / "deep" / "four.txt").rename(root / "more" / "deep" / "4.txt"),
        "more/deep was written to",
    ),
    "new folder": (lambda root: (root / "more" / "six").mkdir(), "more/six is new"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_data_that_changed_are_named(root: Path, kind: str):
    """A manifest that is not true any more is refused, with the command that looks again; nothing
    is opened for it.
    """
    told(root)
    change, words = CHANGES[kind]
    change(root)
    with pytest.raises(RequestError) as caught:
        told(root)
    assert caught.value.exit_code == 2 and words in str(caught.value)
    assert str(caught.value).endswith(
        f"to survey the data again: podium data fake --data {root} --profile smoke"
    )
    assert looked(root).exit_code == (1 if kind == "gone" else 0)
    if kind != "gone":
        assert told(root).found


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "@eaDir/four.jpg"])
def test_what_a_file_system_adds_later_is_no_change(root: Path, name: str):
    """A look at the folder with Finder or over a NAS must not ask for the survey again."""
    told(root)
    (root / "more" / name).parent.mkdir(exist_ok=True)
    (root / "more" / name).write_bytes(b"x")
    assert told(root).found and Words.looks == 1


def test_files_that_are_no_part_of_the_data_set_may_change(root: Path):
    """Notes of the user beside it, a vocabulary of another size."""
    told(root)
    (root / "notes.txt").write_text("mine")
    assert told(root).found and Words.looks == 1


@pytest.mark.slow
def test_serving_refuses_changed_data(root: Path):
    """infer takes the same manifest."""
    results = root.parent / "results"
    train_run_set("fake", options(results, data=root), seed=1)
    (root / WORDS).write_text("others")
    given = [
        "--framework",
        "fake",
        "--engine",
        "fake",
        "--device",
        "cpu",
        "--precision",
        "fp32",
        "--org",
        "tests",
        "--system",
        "testbed",
    ]
    done = CliRunner().invoke(
        infer, ["fake", *given, "--results", str(results), "--data", str(root)]
    )
    assert isinstance(done.exception, RequestError) and "changed since it was surveyed" in str(
        done.exception
    )


def edited(text: str) -> str:
    return text.replace("three", "threw")


def of_another(text: str) -> str:
    table = data_manifest.DATA_MANIFEST_DECODER.decode(text)
    other = type(table)(
        **{name: getattr(table, name) for name in table.__struct_fields__} | {"workload": "other"}
    )
    sealed = json.loads(text) | {"workload": "other", "sha256": other.seal}
    return json.dumps(sealed)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (edited, r"not a dataset manifest \(edited or damaged"),
        (lambda text: text[: len(text) // 2], "not a dataset manifest"),
        (lambda text: "[]", "not a dataset manifest"),
        (lambda text: text.replace('"root"', '"route"'), "not a dataset manifest"),
        (of_another, "a manifest of other, not of fake"),
    ],
)
def test_a_manifest_that_is_not_what_was_written_is_refused(root: Path, spoil: Any, words: str):
    """Named, with exit 2 and what to do; the command makes it anew."""
    told(root)
    (path,) = manifests(root)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(
        RequestError, match=f"{path}: {words}.*to survey the data again: podium data fake"
    ):
        told(root)
    assert looked(root).exit_code == 0 and told(root).found


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EROFS, RequestError), (errno.ENOSPC, MissingError)]
)
def test_a_cache_that_cannot_be_written_is_told(
    root: Path, number: int, kind: type[PodiumError], monkeypatch: pytest.MonkeyPatch
):
    """A disk that is read-only or full: one sentence, which names the way out."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(data_manifest, "write_json", refused)
    with pytest.raises(kind, match=f"{os.strerror(number)}; set PODIUM_CACHE to a writable folder"):
        told(root)
    assert not manifests(root)


@pytest.mark.parametrize("place", ["survey", "write"])
def test_an_interrupted_look_leaves_nothing(
    root: Path, place: str, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C while files are read, or while the manifest is written: nothing that looks whole, and
    nothing in the way of the next look.
    """

    def interrupted(*_: object) -> None:
        raise Interrupted("interrupted")

    with monkeypatch.context() as cut, pytest.raises(Interrupted):
        cut.setattr(
            *(
                (Words, "during", staticmethod(interrupted))
                if place == "survey"
                else (layout, "sync_to_disk", interrupted)
            )
        )
        told(root)
    assert not manifests(root)
    assert told(root).found


def test_data_that_change_under_the_look_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch):
    """What was counted is not what is there."""
    monkeypatch.setattr(
        Words, "during", staticmethod(lambda folder: (folder / WORDS).write_text("one"))
    )
    with pytest.raises(
        RequestError, match="changed during the survey: words.txt has 3 bytes and had 13"
    ):
        told(root)
    assert not manifests(root)


def test_parts_that_the_look_makes_are_part_of_it(root: Path, monkeypatch: pytest.MonkeyPatch):
    """A vocabulary is made beside the data; later it may not change."""
    monkeypatch.setattr(Words, "parts", (WORDS, "vocabulary"))
    monkeypatch.setattr(
        Words, "during", staticmethod(lambda folder: (folder / "vocabulary").write_text("v"))
    )
    told(root)
    (root / "vocabulary").write_text("w2")
    with pytest.raises(RequestError, match="vocabulary has 2 bytes and had 1"):
        told(root)


def test_what_no_run_takes_is_exit_2(root: Path):
    """Broken samples that are not to be left out: found by the command, refused by it and by each
    run; found anew where that would help.
    """
    (root / WORDS).write_text("one bad")
    done = looked(root, "--format", "json")
    assert (
        isinstance(done.exception, RequestError)
        and str(done.exception) == "a bad word"
        and json.loads(done.stdout)["samples"] == {"train": 2}
    )
    with pytest.raises(RequestError, match="^a bad word$"):
        told(root)
    (root / WORDS).write_text("old")
    looked(root)
    with pytest.raises(
        RequestError, match="an old word; to survey the data again: podium data fake"
    ):
        told(root)


def test_no_sample_is_no_survey(root: Path):
    """A manifest of 0 samples would let each run start and fail."""
    (root / WORDS).write_text("")
    done = looked(root)
    assert str(done.exception) == f"{root}: no usable sample in train"
    assert isinstance(done.exception, RequestError) and not manifests(root)


def test_a_link_to_nowhere_is_seen(root: Path):
    """It has no size; where it leads somewhere, that is another data set."""
    (root / "more" / "link").symlink_to(root.parent / "nowhere")
    told(root)
    (root.parent / "nowhere").write_text("now there")
    with pytest.raises(RequestError, match="more has 9 bytes and had 0"):
        told(root)


@pytest.mark.parametrize(
    ("link", "target", "named", "circle"),
    [
        ("more/loop", "../more", "more/loop", "leads back to a folder that it lies in"),
        ("more/deep/loop", "../..", "more/deep/loop", "leads back to a folder that it lies in"),
        ("more/loop", "loop", "more/loop", "leads back to itself"),
        ("more/one", "../other", "more/one/two", "leads back to a folder that it lies in"),
    ],
)
def test_a_link_that_leads_in_a_circle_is_refused(
    root: Path, link: str, target: str, named: str, circle: str
):
    """`ln -s` run twice puts a folder's link into the folder itself."""
    (root / "other").mkdir()
    (root / "other" / "two").symlink_to("../more")
    (root / link).symlink_to(target)
    with pytest.raises(RequestError) as caught:
        told(root)
    assert str(caught.value) == f"{root / named}: is a link that {circle}; remove the link"


def test_a_link_to_a_folder_elsewhere_is_followed(root: Path, tmp_path: Path):
    """Data are spread over disks, and one folder may serve twice."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "five.txt").write_text("five")
    for name in ("near", "far"):
        (root / "more" / name).symlink_to(tmp_path / "disk")
    assert looked(root).exit_code == 0


DROP_OVERRIDE = ("--bounding-set", "--inh-caps")
"""What makes setpriv take from root the right to read what its mode forbids."""


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root reads every folder"
)
@pytest.mark.parametrize(
    ("folder", "mode", "named"),
    [(".", 0o444, "train"), ("val", 0o000, "val"), ("train/deep", 0o444, "train/deep/four.JPEG")],
)
def test_a_folder_that_this_user_may_not_read_is_named(
    tmp_path: Path, folder: str, mode: int, named: str
):
    root = tmp_path / "own"
    (root / "train" / "deep").mkdir(parents=True)
    (root / "val").mkdir()
    (root / "train" / "deep" / "four.JPEG").touch()
    drop = [f"{option}=-dac_override,-dac_read_search" for option in DROP_OVERRIDE]
    podium = [sys.executable, "-m", "podium", "data", "resnet50", "--data", str(root)]
    (root / folder).chmod(mode)
    try:
        ran = subprocess.run(
            ["setpriv", *drop, *podium] if os.geteuid() == 0 else podium,
            env={**os.environ, "PODIUM_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (root / folder).chmod(0o755)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.splitlines()[-1].endswith(
        f"{root / named}: cannot be read (Permission denied); check its permissions and its disk"
    )


def test_the_first_rank_of_each_machine_looks(root: Path):
    """Eight looks at once would be one look's time eight times; the others wait, and read."""
    request = resolve_request(options(root.parent / "results", data=root), "fake")
    run = request.build_run(1, Precision.FP32)
    order: list[str] = []
    for local_rank in (0, 1):
        ranks: Any = SimpleNamespace(
            local_rank=local_rank,
            wait_for_ranks=lambda: order.append(f"waited after {Words.looks}"),
        )
        assert add_survey_results_on_ranks(
            request, replace(run, local_rank=local_rank), ranks
        ).found == {"words": ["one", "two", "three"]}
    assert order == ["waited after 1"] * 2


def test_a_workload_without_a_data_set_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A third party's need not have one; the command says so."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    request = resolve_request(options(tmp_path / "results"), "fake")
    assert add_survey_results(request, request.build_run(1, Precision.FP32)).found is None
    done = CliRunner().invoke(command, ["fake"])
    assert isinstance(done.exception, RequestError) and done.exception.exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fak"], "did you mean 'fake'"),
        (["fake", "--data", "/nowhere"], "no such folder"),
        (["resnet50", "--profile", "full"], "--data"),
    ],
)
def test_wrong_requests_are_exit_2(words: list[str], told: str):
    done = CliRunner().invoke(command, words)
    assert (
        isinstance(done.exception, PodiumError)
        and done.exception.exit_code == 2
        and told in str(done.exception)
    )


def test_the_command_completes_like_the_others():
    """In the shell, by name and by option."""
    complete = ShellComplete(group, {}, "podium", "_PODIUM_COMPLETE")
    assert [item.value for item in complete.get_completions([], "dat")] == ["data"]
    assert {"--data", "--profile", "--set", "--format"} <= {
        item.value for item in complete.get_completions(["data", "fake"], "--")
    }
    assert data_survey.run_data_survey.__doc__
