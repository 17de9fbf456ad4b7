// The trainer's surroundings: user, environment, files, limits; and the command line itself.
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/supervise/account.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Surroundings : public Stage {
 protected:
  void make_python(const std::string& root) {
    std::filesystem::create_directories(root + "/bin");
    std::ofstream(root + "/bin/python") << "#!/bin/sh\necho \"python of " << root << "\"\n";
    std::filesystem::permissions(root + "/bin/python", std::filesystem::perms(0755));
  }

  struct Answer {
    int status = -1;
    std::string errors;
  };
  // `spotter supervise --run-directory DIR --spec -`, with this on stdin.
  Answer run_command(const std::string& input) {
    std::ofstream(path("spec.json")) << input;
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(path("spec.json").c_str(), O_RDONLY), 0);
      const int output = open(path("errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(output, 1);
      dup2(output, 2);
      execl("/proc/self/exe", "spotter", "supervise", "--run-directory", directory().c_str(),
            "--spec", "-", nullptr);
      _exit(126);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path("errors"))};
  }
};

TEST_F(Surroundings, AreThoseOfTheUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  const passwd* nobody = getpwnam("nobody");
  ASSERT_NE(nobody, nullptr);
  auto as_nobody = spec("id -u; id -g; id -G; echo $HOME $USER $LOGNAME; exit 5");
  as_nobody.user = "nobody";
  as_nobody.shell = "";  // nologin: no shell to log in with
  as_nobody.environment.clear();
  started(as_nobody);
  EXPECT_EQ(wait_for_end().exit_code, 5);
  const auto uid = std::to_string(nobody->pw_uid);
  const auto gid = std::to_string(nobody->pw_gid);
  EXPECT_EQ(log(), uid + "\n" + gid + "\n" + gid + "\n" + nobody->pw_dir + " nobody nobody\n");
}

// The trainer owns the folder that its log lies in, so it can put any link on the way there.
TEST_F(Surroundings, TheLogInAUsersFolderIsOpenedWithThatUsersRights) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  const passwd* nobody = getpwnam("nobody");
  ASSERT_NE(nobody, nullptr);
  namespace fs = std::filesystem;
  fs::create_directories(path("users/log"));
  fs::create_directory(path("roots"));
  for (const char* name : {"users", "users/log"})
    ASSERT_EQ(chown(path(name).c_str(), nobody->pw_uid, nobody->pw_gid), 0);
  auto as_nobody = spec("echo said");
  as_nobody.user = "nobody";
  as_nobody.log_file = path("users/log/trainer.log");
  started(as_nobody);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  ASSERT_TRUE(collect(directory()));
  EXPECT_EQ(read_file(as_nobody.log_file), "said\n");
  struct stat log {};
  ASSERT_EQ(stat(as_nobody.log_file.c_str(), &log), 0);
  EXPECT_EQ(log.st_uid, nobody->pw_uid);
  EXPECT_EQ(log.st_gid, nobody->pw_gid);

  fs::remove_all(path("users/log"));
  fs::create_directory_symlink(path("roots"), path("users/log"));
  const auto refused = start(directory(), as_nobody);
  ASSERT_FALSE(refused) << "a log in a folder of root's";
  EXPECT_NE(refused.error().message.find("cannot open the log file"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(path("roots")));
}

TEST_F(Surroundings, AnotherUsersTrainerDiesWithTheSupervisor) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  auto as_nobody = spec("echo up; exec sleep 1000");
  as_nobody.user = "nobody";
  const auto trainer = started(as_nobody);
  ASSERT_TRUE(says("up"));
  ::kill(trainer.supervisor_pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !runs(trainer.trainer_pid); }))
      << "the death signal is lost with the change of user unless it is set again";
}

TEST_F(Surroundings, OnlyRootStartsAsAnotherUser) {
  if (geteuid() == 0) {
    ASSERT_EQ(seteuid(65534), 0);
    const auto result = start(directory(), [&] {
      auto as_root = spec("true");
      as_root.user = "root";
      return as_root;
    }());
    ASSERT_EQ(seteuid(0), 0);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "only root can run the trainer as 'root'; we are 'nobody'");
  } else {
    auto as_root = spec("true");
    as_root.user = "root";
    EXPECT_FALSE(start(directory(), as_root));
  }
}

