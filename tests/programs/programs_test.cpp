// Programs of one process that become distributed by README.md's lines alone end with the
// parameters that one process with the whole batch ends with.
#include "programs/programs.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#ifdef KOLO_ON_GPU
#include "gpu/has_gpu.hpp"
#endif

namespace programs {
namespace {

struct Program {
  const char* name;
  Tensors (*alone)();
  Tensors (*together)();
};

const Program kPrograms[] = {
    {"dcgan", dcgan<Alone>, dcgan<Together>},
    {"conditional_gan", conditional_gan<Alone>, conditional_gan<Together>},
    {"ppo", ppo<Alone>, ppo<Together>},
    {"language_model", language_model<Alone>, language_model<Together>},
    {"vae", vae<Alone>, vae<Together>},
    {"transfer", transfer<Alone>, transfer<Together>},
    {"lbfgs", lbfgs<Alone>, lbfgs<Together>},
    {"gpt", gpt<Alone>, gpt<Together>},
};

struct Setting {
  const char* test;
  const char* name;  // null: none
  const char* value;
};

const Setting kSettings[] = {
    {"Defaults", nullptr, nullptr},
    {"OverMessages", "KOLO_SHARED_MEMORY", "0"},
    {"WithoutArena", "KOLO_ARENA", "0"},
    {"WithoutFusion", "KOLO_FUSION_THRESHOLD", "0"},
    {"WithoutCache", "KOLO_CACHE_CAPACITY", "0"},
};

class Programs : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
#ifdef KOLO_ON_GPU
    if (!kolo::has_gpu()) GTEST_SKIP() << kolo::kNoGpu;
#endif
    if (GetParam().name != nullptr) setenv(GetParam().name, GetParam().value, 1);
    kolo::init();
  }
  void TearDown() override {
    if (kolo::is_initialized()) kolo::shutdown();
    if (GetParam().name != nullptr) unsetenv(GetParam().name);
  }
};

TEST_P(Programs, EndAsInOneProcess) {
  for (const Program& program : kPrograms) {
    SCOPED_TRACE(program.name);
    torch::manual_seed(7);
    const Tensors wanted = program.alone();
    torch::manual_seed(static_cast<std::uint64_t>(7 + 100 * kolo::rank()));  // rank 0's count
    const Tensors found = program.together();
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double difference = (found[i] - wanted[i]).abs().max().item<double>();
      EXPECT_LE(difference, 1e-10) << "parameter " << i << " on rank " << kolo::rank();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(kSettings),
                         [](const auto& test) { return test.param.test; });

}  // namespace
}  // namespace programs
