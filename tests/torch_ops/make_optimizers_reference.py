#!/usr/bin/env python3
"""Prints optimizers_reference.hpp: what Python's torch.optim computes, for optimizers_test.cpp to compare with.

Needs a torch that Python can import (the header names the version that made it); the tests themselves need no Python.
torch.optim has neither LARS nor LAMB: these two are written here after their papers.

    python3 make_optimizers_reference.py > optimizers_reference.hpp
"""
import torch

# Some optimizers keep scalars in the default dtype.
torch.set_default_dtype(torch.float64)

STEPS = 20
STEPS_A_RATE = 5  # after which the learning rate is multiplied by 0.7
SHOWN = (1, 2, 10, 20)
SIZES = ((2, 3), (2,))
COUNT = 8  # elements of both together


class Lars(torch.optim.Optimizer):
    """You, Gitman and Ginsburg 2017, on SGD with momentum."""

    def __init__(self, parameters, lr, momentum=0.9, dampening=0.0, weight_decay=0.0, trust_coefficient=1e-3, eps=1e-8,
                 nesterov=False):
        super().__init__(parameters, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient, "eps": eps, "nesterov": nesterov})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                norm_x, norm_g = float(x.norm()), float(x.grad.norm())
                trust = 1.0
                if group["trust_coefficient"] != 0 and norm_x != 0 and norm_g != 0:
                    denominator = norm_g + group["weight_decay"] * norm_x + group["eps"]
                    trust = group["trust_coefficient"] * norm_x / denominator
                change = trust * (x.grad + group["weight_decay"] * x)
                if group["momentum"] != 0:
                    state = self.state[x]
                    if "momentum_buffer" not in state:
                        state["momentum_buffer"] = change.clone()
                    else:
                        state["momentum_buffer"] = (group["momentum"] * state["momentum_buffer"]
                                                    + (1 - group["dampening"]) * change)
                    buffer = state["momentum_buffer"]
                    change = change + group["momentum"] * buffer if group["nesterov"] else buffer
                x -= group["lr"] * change


