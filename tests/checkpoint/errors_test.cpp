// Errors of checkpoints: the same on all ranks, clear, and nothing is lost or changed.
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/header.hpp"
#include "checkpoint/trained.hpp"
#include "shared_folder.hpp"
#include "torch_ops/everywhere.hpp"

namespace kolo::testing_support {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CheckpointErrors : public WithKolo, public testing::WithParamInterface<CheckpointWriters> {
 protected:
  CheckpointOptions options() { return CheckpointOptions().writers(GetParam()); }
  CheckpointOptions at_once() { return options().asynchronous(false); }

  // Saves a net of a few layers as steps 1 to `steps`.
  void save(const std::string& folder, int steps, bool with_large = false) {
    SmallNet net;
    const torch::Tensor large = torch::ones({with_large ? 3000000 : 1});
    Checkpoint checkpoint(folder, at_once().keep_last(0));
    checkpoint.add("model", *net).add("large", large);
    for (int step = 1; step <= steps; ++step) checkpoint.save(step);
  }
  static std::string file(int step) { return "checkpoint-00000000" + std::to_string(step) + ".h5"; }
};

// Flips a bit in the middle.
void damage(const std::string& path) {
  if (rank() == 0) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
    stream.seekg(middle);
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(middle);
    stream.put(byte);
  }
  barrier();
}

void cut(const std::string& path, std::uintmax_t size) {
  if (rank() == 0) fs::resize_file(path, size);
  barrier();
}

TEST_P(CheckpointErrors, MissingFolderOrEmptyFolderIsNoCheckpoint) {
  const SharedFolder folder;
  std::int64_t number = 5;
  for (const std::string& path : {folder / "none", folder.path()}) {
    Checkpoint checkpoint(path, options());
    checkpoint.add("number", number);
    EXPECT_FALSE(checkpoint.restore());
    EXPECT_EQ(number, 5);
  }
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("number", number);
  EXPECT_THAT(message_everywhere<FileError>(
                  [&] { checkpoint.restore(RestoreOptions().path(folder / "none.h5")); }),
              AllOf(HasSubstr(folder / "none.h5"), HasSubstr("No such file")));
}

TEST_P(CheckpointErrors, FolderIsMadeWithThoseAboveIt) {
  const SharedFolder folder;
  save(folder / "a/b/c/", 1);
  EXPECT_TRUE(fs::exists(folder / "a/b/c/checkpoint-000000001.h5"));
}

TEST_P(CheckpointErrors, DamagedOneIsPassedOver) {
  const SharedFolder folder;
  save(folder.path(), 3, true);
  damage(folder / file(3));
  cut(folder / file(2), 20000);
  SmallNet net;
  torch::Tensor large = torch::zeros({3000000});
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", *net).add("large", large);
  testing::internal::CaptureStderr();
  const auto restored = checkpoint.restore();
  const std::string warning = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->step, 1);
  EXPECT_EQ(large.sum().item<float>(), 3000000);
  if (rank() == 0) {
    EXPECT_THAT(warning,
                AllOf(HasSubstr(file(3) + " is damaged: 'large' does not match its checksum"),
                      HasSubstr(file(2) + " is damaged: it has 20000 bytes"),
                      HasSubstr("taking " + (folder / file(1)) + " instead")));
  }
  // What is asked for by name is not replaced by another.
  EXPECT_THAT(message_everywhere<DataError>(
                  [&] { checkpoint.restore(RestoreOptions().path(folder / file(3))); }),
              HasSubstr(file(3) + " is damaged: 'large'"));
}

// To start anew silently would lose what can perhaps be saved.
TEST_P(CheckpointErrors, AllDamagedIsAnError) {
  const SharedFolder folder;
  save(folder.path(), 2);
  cut(folder / file(2), 5000);
  cut(folder / file(1), 100);
  SmallNet net;
  const torch::Tensor before = net->first->weight.detach().clone();
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", *net);
  EXPECT_THAT(message_everywhere<DataError>([&] { checkpoint.restore(); }),
              AllOf(HasSubstr("no checkpoint in " + folder.path()), HasSubstr(file(2)),
                    HasSubstr(file(1))));
  EXPECT_TRUE(torch::equal(net->first->weight, before));
}

