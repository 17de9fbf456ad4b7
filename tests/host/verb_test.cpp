// `spotter host` as the agent uses it: a process that reads a request and prints one line of JSON.
#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/host/verb.hpp"
#include "agent/wire/verbs.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

class Verb : public Directory {
 protected:
  struct Answer {
    int status;
    json line;
  };
  Answer host(const verbs::Verb& verb) const { return host(verbs::to_json({verb, {}})); }
  Answer host(const std::string& request) const {
    const auto result =
        run({"/bin/sh", "-c", "\"$0\" host <\"$1\"", self_, write("request", request).string()});
    if (!result) return {-1, words_of(result)};
    EXPECT_EQ(result->output.find('\n'), result->output.size() - 1) << result->output;
    EXPECT_EQ(result->errors, "");
    return {result->status, json::parse(result->output, nullptr, false)};
  }
  Result<ToolResult> run(std::vector<std::string> argv) const {
    return run_tool({.argv = std::move(argv),
                     .environment = {{"SPOTTER_DEVICES", (directory_ / "dev").string()}}},
                    "ourselves");
  }

  // By whatever path we were started, and in whichever mount namespace.
  const std::string self_ = "/proc/" + std::to_string(::getpid()) + "/exe";
};

TEST_F(Verb, FindsAndInspectsADevice) {
  fs::create_directories(directory_ / "dev/disk/by-id");
  fs::create_directories(directory_ / "volume");
  fs::create_symlink(directory_ / "volume",
                     directory_ / "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123abcd");
  const auto found = host(verbs::FindDevice{.volume = "vol-0123abcd", .wait = 100ms});
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.line, (json{{"ok", true}, {"device", (directory_ / "volume").string()}}));
  const auto inspected = host(verbs::Inspect{found.line["device"]});
  EXPECT_EQ(inspected.line["blank"], true);
  EXPECT_EQ(inspected.line["filesystem"], "");
}

TEST_F(Verb, SaysOfAResultThatItIsThereOrNotOrThatNobodyKnows) {
  fs::create_symlink("loop", directory_ / "loop");
  fs::create_directory(directory_ / "result");
  const auto there = [this](const char* name) {
    return host(verbs::There{directory_ / name}).line;
  };
  EXPECT_EQ(there("result"), (json{{"ok", true}, {"there", true}}));
  EXPECT_EQ(there("none"), (json{{"ok", true}, {"there", false}}));
  EXPECT_EQ(there("loop/result")["ok"], false);
}

TEST_F(Verb, SaysKindAndWordsOnFailure) {
  const auto absent = host(verbs::FindDevice{.volume = "vol-0123abcd"});
  EXPECT_EQ(absent.status, 1);
  EXPECT_EQ(absent.line["ok"], false);
  EXPECT_EQ(absent.line["kind"], "device-absent");
  EXPECT_FALSE(absent.line["error"].get<std::string>().empty());
  EXPECT_EQ(host(verbs::Inspect{directory_ / "none"}).line["kind"], "device-absent");
}

TEST_F(Verb, BadUseIsAnAnswerToo) {
  for (const std::string wrong :
       {"", "inspect", R"({"verb":"no-such-verb"})", R"({"verb":"inspect"})",
        R"({"verb":"find-device","volume":"vol-1a","wait_ms":"soon"})",
        R"({"verb":"inspect","device":"/x","colour":"red"})",
        R"({"verb":"keep-lines","path":"/x","name":"../x","lines":""})"}) {
    const auto answer = host(wrong);
    EXPECT_EQ(answer.status, 2);
    EXPECT_EQ(answer.line["kind"], "bad-request") << answer.line;
  }
}

TEST_F(Verb, IsNothingForACommandLine) {
  const auto help = run({self_, "host", "--help"});
  ASSERT_TRUE(help) << words_of(help);
  EXPECT_EQ(help->status, 0);
  EXPECT_NE(help->output.find("standard input"), std::string::npos) << help->output;
  const auto wrong = run({self_, "host", "inspect"});
  ASSERT_TRUE(wrong) << words_of(wrong);
  EXPECT_EQ(wrong->status, 2);
  EXPECT_EQ(wrong->output, "");
  EXPECT_EQ(wrong->errors, help->output);
}

