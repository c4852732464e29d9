"""A few lines of each dialect that published logs are written in, as nobody filed them."""

NEW = (
    ':::MLLOG {"namespace": "", "time_ms": 1600000000000, "event_type": "POINT_IN_TIME", "key":'
    ' "submission_benchmark", "value": "resnet", "metadata": {}}\nEpoch 1: 10%|#        '
    ' |\r:::MLLOG {"namespace": "", "time_ms": 1600000000100, "event_type": "INTERVAL_START",'
    ' "key": "run_start", "value": null, "metadata": {"lineno": 1}}\n:::MLLOG {"time_s":'
    ' 1600000001.5, "key": "eval_accuracy", "value": 0.76, "metadata": {"epoch_num": 61, "file":'
    ' "a.py"}}\n:::MLLOG {"time_ms": 1600000300000, "event_type": "INTERVAL_END", "key":'
    ' "run_stop", "value": null, "metadata": {"status": "success"}}\n'
)
OLD = (
    ':::MLL 0.0 submission_benchmark: {"value": "mask", "metadata": {"lineno": 0, "file": "N/A"}}\n'
    ':::MLL 1560881700.827 run_start: {"value": null, "metadata": {"lineno": 12}}\n'
    ':::MLL 1560881800.1 eval_accuracy: {"value": [0.38, 0.35], "metadata": {"epoch_num": 12}}\n'
    '[1,0]<stdout>::::MLL 1560881900 run_stop: {"value": null, "metadata": {"status": "success"}}\n'
)
TEXT = (
    "MLPerf: resnet [06/01/19 10:00:00], run_start\nMLPerf: resnet [06/01/19 10:09:00],"
    ' eval_accuracy: {"value": 76.10000%, "epoch": 61}\nMLPerf: resnet [06/01/19 10:10:00],'
    " run_stop\nMLPerf: resnet [06/01/19 10:10:00], Total runtime: 9.987654 minutes\n"
)
DETAIL = (
    '"pid": 7, "tid": 7, "ts": 3340ns : LoadgenVersionInfo:\n"pid": 7, "tid": 7, "ts": 3340ns :'
    ' version : .5a1 @ 33ff466d0a\n"pid": 7, "tid": 7, "ts": 3340ns : git_log'
    ' :\n\n33ff466d0aff7d78f4d3be95ba17d5a270529367 A change\n"pid": 7, "tid": 7, "ts": 4000ns :'
    ' Effective Test Settings:\n"pid": 7, "tid": 7, "ts": 4000ns : Scenario : Offline\n"pid": 7,'
    ' "tid": 7, "ts": 4000ns : qsl_rng_seed : 3133965575612453542\n'
)
SUMMARY = (
    "Scenario : Offline\nMode     : Performance\nSamples per second: 14446.6\nResult is : VALID\n "
    " Min duration satisfied : Yes\n\nqsl_rng_seed : 3133965575612453542\n"
)
ANSWERS = (
    '[\n{ "seq_id" : 0, "qsl_idx" : 4, "data" : "0A000000" },\n{ "seq_id" : 1, "qsl_idx" : 5,'
    ' "data" : "0B000000" }\n]\n'
)
