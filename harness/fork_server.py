"""Imported by the process that LoadGen's processes are forked from, and by no other: loads what they have in common (child_process.load_ahead)."""

import gc
import os
from contextlib import suppress
from importlib import import_module

for name in filter(None, os.environ.get("PODIUM_LOAD_AHEAD", "").split(",")):
    with suppress(Exception):  # the child that needs it reports what is wrong with it
        import_module(name)
gc.freeze()  # a child that looked for garbage in it would copy its pages
