// docs_blocks [PAGE]: runs the blocks of the pages, or of this one, one after the other, in the
// current folder.
#include "data/hdf5_files.hpp"
#include "prelude.hpp"

namespace {

// Writes images of the size that Net takes, and their classes.
void write_dataset() {
  const std::vector<std::uint8_t> images(std::size_t{40} * 36, 100);
  const std::vector<std::int64_t> labels(40, 1);
  kolo::data::test::write_array("train.h5", "images", {40, 1, 6, 6}, H5T_NATIVE_UINT8,
                                images.data(), {H5T_STD_U8LE, {1, 1, 6, 6}});
  kolo::data::test::write_array("train.h5", "labels", {40}, H5T_NATIVE_INT64, labels.data(),
                                {H5T_STD_I64LE});
}

// Writes a file like those that `kolo checkpoint convert` makes.
void write_model() {
  c10::Dict<std::string, torch::Tensor> state;
  const Net net;
  for (const auto& named : net->named_parameters())
    state.insert(named.key(), named.value().detach());
  const std::vector<char> bytes = torch::pickle_save(state);
  std::ofstream("model.pt", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string page = argc > 1 ? argv[1] : "";
  kolo::init();
  if (kolo::rank() == 0) {
    write_model();
    write_dataset();
  }
  int failures = 0;
  for (const Block& block : kBlocks) {
    if (!page.empty() && std::string(block.where).rfind(page + ":", 0) != 0) continue;
    kolo::barrier();
    std::string outcome = "ok";
    try {
      if (block.run() != 0) outcome = "returned an error";
    } catch (const std::exception& error) {
      outcome = error.what();
    }
    // The GPU page needs a GPU. Another test runs it on the fake one.
    const bool needs_gpu = outcome.find("built without CUDA") != std::string::npos ||
                           outcome.find("no CUDA device") != std::string::npos;
    if (outcome != "ok" && needs_gpu) outcome = "skipped: " + outcome;
    if (outcome != "ok" && !needs_gpu) ++failures;
    if (kolo::rank() == 0) std::cout << block.where << ": " << outcome << std::endl;
  }
  return failures == 0 ? 0 : 1;
}
