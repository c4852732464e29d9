"""Servers that are measured with the user's own prompts: no workload, no checkpoint, no framework.

A study of speed, never a result.
"""
