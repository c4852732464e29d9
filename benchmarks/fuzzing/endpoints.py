"""Files of a run of the MLPerf Endpoints client."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

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
