"""Runs beside a rank of `kolo bench NAME --python`: torch.distributed over gloo.

    python -u -c SCRIPT RANK RANKS DESCRIPTOR BYTES SECONDS THREADS

DESCRIPTOR is memory that the rank shares. gloo waits SECONDS at most. Each line of standard input is answered with a
line of standard output; the end of the input is the end:

    start                               torch VERSION
    store HOST                          port PORT    (on rank 0: makes the store where the ranks find each other)
    join HOST PORT                      joined
    work NAME INPUT OUTPUT GIVE TAKE    tried        (once; with the reason after it if gloo lacks the operation)
    model SHAPES                        made
    checkpoint HOW SHAPES FOLDER        made         (HOW: save, stall or restore)
    load                                loaded
    run CALLS                           ran BEGAN ENTERED LEFT

INPUT and OUTPUT are numbers of float32 elements, one after the other in the shared memory; without an OUTPUT the
operation is in place. GIVE and TAKE say how they are cut, as "8,8" or "-". The tensors have memory of their own: load
copies into them, run copies the result back. BEGAN, and of the last call ENTERED and LEFT, are nanoseconds of
CLOCK_MONOTONIC.

SHAPES are those of a model's parameters, as "64x3x7x7,64"; the inputs, of the same shapes, lie one after the other in
the shared memory. load is the forward pass, run backward(), and the sums of the gradients take the inputs' places.

A checkpoint is of tensors of these SHAPES, the same on all ranks. run saves them, saves them asynchronously (until training
may go on), or restores them; in any case what has been restored takes the inputs' places at last.
"""
import os
import sys

ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what libraries print is no answer
# All cores of the node, as without kolo run: gloo's thread polls, and on one core keeps the others from running.
os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))

import datetime
import math
import mmap
import shutil
import time

import torch
import torch.distributed as dist

RANK, RANKS, DESCRIPTOR, BYTES = (int(word) for word in sys.argv[1:5])
TIMEOUT = datetime.timedelta(seconds=float(sys.argv[5]))


class Work:
    """An operation and its tensors."""

    def __init__(self, shared, name, elements, outputs, give, take):
        self.shared = [shared[:elements], shared[elements:elements + outputs]]
        self.own = [torch.empty(elements), torch.empty(outputs)]
        self.result = 1 if outputs else 0
        self.call = getattr(self, name)(*self.own, give, take)

    def load(self):
        for own, shared in zip(self.own, self.shared):
            own.copy_(shared)

    def save(self):
        self.shared[self.result].copy_(self.own[self.result])

    def allreduce(self, given, taken, give, take):
        return lambda: dist.all_reduce(given)

    def grouped_allreduce(self, given, taken, give, take):
        tensors = list(given.split(give))
        return lambda: dist.all_reduce_coalesced(tensors)

    def reduce(self, given, taken, give, take):
        result = taken if RANK == 0 else torch.empty_like(given)

        def call():
            result.copy_(given)
            dist.reduce(result, 0)

        return call

    def broadcast(self, given, taken, give, take):
        return lambda: dist.broadcast(given, 0)

    def allgather(self, given, taken, give, take):
        return lambda: dist.all_gather_into_tensor(taken, given)

    def alltoall(self, given, taken, give, take):
        return lambda: dist.all_to_all_single(taken, given, take, give)

    def reducescatter(self, given, taken, give, take):
        if min(give) == max(give):
            return lambda: dist.reduce_scatter_tensor(taken, given)
        tensors = list(given.split(give))
        return lambda: dist.reduce_scatter(taken, tensors)

    def sendrecv(self, given, taken, give, take):
        both = [dist.P2POp(dist.isend, given, (RANK + 1) % RANKS), dist.P2POp(dist.irecv, taken, (RANK - 1) % RANKS)]

        def call():
            for work in dist.batch_isend_irecv(both):
                work.wait()

        return call

    def barrier(self, given, taken, give, take):
        return dist.barrier


class Model(torch.nn.Module):
    """Its parameters are zero, and its loss is half the squares of (parameter + input)."""

    def __init__(self, shapes):
        super().__init__()
        self.values = torch.nn.ParameterList(torch.zeros(shape) for shape in shapes)

    def forward(self, inputs):
        sums = [value + given for value, given in zip(self.values, inputs)]
        return torch.stack([(each * each).sum() for each in sums]).sum() / 2


