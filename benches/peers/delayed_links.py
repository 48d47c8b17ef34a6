"""A switch whose links have a delay and a bandwidth, for kernels without the queueing discipline `netem`.

Each host has a TAP device. The switch reads the frames that a host sends and writes them to their receivers when they are due. A link
carries a frame at a time in each direction."""

import fcntl
import heapq
import itertools
import os
import select
import struct
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
MTU = 65_000
"""Large frames, since the switch handles each frame in Python. TCP then has fewer headers, so `WIRE` adds those of frames of 1500
bytes."""
WIRE = 1538 / 1448
LONGEST_SLEEP_S = 0.1
PRIORITY = -15


def mac(host: int) -> str:
    """Returns the address of a host."""
    return f"02:00:00:00:00:{host:02x}"


class DelayedLinks(threading.Thread):
    """A switch that connects the devices `names`, which it creates. `delay_s` is the time from a host to another one."""

    def __init__(self, names: list[str], delay_s: float, bytes_per_second: float | None) -> None:
        super().__init__(daemon=True)
        self.delay_s = delay_s
        self.seconds_per_byte = WIRE / bytes_per_second if bytes_per_second else 0.0
        self.devices = [self.create(name) for name in names]
        # The times at which the two directions of each link are free.
        self.free_out = [0.0] * len(names)
        self.free_in = [0.0] * len(names)
        self.frames: list[tuple[float, int, int, bytes]] = []
        self.order = itertools.count()
        self.ends = threading.Event()

    @staticmethod
    def create(name: str) -> int:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
        return device

    def run(self) -> None:
        # A switch does not compete with its hosts for cores.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        hosts = {device: host for host, device in enumerate(self.devices)}
        while not self.ends.is_set():
            wait = LONGEST_SLEEP_S
            if self.frames:
                wait = min(max(self.frames[0][0] - time.monotonic(), 0.0), wait)
            # `epoll` waits for whole milliseconds.
            for device in select.select(self.devices, [], [], wait)[0]:
                self.receive(hosts[device])
            while self.frames and self.frames[0][0] <= time.monotonic():
                _, _, host, frame = heapq.heappop(self.frames)
                try:
                    os.write(self.devices[host], frame)
                except OSError:
                    pass  # The host is gone, or its interface is not up yet.

    def receive(self, host: int) -> None:
        """Schedules a frame of a host."""
        try:
            frame = os.read(self.devices[host], MTU + 64)
        except OSError:
            return
        # The lowest bit of the first byte marks a frame for all hosts.
        receivers = [frame[5]] if not frame[0] & 1 else range(len(self.devices))
        for receiver in receivers:
            if receiver != host and receiver < len(self.devices):
                self.schedule(host, receiver, frame)

    def schedule(self, sender: int, receiver: int, frame: bytes) -> None:
        seconds = len(frame) * self.seconds_per_byte
        self.free_out[sender] = max(self.free_out[sender], time.monotonic()) + seconds
        due = max(self.free_out[sender] + self.delay_s, self.free_in[receiver] + seconds)
        self.free_in[receiver] = due
        heapq.heappush(self.frames, (due, next(self.order), receiver, frame))

    def end(self) -> None:
        """Ends the thread and removes the devices."""
        self.ends.set()
        if self.ident:
            self.join()
        for device in self.devices:
            os.close(device)
