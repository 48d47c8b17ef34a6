"""Control groups that hold processes to a share of a core."""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 10_000
"""The time in which a group gets its share. It is short, since the peers of a process that has used its share wait for the rest of
it, and long enough for the smallest share, of which the kernel takes 1 ms."""
REMOVAL_TIMEOUT_S = 5
WEIGHT = 20
"""The weight of a group relative to a process outside, so that the group gets its share on a busy machine."""


class CpuShare:
    """A control group whose processes together get `cores` cores, of version 1 or 2."""

    def __init__(self, name: str, cores: float) -> None:
        quota = max(int(cores * PERIOD_US), 1000)
        period = int(quota / cores)
        if (ROOT / "cgroup.controllers").exists():
            # Processes may already be in the root group, which is the only one that may have both processes and groups.
            (ROOT / "cgroup.subtree_control").write_text("+cpu")
            self.folder = ROOT / name
            limits = {"cpu.max": f"{quota} {period}", "cpu.weight": str(100 * WEIGHT)}
        else:
            self.folder = ROOT / "cpu" / name
            limits = {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota), "cpu.shares": str(1024 * WEIGHT)}
        self.folder.mkdir()
        for file, value in limits.items():
            (self.folder / file).write_text(value)

    def command(self, command: list[str]) -> list[str]:
        """Returns a command that runs in the group."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *command]

    def throttled(self) -> float:
        """Returns the part of the periods in which the processes have used their share up."""
        counts = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(counts["nr_throttled"]) / max(int(counts["nr_periods"]), 1)

    def remove(self) -> None:
        """Removes the group, whose processes have ended."""
        end = time.monotonic() + REMOVAL_TIMEOUT_S
        while True:
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                # The kernel still counts a process that has just ended.
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
