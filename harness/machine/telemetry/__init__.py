"""Telemetry of a run: a process of its own that samples host, GPUs and later power sources, and writes `telemetry.jsonl`.

One sampler a node. It is spawned, not forked, shares no interpreter with what is timed, and ends with the process that started it. The file:

    {"telemetry": 1, "channels": [{"id": 0, "name": "host", "kind": "state", ...}, ...], "clocks_ns": [monotonic, utc]}
    {"t": monotonic_ns, "host": {...}}                      once a second; "gpu0": {...} likewise
    {"t": monotonic_ns, "i": 2, "e": uJ}                    a channel of kind energy, every power.period_ms
    {"t": monotonic_ns, "i": 3, "p": uW}                    a channel of kind power
    {"end": {"readings": [n, ...], "missed": [n, ...], "late": n, "longest_gap_ms": ms, "cpu_ms": ms, "clocks_ns": [monotonic, utc]}}

A training run that was interrupted has one such segment, from channels to end, for each time that it was taken up; the last line of a segment may be
missing where its process was killed. What a machine does not tell is null.

To add something to sample, write a `Source` (sampled.py) and name the function that opens it in `Plan.sources`.
"""
