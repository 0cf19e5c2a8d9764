// Finds the origin of a NaN or an infinity.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>

namespace kolo::trainer {

// The kind of value to search for. A mask may be infinite although nothing is wrong.
enum class Bad { NaN, Infinite };

// Calls `compute`, which uses the module and may be collective. Describes the first operation with
// such an output and the module that it belongs to, or names a parameter or buffer that is bad
// itself. The module is found by the parameters that operations receive. If there is no such
// output, the text says so.
std::string first_nonfinite(const torch::nn::Module& module, Bad bad,
                            const std::function<void()>& compute);

}  // namespace kolo::trainer
