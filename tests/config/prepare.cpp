// `prepare`: what is brought onto the volume.
#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

std::string with_prepare(const std::string& sources) {
  return "job: a\ntrainer: {command: x}\nstorage: {ebs: {tag: {Name: v}}}\nprepare: " + sources;
}

void has(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(Prepare, TakesBucketsUrlsAndFolders) {
  const std::string digest(64, 'A');
  const auto job =
      parse_job(with_prepare("[{from: 's3://data/${WHO}/', to: data/train/}, {from: "
                             "'https://host/a/b.gz?v=1', to: data, sha256: " +
                             digest + "}, {from: /home/me/set, to: set, via: s3://way/b}]"),
                as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  ASSERT_EQ(job->prepare.size(), 3U);
  EXPECT_EQ(job->prepare[0].from, "s3://data/me/");
  EXPECT_EQ(job->prepare[0].to, "data/train");
  EXPECT_EQ(job->prepare[1].sha256, std::string(64, 'a'));
  EXPECT_EQ(job->prepare[2].from, "/home/me/set");
  EXPECT_EQ(job->prepare[2].via, "s3://way/b/");
}

TEST(Prepare, IsRefusedWithWhatIsWrong) {
  const auto wrong = [](const std::string& fields) {
    return problems_of(with_prepare("[{" + fields + "}]"));
  };
  has(problems_of(with_prepare("{from: /a, to: b}")), "expected a list such as");
  has(wrong("from: s3://data/x"), "'to' is missing");
  has(wrong("from: data, to: data"), "is no source");
  has(wrong("from: 'https://host/', to: data"), "names no file");
  has(wrong("from: 'https://host', to: data"), "names no file");
  has(wrong("from: 'https://host/a/..', to: data"), "names no file");
  has(wrong("from: 'https://me:word@host/a', to: data"), "password");
  has(wrong("from: s3://data/x, to: data, sha256: " + std::string(64, 'a')),
      "of one file at a URL");
  has(wrong("from: 'https://host/a', to: data, sha256: abc"), "no SHA-256");
  has(wrong("from: s3://data/x, to: data, via: s3://way/b"), "the way of a folder of this machine");
  has(wrong("from: /x, to: data, via: /y"), "via");
  has(wrong("from: 'http://host/a', to: data"), "anybody on the way can change it");
  EXPECT_EQ(wrong("from: 'http://host/a', to: data, sha256: " + std::string(64, 'a')), "");
}

TEST(Prepare, OfAHomeInABucketIsWhatAChannelReads) {
  const std::string wrong = problems_of(
      "job: a\ntrainer: {command: x}\nstorage: {s3: 's3://homes/all'}\n"
      "prepare: [{from: s3://data/x, to: data}]\n");
  has(wrong, "4:10: prepare: fills the volume of storage.ebs; with storage.s3 name the data in");
  has(wrong, "`channels:`, which reads it where it is in S3");
}

TEST(Prepare, KeepsOutOfSpottersOwnFolders) {
  for (const char* to :
       {"/data", "../data", ".spotter", ".spotter/x", "code", "log/x", ".", "a//b", "a/./b"})
    EXPECT_NE(problems_of(with_prepare(std::string("[{from: /x, to: '") + to + "'}]")), "") << to;
  EXPECT_EQ(problems_of(with_prepare("[{from: /x, to: logs}]")), "");
}

TEST(Prepare, KeepsOutOfWhatTheTrainerWrites) {
  const auto problem_with = [](const std::string& to) {
    return problems_of(
        "job: a\ntrainer: {command: x, result: out/w.bin}\nstorage: {ebs: {tag: {Name: v}}}\n"
        "checkpoints: {directory: run/ckpt}\nprepare: [{from: /x, to: '" +
        to + "'}]");
  };
  for (const char* to : {"run/ckpt", "run", "run/ckpt/deep"})
    has(problem_with(to), "is where its checkpoints are, which a source would overwrite");
  has(problem_with("out"), "its result is to be");
  has(problem_with("ml/input"), "its channels and outputs are");
  for (const char* to : {"run/data", "ckpt", "output", "checkpoints"})
    EXPECT_EQ(problem_with(to), "") << to;
}

TEST(Prepare, IsOfAVolume) {
  has(problems_of("job: a\ntrainer: {command: x}\nstorage: {folder: {path: /data}}\n"
                  "prepare: [{from: /x, to: data}]"),
      "fills the volume of storage.ebs");
}

}  // namespace
}  // namespace spotter::config
