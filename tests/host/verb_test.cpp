// `spotter host VERB` as the agent uses it: a process that prints one line of JSON.
#include <nlohmann/json.hpp>

#include "agent/host/tool.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Verb : public Directory {
 protected:
  struct Answer {
    int status;
    json line;
  };
  Answer host(std::vector<std::string> arguments, const std::string& input = "") const {
    std::vector<std::string> argv = with_program(std::move(arguments));
    if (!input.empty())
      argv.insert(argv.begin(), {"/bin/sh", "-c", "printf %s '" + input + "' | \"$@\"", "sh"});
    const ToolRequest request{.argv = std::move(argv),
                              .environment = {{"SPOTTER_DEVICES", (directory_ / "dev").string()}}};
    const auto result = run_tool(request, "ourselves");
    if (!result) return {-1, words_of(result)};
    EXPECT_EQ(result->output.find('\n'), result->output.size() - 1) << result->output;
    EXPECT_EQ(result->errors, "");
    return {result->status, json::parse(result->output, nullptr, false)};
  }

 private:
  static std::vector<std::string> with_program(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {fs::read_symlink("/proc/self/exe").string(), "host"});
    return arguments;
  }
};

TEST_F(Verb, FindsAndInspectsADevice) {
  fs::create_directories(directory_ / "dev/disk/by-id");
  fs::create_directories(directory_ / "volume");
  fs::create_symlink(directory_ / "volume",
                     directory_ / "dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123abcd");
  const auto found = host({"find-device", "--volume", "vol-0123abcd", "--wait", "100ms"});
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.line, (json{{"ok", true}, {"device", (directory_ / "volume").string()}}));
  const auto inspected = host({"inspect", "--device", found.line["device"]});
  EXPECT_EQ(inspected.line["blank"], true);
  EXPECT_EQ(inspected.line["filesystem"], "");
}

TEST_F(Verb, SaysOfAResultThatItIsThereOrNotOrThatNobodyKnows) {
  fs::create_symlink("loop", directory_ / "loop");
  fs::create_directory(directory_ / "result");
  const auto there = [this](const char* name) {
    return host({"there", "--path", (directory_ / name).string()}).line;
  };
  EXPECT_EQ(there("result"), (json{{"ok", true}, {"there", true}}));
  EXPECT_EQ(there("none"), (json{{"ok", true}, {"there", false}}));
  EXPECT_EQ(there("loop/result")["ok"], false);
}

TEST_F(Verb, SaysKindAndWordsOnFailure) {
  const auto absent = host({"find-device", "--volume", "vol-0123abcd"});
  EXPECT_EQ(absent.status, 1);
  EXPECT_EQ(absent.line["ok"], false);
  EXPECT_EQ(absent.line["kind"], "device-absent");
  EXPECT_FALSE(absent.line["error"].get<std::string>().empty());
  EXPECT_EQ(host({"inspect", "--device", (directory_ / "none").string()}).line["kind"],
            "device-absent");
}

TEST_F(Verb, BadUseIsAnAnswerToo) {
  for (const auto& wrong : std::vector<std::vector<std::string>>{
           {},
           {"no-such-verb"},
           {"inspect"},
           {"find-device", "--volume", "vol-1a", "--wait", "soon"},
           {"inspect", "--device", "/x", "--colour", "red"}}) {
    const auto answer = host(wrong);
    EXPECT_EQ(answer.status, 2);
    EXPECT_EQ(answer.line["kind"], "bad-request") << answer.line;
  }
}

TEST_F(Verb, KeepsTheLedger) {
  fs::create_directories(directory_ / ".spotter");
  const auto mount_point = directory_.string();
  const auto written =
      host({"ledger-write", "--mount-point", mount_point},
           R"({"attempts_without_progress":1,"newest_step":234,"seconds":61.5,"dollars":0.25,
               "done":true,"reached":250,"repeated":16})");
  EXPECT_EQ(written.line, (json{{"ok", true}}));
  const auto read = host({"ledger-read", "--mount-point", mount_point});
  EXPECT_EQ(read.line, (json{{"ok", true},
                             {"version", 1},
                             {"attempts_without_progress", 1},
                             {"newest_step", 234},
                             {"seconds", 61.5},
                             {"dollars", 0.25},
                             {"starts", 0},
                             {"failures", 0},
                             {"losses", 0},
                             {"releases", 0},
                             {"stall", 0.0},
                             {"running", false},
                             {"speaks", false},
                             {"trainers", 0},
                             {"reached", 250},
                             {"repeated", 16},
                             {"done", true}}));
  const auto foreign = host({"ledger-write", "--mount-point", mount_point}, "{\"done\":7}");
  EXPECT_EQ(foreign.line["kind"], "bad-request");
  EXPECT_EQ(host({"ledger-read", "--mount-point", mount_point}).line["reached"], 250) << "kept";
}

TEST_F(Verb, VerifiesTheFilesOfATrainerThatKnowsNothing) {
  fs::create_directories(directory_ / ".spotter");
  write("ckpt/epoch-1.bin", "whole, as far as anybody knows");
  write("ckpt/epoch-2.h5", "no HDF5");
  const std::vector<std::string> ask = {"verify",        "--mount-point", directory_.string(),
                                        "--checkpoints", "ckpt",          "--files",
                                        "*.bin *.h5"};
  auto only_look = ask;
  only_look.push_back("--read-only");
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
  const auto verified =
      host({"verify", "--mount-point", directory_.string(), "--checkpoints", "none"});
  EXPECT_EQ(verified.line["newest"], json());
  EXPECT_EQ(verified.line["torn"], json::array());
  EXPECT_EQ(host({"look", "--mount-point", directory_.string()}).line["mounted"], false);
  EXPECT_EQ(
      host({"unmount", "--mount-point", directory_.string(), "--wait", "1s"}).line["was_mounted"],
      false);
  const auto link = directory_ / "link";
  std::filesystem::create_symlink(directory_ / "ml", link);
  EXPECT_EQ(
      host({"unmount", "--mount-point", directory_.string(), "--link", link.string()}).line["ok"],
      true);
  EXPECT_FALSE(std::filesystem::is_symlink(link)) << "it would lead nowhere";
  EXPECT_EQ(host({"sync", "--mount-point", directory_.string()}).line["ok"], true);
}

}  // namespace
}  // namespace spotter::act::host
