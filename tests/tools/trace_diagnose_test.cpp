#include "tools/trace/diagnose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using State = FlightOperation::State;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

Flight flight(int rank, int size) {
  Flight one;
  one.rank = rank;
  one.size = size;
  one.host = "node";
  one.step = 118;
  one.now = 100 * kSecond;
  one.unix_time = 5000 * kSecond;
  one.reason = "a test";
  return one;
}

FlightOperation done(const std::string& name, std::int64_t sequence, int ended) {
  FlightOperation one;
  one.name = name;
  one.operation = "allreduce";
  one.state = State::kDone;
  one.step = 117;
  one.sequence = sequence;
  one.submitted = (ended - 1) * kSecond;
  one.started = one.submitted;
  one.ended = ended * kSecond;
  return one;
}

FlightOperation pending(const std::string& name, int submitted, bool wanted = false) {
  FlightOperation one;
  one.name = name;
  one.operation = "allreduce";
  one.step = 118;
  one.submitted = submitted * kSecond;
  one.wanted = wanted;
  return one;
}

FlightOperation started(const std::string& name, std::int64_t sequence) {
  FlightOperation one = pending(name, 80);
  one.state = State::kStarted;
  one.sequence = sequence;
  one.started = 90 * kSecond;
  return one;
}

// Each rank has ended "bias", and nothing is under way.
Flights job(int size) {
  Flights flights;
  for (int rank = 0; rank < size; ++rank) {
    flights[rank] = flight(rank, size);
    flights[rank].operations = {done("weight", 1, 20), done("bias", 2, 30)};
  }
  return flights;
}

TEST(Diagnose, SaysSoWhenNobodyWaits) {
  const Diagnosis diagnosis = diagnose(job(3));
  EXPECT_FALSE(diagnosis.diverged);
  EXPECT_THAT(diagnosis.text, HasSubstr("No rank waits for another"));
  EXPECT_THAT(diagnosis.text,
              HasSubstr("rank 2 on node (process 0), step 118, wrote 2 operations for: a test"));
}

TEST(Diagnose, NamesWhoNeverSubmittedWhatAndWhatItDidLast) {
  Flights flights = job(4);
  for (const int rank : {0, 1, 3})
    flights[rank].operations.push_back(pending("weight", 35 + rank, true));
  const Diagnosis diagnosis = diagnose(flights);
  EXPECT_TRUE(diagnosis.diverged);
  EXPECT_THAT(
      diagnosis.text,
      HasSubstr("rank 2 never submitted allreduce of 'weight' in step 118; ranks 0, 1, 3 did, the "
                "first 65.0 s before the record was written."));
  EXPECT_THAT(
      diagnosis.text,
      HasSubstr("Rank 2, in step 118: the last thing it did was allreduce of 'bias' in step "
                "117, which ended 70.0 s before it wrote its record; its program waits for "
                "no operation"));
  EXPECT_THAT(diagnosis.text, Not(HasSubstr("Rank 0, in step")));
}

TEST(Diagnose, NamesWaitsInAnotherOrder) {
  Flights flights = job(2);
  flights[0].operations.push_back(pending("a", 40, true));
  flights[1].operations.push_back(pending("b", 41, true));
  EXPECT_THAT(diagnose(flights).text,
              HasSubstr("The ranks wait in different order: rank 0 waits for allreduce of 'a', "
                        "which rank 1 has not "
                        "submitted; that one waits for allreduce of 'b', which rank 0 has not."));
}

TEST(Diagnose, ARankWithoutARecordIsNoneThatHasSubmitted) {
  Flights flights = job(3);
  flights.erase(2);
  for (const int rank : {0, 1}) flights[rank].operations.push_back(pending("weight", 40, true));
  const std::string text = diagnose(flights).text;
  EXPECT_THAT(text, HasSubstr("rank 2 has left no record here"));
  EXPECT_THAT(text, HasSubstr("allreduce of 'weight' in step 118 was submitted on all ranks that "
                              "have left a record: it waits for rank 2."));
}

TEST(Diagnose, ARankThatHasDoneNothingIsNamed) {
  Flights flights;
  for (int rank = 0; rank < 3; ++rank) flights[rank] = flight(rank, 3);
  for (const int rank : {0, 1}) flights[rank].operations.push_back(pending("first", 40, true));
  const std::string text = diagnose(flights).text;
  EXPECT_THAT(text, HasSubstr("rank 2 never submitted allreduce of 'first'"));
  EXPECT_THAT(text, HasSubstr("Rank 2, in step 118: the last thing it did was nothing"));
}

TEST(Diagnose, ARankThatHasJoinedIsNotMissingAndItsJoinNotEither) {
  Flights flights = job(3);
  FlightOperation join = pending("kolo.join", 35, true);
  join.operation = "join";
  flights[2].operations.push_back(join);
  EXPECT_FALSE(diagnose(flights).diverged);
  flights[0].operations.push_back(pending("weight", 40, true));
  const std::string text = diagnose(flights).text;
  EXPECT_THAT(text, HasSubstr("rank 1 never submitted allreduce of 'weight'"));
  EXPECT_THAT(text, Not(HasSubstr("never submitted join")));
}

// A rank that wrote later has done it in between.
TEST(Diagnose, DoesNotBlameWhoIsFurther) {
  Flights flights = job(2);
  flights[0].operations.push_back(pending("weight", 40));
  flights[1].operations.push_back(done("weight", 3, 95));
  EXPECT_FALSE(diagnose(flights).diverged);
}

