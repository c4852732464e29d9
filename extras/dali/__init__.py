"""NVIDIA DALI as an input pipeline: the entry point `dali` of the group `podium.inputs`."""
