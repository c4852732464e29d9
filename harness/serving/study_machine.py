"""The machine and the software of a study, with the commands that measured it."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from harness.machine.system_description import (
    count_processors,
    list_installed_packages,
    read_cpu_model,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.documents import STUDY_FILE, StudyMachine


class StudyMachineHeader(msgspec.Struct, frozen=True):
    """What is read here of a study of any kind."""

    machine: StudyMachine | None = None


STUDY_MACHINE_DECODER: Final = msgspec.json.Decoder(StudyMachineHeader)


def describe_study_machine(study_folder: Path) -> StudyMachine:
    """Describe this machine, with this command after those of the study that is in the folder."""
    command = tuple(sys.argv)
    earlier_commands = read_study_commands(study_folder)
    return StudyMachine(
        processor=read_cpu_model() or "",
        processors=count_processors(),
        packages=dict(list_installed_packages()),
        commands=(
            earlier_commands if command in earlier_commands else (*earlier_commands, command)
        ),
    )


def read_study_commands(study_folder: Path) -> tuple[tuple[str, ...], ...]:
    """Read the commands of the study in a folder; none if there is no readable study."""
    try:
        found = read_untrusted_file(study_folder / STUDY_FILE, STUDY_MACHINE_DECODER.decode).machine
    except UnreadableError:
        return ()
    return found.commands if found else ()
