#pragma once

namespace kolo::bench {

// The text of loading_child.py.
extern const char* const kLoadingScript;

}  // namespace kolo::bench
