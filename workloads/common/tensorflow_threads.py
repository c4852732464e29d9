"""Sets TensorFlow's thread count, which must happen before it computes anything, including initial
weights.
"""

from contextlib import suppress

import tensorflow as tf


def set_tensorflow_thread_limit(threads: int) -> None:
    """Run one operation at a time on this many threads; a process that has already computed
    something keeps its setting.
    """
    with suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