TEST_F(Surroundings, HaveNothingOfTheAgentInThem) {
  ASSERT_EQ(setenv("AGENT_SECRET", "hunter2", 1), 0);
  const int kept = open("/etc/passwd", O_RDONLY);  // on purpose without close-on-exec
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGUSR2, SIG_IGN);
  auto curious = spec(
      "env; ls -l /proc/self/fd | wc -l; grep -E '^Sig(Blk|Ign)' /proc/self/status; umask; "
      "ulimit -S -c; readlink /proc/self/fd/0; cut -d' ' -f5,6 /proc/$$/stat; echo $$; pwd");
  curious.environment = {{"FROM_THE_JOB", "with spaces and 'quotes'"}};
  const auto trainer = started(curious);
  wait_for_end();
  sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  signal(SIGUSR2, SIG_DFL);
  close(kept);
  unsetenv("AGENT_SECRET");
  const auto text = log();
  const auto pid = std::to_string(trainer.trainer_pid);
  EXPECT_EQ(text.find("AGENT_SECRET"), std::string::npos);
  EXPECT_NE(text.find("FROM_THE_JOB=with spaces and 'quotes'\n"), std::string::npos) << text;
  const auto expected =
      "\n5\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0022\n0\n"
      "/dev/null\n" +
      pid + " " + pid + "\n" + pid + "\n" + directory() + "\n";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

// On a login node, `umask 077` of who calls `spotter run` keeps others from what the trainer makes.
TEST_F(Surroundings, KeepTheUmaskOfAnOrdinaryUser) {
  constexpr uid_t ordinary = 65534;
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(chown(directory().c_str(), ordinary, ordinary), 0);
  }
  const pid_t child = fork();
  if (child == 0) {
    if (root && (setgroups(0, nullptr) != 0 || setgid(ordinary) != 0 || setuid(ordinary) != 0))
      _exit(100);
    umask(077);
    auto private_work = spec("umask; ulimit -S -c; echo mine > made");
    private_work.user = current_user();
    private_work.working_directory = directory();
    _exit(start(directory(), private_work) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(eventually([&] { return access(path("ended.json").c_str(), F_OK) == 0; }));
  EXPECT_EQ(log(), "0077\n0\n");
  for (const char* name : {"made", "trainer.log"}) {
    struct stat made {};
    ASSERT_EQ(stat(path(name).c_str(), &made), 0) << name;
    EXPECT_EQ(made.st_mode & 0777, 0600U) << name;
  }
}

TEST_F(Surroundings, LeaveNoCoreFileOfTheSupervisorAndTheTrainersHardLimitAsItWas) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &before), 0);
  rlimit most = before;
  most.rlim_cur = most.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &most), 0);
  const auto trainer = started(spec("ulimit -H -c; exec sleep 1000"));
  setrlimit(RLIMIT_CORE, &before);
  rlimit seen{};
  ASSERT_EQ(prlimit(trainer.supervisor_pid, RLIMIT_CORE, nullptr, &seen), 0);
  EXPECT_EQ(seen.rlim_cur, 0U);
  EXPECT_EQ(seen.rlim_max, before.rlim_max);
  EXPECT_TRUE(says(before.rlim_max == RLIM_INFINITY ? "unlimited\n"
                                                    : std::to_string(before.rlim_max / 1024)));
}

TEST_F(Surroundings, HoldTheVirtualEnvironmentEvenAfterTheProfileSetPath) {
  make_python(path("it's venv"));
  auto inside = spec("python; echo $VIRTUAL_ENV; ls / > /dev/null && echo ls");
  inside.environment_kind = "venv it's venv";
  started(inside);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "python of " + path("it's venv") + "\n" + path("it's venv") + "\nls\n");
}

// People add lines to bin/activate; the rest of it names where the folder was made.
TEST_F(Surroundings, HoldWhatTheVenvsOwnScriptSays) {
  make_python(path("moved"));
  make_python(path("where it was"));
  std::ofstream(path("moved/bin/activate"))
      << "VIRTUAL_ENV='" << path("where it was") << "'\nexport VIRTUAL_ENV\n"
      << "PATH=\"$VIRTUAL_ENV/bin:$PATH\"\nexport PATH\nexport VIRTUAL_ENV_PROMPT=moved\n"
      << "export OF_ITS_USER=\"yes, $VIRTUAL_ENV_PROMPT\"\n";
  auto inside =
      spec("python; echo $VIRTUAL_ENV $OF_ITS_USER; case $PATH in *:/given) echo given;; esac");
  inside.environment.insert({"PATH", "/usr/bin:/bin:/given"});
  inside.environment_kind = "venv moved";
  started(inside);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "python of " + path("moved") + "\n" + path("moved") + " yes, moved\ngiven\n");
}

