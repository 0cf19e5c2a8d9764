#include "collectives/mpi/runtime.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>

#include "collectives/mpi/check.hpp"
#include "collectives/mpi/comm.hpp"
#include "collectives/mpi/fence.hpp"
#include "core/launched.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

bool started_here = false;

// Length from which on no further ranks' failures are added to a message. The first failure is
// always complete.
constexpr std::size_t kLongestText = 1000;

// A communicator that is freed at the end of a scope. MPI_Comm_free is collective, and so are the
// scopes that use this.
struct ScopedComm {
  MPI_Comm comm = MPI_COMM_NULL;
  ScopedComm() = default;
  ScopedComm(const ScopedComm&) = delete;
  ScopedComm& operator=(const ScopedComm&) = delete;
  ~ScopedComm() {
    if (comm == MPI_COMM_NULL) return;
    const Status status = check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
    if (!status.is_ok()) log::warning(status.message());
  }
};

Status size_and_rank(MPI_Comm comm, int& size, int& rank) {
  if (Status s = check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size"); !s.is_ok()) return s;
  return check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
}

// Checks that MPI knows the processes that the launcher has started. If the launcher belongs to
// another MPI, every process would be a program of one process: each would train on its own,
// without any error.
Status check_size() {
  int size = 0;
  int rank = 0;
  if (Status s = size_and_rank(MPI_COMM_WORLD, size, rank); !s.is_ok()) return s;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): documented for init(), before threads of the program
  const auto get = [](const char* name) { return std::getenv(name); };
  const std::optional<LaunchedSize> launched = launched_size(get);
  if (size > 1 || !launched || launched->size == 1) return Status::ok();
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  const int code = MPI_Get_library_version(version.data(), &length);
  if (Status s = check_mpi(code, "MPI_Get_library_version"); !s.is_ok()) return s;
  std::string library(version.data(), static_cast<std::size_t>(length));
  std::replace(library.begin(), library.end(), '\t', ' ');
  return Status::invalid_argument(
      "the launcher has started " + std::to_string(launched->size) + " processes (" +
      launched->variable +
      "), but MPI reports only this one: the program is built for another MPI, " +
      library.substr(0, library.find_first_of(",\n")) +
      ". Start it by that MPI's own launcher (kolo run --mpirun PATH), and under srun by a plugin "
      "that it knows (srun --mpi=list; --mpi=pmix for Open MPI)");
}

struct ScopedGroup {
  MPI_Group group = MPI_GROUP_NULL;
  ScopedGroup() = default;
  ScopedGroup(const ScopedGroup&) = delete;
  ScopedGroup& operator=(const ScopedGroup&) = delete;
  ~ScopedGroup() {
    if (group == MPI_GROUP_NULL) return;
    const Status status = check_mpi(MPI_Group_free(&group), "MPI_Group_free");
    if (!status.is_ok()) log::warning(status.message());
  }
};

}  // namespace

Status start_mpi() {
  int finalized = 0;
  if (Status s = check_mpi(MPI_Finalized(&finalized), "MPI_Finalized"); !s.is_ok()) return s;
  if (finalized != 0) {
    return Status::invalid_argument(
        "MPI_Finalize was called already, and MPI cannot be started again; call kolo::init() "
        "before MPI_Finalize");
  }
  int initialized = 0;
  if (Status s = check_mpi(MPI_Initialized(&initialized), "MPI_Initialized"); !s.is_ok()) return s;
  if (initialized == 0) {
    int provided = MPI_THREAD_SINGLE;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (Status s = check_mpi(code, "MPI_Init_thread"); !s.is_ok()) return s;
    started_here = true;
    await_all_in_mpi();
  }
  return check_size();
}

