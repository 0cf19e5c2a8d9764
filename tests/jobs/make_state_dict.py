"""make_state_dict.py FILE: writes what tests/jobs/state_dict.pt is, with Python's torch 2.11:

a training program's dictionary of a module's state_dict (an OrderedDict with attributes), its optimizer's, and values.
"""
import argparse
import sys

import torch

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
}, sys.argv[1])
