#include "tools/trace/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kolo/error.h"
#include "temporary_folder.hpp"
#include "tools/trace/findings.hpp"
#include "tools/trace/report/files.hpp"
#include "trace_fixture.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// An analysis of a job that has nothing to complain of but what a test puts in.
class FindingsTest : public testing::Test {
 protected:
  FindingsTest() {
    for (int rank = 0; rank < 2; ++rank) {
      add_rank(rank, "node", std::to_string(rank));
      analysis.ranks.push_back(rank);
    }
    analysis.steps = {1, 2, 3, 4, 5};
    analysis.counts = {false, true, true, true, true};
    analysis.counted = 4;
    split(70, 10, 0, 0);
  }

  void add_rank(int rank, const std::string& host, const std::string& cores) {
    TraceHeader& header = run.ranks[rank].trace.header;
    header.host = host;
    header.cores = cores;
    header.bucket_bytes = 4 << 20;
  }
  void split(double compute, double overlapped, double exposed, double waiting) {
    analysis.mean = {compute * 1000, overlapped * 1000, exposed * 1000, waiting * 1000};
    analysis.for_others = analysis.mean.waiting;
  }
  void tensor(const std::string& name, double ready) {
    TensorTiming timing;
    timing.name = name;
    timing.ready = ready * 1000;
    analysis.tensors.push_back(timing);
  }

  std::vector<std::string> titles() const {
    std::vector<std::string> titles;
    for (const Finding& one : findings()) titles.push_back(one.title);
    return titles;
  }
  std::vector<Finding> findings() const { return find_causes(run, analysis, measured); }

  RunActivity run;
  Analysis analysis;
  Measured measured;
};

TEST_F(FindingsTest, SaysThatThereIsLittleToGain) {
  split(90, 7, 2, 1);
  EXPECT_THAT(titles(), ElementsAre("There is little to gain here"));
}

TEST_F(FindingsTest, SaysThatNoCauseIsKnown) {
  split(70, 0, 30, 0);
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 30 % of the time"));
}

TEST_F(FindingsTest, TellsOfWaitsForData) {
  split(90, 7, 2, 1);
  analysis.data_wait = 31'000;
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 31 % of the step for data"));
  EXPECT_THAT(findings()[0].text, HasSubstr("31.0 ms a step for a batch"));
  analysis.data_wait = 3000;
  EXPECT_THAT(titles(), ElementsAre("There is little to gain here"));
}

TEST_F(FindingsTest, NamesStragglers) {
  analysis.stragglers = {{1, {{3, 5, true}}, 3, 9000, 19'000, 10'000},
                         {0, {{2, 4, false}}, 3, 7000, 1, 1}};
  const auto all = findings();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].title, "Rank 1 on node is slow, since step 3");
  EXPECT_THAT(all[0].text, AllOf(HasSubstr("9.00 ms later"),
                                 HasSubstr("works 19.0 ms a step, the others 10.0 ms"),
                                 Not(HasSubstr("ranks are slow"))));
  EXPECT_EQ(all[1].title, "Rank 0 on node is slow, until step 4");
}

