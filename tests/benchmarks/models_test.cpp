#include "benchmarks/models.hpp"

#include <gtest/gtest.h>

#include <set>

namespace kolo::bench {
namespace {

TEST(ResNet50, HasItsParametersAndValues) {
  const auto parameters = resnet50_parameters();
  std::set<std::string> names;
  for (const Parameter& parameter : parameters) names.insert(parameter.name);
  EXPECT_EQ(parameters.size(), 161U);
  EXPECT_EQ(elements_of(parameters), 25557032U);
  EXPECT_EQ(names.size(), 161U);
}

TEST(ResNet50, IsInTorchvisionsOrder) {
  const auto parameters = resnet50_parameters();
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(parameters[0].name, "conv1.weight");
  EXPECT_EQ(parameters[0].shape, (Shape{64, 3, 7, 7}));
  EXPECT_EQ(parameters[3].name, "layer1.0.conv1.weight");
  EXPECT_EQ(parameters[12].name, "layer1.0.downsample.0.weight");
  EXPECT_EQ(parameters[12].shape, (Shape{256, 64, 1, 1}));
  EXPECT_EQ(parameters[15].name, "layer1.1.conv1.weight");
  EXPECT_EQ(parameters[15].shape, (Shape{64, 256, 1, 1}));
  EXPECT_EQ(parameters[159].name, "fc.weight");
  EXPECT_EQ(parameters[159].shape, (Shape{1000, 2048}));
  EXPECT_EQ(parameters[160].elements(), 1000U);
}

struct Sum {
  std::size_t parameters = 0;
  std::size_t values = 0;
  bool operator==(const Sum&) const = default;
};

Sum sum_of(const std::string& model) {
  Sum sum;
  std::set<std::string> names;
  const std::vector<Parameter> parameters = parameters_of(model).value();
  for (const Parameter& parameter : parameters) {
    ++sum.parameters;
    sum.values += parameter.elements();
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " comes twice";
  }
  return sum;
}

TEST(BenchModels, HaveTheirParametersAndValues) {
  EXPECT_EQ(sum_of("gpt2"), (Sum{148, 124'439'808}));
  EXPECT_EQ(sum_of("mnist"), (Sum{10, 1'200'138}));
  EXPECT_EQ(sum_of("tiny1000"), (Sum{1000, 256'000}));
}

TEST(BenchModels, UnknownOnesAreNothing) {
  EXPECT_FALSE(parameters_of("resnet999"));
  for (const std::string& name : model_names()) EXPECT_TRUE(parameters_of(name));
}

}  // namespace
}  // namespace kolo::bench
