"""Runs a program on an idle machine, and measures the work of other processes meanwhile."""

import os
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.15
"""A machine is quiet if processes other than this one and its children use less than this number of cores."""
WINDOW_S = 2.0
"""The time over which the use of cores is measured."""
SECONDS_TO_END = 15
"""The time that a program has to clean up after its timeout."""


@dataclass
class Run:
    """A program that has ended."""

    output: str
    """The output of the program, including standard error."""
    status: int
    wall_s: float
    cpu_s: float
    """The CPU time of the program and of the children that it waited for."""
    peak_rss_mb: int
    """The peak memory of its largest process."""
    foreign_cores: float
    """The cores that other processes used meanwhile, including kernel work and a hypervisor's share."""


def busy_seconds() -> float:
    """Returns the CPU seconds of all processes of this machine, including those that a hypervisor took."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _waiting, *interrupts_and_stolen = fields[:8]
    return (user + nice + system + sum(interrupts_and_stolen)) / TICKS_PER_SECOND


def own_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class ForeignWork:
    """A measurement of the cores that other processes use, from its creation on."""

    def __init__(self) -> None:
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def cores(self) -> float:
        """Returns the mean so far. No child may be running."""
        foreign = busy_seconds() - self.busy - (own_seconds() - self.own)
        return round(max(0.0, foreign) / (time.monotonic() - self.start), 3)


def wait_for_quiet(patience_s: float) -> float:
    """Waits until the machine is quiet, at most `patience_s`. Returns the cores that other processes used last."""
    end = time.monotonic() + patience_s
    while True:
        others = ForeignWork()
        time.sleep(WINDOW_S)
        cores = others.cores()
        if cores < QUIET_CORES or time.monotonic() > end:
            return cores


def run(command: list[str], environment: dict[str, str], timeout_s: float) -> Run:
    """Runs a program to its end. After the timeout its whole session is terminated, and later killed."""
    others, start = ForeignWork(), time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
            start_new_session=True,
        )
        try:
            status, usage = wait(process, timeout_s)
        except BaseException:
            end_session(process)
            raise
        wall = time.monotonic() - start
        output.seek(0)
        return Run(
            output=output.read(),
            status=status,
            wall_s=wall,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_rss_mb=round(usage.ru_maxrss * 1024 / 1e6),
            foreign_cores=others.cores(),
        )


def wait(process: subprocess.Popen, timeout_s: float) -> tuple[int, resource.struct_rusage]:
    """Returns the exit status, negative for a signal, and the resource usage of the program."""
    ends = [
        (time.monotonic() + timeout_s, signal.SIGTERM),
        (time.monotonic() + timeout_s + SECONDS_TO_END, signal.SIGKILL),
    ]
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if ends and time.monotonic() > ends[0][0]:
            os.killpg(process.pid, ends.pop(0)[1])
        time.sleep(0.02)


def end_session(process: subprocess.Popen) -> None:
    """Ends a program and its children when this process is interrupted."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            wait(process, 0.0)
        except ProcessLookupError:
            pass
