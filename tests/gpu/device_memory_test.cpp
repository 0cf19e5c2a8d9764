// Packing and unpacking, by the kernels' own code, and what memory is kept.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "collectives/nccl/device_memory.hpp"
#include "collectives/reduce/reduce.hpp"
#include "gpu/device_fixture.hpp"

namespace kolo {
namespace {

using ::testing::Each;

using nccl::DeviceMemory;
using nccl::Streams;

class DeviceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::unique_ptr<Streams> made;
    ASSERT_TRUE(Streams::create(std::make_shared<nccl::Events>(0), made).is_ok());
    streams_ = std::move(made);
    memory_ = std::make_unique<DeviceMemory>(streams_, nullptr);
  }
  void settle() {
    fake_gpu::drain(streams_->packing());
    fake_gpu::drain(streams_->reducing());
  }

  std::shared_ptr<Streams> streams_;
  std::unique_ptr<DeviceMemory> memory_;
};

// Of any dtype, with and without a factor, at places that are aligned or not: what the host does.
TEST_F(DeviceMemoryTest, PutsWhatTheHostPuts) {
  constexpr std::size_t kBytes = 40000;
  constexpr std::size_t kSecond = kBytes + 64;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    const std::size_t element = size_of(dtype);
    for (const double factor : {1.0, 0.5, -3.0}) {
      using Shifts = std::pair<std::size_t, std::size_t>;
      for (const auto& [shift, taken] :
           {Shifts{0, 0}, {element, element}, {16, 16}, {element, 0}, {2 * element, element}}) {
        DeviceTensor<std::byte> source(kBytes + 64);
        DeviceTensor<std::byte> target(2 * kBytes + 64);
        std::byte* const from = fake_gpu::on_host(source.data());
        for (std::size_t i = 0; i < kBytes + 64; ++i) {
          const std::size_t value = dtype == DType::kBool ? i % 2 : i * 7 % 64;
          from[i] = static_cast<std::byte>(value);
        }
        const std::size_t count = kBytes / element - 3;
        const Piece pieces[] = {
            {target.data() + shift, source.data() + taken, nullptr, count * element},
            {target.data() + kSecond + shift, nullptr, nullptr, 1001 * element},  // without values
        };
        ASSERT_TRUE(memory_->put(pieces, dtype, ReduceOp::Max, factor).is_ok());
        settle();
        std::vector<std::byte> wanted(2 * kBytes + 64);
        const Piece on_host[] = {
            {wanted.data() + shift, from + taken, nullptr, count * element},
            {wanted.data() + kSecond + shift, nullptr, nullptr, 1001 * element},
        };
        ASSERT_TRUE(host_memory().put(on_host, dtype, ReduceOp::Max, factor).is_ok());
        const std::byte* const got = fake_gpu::on_host(target.data());
        EXPECT_TRUE(std::equal(got + shift, got + shift + count * element, wanted.data() + shift))
            << name_of(dtype) << " times " << factor << " at " << shift << " from " << taken;
        const std::size_t second = kSecond + shift;
        EXPECT_TRUE(std::equal(got + second, got + second + 1001 * element, wanted.data() + second))
            << name_of(dtype) << " at " << shift;
      }
    }
  }
}

// Values that a dtype has, that it rounds up, down and to even, that are subnormal in it and that
// it has not at all.
template <typename Wide>
std::vector<Wide> hard_values(std::size_t count) {
  const std::vector<double> some = {1 + 0x1p-11 + 0x1p-30,
                                    1 + 0x1p-11,
                                    1 + 0x1.8p-10,
                                    1 + 0x1p-8,
                                    -3 - 0x1p-7,
                                    0x1.4p-17,
                                    -0x1p-25,
                                    65504,
                                    65520,
                                    -1e6,
                                    0x1p-130,
                                    3e38,
                                    0,
                                    -0.0,
                                    1.0 / 3,
                                    std::numeric_limits<double>::infinity()};
  std::vector<Wide> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<Wide>(some[i % some.size()] * (1 + static_cast<double>(i / 16) / 64));
  values.back() = std::numeric_limits<Wide>::quiet_NaN();
  return values;
}

Float16 rounded_to(float value, Float16 /*as*/) {
  return to_float16(value);
}
Bfloat16 rounded_to(float value, Bfloat16 /*as*/) {
  return to_bfloat16(value);
}

