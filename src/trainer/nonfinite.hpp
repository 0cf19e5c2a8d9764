// Where a NaN or an infinity comes from.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>

namespace kolo::trainer {

// Which values are looked for: a mask may be infinite where nothing is wrong.
enum class Bad { NaN, Infinite };

// Calls `compute`, which uses the module and may be collective, and says of which operation, and of
// which module within it, the first such output is, or which parameter or buffer is bad itself.
// Operations are known by the parameters that they are given. If there is no such output the text
// says that.
std::string first_nonfinite(const torch::nn::Module& module, Bad bad,
                            const std::function<void()>& compute);

}  // namespace kolo::trainer
