// `channels:` and `sagemaker:` of job.yaml.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

Channels channels_of(const std::string& yaml) {
  const auto job = parse_job(smallest_and(yaml), as_root);
  EXPECT_TRUE(job) << describe(job.error(), "job.yaml");
  return job ? job->channels : Channels{};
}

TEST(Channels, AreSourcesByName) {
  EXPECT_EQ(
      channels_of("channels: {train: \"s3://bucket/${WHO},recordio\", v.1: s3://bucket}\n").all,
      (std::vector{*wire::parse_channel("train=s3://bucket/me,recordio"),
                   *wire::parse_channel("v.1=s3://bucket/")}));
}

TEST(Channels, AreMaps) {
  EXPECT_EQ(channels_of("channels:\n"
                        "  train: {source: \"s3://bucket/${WHO},%2C\", mode: file}\n"
                        "  labels: {source: s3://bucket/m, type: AugmentedManifestFile,\n"
                        "           attributes: [source-ref, class], record_wrapper: RecordIO,\n"
                        "           shuffle_seed: 7, distribution: ShardedByS3Key}\n")
                .all,
            (std::vector{*wire::parse_channel("train=s3://bucket/me%2C%252C,mode=file"),
                         *wire::parse_channel("labels=s3://bucket/m,type=augmented,recordio,"
                                              "attributes=source-ref:class,shuffle=7,sharded")}));
}

TEST(Channels, AreSageMakersOwnAlsoInAFileBesideTheJob) {
  const auto expected = std::vector{*wire::parse_channel("train=s3://bucket/p,gzip,shuffle=3")};
  const std::string list =
      "[{ChannelName: train, CompressionType: Gzip, ShuffleConfig: {Seed: 3},\n"
      "  DataSource: {S3DataSource: {S3DataType: S3Prefix, S3Uri: s3://bucket/p}}}]\n";
  EXPECT_EQ(channels_of("channels: " + list).all, expected);

  char folder[] = "/tmp/spotter-config-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string job = std::string(folder) + "/job.yaml";
  const std::string document = std::string(folder) + "/input.json";
  std::ofstream(job) << smallest_and("channels: input.json\n");
  const auto missing = load_job(job, as_root);
  std::ofstream(document)
      << R"({"InputDataConfig": [{"ChannelName": "train", "CompressionType": "Gzip",
             "ShuffleConfig": {"Seed": 3}, "DataSource": {"S3DataSource": {"S3DataType":
             "S3Prefix", "S3Uri": "s3://bucket/p"}}}]})";
  const auto read = load_job(job, as_root);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(read) << describe(read.error(), "job.yaml");
  EXPECT_EQ(read->channels.all, expected);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].message, "channels: " + document + ": No such file or directory");
}

TEST(SageMaker, HasALinkAndHyperparameters) {
  const auto job = parse_job(smallest_and("sagemaker:\n  link: /opt/ml/\n"
                                          "  hyperparameters: {epochs: 3, batch-size: '256'}\n"),
                             as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  ASSERT_TRUE(job->sagemaker);
  EXPECT_EQ(job->sagemaker->link, "/opt/ml");
  EXPECT_EQ(job->sagemaker->hyperparameters,
            (std::map<std::string, std::string>{{"epochs", "3"}, {"batch-size", "256"}}));
  EXPECT_TRUE(job->in_container());
  EXPECT_FALSE(parse_job(smallest, as_root)->in_container());
  EXPECT_EQ(
      problems_of(smallest_and("sagemaker: {link: /mnt/spotter/ml}\n")),
      "job.yaml:4:19: sagemaker.link: lies on the storage (/mnt/spotter): take a path outside of "
      "it\n");
  EXPECT_EQ(
      problems_of(smallest_and("sagemaker: {link: opt/ml, hyperparameters: {\"a=b\": 1}}\n")),
      "job.yaml:4:19: sagemaker.link: 'opt/ml' is relative; give an absolute path\n"
      "job.yaml:4:45: sagemaker.hyperparameters.a=b: a hyperparameter's name is not empty and "
      "has no '='\n");
}

TEST(Channels, SayWhatIsWrong) {
  EXPECT_EQ(
      problems_of(smallest_and("channels: {train: http://x, a/b: s3://bucket}\n")),
      "job.yaml:4:19: channels.train: 'http://x' is no S3 URL: s3://bucket/key\n"
      "job.yaml:4:29: channels.a/b: a channel's name has letters, digits, `.`, `-` and `_`\n");
  EXPECT_EQ(problems_of(smallest_and("channels: {train: {mode: tube, compresion: Gzip}}\n")),
            "job.yaml:4:19: channels.train: the key 'source' is missing\n"
            "job.yaml:4:26: channels.train.mode: mode is 'tube'; there are: Pipe, File, FastFile\n"
            "job.yaml:4:32: channels.train: unknown key 'compresion'; did you mean 'compression'?"
            "\n");
  EXPECT_EQ(
      problems_of(smallest_and(
          "channels: {a: {source: s3://b12/, mode: file, record_wrapper: RecordIO}}\n")),
      "job.yaml:4:15: channels.a: RecordIO and Gzip are for the mode Pipe; files stay as they "
      "are\n");
  EXPECT_EQ(
      problems_of(
          smallest_and("channels: {a: {source: s3://b12/, mode: fast_file, compression: Gzip}}\n")),
      "job.yaml:4:15: channels.a: RecordIO and Gzip are for the mode Pipe; files stay as they "
      "are\n");
  EXPECT_EQ(problems_of(smallest_and("channels: s3://bucket/p\n")),
            "job.yaml:4:11: channels: channels have names: {train: s3://bucket/prefix}\n");
  EXPECT_EQ(problems_of(smallest_and("channels: [{ChannelName: t}]\n")),
            "job.yaml:4:11: channels: channel t: '' is no S3 URL: s3://bucket/key\n");
  EXPECT_EQ(problems_of(smallest_and(
                "channels: {t: \"s3://b12/\", t_2: {source: s3://b12/, mode: file}}\n")),
            "job.yaml:4:33: channels.t_2: channel t: it cannot be beside t_2: one is the name of "
            "an epoch of the other, which is streamed\n");
}

std::string many(std::size_t count, const std::string& mode = "file") {
  std::string yaml = "channels:\n";
  for (std::size_t i = 0; i < count; ++i)
    yaml += "  c" + std::to_string(i) + ": s3://bucket/p,mode=" + mode + "\n";
  return yaml;
}

TEST(Channels, AreAThousandAtMost) {
  EXPECT_EQ(channels_of(many(1000)).all.size(), 1000U);
  const auto more = parse_job(smallest_and(many(1001)), as_root);
  ASSERT_FALSE(more);
  EXPECT_NE(describe(more.error(), "job.yaml").find("there are more than 1000 channels"),
            std::string::npos);
}

TEST(Channels, OfModeFastFileAreAHundredAtMost) {
  EXPECT_EQ(channels_of(many(100, "fast_file")).all.size(), 100U);
  const auto more = parse_job(smallest_and(many(101, "fast_file")), as_root);
  ASSERT_FALSE(more);
  EXPECT_NE(describe(more.error(), "job.yaml").find("more than 100 channels of mode fast_file"),
            std::string::npos);
}

}  // namespace
}  // namespace spotter::config