// What rounds as the value does to any dtype that has two bits less.
float to_float_for_rounding(float value) {
  return value;
}
float to_float_for_rounding(double value) {
  auto near = static_cast<float>(value);
  if (near == value || std::isnan(value)) return near;
  if (std::abs(near) > std::abs(value)) near = std::nextafter(near, 0.0F);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1U);  // lies between
}

// Rounded once, after the factor; back exactly.
template <typename Narrow, typename Wide>
void check_cast(DeviceMemory& memory, const std::function<void()>& settle, double factor,
                std::size_t shift) {
  constexpr std::size_t kCount = 20003;  // of several blocks, the last one not whole
  const auto narrow = DTypeOf<Narrow>::kValue;
  SCOPED_TRACE(std::string(name_of(DTypeOf<Wide>::kValue)) + " to " + name_of(narrow) + " times " +
               std::to_string(factor) + " at " + std::to_string(shift));
  DeviceTensor<Wide> source(kCount + shift);
  DeviceTensor<Narrow> place(kCount + shift + 8);
  const Narrow behind = rounded_to(7, Narrow{});
  std::fill_n(fake_gpu::on_host(place.data()) + kCount + shift, 8, behind);
  const std::vector<Wide> values = hard_values<Wide>(kCount);
  std::copy(values.begin(), values.end(), fake_gpu::on_host(source.data()) + shift);
  auto* const outside = reinterpret_cast<std::byte*>(source.data() + shift);
  const Piece piece{reinterpret_cast<std::byte*>(place.data() + shift), outside, outside,
                    kCount * sizeof(Narrow), DTypeOf<Wide>::kValue};
  ASSERT_TRUE(memory.put({&piece, 1}, narrow, ReduceOp::Sum, factor).is_ok());
  settle();
  const Narrow* const got = fake_gpu::on_host(place.data()) + shift;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const float real = to_float_for_rounding(values[i] * static_cast<Wide>(factor));
    const float wanted = to_float(rounded_to(real, Narrow{}));
    const float is = to_float(got[i]);
    if (!(std::isnan(wanted) ? std::isnan(is) : wanted == is)) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(got[kCount + i].bits, behind.bits);
  ASSERT_TRUE(memory.take({&piece, 1}, narrow).is_ok());
  settle();
  const Wide* const back = fake_gpu::on_host(source.data()) + shift;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Wide wanted = to_float(got[i]);
    if (!(std::isnan(wanted) ? std::isnan(back[i]) : wanted == back[i])) ++wrong;
  }
  EXPECT_EQ(wrong, 0U) << "back";
}

TEST_F(DeviceMemoryTest, CastsOnTheWay) {
  for (const double factor : {1.0, 1.0 / 3}) {
    for (const std::size_t shift : {0, 1, 8}) {
      const auto wait = [this] { settle(); };
      check_cast<Float16, float>(*memory_, wait, factor, shift);
      check_cast<Float16, double>(*memory_, wait, factor, shift);
      check_cast<Bfloat16, float>(*memory_, wait, factor, shift);
      check_cast<Bfloat16, double>(*memory_, wait, factor, shift);
    }
  }
}

// Pieces of one bucket that lie in their dtype, and in others.
TEST_F(DeviceMemoryTest, CastsSomeOfThePieces) {
  DeviceTensor<Bfloat16> buffer(96);
  DeviceTensor<Bfloat16> as_it_is(10);
  DeviceTensor<float> wide(10);
  DeviceTensor<double> widest(10);
  std::fill_n(fake_gpu::on_host(as_it_is.data()), 10, to_bfloat16(1));
  std::fill_n(fake_gpu::on_host(wide.data()), 10, 2.0F);
  std::fill_n(fake_gpu::on_host(widest.data()), 10, 3.0);
  const auto piece = [&](std::size_t at, auto& tensor, std::optional<DType> outside) {
    auto* const bytes = reinterpret_cast<std::byte*>(tensor.data());
    return Piece{reinterpret_cast<std::byte*>(buffer.data() + at), bytes, bytes,
                 10 * sizeof(Bfloat16), outside};
  };
  for (const double factor : {1.0, 2.0}) {
    const Piece pieces[] = {piece(0, as_it_is, std::nullopt), piece(32, wide, DType::kFloat32),
                            piece(64, widest, DType::kFloat64)};
    ASSERT_TRUE(memory_->put(pieces, DType::kBfloat16, ReduceOp::Sum, factor).is_ok());
    ASSERT_TRUE(streams_->join().is_ok());
    ASSERT_TRUE(memory_->take(pieces, DType::kBfloat16).is_ok());
    settle();
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(to_float(fake_gpu::on_host(as_it_is.data())[i]), factor);
      EXPECT_EQ(fake_gpu::on_host(wide.data())[i], 2 * factor);
      EXPECT_EQ(fake_gpu::on_host(widest.data())[i], 3 * factor);
    }
  }
}

