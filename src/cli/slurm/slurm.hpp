// The options of `kolo slurm`, and what its help says before them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>

namespace kolo::cli {

std::string slurm_intro();
boost::program_options::options_description slurm_option_table();

}  // namespace kolo::cli
