// The agent's requests to `spotter host`: each verb as JSON and back, and what is refused.
#include "agent/wire/verbs.hpp"

#include <gtest/gtest.h>

#include <set>

#include "agent/base/json.hpp"

namespace spotter::verbs {
namespace {

using namespace std::chrono_literals;
using wire::Json;

// No field has its default: what a table of fields forgets would not come back.
const Share share{Share::Kind::Sshfs, "/mnt/s", "me@host", "/x", "vers=3",
                  "fsap-1",           true,     "/k",      "/h", 2222,
                  "eu-west-1"};

// One by one: of a list of them all the compiler makes minutes of work.
std::vector<Verb> make_all() {
  std::vector<Verb> all;
  all.emplace_back(FindDevice{"vol-1", "/dev/sdf", 1500ms});
  all.emplace_back(Inspect{"/dev/x"});
  all.emplace_back(Format{"/dev/x", "xfs"});
  all.emplace_back(Mount{
      "/dev/x", "ext4", "/mnt/x", "vol-1", "me", {"code", "ml"}, "ml", "/opt/ml", true, "/c"});
  all.emplace_back(MountData{"/dev/x", "/mnt/data"});
  all.emplace_back(Unmount{"/mnt/x", 2s, "/opt/ml", "vol-0123456789abcdef0", "/dev/sdf"});
  all.emplace_back(Warm{"/mnt/x", "vol-1", "/mnt/y", 1U << 20, 10s});
  all.emplace_back(Look{"/mnt/x"});
  all.emplace_back(
      PrepareShare{share, "me", "job/0", "/run/x", {"code"}, "ml", "/opt/ml", true, true, "/c"});
  all.emplace_back(ReleaseShare{share, "job", "/run/x", "/opt/ml"});
  all.emplace_back(LookShare{share});
  all.emplace_back(ProbeShare{"/mnt/s/job", "/mnt/s"});
  const Home home{"/c/job",
                  "job",
                  "checkpoints",
                  "*.pt",
                  "",
                  "result/w",
                  "log/*.csv",
                  "s3://b/job/",
                  7,
                  "0f",
                  {"AWS_PROFILE=", "AWS_REGION=x"}};
  all.emplace_back(BringHome{home, "manifests/6-00.json", 6});
  all.emplace_back(KeepHome{home, "manifests/7-00.json", true, true});
  all.emplace_back(ReadLedger{"/mnt/x"});
  all.emplace_back(
      WriteLedger{"/mnt/x", {.ledger = {.newest_step = 7, .done = true}, .failures = 1}});
  all.emplace_back(Sync{"/mnt/x", "/mnt/x/result"});
  all.emplace_back(Verify{"/mnt/x", "checkpoints", true, "me", "*.pt *.h5", "epoch-*", true});
  all.emplace_back(Checkout{"https://host/x", "0123", "/mnt/x/code", "me", "s3cret"});
  all.emplace_back(
      Fill{"job", "vol-1", "/mnt/x", "me", {{"s3://b/k", "data", "ab", "s3://c/"}, {"/a", "b"}}});
  all.emplace_back(There{"/mnt/x/result"});
  all.emplace_back(MarkDone{"/mnt/x", "job"});
  all.emplace_back(KeepLog{"/run/log", "/mnt/x/log", 4096});
  all.emplace_back(KeepMetrics{"/mnt/x/metrics.jsonl", "{\"step\":1}\n", 12});
  all.emplace_back(SendResult{"/mnt/x", "trainer", {"result"}, "mine", "s3://b/p/mine/results/"});
  all.emplace_back(KeepLines{"/mnt/x", "agent.log", "one\ntwo\n"});
  all.emplace_back(FindParent{"/mnt/x", 18446744073709551615U});
  all.emplace_back(BeginAttempt{"/mnt/x", "attempt-2", "attempt-1"});
  all.emplace_back(PublishAttempt{"/mnt/x", "attempt-2"});
  all.emplace_back(SumUp{"/mnt/x", 3, 4, "s3://b/homes/x/3/"});
  all.emplace_back(AwaitGpus{8, 3s});
  return all;
}
const std::vector<Verb> all = make_all();

std::string refusal(const std::string& json) {
  const auto request = parse_request(json);
  return request ? "taken" : request.error().message;
}

TEST(Verbs, AreReadAsTheyWereWritten) {
  std::set<std::string> names;
  for (const Verb& verb : all) {
    const std::string name(traits_of(verb).name);
    names.insert(name);
    for (const char* as : {"", "trainer"}) {
      const Request request{verb, as};
      const std::string json = to_json(request);
      const auto read = parse_request(json);
      ASSERT_TRUE(read) << json << ": " << read.error().message;
      EXPECT_EQ(to_json(*read), json);
      EXPECT_EQ(Json::parse(json)["verb"], name);
    }
  }
  EXPECT_EQ(names.size(), std::variant_size_v<Verb>) << "a verb is not tried here";
}

TEST(Verbs, MayLeaveOutWhatHasADefault) {
  const auto request = parse_request(
      R"({"verb":"mount","device":"/d","filesystem":"xfs","mount_point":"/m","volume":"vol-1",
          "user":"me"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->as, "");
  EXPECT_EQ(to_json(*request), to_json({Mount{.device = "/d",
                                              .filesystem = "xfs",
                                              .mount_point = "/m",
                                              .volume = "vol-1",
                                              .user = "me"},
                                        {}}));
}

TEST(Verbs, OfEachOneAKeyThatItDoesNotHaveIsRefusedAndAnotherType) {
  for (const Verb& verb : all) {
    const std::string name(traits_of(verb).name);
    const Json whole = Json::parse(to_json({verb, {}}));
    Json more = whole;
    more["colour"] = "red";
    EXPECT_EQ(refusal(more.dump()), name + " does not know \"colour\"");
    for (const auto& each : whole.items()) {
      if (each.key() == "verb") continue;
      Json other = whole;
      other[each.key()] = -1.5;
      EXPECT_TRUE(refusal(other.dump()).starts_with(name + ": \"" + each.key() + "\" is n"))
          << refusal(other.dump());
    }
  }
}

TEST(Verbs, ThatAreWrongAreRefusedWithASentence) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "the request is no JSON object"},
      {"{\"token\":\"s3cret\"", "the request is no JSON object"},
      {"[]", "the request is no JSON object"},
      {"{}", "the request has no text \"verb\""},
      {R"({"verb":7})", "the request has no text \"verb\""},
      {R"({"verb":"no-such-verb"})", "\"no-such-verb\" is no verb"},
      {R"({"verb":"inspect"})", "inspect has no \"device\""},
      {R"({"verb":"inspect","device":"/x","as":1})", "\"as\" is not a text"},
      {R"({"verb":"find-device","volume":"vol-1a","wait_ms":"soon"})",
       "find-device: \"wait_ms\" is not a whole number from 0 to 31536000000"},
      {R"({"verb":"await-gpus","count":256})",
       "await-gpus: \"count\" is not a whole number from 0 to 255"},
      {R"({"verb":"look-share","share":{"kind":"nfs"}})",
       "look-share: \"share\" has no \"mount_point\""},
      {R"({"verb":"look-share","share":{"kind":"nfs","mount_point":"/m","port":"22"}})",
       "look-share: \"share\": \"port\" is not a whole number from 0 to 65535"},
      {R"({"verb":"fill","job":"j","volume":"v","mount_point":"/m","user":"u",
           "sources":[{"from":"a","to":"b"},{"from":"a"}]})",
       "fill: \"sources\"[1] has no \"to\""},
      {R"({"verb":"write-ledger","mount_point":"/m","ledger":{"done":7}})",
       "write-ledger: \"ledger\" is no ledger: a number, flag or text of it is none"}};
  for (const auto& [json, sentence] : wrong) EXPECT_EQ(refusal(json), sentence) << json;
}

TEST(Verbs, CarryTextThatIsNoUtf8AsFarAsTheyCan) {
  const auto read = parse_request(to_json({KeepLines{"/m", "agent.log",
                                                     "a\xff"
                                                     "b\n"},
                                           {}}));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<KeepLines>(read->verb).lines,
            "a\xef\xbf\xbd"
            "b\n");
}

TEST(Verbs, SayWhatOthersHaveToKnowOfThem) {
  for (const Verb& verb : all) {
    const Traits& traits = traits_of(verb);
    const std::string_view name = traits.name;
    const bool of_machine = name == "release-share" || name == "look-share" || name == "await-gpus";
    EXPECT_EQ(traits.touches_share, !of_machine) << name;
    EXPECT_EQ(traits.leaves_processes, name == "prepare-share") << name;
    const std::string place = name == "mount"           ? "/mnt/x"
                              : name == "mount-data"    ? "/mnt/data"
                              : name == "prepare-share" ? "/mnt/s"
                                                        : "";
    EXPECT_EQ(mounts_on(verb), place) << name;
  }
}

}  // namespace
}  // namespace spotter::verbs