TEST_P(CheckpointErrors, NewerVersionIsNotPassedOver) {
  const SharedFolder folder;
  save(folder.path(), 2);
  if (rank() == 0) {
    checkpoint::Header newer;
    newer.major = checkpoint::kMajor + 1;
    newer.file_size = checkpoint::kHeaderBytes;
    const checkpoint::HeaderBytes bytes = encode(newer);
    std::ofstream(folder / file(3), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  barrier();
  SmallNet net;
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", *net);
  EXPECT_THAT(message_everywhere<DataError>([&] { checkpoint.restore(); }),
              AllOf(HasSubstr(file(3)), HasSubstr("was written by a newer kolo, in format 2.0")));
}

TEST_P(CheckpointErrors, OtherNamesShapesAndDtypesAreListed) {
  const SharedFolder folder;
  save(folder.path(), 1);
  struct Part : torch::nn::Module {
    Part(const torch::Tensor& weight, const torch::Tensor& bias) {
      if (weight.defined()) register_parameter("weight", weight);
      if (bias.defined()) register_parameter("bias", bias);
    }
  };
  torch::nn::Module net;
  const torch::Tensor bias = torch::zeros({2});
  net.register_module(
      "first", std::make_shared<Part>(torch::zeros({16, 6}, torch::kDouble), torch::zeros({16})));
  net.register_module("last", std::make_shared<Part>(torch::full({3, 16}, 7.0), bias));
  net.register_module("more", std::make_shared<Part>(torch::full({1}, 7.0), torch::Tensor()));
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", net);
  const std::string message = message_everywhere<MismatchError>([&] { checkpoint.restore(); });
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("not in the file: model/more.weight;"),
            HasSubstr("not in the program: model/norm.bias"), HasSubstr("model/norm.running_mean"),
            HasSubstr("model/first.weight (the file has float32[16, 6], the program "
                      "float64[16, 6])"),
            HasSubstr("model/last.weight (the file has float32[2, 16], the program "
                      "float32[3, 16])"),
            HasSubstr("strict(false)")));
  EXPECT_TRUE(torch::equal(bias, torch::zeros({2}))) << "something was changed";

  const auto restored = checkpoint.restore(RestoreOptions().strict(false));
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->missing, testing::ElementsAre("model/more.weight"));
  EXPECT_THAT(restored->unexpected, SizeIs(5));
  EXPECT_THAT(restored->mismatched, SizeIs(2));
  EXPECT_FALSE(torch::equal(bias, torch::zeros({2})));
}

// What was not added is not missed: a program may take the model alone.
TEST_P(CheckpointErrors, OtherComponentsAreLeftAlone) {
  const SharedFolder folder;
  save(folder.path(), 1);
  SmallNet net;
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", *net);
  const auto restored = checkpoint.restore();
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->unexpected, IsEmpty());
}

// A load() that refuses, here for another seed, comes before anything else is changed.
TEST_P(CheckpointErrors, LoadThatRefusesChangesNothing) {
  const SharedFolder folder;
  const auto add = [](Checkpoint& checkpoint, SmallNet& net, DistributedSampler& sampler) {
    checkpoint.add("model", *net).add("sampler", sampler);
  };
  SmallNet net;
  DistributedSampler sampler(40, {size(), rank(), true, 1});
  {
    Checkpoint checkpoint(folder.path(), at_once());
    add(checkpoint, net, sampler);
    checkpoint.save(1);
  }
  SmallNet other;
  const torch::Tensor before = other->first->weight.detach().clone();
  DistributedSampler other_seed(40, {size(), rank(), true, 2});
  Checkpoint checkpoint(folder.path(), options());
  add(checkpoint, other, other_seed);
  EXPECT_THAT(message_everywhere<InvalidArgumentError>([&] { checkpoint.restore(); }),
              HasSubstr("seed"));
  EXPECT_TRUE(torch::equal(other->first->weight, before));
}

// Nor is a text that is too long for a value, which is read as tensors are.
TEST_P(CheckpointErrors, LoadThatRefusesLeavesLongTextsAlone) {
  const SharedFolder folder;
  std::string text(5000, 'a');
  DistributedSampler sampler(40, {size(), rank(), true, 1});
  {
    Checkpoint checkpoint(folder.path(), at_once());
    checkpoint.add("text", text).add("sampler", sampler);
    checkpoint.save(1);
  }
  text = "mine";
  DistributedSampler other_seed(40, {size(), rank(), true, 2});
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("text", text).add("sampler", other_seed);
  EXPECT_THAT(message_everywhere<InvalidArgumentError>([&] { checkpoint.restore(); }),
              HasSubstr("seed"));
  EXPECT_EQ(text, "mine");
  Checkpoint right(folder.path(), options());
  right.add("text", text).add("sampler", sampler);
  right.restore();
  EXPECT_EQ(text, std::string(5000, 'a'));
}

