"""A real Slurm cluster of two nodes on this machine: munged, slurmctld and two slurmd in namespaces
of their own.

Its processes, network, host names and /etc/hosts are its own; when its first process ends, the
kernel ends all others, and that one goes with whoever started it. No systemd, no cgroups.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from processes import rank_of

NODES: Final = ("n1", "n2")
GPUS: Final = 8
"""Of each node, by name alone: device nodes like /dev/null stand for them."""
PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "munged", "setpriv", "unshare", "nsenter", "ip")
SPACES: Final = ("--mount", "--pid", "--net", "--uts")
START_S: Final = 30.0
ASKED_S: Final = 0.5
"""Between two questions to Slurm, each of which is two programs."""

CONFIG: Final = """\
ClusterName=tests
SlurmctldHost=control(10.66.0.1)
SlurmUser=root
# a job that was put back into the queue waits until credentials have expired: at least 5 s, by default 120
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
MpiDefault=none
MailProg=/bin/true
GresTypes=gpu
NodeName=n1 NodeAddr=10.66.0.11 Port=6818 CPUs=2 RealMemory=1000 Gres=gpu:8
NodeName=n2 NodeAddr=10.66.0.12 Port=6819 CPUs=2 RealMemory=1000 Gres=gpu:8
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
"""Two slurmd on one machine differ in address and port; Slurm's own names for addresses need one
that is not a loopback address.
"""
HOSTS: Final = "127.0.0.1 localhost\n10.66.0.1 control\n10.66.0.11 n1\n10.66.0.12 n2\n"
FIRST_PROCESS: Final = """\
set -eu
cd "$1"
hostname control
mount --bind hosts /etc/hosts
ip link set lo up
for last in 1 11 12; do ip addr add 10.66.0.$last/24 dev lo; done
cd munge
munged --foreground --force --socket="$PWD/socket" --key-file="$PWD/key" --pid-file="$PWD/pid" --log-file="$PWD/log" --seed-file="$PWD/seed" &
cd ..
until [ -S munge/socket ]; do sleep 0.05; done
slurmctld -D &
for node in n1 n2; do unshare --uts bash -c "hostname $node; exec slurmd -D -N $node" & done
wait
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The running cluster."""

    folder: Path
    first: int
    """Its first process, as this machine numbers it."""

    def run(
        self, *words: str, cwd: Path, programs: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command on the host of slurmctld; `programs` is a folder with a torchrun of its
        own.
        """
        spaces = ["nsenter", f"--target={self.first}", *SPACES, f"--wd={cwd}"]
        environment = {
            **os.environ,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{programs or self.folder / 'bin'}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [*spaces, *words], env=environment, capture_output=True, text=True, timeout=60
        )

    def submit(self, script: Path, programs: Path | None = None) -> str:
        """Hand a batch script in, from its own folder; return the job's number."""
        done = self.run("sbatch", "--parsable", str(script), cwd=script.parent, programs=programs)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, number: str) -> Mapping[str, str]:
        """Say what Slurm knows of a job."""
        done = self.run("scontrol", "--oneliner", "show", "job", number, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return dict(word.partition("=")[::2] for word in done.stdout.split() if "=" in word)

    def wait(
        self, number: str, states: tuple[str, ...], limit_s: float = 120.0
    ) -> Mapping[str, str]:
        """Wait for a job to be in one of these states."""
        end = time.monotonic() + limit_s
        while (found := self.job(number))["JobState"] not in states:
            assert time.monotonic() < end, f"the job is {found}; {self.told()}"
            time.sleep(ASKED_S)
        return found

    def ranks(self) -> Mapping[int, psutil.Process]:
        """Find the ranks that train now, by number."""
        found: dict[int, psutil.Process] = {}
        for process, _, _ in self._processes():
            with suppress(psutil.Error):
                if rank := rank_of(process):
                    found[int(rank)] = process
        return found

    def on(self, node: str) -> list[psutil.Process]:
        """Find the ranks on a node, and what they started."""
        return [
            process
            for process, words, environment in self._processes()
            if "harness" in words and environment.get("SLURMD_NODENAME") == node
        ]

    def launchers(self) -> Mapping[str, psutil.Process]:
        """Find torchrun on each node."""
        found: dict[str, psutil.Process] = {}
        for process, words, environment in self._processes():
            with suppress(psutil.Error):
                if is_launcher(process, words):
                    found[environment.get("SLURMD_NODENAME", "")] = process
        return {node: process for node, process in found.items() if node in NODES}

    def told(self) -> str:
        """Give what the daemons said last."""
        return "\n".join((self.folder / "said").read_text(errors="replace").splitlines()[-30:])

    def _processes(self) -> Iterator[tuple[psutil.Process, list[str], dict[str, str]]]:
        for process in psutil.Process(self.first).children(recursive=True):
            try:
                yield process, process.cmdline(), process.environ()
            except psutil.Error:  # it has ended meanwhile
                continue


def is_launcher(process: psutil.Process, words: Sequence[str]) -> bool:
    """Tell torchrun, or one with ranks that are forks of it, from those."""
    return bool({"torch.distributed.run", "podium_fakes.torchrun"} & set(words)) and not rank_of(
        process
    )


def missing() -> str:
    """Say why no cluster can be started here; empty if one can."""
    if os.geteuid() != 0:
        return "a Slurm cluster of its own needs root, for namespaces"
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"not installed: {', '.join(absent)} (Debian: slurm-wlm munge iproute2)"
    tried = subprocess.run(["unshare", "--fork", *SPACES, "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


def write(folder: Path) -> None:
    """Write what the daemons read."""
    for name in ("munge", "state", "spool-n1", "spool-n2", "bin"):
        (folder / name).mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(128))
    (folder / "munge" / "key").chmod(0o400)
    (folder / "hosts").write_text(HOSTS)
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder))
    for number in range(GPUS):
        os.mknod(folder / f"gpu{number}", 0o20600, Path("/dev/null").stat().st_rdev)
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    (folder / "bin" / "torchrun").write_text(
        f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n'
    )
    (folder / "bin" / "torchrun").chmod(0o755)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster; end all its processes and remove its folder, whatever happened."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as name,
        (Path(name) / "said").open("w") as said,
    ):
        folder = Path(name)
        write(folder)
        words = [
            "setpriv",
            "--pdeathsig=KILL",
            "unshare",
            "--fork",
            "--kill-child",
            "--mount-proc",
            *SPACES,
            "bash",
            "-c",
            FIRST_PROCESS,
            "first",
            name,
        ]
        outer = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, "SLURM_CONF": f"{name}/slurm.conf"},
        )
        try:
            yield started(folder, outer)
        finally:
            outer.kill()  # --kill-child: the first process goes with it, and all others with that
            outer.wait()


def started(folder: Path, outer: "subprocess.Popen[Any]") -> Cluster:
    """Wait until both nodes are idle."""
    found: list[Cluster] = []

    def idle() -> bool:
        assert outer.poll() is None, (folder / "said").read_text()
        found[:] = [
            Cluster(folder=folder, first=child.pid)
            for child in psutil.Process(outer.pid).children()
        ]
        return (
            bool(found)
            and (folder / "munge" / "socket").exists()
            and found[0].run("sinfo", "-ho", "%T %D", cwd=folder).stdout.strip() == "idle 2"
        )

    waited(idle, folder)
    return found[0]


def waited(condition: Callable[[], bool], folder: Path) -> None:
    """Wait for a cluster; its own words if it does not come."""
    end = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < end, (folder / "said").read_text()
        time.sleep(0.1)
