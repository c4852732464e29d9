"""One fact stands in several documents of a campaign: each contradiction is named with both."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import ledgers
import pytest
from spoiling import put, swap

from compliance.bundle.archive import unpack_bundle
from compliance.documents.facts import Fact, Place, StatedFacts, StatingDocument
from compliance.judge import Judge
from compliance.kinds.podium.facts.places import read_built_values
from compliance.kinds.podium.facts.table import (
    CAMPAIGN_FACTS,
    RUN_FACTS,
    SCENARIO_FACTS,
    Column,
)
from compliance.verdict import Severity
from suite.ledger.steps import LedgerStep, StepKind, parse_ledger

ROOT: Final = Path(__file__).parents[4]
EXAMPLE: Final = ROOT / "examples" / "resnet50-smoke.tar.zst"
PAGE: Final = ROOT / "docs" / "reference" / "judge-facts.md"
MEASURED: Final = "open/*/measurements/*/resnet50/{}/*.json"
SERVED: Final = "open/*/results/*/resnet50/*/system.json"
RUN: Final = "open/*/results/*/resnet50/*/performance/run_1/run.json"
LOG: Final = "open/*/results/*/resnet/result_0.txt"
SERVING_SYSTEM: Final = "open/*/systems/*-onnxruntime-fp32.json"
TRAINING_SYSTEM: Final = "open/*/systems/*-torch-fp32.json"
ERROR, WARNING = Severity.ERROR, Severity.WARNING
Forgery = Callable[[Path], None]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign that podium ships, whose documents the program itself wrote."""
    folder = tmp_path_factory.mktemp("campaign") / "bundle"
    unpack_bundle(EXAMPLE, folder)
    return folder


@pytest.fixture
def results(campaign: Path, tmp_path: Path) -> Path:
    """Its results folder, to be forged."""
    folder = tmp_path / "results"
    for name in ("open", "checkpoints"):
        shutil.copytree(campaign / name, folder / name)
    return folder


def change(pattern: str, edit: Callable[[Path], object]) -> Forgery:
    """Edit each file that a pattern finds."""

    def forge(root: Path) -> None:
        paths = sorted(root.glob(pattern))
        assert paths, pattern
        for path in paths:
            edit(path)

    return forge


def all_of(*forgeries: Forgery) -> Forgery:
    def forge(root: Path) -> None:
        for each in forgeries:
            each(root)

    return forge


def in_built(scenario: str = "*", **fields: object) -> Forgery:
    """What the engine says of the network."""
    named = {f"engine_description__resnet50__{key}": value for key, value in fields.items()}
    return change(MEASURED.format(scenario), put(**named))


def in_served(**fields: object) -> Forgery:
    return change(SERVED, put(**fields))


def in_ledger(edit: Callable[[LedgerStep], dict[str, Any]]) -> Forgery:
    """Change fields of every step."""

    def rewrite(path: Path) -> None:
        steps = [
            LedgerStep(**{**asdict(step), **edit(step)}) for step in parse_ledger(path.read_bytes())
        ]
        path.write_bytes(ledgers.chained(steps))

    return change("open/*/ledger/resnet50.jsonl", rewrite)


def in_options(what: str, **options: object) -> Forgery:
    """Change the options of the steps that begin something."""
    named = {key.replace("__", " ", 1): value for key, value in options.items()}

    def edit(step: LedgerStep) -> dict[str, Any]:
        if step.step is not StepKind.BEGIN or step.what != what:
            return {}
        return {"options": {**step.options, **named}}

    return in_ledger(edit)


FORGED: Final[list[tuple[str, Forgery, str, str, Severity]]] = [
    (
        "the optimisation of the graph",
        in_built(graph_optimization="none"),
        "setting engine.graph_optimization 'none' in engine_description of resnet50",
        "'all', as in system.json",
        ERROR,
    ),
    (
        "the threads of the network",
        in_built(threads=1),
        "threads 1 in engine_description of resnet50",
        "threads of one worker 2, as in system.json",
        ERROR,
    ),
    (
        "a GPU whose engine ran on the processor",
        in_served(device="cuda:0"),
        "provider 'CPUExecutionProvider' in engine_description of resnet50",
        "device 'cuda:0', as in system.json",
        ERROR,
    ),
    (
        "training on a GPU with a build for processors",
        change(LOG, swap('"key": "device", "value": "cpu"', '"key": "device", "value": "cuda:0"')),
        "device of the build 'cpu' in podium.packages",
        "device 'cuda:0', as in result_0.txt",
        ERROR,
    ),
    (
        "another version of podium",
        in_served(version="9.0.0"),
        "package podium-suite '0.2.0'",
        "version '9.0.0', as in system.json",
        WARNING,
    ),
    (
        "an older version of podium than its engine has",
        in_served(version="0.0.9"),
        "package podium-suite '0.2.0'",
        "version '0.0.9', as in system.json",
        ERROR,
    ),
    (
        "the framework's version where it trained",
        change(TRAINING_SYSTEM, put(podium__packages__torch="1.0.0")),
        "package torch '1.0.0' in podium.packages",
        "'2.13.0+cpu', as in 2c-amd-epyc-torch-fp32.json",
        WARNING,
    ),
    (
        "the version of Python",
        change(SERVING_SYSTEM, put(podium__python="2.7.1")),
        "Python '2.7.1' in podium.packages",
        "'3.11.2', as in 2c-amd-epyc-onnxruntime-fp32.json",
        WARNING,
    ),
    (
        "threads in the ledger's options of serving",
        in_options("performance", threads=8),
        "threads 8 in step",
        "2, as in system.json",
        ERROR,
    ),
    (
        "the seed in the ledger's options",
        in_options("training", seed=5),
        "seed of run 0 5",
        "1208213562, as in result_0.txt",
        ERROR,
    ),
    (
        "momentum in the ledger's options",
        in_options("training", setting__lars_opt_momentum=0.5),
        "setting lars_opt_momentum 0.5",
        "0.9, as in result_0.txt",
        ERROR,
    ),
    (
        "the ledger of another campaign",
        in_ledger(lambda step: {"nonce": "ab" * 16 if step.nonce else ""}),
        f"nonce '{'ab' * 16}'",
        "campaign_nonce 'cee13fe314f657111e18f60a199c81ec', as in result_0.txt",
        ERROR,
    ),
    (
        "the engine's file of one scenario",
        in_built("Server", file="ab" * 32),
        f"file '{'ab' * 32}' in engine_description of resnet50",
        "as in engine_description of resnet50 of 2c-amd-epyc-onnxruntime-fp32_podium_",
        WARNING,
    ),
    (
        "a checkpoint of another seed",
        change("checkpoints/*/*/record.json", put(seed=7)),
        "seed 7",
        "1208213562, as in result_0.txt",
        ERROR,
    ),
]


