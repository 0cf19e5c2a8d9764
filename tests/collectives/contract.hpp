// What every backend must do, told as programs of one rank. A test runs each on all ranks of a
// group: as threads over `local`, as processes over MPI.
#pragma once

#include <utility>

#include "contract_values.hpp"

namespace kolo::contract {

inline void messages_keep_their_order(Transport& t) {
  constexpr int kMessages = 50;
  const int right = (t.rank() + 1) % t.size();
  const int left = (t.rank() + t.size() - 1) % t.size();
  if (t.size() == 1) return;
  std::vector<std::vector<std::uint8_t>> out;
  std::vector<std::vector<std::uint8_t>> in;
  std::vector<Ticket> tickets;
  for (int i = 0; i < kMessages; ++i) {
    // Small and large mixed: eager and rendezvous messages must not overtake each other.
    const std::size_t bytes = i % 3 == 0 ? 100000 : static_cast<std::size_t>(i);
    out.emplace_back(bytes, static_cast<std::uint8_t>(i));
    in.emplace_back(bytes, static_cast<std::uint8_t>(255));
  }
  for (int i = 0; i < kMessages; ++i) {
    Ticket receive;
    Ticket send;
    ASSERT_TRUE(t.receive(in[i].data(), in[i].size(), left, 5, receive).is_ok());
    ASSERT_TRUE(t.send(out[i].data(), out[i].size(), right, 5, send).is_ok());
    tickets.push_back(receive);
    tickets.push_back(send);
  }
  for (Ticket& ticket : tickets) {
    Status status;
    Progress progress = Progress::kWaiting;
    while ((progress = t.poll(ticket, status)) == Progress::kWaiting) std::this_thread::yield();
    ASSERT_EQ(progress, Progress::kDone) << status.message();
    EXPECT_FALSE(ticket.pending());
  }
  EXPECT_EQ(in, out);
}

inline void probe_finds_each_message_once(Transport& t) {
  if (t.size() == 1) return;
  constexpr Tag kTag = 9;
  if (t.rank() != 0) {
    const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(t.rank()) * 10,
                                          static_cast<std::uint8_t>(t.rank()));
    Ticket ticket;
    ASSERT_TRUE(t.send(bytes.data(), bytes.size(), 0, kTag, ticket).is_ok());
    Status status;
    Progress progress = Progress::kWaiting;
    while ((progress = t.poll(ticket, status)) == Progress::kWaiting) std::this_thread::yield();
    ASSERT_EQ(progress, Progress::kDone) << status.message();
    return;
  }
  std::vector<bool> seen(t.size(), false);
  for (int left = t.size() - 1; left > 0;) {
    std::optional<Arrival> arrival;
    ASSERT_TRUE(t.probe(kTag, arrival).is_ok());
    if (!arrival) continue;
    EXPECT_EQ(arrival->bytes, static_cast<std::size_t>(arrival->peer) * 10);
    EXPECT_FALSE(seen[arrival->peer]);
    seen[arrival->peer] = true;
    std::vector<std::uint8_t> bytes(arrival->bytes);
    Ticket ticket;
    ASSERT_TRUE(t.receive(bytes.data(), bytes.size(), arrival->peer, kTag, ticket).is_ok());
    Status status;
    Progress progress = Progress::kWaiting;
    while ((progress = t.poll(ticket, status)) == Progress::kWaiting) std::this_thread::yield();
    ASSERT_EQ(progress, Progress::kDone) << status.message();
    EXPECT_EQ(bytes,
              std::vector<std::uint8_t>(bytes.size(), static_cast<std::uint8_t>(arrival->peer)));
    --left;
  }
}

// A message of another length than the receive expects is an error and not a wrong sum.
inline void a_wrong_length_fails(Transport& t) {
  if (t.size() < 2 || t.rank() > 1) return;
  std::vector<std::uint8_t> bytes(64);
  Ticket ticket;
  Status status;
  if (t.rank() == 0) {
    ASSERT_TRUE(t.send(bytes.data(), 10, 1, 11, ticket).is_ok());
  } else {
    ASSERT_TRUE(t.receive(bytes.data(), 20, 0, 11, ticket).is_ok());
  }
  Progress progress = Progress::kWaiting;
  while ((progress = t.poll(ticket, status)) == Progress::kWaiting) std::this_thread::yield();
  EXPECT_EQ(progress, t.rank() == 0 ? Progress::kDone : Progress::kFailed);
}

