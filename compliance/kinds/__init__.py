"""Kinds of rounds: each folder reads, recognises and judges the results of one."""
