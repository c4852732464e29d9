"""Telemetry of a run: a separate process that samples host, GPUs and power sources, and writes
`telemetry.jsonl`.

One sampler per node. It is spawned, not forked, shares no interpreter with the timed code, serves
one run after another, and ends with the process that started it. The file:

    {"telemetry": 1, "channels": [{"id": 0, "name": "host", "kind": "state", ...}, ...],
    "clocks_ns": [monotonic, utc]}
    {"t": monotonic_ns, "host": {...}}                      once a second; "gpu0": {...} likewise
    {"t": monotonic_ns, "i": 2, "e": uJ}                    a channel of kind energy, every
    power.period_ms
    {"t": monotonic_ns, "i": 3, "p": uW}                    a channel of kind power
    {"end": {"readings": [n, ...], "missed": [n, ...], "late": n, "longest_gap_ms": ms, "cpu_ms":
    ms, "clocks_ns": [monotonic, utc]}}

An interrupted training run has one such segment, from channels to end, for each start and
resumption; the last line of a segment may be missing if its process was killed. Values that a
machine does not report are null.

To sample something else, write a `Source` (sampled.py) and name the function that opens it in
`Plan.sources`.
"""