inline constexpr std::size_t kCounts[] = {0, 1, 2, 3, 5, 7, 8, 64, 65, 1000, 1023, 4099};

// Any size in pieces of any size.
inline void sizes(Transport& t, DType dtype, MakeAllreduce* make) {
  Tag tag = 100;
  for (const std::size_t count : kCounts) {
    for (const std::size_t chunk :
         {std::size_t{8}, std::size_t{64}, std::size_t{1000}, std::size_t{1} << 20}) {
      if (count / (chunk / 4) > 200) continue;  // thousands of messages prove nothing more
      check_allreduce(t, dtype, ReduceOp::Sum, count, tag++,
                      [&](Tag tg, void* d, std::size_t n, const Reduction& r) {
                        return make(t, tg, d, n, r, chunk);
                      });
    }
  }
}

inline void ring(Transport& t) {
  sizes(t, DType::kFloat32, make_ring_allreduce);
}
inline void recursive_doubling(Transport& t) {
  sizes(t, DType::kFloat64, make_recursive_doubling_allreduce);
}
inline void halving_doubling(Transport& t) {
  sizes(t, DType::kFloat32, make_halving_doubling_allreduce);
}
inline void tree(Transport& t) {
  sizes(t, DType::kFloat32, make_tree_allreduce);
}

inline void every_dtype_and_operator(Transport& t) {
  Tag tag = 100;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product}) {
      if (static_cast<DType>(dtype) == DType::kBool) continue;  // values above are no bools
      if (static_cast<DType>(dtype) == DType::kInt8 && op == ReduceOp::Product && t.size() > 3)
        continue;  // overflows
      for (const std::size_t count : {std::size_t{3}, std::size_t{777}}) {
        for (MakeAllreduce* make : kAllreduces) {
          check_allreduce(t, static_cast<DType>(dtype), op, count, tag++,
                          [&](Tag tg, void* d, std::size_t n, const Reduction& r) {
                            return make(t, tg, d, n, r, 256);
                          });
        }
      }
    }
  }
}

// Divisor and postscale are applied once, in every algorithm, small and large.
inline void finishing(Transport& t) {
  Tag tag = 20;
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}}) {
    for (MakeAllreduce* make : kAllreduces) {
      std::vector<float> data(count, static_cast<float>(t.rank() + 1));
      Reduction reduction;
      reduction.divisor = t.size();
      reduction.postscale = 4;
      const Status status = run(*make(t, tag++, data.data(), data.size(), reduction, 64));
      ASSERT_TRUE(status.is_ok()) << status.message();
      const float sum = static_cast<float>(t.size() * (t.size() + 1)) / 2.0F;
      EXPECT_EQ(data, std::vector<float>(count, sum / static_cast<float>(t.size()) * 4.0F));
    }
  }
}

// What make_allreduce() chooses is what the table says.
inline void the_tables_choice(Transport& t) {
  Tag tag = 20;
  for (int i = 0; i < 4; ++i) {
    Tuning tuning;
    tuning.chunk_bytes = 64;
    tuning.allreduce.groups = {{2, {{0, static_cast<AllreduceAlgorithm>(i)}}}};
    std::vector<float> chosen = inexact_values(t.rank());
    std::vector<float> made = chosen;
    ASSERT_TRUE(
        run(*make_allreduce(t, tag++, chosen.data(), chosen.size(), Reduction{}, tuning)).is_ok());
    ASSERT_TRUE(run(*kAllreduces[i](t, tag++, made.data(), made.size(), Reduction{}, 64)).is_ok());
    EXPECT_EQ(bits_of(chosen), bits_of(made)) << name_of(static_cast<AllreduceAlgorithm>(i));
  }
}