TEST_F(Surroundings, HoldTheCondaEnvironment) {
  make_python(path("conda"));
  auto inside = spec("python; echo $CONDA_PREFIX");
  inside.environment_kind = "conda " + path("conda");
  started(inside);
  wait_for_end();
  EXPECT_EQ(log(), "python of " + path("conda") + "\n" + path("conda") + "\n");
}

// As `conda activate` does it: packages' scripts and variables, those of the environment, and none
// of the environment in which the caller is.
TEST_F(Surroundings, HoldAllThatActivatingDoes) {
  const std::string root = path("miniforge3/envs/it's");
  make_python(root);
  for (const char* folder : {"etc/conda/activate.d", "etc/conda/env_vars.d", "conda-meta"})
    std::filesystem::create_directories(root + "/" + folder);
  std::ofstream(root + "/etc/conda/activate.d/b.sh") << "export CUDA_HOME=$CONDA_PREFIX/cuda$A\n";
  std::ofstream(root + "/etc/conda/activate.d/a.sh") << "A=1\n";
  std::ofstream(root + "/etc/conda/activate.d/c.fish") << "exit 5\n";
  std::ofstream(root + "/etc/conda/env_vars.d/p.json")
      << R"({"of_package": "p", "BOTH": "p", "OFF": "p"})";
  std::ofstream(root + "/conda-meta/state")
      << R"({"version": 1, "env_vars": {"BOTH": "state", "HERS": "state", "OF_JOB": "state",)"
      << R"("GONE": "***unset***", "off": "***unset***", "path": "/x", "A;B": "", "NUMBER": 1}})";
  std::ofstream(path(".profile")) << "export CONDA_PREFIX=/opt/conda CONDA_DEFAULT_ENV=base\n";
  auto inside = spec(
      "python; echo $CONDA_PREFIX $CONDA_DEFAULT_ENV $CONDA_SHLVL; "
      "echo ${CUDA_HOME##*/} $OF_PACKAGE $BOTH $HERS $OF_JOB [$GONE$OFF$NUMBER] "
      "[$VIRTUAL_ENV$PYTHONHOME]");
  inside.environment.insert({{"VIRTUAL_ENV", "/callers"},
                             {"PYTHONHOME", "/callers"},
                             {"HERS", "caller"},
                             {"OF_JOB", "job"},
                             {"PATH", "/usr/bin:/bin"}});
  inside.own = "OF_JOB ";
  inside.environment_kind = "conda it's";
  started(inside);
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_EQ(log(), "python of " + root + "\n" + root + " it's 1\ncuda1 p state state job [] []\n");
}

// `conda activate` leaves the one that is active: the caller's, else that of the profile.
TEST_F(Surroundings, LeaveTheCondaEnvironmentThatTheShellIsIn) {
  const std::string base = path("base"), root = base + "/envs/tr";
  for (const auto& each : {base, root}) make_python(each);
  std::filesystem::create_directories(base + "/etc/conda/deactivate.d");
  std::filesystem::create_directories(base + "/condabin");
  std::ofstream(base + "/etc/conda/deactivate.d/a.sh") << "LEFT=${LEFT}a\n";
  std::ofstream(base + "/etc/conda/deactivate.d/b.sh") << "LEFT=${LEFT}b\n";
  std::filesystem::create_directories(root + "/conda-meta");
  std::ofstream(root + "/conda-meta/state") << R"({"env_vars": {"MINE": "tr"}})";
  const std::string of_base = "CONDA_SHLVL=1 CONDA_PREFIX=" + base;
  const std::string paths = "/usr/bin:/bin";
  struct Case {
    std::string profile;
    std::map<std::string, std::string> given;
    std::string says;
  };
  const Case cases[] = {
      {"", {}, "1 [] tr " + root + "/bin:" + base + "/condabin:" + paths},
      {"export MINE=no PATH=" + base + "/bin:$PATH " + of_base, {}, "2 " + base + " [ba] tr "},
      {"export CONDA_SHLVL=3 CONDA_PREFIX=/of/profile",
       {{"CONDA_SHLVL", "1"}, {"CONDA_PREFIX", base}, {"PATH", "/x:" + base + "/bin:" + paths}},
       "2 " + base + " [ba] tr " + root + "/bin:/x:" + paths},
      {"",
       {{"CONDA_SHLVL", "2"}, {"CONDA_PREFIX", root}, {"CONDA_PREFIX_1", base}},
       "2 " + base + " [] tr "}};
  for (const auto& each : cases) {
    std::ofstream(path(".profile")) << each.profile << "\n";
    auto inside = spec("echo $CONDA_SHLVL $CONDA_PREFIX_1 \"[$LEFT]\" $MINE $PATH");
    inside.environment["PATH"] = paths;
    for (const auto& [name, value] : each.given) inside.environment[name] = value;
    inside.environment_kind = "conda " + root;
    std::filesystem::remove(log_file());
    started(inside);
    wait_for_end();
    EXPECT_TRUE(log().starts_with(each.says)) << log() << each.says;
    ASSERT_TRUE(collect(directory()));
  }
}

