#include <gmock/gmock.h>
#include <mpi.h>
#include <unistd.h>

#include "collectives/mpi/runtime.hpp"
#include "contract.hpp"

namespace kolo {
namespace {

std::unique_ptr<Transport> world() {
  std::unique_ptr<Transport> transport;
  const Status status = make_mpi_transport(MpiParent{}, transport);
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

TEST(MpiRuntime, ATransportOnACommunicatorOfTheApplication) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);  // in reverse order
  {
    std::unique_ptr<Transport> transport;
    ASSERT_TRUE(make_mpi_transport(MpiParent{&half}, transport).is_ok());
    contract::broadcast(*transport);
    contract::ring(*transport);
  }
  MPI_Comm_free(&half);
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
