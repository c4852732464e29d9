"""Which engines and precisions this machine can serve a request in."""

from collections.abc import Iterator, Sequence

from harness.doctor.dtype_trials import (
    PrecisionTrial,
    TrialEnding,
    WorkloadHalf,
    run_precision_trials,
)
from harness.engine_choice import describe_missing_calibration, describe_unused_options
from harness.request import RunRequest, choose_served_framework
from suite import registry
from suite.errors import MissingError
from suite.terms import Precision


def iterate_combinations(
    request: RunRequest, engine: str | None
) -> Iterator[tuple[str, Precision]]:
    """Yield the combinations that this machine can run, the framework's own engine and fp32 first;
    quantised ones if the round has a calibration list.
    """
    options, row = request.options, request.row.inference.get(request.profile)
    if engine:
        names = [engine]
    else:
        names = sorted(
            registry.map_entry_points(registry.ENGINE_GROUP),
            key=lambda name: (name != request.framework, name),
        )
    precisions = [options.precision] if options.precision else list(Precision)
    for name in names:
        for precision in precisions:
            listed = row is not None and (
                precision is options.precision
                or not describe_missing_calibration(request.row, row, precision)
            )
            if listed and can_serve_combination(name, request, precision):
                yield name, precision


def filter_runnable_combinations(
    request: RunRequest, pairs: Sequence[tuple[str, Precision]]
) -> list[tuple[str, Precision]]:
    """Drop combinations whose trial shows that this machine's kernels cannot run them; one that the
    user names stays, so that its refusal explains why.
    """
    if request.options.precision:
        return list(pairs)
    attempts = {
        pair: PrecisionTrial(
            workload=request.name, half=WorkloadHalf.INFERENCE, engine=pair[0], precision=pair[1]
        )
        for pair in pairs
    }
    results = run_precision_trials(attempts.values(), request.device)
    return [pair for pair in pairs if results[attempts[pair]].ending is not TrialEnding.FAILED]


def can_serve_combination(name: str, request: RunRequest, precision: Precision) -> bool:
    """Check whether an engine is installed and accepts the workload's networks, the user's options
    and the precision.
    """
    try:
        found = registry.load_engine(name)
    except MissingError:
        return False
    takes = choose_served_framework(
        found, request.framework, request.workload
    ) in found.accepts and not describe_unused_options(request, found)
    return takes and found.missing(request.device, precision) is None
