// job.yaml as people write it, and as they get it wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

using namespace std::chrono_literals;

TEST(Job, IsReadWhole) {
  const auto job = parse_job(R"(
job: mnist-mlp
storage:
  ebs:
    tag: {Name: "${WHO}-volume"}
    mount: ${SPOTTER_MOUNT}/
    filesystem: ext4
code:
  repository: https://github.com/${WHO}/train.git
  revision: 0123456789ABCDEF0123456789abcdef01234567
  token: file:/etc/spotter/git-token
trainer:
  command: ./train.sh --home ${HOME}
  user: ubuntu
  environment: conda pytorch
  env: {OMP_NUM_THREADS: 2, EMPTY: "", SPOTTER_CHECKPOINT_EVERY: 60}
  secrets: {WANDB_API_KEY: "ssm:/wandb/key"}
  stop_signal: SIGUSR1
  stop_grace: 1m40s
  gpus: 8
  memory_max: 90%
  cpu_quota: 400%
  cpu_weight: 50
  role: arn:aws:iam::123456789012:role/of/trainers
  imds: allow
  trust: administrator
  result: result/weights.bin
checkpoints: {directory: saved, files: "*.h5 *.pt"}
on_failure: {attempts_without_progress: 5, starts_per_attempt: 20, blocked: 8h, then: hold}
limits: {hours: 72, dollars: 49.5}
fleet: {kind: ec2-fleet, id: fleet-0123}
)",
                             as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->name.view(), "mnist-mlp");
  EXPECT_EQ(job->storage.ebs.tag.key, "Name");
  EXPECT_EQ(job->storage.ebs.tag.value, "me-volume");
  EXPECT_EQ(job->storage.ebs.mount, "/data/mnt");
  EXPECT_EQ(to_text(job->storage.ebs.filesystem), "ext4");
  ASSERT_TRUE(job->code);
  EXPECT_EQ(job->code->repository, "https://github.com/me/train.git");
  EXPECT_EQ(job->code->revision, "0123456789abcdef0123456789abcdef01234567");
  EXPECT_EQ(describe(job->code->token.value()), "file:/etc/spotter/git-token");
  EXPECT_EQ(job->trainer.command, "./train.sh --home ${HOME}") << "the shell's to expand";
  EXPECT_EQ(job->trainer.user, "ubuntu");
  EXPECT_EQ(to_text(job->trainer.environment), "conda pytorch");
  EXPECT_EQ(job->trainer.env.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(job->trainer.env.at("EMPTY"), "");
  EXPECT_EQ(job->trainer.secrets.at("WANDB_API_KEY").kind, SecretReference::Kind::Parameter);
  EXPECT_EQ(job->trainer.stop_signal, SIGUSR1);
  EXPECT_EQ(job->trainer.stop_grace, Duration(100s));
  EXPECT_EQ(job->trainer.gpus, 8);
  EXPECT_EQ(job->trainer.memory_max, "90%");
  EXPECT_EQ(job->trainer.cpu_quota, "400%");
  EXPECT_EQ(job->trainer.cpu_weight, "50");
  EXPECT_EQ(job->trainer.role, "arn:aws:iam::123456789012:role/of/trainers");
  EXPECT_TRUE(job->trainer.imds_allowed);
  EXPECT_TRUE(job->trainer.trusted);
  EXPECT_EQ(job->trainer.result, "result/weights.bin");
  EXPECT_EQ(job->checkpoints.directory, "saved");
  EXPECT_EQ(job->checkpoints.files, "*.h5 *.pt");
  EXPECT_EQ(job->on_failure.attempts_without_progress, 5);
  EXPECT_EQ(job->on_failure.starts_per_attempt, 20);
  EXPECT_EQ(job->on_failure.blocked, std::chrono::hours(8));
  EXPECT_EQ(job->on_failure.then, GiveUp::Hold);
  EXPECT_EQ(job->limits.hours, 72);
  EXPECT_EQ(job->limits.dollars, 49.5);
  EXPECT_EQ(job->fleet, (Fleet{FleetKind::Ec2Fleet, "fleet-0123"}));
}

