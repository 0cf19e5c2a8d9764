// The options of `kolo bench`, and the text that its help shows before them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>

namespace kolo::cli {

std::string bench_intro();
boost::program_options::options_description bench_option_table();

}  // namespace kolo::cli
