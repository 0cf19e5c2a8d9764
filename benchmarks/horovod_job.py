"""A rank of a job that `kolo bench --python` measures: Horovod over MPI.

    python -u -c SCRIPT ADDRESS

Rank 0 connects to ADDRESS, a Unix socket in Linux's abstract space, and answers lines with lines as benchmarks/job.hpp
says. Works, with shapes like 64x3x7x7:

    allreduce ELEMENTS
    reduction SHAPE,SHAPE,... backward|shuffled known|new    (all submitted, then awaited; names of each step)
    backward SHAPE,SHAPE,...                                 (the parameters of a model as in benchmarks/backward.hpp)
"""
import os
import random
import socket
import sys
import time

import torch
import horovod
import horovod.torch as hvd

PERIOD = 4093
WORD = 0xFFFFFFFF


def mix(bits):
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & WORD
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & WORD
    return bits ^ (bits >> 16)


def period_of(rank, turn):
    """What benchmarks/pattern.cpp writes."""
    row = int(mix(torch.tensor(rank + 65536 * turn)))
    return (mix((torch.arange(PERIOD) + row) & WORD) & 0xFF).float()


def repeat(period, count, offset):
    start = offset % PERIOD
    return period.repeat((start + count + PERIOD - 1) // PERIOD)[start:start + count]


class Allreduce:
    def __init__(self, elements):
        self.tensor = torch.empty(int(elements))

    def refresh(self, mine):
        self.tensor.copy_(repeat(mine, self.tensor.numel(), 0))

    def run(self):
        hvd.allreduce_(self.tensor, name="tensor", op=hvd.Sum)

    def is_right(self, total):
        return torch.equal(self.tensor, repeat(total, self.tensor.numel(), 0))


def parse(shapes):
    return [[int(size) for size in shape.split("x")] for shape in shapes.split(",")]


class Reduction:
    def __init__(self, shapes, order, names):
        self.tensors = [torch.empty(shape) for shape in parse(shapes)]
        self.order = list(reversed(range(len(self.tensors))))
        self.shuffled = order == "shuffled"
        self.new = names == "new"
        self.steps = 0

    def refresh(self, mine):
        offset = 0
        for tensor in self.tensors:
            tensor.view(-1).copy_(repeat(mine, tensor.numel(), offset))
            offset += tensor.numel()
        if self.shuffled:
            random.shuffle(self.order)
        self.steps += self.new
        self.names = [f"tensor.{self.steps}.{i}" for i in range(len(self.tensors))]

    def run(self):
        handles = [hvd.allreduce_async_(self.tensors[i], name=self.names[i], op=hvd.Sum) for i in self.order]
        for handle in handles:
            hvd.synchronize(handle)

    def is_right(self, total):
        offset = 0
        for tensor in self.tensors:
            if not torch.equal(tensor.view(-1), repeat(total, tensor.numel(), offset)):
                return False
            offset += tensor.numel()
        return True


class Backward:
    def __init__(self, shapes):
        shapes = parse(shapes)
        self.leaves = [torch.zeros(shape, requires_grad=True) for shape in shapes]
        self.inputs = [torch.empty(shape) for shape in shapes]
        names = [(f"gradient.{i}", leaf) for i, leaf in enumerate(self.leaves)]
        self.optimizer = hvd.DistributedOptimizer(torch.optim.SGD(self.leaves, lr=0.1), names, op=hvd.Sum)

    def refresh(self, mine):
        self.optimizer.zero_grad()
        losses, offset = [], 0
        for leaf, given in zip(self.leaves, self.inputs):
            given.copy_(repeat(mine, given.numel(), offset).view_as(given))
            offset += given.numel()
            both = leaf + given
            losses.append((both * both).sum())
        self.loss = torch.stack(losses).sum() / 2

    def run(self):
        self.loss.backward()
        self.optimizer.synchronize()

    def is_right(self, total):
        offset = 0
        for leaf in self.leaves:
            if not torch.equal(leaf.grad.view(-1), repeat(total, leaf.numel(), offset)):
                return False
            offset += leaf.numel()
        return True


class Rank:
    def __init__(self):
        hvd.init()
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.work = None

    def answer(self, line):
        word, *arguments = line.split()
        return getattr(self, "on_" + word)(*arguments)

    def on_start(self):
        if hvd.local_size() != hvd.size():
            return "failed: its ranks are not on one host"
        told = hvd.allgather_object((os.getpid(), sorted(os.sched_getaffinity(0))))
        version = f"Horovod-{horovod.__version__}/torch-{torch.__version__}"
        unbound = all(len(cores) == os.cpu_count() for _, cores in told)
        placement = "unbound" if unbound else "by rank on cores " + " ".join(str(cores) for _, cores in told)
        return " ".join(["started", version] + [str(process) for process, _ in told] + [";", placement])

    def on_work(self, name, *arguments):
        self.work = None  # its memory first
        self.work = {"allreduce": Allreduce, "reduction": Reduction, "backward": Backward}[name](*arguments)
        return "ready"

    def on_run(self, turn, calls):
        periods = [period_of(rank, int(turn)) for rank in range(hvd.size())]
        self.work.refresh(periods[hvd.rank()])
        hvd.barrier()
        begin = time.perf_counter()
        for _ in range(int(calls)):
            self.work.run()
        taken = (time.perf_counter() - begin) * 1e6
        # From the second call on all ranks have the same.
        total = sum(periods) * float(hvd.size()) ** (int(calls) - 1)
        told = hvd.allgather_object((taken, self.work.is_right(total)))
        wrong = [str(rank) for rank, (_, right) in enumerate(told) if not right]
        if wrong:
            return "failed: a sum is wrong on rank " + ", ".join(wrong)
        return f"ran {max(taken for taken, _ in told)}"

    def on_end(self):
        return "ended"


def main():
    rank = Rank()
    lines = None
    if hvd.rank() == 0:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect("\0" + sys.argv[1])
        lines = connection.makefile("rw", buffering=1)
    while True:
        line = hvd.broadcast_object((lines.readline() or "end") if lines else None, name="line")
        answer = rank.answer(line)
        if lines:
            lines.write(answer + "\n")
        if answer == "ended":
            return


main()
