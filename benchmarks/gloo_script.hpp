#pragma once

namespace kolo::bench {

// The text of gloo_child.py.
extern const char* const kGlooScript;

}  // namespace kolo::bench
