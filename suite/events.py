"""Event names of a training log.

Source of the standard names: mlcommons/logging, mlperf_logging/mllog/constants.py and the 0.7.0
ruleset. The last block is podium's own; MLCommons' checker passes over names that it does not know.
"""

from typing import Final

TOKEN: Final = ":::MLLOG "

SUBMISSION_ORG: Final = "submission_org"
SUBMISSION_PLATFORM: Final = "submission_platform"
SUBMISSION_DIVISION: Final = "submission_division"
SUBMISSION_STATUS: Final = "submission_status"
SUBMISSION_BENCHMARK: Final = "submission_benchmark"

CACHE_CLEAR: Final = "cache_clear"
INIT_START: Final = "init_start"
INIT_STOP: Final = "init_stop"
RUN_START: Final = "run_start"
RUN_STOP: Final = "run_stop"
BLOCK_START: Final = "block_start"
BLOCK_STOP: Final = "block_stop"
EPOCH_START: Final = "epoch_start"
EPOCH_STOP: Final = "epoch_stop"
EVAL_START: Final = "eval_start"
EVAL_STOP: Final = "eval_stop"
EVAL_ACCURACY: Final = "eval_accuracy"

TRAIN_SAMPLES: Final = "train_samples"
EVAL_SAMPLES: Final = "eval_samples"
SEED: Final = "seed"

STATUS: Final = "status"
SUCCESS: Final = "success"
ABORTED: Final = "aborted"

EPOCH_NUM: Final = "epoch_num"
FIRST_EPOCH_NUM: Final = "first_epoch_num"
EPOCH_COUNT: Final = "epoch_count"
SAMPLES_COUNT: Final = "samples_count"
"""Samples trained so far, of benchmarks whose progress is counted in samples."""

# podium's own
CORPUS_SAMPLES: Final = "corpus_samples"
"""Samples in the training set before filtering by length."""
ROUND: Final = "podium_round"
PROFILE: Final = "podium_profile"
WORKLOAD: Final = "podium_workload"
VERSION: Final = "podium_version"
NONCE: Final = "campaign_nonce"
RUN_INDEX: Final = "run_index"
FRAMEWORK: Final = "framework"
INPUT: Final = "input_pipeline"
DEVICE: Final = "device"
PRECISION: Final = "precision"
THREADS: Final = "threads"
WORLD_SIZE: Final = "world_size"
SETTINGS: Final = "settings"
COMMAND_LINE: Final = "command_line"
QUALITY_TARGET: Final = "quality_target"
METRIC_SIGNATURE: Final = "metric_signature"
THROUGHPUT: Final = "tracked_stats"
RESUMED: Final = "resumed"
REFERENCE_ACCURACY: Final = "reference_accuracy"
CHECKPOINT: Final = "checkpoint_sha256"
EXAMPLE: Final = "evaluation_example"
"""What an evaluation looked at, described by its workload: a report draws it, and no rule counts it
(suite/examples.py).
"""
STEP_PREPARATION: Final = "step_preparation"
"""Seconds, before the clock, in which a training's steps were compiled and recorded, by setting;
null, with the reason as metadata, if that failed.
"""
PREPARING_SETTINGS: Final = ("train.compile", "train.graphs")
"""The settings that ask for it."""
TELEMETRY: Final = "telemetry_sha256"
"""SHA-256 of the file of power readings beside the log, from which the run's energy is computed."""
TELEMETRY_LOST: Final = "telemetry_lost"
"""That the run's file of telemetry could not be kept; one sentence."""

DISCLOSED_PRECISIONS: Final = (
    "lowest_numerical_precision_in_linear",
    "lowest_numerical_precision_in_attn",
    "lowest_numerical_precision_in_comm",
)
DISCLOSED_WORDS: Final = {"bf16": "bfloat16"}
"""Precision -> its word there, where that is another."""
DISCLOSED_PARALLELISMS: Final = (
    "tensor_parallelism",
    "pipeline_parallelism",
    "context_parallelism",
    "expert_parallelism",
)
MICRO_BATCH_SIZE: Final = "micro_batch_size"
CONFIG_FILENAME: Final = "config_filename"
GRADIENT_ACCUMULATION_STEPS: Final = "gradient_accumulation_steps"
"""Micro-batches of a step on each rank, which logs of MLPerf Training state since v1.0. Source:
mlcommons/logging, training_1.0.0/closed_common.yaml.
"""
DISCLOSED_EVENTS: Final = (
    *DISCLOSED_PRECISIONS,
    *DISCLOSED_PARALLELISMS,
    MICRO_BATCH_SIZE,
    CONFIG_FILENAME,
)
"""Facts that logs of MLPerf Training must state. Source: mlcommons/logging,
training_6.1.0/common.yaml, "Mandatory precision, parallelism, and run-config disclosure (v6.1+)".
"""

RUN_EVENTS: Final = frozenset(
    {
        RUN_START,
        RUN_STOP,
        BLOCK_START,
        BLOCK_STOP,
        EPOCH_START,
        EPOCH_STOP,
        EVAL_START,
        EVAL_STOP,
        EVAL_ACCURACY,
    }
)
"""Events between run_start and run_stop, both included."""