// Inexact values, and zeros of both signs, of which Min and Max give the one or the other: every
// rank must still get the same bits, and again in the next run.
inline void same_bits_on_every_rank(Transport& t) {
  Tag tag = 30;
  for (MakeAllreduce* make : kAllreduces) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max}) {
      const auto values = op == ReduceOp::Sum ? inexact_values : zeros_of_both_signs;
      Reduction reduction;
      reduction.op = op;
      std::vector<std::vector<float>> runs(2, values(t.rank()));
      for (std::vector<float>& data : runs)
        ASSERT_TRUE(run(*make(t, tag++, data.data(), data.size(), reduction, 256)).is_ok());
      std::vector<float> of_rank_0 = runs[0];
      ASSERT_TRUE(
          run(*make_broadcast(t, tag++, of_rank_0.data(), of_rank_0.size() * 4, 0, 4096)).is_ok());
      EXPECT_EQ(bits_of(runs[0]), bits_of(of_rank_0)) << "rank " << t.rank();
      EXPECT_EQ(bits_of(runs[0]), bits_of(runs[1])) << "rank " << t.rank();
    }
  }
}

// Both reduce each element over the same tree of ranks, lower ranks first.
inline void halving_doubling_gives_the_bits_of_recursive_doubling(Transport& t) {
  Tag tag = 30;
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max}) {
    Reduction reduction;
    reduction.op = op;
    std::vector<float> one =
        op == ReduceOp::Sum ? inexact_values(t.rank()) : zeros_of_both_signs(t.rank());
    std::vector<float> other = one;
    ASSERT_TRUE(
        run(*make_halving_doubling_allreduce(t, tag++, one.data(), one.size(), reduction, 256))
            .is_ok());
    ASSERT_TRUE(run(*make_recursive_doubling_allreduce(t, tag++, other.data(), other.size(),
                                                       reduction, 256))
                    .is_ok());
    EXPECT_EQ(bits_of(one), bits_of(other)) << "rank " << t.rank();
  }
}

inline void broadcast(Transport& t) {
  Tag tag = 100;
  for (int root = 0; root < t.size(); ++root) {
    for (const std::size_t bytes : kCounts) {
      std::vector<std::uint8_t> data(bytes, static_cast<std::uint8_t>(99));
      std::vector<std::uint8_t> wanted(bytes);
      for (std::size_t i = 0; i < bytes; ++i) wanted[i] = static_cast<std::uint8_t>(i * 3 + root);
      if (t.rank() == root) data = wanted;
      const auto work = make_broadcast(t, tag++, data.data(), bytes, root, 64);
      const Status status = run(*work);
      ASSERT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(data, wanted) << "root " << root << " rank " << t.rank();
    }
  }
}

// Cuts count things into n parts of uneven sizes, some empty.
inline std::vector<std::size_t> uneven_cut(std::size_t count, int parts, std::size_t seed) {
  std::vector<std::size_t> boundaries = {0};
  for (int i = 1; i < parts; ++i)
    boundaries.push_back(std::max(boundaries.back(), (count * i / parts + seed * 7) % (count + 1)));
  boundaries.push_back(count);
  return boundaries;
}

inline void reducescatter(Transport& t) {
  Tag tag = 100;
  for (const std::size_t count : kCounts) {
    for (const std::size_t chunk : {std::size_t{64}, std::size_t{1} << 20}) {
      for (std::size_t seed = 0; seed < 3; ++seed) {
        const std::vector<std::size_t> cut = uneven_cut(count, t.size(), seed);
        std::vector<std::int32_t> data(count + 1, -1);
        for (std::size_t i = 0; i < count; ++i)
          data[i] = static_cast<std::int32_t>(value(t.rank(), i));
        Reduction reduction;
        reduction.dtype = DType::kInt32;
        reduction.postscale = 3;
        const Status status =
            run(*make_reducescatter(t, tag++, data.data(), cut, reduction, chunk));
        ASSERT_TRUE(status.is_ok()) << status.message();
        for (std::size_t i = cut[t.rank()]; i < cut[t.rank() + 1]; ++i)
          ASSERT_EQ(data[i], 3 * expected(t.size(), i, ReduceOp::Sum)) << "element " << i;
        EXPECT_EQ(data[count], -1);
      }
    }
  }
}

