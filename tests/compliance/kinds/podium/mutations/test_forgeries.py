"""What somebody might do to a whole campaign so that it tells of a better one: each is found by the
rule that is there for it.

A forgery changes every file that would contradict it at first sight; what is left is found by
arithmetic, by LoadGen's own draws, or by another document.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import making
import pytest
from making import SHA256, compute_bound_seed
from spoiling import put, set_value, swap, value_in
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.documents.inference import POWER_TIME_FORMAT
from compliance.loadgen_replay import MersenneTwister, take_first_values
from compliance.verdict import Severity
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, SUMMARY_LOG, compute_file_sha256
from suite.loadgen.scenario import Scenario

Forgery = Callable[[Path], None]
ENTRIES = "open/acme/results/box-torch-fp32/resnet50"
LOG = "open/acme/results/box-torch-bf16/resnet/result_0.txt"
pytestmark = pytest.mark.usefixtures("counted_once")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of all scenarios."""
    root = making.write_tree(tmp_path_factory.mktemp("made") / "results", *Scenario)
    assert Judge().judge_path(str(root)).findings == ()
    return root


@pytest.fixture
def tree(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be forged."""
    return Path(shutil.copytree(made, tmp_path / "results", symlinks=True))


def run_of(tree: Path, scenario: str) -> Path:
    return tree / ENTRIES / scenario / "performance" / "run_1"


def scaled(scenario: str, factor: float, *keys: str) -> Forgery:
    """Multiply figures of a run, in the detail log and the summary alike."""

    def forge(tree: Path) -> None:
        run = run_of(tree, scenario)
        summary = (run / SUMMARY_LOG).read_text()
        for key in (key for pattern in keys for key in found_keys(run, pattern)):
            old = value_in(run / DETAIL_LOG, key)
            new = float(f"{old * factor:.6g}") if isinstance(old, float) else int(old * factor)
            set_value(run / DETAIL_LOG, key, new)
            summary = re.sub(
                rf"(?<=: ){re.escape(printed(old))}$", printed(new), summary, flags=re.MULTILINE
            )
        (run / SUMMARY_LOG).write_text(summary)
        words(run)

    return forge


def printed(value: float) -> str:
    """As the summary has it."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def found_keys(run: Path, pattern: str) -> Iterator[str]:
    """Name the keys of a detail log that match."""
    yield from (
        key
        for key in re.findall(r'"key": "([^"]+)"', (run / DETAIL_LOG).read_text())
        if re.fullmatch(pattern, key)
    )


def words(run: Path) -> None:
    """Write the early-stopping lines anew, from the detail log's numbers."""
    text = value_in(run / DETAIL_LOG, "early_stopping_result")
    for key, percentile in (
        ("early_stopping_latency_ss", "90.0"),
        ("early_stopping_latency_ms", "99.0"),
    ):
        if list(found_keys(run, key)):
            text = re.sub(
                rf"(stopping {percentile}th percentile estimate: )\d+",
                rf"\g<1>{value_in(run / DETAIL_LOG, key)}",
                text,
            )
            told = (run / SUMMARY_LOG).read_text()
            (run / SUMMARY_LOG).write_text(
                re.sub(
                    rf"(stopping {percentile}th percentile estimate: )\d+",
                    rf"\g<1>{value_in(run / DETAIL_LOG, key)}",
                    told,
                )
            )
    set_value(run / DETAIL_LOG, "early_stopping_result", text)


def in_summary(scenario: str, old: str, new: str) -> Forgery:
    return lambda tree: swap(old, new)(run_of(tree, scenario) / SUMMARY_LOG)


def in_detail(scenario: str, **values: Any) -> Forgery:
    """Change values of a detail log."""

    def forge(tree: Path) -> None:
        for key, value in values.items():
            set_value(run_of(tree, scenario) / DETAIL_LOG, key, value)

    return forge


def in_log(old: str, new: str) -> Forgery:
    return lambda tree: swap(old, new)(tree / LOG)


def in_records(**fields: Any) -> Forgery:
    """Change a field of all systems, with the digests that name them, and of the measurements."""

    def forge(tree: Path) -> None:
        for path in tree.rglob("system.json"):
            put_system(**fields)(path)
        for path in tree.rglob("*_podium_*.json"):
            put(**fields)(path)

    return forge


def in_runs(**fields: Any) -> Forgery:
    """Change fields of all runs' records."""

    def forge(tree: Path) -> None:
        for path in tree.rglob("run.json"):
            put(**fields)(path)

    return forge


def in_system(**fields: Any) -> Forgery:
    """Change fields of a system description."""
    return lambda tree: put(**fields)(tree / "open/acme/systems/box-torch-fp32.json")


def early_headline(tree: Path) -> None:
    """MultiStream's estimate lowered to the percentile, wherever it stands: so few queries prove
    the largest latency alone.
    """
    run = run_of(tree, "MultiStream")
    low = value_in(run / DETAIL_LOG, "result_99.00_percentile_per_query_latency_ns")
    set_value(run / DETAIL_LOG, "early_stopping_latency_ms", low)
    words(run)


def another_campaign(tree: Path) -> None:
    """Everything renamed to another campaign: nonce, and the seed that is made of it."""
    nonce = "ab" * 16
    for path in (path for path in tree.rglob("*") if path.is_file()):
        text = path.read_text()
        path.write_text(
            text.replace(making.NONCE, nonce).replace(
                str(compute_bound_seed(making.NONCE, SHA256)),
                str(compute_bound_seed(nonce, SHA256)),
            )
        )


def other_scenarios_answers(tree: Path) -> None:
    """Server's accuracy run is SingleStream's, under its name."""
    own, other = (
        tree / ENTRIES / "Server" / "accuracy",
        tree / ENTRIES / "SingleStream" / "accuracy",
    )
    for key in ("power_begin", "power_end"):
        set_value(own / DETAIL_LOG, key, value_in(other / DETAIL_LOG, key))
    shutil.copy(other / ACCURACY_LOG, own / ACCURACY_LOG)


def second_system(tree: Path) -> None:
    """The same logs under two systems."""
    home = tree / "open/acme"
    for name in ("results", "measurements"):
        shutil.copytree(home / name / "box-torch-fp32", home / name / "tower-torch-fp32")
    shutil.copy(home / "systems/box-torch-fp32.json", home / "systems/tower-torch-fp32.json")
    for path in (
        *home.rglob("*tower-torch-fp32/**/*.json"),
        home / "systems/tower-torch-fp32.json",
    ):
        path.write_text(path.read_text().replace("box-torch-fp32", "tower-torch-fp32"))
    for path in home.glob("measurements/tower-torch-fp32/**/*.json"):
        path.rename(path.with_name(path.name.replace("box-", "tower-")))


def perfect_answers(tree: Path) -> None:
    """The answers typed from the packed labels, in all logs."""
    for path in tree.rglob(ACCURACY_LOG):
        path.write_text(
            re.sub(
                r'"qsl_idx" : (\d+), "data" : "[0-9A-F]+"',
                lambda match: answer(int(match[1])),
                path.read_text(),
            )
        )
    for path in tree.rglob("accuracy/accuracy.txt"):
        path.write_text(
            f"top1=1.000000, hash={compute_file_sha256(path.with_name(ACCURACY_LOG))}\n"
        )


def answer(sample: int) -> str:
    return f'"qsl_idx" : {sample}, "data" : "{making.LABELS[sample]:02X}000000"'


def lowered_reference(tree: Path) -> None:
    """A bar that is 4.9 % lower, in all that tell of it."""
    for path in (tree / LOG, *tree.rglob("record.json"), *tree.rglob("*_podium_*.json")):
        text = re.sub(
            r'(reference_accuracy"(?:, "value")?: \{\s*"top1": )0\.875',
            r"\g<1>0.832",
            path.read_text(),
        )
        path.write_text(text)


def beside(scenario: str, name: str) -> Forgery:
    """A second folder of a scenario under almost the same name."""
    return lambda tree: shutil.copytree(tree / ENTRIES / scenario, tree / ENTRIES / name) and None


def elsewhere(tree: Path) -> None:
    """A performance run that is a link to a folder elsewhere."""
    run = run_of(tree, "Offline")
    shutil.move(run, tree.parent / "better")
    run.symlink_to(tree.parent / "better")


def hidden_division(name: str) -> Forgery:
    """A division that no one looks at."""
    return lambda tree: shutil.copytree(tree / "open", tree / name) and None


def hidden_organisation(tree: Path) -> None:
    """An organisation one level too deep."""
    shutil.copytree(tree / "open/acme", tree / "open/more/acme")


def squeezed(tree: Path) -> None:
    """Training in milliseconds, its throughput typed to match."""
    lines = []
    for number, line in enumerate((tree / LOG).read_text().splitlines(keepends=True)):
        record = json.loads(line.removeprefix(":::MLLOG "))
        value = (
            {"throughput": 4_800_000.0, "loss": 1.25}
            if record["key"] == "tracked_stats"
            else record["value"]
        )
        lines.append(
            ":::MLLOG "
            + json.dumps({**record, "value": value, "time_ms": making.START_MS + number})
            + "\n"
        )
    (tree / LOG).write_text("".join(lines))


def dated(days: float) -> Forgery:
    """The training run, moved to another day."""

    def forge(tree: Path) -> None:
        shift = int(days * 86_400_000)
        (tree / LOG).write_text(
            re.sub(
                r'"time_ms": (\d+)',
                lambda match: f'"time_ms": {int(match[1]) + shift}',
                (tree / LOG).read_text(),
            )
        )

    return forge


def ranks(number: int) -> Forgery:
    """A training run of so many ranks."""
    return in_log('"key": "world_size", "value": 1', f'"key": "world_size", "value": {number}')


def on_accelerators(tree: Path) -> None:
    """Eight ranks on one accelerator."""
    ranks(8)(tree)
    in_log('"key": "device", "value": "cpu"', '"key": "device", "value": "cuda:0"')(tree)
    for path in tree.glob("*/*/systems/*.json"):
        put(accelerators_per_node=1)(path)


def several_devices(device: str, described: int | None) -> Forgery:
    """All records name those accelerators, on a system that has so many."""

    def forge(tree: Path) -> None:
        in_records(device=device)(tree)
        in_system(accelerators_per_node=described)(tree)

    return forge


def second_organisation(tree: Path) -> None:
    """A campaign filed once more, under another organisation's name."""
    home, other = tree / "open/acme", tree / "open/bolt"
    shutil.copytree(home, other)
    for path in (
        path
        for path in other.rglob("*")
        if path.suffix in (".json", ".txt") and not path.name.startswith("mlperf_")
    ):
        path.write_text(path.read_text().replace('"acme"', '"bolt"'))


def one_epoch(tree: Path) -> None:
    """All epochs but the last taken out, which is told as the first."""
    events, kept, gone = (tree / LOG).read_text().splitlines(keepends=True), [], 0
    last = max(
        json.loads(line.removeprefix(":::MLLOG "))["metadata"].get("epoch_num", 0)
        for line in events
    )
    for line in events:
        record = json.loads(line.removeprefix(":::MLLOG "))
        number = record["metadata"].get(
            "epoch_num", record["metadata"].get("first_epoch_num", last)
        )
        if number == last:
            for name in ("epoch_num", "first_epoch_num"):
                record["metadata"] |= {name: 1} if name in record["metadata"] else {}
            kept.append(":::MLLOG " + json.dumps(record) + "\n")
        else:
            gone += 1
    assert gone
    (tree / LOG).write_text("".join(kept))


def sooner(tree: Path) -> None:
    """Offline done in two thirds of the time, by all figures and by the stamps around its query."""
    scaled("Offline", 2 / 3, r"result_.*latency_ns")(tree)
    run = run_of(tree, "Offline")
    rate = float(
        f"{value_in(run / DETAIL_LOG, 'generated_samples_per_query') * 1e9 / value_in(run / DETAIL_LOG, 'result_max_latency_ns'):.6g}"
    )
    set_value(run / DETAIL_LOG, "result_samples_per_second", rate)
    swap(r"(Samples per second: ).*", rf"\g<1>{rate:g}")(run / SUMMARY_LOG)
    begin = datetime.strptime(value_in(run / DETAIL_LOG, "power_begin"), POWER_TIME_FORMAT)
    ended = begin + timedelta(
        microseconds=value_in(run / DETAIL_LOG, "result_max_latency_ns") / 1000
    )
    set_value(run / DETAIL_LOG, "power_end", ended.strftime(POWER_TIME_FORMAT)[:-3])


def undated(tree: Path) -> None:
    """A detail log without the one stamp that ties its clock to a day."""
    path = run_of(tree, "Offline") / DETAIL_LOG
    path.write_text(
        "".join(
            line
            for line in path.read_text().splitlines(keepends=True)
            if '"test_datetime"' not in line
        )
    )


def late_clock(tree: Path) -> None:
    """Everything before run_start, two minutes earlier: an epoch fits between."""
    before, mark, after = (
        (tree / LOG)
        .read_text()
        .partition(
            next(
                line for line in (tree / LOG).read_text().splitlines(True) if '"run_start"' in line
            )
        )
    )
    before = re.sub(
        r'"time_ms": (\d+)', lambda match: f'"time_ms": {int(match[1]) - 120_000}', before
    )
    (tree / LOG).write_text(before + mark + after)


def all_at_once(tree: Path) -> None:
    """Every LoadGen run at the moment at which the first began, to the millisecond."""
    for path in tree.rglob(DETAIL_LOG):
        set_value(path, "power_begin", "11-14-2023 23:30:00.000")
        set_value(path, "power_end", "11-14-2023 23:30:08.000")


FIGURES = (r"result_.*latency_ns", "early_stopping_latency_.*")
FORGED: list[tuple[str, Forgery, str, Severity]] = [
    (
        "a second estimate of another spelling",
        in_summary(
            "SingleStream",
            r"( \* Early stopping 90)",
            r" * Early stopping 90.0rd percentile estimate: 1000\n\g<1>",
        ),
        "loadgen.summary",
        Severity.ERROR,
    ),
    (
        "a percentile that LoadGen does not write",
        in_summary("SingleStream", r"(90.0th percentile)", r"1st percentile latency : 5\n\g<1>"),
        "loadgen.summary",
        Severity.ERROR,
    ),
    (
        "full-width digits in the summary",
        in_summary("Offline", r"Samples per second: 4", "Samples per second: \uff14"),
        "loadgen.summary",
        Severity.ERROR,
    ),
    (
        "digits with an underscore",
        in_summary("Server", r"(Completed samples per second    : \d)", r"\g<1>_"),
        "loadgen.summary",
        Severity.ERROR,
    ),
    (
        "the headline lowered to the percentile",
        early_headline,
        "loadgen.early_stopping",
        Severity.ERROR,
    ),
    (
        "SingleStream in half the time",
        scaled("SingleStream", 0.49, *FIGURES),
        "loadgen.streams",
        Severity.ERROR,
    ),
    (
        "MultiStream in half the time",
        scaled("MultiStream", 0.49, *FIGURES),
        "loadgen.streams",
        Severity.ERROR,
    ),
    ("Offline in two thirds of the time", sooner, "loadgen.clocks", Severity.ERROR),
    (
        "a better mean",
        scaled("SingleStream", 0.9, "result_mean_latency_ns"),
        "loadgen.percentiles",
        Severity.ERROR,
    ),
    (
        "Server at twice the rate",
        scaled("Server", 2.0, ".*_samples_per_sec", ".*target_qps"),
        "loadgen.draws",
        Severity.ERROR,
    ),
    (
        "Server completes what it was sent",
        scaled("Server", 1.01, "result_completed_samples_per_sec"),
        "loadgen.last",
        Severity.ERROR,
    ),
    (
        "Offline a hundredth faster",
        scaled("Offline", 1.01, "result_samples_per_second"),
        "loadgen.rate",
        Severity.ERROR,
    ),
    ("another campaign's runs", another_campaign, "loadgen.draws", Severity.ERROR),
    (
        "other samples loaded",
        in_detail("Server", loaded_qsl_set=list(range(1008))),
        "loadgen.library",
        Severity.WARNING,
    ),
    ("another scenario's answers", other_scenarios_answers, "tree.distinct", Severity.ERROR),
    ("the same logs under two systems", second_system, "tree.distinct", Severity.ERROR),
    ("answers from the labels", perfect_answers, "accuracy.excess", Severity.ERROR),
    ("a lower bar", lowered_reference, "training.reference_level", Severity.ERROR),
    (
        "an accuracy typed up",
        in_log('"value": 0.875', '"value": 0.8951'),
        "training.grain",
        Severity.ERROR,
    ),
    (
        "an accuracy typed to reach the target",
        in_log('"value": 0.875', f'"value": {766 / 1008}'),
        "training.reference_level",
        Severity.ERROR,
    ),
    ("a second Offline", beside("Offline", "offline"), "tree.folders", Severity.ERROR),
    (
        "a second Offline, on its own",
        beside("Offline", "offline"),
        "entry.scenario",
        Severity.ERROR,
    ),
    ("a division in capitals", hidden_division("Closed"), "tree.folders", Severity.ERROR),
    ("a division with a space", hidden_division("closed "), "tree.folders", Severity.ERROR),
    ("a tree beside a division", hidden_division("more/open"), "tree.folders", Severity.WARNING),
    ("an organisation below another folder", hidden_organisation, "tree.folders", Severity.WARNING),
    ("a run that is a link", elsewhere, "tree.links", Severity.ERROR),
    (
        "a run numbered by a superscript",
        lambda tree: (
            run_of(tree, "Offline").rename(run_of(tree, "Offline").with_name("run_\u00b2")) and None
        ),
        "entry.runs",
        Severity.ERROR,
    ),
    ("training in milliseconds", squeezed, "training.pace", Severity.ERROR),
    (
        "an epoch that contradicts its throughput",
        in_log(r'("throughput": )\d+\.\d', r"\g<1>53.3"),
        "training.throughput",
        Severity.ERROR,
    ),
    (
        "steps that waited for their data",
        in_log(r'("throughput": \d+\.\d)', r'\1, "waited_for_data": 0.84'),
        "training.waiting",
        Severity.INFO,
    ),
    ("trained a day after it was served", dated(1), "tree.chronology", Severity.ERROR),
    ("trained years before", dated(-1200), "tree.chronology", Severity.ERROR),
    ("trained a season before", dated(-100), "tree.chronology", Severity.WARNING),
    ("the same logs of two organisations", second_organisation, "tree.distinct", Severity.ERROR),
    ("all runs at one moment", all_at_once, "tree.distinct", Severity.ERROR),
    (
        "batches above the largest",
        in_runs(batches__mean_size=1716.0),
        "entry.batches",
        Severity.ERROR,
    ),
    ("64 threads on two cores", in_records(threads=64), "tree.threads", Severity.ERROR),
    ("a device that is not there", in_records(device="cuda:0"), "tree.devices", Severity.ERROR),
    ("more devices than described", several_devices("cuda:0-2", 2), "tree.devices", Severity.ERROR),
    (
        "an engine of another package",
        in_records(engine_package="lookup 1.0, SHA-256 " + "ab" * 32),
        "entry.engine",
        Severity.ERROR,
    ),
    ("a field that no record has", in_records(watts=1.5), "file.shape", Severity.ERROR),
    (
        "a field that no description has",
        lambda tree: put(watts=1.5)(tree / "open/acme/systems/box-torch-fp32.json"),
        "file.shape",
        Severity.ERROR,
    ),
    (
        "accelerators beyond number",
        in_system(accelerators_per_node="many"),
        "system.counts",
        Severity.ERROR,
    ),
    (
        "fewer processors than none",
        in_system(host_processor_core_count=-2),
        "system.counts",
        Severity.ERROR,
    ),
    ("another engine", in_records(engine="tensorrt"), "entry.engine", Severity.ERROR),
    ("eighty ranks on one node of two cores", ranks(80), "tree.threads", Severity.ERROR),
    ("eight ranks on one node of two cores", ranks(8), "tree.threads", Severity.WARNING),
    ("ranks on accelerators that are not there", on_accelerators, "tree.threads", Severity.ERROR),
    ("epochs that are cut out", one_epoch, "training.fewest_epochs", Severity.ERROR),
    (
        "no name",
        in_log('"key": "submission_org", "value": "acme"', '"key": "submission_org", "value": " "'),
        "training.environment",
        Severity.ERROR,
    ),
    (
        "weights of another network",
        lambda tree: (
            [
                (path.parent / "model.safetensors").write_bytes(b"x")
                for path in tree.rglob("record.json")
            ]
            and None
        ),
        "checkpoint.weights",
        Severity.ERROR,
    ),
    (
        "a loss that no cross-entropy has",
        in_log('"loss": 1.25', '"loss": -5.0'),
        "training.stats",
        Severity.ERROR,
    ),
    ("an engine of no package", in_records(engine_package=""), "entry.engine", Severity.WARNING),
    (
        "processors that nobody counted",
        in_system(host_processor_core_count=None),
        "system.unknown",
        Severity.WARNING,
    ),
    (
        "SingleStream in three fifths of the time",
        scaled("SingleStream", 0.6, *FIGURES),
        "loadgen.streams",
        Severity.ERROR,
    ),
    (
        "MultiStream in three fifths of the time",
        scaled("MultiStream", 0.6, *FIGURES),
        "loadgen.streams",
        Severity.ERROR,
    ),
    (
        "a framework of another version",
        in_system(framework="torch 9.9.9"),
        "facts.agree",
        Severity.WARNING,
    ),
    (
        "an engine of another version",
        lambda tree: (
            [
                put(engine_description__resnet50={"torch": "9.9.9"})(path)
                for path in tree.rglob("*_podium_*.json")
            ]
            and None
        ),
        "facts.agree",
        Severity.WARNING,
    ),
    ("a run without the date of its test", undated, "loadgen.keys", Severity.ERROR),
    ("two minutes before the clock", late_clock, "training.init", Severity.WARNING),
    ("smoke told as full", in_records(profile="full"), "entry.profile", Severity.ERROR),
]


@pytest.mark.parametrize(
    ("what", "forge", "rule", "severity"), FORGED, ids=[case[0] for case in FORGED]
)
def test_a_forgery_is_found_by_the_rule_that_is_there_for_it(
    tree: Path, what: str, forge: Forgery, rule: str, severity: Severity
) -> None:
    forge(tree)
    found = {(finding.rule, finding.severity) for finding in Judge().judge_path(str(tree)).findings}
    assert (rule, severity) in found, f"{what}: only {sorted(found)}"


@pytest.mark.parametrize("scenario", list(Scenario))
@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_every_draw_hangs_on_its_seed(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """A run under other seeds: what its own draw is what is found, so no seed can be typed over
    another.
    """
    folder = (
        tmp_path / scenario.folder / ("accuracy" if mode == "accuracy" else "performance/run_1")
    )
    making.write_run(folder, making.LOADS[scenario], mode)
    rules: dict[str, set[str]] = {}
    for name in (
        "qsl_rng_seed",
        "sample_index_rng_seed",
        "schedule_rng_seed",
        "accuracy_log_rng_seed",
    ):
        copy = Path(shutil.copytree(folder, tmp_path / name / folder.relative_to(tmp_path)))
        set_value(copy / DETAIL_LOG, f"effective_{name}", 1)
        rules[name] = {finding.rule for finding in Judge().judge_path(str(copy)).findings} & {
            "loadgen.draws",
            "loadgen.library",
        }
    drawn = {"loadgen.draws"} if mode == "performance" else set()
    assert rules["qsl_rng_seed"] == {"loadgen.library"}
    assert rules["sample_index_rng_seed"] == (
        set() if scenario is Scenario.OFFLINE else {"loadgen.draws"}
    )
    assert rules["schedule_rng_seed"] == (drawn if scenario is Scenario.SERVER else set())
    assert rules["accuracy_log_rng_seed"] == (
        set() if scenario is Scenario.OFFLINE else drawn
    )  # of 22 samples all are logged


def test_the_generator_is_that_of_the_standard() -> None:
    """ISO C++ [rand.predef]: the 10,000th word of a default-seeded mt19937 is 4123659995."""
    draw = MersenneTwister(5489)
    assert [draw.random.getrandbits(32) for _ in range(10_000)][-1] == 4_123_659_995


@pytest.mark.parametrize("seed", [0, 5489, 2**62 + 12345])
def test_numbers_drawn_at_once_are_those_drawn_one_by_one(seed: int) -> None:
    """To the last bit: a chance that is rounded otherwise would call an honest log forged."""
    one, all_at_once = MersenneTwister(seed), MersenneTwister(seed)
    assert [one.generate_real() for _ in range(1000)] == all_at_once.generate_reals(1000).tolist()
    assert one.generate_real() == all_at_once.generate_real()


@pytest.mark.parametrize("scenario", list(Scenario))
@pytest.mark.parametrize("queries", [1, 2, 300])
def test_the_last_queries_are_due_as_in_the_whole_schedule(
    scenario: Scenario, queries: int
) -> None:
    """A stream has millions, of which the last three are looked at."""
    plan = replace(making.LOADS[scenario].plan(performance=True), queries=queries)
    due = [-1, *take_first_values(plan.replay_due_ns(), queries + 1)]
    assert plan.compute_last_due_ns() == tuple(due[-3:])


@pytest.mark.parametrize(
    ("device", "described"), [("cuda:0-1", 2), ("cuda:0,2", 3), ("cuda:1", 2), ("cuda:0-7", None)]
)
def test_a_system_has_the_devices_that_its_description_counts(
    tree: Path, device: str, described: int | None
) -> None:
    """The highest number is below the count; where nobody counted, nobody knows."""
    several_devices(device, described)(tree)
    assert "tree.devices" not in {
        finding.rule for finding in Judge().judge_path(str(tree)).findings
    }
