"""The command line: light, and every failure one sentence with its documented exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from warm import Warm

from suite import cli, registry
from suite.console.options import ORGANISATION_NAME
from suite.errors import JudgedError, MissingError, RequestError, build_unknown_name_error

ROOT = Path(__file__).parents[2]
Podium = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """Load the command line once, and nothing heavy."""
    started = Warm("suite.cli")
    yield started
    started.end()


@pytest.fixture(scope="module")
def podium(warm: Warm) -> Podium:
    """Run the command in a fork of an interpreter that has loaded it."""
    return lambda *arguments: warm.run(arguments)


@pytest.mark.parametrize("command", sorted(registry.map_entry_points(registry.COMMAND_GROUP)))
def test_help_of_a_command_has_an_example_and_loads_no_framework(warm: Warm, command: str) -> None:
    """Start-up would cost seconds, and the light core would break."""
    result = warm.run([command, "--help"], launcher="light")
    assert result.returncode == 0, result.stderr
    assert f"podium {command}" in result.stdout.split("Example", 1)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("chek",), "did you mean 'check'"),
        (("train", "resnet51"), "did you mean 'resnet50'"),
        (("train", "resnet50", "--sed", "1"), "did you mean '--seed'"),
        (("train", "resnet50", "--set", "data.worker=1"), "did you mean 'data.workers'"),
        (("infer", "resnet50", "--engine", "tortch"), "did you mean 'torch'"),
        (("train", "resnet50", "--engine", "torch"), "--engine is an option of podium infer"),
        (("train", "resnet50", "--precision", "int4"), "'int4' is not one of 'fp32'"),
        (
            ("infer", "resnet50", "--scenario", "server", "--scenario", "offline"),
            "--scenario is given 2 times and takes one value",
        ),
        (
            ("run", "resnet50", "--scenario", "offline"),
            "podium infer resnet50 --scenario offline",
        ),
        (("train", "resnet50", "--data", "nowhere"), "no such folder"),
        (("infer", "resnet50", "--scenario", "ofline"), "did you mean 'offline'"),
    ],
)
def test_a_wrong_request_is_exit_2_with_the_nearest_name(
    arguments: tuple[str, ...],
    sentence: str,
    podium: Podium,
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user learns what was meant, without a traceback."""
    monkeypatch.chdir(str(tmp_path))
    result = podium(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_list_as_json(podium: Podium) -> None:
    """A program may read it."""
    found = json.loads(podium("list", "--format", "json").stdout)
    assert (
        "resnet50" in found["workloads"]
        and "torch" in found["engines"]
        and "podium-v1" in found["rounds"]
    )


@pytest.mark.slow
def test_list_says_what_a_workload_is_and_costs(podium: Podium) -> None:
    """Four lines of names did not say which one to begin with."""
    told = podium("list").stdout
    assert "data: smoke: from the workload's package;" in told
    assert ": generated" not in told
    for piece in (
        "ResNet-50 v1.5 image classification",
        "smoke top1 0.759",
        "val/<class>/<name>.JPEG",
    ):
        assert piece in told
    details = json.loads(podium("list", "--format", "json").stdout)["details"]
    assert details["gnmt"]["targets"]["smoke"] == {"bleu": 0.24}
    for name in ("gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer"):
        costs = details[name]
        assert (
            f"{costs['smoke_minutes']:g} minutes, {costs['smoke_memory_gb']:g} GB of memory" in told
        )


@pytest.mark.slow
def test_list_settings_gives_kind_value_and_meaning_of_each(podium: Podium) -> None:
    """The only list was the error of a wrong key."""
    told = podium("list", "settings", "gnmt").stdout
    assert (
        "batching.max_batch = 32  (int, 1 to 65,536)\n    largest batch that a worker takes" in told
    )
    assert "calibration.method = min-max  (min-max|entropy|percentile)" in told
    closed = podium("list", "settings", "gnmt", "--profile", "full").stdout
    assert "\nbatching.max_batch = 32  (int, 1 to 65,536; free)\n" in closed
    assert "\ndata.shuffle_labels = False  (bool; held)\n" in closed
    found = json.loads(
        podium("list", "settings", "gnmt", "--profile", "full", "--format", "json").stdout
    )["settings"]
    assert found["data.merges"]["kind"] == "int" and found["data.merges"]["value"] == 32000
    assert (
        podium("list", "settings").returncode,
        podium("list", "settings", "gnmd").returncode,
    ) == (2, 2)


@pytest.mark.slow
def test_rules_are_listed_by_both_names(podium: Podium) -> None:
    """`podium explain` asked for a rule that nobody could know."""
    told = podium("explain").stdout
    assert (
        told == podium("list", "rules").stdout
        and "\ntraining.target " in told
        and max(map(len, told.splitlines())) <= 100
    )
    rules = {
        rule["id"]: rule
        for rule in json.loads(podium("list", "rules", "--format", "json").stdout)["rules"]
    }
    assert rules["training.target"] == json.loads(
        podium("explain", "training.target", "--format", "json").stdout
    )
    assert rules["training.target"]["advice"] and f"{len(rules)} rules" in told


@pytest.mark.slow
def test_without_a_command_the_help_is_on_stdout(podium: Podium) -> None:
    """It stood on stderr, behind `podium: `."""
    result = podium()
    assert (result.returncode, result.stderr) == (2, "") and result.stdout == podium(
        "--help"
    ).stdout
    assert podium("train").stderr.splitlines() == [
        "podium: Missing argument 'WORKLOAD'; see podium train --help"
    ]
    assert podium("study").stderr.splitlines() == [
        "podium: a command is missing; see podium study --help"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "begun", "names"),
    [
        ("podium infer", "res", {"resnet50"}),
        ("podium infer resnet50 --engine", "onn", {"onnxruntime"}),
        ("podium infer resnet50 --scenario", "s", {"server", "single-stream"}),
        ("podium explain", "training.targ", {"training.target"}),
        ("podium list", "s", {"settings"}),
    ],
)
def test_the_shell_completes_names(warm: Warm, words: str, begun: str, names: set[str]) -> None:
    """Workloads, engines, scenarios and rules; click writes `kind,name` lines."""
    environment = {
        "_PODIUM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"{words} {begun}",
        "COMP_CWORD": str(len(words.split())),
    }
    result = warm.run([], env={**os.environ, **environment})
    assert {line.partition(",")[2] for line in result.stdout.splitlines()} == names


