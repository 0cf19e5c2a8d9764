// The benchmarks of kolo-bench. Each is collective and throws WrongResult.
#pragma once

#include <functional>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/report.hpp"

namespace kolo::bench {

// Called with the rows of one work as soon as it is measured, on every rank.
using Publish = std::function<void(const std::vector<Row>& rows)>;

// Work "allreduce/BYTES/private/RANKS": one float32 tensor of private memory, Sum, in place.
void bench_allreduce(Group& group, const Options& options, const Publish& publish);

// Work "gradients/MODEL/RANKS": from the first submission to the last completion.
void bench_gradients(Group& group, const Options& options, const Publish& publish);

}  // namespace kolo::bench