// More pieces than one kernel takes.
TEST_F(DeviceMemoryTest, ManyPieces) {
  constexpr std::size_t kPieces = 300;
  DeviceTensor<float> tensors(kPieces * 10);
  DeviceTensor<float> buffer(kPieces * 16);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    fake_gpu::on_host(tensors.data())[i] = static_cast<float>(i);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) {
    auto* const tensor = reinterpret_cast<std::byte*>(tensors.data() + i * 10);
    pieces.push_back({reinterpret_cast<std::byte*>(buffer.data() + i * 16), tensor, tensor, 40});
  }
  ASSERT_TRUE(memory_->put(pieces, DType::kFloat32, ReduceOp::Sum, 2.0).is_ok());
  ASSERT_TRUE(streams_->join().is_ok());
  ASSERT_TRUE(memory_->take(pieces, DType::kFloat32).is_ok());
  settle();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ASSERT_EQ(fake_gpu::on_host(tensors.data())[i], 2 * static_cast<float>(i));
}

// What is put into a buffer waits for what was in it to be taken out.
TEST_F(DeviceMemoryTest, ABufferIsNotFilledBeforeItWasUnpacked) {
  DeviceTensor<float> buffer(32);
  DeviceTensor<float> first(32);
  DeviceTensor<float> second(32);
  const auto pieces_of = [&](DeviceTensor<float>& tensor) {
    std::vector<Piece> pieces;
    for (const std::size_t at : {0, 16}) {
      auto* const bytes = reinterpret_cast<std::byte*>(tensor.data() + at);
      pieces.push_back({reinterpret_cast<std::byte*>(buffer.data() + at), bytes, bytes, 64});
    }
    return pieces;
  };
  std::fill_n(fake_gpu::on_host(first.data()), 32, 1.0F);
  std::fill_n(fake_gpu::on_host(second.data()), 32, 2.0F);
  const std::vector<Piece> one = pieces_of(first);
  ASSERT_TRUE(memory_->put(one, DType::kFloat32, ReduceOp::Sum, 1.0).is_ok());
  ASSERT_TRUE(streams_->join().is_ok());
  fake_gpu::enqueue(streams_->reducing(),
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  ASSERT_TRUE(memory_->take(one, DType::kFloat32).is_ok());
  ASSERT_TRUE(memory_->put(pieces_of(second), DType::kFloat32, ReduceOp::Sum, 1.0).is_ok());
  settle();
  EXPECT_EQ(fake_gpu::on_host(first.data())[3], 1.0F);
  EXPECT_EQ(fake_gpu::on_host(first.data())[19], 1.0F);
  EXPECT_EQ(fake_gpu::on_host(buffer.data())[3], 2.0F);
}

// A bucket's memory is given back when the bucket is given up.
TEST(DeviceMemories, ABucketThatIsGivenUpIsFreed) {
  const std::size_t before = fake_gpu::allocated_bytes();
  on_all_devices(2, [before](DeviceProgram& program) {
    DeviceTensor<float> one(100000);
    DeviceTensor<float> other(100000);
    const std::size_t tensors = 2 * 2 * 100000 * sizeof(float);
    const auto step = [&](bool both) {
      const auto first = program.submit(device_operation(OpKind::kAllreduce, "one", one));
      if (both) {
        const auto second = program.submit(device_operation(OpKind::kAllreduce, "other", other));
        ASSERT_TRUE(program.wait(second).is_ok());
      }
      ASSERT_TRUE(program.wait(first).is_ok());
      program.synchronize();
    };
    for (int i = 0; i < 6; ++i) step(true);
    EXPECT_GT(fake_gpu::allocated_bytes() - before, tensors) << "no bucket was made";
    for (int i = 0; i < 5; ++i) step(false);
    std::vector<float> all_are_here(1, 0);
    ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_are_here)).is_ok());
    EXPECT_LT(fake_gpu::allocated_bytes() - before, tensors + 100000 * sizeof(float));
  });
  EXPECT_EQ(fake_gpu::allocated_bytes(), before);
}

