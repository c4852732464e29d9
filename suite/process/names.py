"""What podium's processes are called in process tables (proc(5), /proc/PID/comm)."""

from typing import Final

TEMPLATE_PROCESS_NAME: Final = "podium-template"
"""The process that LoadGen's are forked from. Its memory is theirs too, and must not be counted
twice.
"""