TEST(Job, HasDefaults) {
  const auto job = parse_job(smallest, as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->storage.ebs.mount, "/mnt/spotter");
  EXPECT_EQ(job->storage.ebs.filesystem, FileSystem::Xfs);
  EXPECT_FALSE(job->code);
  EXPECT_EQ(job->trainer.user, "spotter");
  EXPECT_EQ(job->trainer.environment, PythonEnvironment{});
  EXPECT_EQ(job->trainer.stop_signal, SIGTERM);
  EXPECT_FALSE(job->trainer.stop_grace);
  EXPECT_EQ(job->trainer.gpus, 0);
  EXPECT_EQ(job->trainer.role, "");
  EXPECT_FALSE(job->trainer.imds_allowed);
  EXPECT_FALSE(job->trainer.trusted);
  EXPECT_EQ(job->trainer.result, "");
  EXPECT_EQ(job->checkpoints.directory, "checkpoints");
  EXPECT_EQ(job->checkpoints.files, "");
  EXPECT_EQ(job->on_failure.attempts_without_progress, 3);
  EXPECT_EQ(job->on_failure.starts_per_attempt, 10);
  EXPECT_EQ(job->on_failure.blocked, std::chrono::hours(1));
  EXPECT_EQ(job->on_failure.then, GiveUp::ScaleToZero);
  EXPECT_FALSE(job->limits.hours);
  EXPECT_FALSE(job->fleet);
}

TEST(Job, RunsAsTheAgentsOwnUserWhereThatIsNotRoot) {
  const Environment as_me{.variables = {}, .user = "me", .root = false};
  EXPECT_EQ(parse_job(smallest, as_me)->trainer.user, "me");
  constexpr std::string_view as_ubuntu =
      "job: small\nstorage: {ebs: {tag: {Name: v}}}\n"
      "trainer:\n  command: ./train.sh\n  user: ubuntu\n";
  EXPECT_EQ(problems_of(as_ubuntu, as_me),
            "job.yaml:5:9: trainer.user: only root can run the trainer as 'ubuntu'; we are 'me'\n");
  const Environment unknown{};
  EXPECT_EQ(parse_job(as_ubuntu, unknown)->trainer.user, "ubuntu");
}

TEST(Job, MayTakeNoStopSignal) {
  const auto job = parse_job(
      "job: small\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {command: x, stop_signal: none}\n",
      as_root);
  ASSERT_TRUE(job);
  EXPECT_FALSE(job->trainer.stop_signal);
}

TEST(Job, TellsEveryMistakeAtOnceInOrder) {
  EXPECT_EQ(problems_of(R"(job: MNIST
storge: {}
code:
  repository: https://github.com/me/train.git
  revision: main
trainer:
  command: ""
  stop_grace: 90
  env: [A, B]
on_failure: {then: hodl}
)"),
            "job.yaml:1:1: the key 'storage' is missing\n"
            "job.yaml:1:6: job: 'MNIST' is not a job's name: 1 to 63 of a-z, 0-9 and '-'\n"
            "job.yaml:2:1: unknown key 'storge'; did you mean 'storage'?\n"
            "job.yaml:5:13: code.revision: 'main' is not 40 hexadecimal digits; a branch name "
            "moves; give the full commit id: git rev-parse HEAD\n"
            "job.yaml:7:12: trainer.command: expected a command line, found ''\n"
            "job.yaml:8:15: trainer.stop_grace: '90' has no unit; write 90s, 90m or, for example, "
            "2h30m\n"
            "job.yaml:9:8: trainer.env: expected a mapping of names to values, found a list\n"
            "job.yaml:10:20: on_failure.then: 'hodl' is not one of scale-to-zero, hold, cancel; "
            "did you mean 'hold'?\n");
}

struct Wrong {
  std::string_view text;  // after the smallest job's three lines, or all when it says `job:`
  std::string_view message;
};

class WrongJob : public testing::TestWithParam<Wrong> {};

TEST_P(WrongJob, IsExplained) {
  const auto& wrong = GetParam();
  const bool whole = wrong.text.empty() || wrong.text[0] == '!';
  const auto text =
      whole ? std::string(wrong.text.substr(wrong.text.empty() ? 0 : 1)) : smallest_and(wrong.text);
  EXPECT_EQ(problems_of(text), "job.yaml" + std::string(wrong.message) + "\n");
}

