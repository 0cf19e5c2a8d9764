#pragma once

namespace kolo::bench {

// The text of horovod_job.py.
extern const char* const kHorovodScript;

}  // namespace kolo::bench
