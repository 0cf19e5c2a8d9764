"""make_state_dict.py FOLDER: writes tests/jobs/*.pt into it, with Python's torch 2.11:

state_dict.pt   a training program's dictionary of a module's state_dict (an OrderedDict with attributes), its
                optimizer's, and values
module.pt       a whole module, which is code and not tensors by name
scripted.pt     a TorchScript module whose code would run when it is loaded
"""
import argparse
import io
import pathlib
import sys
import zipfile

import torch

folder = pathlib.Path(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
with torch.no_grad():
    for i, value in enumerate(model.state_dict().values()):
        value.copy_(torch.arange(value.numel()).view(value.shape) + 10 * i)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(2, 2)).sum().backward()
optimizer.step()
with torch.no_grad():
    for i, value in enumerate(model.state_dict().values()):
        value.copy_(torch.arange(value.numel()).view(value.shape) + 10 * i)
torch.save({
    "model": model.state_dict(),
    "transposed": model[0].weight.detach().t(),
    "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "optimizer": optimizer.state_dict(),
    "epoch": 3,
    "arguments": argparse.Namespace(lr=0.1),
}, folder / "state_dict.pt")
torch.save(torch.nn.Linear(1, 1), folder / "module.pt")


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self):
        return self.weight

    @torch.jit.export
    def __getstate__(self):
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]):
        print("this must never be seen")
        self.weight = state[0]
        self.training = state[1]


buffer = io.BytesIO()
torch.jit.save(torch.jit.script(Scripted()), buffer)
# Without what names this file's place, for debuggers.
with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(folder / "scripted.pt", "w") as stripped:
    for name in archive.namelist():
        if not name.endswith(".debug_pkl"):
            stripped.writestr(name, archive.read(name))