const Wrong shapes[] = {
    {"", ": the file is empty"},
    {"!# nothing\n", ": the file is empty"},
    {"!hello",
     ":1:1: expected a mapping with the keys job, storage, code, setup, trainer, checkpoints, "
     "metrics, channels, prepare, cache, sagemaker, sweep, claims, gang, on_failure, limits, "
     "finish_by, within, prometheus, "
     "publish, fence, notify, launch, fleet, found "
     "text"},
    {"banana: 1",
     ":4:1: unknown key 'banana'; valid here: job, storage, code, setup, trainer, "
     "checkpoints, metrics, channels, prepare, cache, sagemaker, sweep, claims, gang, on_failure, "
     "limits, finish_by, within, prometheus, publish, fence, notify, launch, "
     "fleet"},
    {"publish: /mnt/here", ":4:10: publish: '/mnt/here' is no S3 URL: s3://bucket/key"},
    {"publish: [a]",
     ":4:10: publish: expected where in S3, such as s3://bucket/prefix, found a list"},
    {"notify: {webhook: https://hooks.example/T0/B0/secret}",
     ":4:19: notify.webhook: a secret is not written here but referred to: "
     "file:/ABSOLUTE/PATH, env:NAME or ssm:/PARAMETER"},
    {"notify: {topic: training}",
     ":4:17: notify.topic: expected the ARN of a topic (arn:aws:sns:REGION:ACCOUNT:NAME), found "
     "'training'"},
    {"notify: {topic: 'arn:aws:sns:cn-north-1:123456789012:t'}",
     ":4:17: notify.topic: the topics of cn-north-1 have the partition aws-cn: expected "
     "arn:aws-cn:sns:cn-north-1:123456789012:t, found 'arn:aws:sns:cn-north-1:123456789012:t'"},
    {"notify: {on: [notice, often]}",
     ":4:23: notify.on: expected notice, resumed, finished, failed or deadline, found 'often'"},
    {"limits: {hours: 1, hours: 2}",
     ":4:20: limits: 'hours' is given twice; the first is in line 4"},
    {"trainer: {command: x}", ":4:1: 'trainer' is given twice; the first is in line 3"},
    {"limits:",
     ":4:1: limits: the value is missing; expected a mapping with the keys hours, "
     "dollars, gives_way"},
    {"limits: {hours: }", ":4:17: limits.hours: the value is missing; expected a number above 0"},
    {"limits: {hours: [1]}", ":4:17: limits.hours: expected a number above 0, found a list"},
    {"limits: {hours: many}", ":4:17: limits.hours: expected a number above 0, found 'many'"},
    {"limits: {dollars: -3}", ":4:19: limits.dollars: expected a number above 0, found '-3'"},
    {"on_failure: {attempts_without_progress: 2.5}",
     ":4:41: on_failure.attempts_without_progress: '2.5' is no whole number from 1 to 1000"},
    {"on_failure: {starts_per_attempt: 0}",
     ":4:34: on_failure.starts_per_attempt: '0' is no whole number from 1 to 1000"},
    {"fleet: {kind: spotfleet, id: sfr-1}",
     ":4:15: fleet.kind: 'spotfleet' is not one of spot-fleet, ec2-fleet, auto-scaling-group; did "
     "you mean 'spot-fleet'?"},
    {"fleet: {kind: spot-fleet}", ":4:8: fleet: the key 'id' is missing"},
    {"checkpoints: {directory: /elsewhere}",
     ":4:26: checkpoints.directory: '/elsewhere' is absolute; give it relative to the storage's "
     "mount"},
    {"checkpoints: {files: ckpt/*.h5}",
     ":4:22: checkpoints.files: 'ckpt/*.h5' has a '/' in it; a pattern is of a file's name, in any "
     "subfolder"},
    {"checkpoints: {directory: a/../../b}",
     ":4:26: checkpoints.directory: 'a/../../b' must not leave the mount with '..'"},
    {"? [a, b]\n: 1", ":4:3: a key must be text, not a list"},
    {"---\njob: other", ":5:1: a second YAML document begins here: a file has one"},
    {"limits: {hours: 1", ":4:1: not valid YAML: end of map flow not found"},
    {"x: \x01", ":4:4: not text (UTF-8 without control characters): is this a binary file?"},
    {"x: \xff", ":4:4: not text (UTF-8 without control characters): is this a binary file?"},
};
INSTANTIATE_TEST_SUITE_P(Shapes, WrongJob, testing::ValuesIn(shapes));