// What others have in a bucket needs one place there, and none besides.
TEST(DeviceMemories, ARankThatHasJoinedHasNoMemoryForMembersOfABucket) {
  if (!is_nccl_alone()) GTEST_SKIP() << "counted once is enough";
  on_all_devices(2, [](DeviceProgram& program) {
    std::vector<std::unique_ptr<DeviceTensor<float>>> tensors;
    for (int i = 0; i < 40; ++i) tensors.push_back(std::make_unique<DeviceTensor<float>>(100));
    const auto step = [&](float wanted) {
      std::vector<std::shared_ptr<Operation>> operations;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        tensors[i]->fill_late(program, std::vector<float>(100, 1));
        operations.push_back(program.submit(
            device_operation(OpKind::kAllreduce, "t" + std::to_string(i), *tensors[i])));
      }
      for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
      const auto values = tensors.back()->read(program);
      program.put([values, wanted] { EXPECT_THAT(*values, Each(wanted)); });
      program.synchronize();
    };
    for (int i = 0; i < 6; ++i) step(2);
    std::vector<float> all_are_here(1, 0);
    ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_are_here)).is_ok());
    const std::size_t before = fake_gpu::nccl_allocations();
    for (int i = 0; i < 3 && program.rank() == 0; ++i) step(1);
    ASSERT_TRUE(submit_and_wait(program.engine(), plain(OpKind::kJoin, "join")).is_ok());
    EXPECT_LE(fake_gpu::nccl_allocations() - before, 6U);
  });
}

// Counts how often it is told to let go, and by whom.
class Counting final : public Holder {
 public:
  struct Counts {
    std::atomic<int> done{0};
    std::atomic<int> behind{0};
  };
  explicit Counting(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}
  void let_go() override { ++counts_->done; }
  void let_go_behind_results() override { ++counts_->behind; }

 private:
  const std::shared_ptr<Counts> counts_;
};

// Who waits for the results lets go of what was given, while who drives looks whether the device
// has done with it: one of them does.
TEST(DeviceMemories, WhoWaitsMayLetGo) {
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(1000);
    constexpr int kTimes = 30;
    const auto counts = std::make_shared<Counting::Counts>();
    for (int i = 0; i < kTimes; ++i) {
      tensor.fill_late(program, std::vector<float>(1000, 1));
      auto operation = device_operation(OpKind::kAllreduce, "x", tensor);
      operation->holder = std::make_unique<Counting>(counts);
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
      if (i % 2 == 0) operation->let_go_behind_results();
      const auto values = tensor.read(program);
      program.put([values] { EXPECT_THAT(*values, Each(2.0F)); });
    }
    program.synchronize();
    std::vector<float> all_are_here(1, 0);
    ASSERT_TRUE(submit_and_wait(program.engine(), allreduce("all", all_are_here)).is_ok());
    EXPECT_LE(counts->done + counts->behind, kTimes);
    EXPECT_GT(counts->done, 0);
  });
}

// Memory that works referred to is given back when the device has done with it.
TEST(DeviceMemories, NothingIsLeftAllocated) {
  const std::size_t before = fake_gpu::allocated_bytes();
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<std::int16_t> narrow(5000);
    DeviceTensor<float> one(100);
    DeviceTensor<float> other(100);
    for (int step = 0; step < 5; ++step) {
      std::vector<std::shared_ptr<Operation>> operations = {
          program.submit(device_operation(OpKind::kAllreduce, "narrow", narrow)),
          program.submit(device_operation(OpKind::kAllreduce, "one", one)),
          program.submit(device_operation(OpKind::kAllreduce, "other", other))};
      for (const auto& operation : operations) ASSERT_TRUE(program.wait(operation).is_ok());
    }
  });
  EXPECT_EQ(fake_gpu::allocated_bytes(), before);
}

}  // namespace
}  // namespace kolo