Status check_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  if (Status s = check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread"); !s.is_ok()) return s;
  if (provided == MPI_THREAD_MULTIPLE) return Status::ok();
  if (provided == MPI_THREAD_SERIALIZED) {
    log::info(
        "MPI provides MPI_THREAD_SERIALIZED: the program must not call MPI until kolo::shutdown(); "
        "call MPI_Init_thread with MPI_THREAD_MULTIPLE to lift this");
    return Status::ok();
  }
  return Status::invalid_argument(
      "kolo's engine calls MPI from a thread of its own, but MPI provides only " +
      std::string(provided == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SINGLE") +
      "; call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, &provided) instead of MPI_Init, or let "
      "kolo::init() start MPI, or use an MPI library built with thread support");
}

Status call_at_finalize(void (*end)()) {
  const auto call = [](MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* given) {
    reinterpret_cast<void (*)()>(given)();
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  int code =
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call, &key, reinterpret_cast<void*>(end));
  if (Status s = check_mpi(code, "MPI_Comm_create_keyval"); !s.is_ok()) return s;
  code = MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  if (Status s = check_mpi(code, "MPI_Comm_set_attr"); !s.is_ok()) return s;
  return check_mpi(MPI_Comm_free_keyval(&key), "MPI_Comm_free_keyval");
}

void finalize_mpi() {
  int finalized = 0;
  if (!started_here || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  const Status status = check_mpi(MPI_Finalize(), "MPI_Finalize");
  if (!status.is_ok()) log::warning(status.message());
}

Status find_topology(MpiParent given, Topology& topology) {
  const MPI_Comm parent = comm_of(given);
  if (Status s = size_and_rank(parent, topology.size, topology.rank); !s.is_ok()) return s;
  ScopedComm node;
  int code =
      MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, topology.rank, MPI_INFO_NULL, &node.comm);
  if (Status s = check_mpi(code, "MPI_Comm_split_type"); !s.is_ok()) return s;
  if (Status s = size_and_rank(node.comm, topology.local_size, topology.local_rank); !s.is_ok()) {
    return s;
  }
  ScopedComm cross;
  code = MPI_Comm_split(parent, topology.local_rank, topology.rank, &cross.comm);
  if (Status s = check_mpi(code, "MPI_Comm_split"); !s.is_ok()) return s;
  if (Status s = size_and_rank(cross.comm, topology.cross_size, topology.cross_rank); !s.is_ok()) {
    return s;
  }
  // The maximum of (n, -n) yields both the largest and the smallest node in one call.
  const int mine[2] = {topology.local_size, -topology.local_size};
  int extreme[2] = {0, 0};
  code = MPI_Allreduce(mine, extreme, 2, MPI_INT, MPI_MAX, parent);
  topology.is_homogeneous = extreme[0] == -extreme[1];
  return check_mpi(code, "MPI_Allreduce");
}

Status ranks_in_mpi_world(MpiParent given, std::vector<int>& members, int& own) {
  const MPI_Comm comm = comm_of(given);
  members.clear();
  if (Status s = check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &own), "MPI_Comm_rank"); !s.is_ok())
    return s;
  if (comm == MPI_COMM_NULL) return Status::ok();
  ScopedGroup some;
  ScopedGroup all;
  if (Status s = check_mpi(MPI_Comm_group(comm, &some.group), "MPI_Comm_group"); !s.is_ok())
    return s;
  if (Status s = check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all.group), "MPI_Comm_group");
      !s.is_ok())
    return s;
  int size = 0;
  if (Status s = check_mpi(MPI_Group_size(some.group, &size), "MPI_Group_size"); !s.is_ok())
    return s;
  std::vector<int> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  members.resize(places.size());
  const int code =
      MPI_Group_translate_ranks(some.group, size, places.data(), all.group, members.data());
  if (Status s = check_mpi(code, "MPI_Group_translate_ranks"); !s.is_ok()) return s;
  if (std::find(members.begin(), members.end(), MPI_UNDEFINED) == members.end())
    return Status::ok();
  return Status::invalid_argument(
      "the communicator has a process that is not in MPI_COMM_WORLD; name the ranks instead: "
      "add_process_set(ranks)");
}

Status gather_number(MpiParent given, int number, std::vector<int>& numbers) {
  const MPI_Comm comm = comm_of(given);
  int size = 0;
  if (Status s = check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size"); !s.is_ok()) return s;
  numbers.resize(static_cast<std::size_t>(size));
  return check_mpi(MPI_Allgather(&number, 1, MPI_INT, numbers.data(), 1, MPI_INT, comm),
                   "MPI_Allgather");
}

Status gather_on_node(MpiParent given, const std::string& text, std::vector<std::string>& texts) {
  ScopedComm node;
  int code =
      MPI_Comm_split_type(comm_of(given), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node.comm);
  if (Status s = check_mpi(code, "MPI_Comm_split_type"); !s.is_ok()) return s;
  return gather_texts(MpiParent{&node.comm}, text, texts);
}

Status share_text(MpiParent given, std::string& text) {
  const MPI_Comm parent = comm_of(given);
  auto length = static_cast<int>(text.size());
  if (Status s = check_mpi(MPI_Bcast(&length, 1, MPI_INT, 0, parent), "MPI_Bcast"); !s.is_ok())
    return s;
  text.resize(static_cast<std::size_t>(length));
  return check_mpi(MPI_Bcast(text.data(), length, MPI_CHAR, 0, parent), "MPI_Bcast");
}

Status gather_texts(MpiParent given, const std::string& text, std::vector<std::string>& texts) {
  const MPI_Comm parent = comm_of(given);
  std::vector<int> lengths;
  if (Status s = gather_number(given, static_cast<int>(text.size()), lengths); !s.is_ok()) return s;
  texts.assign(lengths.size(), {});
  std::vector<int> begins;
  int end = 0;
  for (const int length : lengths) {
    begins.push_back(end);
    end += length;
  }
  if (end == 0) return Status::ok();
  std::string all(static_cast<std::size_t>(end), '\0');
  const int code = MPI_Allgatherv(text.data(), static_cast<int>(text.size()), MPI_CHAR, all.data(),
                                  lengths.data(), begins.data(), MPI_CHAR, parent);
  if (Status s = check_mpi(code, "MPI_Allgatherv"); !s.is_ok()) return s;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts[rank] =
        all.substr(static_cast<std::size_t>(begins[rank]), static_cast<std::size_t>(lengths[rank]));
  }
  return Status::ok();
}

Status agree(MpiParent parent, const Status& mine) {
  std::vector<std::string> failures;
  if (Status s = gather_texts(parent, mine.message(), failures); !s.is_ok()) return s;
  if (!mine.is_ok()) return mine;
  std::string text;
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    if (text.empty()) {
      text = "rank " + std::to_string(rank) + ": " + failures[rank];
    } else if (text.size() < kLongestText) {
      text += "; rank " + std::to_string(rank) + ": " + failures[rank];
    }
  }
  if (text.empty()) return mine;
  return Status::invalid_argument("kolo cannot start, because another rank cannot: " + text);
}

}  // namespace kolo