const Wrong codes[] = {
    {"code: {repository: \"https://me:hunter2@github.com/me/train.git\", revision: "
     "0123456789abcdef0123456789abcdef01234567}",
     ":4:20: code.repository: the URL has a password in it, which git would store and print; take "
     "it out and name it in code.token, for example file:/etc/spotter/git-token"},
    {"code: {repository: --upload-pack=x, revision: 0123456789abcdef0123456789abcdef01234567}",
     ":4:20: code.repository: '--upload-pack=x' is not a git URL or a path"},
    {"code: {repository: \"${NO_SUCH}/x\", revision: 0123456789abcdef0123456789abcdef01234567}",
     ":4:20: code.repository: the environment has no variable 'NO_SUCH'; a plain '${' is written "
     "'$${'"},
    {"code: {repository: /x, revision: 0123456789abcdef0123456789abcdef01234567, token: hunter2}",
     ":4:83: code.token: a secret is not written here but referred to: file:/ABSOLUTE/PATH, "
     "env:NAME or ssm:/PARAMETER"},
    {"code: {repository: /x, revision: 01234567}",
     ":4:34: code.revision: '01234567' is not 40 hexadecimal digits; a branch name moves; give the "
     "full commit id: git rev-parse HEAD"},
    {"code: {repository: http://git.example.com/x, revision: "
     "0123456789abcdef0123456789abcdef01234567, token: env:TOKEN}",
     ":4:20: code.repository: http://git.example.com/x has no TLS, and code.token is sent over TLS "
     "alone: give the server's https:// address, or take code.token out"},
    {"code: {repository: \"https://*.example.com/x\", revision: "
     "0123456789abcdef0123456789abcdef01234567, token: env:TOKEN}",
     ":4:20: code.repository: no server is named in https://*.example.com/x"},
    {"code: {revision: 0123456789abcdef0123456789abcdef01234567}",
     ":4:7: code: the key 'repository' is missing; for code in a folder here, 'folder'"},
    {"code: {repository: /x}", ":4:7: code: the key 'revision' is missing"},
    {"code: {folder: ., token: env:TOKEN}",
     ":4:26: code.token: 'folder' is given, too: is the code in a folder here, or in a "
     "repository?"},
    {"code: {folder: \"\"}", ":4:16: code.folder: expected a folder, such as ., found ''"},
    {"setup: [\" \"]", ":4:9: setup: expected a command, found ' '"},
    {"setup: {pip: install}", ":4:8: setup: expected a command, found a mapping"},
    {"on_failure: {stall: 10s}",
     ":4:21: on_failure.stall: '10s': a step may take long, and a checkpoint longer; wait for at "
     "least 30s, or write `never`"},
};
INSTANTIATE_TEST_SUITE_P(Codes, WrongJob, testing::ValuesIn(codes));

#define WITH_STORAGE(ebs) "!job: a\ntrainer: {command: x}\nstorage: {ebs: " ebs "}\n"
const Wrong storages[] = {
    {WITH_STORAGE("{tag: {Name: v}, mount: data}"),
     ":3:40: storage.ebs.mount: 'data' is relative; give an absolute path"},
    {WITH_STORAGE("{tag: {Name: v}, mount: /usr/}"),
     ":3:40: storage.ebs.mount: '/usr' is a directory of the system; give one of your own"},
    {WITH_STORAGE("{tag: {Name: v}, mount: /a/../etc}"),
     ":3:40: storage.ebs.mount: '/a/../etc' must not have '..' or a line break in it"},
    {WITH_STORAGE("{tag: {Name: v}, filesystem: xf}"),
     ":3:45: storage.ebs.filesystem: 'xf' is not one of xfs, ext4; did you mean 'xfs'?"},
    {WITH_STORAGE("{tag: {Name: v, Team: w}}"),
     ":3:22: storage.ebs.tag: expected exactly one tag, found 2"},
    {WITH_STORAGE("{tag: {}}"), ":3:22: storage.ebs.tag: expected exactly one tag, found 0"},
    {WITH_STORAGE("{tag: {Name: 'v:1'}}"),
     ":3:29: storage.ebs.tag.Name: 'v:1' has a colon, which begins the index in the name of an "
     "experiment's volume"},
    {WITH_STORAGE("{tag: Name=v}"),
     ":3:22: storage.ebs.tag: expected one tag, such as {Name: my-volume}, found text"},
    {WITH_STORAGE("{tag: {aws:x: v}}"),
     ":3:23: storage.ebs.tag: 'aws:x': keys that begin with aws: are Amazon's own"},
    {WITH_STORAGE("{tag: &a {Name: v}, mount: *a}"),
     ":3:43: an alias (*name) is not supported: write the value out"},
    {"!job: a\ntrainer: {command: x}\nstorage: {}\n",
     ":3:10: storage: expected exactly one of ebs, folder, nfs, efs, sshfs, s3, found 0"},
};
INSTANTIATE_TEST_SUITE_P(Storages, WrongJob, testing::ValuesIn(storages));