TEST_F(Verb, KeepsTheLedger) {
  fs::create_directories(directory_ / ".spotter");
  const auto mount_point = directory_.string();
  const auto written =
      host(R"({"verb":"write-ledger","mount_point":")" + mount_point + R"(","ledger":
               {"attempts_without_progress":1,"newest_step":234,"seconds":61.5,"dollars":0.25,
                "done":true,"reached":250,"repeated":16}})");
  EXPECT_EQ(written.line, (json{{"ok", true}}));
  const auto read = host(verbs::ReadLedger{mount_point});
  const json expected{{"ok", true},         {"version", 1},    {"attempts_without_progress", 1},
                      {"newest_step", 234}, {"seconds", 61.5}, {"dollars", 0.25},
                      {"starts", 0},        {"failures", 0},   {"losses", 0},
                      {"releases", 0},      {"stall", 0.0},    {"running", false},
                      {"speaks", false},    {"trainers", 0},   {"reached", 250},
                      {"repeated", 16},     {"done", true}};
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(read.line[name], value) << name;
  const auto foreign =
      host(R"({"verb":"write-ledger","mount_point":")" + mount_point + R"(","ledger":{"done":7}})");
  EXPECT_EQ(foreign.line["kind"], "bad-request");
  EXPECT_EQ(host(verbs::ReadLedger{mount_point}).line["reached"], 250) << "kept";
}

TEST_F(Verb, SumsWhatTheOtherMachinesOfAGangHaveCost) {
  const auto members = directory_ / "members";
  for (const char* name : {"one", "two", "three", "four"}) {
    fs::create_directories(members / name / ".spotter");
    if (name == std::string("four")) continue;  // it has just come
    std::ofstream(members / name / ".spotter/ledger.json") << R"({"seconds":60.5,"dollars":0.25})";
  }
  std::ofstream(members / "three/.spotter/ledger.json") << "torn";
  const auto read = host(verbs::ReadLedger{members / "one", true});
  EXPECT_EQ(read.line["others_seconds"], 60.5) << read.line;
  EXPECT_EQ(read.line["others_dollars"], 0.25);
  EXPECT_TRUE(fs::exists(members / "three/.spotter/ledger.json")) << "another's stays";
  EXPECT_EQ(host(verbs::ReadLedger{members / "one"}).line["others_seconds"], 0.0);
}

TEST_F(Verb, VerifiesTheFilesOfATrainerThatKnowsNothing) {
  fs::create_directories(directory_ / ".spotter");
  write("ckpt/epoch-1.bin", "whole, as far as anybody knows");
  write("ckpt/epoch-2.h5", "no HDF5");
  const verbs::Verify ask{.mount_point = directory_, .checkpoints = "ckpt", .files = "*.bin *.h5"};
  auto only_look = ask;
  only_look.read_only = true;
  EXPECT_EQ(host(only_look).line["newest"], json()) << "no record, nothing moved";
  EXPECT_TRUE(fs::exists(directory_ / "ckpt/epoch-2.h5"));
  const auto verified = host(ask);
  EXPECT_EQ(verified.status, 0);
  EXPECT_EQ(verified.line["newest"], 1);
  EXPECT_EQ(verified.line["torn"].size(), 1U);
  EXPECT_EQ(verified.line["path"], (directory_ / "ckpt/epoch-1.bin").string());
  EXPECT_FALSE(fs::exists(directory_ / "ckpt/epoch-2.h5"));
  EXPECT_EQ(host(only_look).line["newest"], 1);
}

TEST_F(Verb, VerifyAndLookAnswerForNothing) {
  const auto verified = host(verbs::Verify{.mount_point = directory_, .checkpoints = "none"});
  EXPECT_EQ(verified.line["newest"], json());
  EXPECT_EQ(verified.line["torn"], json::array());
  EXPECT_EQ(host(verbs::Look{directory_}).line["mounted"], false);
  EXPECT_EQ(host(verbs::Unmount{directory_, 1s}).line["was_mounted"], false);
  const auto link = directory_ / "link";
  std::filesystem::create_symlink(directory_ / "ml", link);
  EXPECT_EQ(host(verbs::Unmount{.mount_point = directory_, .link = link}).line["ok"], true);
  EXPECT_FALSE(std::filesystem::is_symlink(link)) << "it would lead nowhere";
  EXPECT_EQ(host(verbs::Sync{.mount_point = directory_}).line["ok"], true);
}

}  // namespace
}  // namespace spotter::act::host
