#!/usr/bin/env python3
"""Prints training_reference.hpp: how Python's torch lowers a learning rate on a plateau, and the factor of its loss scaler.

Needs a torch that Python can import (the header names the version that made it); the tests themselves need no Python.

    python3 make_training_reference.py > training_reference.hpp
"""
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

RATE = 0.5
# After the epochs. Exact in float32.
METRIC = (8, 6, 6, 6.125, 5, 5, 5, 5, 5, 4.9375, 4.9375, 4.875, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4)

# Options other than the defaults, by the names of kolo's options.
PLATEAUS = (
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "min_lr": 0.01},
    {"patience": 1, "factor": 0.5, "cooldown": 3},
    {"patience": 3, "threshold": 0.25},
    {"patience": 3, "threshold": 0.25, "threshold_is_relative": 0},
    {"patience": 1, "factor": 0.5, "eps": 0.1},
    {"patience": 1, "factor": 0.75, "higher_is_better": 1},
    # A metric that rises, and is below 0.
    {"patience": 2, "factor": 0.5, "higher_is_better": 1, "times": -1},
    {"patience": 1, "factor": 0.5, "threshold": 0.25, "higher_is_better": 1, "times": -1},
    {"patience": 2, "threshold": 0.5, "threshold_is_relative": 0, "higher_is_better": 1, "times": -1},
    {"patience": 2, "factor": 0.5, "threshold": 0.0625, "times": -1},
    {"patience": 3, "factor": 0.5, "threshold": 1.5, "threshold_is_relative": 0},
)

# 1: a gradient has overflowed in this step.
OVERFLOWS = (1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)
SCALERS = (
    {"growth_interval": 3},
    {"growth_interval": 1, "init_scale": 8.0, "growth_factor": 4.0, "backoff_factor": 0.25},
    {"growth_interval": 4, "init_scale": 1.0, "growth_factor": 1.5, "backoff_factor": 0.75},
)


def plateau_rates(options):
    given = dict(options)
    given["threshold_mode"] = "rel" if given.pop("threshold_is_relative", 1) else "abs"
    times = given.pop("times", 1)
    given["mode"] = "max" if given.pop("higher_is_better", 0) else "min"
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    scheduler = ReduceLROnPlateau(optimizer, **given)
    rates = []
    for value in METRIC:
        scheduler.step(times * value)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def scales(options):
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", **options)
    factors = []
    for overflows in OVERFLOWS:
        scaler.scale((parameter * (float("inf") if overflows else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        factors.append(scaler.get_scale())
    return factors


def braces(values):
    """Hexadecimal floating-point numbers lose no bit."""
    return "{" + ", ".join(float(value).hex() for value in values) + "}"


def print_cases(cases, run):
    for options in cases:
        given = ", ".join(f'{{"{name}", {float(value)!r}}}' for name, value in options.items())
        print(f"      {{{{{given}}},\n       {braces(run(options))}}},")


def main():
    print(f"""// Made by make_training_reference.py with Python's torch {torch.__version__.split('+')[0]}; do not edit.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kolo::test {{

// clang-format off
struct TrainingReference {{
  std::map<std::string, double> options;  // other than the defaults
  std::vector<double> values;             // the learning rate, or the scaler's factor, after each epoch or step
}};

constexpr double kPlateauRate = {RATE};
inline const std::vector<double> kPlateauMetric = {{{", ".join(map(str, map(float, METRIC)))}}};
inline const std::vector<int> kOverflows = {{{", ".join(map(str, OVERFLOWS))}}};

inline const std::vector<TrainingReference>& plateau_references() {{
  static const std::vector<TrainingReference> all = {{""")
    print_cases(PLATEAUS, plateau_rates)
    print("""  };
  return all;
}

inline const std::vector<TrainingReference>& scaler_references() {
  static const std::vector<TrainingReference> all = {""")
    print_cases(SCALERS, scales)
    print("""  };
  return all;
}
// clang-format on

}  // namespace kolo::test""")


if __name__ == "__main__":
    main()
