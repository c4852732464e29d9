"""Files of a run of the MLPerf Endpoints client, and of a submission of curves."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from compliance.token_counter import load_token_counter
from fuzzing.reading import Reader, judged
from fuzzing.seeds import EXAMPLES

EVENT_LINES: Final = 120
"""Lines of events that are spoilt; more repeat themselves."""
FILES: Final = (
    "performance/result_summary.json",
    "metrics/final_snapshot.json",
    "config.yaml",
    "sample_idx_map.json",
    "events.jsonl",
)
ANSWERS: Final = ("repeated", "reordered", "warm_up_data", "recount_tokens")
"""Rules about answers that need whole events; of each the example that breaks it is spoilt."""
POINT: Final = "results/box/deepseek-r1/r256"
ENTRY_FILES: Final = (
    "accuracy/accuracy_results.json",
    "audit/audit_output_caching_test.json",
    "audit/output_caching/performance/result_summary.json",
)
CURVE_FILES: Final = (
    f"{POINT}/point.yaml",
    f"{POINT}/result_summary.json",
    f"{POINT}/system_desc.json",
    f"{POINT}/accuracy_results.json",
    "results/box/system_power.json",
)


def client_runs(work: Path) -> Iterator[Reader]:
    """A run folder, of which one file is spoilt."""
    example = EXAMPLES / "endpoints" / "run"
    for name in FILES:
        run = Path(shutil.copytree(example, work / f"endpoints-{Path(name).name}" / "run"))
        events = (run / "events.jsonl").read_bytes().splitlines(keepends=True)[:EVENT_LINES]
        (run / "events.jsonl").write_bytes(b"".join(events))
        yield Reader(
            name=f"endpoints-{name}",
            file=run / name,
            seeds=[(run / name).read_bytes()],
            read=partial(judged, run),
            share=0.3,
        )


def answered_runs(work: Path) -> Iterator[Reader]:
    """A run folder whose events are spoilt, their tokens counted where a tokenizer lies beside."""
    for name in ANSWERS:
        example = EXAMPLES.parent / "invalid" / f"endpoints.{name}"
        home = Path(shutil.copytree(example, work / f"endpoints-answers-{name}"))
        tokenizer, events = home / "tokenizer.json", home / "run" / "events.jsonl"
        counter = load_token_counter(tokenizer) if tokenizer.is_file() else None
        yield Reader(
            name=f"endpoints-answers-{name}",
            file=events,
            seeds=[events.read_bytes()],
            read=partial(judged, home / "run", counter=counter),
            share=0.3,
        )


def audited_entries(work: Path) -> Iterator[Reader]:
    """An entry of Inference v6.1 with its caching test, of which one file is spoilt."""
    example = EXAMPLES / "endpoints-audit-runs"
    for name in ENTRY_FILES:
        home = Path(shutil.copytree(example, work / f"endpoints-entry-{Path(name).name}"))
        (entry,) = (each.parent for each in home.rglob("audit"))
        yield Reader(
            name=f"endpoints-entry-{Path(name).name}",
            file=entry / name,
            seeds=[(entry / name).read_bytes()],
            read=partial(judged, entry),
            share=0.3,
        )


def curves(work: Path) -> Iterator[Reader]:
    """A submission of a curve, of which one file is spoilt; of the other points two are left."""
    example = EXAMPLES / "endpoints-curve" / "acme" / "s1"
    for name in CURVE_FILES:
        root = Path(shutil.copytree(example, work / f"curve-{Path(name).name}" / "s1"))
        for folder in (root / POINT).parent.iterdir():
            if folder.name not in ("r1", "r30", "r256"):
                shutil.rmtree(folder)
        yield Reader(
            name=f"curve-{Path(name).name}",
            file=root / name,
            seeds=[(root / name).read_bytes()],
            read=partial(judged, root),
            share=0.3,
        )
