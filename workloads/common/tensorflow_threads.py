"""Sets TensorFlow's number of threads, which must happen before it computes anything, including initial weights."""

from contextlib import suppress

import tensorflow as tf


def limit(threads: int) -> None:
    """Let one operation at a time run, on so many threads; a process that has computed already keeps what it has."""
    with suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
