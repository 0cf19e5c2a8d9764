// Objects between ranks.
#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using Objects = WithKolo;

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
              HasSubstr("does not take part; choose one of rank"));
  EXPECT_THROW(detail::split_pieces("abc"), DataError);
  EXPECT_THROW(detail::split_pieces(std::string(8, '\xff')), DataError);
  EXPECT_THROW(Codec<int>::decode("abc"), DataError);
  EXPECT_THAT(message_of<DataError>([] { detail::unpack<std::vector<int>>(detail::pack(1.5)); }),
              AllOf(HasSubstr("an object of type double"), HasSubstr("std::vector<int")));
  EXPECT_THROW(Codec<at::Tensor>::decode("no pickle"), DataError);
  EXPECT_THROW((Codec<std::map<int, int>>::decode(detail::join_pieces({"1234"}))), DataError);
  const ProcessSet last = add_process_set({size() - 1});
  if (last.included()) {
    const auto all = allgather_object(rank(), OperationOptions("o").process_set(last));
    EXPECT_EQ(all, (std::vector<int>{size() - 1}));
  }
  if (size() == 1) return;
  const auto one_or_all = [] {
    rank() == 0 ? (void)broadcast_object(1, 0, "which") : (void)allgather_object(1, "which");
  };
  EXPECT_THAT(
      message_of<MismatchError>(one_or_all),
      HasSubstr("content: an object of one rank on rank 0; an object of each rank on rank"));
  const auto object_or_tensor = [] {
    rank() == 0 ? (void)allgather_object(1, "what")
                : (void)allgather(at::zeros({4}, at::kByte), "what");
  };
  EXPECT_THAT(message_of<MismatchError>(object_or_tensor),
              HasSubstr("content: an object of each rank on rank 0; tensors on rank"));
  EXPECT_THAT(message_of<MismatchError>([] { broadcast_object(1, rank() == 0 ? 0 : 1, "root"); }),
              HasSubstr("root rank: 0 on rank 0; 1 on rank"));
  EXPECT_THAT(message_of<DataError>([] {
                if (rank() == 0) broadcast_object(std::string("x"), 1, "type");
                if (rank() != 0) broadcast_object(1, 1, "type");
                if (rank() != 0) throw DataError("type int, but this rank expects std::string");
              }),
              HasSubstr("type int, but this rank expects std::string"));
}

// In each set from each of its ranks to all of it, in both sets at once under the same names.
TEST_F(Objects, InProcessSets) {
  const std::vector<ProcessSet> sets = even_and_odd();
  const ProcessSet& mine = own(sets);
  const auto object = [](int r) { return std::string(static_cast<std::size_t>(r) + 1, 'x'); };
  std::vector<std::string> all;
  for (const int root : mine.ranks()) {
    all.push_back(object(root));
    EXPECT_EQ(broadcast_object(object(rank()), root, OperationOptions("o").process_set(mine)),
              object(root));
  }
  EXPECT_EQ(allgather_object(object(rank()), OperationOptions("all").process_set(mine)), all);
  for (const int root : {-1, rank() == 0 ? size() : rank() - 1}) {
    EXPECT_THAT(
        message_of<InvalidArgumentError>(
            [&] { broadcast_object(1, root, OperationOptions("o").process_set(mine)); }),
        HasSubstr("root rank " + std::to_string(root) + " does not take part; choose one of rank"));
  }
  EXPECT_EQ(broadcast_object(rank(), 0, "o"), 0) << "among all";
}

}  // namespace
}  // namespace kolo