def test_help_names_the_choices(podium: Podium) -> None:
    told = podium("infer", "--help-all").stdout
    assert (
        "onnxruntime|" in told
        and "server|" in told.replace("\n", "")
        and "[default|" in told.replace("dali|default", "default|")
    )


@pytest.mark.parametrize(
    ("command", "pieces", "absent"),
    [
        ("train", ["a GPU if there is one"], ["several GPUs", "--engine"]),
        ("import", ["without training"], ["--device", "--threads"]),
        ("precision", ["a GPU if there is one"], ["several GPUs"]),
        ("infer", ["several GPUs: cuda:0-7,9", "becomes the first performance run"], []),
        ("peak", ["several GPUs: cuda:0-7,9"], ["is the result"]),
        ("audit", ["several GPUs: cuda:0-7,9"], []),
        ("serve", ["several GPUs: cuda:0-7,9"], []),
        ("run", ["if it is `all`"], ["several GPUs"]),
        ("data", ["required for quick and full"], []),
        ("check", ["[PATH...]", "2: the request is wrong"], []),
    ],
)
def test_help_is_about_the_command_itself(
    podium: Podium, command: str, pieces: list[str], absent: list[str]
) -> None:
    """`train` explained what `infer` accepts, and `check` required a PATH that --config does not."""
    told = " ".join(podium(command, "--help").stdout.split())
    assert [piece for piece in pieces if piece not in told] == []
    assert [piece for piece in absent if piece in told] == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JudgedError("j"), 1),
        (RequestError("r"), 2),
        (MissingError("m"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_their_exit_codes(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts rely on them."""

    @click.command()
    def failing() -> None:
        raise error

    sys.argv = ["podium"]
    with pytest.raises(SystemExit) as exit:
        cli.main(failing)
    assert exit.value.code == code
    assert "podium: " in capsys.readouterr().err


def test_a_command_whose_import_fails_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is one clear sentence, never a traceback."""
    from importlib.metadata import EntryPoint, distribution

    point = EntryPoint(
        name="broken", value="not_installed_anywhere:thing", group=registry.COMMAND_GROUP
    )._for(distribution("podium-suite"))
    monkeypatch.setattr(registry, "map_entry_points", lambda _group: {"broken": point})
    with pytest.raises(MissingError, match=r"needs not_installed_anywhere: pip install .*\[run\]'"):
        registry.load_entry_point(registry.COMMAND_GROUP, "command", "broken")


def test_the_command_runs_as_a_module_too() -> None:
    """Where a virtual environment's scripts are not in the path."""
    done = subprocess.run(
        [sys.executable, "-m", "podium", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "podium,")


def test_a_known_name_with_a_comma_is_one_name() -> None:
    error = build_unknown_name_error("organisation", "x", ["Acme, Inc.", "Beta"])
    assert str(error) == "unknown organisation 'x'; known: 'Acme, Inc.', Beta"


def test_unknown_without_a_near_name_lists_what_is_known() -> None:
    """A far-off name gets the whole list."""
    assert "known: a, b" in str(build_unknown_name_error("thing", "zzzz", ["b", "a"]))


@pytest.mark.parametrize(
    "org", ["../../../esc", "..", ".", "a/b", "", "-x", "a b", "ä", "a\n", "x" + "/.."]
)
@pytest.mark.parametrize("command", ["train", "infer", "precision", "run"])
def test_an_organisation_is_one_folder_of_the_results(
    command: str, org: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--org ../../../esc` wrote two levels above the results folder; exit 2 now, and nothing is
    written.
    """
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["podium", command, "gnmt", f"--org={org}"])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 2 and not list(Path(str(tmp_path)).iterdir())


@pytest.mark.parametrize("option", ["--org", "--system"])
@pytest.mark.parametrize("command", ["train", "infer", "precision", "run"])
def test_a_name_too_long_for_a_file_is_refused_at_once(
    command: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a set in place, 300 characters ended in a traceback; else after preparing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["podium", command, "gnmt", option, "y" * 300])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    told = " ".join(capsys.readouterr().err.split())
    assert leaving.value.code == 2 and "has 300 characters; use at most 200" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("org", ["acme", "Acme-2.0_x", "..a", "_"])
def test_a_plain_organisation_is_taken(org: str) -> None:
    assert ORGANISATION_NAME.fullmatch(org)


@pytest.mark.parametrize(
    "words",
    [
        ("train", "gnmt", "--results", ""),
        ("infer", "gnmt", "--data", ""),
        ("pack", "", "-o", "x"),
        ("train", "gnmt", "--threads", "100000"),
        ("train", "gnmt", "--seed", "18446744073709551616"),
        ("run", "gnmt", "--seed", "9223372036854775808"),
    ],
)
def test_an_empty_path_and_numbers_out_of_range_are_refused(
    words: tuple[str, ...],
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--results ""` wrote into the current folder; 100 threads on 2 cores wait for one another; a
    seed of more than 64 bits could not be set up.
    """
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["podium", *words])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    told = capsys.readouterr().err
    assert (
        leaving.value.code == 2
        and ("the path is empty" in told or "CPU cores" in told or "not in the range" in told)
        and len(told.splitlines()) == 1
    )


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize(
    ("workload", "wanted"),
    [
        ("gnmt", "train.de"),
        ("transformer", "test.en"),
        ("ssd", "val2017"),
        ("maskrcnn", "COCO"),
        ("minigo", ".sgf"),
        ("resnet50", ".JPEG"),
    ],
)
def test_a_profile_about_real_data_wants_them(
    workload: str,
    wanted: str,
    profile: str,
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`train gnmt --profile full` trained on the embedded grammar, in the closed division; nothing
    is written now.
    """
    monkeypatch.chdir(str(tmp_path))
    for command in ("train", "infer", "precision", "run"):
        monkeypatch.setattr(sys, "argv", ["podium", command, workload, "--profile", profile])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        told = capsys.readouterr().err
        assert (
            (leaving.value.code, len(told.splitlines())) == (2, 1)
            and "needs --data DIR" in told
            and wanted in told
        )
    assert not list(Path(str(tmp_path)).iterdir())


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (
            "import",
            {
                "--engine",
                "--precision",
                "--input",
                "--org",
                "--system",
                "--system-file",
                "--power",
                "--meter",
                "--device",
                "--threads",
            },
        ),
        ("serve", {"--org", "--power", "--meter", "--input"}),
        ("audit", {"--power", "--meter"}),
        ("train", {"--engine"}),
    ],
)
def test_a_command_offers_only_options_that_it_uses(command: str, missing: set[str]) -> None:
    """`import --meter`, `serve --power` were accepted, and did nothing."""
    loaded = registry.load_entry_point(registry.COMMAND_GROUP, "command", command)
    offered = {
        name
        for parameter in loaded.params
        if not (isinstance(parameter, click.Option) and parameter.hidden)
        for name in parameter.opts
    }
    every = {f"--{name.replace('_', '-')}" for name in cli.RunOptions.__dataclass_fields__}
    assert (every - {"--assignments"} | {"--set"}) - offered == missing


@pytest.mark.parametrize(
    ("flags", "variables", "way_out"),
    [
        ([], {"PYTHONOPTIMIZE": "2"}, "unset PYTHONOPTIMIZE (it is 2)"),
        (["-OO"], {}, "start Python without -OO"),
    ],
)
def test_python_that_drops_docstrings_is_a_sentence(
    flags: list[str], variables: dict[str, str], way_out: str
) -> None:
    """The judge's rules are docstrings; they ended in a traceback."""
    result = subprocess.run(
        [sys.executable, *flags, "-m", "suite.cli", "explain", "round.known"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert result.returncode == MissingError.exit_code
    assert result.stderr == f"podium: podium needs its docstrings: {way_out}\n"