TEST_F(Surroundings, NameTheCondaEnvironmentAsCondaDoes) {
  make_python(path("root"));
  std::ofstream(path("root/bin/conda")) << "";
  for (const char* each : {"root/envs/tr", "loose"}) make_python(path(each));
  const std::pair<std::string, std::string> names[] = {{"~/root/envs/tr/", "tr"},
                                                       {"~/root/.", "base"},
                                                       {"~/loose//", path("loose")},
                                                       {path("root/../loose"), path("loose")}};
  for (const auto& [given, name] : names) {
    auto inside = spec("true");
    inside.environment_kind = "conda " + given;
    const auto launch = prepare(inside);
    ASSERT_TRUE(launch) << launch.error().message;
    EXPECT_NE(launch->arguments.back().find("export CONDA_DEFAULT_ENV='" + name + "'\n"),
              std::string::npos)
        << launch->arguments.back();
  }
}

TEST_F(Surroundings, FindEnvironmentsWhereTheirToolsMakeThem) {
  make_python(path("listed/deep"));
  make_python(path(".cache/pypoetry/virtualenvs/poem-extra-x1_Yz678-py3.12"));
  std::filesystem::create_directories(path(".conda"));
  std::ofstream(path(".condarc"))
      << "channels:\n  - conda-forge\nenvs_dirs:  # mine\n  - " << path("none")
      << " # gone\n  - '~/my envs'\n  - $MAMBA_ROOT_PREFIX/more\nauto_activate_base: false\n";
  std::ofstream(path(".mambarc")) << "envs_path: [~/of mamba]\n";
  std::ofstream(path(".conda/environments.txt")) << "/no/deep\n" << path("listed/deep") << "\n";
  const std::pair<std::string, std::string> kinds[] = {
      {"conda micro", path("micromamba/envs/micro")},
      {"conda two", path(".local/share/mamba/envs/two")},
      {"conda given", path("root/envs/given")},
      {"conda ~/mine", path("mine")},
      {"conda deep", path("listed/deep")},
      {"conda condarc", path("my envs/condarc")},
      {"conda more", path("root/more/more")},
      {"conda mambarc", path("of mamba/mambarc")},
      {"conda ~/pixi", path("pixi/.pixi/envs/default")},
      {"venv pixi", path("pixi/.pixi/envs/default")},
      {"venv My_Poem.x", path(".cache/pypoetry/virtualenvs/my-poem-x-abcd-_12-py3.12")},
      {"venv pipenv", path(".local/share/virtualenvs/pipenv-Ab3_x")},
      {"venv project", path("project/.venv")},
      {"venv ~/tilde", path("tilde")},
      {"venv 3.12.4", path(".pyenv/versions/3.12.4")},
      {"venv poem", path(".cache/pypoetry/virtualenvs/poem-x1_Yz-py3.12")}};
  for (const auto& [kind, root] : kinds) {
    make_python(root);
    std::filesystem::rename(root + "/bin/python", root + "/bin/python3");
    auto inside = spec("true");
    inside.environment["MAMBA_ROOT_PREFIX"] = path("root");
    inside.environment_kind = kind;
    const auto launch = prepare(inside);
    ASSERT_TRUE(launch) << launch.error().message;
    const auto& variables = launch->environment;
    const auto path_of = std::ranges::find_if(
        variables, [](const std::string& it) { return it.starts_with("PATH="); });
    ASSERT_NE(path_of, variables.end());
    EXPECT_TRUE(path_of->starts_with("PATH=" + root + "/bin:")) << kind << ": " << *path_of;
  }
}

