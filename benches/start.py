#!/usr/bin/env python3
"""Measures the time from the start of a job on one machine to the end of its first step.

    benches/start.py WORK [--bin target/release] [--ranks 16] [--rounds 5] [--num-nodes 20000]

The job is started once by `train node --nproc-per-node`, and once by `launch` over an SSH server of its own on a loopback port. An
epoch has a single step, so the line of the first epoch is printed after it. Prints a line of JSON per command: medians of the seconds
until the ranks are connected to each other, until the first step begins and until it has ended, of the CPU seconds of the whole run
of `train`, and the load of the machine. Without an SSH server, only `train` is measured."""

import argparse
import getpass
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from measure import report

SSHD = Path("/usr/sbin/sshd")
TIMEOUT_S = 120
STAGES = {"connected_s": " opened in ", "training_s": "training ", "first_step_s": "epoch 1/2: "}
"""Texts of the lines that end each stage."""


class ReservedPort:
    """A loopback port that the system gives to no socket that asks for any port. A server can listen on it, since its socket and the
    one here have SO_REUSEADDR."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]


class SshServer:
    """An SSH server on a loopback port, which lets this user in with a key of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        self.config = folder / "ssh_config"
        for key in ("user_key", "host_key"):
            if not (folder / key).exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
        self.reserved = ReservedPort()
        self.port = self.reserved.number
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {(folder / 'host_key.pub').read_text()}")
        self.config.write_text(
            f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\n"
            f"GlobalKnownHostsFile /dev/null\nUser {getpass.getuser()}\nPort {self.port}\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        options = {
            "Port": self.port,
            "ListenAddress": "127.0.0.1",
            "HostKey": folder / "host_key",
            "AuthorizedKeysFile": folder / "authorized_keys",
            "PidFile": "none",
            # An empty home directory, since start-up files of the login shell may take longer than the job. `launch` copies its
            # agent to the cache.
            "SetEnv": f"HOME={folder} XDG_CACHE_HOME={folder}/cache",
            "PermitRootLogin": "yes",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
        }
        flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
        self.server = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", *flags], stderr=subprocess.DEVNULL)
        self.wait_until_it_listens()

    def wait_until_it_listens(self) -> None:
        end = time.monotonic() + TIMEOUT_S
        while self.server.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise RuntimeError(f"{SSHD} does not listen on port {self.port}")

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()


def timed(command: list[object]) -> dict[str, float]:
    """Runs a job. Returns the seconds from its start to the end of each stage."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    job = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    seconds: dict[str, float] = {}
    said = []
    for line in job.stdout:
        said.append(line)
        for stage, text in STAGES.items():
            if text in line:
                seconds.setdefault(stage, time.perf_counter() - start)
    if job.wait(TIMEOUT_S) or len(seconds) < len(STAGES):
        raise RuntimeError(f"{command[0]} ended with {job.returncode}: {''.join(said)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds


def measure(name: str, args: argparse.Namespace, command: list[object]) -> None:
    """Runs a job several times, and prints the medians."""
    load = os.getloadavg()[0]
    # The first run fills the page cache, and copies the agent of `launch`.
    runs = [timed(command) for _ in range(args.rounds + 1)][1:]
    medians = {stage: round(statistics.median(run[stage] for run in runs), 3) for stage in runs[0]}
    if name == "launch":
        # The ranks are children of the SSH server.
        del medians["cpu_s"]
    report("start", command=name, ranks=args.ranks, rounds=args.rounds, **medians, load=load)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--bin", type=Path, default=HERE.parent / "target/release")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--num-nodes", type=int, default=20_000)
    args = parser.parse_args()
    # SIGTERM must end the SSH server, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.work = args.work.resolve()
    args.bin = args.bin.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    root = args.work / f"start-{args.num_nodes}"
    parts = root / f"partitions/fake/{args.ranks}-parts"
    if not parts.exists():
        sizes = [f"--avg-num-nodes={args.num_nodes}", f"--num-partitions={args.ranks}", f"--root-dir={root}"]
        command = [args.bin / "partition-graph", "--dataset=fake", *sizes]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    train = [args.bin / "train", "node", f"--dataset-root-dir={parts}", "--num-neighbors=5,5", "--hidden-channels=16"]
    # A step per epoch, and an evaluation at the end only.
    train += [f"--batch-size={args.num_nodes}", "--num-epochs=2", "--eval-every=2", "--device=cpu"]
    measure("train", args, [*train, f"--nproc-per-node={args.ranks}"])
    if not SSHD.exists():
        print(f"without launch: {SSHD} is missing", file=sys.stderr)
        return 0
    server = SshServer(args.work / "ssh")
    try:
        nodes = args.work / "nodes.txt"
        nodes.write_text("127.0.0.1\n")
        port = ReservedPort()
        flags = [f"--ip-config={nodes}", f"--master-port={port.number}", f"--ssh-config={server.config}", f"--nproc-per-node={args.ranks}"]
        measure("launch", args, [args.bin / "launch", *flags, f"--workspace={args.work}", "--", *train])
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
