// `sweep:` of job.yaml, and the list that it may name.
#include "agent/config/sweep.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::vector<std::string> sets_of(const std::string& yaml) {
  const auto job = parse_job(smallest_and(yaml), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  std::vector<std::string> all;
  if (job && job->sweep)
    for (const auto& set : job->sweep->sets) all.push_back(sweep::to_json(set));
  return all;
}

using Texts = std::vector<std::string>;

TEST(Sweep, IsAListOfSets) {
  EXPECT_EQ(sets_of("sweep:\n  parameters:\n"
                    "  - {batch_size: 128, dropout_rate: 0.5, activate_fn: relu}\n"
                    "  -\n    optimizer: adam\n    batch_size: '64'\n"),
            (Texts{R"({"batch_size": 128, "dropout_rate": 0.5, "activate_fn": "relu"})",
                   R"({"optimizer": "adam", "batch_size": "64"})"}));
}

TEST(Sweep, HasTheTypesOfYaml) {
  EXPECT_EQ(sets_of("sweep: {parameters: [{a: 1e-3, b: -7, c: +.5, d: yes, e: True, f: null, g: ~,"
                    " h: [1, x], i: {j: 1}, k: 1.2.3, l: 99999999999999999999, m: 0x1f}]}\n"),
            Texts{R"({"a": 0.001, "b": -7, "c": 0.5, "d": "yes", "e": true, "f": null, "g": null, )"
                  R"("h": [1,"x"], "i": {"j":1}, "k": "1.2.3", "l": 1e+20, "m": "0x1f"})"});
}

TEST(Sweep, IsAGrid) {
  EXPECT_EQ(
      sets_of("sweep: {grid: {lr: [0.1, 0.2], seed: 3, act: [relu, tanh]}}\n"),
      (Texts{R"({"lr": 0.1, "seed": 3, "act": "relu"})", R"({"lr": 0.1, "seed": 3, "act": "tanh"})",
             R"({"lr": 0.2, "seed": 3, "act": "relu"})",
             R"({"lr": 0.2, "seed": 3, "act": "tanh"})"}));
}

TEST(Sweep, IsDrawn) {
  const auto sets = sets_of(
      "sweep: {random: {sets: 3, seed: 7, parameters: {lr: {log_uniform: [1e-4, 1e-1]},"
      " p: {uniform: [0, 1]}, n: {integer: [1, 1000000]}, act: [relu, tanh], one: 5}}}\n");
  ASSERT_EQ(sets.size(), 3U);
  EXPECT_NE(sets[0], sets[1]);
  EXPECT_TRUE(sets[2].ends_with(R"("one": 5})")) << sets[2];
}

TEST(Sweep, IsAFileBesideTheJobOrAnObject) {
  char folder[] = "/tmp/spotter-config-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string job = std::string(folder) + "/job.yaml";
  const std::string list = std::string(folder) + "/list.yml";
  std::ofstream(job) << smallest_and("sweep: {parameters: ./list.yml}\n");
  const auto missing = load_job(job, as_root);
  std::ofstream(list) << "- {lr: 0.1}\n- {lr: 0.2}\n";
  const auto read = load_job(job, as_root);
  std::ofstream(list) << "lr: 0.1\n";
  const auto wrong = load_job(job, as_root);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(read) << describe(read.error(), "job.yaml");
  EXPECT_EQ(read->sweep->sets.size(), 2U);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error()[0].message.ends_with("list.yml: No such file or directory"));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error()[0].message.find("list.yml:1:1: expected a list of parameter sets"),
            std::string::npos)
      << wrong.error()[0].message;

  const auto object =
      parse_job(smallest_and("sweep: {parameters: s3://bucket/list.yml}\n"), as_root);
  ASSERT_TRUE(object) << describe(object.error(), "job.yaml");
  EXPECT_EQ(object->sweep->source, "s3://bucket/list.yml");
}