TEST(Diagnose, KnowsProcessSets) {
  Flights flights = job(3);
  for (const int rank : {0, 1}) {
    FlightOperation own = done("own", 1, 25);
    own.process_set = 4;
    flights[rank].operations.push_back(own);
  }
  FlightOperation waits = pending("own", 40);
  waits.process_set = 4;
  flights[1].operations.push_back(waits);
  EXPECT_THAT(diagnose(flights).text,
              HasSubstr("rank 0 never submitted allreduce of 'own' in step 118; rank 1 did"));
}

TEST(Diagnose, TellsWhatBeganAndDidNotEnd) {
  Flights flights = job(4);
  flights[0].operations.push_back(started("weight", 7));
  flights[1].operations.push_back(done("weight", 7, 95));
  flights[2].operations.push_back(started("weight", 7));
  flights[2].operations.back().state = State::kAgreed;
  flights[2].operations.back().started = 0;
  EXPECT_THAT(diagnose(flights).text,
              HasSubstr("allreduce of 'weight' in step 118 has begun and not ended on rank 0, for "
                        "10.0 s; it waits for "
                        "its turn on rank 2; it is done on rank 1; rank 3 has not heard of it."));
}

TEST(Diagnose, TellsOfABucketAsAWhole) {
  Flights flights = job(2);
  for (auto& [rank, one] : flights) {
    FlightOperation member = started("a", 7);
    member.bucket = 5;
    one.operations.push_back(member);
    FlightOperation bucket = started("b", 7);
    bucket.bucket = 5;
    bucket.members = 12;
    one.operations.push_back(bucket);
  }
  const std::string text = diagnose(flights).text;
  EXPECT_THAT(
      text,
      HasSubstr(
          "allreduce of bucket 5 (12 tensors, the last one 'b') in step 118 has begun and not "
          "ended on ranks 0, 1"));
  EXPECT_THAT(text, Not(HasSubstr("of 'a'")));
}

TEST(Diagnose, NamesRanksWithoutARecordAndThoseThatDidNotRun) {
  Flights flights = job(4);
  flights.erase(1);
  flights.erase(2);
  flights[3].frozen = 65 * kSecond;
  const std::string text = diagnose(flights).text;
  EXPECT_THAT(text, HasSubstr("ranks 1, 2 have left no record here"));
  EXPECT_THAT(
      text, HasSubstr("rank 3 did not run for 65.0 s before it wrote its record: it was stopped"));
}

TEST(Diagnose, NamesRanksWhoseRecordIsOlderThanTheFailure) {
  Flights flights = job(4);
  for (const int rank : {0, 1, 3}) flights[rank].reason = "failure: an allreduce moved nothing";
  flights[0].unix_time += kSecond;  // it learnt of the failure after rank 1
  flights[2].reason = "the program submits nothing";
  flights[2].unix_time -= 5 * kSecond;
  const Diagnosis diagnosis = diagnose(flights);
  EXPECT_TRUE(diagnosis.diverged);
  EXPECT_THAT(diagnosis.text, HasSubstr("rank 2 wrote its record 5.0 s before the failure on rank "
                                        "1, and none afterwards: it was killed or stopped"));
  EXPECT_THAT(diagnosis.text, Not(HasSubstr("rank 3 wrote its record")));

  // Records of programs that are quiet say nothing about other ranks.
  for (auto& [rank, flight] : flights) flight.reason = "the program submits nothing";
  EXPECT_FALSE(diagnose(flights).diverged);
}

TEST(Diagnose, TellsWhoCameLastWhereAllCame) {
  Flights flights = job(2);
  flights[0].operations.push_back(pending("weight", 40));
  flights[1].operations.push_back(pending("weight", 98));
  flights[1].now += 7 * kSecond;  // another clock
  flights[1].operations.back().submitted += 7 * kSecond;
  EXPECT_THAT(diagnose(flights).text, HasSubstr("was submitted on all ranks, the last of which, "
                                                "rank 1, came 58.0 s after the first, rank 0"));
}

TEST(ParseFlight, RefusesWhatIsNone) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_flight(text, "file");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  const std::string header =
      R"({"kolo_flight":1,"rank":0,"size":2,"host":"h","process":1,"job":5,"reason":"r","step":1,"now_ns":1,"unix_ns":2})";
  EXPECT_EQ(message(header + "\n"), "");
  EXPECT_THAT(message(""), HasSubstr("file, line 0: is not a flight record of kolo: it is empty"));
  EXPECT_THAT(message("x"), HasSubstr("file, line 1: is not a flight record"));
  EXPECT_THAT(message("{}"), HasSubstr("kolo_flight"));
  EXPECT_THAT(message(R"({"kolo_flight":2})"), HasSubstr("newer version"));
  EXPECT_THAT(message(header + std::string(3, '\0')),
              HasSubstr("file, line 1: is not a flight record"));
  EXPECT_THAT(message(header + "\n{}"), HasSubstr("file, line 2: is not a flight record of kolo"));
  std::string other = header;
  other.replace(other.find("\"rank\":0"), 8, "\"rank\":2");
  EXPECT_THAT(message(other), HasSubstr("it is of rank 2 of 2"));
  other = header;
  other.replace(other.find("\"size\":2"), 8, "\"size\":1048577");
  EXPECT_THAT(message(other), HasSubstr("it is of rank 0 of 1048577"));
}

}  // namespace
}  // namespace kolo::tools