class Backward:
    """A backward pass, during which gradients are reduced."""

    def __init__(self, shared, shapes):
        sizes = [math.prod(shape) for shape in shapes]
        parts = shared[:sum(sizes)].split(sizes)
        self.shared = [part.view(shape) for part, shape in zip(parts, shapes)]
        self.model = torch.nn.parallel.DistributedDataParallel(Model(shapes), gradient_as_bucket_view=True)
        self.loss = None

    def load(self):
        self.model.zero_grad()
        self.loss = self.model(self.shared)

    def call(self):
        self.loss.backward()

    def save(self):
        self.loss = None
        # The averages times the ranks are the sums, but for their rounding; the sums are integers.
        for shared, value in zip(self.shared, self.model.parameters()):
            shared.copy_(value.grad).mul_(RANKS).round_()


class Checkpoint:
    """A state and its checkpoint, in a folder."""

    def __init__(self, shared, how, shapes, folder):
        import torch.distributed.checkpoint as dcp
        self.dcp, self.how, self.folder = dcp, how, folder
        self.group = dist.new_group(backend="gloo")  # a thread of async_save() talks here
        sizes = [math.prod(shape) for shape in shapes]
        self.shared = shared[:sum(sizes)].split(sizes)
        self.state = {f"tensor{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}
        self.future = None

    def load(self):
        for own, shared in zip(self.state.values(), self.shared):
            own.copy_(shared.view_as(own))
        dist.barrier()
        if RANK == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        dist.barrier()
        if self.how == "restore":
            self.write()
            self.spoil()
            self.drop_from_cache()

    def call(self):
        if self.how == "save":
            self.write()
        elif self.how == "restore":
            self.read()
        else:
            self.future = self.dcp.async_save(self.state, checkpoint_id=self.folder, process_group=self.group)

    def save(self):
        if self.how != "restore":
            self.spoil()  # as a training step does
            if self.future is not None:
                self.future.result()
            dist.barrier()
            self.read()
        for own, shared in zip(self.state.values(), self.shared):
            shared.copy_(own.view_as(shared))

    def write(self):
        self.dcp.save(self.state, checkpoint_id=self.folder, process_group=self.group)

    def read(self):
        self.dcp.load(self.state, checkpoint_id=self.folder, process_group=self.group)

    def spoil(self):
        for own in self.state.values():
            own.fill_(-1)

    def drop_from_cache(self):
        for entry in os.scandir(self.folder):
            file = os.open(entry.path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
        dist.barrier()


def shapes_in(text):
    return [[int(extent) for extent in shape.split("x")] for shape in text.split(",")]


def timed(work, calls):
    began = entered = time.monotonic_ns()
    for _ in range(calls - 1):
        work.call()
    if calls > 1:
        entered = time.monotonic_ns()
    work.call()
    left = time.monotonic_ns()
    # A rank that has its answer spins in MPI: not while another is still timed.
    dist.barrier()
    work.save()
    return began, entered, left


def counts(text):
    return [] if text == "-" else [int(word) for word in text.split(",")]


def why_missing(work):
    """Of an operation that this gloo lacks; any other error is one."""
    try:
        work.call()
    except (RuntimeError, AttributeError) as error:
        if not isinstance(error, (NotImplementedError, AttributeError)) and "not support" not in str(error):
            raise
        return " " + str(error).partition("\n")[0]
    return ""


class Child:
    def __init__(self):
        torch.set_num_threads(int(sys.argv[6]))
        self.shared = torch.frombuffer(mmap.mmap(DESCRIPTOR, BYTES), dtype=torch.float32)
        self.store = self.work = None

    def answer(self, command, *words):
        return getattr(self, "on_" + command)(*words)

    def on_start(self):
        return f"torch {torch.__version__}"

    def on_store(self, host):
        self.store = dist.TCPStore(host, 0, RANKS, True, TIMEOUT, wait_for_workers=False)
        return f"port {self.store.port}"

    def on_join(self, host, port):
        if self.store is None:
            self.store = dist.TCPStore(host, int(port), RANKS, False, TIMEOUT, wait_for_workers=False)
        dist.init_process_group("gloo", store=self.store, rank=RANK, world_size=RANKS, timeout=TIMEOUT)
        return "joined"

    def on_work(self, name, elements, outputs, give, take):
        self.work = None  # its memory first
        self.work = Work(self.shared, name, int(elements), int(outputs), counts(give), counts(take))
        return "tried" + why_missing(self.work)

    def on_model(self, shapes):
        self.work = None
        self.work = Backward(self.shared, shapes_in(shapes))
        return "made"

    def on_checkpoint(self, how, shapes, *folder):  # a path may have spaces
        self.work = None
        self.work = Checkpoint(self.shared, how, shapes_in(shapes), " ".join(folder))
        return "made"

    def on_load(self):
        self.work.load()
        return "loaded"

    def on_run(self, calls):
        return "ran {} {} {}".format(*timed(self.work, int(calls)))


def main():
    child = Child()
    for line in iter(sys.stdin.readline, ""):
        print(child.answer(*line.rstrip("\n").split(" ")), file=ANSWERS)


main()
