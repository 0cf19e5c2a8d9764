// The options of `kolo doctor`, and the text that its help shows before them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>

namespace kolo::cli {

std::string doctor_intro();
boost::program_options::options_description doctor_option_table();

}  // namespace kolo::cli