#define WITH_TRAINER(more) \
  "!job: a\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {command: x, " more "}\n"
const Wrong trainers[] = {
    {WITH_TRAINER("user: '0; rm'"), ":3:29: trainer.user: expected a user's name, found '0; rm'"},
    {WITH_TRAINER("environment: docker x"),
     ":3:36: trainer.environment: 'docker x' is not an environment: none, conda NAME or venv "
     "PATH"},
    {WITH_TRAINER("stop_signal: SIGTREM"),
     ":3:36: trainer.stop_signal: 'SIGTREM' is not one of SIGTERM, SIGINT, SIGUSR1, SIGUSR2, "
     "SIGHUP, none; did you mean 'SIGTERM'?"},
    {WITH_TRAINER("stop_grace: soon"),
     ":3:35: trainer.stop_grace: 'soon' is not a duration; write a number and a unit (ms, s, m, h, "
     "d), as in 90s, 5m or 2h30m"},
    {WITH_TRAINER("stop_grace: 5m2h"),
     ":3:35: trainer.stop_grace: '5m2h' is not a duration; write a number and a unit (ms, s, m, h, "
     "d), as in 90s, 5m or 2h30m"},
    {WITH_TRAINER("stop_grace: 0s"), ":3:35: trainer.stop_grace: '0s' is no time at all"},
    {WITH_TRAINER("stop_grace: 99999999999d"),
     ":3:35: trainer.stop_grace: '99999999999d' is more than 1000 days"},
    {WITH_TRAINER("role: 'arn:aws:iam::1:user/me'"),
     ":3:29: trainer.role: expected a role's name or its ARN (arn:aws:iam::123456789012:role/NAME),"
     " found 'arn:aws:iam::1:user/me'"},
    {WITH_TRAINER("role: of/mine"),
     ":3:29: trainer.role: expected a role's name or its ARN (arn:aws:iam::123456789012:role/NAME),"
     " found 'of/mine'"},
    {WITH_TRAINER("imds: yes"), ":3:29: trainer.imds: 'yes' is not one of refuse, allow"},
    {WITH_TRAINER("memory_max: 101%"),
     ":3:35: trainer.memory_max: expected an amount of memory such as 48G or 90%, found '101%'"},
    {WITH_TRAINER("memory_max: 0G"),
     ":3:35: trainer.memory_max: expected an amount of memory such as 48G or 90%, found '0G'"},
    {WITH_TRAINER("cpu_quota: 4"),
     ":3:34: trainer.cpu_quota: expected a share of one CPU's time such as 400%, found '4'"},
    {WITH_TRAINER("cpu_weight: 10001"),
     ":3:35: trainer.cpu_weight: expected a whole number from 1 to 10000, found '10001'"},
    {WITH_TRAINER("gpus: all"),
     ":3:29: trainer.gpus: expected a whole number from 0 to 64, or auto, found 'all'"},
    {WITH_TRAINER("env: {2X: 1}"),
     ":3:29: trainer.env.2X: '2X' is not a variable's name: letters, digits and '_'"},
    {WITH_TRAINER("env: {SPOTTER_JOB: 1}"),
     ":3:29: trainer.env.SPOTTER_JOB: 'SPOTTER_JOB' is set by Spotter itself"},
    {WITH_TRAINER("env: {A: {b: 1}}"), ":3:32: trainer.env.A: expected text, found a mapping"},
    {WITH_TRAINER("secrets: {KEY: hunter2}"),
     ":3:38: trainer.secrets.KEY: a secret is not written here but referred to: "
     "file:/ABSOLUTE/PATH, env:NAME or ssm:/PARAMETER"},
    {WITH_TRAINER("env: {A: 1}, secrets: {A: env:A}"),
     ":3:46: trainer.secrets.A: is in trainer.env, too: which is it?"},
    {WITH_TRAINER("stop-grace: 5s"),
     ":3:23: trainer: unknown key 'stop-grace'; did you mean 'stop_grace'?"},
    {WITH_TRAINER("result: ./weights.pt"),
     ":3:31: trainer.result: lies in the volume's root, where only root may write: name a folder, "
     "such as result/weights.pt"},
    {WITH_TRAINER("result: ../x"),
     ":3:31: trainer.result: '../x' must not leave the mount with '..'"},
};
INSTANTIATE_TEST_SUITE_P(Trainers, WrongJob, testing::ValuesIn(trainers));