TEST_F(Surroundings, SayWhichEnvironmentIsMissing) {
  auto missing = spec("true");
  missing.environment_kind = "venv /no/venv";
  EXPECT_EQ(start(directory(), missing).error().message,
            "there is no Python environment '/no/venv' with a bin/python; looked at /no/venv, "
            "/no/venv/.venv, /no/venv/.pixi/envs/default; make it: python3 -m venv /no/venv");
  missing.environment_kind = "conda nowhere";
  std::filesystem::create_directories(path("mamba/envs"));
  const std::string why = start(directory(), missing).error().message;
  EXPECT_TRUE(
      why.starts_with("there is no conda environment 'nowhere' with a bin/python; looked "
                      "at " +
                      path("mamba/envs/nowhere,")))
      << why;
  EXPECT_TRUE(why.ends_with(" other places")) << why;
}

TEST_F(Surroundings, TheCommandReturnsOnceTheTrainerRuns) {
  auto secret = spec("echo got $API_KEY; exec sleep 1000");
  secret.environment["API_KEY"] = "hunter2";
  const auto answer = run_command(to_json(secret));
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.errors, "");
  ASSERT_TRUE(says("got hunter2"));
  const Record running = look(directory()).value().record.value();
  const auto line = read_file("/proc/" + std::to_string(running.supervisor_pid) + "/cmdline");
  EXPECT_EQ(line.find("hunter2"), std::string::npos);
  const auto second = run_command(to_json(secret));
  EXPECT_EQ(second.status, 3);
  EXPECT_NE(second.errors.find("another supervisor is at work"), std::string::npos);
}

TEST_F(Surroundings, TheCommandSaysWhatIsWrongWithItsSpec) {
  auto answer = run_command("{");
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.errors, "spotter supervise: spec: not a JSON object\n");
  answer = run_command(R"({"command": "x", "environment": {"KEY": 5}})");
  EXPECT_EQ(answer.errors, "spotter supervise: spec: \"environment\": \"KEY\" is not a text\n");
  answer = run_command(R"({"command": "x", "user": "no-such-user", "log_file": "/tmp/x"})");
  EXPECT_EQ(answer.status, 1);
  EXPECT_EQ(answer.errors,
            "spotter supervise: there is no user 'no-such-user' on this machine (trainer.user of "
            "job.yaml)\n");
}

TEST(SpecText, SurvivesTheTrip) {
  Spec spec{.command = "./train.sh 'a b'",
            .user = "ubuntu",
            .environment = {{"A", "1"}, {"B", "two\nlines"}},
            .environment_kind = "conda torch",
            .log_file = "/run/spotter/trainer.log",
            .stop_signal = 0,
            .job = "mnist"};
  const auto back = parse_spec(to_json(spec));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(spec));
  EXPECT_EQ(back->environment, spec.environment);
  EXPECT_EQ(back->environment_kind, spec.environment_kind);
  EXPECT_EQ(back->stop_signal, 0);
}

TEST(Account, KnowsWhoCouldBecomeRoot) {
  EXPECT_EQ(administrators_right("root"), "it is root");
  EXPECT_EQ(administrators_right("nobody"), "");
  for (const char* name : {"root", "ubuntu", "ec2-user"})
    EXPECT_TRUE(is_images_administrator(name));
  EXPECT_FALSE(is_images_administrator("spotter"));
}

TEST(Account, KeepsItsOwnGroupWhateverThatIs) {
  EXPECT_EQ(groups_of("root", 0), std::vector<gid_t>{0});
  const auto groups = groups_of("nobody", getpwnam("nobody")->pw_gid);
  EXPECT_NE(std::find(groups.begin(), groups.end(), getpwnam("nobody")->pw_gid), groups.end());
}

// A mail by way of port 25 on loopback would run what the home in passwd(5) says.
TEST(Account, OfThePackageHasItsFilesWhereNoOtherProgramLooks) {
  char name[] = "spotter", other[] = "other", none[] = "/nonexistent", home[] = "/home/other";
  passwd user{};
  user.pw_name = name;
  user.pw_dir = none;
  EXPECT_EQ(home_of(user), "/var/lib/spotter");
  user.pw_dir = home;
  EXPECT_EQ(home_of(user), "/home/other") << "somebody made that user with a home";
  user.pw_name = other;
  user.pw_dir = none;
  EXPECT_EQ(home_of(user), "/nonexistent");
}

TEST(Account, HasALoginShellUnlessItIsTheSystems) {
  for (const char* shell : {"/bin/bash", ""}) EXPECT_TRUE(is_login_shell(shell)) << shell;
  for (const char* shell : {"/usr/sbin/nologin", "/sbin/nologin", "/bin/false"})
    EXPECT_FALSE(is_login_shell(shell)) << shell;
}

}  // namespace
}  // namespace spotter::supervise
