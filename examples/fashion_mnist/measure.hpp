// How fast images are loaded, and classified.
#pragma once

#include <cstdint>
#include <string>

namespace fashion_mnist {

// Loads the training images with 0, 1, 2, 4 and 8 workers in each rank. Rank 0 prints how many
// images all ranks load in a second, and plots that to the SVG file `plot` unless it is empty.
// Collective. Throws std::runtime_error if the images depend on the number of workers.
void measure_loading(const std::string& data, std::int64_t batch_size, const std::string& plot);

// Classifies batches of 1 to 4,096 random images on one device, and with kolo::DataParallel on all
// GPUs of the process (or in two parts on the CPU). Prints and plots images per second. In one
// process. Throws std::runtime_error if the outputs differ.
void measure_inference(const std::string& device, const std::string& plot);

}  // namespace fashion_mnist