inline void allgather(Transport& t) {
  Tag tag = 100;
  for (const std::size_t bytes : kCounts) {
    for (const std::size_t chunk : {std::size_t{64}, std::size_t{1} << 20}) {
      for (std::size_t seed = 0; seed < 3; ++seed) {
        const std::vector<std::size_t> cut = uneven_cut(bytes, t.size(), seed);
        std::vector<std::uint8_t> wanted(bytes + 1, 77);
        for (std::size_t i = 0; i < bytes; ++i) wanted[i] = static_cast<std::uint8_t>(i * 3);
        std::vector<std::uint8_t> data(bytes + 1, 77);
        for (std::size_t i = cut[t.rank()]; i < cut[t.rank() + 1]; ++i) data[i] = wanted[i];
        const Status status = run(*make_allgather(t, tag++, data.data(), cut, chunk));
        ASSERT_TRUE(status.is_ok()) << status.message();
        EXPECT_EQ(data, wanted);
      }
    }
  }
}

// Rank r gives rank p (r * 5 + p * 3 + seed) % 7 times `unit` bytes: anything from nothing on.
inline void alltoall(Transport& t) {
  constexpr std::uint8_t kUntouched = 0xee;
  Tag tag = 100;
  const auto share = [](int from, int to, std::size_t seed) {
    return (static_cast<std::size_t>(from) * 5 + static_cast<std::size_t>(to) * 3 + seed) % 7;
  };
  const auto byte = [](int from, int to, std::size_t i) {
    return static_cast<std::uint8_t>(static_cast<std::size_t>(from) * 50 +
                                     static_cast<std::size_t>(to) * 10 + i);
  };
  for (const std::size_t unit : {1, 13, 1000}) {
    for (std::size_t seed = 0; seed < 7; ++seed) {
      std::vector<std::uint8_t> out;
      std::vector<std::uint8_t> wanted;
      AlltoallSide from{nullptr, {0}};
      AlltoallSide to{nullptr, {0}};
      for (int peer = 0; peer < t.size(); ++peer) {
        for (std::size_t i = 0; i < unit * share(t.rank(), peer, seed); ++i)
          out.push_back(byte(t.rank(), peer, i));
        for (std::size_t i = 0; i < unit * share(peer, t.rank(), seed); ++i)
          wanted.push_back(peer == t.rank() ? kUntouched : byte(peer, t.rank(), i));
        from.boundaries.push_back(out.size());
        to.boundaries.push_back(wanted.size());
      }
      const std::vector<std::uint8_t> before = out;
      std::vector<std::uint8_t> in(wanted.size(), kUntouched);
      from.data = out.data();
      to.data = in.data();
      const Status status = run(*make_alltoall(t, tag++, from, to, 64));
      ASSERT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(in, wanted) << "unit " << unit << " seed " << seed << " rank " << t.rank();
      EXPECT_EQ(out, before);
    }
  }
}

// Every rank to its right neighbour, all at once.
inline void transfer(Transport& t) {
  if (t.size() == 1) return;
  Tag tag = 100;
  for (const std::size_t bytes : kCounts) {
    std::vector<std::uint8_t> out(bytes, static_cast<std::uint8_t>(t.rank()));
    std::vector<std::uint8_t> in(bytes, 99);
    const int right = (t.rank() + 1) % t.size();
    const int left = (t.rank() + t.size() - 1) % t.size();
    const auto send = make_transfer(t, tag, out.data(), bytes, right, true, 64);
    const auto receive = make_transfer(t, tag, in.data(), bytes, left, false, 64);
    ++tag;
    Status status;
    for (bool sent = false, received = false; !sent || !received; std::this_thread::yield()) {
      sent = sent || send->step(status) == Progress::kDone;
      received = received || receive->step(status) == Progress::kDone;
      ASSERT_TRUE(status.is_ok()) << status.message();
    }
    EXPECT_EQ(in, std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(left)));
  }
}

// Orthogonal tensors are added, equal ones averaged; for any number of ranks.
inline void adasum_of_all(Transport& t) {
  Tag tag = 100;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const auto check = [&](auto type) {
      using T = decltype(type);
      Reduction reduction;
      reduction.dtype = dtype;
      reduction.op = ReduceOp::Adasum;
      std::vector<T> orthogonal(t.size() * 3, T{0});
      orthogonal[t.rank() * 3] = static_cast<T>(t.rank() + 1);
      std::vector<T> equal(50, static_cast<T>(1.5));
      std::vector<T> empty;
      for (auto* data : {&orthogonal, &equal, &empty}) {
        const Status status =
            run(*make_allreduce(t, tag++, data->data(), data->size(), reduction, Tuning{}));
        ASSERT_TRUE(status.is_ok()) << status.message();
      }
      for (std::size_t i = 0; i < orthogonal.size(); ++i)
        EXPECT_EQ(orthogonal[i], i % 3 == 0 ? static_cast<T>(i / 3 + 1) : T{0});
      EXPECT_EQ(equal, std::vector<T>(50, static_cast<T>(1.5)));
    };
    if (dtype == DType::kFloat64) check(double{});
    if (dtype == DType::kFloat32) check(float{});
  }
}