TEST(Job, RefusesAnAliasBombInNoTime) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level < 10; ++level) {
    const auto before = "*a" + std::to_string(level - 1);
    bomb += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [";
    for (int copy = 0; copy < 9; ++copy) bomb += before + ", ";
    bomb += before + "]\n";
  }
  EXPECT_NE(problems_of(bomb).find("job.yaml:2:10: an alias (*name) is not supported"),
            std::string::npos);
}

TEST(Job, RefusesDeepNestingAndLargeFiles) {
  const auto deep = problems_of("job: " + std::string(10'000, '['));
  EXPECT_NE(deep.find("not valid YAML"), std::string::npos) << deep;
  EXPECT_EQ(problems_of(std::string(job_size_limit + 1, '#')),
            "job.yaml: the file is larger than 256 KiB: is this the right one?\n");
}

TEST(Job, IsLoadedFromAFile) {
  char name[] = "/tmp/spotter-config-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, smallest.data(), smallest.size()), static_cast<ssize_t>(smallest.size()));
  close(file);
  EXPECT_TRUE(load_job(name, as_root));
  unlink(name);
  const auto missing = load_job(name, as_root);
  ASSERT_FALSE(missing);
  EXPECT_EQ(describe(missing.error(), "job.yaml"),
            "job.yaml: cannot read the job: No such file or directory\n");
  EXPECT_EQ(load_job("/tmp", as_root).error().at(0).message,
            "cannot read the job: not a regular file");
  ASSERT_EQ(mkfifo(name, 0600), 0);
  EXPECT_FALSE(load_job(name, as_root)) << "without waiting for a writer";
  unlink(name);
}

TEST(Environment, IsThatOfThisProcess) {
  ASSERT_EQ(setenv("SPOTTER_CONFIG_TEST", "a=b", 1), 0);
  const auto here = Environment::of_process();
  EXPECT_EQ(here.variables.at("SPOTTER_CONFIG_TEST"), "a=b");
  EXPECT_EQ(here.root, geteuid() == 0);
  EXPECT_FALSE(here.user.empty());
}

// execve(2) would refuse them at each start, for ever.
TEST(Job, HasNoStringThatNoProgramCanBeStartedWith) {
  const auto job = [](const std::string& trainer) {
    return "job: small\nstorage: {ebs: {tag: {Name: v}}}\ntrainer: {" + trainer + "}\n";
  };
  const auto says = [](const std::string& problems, const char* what) {
    return problems.find(what) != std::string::npos;
  };
  const std::string long_text(130'000, 'x');
  EXPECT_EQ(problems_of(job("command: " + long_text.substr(0, 90'000))), "");
  EXPECT_TRUE(says(problems_of(job("command: " + long_text)), "has more than 96 KiB"));
  EXPECT_EQ(problems_of(job("command: x, env: {A: " + long_text + "}")), "");
  EXPECT_TRUE(says(problems_of(job("command: x, env: {A: " + long_text + long_text + "}")),
                   "trainer.env.A"));
  EXPECT_TRUE(
      says(problems_of(smallest_and("sagemaker: {hyperparameters: {a: " + long_text + "}}\n")),
           "sagemaker.hyperparameters"));
}

}  // namespace
}  // namespace spotter::config
