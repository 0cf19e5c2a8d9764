#!/usr/bin/env python3
"""Prints schedulers_reference.hpp: the rates of Python's torch.optim.lr_scheduler, for schedulers_test.cpp to compare with.

Needs a torch that Python can import (the header names the version that made it); the tests themselves need no Python.

    python3 make_schedulers_reference.py > schedulers_reference.hpp
"""
import warnings

import torch
from torch.optim import lr_scheduler

EPOCHS = 30
BASE = 0.5


def sequential(optimizer):
    first = lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=4)
    second = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    third = lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=0.01)
    return lr_scheduler.SequentialLR(optimizer, [first, second, third], [4, 12])


def warm_up(optimizer):
    rise = lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=5)
    fall = lr_scheduler.CosineAnnealingLR(optimizer, T_max=25)
    return lr_scheduler.SequentialLR(optimizer, [rise, fall], [5])


CASES = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [3, 6, 6, 20], gamma=0.1),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.875),
    "ConstantLR": lr_scheduler.ConstantLR,
    "LinearLR": lr_scheduler.LinearLR,
    "LinearLR_down": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.125, 12),
    "PolynomialLR": lr_scheduler.PolynomialLR,
    "PolynomialLR_square": lambda o: lr_scheduler.PolynomialLR(o, 20, 2.0),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 12),
    "CosineAnnealingLR_min": lambda o: lr_scheduler.CosineAnnealingLR(o, 29, 0.0625),
    "WarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7),
    "WarmRestarts_longer": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.0625),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.75, EPOCHS, cycle_momentum=False),
    "OneCycleLR_linear": lambda o: lr_scheduler.OneCycleLR(
        o, 0.75, EPOCHS, pct_start=0.4, anneal_strategy="linear", cycle_momentum=False, div_factor=10.0,
        final_div_factor=100.0),
    "OneCycleLR_three": lambda o: lr_scheduler.OneCycleLR(o, 0.75, EPOCHS, cycle_momentum=False, three_phase=True),
    "OneCycleMomentum": lambda o: lr_scheduler.OneCycleLR(o, 0.75, EPOCHS),
    "OneCycleMomentum_linear": lambda o: lr_scheduler.OneCycleLR(
        o, 0.75, EPOCHS, pct_start=0.4, anneal_strategy="linear", base_momentum=0.5, max_momentum=0.875),
    "OneCycleMomentum_three": lambda o: lr_scheduler.OneCycleLR(o, 0.75, EPOCHS, three_phase=True),
    "SequentialLR": sequential,
    "warm_up": warm_up,
}


def rates(name, make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE, momentum=0.5)
    scheduler = make(optimizer)
    values = []
    for _ in range(EPOCHS):
        values.append(optimizer.param_groups[0]["momentum" if "Momentum" in name else "lr"])
        scheduler.step()
    return values


def main():
    warnings.simplefilter("ignore")  # that the optimizer makes no steps
    print(f"""// Made by make_schedulers_reference.py with Python's torch {torch.__version__.split('+')[0]}; do not edit.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kolo::test {{

// clang-format off
constexpr double kBaseRate = {BASE};

// The rate in each epoch, from 0 on.
inline const std::map<std::string, std::vector<double>>& scheduler_references() {{
  static const std::map<std::string, std::vector<double>> all = {{""")
    for name, make in CASES.items():
        print(f'      {{"{name}",\n       {{' + ", ".join(float(rate).hex() for rate in rates(name, make)) + "}},")
    print("""  };
  return all;
}
// clang-format on

}  // namespace kolo::test""")


if __name__ == "__main__":
    main()
