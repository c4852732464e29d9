"""Precision and parallelism of a training as logs of MLPerf Training state them.

Source of the words: mlcommons/logging, training_6.1.0/common.yaml.
"""

from suite import events
from suite.engine import Precision
from suite.rounds import HyperValue
from suite.rounds.settings import GRADIENT_FORMAT_SETTING
from suite.workload import Run


def collect_disclosed_facts(run: Run, micro_batch: int, config: str) -> dict[str, HyperValue]:
    """Return what a log states of the numbers and the ranks of a training whose ranks divide
    samples alone: they exchange gradients, and fp32 weights if they divide those as well.

    Args:
        micro_batch: samples of a rank's forward pass.
        config: file of the round's row, whose settings the log has.
    """
    computed = events.DISCLOSED_WORDS.get(run.precision, str(run.precision))
    exchanged = str(run.settings.get(GRADIENT_FORMAT_SETTING, Precision.FP32))
    linear, attention, exchange = events.DISCLOSED_PRECISIONS
    return {
        linear: computed,
        attention: computed,
        exchange: events.DISCLOSED_WORDS.get(exchanged, exchanged),
        **dict.fromkeys(events.DISCLOSED_PARALLELISMS, 1),
        events.MICRO_BATCH_SIZE: micro_batch,
        events.CONFIG_FILENAME: config,
    }
