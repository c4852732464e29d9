"""podium's own documents: training logs and sets, inference entries, checkpoints, system
descriptions, submissions.
"""
