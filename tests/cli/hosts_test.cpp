#include "cli/batch/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using testing::AllOf;
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

TEST(HostList, SaysWhatIsNotSupportedAndWhatToDoInstead) {
  EXPECT_THAT(error_of([] { (void)parse_host_list("n1:2,ann@n2:4"); }),
              AllOf(HasSubstr("'ann@n2:4'"), HasSubstr("'Host n2' and 'User ann'"),
                    HasSubstr("~/.ssh/config"), HasSubstr("write 'n2:4'")));
  for (const char* address : {"[::1]:2", "[::1]", "::1", "fe80::1%eth0", "[fe80::1%eth0]:2"}) {
    EXPECT_THAT(error_of([&] { (void)parse_host_list(address); }),
                AllOf(HasSubstr("'" + std::string(address) + "'"), HasSubstr("IPv6"),
                      HasSubstr("host's name")))
        << address;
  }
  EXPECT_THAT(error_of([] { (void)parse_hostfile("a\n::1 slots=2\n", "f"); }),
              AllOf(HasSubstr("f, line 2"), HasSubstr("IPv6")));
}

TEST(Hostfile, RefusesMaxSlotsThatSayNothingOrContradict) {
  EXPECT_THAT(error_of([] { (void)parse_hostfile("a\nb max_slots=8\n", "f"); }),
              AllOf(HasSubstr("f, line 2"), HasSubstr("write 'b slots=8'")));
  EXPECT_THAT(error_of([] { (void)parse_hostfile("a slots=4 max-slots=2\n", "f"); }),
              HasSubstr("more than its max_slots, 2"));
  EXPECT_EQ(to_string(parse_hostfile("a:3 max_slots=3\n", "f")), "a:3");
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

// On node1, whose interface has 10.0.0.1; node2 has 10.0.0.2.
std::string refusal(const std::string& list, bool whole_names = false,
                    const std::string& own_name = "node1") {
  using Addresses = std::vector<std::string>;
  const HostAddresses addresses = {[](const std::string& name) -> Addresses {
                                     if (name == "node1") return {"127.0.1.1"};  // in /etc/hosts
                                     if (name == "node2") return {"10.0.0.2"};
                                     if (name.find_first_not_of("0123456789.") == name.npos)
                                       return {name};
                                     return {};
                                   },
                                   [] {
                                     return Addresses{"127.0.0.1", "10.0.0.1"};
                                   }};
  return error_of(
      [&] { check_that_hosts_differ(parse_host_list(list), own_name, whole_names, addresses); });
}

TEST(HostsThatDiffer, AreTaken) {
  for (const char* good : {"node1", "node1,node2", "node1.x,node2.x", "localhost,node2", "a,b,c",
                           "10.0.0.1,10.0.0.2", "node1,10.0.0.2", "10.0.0.1,node2", "a,10.0.0.9"})
    EXPECT_EQ(refusal(good), "no error") << good;
}

TEST(HostsThatDiffer, AreNotOneHostNamedTwice) {
  const auto both = [](const char* a, const char* b) {
    return HasSubstr("hosts " + std::string(a) + " and " + b + " are one host");
  };
  EXPECT_THAT(refusal("node1:2,localhost:2"), both("node1", "localhost"));
  EXPECT_THAT(refusal("127.0.0.1,node1"), both("127.0.0.1", "node1"));
  EXPECT_THAT(refusal("node1,node1.x"), both("node1", "node1.x"));
  EXPECT_THAT(refusal("node2,node2.x"), both("node2", "node2.x"));
  EXPECT_THAT(refusal("node1,10.0.0.1"), AllOf(both("node1", "10.0.0.1"), HasSubstr("10.0.0.1)")));
  EXPECT_THAT(refusal("10.0.0.2,node2"), both("10.0.0.2", "node2"));
  EXPECT_THAT(refusal("node2,10.0.0.2", true), both("node2", "10.0.0.2"));
}

TEST(HostsThatDiffer, DifferInWhatTheLauncherCompares) {
  EXPECT_THAT(refusal("w.1.x,w.2.x"), AllOf(HasSubstr("hosts w.1.x and w.2.x share"),
                                            HasSubstr("'w'"), HasSubstr("IPv4 addresses")));
  EXPECT_THAT(refusal("w.1.x", false, "w.0.x"), HasSubstr("hosts w.0.x and w.1.x share"))
      << "it would start the ranks on its own host";
  EXPECT_EQ(refusal("w.1.x,w.2.x", true), "no error");
  EXPECT_EQ(refusal("w.1.x,w.0.x", false, "v"), refusal("w.1.x,w.0.x", false, "v.x"));
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
