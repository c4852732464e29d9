"""Recognises what a PATH is, where it lies in a submission tree, and which round judges it."""
