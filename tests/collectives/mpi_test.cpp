#include <gmock/gmock.h>
#include <mpi.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "collectives/mpi/runtime.hpp"
#include "collectives/subset/transport.hpp"
#include "contract.hpp"

namespace kolo {
namespace {

std::unique_ptr<Transport> world() {
  std::unique_ptr<Transport> transport;
  const Status status = make_mpi_transport(MpiParent{}, std::nullopt, transport);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return transport;
}

class MpiContract : public testing::TestWithParam<std::pair<std::string, contract::Case>> {};

TEST_P(MpiContract, Holds) {
  const std::unique_ptr<Transport> transport = world();
  GetParam().second(*transport);
}

INSTANTIATE_TEST_SUITE_P(All, MpiContract, testing::ValuesIn(contract::cases()),
                         contract::CaseName());

TEST(MpiRuntime, TheApplicationsMpiIsUsedAndNotFinalized) {
  ASSERT_TRUE(start_mpi().is_ok());
  finalize_mpi();
  int finalized = 1;
  MPI_Finalized(&finalized);
  EXPECT_EQ(finalized, 0);
}

TEST(MpiRuntime, TopologyOfOneNode) {
  Topology topology;
  const Status status = find_topology(MpiParent{}, topology);
  ASSERT_TRUE(status.is_ok()) << status.message();
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(topology.rank, rank);
  EXPECT_EQ(topology.size, size);
  EXPECT_EQ(topology.local_rank, rank);
  EXPECT_EQ(topology.local_size, size);
  EXPECT_EQ(topology.cross_rank, 0);
  EXPECT_EQ(topology.cross_size, 1);
  EXPECT_TRUE(topology.is_homogeneous);
}

TEST(MpiRuntime, GathersTextsOfTheNode) {
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<std::string> expected;
  for (int i = 0; i < size; ++i) expected.emplace_back(static_cast<std::size_t>(i), 'x');
  std::vector<std::string> texts = {"of before"};
  const Status status =
      gather_on_node(MpiParent{}, expected[static_cast<std::size_t>(rank)], texts);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(texts, expected);
}

// Rank 0's path holds; the others have one that leads nowhere.
Status share_table(const std::string& path_of_rank_0, AllreduceTable& table) {
  Topology topology;
  EXPECT_TRUE(find_topology(MpiParent{}, topology).is_ok());
  const std::string path = topology.rank == 0 ? path_of_rank_0 : "/nowhere/of/another/rank";
  return share_allreduce_table(MpiParent{}, topology, path, table);
}

// A file that rank 0 has written, until the end of the scope.
class TableFile {
 public:
  explicit TableFile(const std::string& text) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_writer_ = rank == 0;
    path_ = testing::TempDir() + "kolo_table_" + std::to_string(getpid());
    if (is_writer_) std::ofstream(path_) << text;
  }
  ~TableFile() {
    if (is_writer_) std::filesystem::remove(path_);
  }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_writer_ = false;
};

TEST(MpiAllreduceTable, AllRanksHaveThatOfRank0) {
  AllreduceTable table;
  ASSERT_TRUE(share_table("", table).is_ok());
  EXPECT_EQ(table, AllreduceTable{});
  const TableFile file("# kolo allreduce table, version 1\r\nranks 2\r\n0 tree\r\n9 ring");
  const Status status = share_table(file.path(), table);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(write_allreduce_table(table),
            "# kolo allreduce table, version 1\nranks 2\n0 tree\n9 ring\n");
}

TEST(MpiAllreduceTable, WhatIsWrongIsAnErrorOnEveryRank) {
  const auto expect_error = [](const std::string& path, const std::string& reason) {
    AllreduceTable table;
    const Status status = share_table(path, table);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("KOLO_ALLREDUCE_TABLE='/"));
    EXPECT_THAT(status.message(), testing::HasSubstr(reason));
  };
  const auto expect_error_in = [&](const std::string& text, const std::string& reason) {
    const TableFile file(text);
    expect_error(file.path(), reason);
  };
  expect_error_in("# kolo allreduce table, version 1\nranks 2\n0 star\n",
                  "': line 3: 'star' is not an algorithm; expected");
  expect_error_in("", "line 1: ''");
  expect_error_in(std::string(2 << 20, '#'), "longer than 1048576 bytes");
  expect_error("/nowhere/at/all", "'/nowhere/at/all': cannot be read: No such file");
  expect_error("/", "'/': is not a regular file");
  expect_error("/dev/zero", "is not a regular file");
}

TEST(MpiRuntime, ATransportOnACommunicatorOfTheApplication) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);  // in reverse order
  {
    std::unique_ptr<Transport> transport;
    ASSERT_TRUE(make_mpi_transport(MpiParent{&half}, std::nullopt, transport).is_ok());
    contract::broadcast(*transport);
    contract::ring(*transport);
  }
  MPI_Comm_free(&half);
}

TEST(MpiTransport, TakesDeviceMemoryIfAllRanksSaySo) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const bool all : {true, false}) {
    std::unique_ptr<Transport> transport;
    ASSERT_TRUE(make_mpi_transport(MpiParent{}, all || rank > 0, transport).is_ok());
    EXPECT_EQ(transport->takes_device_memory(), all);
    std::vector<int> everyone(static_cast<std::size_t>(size));
    std::iota(everyone.begin(), everyone.end(), 0);
    EXPECT_EQ(make_subset_transport(*transport, everyone)->takes_device_memory(), all);
  }
}

// More elements than an int counts, for real: 2^31 + 11 bytes.
TEST(MpiTransport, CountsOver2To31) {
  const std::unique_ptr<Transport> transport = world();
  if (transport->size() != 2) GTEST_SKIP() << "takes 2.1 GB a rank; runs with 2 ranks only";
  const auto pages = static_cast<double>(sysconf(_SC_AVPHYS_PAGES));
  int enough = pages * static_cast<double>(sysconf(_SC_PAGESIZE)) > 6e9 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (enough == 0) GTEST_SKIP() << "needs 6 GB of free memory";
  const std::size_t count = (std::size_t{1} << 31) + 11;
  std::vector<std::uint8_t> data(count, static_cast<std::uint8_t>(transport->rank() + 1));
  data[count - 1] = static_cast<std::uint8_t>(transport->rank() + 40);
  Reduction reduction;
  reduction.dtype = DType::kUint8;
  ASSERT_TRUE(
      contract::run(*make_ring_allreduce(*transport, 10, data.data(), count, reduction, 1 << 20))
          .is_ok());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i + 1 < count; ++i) wrong += data[i] != 3 ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(data[count - 1], 81);
}

}  // namespace
}  // namespace kolo
