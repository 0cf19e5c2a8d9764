#!/usr/bin/env python3
"""Prints adadelta_reference.hpp: what Python's torch.optim.Adadelta computes, for adadelta_test.cpp to compare with.

Needs a torch that Python can import (the header names the version that made it); the tests themselves need no Python.

    python3 make_adadelta_reference.py > adadelta_reference.hpp
"""
import torch

STEPS = 20
STEPS_A_EPOCH = 5  # after which StepLR(step_size=1, gamma=0.7) makes a step
SHOWN = (1, 2, 10, 20)
SIZES = ((2, 3), (2,))
COUNT = 8  # elements of both together

# name, dtype, options other than the defaults
CASES = (
    ("float32", torch.float32, {}),
    ("float32_weight_decay", torch.float32, {"weight_decay": 0.125}),
    ("float64", torch.float64, {}),
    ("float64_weight_decay", torch.float64, {"weight_decay": 0.125}),
    ("float64_all_options", torch.float64, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.25}),
)


def make_parameters(dtype):
    """Quarters from -1 to 0.75: exact in every dtype."""
    values = [(5 * i % 8 - 4) / 4 for i in range(COUNT)]
    flat = torch.tensor(values, dtype=dtype)
    first = flat[:6].reshape(SIZES[0]).clone().requires_grad_()
    second = flat[6:].reshape(SIZES[1]).clone().requires_grad_()
    return [first, second]


def loss_of(parameters, step):
    """Its gradient is parameter + slope: it changes with the parameter, and its sign with the step."""
    slope = (7 * step % 17 - 8) / 8
    return sum((0.5 * parameter * parameter + slope * parameter).sum() for parameter in parameters)


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).tolist()


def run(dtype, options):
    parameters = make_parameters(dtype)
    optimizer = torch.optim.Adadelta(parameters, **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    shown, rates = [], []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss_of(parameters, step).backward()
        optimizer.step()
        if step in SHOWN:
            shown.append(flat(parameters))
        if step % STEPS_A_EPOCH == 0:
            scheduler.step()
            rates.append(scheduler.get_last_lr()[0])
    states = [optimizer.state[parameter] for parameter in parameters]
    return shown, flat(s["square_avg"] for s in states), flat(s["acc_delta"] for s in states), rates


def braces(values):
    """Hexadecimal floating-point numbers lose no bit."""
    return "{" + ", ".join(float(value).hex() for value in values) + "}"


def print_case(name, dtype, options):
    shown, square_avg, acc_delta, rates = run(dtype, options)
    given = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, **options}
    print(f'    {{"{name}",')
    print(f"     {'true' if dtype == torch.float64 else 'false'},")
    print("     " + ", ".join(repr(given[key]) for key in ("lr", "rho", "eps", "weight_decay")) + ",")
    print("     {{" + ",\n       ".join(braces(values) for values in shown) + "}},")
    print(f"     {braces(square_avg)},\n     {braces(acc_delta)},\n     {braces(rates)}}},")


def main():
    print(f"""// Made by make_adadelta_reference.py with Python's torch {torch.__version__.split('+')[0]}; do not edit.
#pragma once

#include <array>

namespace kolo::test {{

// clang-format off
struct AdadeltaReference {{
  const char* name;
  bool is_float64;
  double lr, rho, eps, weight_decay;
  std::array<std::array<double, {COUNT}>, {len(SHOWN)}> parameters;  // after each of kAdadeltaShownSteps
  std::array<double, {COUNT}> square_avg;  // after the last step, as are the next two
  std::array<double, {COUNT}> acc_delta;
  std::array<double, {STEPS // STEPS_A_EPOCH}> learning_rates;  // after each epoch's scheduler step
}};

inline constexpr std::array<int, {len(SHOWN)}> kAdadeltaShownSteps = {{{", ".join(map(str, SHOWN))}}};

inline constexpr std::array<AdadeltaReference, {len(CASES)}> kAdadeltaReferences = {{{{""")
    for case in CASES:
        print_case(*case)
    print("""}};
// clang-format on

}  // namespace kolo::test""")


if __name__ == "__main__":
    main()
