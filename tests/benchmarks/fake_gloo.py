"""fake_gloo.py MODE -u -c SCRIPT RANK RANKS DESCRIPTOR BYTES SECONDS: stands in for a Python that has torch, and speaks
as benchmarks/gloo_child.py does. What the MODE does:

    copy    the result is the input, which is right on one rank, and so are a model's gradients and a checkpoint
    idle    writes no result
    lack    knows no alltoall
    die     rank 1 ends instead of running
"""
import math
import mmap
import sys
import time

MODE = sys.argv[1]
RANK, _, DESCRIPTOR, BYTES = (int(word) for word in sys.argv[5:9])
MEMORY = mmap.mmap(DESCRIPTOR, BYTES)


class Fake:
    def __init__(self):
        self.given = self.taken = 0
        self.saved = None

    def start(self):
        return "torch 0.0-fake"

    def store(self, host):
        return "port 1"

    def join(self, host, port):
        return "joined"

    def work(self, name, given, taken, *_):
        self.given, self.taken = 4 * int(given), 4 * int(taken)
        return "tried a fake has none" if MODE == "lack" and name == "alltoall" else "tried"

    def model(self, shapes):
        self.given = self.taken = 0
        return "made"

    def checkpoint(self, how, shapes, *folder):
        self.taken = 4 * sum(math.prod(int(extent) for extent in shape.split("x")) for shape in shapes.split(","))
        self.saved = b""
        return "made"

    def load(self):
        if self.saved is not None:
            self.saved = MEMORY[:self.taken]
        return "loaded"

    def run(self, calls):
        if MODE == "die" and RANK == 1:
            sys.exit("the fake dies")
        entered = time.monotonic_ns()
        if MODE == "copy" and self.saved is not None:
            MEMORY[:self.taken] = self.saved
        elif MODE == "copy":
            MEMORY[self.given:self.given + self.taken] = MEMORY[:self.taken]
        return f"ran {entered} {entered} {time.monotonic_ns()}"


fake = Fake()
for line in iter(sys.stdin.readline, ""):
    command, *words = line.split()
    print(getattr(fake, command)(*words), flush=True)
