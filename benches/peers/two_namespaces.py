#!/usr/bin/env python3
"""Runs a command per rank as if every rank were on its own machine: `two_namespaces.py [FLAGS] -- COMMAND...`.

Each rank gets a network namespace, connected to the others by a bridge, and a private /dev/shm, because DistDGL
distinguishes machines by address and shares arrays by name. In the command, {rank} is replaced by the rank, {addr} by
its address, {addr0} by the address of rank 0, and {addrs} by all addresses, separated by commas. --rate and --delay-us
limit the links, and --cores holds each rank to a share of a core. Needs root and iproute2.

Prints the output of the ranks, then a line of JSON with the bytes that each rank's interface received and sent. The
namespaces are named after this process and are removed at its end, except after SIGKILL."""

import argparse
import itertools
import os
import signal
import string
import subprocess
import sys
import threading
import time

from cpu_share import CpuShare
from delayed_links import MTU, DelayedLinks, mac
from measure import report

INTERFACE = "eth0"
NETWORK = "10.77.0"
LETTERS = itertools.cycle(string.ascii_lowercase)
"""The last letters of the names of this process's namespaces."""
SECONDS_TO_FOLLOW = 20
"""The time that the other ranks have to end after one has failed."""


def ip(*arguments: str) -> str:
    """Runs `ip` and returns its output."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Machines:
    """The namespaces, their bridge and the ranks that run in them."""

    def __init__(self, count: int, rate: str | None, delay_us: float = 0, cores: float | None = None) -> None:
        self.rate = rate
        self.delay_us = delay_us
        self.cores = cores
        self.links: DelayedLinks | None = None
        self.shares: list[CpuShare] = []
        # The kernel removes the devices of earlier namespaces later.
        self.prefix = f"ec{os.getpid()}{next(LETTERS)}"
        self.namespaces = [f"{self.prefix}n{rank}" for rank in range(count)]
        self.addresses = [f"{NETWORK}.{rank + 1}" for rank in range(count)]
        self.ranks: list[subprocess.Popen] = []
        self.printers: list[threading.Thread] = []

    def __enter__(self) -> "Machines":
        try:
            for name in self.namespaces:
                ip("netns", "add", name)
            if self.delay_us:
                self.connect_by_switch()
            else:
                self.connect_by_bridge()
            for rank, (name, address) in enumerate(zip(self.namespaces, self.addresses)):
                ip("-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", INTERFACE, "up")
                if self.cores:
                    self.shares.append(CpuShare(f"{self.prefix}r{rank}", self.cores))
        except BaseException:
            self.remove()
            raise
        return self

    def connect_by_bridge(self) -> None:
        """Connects the namespaces by the kernel's bridge."""
        bridge = f"{self.prefix}b"
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        for rank, name in enumerate(self.namespaces):
            port = f"{self.prefix}p{rank}"
            ip("link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", name)
            ip("link", "set", port, "master", bridge, "up")
            if self.rate:
                # A packet of 64 KB, or a millisecond: a larger burst would exceed the rate after each pause.
                burst = max(70_000, int(bytes_per_second(self.rate) / 1000))
                limit = ["root", "tbf", "rate", self.rate, "burst", str(burst), "latency", "50ms"]
                # What a rank sends, and what it receives.
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", INTERFACE, *limit], check=True)
                subprocess.run(["tc", "qdisc", "add", "dev", port, *limit], check=True)

    def connect_by_switch(self) -> None:
        """Connects the namespaces by a switch of this process, whose links have a delay."""
        ports = [f"{self.prefix}p{rank}" for rank in range(len(self.namespaces))]
        self.links = DelayedLinks(ports, self.delay_us * 1e-6, bytes_per_second(self.rate) if self.rate else None)
        for rank, (name, port) in enumerate(zip(self.namespaces, ports)):
            ip("link", "set", port, "netns", name)
            ip("-n", name, "link", "set", port, "name", INTERFACE, "address", mac(rank), "mtu", str(MTU))
        self.links.start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def start(self, command: list[str]) -> None:
        """Starts every rank."""
        environment = os.environ | {"GLOO_SOCKET_IFNAME": INTERFACE, "TP_SOCKET_IFNAME": INTERFACE}
        own_shm = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]
        for rank, name in enumerate(self.namespaces):
            words = ["ip", "netns", "exec", name, *own_shm, *(self.fill_in(word, rank) for word in command)]
            process = subprocess.Popen(
                self.shares[rank].command(words) if self.shares else words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
            )
            self.ranks.append(process)
            printer = threading.Thread(target=self.forward, args=(rank, process), daemon=True)
            printer.start()
            self.printers.append(printer)

    def fill_in(self, word: str, rank: int) -> str:
        """Fills in the placeholders in a word of the command for one rank."""
        values = {
            "{rank}": str(rank),
            "{addr}": self.addresses[rank],
            "{addr0}": self.addresses[0],
            "{addrs}": ",".join(self.addresses),
        }
        for placeholder, value in values.items():
            word = word.replace(placeholder, value)
        return word

    @staticmethod
    def forward(rank: int, process: subprocess.Popen) -> None:
        """Prints the output of a rank, with the rank at the start of each line."""
        for line in process.stdout:
            # One write per line, so that the ranks' lines do not mix.
            sys.stdout.write(f"[{rank}] {line.rstrip()}\n")
            sys.stdout.flush()

    def wait(self, timeout: float) -> bool:
        """Waits for all ranks. Returns whether all of them succeeded within `timeout` seconds."""
        end = time.monotonic() + timeout
        while any(process.poll() is None for process in self.ranks):
            if any(process.poll() for process in self.ranks):
                end = min(end, time.monotonic() + SECONDS_TO_FOLLOW)
            if time.monotonic() > end:
                late = [rank for rank, process in enumerate(self.ranks) if process.poll() is None]
                print(f"ranks {late} did not end in time", file=sys.stderr, flush=True)
                return False
            time.sleep(0.05)
        for printer in self.printers:
            printer.join(timeout=5)
        return all(process.returncode == 0 for process in self.ranks)

    def traffic(self) -> list[dict[str, int]]:
        """Returns the bytes by rank since the start."""
        counts = []
        for rank, name in enumerate(self.namespaces):
            statistics = f"/sys/class/net/{INTERFACE}/statistics"
            received, sent = ip(
                "netns", "exec", name, "cat", f"{statistics}/rx_bytes", f"{statistics}/tx_bytes"
            ).split()
            counts.append({"rank": rank, "received_bytes": int(received), "sent_bytes": int(sent)})
        return counts

    def remove(self) -> None:
        """Kills running ranks, and removes the namespaces and the bridge as far as they exist."""
        for name in self.namespaces:
            for pid in quietly("netns", "pids", name).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for process in self.ranks:
            process.wait()
        for share in self.shares:
            share.remove()
        if self.links:
            self.links.end()
        for name in self.namespaces:
            quietly("netns", "del", name)
        quietly("link", "del", f"{self.prefix}b")


def bytes_per_second(rate: str) -> float:
    """Parses a rate in the format of tc, such as `100mbit`."""
    for unit, bits in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * bits / 8
    raise ValueError(f"{rate} is not a rate in gbit, mbit or kbit")


def quietly(*arguments: str) -> str:
    """Runs `ip` and ignores a failure, for example for a namespace that was not created."""
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900, help="seconds")
    parser.add_argument("--rate", help="limit of each rank's network in the format of tc: 1gbit")
    parser.add_argument("--delay-us", type=float, default=0, help="microseconds from one rank to another")
    parser.add_argument("--cores", type=float, help="cores of each rank, or a share of one")
    parser.add_argument("command", nargs="+", help="command of every rank, after --")
    args = parser.parse_args()
    # SIGTERM must run the cleanup, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Machines(args.ranks, args.rate, args.delay_us, args.cores) as machines:
        machines.start(args.command)
        well = machines.wait(args.timeout)
        report("two_namespaces", statuses=[p.poll() for p in machines.ranks], traffic=machines.traffic())
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