def iterate_found(root: Path) -> Iterator[tuple[str, str, Severity]]:
    for each in Judge().judge_path(str(root)).findings:
        if each.rule == "facts.agree":
            yield each.found, each.required, each.severity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "forge", "found", "required", "severity"), FORGED, ids=[case[0] for case in FORGED]
)
def test_what_two_documents_state_is_compared(
    results: Path, what: str, forge: Forgery, found: str, required: str, severity: Severity
) -> None:
    """One edit in one document, and nothing else of the campaign told of it."""
    forge(results)
    assert any(
        told.startswith(found) and required in wanted and severity is weight
        for told, wanted, weight in iterate_found(results)
    ), list(iterate_found(results))


def test_what_the_program_wrote_agrees(results: Path) -> None:
    assert list(iterate_found(results)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "pinned", "holds"), [(2, False, False), (1, False, True), (2, True, True)]
)
def test_workers_share_the_threads(results: Path, threads: int, pinned: bool, holds: bool) -> None:
    """A network has as many as its worker; a pinned instance has no more than its cores."""
    in_served(**{"settings__batching.workers": 2})(results)
    in_built(threads=threads)(results)
    if pinned:
        instance = {"cores": [0], "batches": 1, "samples": 1}
        change(RUN, put(instances=[instance, instance]))(results)
    told = [found for found, _, _ in iterate_found(results) if found.startswith("threads")]
    assert (told == []) is holds


def test_a_library_under_another_s_name_tells_no_version_of_it() -> None:
    """TensorRT for RTX has versions of its own."""
    stated = {"tensorrt": "1.7.1", "library": "TensorRT for RTX"}
    assert "package tensorrt" not in read_built_values(stated)
    assert read_built_values({"tensorrt": "10.1"})["package tensorrt"] == "10.1"


ABSENT: Final[list[tuple[str, Forgery]]] = [
    ("no step of the ledger", change("open/*/ledger/*.jsonl", Path.unlink)),
    ("no measurements", change(MEASURED.format("*"), Path.unlink)),
    (
        "a framework and software in a person's words",
        change(
            SERVING_SYSTEM, put(framework="PyTorch, Torch nightly", other_software_stack="CUDA")
        ),
    ),
    ("options of an older podium", in_ledger(lambda step: {"options": {}})),
    ("no package of the engine", in_served(engine_package="")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "leave_out"), ABSENT, ids=[case[0] for case in ABSENT])
def test_what_a_document_leaves_out_contradicts_nothing(
    results: Path, what: str, leave_out: Forgery
) -> None:
    """Whether a document has to be there is another rule's question."""
    leave_out(results)
    assert list(iterate_found(results)) == []


def test_only_two_values_contradict_each_other() -> None:
    """Stated, absent, and contradicted are three."""
    documents = [
        StatingDocument(kind="a", file=Path(name), values=values)
        for name, values in (
            ("first", {"threads": None}),
            ("second", {"threads": 2}),
            ("third", {}),
            ("fourth", {"threads": 2}),
            ("fifth", {"threads": 3}),
        )
    ]
    fact = Fact(name="threads", places=(Place("a", "threads"),))
    [found] = StatedFacts(
        subject=Path("run"), facts=[fact], documents=documents
    ).find_contradictions()
    assert (found.first.document.name, found.first.value) == ("second", 2)
    assert (found.other.document.name, found.other.value) == ("fifth", 3)


def test_the_page_names_every_fact_and_every_document_of_the_table() -> None:
    """A row that nobody can read about would be found by accident."""
    text = PAGE.read_text("utf-8")
    facts = [*RUN_FACTS, *CAMPAIGN_FACTS, *SCENARIO_FACTS]
    assert [fact.name for fact in facts if fact.name not in text] == []
    assert [column.value for column in Column if column.value not in text] == []


def test_the_ledger_of_the_example_states_what_is_compared(campaign: Path) -> None:
    """Else the cases above would compare nothing."""
    steps = list(parse_ledger(next(campaign.glob("open/*/ledger/*.jsonl")).read_bytes()))
    begun = [step.options for step in steps if step.step is StepKind.BEGIN]
    assert {"seed", "setting lars_opt_momentum", "device"} <= begun[0].keys()
    assert all("threads" in options for options in begun[1:])
    assert json.loads(next(campaign.glob(SERVED)).read_text())["settings"]["batching.workers"] == 1
