"""Runs beside a rank of `kolo bench loading --python`: Python's DataLoader over h5py.

    python -u -c SCRIPT

Each line of standard input is answered with a line of standard output; the end of the input is the end:

    start                            torch VERSION, h5py VERSION
    loader SHUFFLED WORKERS BATCH FILE   made     (SHUFFLED: 0 or 1)
    epoch                            loaded COUNT LABELS FIRST PAIRED

FILE has the arrays images and labels. COUNT is the number of samples, LABELS the sum of their labels, FIRST that of their
first bytes, PAIRED that of the products of the two.
"""
import os
import sys

ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what libraries print is no answer
os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))

import h5py
import torch


class Samples(torch.utils.data.Dataset):
    """Opens its file in each worker process: h5py's objects cannot be shared."""

    def __init__(self, path):
        self.path = path
        self.file = None
        with h5py.File(path) as file:
            self.count = len(file["labels"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.file is None:
            # Without a cache of chunks, as kolo's contender.
            self.file = h5py.File(self.path, rdcc_nbytes=0)
            self.images, self.labels = self.file["images"], self.file["labels"]
        return torch.from_numpy(self.images[index]), int(self.labels[index])


class Child:
    loader = None

    def on_start(self):
        return f"torch {torch.__version__}, h5py {h5py.__version__}"

    def on_loader(self, shuffled, workers, batch, *path):  # a path may have spaces
        torch.set_num_threads(1)
        self.loader = torch.utils.data.DataLoader(Samples(" ".join(path)), batch_size=int(batch), shuffle=shuffled == "1",
                                                  num_workers=int(workers), persistent_workers=int(workers) > 0)
        return "made"

    def on_epoch(self):
        count = labels = first = paired = 0
        for data, target in self.loader:
            count += len(data)
            labels += int(target.sum())
            bytes_ = data.flatten(1)[:, 0].long()
            first += int(bytes_.sum())
            paired += int((bytes_ * target).sum())
        return f"loaded {count} {labels} {first} {paired}"


def main():
    child = Child()
    for line in iter(sys.stdin.readline, ""):
        command, *words = line.rstrip("\n").split(" ")
        print(getattr(child, "on_" + command)(*words), file=ANSWERS)


main()
