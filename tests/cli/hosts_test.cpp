#include "cli/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostList, IsRead) {
  EXPECT_EQ(to_string(parse_host_list("node1:4,node2:2")), "node1:4,node2:2");
  EXPECT_EQ(to_string(parse_host_list("node1")), "node1:1");
}

TEST(HostList, AddsSlotsOfAHostNamedAgain) {
  EXPECT_EQ(to_string(parse_host_list("a:2,b,a")), "a:3,b:1");
  EXPECT_TRUE(parse_host_list("a,a").front().slots_given) << "that is a number, too";
  EXPECT_FALSE(parse_host_list("a,b").front().slots_given);
}

TEST(HostList, RefusesBadEntries) {
  for (const char* bad : {"", "a,", ",a", "a:", "a:0", "a:-1", "a:x", "a:2x", "a b:1", "-a:2", ":4",
                          "a:99999999999999999999"}) {
    EXPECT_THROW((void)parse_host_list(bad), UsageError) << bad;
  }
  EXPECT_THAT(error_of([] { (void)parse_host_list("a:2,b:x"); }),
              testing::AllOf(HasSubstr("a:2,b:x"), HasSubstr("'x'")));
}

TEST(Hostfile, IsRead) {
  const char* text =
      "# hosts\n\nnode1 slots=4\nnode2 slots=2 max_slots=8  # two\r\nnode3\nnode4:3\n";
  EXPECT_EQ(to_string(parse_hostfile(text, "f")), "node1:4,node2:2,node3:1,node4:3");
}

TEST(Hostfile, NamesFileAndLineOfAnError) {
  EXPECT_THAT(error_of([] { (void)parse_hostfile("a slots=2\nb slots=two\n", "hosts.txt"); }),
              HasSubstr("hosts.txt, line 2"));
  EXPECT_THAT(error_of([] { (void)parse_hostfile("a cores=2\n", "f"); }), HasSubstr("cores=2"));
  EXPECT_THAT(error_of([] { (void)parse_hostfile("# none\n", "f"); }), HasSubstr("names no host"));
}

TEST(IsThisHost, KnowsShortAndLongNames) {
  EXPECT_TRUE(is_this_host("localhost", "node7"));
  EXPECT_TRUE(is_this_host("node7", "node7.cluster"));
  EXPECT_TRUE(is_this_host("node7.cluster", "node7"));
  EXPECT_FALSE(is_this_host("node7.a", "node7.b"));
  EXPECT_FALSE(is_this_host("node70", "node7"));
  EXPECT_FALSE(is_this_host("10.0.0.1", "10"));
}

}  // namespace
}  // namespace kolo::cli