TEST_F(FindingsTest, NamesThePeriodsOfStragglers) {
  analysis.stragglers = {{1, {{3, 4, false}}, 2, 20'000, 1, 1},
                         {0, {{2, 5, true}}, 4, 15'000, 1, 1}};
  EXPECT_THAT(titles(), ElementsAre("Rank 0 on node is slow, all the time",
                                    "Rank 1 on node is slow, from step 3 to 4"));
  analysis.stragglers = {{1, {{2, 3, false}, {5, 5, true}}, 3, 20'000, 1, 1}};
  EXPECT_THAT(titles(), ElementsAre("Rank 1 on node is slow, until step 3 and since step 5"));
  analysis.stragglers = {{1, {{2, 2, false}, {4, 4, false}, {5, 5, true}}, 3, 20'000, 1, 1}};
  EXPECT_THAT(titles(), ElementsAre("Rank 1 on node is slow, now and then: in 3 of 4 steps"));
}

TEST_F(FindingsTest, AStragglerThatCostsLittleIsNotNamed) {
  analysis.stragglers = {{1, {{3, 3, false}}, 1, 9000, 19'000, 10'000}};
  EXPECT_THAT(titles(), ElementsAre("There is little to gain here"));
}

TEST_F(FindingsTest, NamesAFewOfManyStragglers) {
  for (int i = 0; i < 20; ++i) analysis.stragglers.push_back({1, {{3, 5, true}}, 3, 9000, 1, 1});
  EXPECT_THAT(titles(), SizeIs(5));
  EXPECT_THAT(findings()[0].text, HasSubstr("20 ranks are slow; the 5 that cost most are shown"));
  // What costs too little is not counted either.
  analysis.stragglers.resize(2);
  analysis.stragglers[1].late = 1;
  EXPECT_THAT(findings()[0].text, Not(HasSubstr("ranks are slow")));
}

TEST_F(FindingsTest, TellsOfRanksThatTakeTurns) {
  split(70, 0, 0, 30);
  EXPECT_THAT(titles(), ElementsAre(HasSubstr("Ranks wait for each other 30 % of the time")));
  analysis.for_others = 1000;  // the rest is agreement
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 30 % of the time"));
  analysis.for_others = 30'000;
  analysis.stragglers = {{1, {{3, 5, true}}, 3, 40'000, 1, 1}};
  EXPECT_THAT(titles(), ElementsAre(HasSubstr("is slow")));
}

TEST_F(FindingsTest, TellsOfLongSteps) {
  analysis.steps = {1, 2, 3, 4, 5, 6};
  analysis.counts = {false, true, true, true, true, false};
  analysis.long_steps = {{6}, 2'000'000, 1};
  const auto all = findings();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].title, "1 of 6 steps (6) take 2.00 s instead of 80.0 ms");
  EXPECT_THAT(all[0].text, HasSubstr("Rank 1 comes last in them"));
}

TEST_F(FindingsTest, TellsOfSharedCores) {
  split(70, 0, 30, 0);
  add_rank(0, "node", "0-3");
  add_rank(1, "node", "2-7");
  const auto all = findings();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].title, "Ranks on node are not bound to cores of their own");
  EXPECT_THAT(all[0].text, HasSubstr("Ranks 0, 1 may use the same cores"));
  add_rank(1, "other", "2-7");
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 30 % of the time"));
  split(98, 0, 2, 0);
  add_rank(1, "node", "2-7");
  EXPECT_THAT(titles(), ElementsAre("There is little to gain here"));
}

TEST_F(FindingsTest, TellsOfTooManyRanks) {
  split(70, 0, 0, 30);
  add_rank(0, "node", "3");
  add_rank(1, "node", "3");
  EXPECT_THAT(titles(), testing::Contains("There are more ranks than cores on node"));
}

TEST_F(FindingsTest, TellsOfLateTensors) {
  split(60, 20, 20, 0);
  for (const double ready : {80.0, 79.0, 50.0, 48.0, 46.0, 44.0, 42.0, 40.0})
    tensor("t" + std::to_string(static_cast<int>(ready)), ready);
  EXPECT_THAT(titles(), ElementsAre("'t80', 't79' are reduced late"));
  analysis.tensors[0].ready = analysis.tensors[1].ready = 55'000;
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 20 % of the time"));
}

TEST_F(FindingsTest, TellsOfManySmallReductions) {
  split(60, 0, 40, 0);
  analysis.collectives = 100;
  analysis.small_collectives = 99;
  analysis.small_waits = 30'000;
  ASSERT_THAT(titles(), ElementsAre("Many small collectives"));
  EXPECT_THAT(findings()[0].text, HasSubstr("each is waited for before the next"));
  for (auto& [rank, activity] : run.ranks) activity.trace.header.bucket_bytes = 65536;
  EXPECT_THAT(findings()[0].text, HasSubstr("KOLO_FUSION_THRESHOLD is 64 KiB: raise it"));
  analysis.small_waits = 3000;
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 40 % of the time"));
}

TEST_F(FindingsTest, TellsOfBucketsThatAreTooLarge) {
  split(60, 10, 30, 0);
  analysis.collectives = analysis.buckets = 1;
  analysis.bytes = 100 << 20;
  analysis.bucket_bytes = 64 << 20;
  ASSERT_THAT(titles(), ElementsAre("Buckets are so large that reducing begins late"));
  EXPECT_THAT(findings()[0].text, HasSubstr("KOLO_FUSION_THRESHOLD=8388608"));
  analysis.bucket_bytes = 32 << 20;  // most travels alone
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 30 % of the time"));
  analysis.bucket_bytes = 64 << 20;
  analysis.buckets = 20;
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 30 % of the time"));
}

TEST_F(FindingsTest, ComparesWithWhatWasMeasured) {
  split(60, 0, 40, 0);
  analysis.speeds = {{"SHM_ALLREDUCE", 1 << 20, 100, 0.5, 0.4, 1.1, 30'000, 50, 1.0},
                     {"SHM_BROADCAST", 1 << 20, 100, 0.5, 0.4, 1.1, 50'000, 50, 0.1},
                     {"SHM_ALLREDUCE", 1 << 10, 100, 0.1, 0.1, 0.1, 1000, 50, 0.1}};
  measured.speeds = {{"kolo, arena", 1 << 20, 8},
                     {"kolo, private", 1 << 20, 4},
                     {"kolo, arena", 1 << 24, 50},
                     {"limit, arena", 1 << 20, 100}};
  const auto all = findings();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(
      all[0].text,
      HasSubstr("SHM_ALLREDUCE of 1 MiB with nothing beside it runs at 1.00 GB/s; kolo bench "
                "measured 4.00 GB/s for 1 MiB (kolo, private)"));
  analysis.speeds[0].alone_gigabytes = 3;
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 40 % of the time"));
  analysis.speeds[0].alone_gigabytes = 1;
  analysis.speeds[0].alone = 3;  // too few to tell
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 40 % of the time"));
  analysis.speeds[0].alone = 50;
  for (MeasuredSpeed& one : measured.speeds) one.bytes *= 8;  // nothing of about that size
  EXPECT_THAT(titles(), ElementsAre("Ranks wait 40 % of the time"));
}

TEST(CoreLists, AreRead) {
  EXPECT_THAT(parse_core_list("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  for (const char* wrong : {"", "a", "3-1", "1,,2", "1;2", "0-99999", "-4", "99999999999"})
    EXPECT_THAT(parse_core_list(wrong), IsEmpty()) << wrong;
}

TEST(Texts, OfTimesAndBytes) {
  EXPECT_EQ(time_text(12.4), "12 us");
  EXPECT_EQ(time_text(1500), "1.50 ms");
  EXPECT_EQ(time_text(15'000), "15.0 ms");
  EXPECT_EQ(time_text(2'500'000), "2.50 s");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(65536), "64 KiB");
  EXPECT_EQ(bytes_text(1.5 * (1 << 20)), "1.5 MiB");
}

class ReportTest : public testing::Test {
 protected:
  void train(const std::string& tensor, int steps = 20) const {
    for (int rank = 0; rank < 2; ++rank) {
      RankTimeline timeline(rank, {});
      for (int step = 1; step <= steps; ++step) {
        const double begin = 10.0 * step;
        timeline.tensor(step, static_cast<std::uint64_t>(step), tensor, 4096,
                        {begin + 5 + 2 * rank, begin + 7, begin + 7, begin + 9});
        timeline.wait(step, tensor, begin + 5 + 2 * rank, begin + 9);
        timeline.step(step, begin, begin + 10);
      }
      timeline.write(folder_.path());
    }
  }

  json report(const std::string& bandwidth = "") {
    const ReportText text = report_text({folder_.path(), bandwidth});
    words_ = text.words;
    data_ = text.data;
    return json::parse(text.data);
  }

  std::string speeds(const std::string& text) const {
    std::ofstream(folder_ / "speed.json") << text;
    return folder_ / "speed.json";
  }

  const testing_support::TemporaryFolder folder_;
  std::string data_;
  std::string words_;
};

TEST_F(ReportTest, HasAllInOnePage) {
  if (report_plotly().empty()) GTEST_SKIP() << "built without plotly.min.js";
  train("w");
  std::ostringstream page;
  const ReportText text = report_text({folder_.path(), ""});
  write_report(text, page);
  EXPECT_THAT(page.str(), HasSubstr("plotly.js v"));
  EXPECT_THAT(page.str(), HasSubstr("drawSplit();"));
  EXPECT_THAT(page.str(), HasSubstr("id=\"data\">" + text.data + "</script>"));
  EXPECT_THAT(page.str(), Not(HasSubstr("@DATA@")));
}

TEST_F(ReportTest, SaysWhereTimeGoes) {
  train("w");
  const json data = report();
  EXPECT_EQ(data["step_time"], 10);
  EXPECT_EQ(data["mean"],
            json({{"compute", 7}, {"overlapped", 0}, {"exposed", 2}, {"waiting", 1}}));
  EXPECT_EQ(data["ranks"][0]["late"][5], 0);
  EXPECT_EQ(data["ranks"][1]["late"][5], 2);
  EXPECT_EQ(data["steps"].size(), 20U);
  EXPECT_THAT(words_,
              HasSubstr("a step takes 10.0 ms: computing 70 %, communication hidden behind "
                        "it 0 %, waiting while tensors are communicated 20 %, waiting while "
                        "nothing is 10 %\n"));
  EXPECT_THAT(words_, HasSubstr("- Rank 1 on node is slow, all the time."));
}

TEST_F(ReportTest, SaysWhichJob) {
  train("w");
  EXPECT_EQ(report()["title"], "2 ranks on node");
  EXPECT_THAT(words_, testing::StartsWith("2 ranks on node\na step takes "));
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline::Settings settings;
    settings.program = "mnist";
    settings.host = "node" + std::to_string(rank);
    settings.run = 1'764'107'040'000'000'000;
    RankTimeline timeline(rank, settings);
    for (int step = 1; step <= 5; ++step) timeline.step(step, 10 * step, 10 * step + 10);
    timeline.write(folder_.path());
  }
  const json data = report();
  EXPECT_EQ(data["program"], "mnist");
  EXPECT_EQ(data["title"], "mnist, started 2025-11-25 21:44 UTC, 2 ranks on node0, node1");
}

TEST_F(ReportTest, LongJobsAreDrawnInPieces) {
  train("w", 2001);
  const json data = report();
  EXPECT_EQ(data["steps_each"], 5);
  EXPECT_EQ(data["steps"].size(), 401U);
  EXPECT_EQ(data["steps"][1], 6);
  EXPECT_EQ(data["ranks"][1]["steps"]["exposed"].size(), 401U);
  EXPECT_EQ(data["ranks"][1]["steps"]["exposed"][400], 2);
  EXPECT_EQ(data["ranks"][1]["late"][400], 2);
}

TEST_F(ReportTest, NamesAreNoMarkup) {
  const std::string name = "</script><script>alert(1)</script>";
  train(name);
  EXPECT_EQ(report()["tensors"][0]["name"], name);
  EXPECT_THAT(data_, Not(HasSubstr("<")));
}

TEST_F(ReportTest, ShowsWhatWasMeasured) {
  train("w");
  const auto row = [](const char* work, const char* who, int bytes, double time, int samples) {
    return json({{"work", work},
                 {"contender", who},
                 {"bytes", bytes},
                 {"median_us", time},
                 {"samples", samples}});
  };
  const json measured = {{"machine", "a Xeon"},
                         {"date", "2026-01-01"},
                         {"rows",
                          {row("allreduce/4096/arena/2", "kolo", 4096, 4.096, 20),
                           row("allreduce/4096/arena/2", "kolo", 4096, 2.048, 20),
                           row("allreduce/4096/arena/2", "kolo", 4096, 1.024, 2),
                           row("allreduce/4096/arena/4", "kolo", 4096, 0.1, 20),
                           row("allreduce/4096/arena/2", "mpi", 4096, 0.1, 20),
                           row("broadcast/4096/arena/2", "kolo", 4096, 0.1, 20),
                           row("allreduce/4096/arena/2", "limit", 4096, 1.024, 20)}}};
  const json data = report(speeds(measured.dump()))["measured"];
  EXPECT_EQ(data["machine"], "a Xeon");
  EXPECT_EQ(data["speeds"], json::parse(R"([{"who":"kolo, arena","bytes":4096.0,"rate":2.0},
                                            {"who":"limit, arena","bytes":4096.0,"rate":4.0}])"));
}

TEST_F(ReportTest, RefusesWhatWasNotMeasured) {
  train("w");
  const auto message = [&](const std::string& path) -> std::string {
    try {
      report(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(folder_ / "none"), HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(message(speeds("hello")), HasSubstr("was not written by kolo bench allreduce"));
  EXPECT_THAT(message(speeds("{\"machine\":\"m\",\"date\":\"d\",\"rows\":[]}")),
              HasSubstr("speed.json: no allreduce with 2 ranks was measured in it"));
}

TEST_F(ReportTest, SaysWhatIsMissing) {
  train("w");
  RankTimeline::Settings settings;
  settings.size = 4;
  settings.clock_error = 2'000'000;
  RankTimeline third(2, settings);
  for (int step = 1; step <= 20; ++step) third.step(step, step, step + 1);
  third.write(folder_.path(), false);
  report();
  EXPECT_THAT(words_, HasSubstr("There is no timeline of rank 3 in the folder."));
  EXPECT_THAT(words_,
              HasSubstr("Timelines of rank 2: the file is incomplete (the process was killed?)"));
  EXPECT_THAT(words_, HasSubstr("Timelines of rank 2: the error of the clock is more than 1 ms."));
}

}  // namespace
}  // namespace kolo::tools
