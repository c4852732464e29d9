"""LoadGen's draws as the judge repeats them, and what the real LoadGen issues."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compliance.loadgen_replay import MersenneTwister, OlderMersenneTwister, ReplayPlan
from suite.loadgen.scenario import Scenario

SAMPLES, IN_MEMORY, SEEDS = 23, 23, (12345, 67890)
PROGRAM = """
import json, sys
import mlperf_loadgen as lg

scenario, folder, samples, in_memory, equal, per_query, qsl_seed, sample_seed = json.loads(
    sys.argv[1]
)
issued = []

def issue(queries):
    issued.extend(query.index for query in queries)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0) for query in queries])

settings = lg.TestSettings()
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.AccuracyOnly
settings.qsl_rng_seed, settings.sample_index_rng_seed = qsl_seed, sample_seed
settings.min_query_count = 1
settings.min_duration_ms = 1
settings.server_target_qps = 1000.0
settings.multi_stream_samples_per_query = per_query
settings.sample_concatenate_permutation = equal
output = lg.LogOutputSettings()
output.outdir, output.copy_summary_to_stdout = folder, False
logs = lg.LogSettings()
logs.log_output = output
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(samples, in_memory, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, logs, "")
print(json.dumps(issued))
"""


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(
    ("scenario", "per_query"),
    [("SingleStream", 1), ("Offline", 1), ("Server", 1), ("MultiStream", 1), ("MultiStream", 8)],
)
@pytest.mark.parametrize("in_memory", [IN_MEMORY, 8])
def test_the_real_loadgen_issues_what_is_replayed(
    tmp_path: Path, scenario: str, per_query: int, equal: bool, in_memory: int
) -> None:
    """The order of the draws is LoadGen's own business, and has changed before."""
    told = json.dumps([scenario, str(tmp_path), SAMPLES, in_memory, equal, per_query, *SEEDS])
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, told], capture_output=True, text=True, check=True
    ).stdout
    issued = json.loads(output.splitlines()[-1])
    plan = ReplayPlan(
        scenario={
            "SingleStream": Scenario.SINGLE_STREAM,
            "Offline": Scenario.OFFLINE,
            "Server": Scenario.SERVER,
            "MultiStream": Scenario.MULTI_STREAM,
        }[scenario],
        performance=False,
        samples=SAMPLES,
        samples_in_memory=in_memory,
        per_query=per_query,
        queries=0,
        least_queries=1,
        rate=1.0,
        duration_ms=0.0,
        qsl_seed=SEEDS[0],
        sample_seed=SEEDS[1],
        schedule_seed=0,
        log_seed=0,
        equal_issue=equal,
    )
    replayed = list(plan.replay_issued_samples(plan.replay_loaded_sets()))
    # MultiStream's last query may be left out
    assert issued == replayed[: len(issued)]
    assert 0 <= len(replayed) - len(issued) < per_query * (SAMPLES // in_memory + 1)


def test_older_libraries_draw_by_division() -> None:
    """The generator's first word is known; Lemire's method and division tell it apart."""
    first_word = 3499211612
    assert MersenneTwister(5489).generate_below(1 << 16) == first_word * (1 << 16) >> 32
    scaling = (2**32 - 1) // (1 << 16)
    assert OlderMersenneTwister(5489).generate_below(1 << 16) == first_word // scaling
