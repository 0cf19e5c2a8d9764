// Objects and sparse tensors.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Objects = WithKolo;
using Sparse = WithKolo;

struct Settings {
  int epochs = 0;
  std::string name;
  bool operator==(const Settings& other) const {
    return epochs == other.epochs && name == other.name;
  }
};

}  // namespace

template <>
struct Codec<Settings> {
  static std::string encode(const Settings& s) {
    return Codec<std::pair<int, std::string>>::encode({s.epochs, s.name});
  }
  static Settings decode(const std::string& bytes) {
    const auto [epochs, name] = Codec<std::pair<int, std::string>>::decode(bytes);
    return {epochs, name};
  }
};

namespace {

// An object that depends on the rank goes from each root to all, and from all to all.
template <typename Make>
void check_object(const Make& make) {
  for (int root = 0; root < size(); ++root)
    EXPECT_TRUE(broadcast_object(make(rank()), root) == make(root)) << "root " << root;
  const auto all = allgather_object(make(rank()), "all");
  ASSERT_EQ(all.size(), static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r)
    EXPECT_TRUE(all[static_cast<std::size_t>(r)] == make(r)) << "of rank " << r;
}

TEST_F(Objects, OfManyTypes) {
  check_object([](int r) { return r; });
  check_object([](int r) { return r * 0.5; });
  check_object([](int r) { return std::string(static_cast<std::size_t>(r) * 1000, 'x'); });
  check_object([](int r) { return std::vector<int>(static_cast<std::size_t>(r), 7); });
  check_object([](int r) {
    return std::map<std::string, std::vector<double>>{{"lr", {0.1 * r}}, {"empty", {}}};
  });
  check_object([](int r) {
    return std::unordered_map<int, std::pair<bool, std::string>>{{r, {true, "a"}}};
  });
  check_object([](int r) { return Settings{r, "run " + std::to_string(r)}; });
  check_object([](int r) { return r % 2 == 0 ? ReduceOp::Sum : ReduceOp::Max; });
}

TEST_F(Objects, TensorsAndIValues) {
  const auto all = allgather_object(at::full({rank(), 2}, rank()).t());
  for (int r = 0; r < size(); ++r)
    EXPECT_TRUE(all[static_cast<std::size_t>(r)].equal(at::full({2, r}, r)));
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("weight", at::full({3}, rank()));
  const c10::IValue got = broadcast_object(c10::IValue(dict), size() - 1);
  EXPECT_TRUE(got.toGenericDict().at("weight").toTensor().equal(at::full({3}, size() - 1)));
}

// With LibTorch's save() and load().
struct Counter {
  std::int64_t count = 0;
  at::Tensor weights;

  void save(torch::serialize::OutputArchive& archive) const {
    archive.write("count", c10::IValue(count));
    archive.write("weights", weights);
  }
  void load(torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("count", value);
    count = value.toInt();
    archive.read("weights", weights);
  }
};

TEST_F(Objects, WithArchives) {
  Counter mine;
  mine.count = 10 + rank();
  mine.weights = at::full({2, 3}, rank());
  const std::vector<Counter> all = allgather_object(mine);
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)].count, 10 + r);
    EXPECT_TRUE(all[static_cast<std::size_t>(r)].weights.equal(at::full({2, 3}, r)));
  }
  EXPECT_THROW(Codec<Counter>::decode("no archive"), DataError);
  const auto by_name = broadcast_object(std::map<std::string, Counter>{{"a", mine}}, size() - 1);
  EXPECT_EQ(by_name.at("a").count, 10 + size() - 1);
}

TEST_F(Objects, ErrorsAndProcessSets) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { broadcast_object(1, size()); }),
              HasSubstr("is none of the rank"));
  EXPECT_THROW(detail::split_pieces("abc"), DataError);
  EXPECT_THROW(detail::split_pieces(std::string(8, '\xff')), DataError);
  EXPECT_THROW(Codec<int>::decode("abc"), DataError);
  EXPECT_THROW(Codec<at::Tensor>::decode("no pickle"), DataError);
  EXPECT_THROW((Codec<std::map<int, int>>::decode(detail::join_pieces({"1234"}))), DataError);
  const ProcessSet last = add_process_set({size() - 1});
  if (last.included()) {
    const auto all = allgather_object(rank(), OperationOptions("o").process_set(last));
    EXPECT_EQ(all, (std::vector<int>{size() - 1}));
  }
  if (size() == 1) return;
  EXPECT_THAT(message_of<MismatchError>([] { broadcast_object(1, rank() == 0 ? 0 : 1, "root"); }),
              HasSubstr("root rank: 0 on rank 0; 1 on rank"));
  EXPECT_THAT(message_of<DataError>([] {
                if (rank() == 0) broadcast_object(std::string("x"), 1, "type");
                if (rank() != 0) broadcast_object(1, 1, "type");
                if (rank() != 0) throw DataError("another type, as rank 0 says");
              }),
              HasSubstr("another type"));
}

at::Tensor sparse(std::vector<std::int64_t> rows, double value) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return at::sparse_coo_tensor(at::tensor(rows).unsqueeze(0), at::full({count, 2}, value), {10, 2});
}

TEST_F(Sparse, SumAndAverage) {
  for (int repeat = 0; repeat < 3; ++repeat) {  // other indices each time, the same name
    // Row 1 of every rank, twice; a row of its own; and nothing on rank 0 in the last round.
    const bool none = repeat == 2 && rank() == 0;
    const at::Tensor mine =
        none ? sparse({}, 1) : sparse({1, 1, 2 + (rank() + repeat) % 8}, rank() + 1);
    at::Tensor wanted = allreduce(mine.to_dense(), ReduceOp::Sum);
    const at::Tensor sum = sparse_allreduce(mine, AllreduceOptions("s").op(ReduceOp::Sum));
    EXPECT_TRUE(sum.is_coalesced());
    EXPECT_TRUE(sum.to_dense().allclose(wanted));
    Handle handle = sparse_allreduce_async(mine, AllreduceOptions("a").prescale_factor(3));
    EXPECT_TRUE(handle.wait().to_dense().allclose(wanted * 3 / size()));
  }
}

TEST_F(Sparse, Errors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { sparse_allreduce(at::ones({2}), "s"); }),
              HasSubstr("is not sparse"));
  EXPECT_THAT(
      message_of<InvalidArgumentError>([] { sparse_allreduce(sparse({1}, 1), ReduceOp::Max); }),
      HasSubstr("no Max"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const at::Tensor other =
      at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1, 2}), {11, 2});
  EXPECT_THAT(message_of<MismatchError>(
                  [&] { sparse_allreduce(rank() == 0 ? other : sparse({1}, 1), "size"); }),
              HasSubstr("size [11, 2]' on rank 0"));
}

}  // namespace
}  // namespace kolo