// Ranks step several collectives in different orders; each must still get its own data.
inline void several_in_flight(Transport& t) {
  constexpr std::size_t kWorks = 16;
  std::vector<std::vector<float>> data;
  std::vector<std::unique_ptr<Work>> works;
  for (std::size_t i = 0; i < kWorks; ++i)
    data.emplace_back(500 + i, static_cast<float>(t.rank() + i));
  for (std::size_t i = 0; i < kWorks; ++i) {
    works.push_back(kAllreduces[i % 4](t, static_cast<Tag>(200 + i), data[i].data(), data[i].size(),
                                       Reduction{}, 256));
    ASSERT_TRUE(works.back()->start().is_ok());
  }
  std::vector<bool> done(kWorks, false);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  for (std::size_t finished = 0; finished < kWorks;) {
    for (std::size_t k = 0; k < kWorks; ++k) {
      const std::size_t i = t.rank() % 2 == 0 ? k : kWorks - 1 - k;
      if (done[i]) continue;
      Status status;
      const Progress progress = works[i]->step(status);
      ASSERT_NE(progress, Progress::kFailed) << status.message();
      if (progress == Progress::kDone) {
        done[i] = true;
        ++finished;
      }
    }
    ASSERT_LT(Clock::now(), deadline);
    std::this_thread::yield();
  }
  for (std::size_t i = 0; i < kWorks; ++i) {
    const float ranks = static_cast<float>(t.size() * (t.size() - 1)) / 2.0F;
    EXPECT_EQ(data[i], std::vector<float>(
                           500 + i, ranks + static_cast<float>(i) * static_cast<float>(t.size())));
  }
}

// Each rank's clock is ahead of rank 0's by another second.
inline void clock_reading(Transport& t) {
  const std::int64_t ahead = t.rank() * std::int64_t{1'000'000'007};
  const auto now = [ahead] {
    return ahead +
           std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
               .count();
  };
  const std::int64_t before = now();
  for (const std::int64_t run_number : {77, 78}) {
    ClockReading reading;
    if (t.rank() == 0) reading.run = run_number;
    ASSERT_TRUE(run(*make_clock_reading(t, static_cast<Tag>(run_number), reading, now)).is_ok());
    EXPECT_LE(std::abs(reading.offset + ahead), reading.error) << "rank " << t.rank();
    EXPECT_EQ(reading.run, run_number);
    EXPECT_GE(reading.at, before);
    EXPECT_LE(reading.at, now());
    EXPECT_LE(reading.start, reading.at + reading.offset + reading.error);
    EXPECT_EQ(reading.error > 0, t.rank() > 0);
  }
}

inline std::vector<std::pair<std::string, Case>> cases() {
  return {{"MessagesKeepTheirOrder", messages_keep_their_order},
          {"ProbeFindsEachMessageOnce", probe_finds_each_message_once},
          {"AWrongLengthFails", a_wrong_length_fails},
          {"Ring", ring},
          {"RecursiveDoubling", recursive_doubling},
          {"HalvingDoubling", halving_doubling},
          {"Tree", tree},
          {"EveryDtypeAndOperator", every_dtype_and_operator},
          {"Finishing", finishing},
          {"TheTablesChoice", the_tables_choice},
          {"SameBitsOnEveryRank", same_bits_on_every_rank},
          {"HalvingDoublingGivesTheBitsOfRecursiveDoubling",
           halving_doubling_gives_the_bits_of_recursive_doubling},
          {"Broadcast", broadcast},
          {"Reducescatter", reducescatter},
          {"Allgather", allgather},
          {"Alltoall", alltoall},
          {"Adasum", adasum_of_all},
          {"Transfer", transfer},
          {"ClockReading", clock_reading},
          {"SeveralInFlight", several_in_flight}};
}

struct CaseName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.first;
  }
};

}  // namespace kolo::contract
