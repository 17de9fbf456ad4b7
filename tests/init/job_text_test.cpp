// The job.yaml that `spotter init` writes.
#include "agent/commands/job_text.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "agent/config/job.hpp"

namespace spotter::command {
namespace {

config::Job job_of(const JobAnswers& answers) {
  const config::Environment root{.variables = {}, .user = "root", .root = true};
  const auto job = config::parse_job(job_text(answers), root);
  EXPECT_TRUE(job) << config::describe(job.error(), "job.yaml") << job_text(answers);
  return job ? *job : config::Job{};
}

TEST(FirstJob, IsValidWhereNothingWasAnswered) {
  const config::Job job = job_of({});
  EXPECT_EQ(job.name.view(), "training");
  EXPECT_EQ(job.storage.ebs.tag.value, "training");
  EXPECT_EQ(job.trainer.environment.name, "/opt/pytorch");
  EXPECT_EQ(job.trainer.gpus, 1);
  EXPECT_EQ(job.trainer.result, "");
  ASSERT_TRUE(job.launch);
  EXPECT_EQ(job.launch->image, deep_learning_image);
  EXPECT_EQ(job.launch->zones, (std::vector<std::string>{"us-west-2a", "us-west-2b"}));
  ASSERT_TRUE(job.launch->volume);
  EXPECT_EQ(job.launch->volume->size_gib, 100);
  EXPECT_FALSE(job.published_at());
  EXPECT_FALSE(job.fenced_at());
}

TEST(FirstJob, NeedsNoVolumeWhereTheBucketIsItsHome) {
  const config::Job job = job_of({.bucket = "mine", .volume_size = "none"});
  EXPECT_TRUE(job.storage.in_bucket());
  ASSERT_TRUE(job.kept_at());
  EXPECT_EQ(wire::to_url(*job.kept_at()), "s3://mine/jobs/homes/training/");
  ASSERT_TRUE(job.launch);
  EXPECT_FALSE(job.launch->volume);
  EXPECT_FALSE(job.fenced_at()) << "its head is one";
}

TEST(FirstJob, HasTheAnswers) {
  const config::Job job = job_of({.name = "mnist-2",
                                  .repository = "https://github.com/me/x.git",
                                  .revision = std::string(40, '1'),
                                  .command = "python3 train.py --out \"$SPOTTER_STORAGE/a: b\" # x",
                                  .user = "ec2-user",
                                  .result = "out/it is [done].pt",
                                  .types = {"m5.large"},
                                  .zones = {"eu-central-1b"},
                                  .image = "ami-0123",
                                  .bucket = "mine",
                                  .volume_size = "7"});
  EXPECT_EQ(job.name.view(), "mnist-2");
  ASSERT_TRUE(job.code);
  EXPECT_EQ(job.code->repository, "https://github.com/me/x.git");
  EXPECT_EQ(job.code->revision, std::string(40, '1'));
  EXPECT_EQ(job.trainer.command, "python3 train.py --out \"$SPOTTER_STORAGE/a: b\" # x");
  EXPECT_EQ(job.trainer.user, "ec2-user");
  EXPECT_EQ(job.trainer.result, "out/it is [done].pt");
  EXPECT_EQ(job.trainer.environment, config::PythonEnvironment{});
  EXPECT_EQ(job.trainer.gpus, 0);
  EXPECT_EQ(job.launch->image, "ami-0123");
  EXPECT_EQ(job.launch->instance_types, std::vector<std::string>{"m5.large"});
  EXPECT_EQ(job.launch->volume->zone, "eu-central-1b");
  EXPECT_EQ(job.launch->volume->size_gib, 7);
  ASSERT_TRUE(job.published_at());
  EXPECT_EQ(job.published_at()->bucket, "mine");
  ASSERT_TRUE(job.fenced_at()) << "a new job's volume has not been used without one";
  EXPECT_EQ(wire::to_url(*job.fenced_at()), "s3://mine/fence/mnist-2/");
}

TEST(FirstJob, ExplainsEachLine) {
  for (const char* bucket : {"", "mine"}) {
    JobAnswers answers;
    answers.bucket = bucket;
    answers.command = "python3 " + std::string(100, 'x');
    EXPECT_EQ(job_text(answers).find("..."), std::string::npos);
    std::istringstream lines(job_text(answers));
    bool explained = false;  // by the line before
    for (std::string line; std::getline(lines, line);) {
      const auto first = line.find_first_not_of(' ');
      ASSERT_NE(first, line.npos);
      const bool has_comment = line.find("# ", first) != line.npos;
      EXPECT_TRUE(has_comment || explained) << line;
      explained = line[first] == '#';
    }
  }
}

TEST(FirstJob, TakesNoAnswerForSomethingElse) {
  JobAnswers answers;
  answers.name = "1e5";
  answers.zones = {"a:b]", "{c"};
  for (const char* text : {"true", "- a", "x: y", "x #y", "'x", "{x}", "a\nb: {}", "*x", "~"}) {
    answers.command = text;
    EXPECT_EQ(job_of(answers).trainer.command, text);
    EXPECT_EQ(job_of(answers).name.view(), "1e5");
    EXPECT_EQ(job_of(answers).launch->zones, answers.zones);
  }
}

TEST(Images, FitTheTypes) {
  EXPECT_EQ(image_for({"g5.xlarge", "g4dn.12xlarge", "p5.48xlarge"}), deep_learning_image);
  EXPECT_EQ(image_for({"g6f.2xlarge", "g7.xlarge", "g7e.4xlarge", "p6-b200.48xlarge"}),
            deep_learning_image);
  EXPECT_EQ(image_for({"m5.large", "c7i.xlarge", "t3.micro"}), ubuntu_image);
  for (const char* type : {"m7g.large", "c6gd.large", "a1.large", "g5g.xlarge", "g4ad.xlarge",
                           "p3.2xlarge", "trn1.2xlarge", "zz9.large"})
    EXPECT_EQ(image_for({type}), "") << type;
  EXPECT_EQ(image_for({"g5.xlarge", "m5.large"}), "");
}

TEST(Gpus, AreOneOnlyWhereEachTypeHasOne) {
  EXPECT_EQ(gpus_of({"g5.xlarge", "g6.16xlarge", "g4dn.8xlarge"}), "1");
  EXPECT_EQ(gpus_of({"g5.xlarge", "g5.12xlarge"}), "auto");
  EXPECT_EQ(gpus_of({"p5.48xlarge"}), "auto");
  EXPECT_EQ(gpus_of({"m5.large"}), "0");
  EXPECT_EQ(gpus_of({"g5"}), "auto") << "no type, which is for the parser to say";
}

TEST(Remotes, BecomeWhatAnInstanceCanFetch) {
  EXPECT_EQ(web_address("git@github.com:me/x.git"), "https://github.com/me/x.git");
  EXPECT_EQ(web_address("github.com:/me/x"), "https://github.com/me/x");
  EXPECT_EQ(web_address("ssh://git@example.com:2222/me/x.git"), "https://example.com/me/x.git");
  EXPECT_EQ(web_address("git://example.com/x.git"), "https://example.com/x.git");
  EXPECT_EQ(web_address("https://example.com:8443/me/x.git"), "https://example.com:8443/me/x.git");
  EXPECT_EQ(web_address("http://localhost/x.git"), "http://localhost/x.git");
}

TEST(Remotes, LoseUserAndPassword) {
  EXPECT_EQ(web_address("https://me:secret@github.com/me/x.git"), "https://github.com/me/x.git");
  EXPECT_EQ(web_address("https://t@ken@github.com/me/x.git"), "https://github.com/me/x.git");
}

TEST(Remotes, ThatLeadNowhereFromThereAreNone) {
  for (const char* remote : {"", "/srv/git/x.git", "../x", "./a:b", "file:///srv/x", "https://",
                             "https://example.com/", "x", "ftp://example.com/x",
                             "ssh://git@[::1]:22/x", "https://example.com/x.git?token=secret",
                             "https://me:tok/en@example.com/x.git", "https://example.com/x\ny"})
    EXPECT_EQ(web_address(remote), "") << remote;
}

TEST(Names, ResembleTheRepository) {
  EXPECT_EQ(job_name_for("https://github.com/me/My_Net.git"), "my-net");
  EXPECT_EQ(job_name_for("/home/me/a b/"), "a-b");
  EXPECT_EQ(job_name_for("--"), "training");
  EXPECT_EQ(job_name_for(""), "training");
  EXPECT_EQ(job_name_for("\xc3\xa9t\xc3\xa9"), "t");
  EXPECT_EQ(job_name_for(std::string(62, 'a') + "--b"), std::string(62, 'a'));
}

}  // namespace
}  // namespace spotter::command
