"""Submissions to MLCommons from podium's own results: the tree of a round, what it lacks, and the
official checker's verdict beside podium's.
"""
