// The options of `kolo slurm`, and the text that its help shows before them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>

namespace kolo::cli {

std::string slurm_intro();
boost::program_options::options_description slurm_option_table();

}  // namespace kolo::cli