class Lamb(torch.optim.Optimizer):
    """You and others 2020, algorithm 2, with bias correction."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for x in group["params"]:
                state = self.state[x]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(x), exp_avg_sq=torch.zeros_like(x))
                state["step"] += 1
                state["exp_avg"] = first * state["exp_avg"] + (1 - first) * x.grad
                state["exp_avg_sq"] = second * state["exp_avg_sq"] + (1 - second) * x.grad ** 2
                mean = state["exp_avg"] / (1 - first ** state["step"])
                square = state["exp_avg_sq"] / (1 - second ** state["step"])
                update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * x
                norm_x, norm_update = float(x.norm()), float(update.norm())
                trust = norm_x / norm_update if norm_x != 0 and norm_update != 0 else 1.0
                x -= group["lr"] * trust * update


OPTIMIZERS = {name: getattr(torch.optim, name) for name in
              ("Adadelta", "Adam", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam", "Rprop", "SGD")}
OPTIMIZERS["LARS"] = Lars
OPTIMIZERS["LAMB"] = Lamb

# optimizer, options other than the defaults
CASES = (
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.125}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.25, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.25, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.125, "lambd": 0.01, "alpha": 0.5, "t0": 5.0, "weight_decay": 0.125}),
    ("ASGD", {"t0": 0.0, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.125, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125, "momentum_decay": 0.25}),
    ("NAdam", {"lr": 0.125, "weight_decay": 0.125, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.125, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125}),
    ("RAdam", {"lr": 0.125, "weight_decay": 0.125, "decoupled_weight_decay": True, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.5, "etas": (0.25, 1.5), "step_sizes": (0.0625, 0.75), "maximize": True}),
    ("LARS", {"lr": 4.0}),
    ("LARS", {"lr": 8.0, "momentum": 0.5, "dampening": 0.25, "weight_decay": 0.125, "trust_coefficient": 0.01}),
    ("LARS", {"lr": 0.5, "nesterov": True, "trust_coefficient": 0.0, "weight_decay": 0.125}),
    ("LARS", {"lr": 2.0, "momentum": 0.0, "eps": 0.5}),
    ("LAMB", {}),
    ("LAMB", {"lr": 0.125, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125}),
    ("SGD", {"lr": 0.125}),
    ("SGD", {"lr": 0.125, "momentum": 0.5, "dampening": 0.25, "weight_decay": 0.125}),
    ("SGD", {"lr": 0.125, "momentum": 0.5, "nesterov": True}),
    ("Adam", {"lr": 1e-3}),
    ("Adam", {"lr": 0.125, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125}),
    ("Adam", {"lr": 0.125, "amsgrad": True}),
    ("AdamW", {"lr": 1e-3}),
    ("AdamW", {"lr": 0.125, "betas": (0.75, 0.875), "eps": 1e-3, "weight_decay": 0.125, "amsgrad": True}),
)


def make_parameters(dtype):
    """Quarters from -1 to 0.75: exact in every dtype."""
    values = [(5 * i % 8 - 4) / 4 for i in range(COUNT)]
    flat_values = torch.tensor(values, dtype=dtype)
    first = flat_values[:6].reshape(SIZES[0]).clone().requires_grad_()
    second = flat_values[6:].reshape(SIZES[1]).clone().requires_grad_()
    return [first, second]


def loss_of(parameters, step):
    """Its gradient is parameter + slope: it changes with the parameter, and its sign with the step."""
    slope = (7 * step % 17 - 8) / 8
    return sum((0.5 * parameter * parameter + slope * parameter).sum() for parameter in parameters)


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).tolist()


def run(optimizer, dtype, options):
    parameters = make_parameters(dtype)
    made = OPTIMIZERS[optimizer](parameters, **options)
    shown = []
    for step in range(1, STEPS + 1):
        made.zero_grad()
        loss_of(parameters, step).backward()
        made.step()
        if step in SHOWN:
            shown.append(flat(parameters))
        if step % STEPS_A_RATE == 0:
            for group in made.param_groups:
                group["lr"] *= 0.7
    states = [made.state[parameter] for parameter in parameters]
    kept = {name: flat(state[name] for state in states) for name, value in states[0].items()
            if torch.is_tensor(value) and value.shape == parameters[0].shape}
    return shown, kept


def braces(values):
    """Hexadecimal floating-point numbers lose no bit."""
    return "{" + ", ".join(float(value).hex() for value in values) + "}"


def numbers_of(options):
    for name, value in options.items():
        if isinstance(value, tuple):
            yield from ((f"{name}_{i + 1}", part) for i, part in enumerate(value))
        else:
            yield name, value


def print_case(optimizer, dtype, options):
    shown, kept = run(optimizer, dtype, options)
    given = ", ".join(f'{{"{name}", {float(value)!r}}}' for name, value in numbers_of(options))
    print(f'      {{"{optimizer}", {"true" if dtype == torch.float64 else "false"}, {{{given}}},')
    print("       {" + ",\n        ".join(braces(values) for values in shown) + "},")
    print("       {" + ",\n        ".join(f'{{"{name}", {braces(values)}}}' for name, values in kept.items()) + "}},")


def main():
    print(f"""// Made by make_optimizers_reference.py with Python's torch {torch.__version__.split('+')[0]}; do not edit.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kolo::test {{

// clang-format off
struct OptimizerReference {{
  std::string optimizer;
  bool is_float64;
  std::vector<std::pair<std::string, double>> options;  // other than the defaults
  std::vector<std::vector<double>> parameters;  // after each of kShownSteps
  std::vector<std::pair<std::string, std::vector<double>>> state;  // tensors, after the last step
}};

inline const std::vector<int> kShownSteps = {{{", ".join(map(str, SHOWN))}}};

inline const std::vector<OptimizerReference>& optimizer_references() {{
  static const std::vector<OptimizerReference> all = {{""")
    for optimizer, options in CASES:
        for dtype in (torch.float32, torch.float64):
            print_case(optimizer, dtype, options)
    print("""  };
  return all;
}
// clang-format on

}  // namespace kolo::test""")


if __name__ == "__main__":
    main()