TEST_P(CheckpointErrors, RanksGiveOneStep) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder;
  std::int64_t number = 1;
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("number", number);
  EXPECT_TRUE(checkpoint.save(6));
  EXPECT_THAT(
      message_everywhere<InvalidArgumentError>([&] { checkpoint.save(rank() == 1 ? -1 : 7); }),
      HasSubstr("rank 1: checkpoint: step -1"));
  EXPECT_THAT(message_everywhere<MismatchError>([&] { checkpoint.save(rank() == 1 ? 8 : 7); }),
              HasSubstr("rank 0 saves step 7, rank 1 step 8"));
  EXPECT_EQ(checkpoint.metrics().saved, 1) << "step 6 was complete";
}

// Saved is what all ranks know to be complete.
TEST_P(CheckpointErrors, WhatFailedIsNotCounted) {
  const SharedFolder folder;
  if (rank() == 0) std::ofstream(folder / "file") << "hello";
  barrier();
  std::int64_t number = 1;
  Checkpoint checkpoint(folder / "file", options());
  checkpoint.add("number", number);
  if (GetParam() == CheckpointWriters::RankZero) {
    EXPECT_TRUE(checkpoint.save(1));
    message_everywhere<FileError>([&] { checkpoint.save(2); });
  } else {
    message_everywhere<FileError>([&] { checkpoint.save(1); });
  }
  EXPECT_EQ(checkpoint.metrics().saved, 0);
  Checkpoint good(folder.path(), options());
  good.add("number", number);
  EXPECT_TRUE(good.save(1));
  EXPECT_EQ(good.metrics().saved, 0);
  EXPECT_TRUE(good.save(2));
  EXPECT_EQ(good.metrics().saved, 1);
  good.wait();
  EXPECT_EQ(good.metrics().saved, 2);
}

TEST_P(CheckpointErrors, RanksThatWantDifferentThingsAreTold) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder;
  save(folder.path(), 1);
  SmallNet net;
  torch::Tensor large = torch::zeros({1});
  Checkpoint checkpoint(folder.path(), options());
  checkpoint.add("model", *net);
  if (rank() != 1) checkpoint.add("large", large);
  EXPECT_THAT(message_everywhere<MismatchError>([&] { checkpoint.restore(); }),
              HasSubstr("rank 0 has large, rank 1 nothing more"));
}

TEST_P(CheckpointErrors, RanksThatDisagreeAreTold) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder;
  Checkpoint checkpoint(folder.path(), options());
  const torch::Tensor tensor = torch::zeros({rank() == 1 ? 3 : 2});
  checkpoint.add("tensor", tensor);
  EXPECT_THAT(
      message_everywhere<MismatchError>([&] { checkpoint.save(1); }),
      AllOf(HasSubstr("rank 0 has tensor Float [2]"), HasSubstr("rank 1 tensor Float [3]")));
  Checkpoint other(folder.path(), options());
  other.add_per_rank("mine", tensor);
  EXPECT_THAT(message_everywhere<MismatchError>([&] { other.save(1); }),
              AllOf(HasSubstr("for each rank [2]"), HasSubstr("for each rank [3]")));
  torch::Tensor undefined = rank() == 1 ? torch::Tensor() : torch::zeros({2});
  Checkpoint third(folder.path(), options());
  third.add("undefined", undefined);
  EXPECT_THAT(message_everywhere<InvalidArgumentError>([&] { third.save(1); }),
              HasSubstr("rank 1: checkpoint: the tensor 'undefined' is undefined"));
}