std::optional<sweep::Objective> objective_of(const std::string& yaml) {
  const auto job = parse_job(smallest_and("sweep: {grid: {a: [1]}" + yaml + "}\n"), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? job->sweep->objective : std::nullopt;
}

TEST(Sweep, HasAnObjective) {
  EXPECT_FALSE(objective_of(""));
  const auto given = objective_of(", objective: {metric: val_f2, mode: min}");
  EXPECT_EQ(given->metric, "val_f2");
  EXPECT_FALSE(given->largest_is_best);
  EXPECT_TRUE(objective_of(", objective: {metric: val_accuracy}")->largest_is_best);
  EXPECT_TRUE(objective_of(", objective: {metric: val/acc}")->largest_is_best);
  EXPECT_FALSE(objective_of(", objective: {metric: loss}")->largest_is_best);
  EXPECT_TRUE(objective_of(", objective: {metric: val_loss, mode: max}")->largest_is_best)
      << "a person knows better";
}

TEST(Sweep, SaysWhatIsWrongWithItsObjective) {
  const auto wrong = [](const std::string& objective) {
    return problems_of(smallest_and("sweep:\n  grid: {a: [1]}\n  objective: " + objective + "\n"));
  };
  EXPECT_EQ(wrong("{metric: val_f2}"),
            "job.yaml:6:14: sweep.objective: is the smallest or the largest val_f2 best? Say mode: "
            "min or mode: max\n");
  EXPECT_EQ(wrong("{mode: max}"), "job.yaml:6:14: sweep.objective: the key 'metric' is missing\n");
  EXPECT_EQ(wrong("{metric: val_loss, mode: least}"),
            "job.yaml:6:39: sweep.objective.mode: 'least' is not one of min, max\n");
  EXPECT_EQ(wrong("{metric: val loss}"),
            "job.yaml:6:23: sweep.objective.metric: 'val loss' is no metric to compare "
            "by: name one that the trainer reports, such as val_accuracy or val_loss\n");
  EXPECT_NE(wrong("{metric: step}").find("'step' is no metric to compare"), std::string::npos);
  EXPECT_NE(wrong("val_loss").find("6:14: sweep.objective"), std::string::npos);
}

std::string with_stop(const std::string& stop, const std::string& more = "") {
  return smallest_and(
      "claims: {at: s3://bucket/claims}\nsweep:\n  grid: {a: [1]}\n  stop: " + stop + "\n" + more);
}
constexpr const char* by_accuracy = "  objective: {metric: val_accuracy}\n";

TEST(Sweep, StopsWhatIsHopelessIfAsked) {
  const auto rule = [](const std::string& stop) {
    const auto job = parse_job(with_stop(stop, by_accuracy), as_root);
    EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
    return job ? *job->sweep->stop : sweep::Asha{.reduction = 0};
  };
  EXPECT_FALSE(parse_job(smallest_and("sweep: {grid: {a: [1]}}\n"), as_root)->sweep->stop);
  EXPECT_EQ(rule("asha").reduction, 3U);
  EXPECT_FALSE(rule("asha").first);
  EXPECT_EQ(rule("{rule: asha, first: 500, reduction: 4}").first, 500U);
  EXPECT_EQ(rule("{rule: asha, first: 500, reduction: 4}").reduction, 4U);
}

TEST(Sweep, SaysWhatIsWrongWithItsStop) {
  const auto wrong = [](const std::string& stop, const std::string& more = by_accuracy) {
    return problems_of(with_stop(stop, more));
  };
  EXPECT_EQ(wrong("median"), "job.yaml:7:9: sweep.stop: 'median' is not one of asha\n");
  EXPECT_EQ(wrong("{first: 500}"), "job.yaml:7:9: sweep.stop: the key 'rule' is missing\n");
  EXPECT_EQ(
      wrong("{rule: asha, reduction: 1}"),
      "job.yaml:7:33: sweep.stop.reduction: '1' is no reduction: 3 lets one of three go on; 2 "
      "to 100\n");
  EXPECT_EQ(wrong("{rule: asha, first: 1 epoch}"),
            "job.yaml:7:29: sweep.stop.first: '1 epoch' is no step: say after how many steps an "
            "experiment is first compared with the others, such as 500\n");
  EXPECT_EQ(wrong("asha", ""),
            "job.yaml:7:9: sweep.stop: by what are experiments compared? Say objective: {metric: "
            "val_accuracy}\n");
  const auto alone = problems_of(
      smallest_and(std::string("sweep:\n  grid: {a: [1]}\n  stop: asha\n") + by_accuracy));
  EXPECT_NE(alone.find("6:9: sweep.stop: needs `claims: {at: s3://bucket/prefix}`"),
            std::string::npos)
      << alone;
  EXPECT_NE(wrong("asha", std::string(by_accuracy) +
                              "  batch: {image: trainer:1, vcpus: 4, memory: 16000, max_vcpus: 32, "
                              "subnets: subnet-1a, security_groups: [sg-1]}\n")
                .find("7:9: sweep.stop: an array of AWS Batch has no claims"),
            std::string::npos);
}

TEST(Sweep, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& sweep) { return problems_of(smallest_and(sweep)); };
  const std::string place = "job.yaml:4:";
  EXPECT_EQ(wrong("sweep: {}\n"),
            place + "8: sweep: expected one of parameters, grid and random\n");
  EXPECT_EQ(wrong("sweep: {parameters: []}\n"),
            place + "21: sweep.parameters: the list is empty: a sweep needs one set at least\n");
  EXPECT_EQ(wrong("sweep: {parameters: {lr: 1}}\n"),
            place + "21: sweep.parameters: expected a list of parameter sets, or where one is\n");
  EXPECT_EQ(wrong("sweep: {parameters: [3]}\n"),
            place +
                "22: sweep.parameters: set 0: expected a parameter set, such as {lr: 0.1, "
                "epochs: 3}, found text\n");
  EXPECT_EQ(wrong("sweep: {parameters: [{a-b: 3}]}\n"),
            place +
                "23: sweep.parameters: set 0.a-b: a parameter's name has letters, digits and "
                "`_`\n");
  EXPECT_EQ(wrong("sweep: {parameters: s3://bucket/}\n"),
            place +
                "21: sweep.parameters: expected the key of a list, such as "
                "s3://bucket/list.yml\n");
  EXPECT_EQ(wrong("sweep: {grid: {a: []}}\n"),
            place + "19: sweep.grid.a: the list of its values is empty\n");
  EXPECT_EQ(wrong("sweep: {grid: {a: &x [1], b: *x}}\n"),
            place + "30: an alias (*name) is not supported: write the value out\n");
  const std::string large = "a: " + std::string(100'000, 'x');
  EXPECT_EQ(wrong("sweep: {random: {sets: 10000, seed: 1, parameters: {" + large + "}}}\n"),
            place + "17: sweep.random: all sets together would have more than 64 MiB\n");
  std::string thousand = "b: [0";
  for (int i = 0; i < 999; ++i) thousand += ", 0";
  EXPECT_EQ(wrong("sweep: {grid: {" + large + ", " + thousand + "]}}\n"),
            place + "15: sweep.grid: all sets together would have more than 64 MiB\n");
  for (const std::string range : {"{uniform: [1, 1]}", "{log_uniform: [0, 1]}", "{uniform: 3}",
                                  "{integer: [0.5, 1]}", "{normal: [0, 1]}", "[]"}) {
    EXPECT_NE(wrong("sweep: {random: {sets: 1, seed: 1, parameters: {a: " + range + "}}}\n")
                  .find("sweep.random.parameters.a: expected {uniform: [LOW, HIGH]}"),
              std::string::npos)
        << range;
  }
  EXPECT_NE(wrong("sweep: {random: {sets: 10001, seed: 1, parameters: {a: 1}}}\n")
                .find("'10001' is no whole number from 1 to 10000"),
            std::string::npos);
}

TEST(Sweep, FitsTheCommand) {
  const auto problems = problems_of(
      "job: a\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {command: \"x {lr} {units}\"}\n"
      "sweep: {parameters: [{lr: 1, units: 2}, {lr: 1}]}\n");
  EXPECT_EQ(problems,
            "job.yaml:4:8: sweep: set 1: the command has {units}, which is no parameter here; "
            "{{units}} leaves {units} as it is\n");
}

}  // namespace
}  // namespace spotter::config