TEST_P(CheckpointErrors, PathThatIsSomethingElse) {
  const SharedFolder folder;
  if (rank() == 0) std::ofstream(folder / "file") << "hello";
  barrier();
  std::int64_t number = 1;
  for (const std::string& path : {folder / "file", folder / "file/below"}) {
    Checkpoint checkpoint(path, at_once());
    checkpoint.add("number", number);
    EXPECT_THAT(message_everywhere<FileError>([&] { checkpoint.save(1); }),
                HasSubstr("Not a directory"))
        << path;
  }
  Checkpoint checkpoint(folder.path(), at_once());
  checkpoint.add("number", number);
  EXPECT_THAT(message_everywhere<FileError>(
                  [&] { checkpoint.restore(RestoreOptions().path(folder.path())); }),
              HasSubstr("Is a directory"));
  EXPECT_THAT(message_everywhere<FileError>(
                  [&] { checkpoint.restore(RestoreOptions().path("/dev/null")); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_everywhere<DataError>(
                  [&] { checkpoint.restore(RestoreOptions().path(folder / "file")); }),
              HasSubstr("is not a checkpoint of kolo"));
}

// A file system of 4 MiB, which only root may mount.
class Mount {
 public:
  Mount(const std::string& path, const std::string& how) : path_(path) {
    fs::create_directory(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, how.c_str()) == 0;
  }
  ~Mount() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  bool mounted() const { return mounted_; }
  void make_read_only() const {
    ASSERT_EQ(::mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

TEST_P(CheckpointErrors, FullDiskAndReadOnlyDisk) {
  const SharedFolder folder;
  std::optional<Mount> disk;
  if (rank() == 0) disk.emplace(folder / "disk", "size=4m");
  if (!broadcast_object(rank() == 0 && disk->mounted()))
    GTEST_SKIP() << "no permission to mount a small file system";
  torch::Tensor tensor = torch::full({600000}, 1.0);  // 2.4 MB
  {
    Checkpoint checkpoint(folder / "disk", options().keep_last(1));
    checkpoint.add("tensor", tensor);
    EXPECT_TRUE(checkpoint.save(1));
    checkpoint.wait();
    // The second one does not fit beside the first, which stays.
    tensor.fill_(2);
    EXPECT_TRUE(checkpoint.save(2));
    EXPECT_THAT(message_everywhere<FileError>([&] { checkpoint.wait(); }),
                AllOf(HasSubstr("No space left on device"), HasSubstr("make room there")));
    // The next save tells, too; and nothing is left of the broken one.
    EXPECT_TRUE(checkpoint.save(3));
    EXPECT_THAT(message_everywhere<FileError>([&] { checkpoint.save(4); }),
                HasSubstr("No space left on device"));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "disk"), fs::directory_iterator()), 1);
    ASSERT_TRUE(checkpoint.restore());
    EXPECT_EQ(tensor.sum().item<float>(), 600000);
    barrier();
    if (rank() == 0) disk->make_read_only();
    barrier();
    const auto save = [&] {
      checkpoint.save(5);
      checkpoint.wait();
    };
    EXPECT_THAT(message_everywhere<FileError>(save), HasSubstr("Read-only file system"));
    ASSERT_TRUE(checkpoint.restore());
  }
  barrier();
  disk.reset();
}

TEST_P(CheckpointErrors, BusyIsSkippedOrWaitedFor) {
  const SharedFolder folder;
  const torch::Tensor tensor = torch::ones({20000000});
  Checkpoint checkpoint(folder.path(), options().busy(CheckpointBusy::Skip).keep_last(0));
  checkpoint.add("tensor", tensor);
  EXPECT_TRUE(checkpoint.save(1));
  int saved = 1;
  for (int step = 2; step < 5; ++step) saved += checkpoint.save(step) ? 1 : 0;
  EXPECT_LT(saved, 4);
  checkpoint.wait();
  EXPECT_EQ(checkpoint.metrics().saved, saved);
  EXPECT_EQ(checkpoint.metrics().skipped, 4 - saved);
  for (const int other : allgather_object(saved)) EXPECT_EQ(other, saved);
  EXPECT_TRUE(checkpoint.save(9));
}

TEST_P(CheckpointErrors, WrongArguments) {
  std::int64_t number = 0;
  Checkpoint checkpoint("unused", options());
  checkpoint.add("number", number);
  for (const char* name : {"number", "", "kolo", "random"})
    EXPECT_THROW(checkpoint.add(name, number), InvalidArgumentError) << name;
  EXPECT_THROW(checkpoint.save(-1), InvalidArgumentError);
  EXPECT_THROW(checkpoint.add_part("part", torch::zeros({3}), {4}, {2}), InvalidArgumentError);
  EXPECT_THROW(Checkpoint("", options()), InvalidArgumentError);
  EXPECT_THROW(Checkpoint("f", options().name("a/b")), InvalidArgumentError);
  EXPECT_THROW(Checkpoint("f", options().keep_last(-1)), InvalidArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Writers, CheckpointErrors,
                         testing::Values(CheckpointWriters::RankZero, CheckpointWriters::AllRanks),
                         [](const auto& one) {
                           return one.param == CheckpointWriters::AllRanks ? "All" : "RankZero";
                         });

}  // namespace
}  // namespace kolo::testing_support
