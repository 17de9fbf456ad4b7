// Checks what only a machine can: its user, tools and memory, and code as it is fetched there.
#include <sys/statvfs.h>

#include "agent/commands/doctor.hpp"
#include "agent/guard/inventory.hpp"
#include "agent/host/checkout.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/account.hpp"

namespace spotter::command {
namespace {

bool is_installed(const std::string& program) {
  return !io::find_program(program, "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin").empty();
}

struct Tool {
  std::string program;
  std::string package;  // of Debian
};

std::vector<Tool> tools_of(const config::Job& job) {
  std::vector<Tool> tools;
  if (job.code) tools.push_back({"git", "git"});
  if (!job.storage.share) {
    const bool xfs = job.storage.ebs.filesystem == config::FileSystem::Xfs;
    if (xfs)
      tools.insert(tools.end(), {{"mkfs.xfs", "xfsprogs"}, {"xfs_repair", "xfsprogs"}});
    else
      tools.insert(tools.end(), {{"mkfs.ext4", "e2fsprogs"}, {"e2fsck", "e2fsprogs"}});
    return tools;
  }
  const std::string tool(config::mount_tool(*job.storage.share));
  if (tool == "mount.efs")
    tools.push_back({tool, "amazon-efs-utils"});
  else if (!tool.empty())
    tools.push_back({tool, tool == "sshfs" ? "sshfs" : "nfs-common"});
  return tools;
}

Finding code_finding(const Error& failure) {
  const bool passing = failure.kind == "code-unreachable" || failure.kind == "host-error";
  return {"code", passing ? Verdict::Warn : Verdict::Fail, failure.message,
          passing ? "the instances may reach it where this machine does not"
                  : "push it, or mend code.repository, code.revision or code.token"};
}

Result<config::ResolvedSecret> parameter_of(AwsCalls& calls, const config::SecretReference& it) {
  const auto value = calls.ask(wire::GetParameter{it.target});
  if (value) return config::ResolvedSecret{*value, {}};
  return failure("the secret " + config::describe(it) +
                 " cannot be read: " + value.error().message);
}

}  // namespace

Findings examine_repository(AwsCalls& calls, const config::Code& code, bool on_instance) {
  const std::string what = code.repository + " at " + code.revision.substr(0, 12);
  if (!on_instance && code.repository.starts_with('/'))
    return {{"code", Verdict::Warn, what + " is a path on the instances", "it was not looked at"}};
  const auto here = config::Environment::of_process();
  std::string token;
  if (code.token) {
    const bool parameter = code.token->kind == config::SecretReference::Kind::Parameter;
    const auto secret =
        parameter ? parameter_of(calls, *code.token) : config::resolve(*code.token, here.variables);
    if (!secret) return {{"code", Verdict::Fail, secret.error().message, "mend code.token"}};
    token = secret->value;
  }
  const io::ScratchFolder scratch("doctor");
  const auto fetched = act::host::checkout(
      {code.repository, code.revision, scratch.path() / "code", here.user, token});
  if (!fetched) return {code_finding(fetched.error())};
  if (fetched->missing.empty()) return {{"code", Verdict::Ok, what, ""}};
  return {{"code", Verdict::Warn, what + ": " + fetched->missing, ""}};
}

Findings examine_machine(const config::Job& job) {
  Findings findings;
  const auto user = act::host::find_user(job.trainer.user);
  const std::string right = user && !job.trainer.trusted && ::geteuid() == 0
                                ? supervise::administrators_right(user->name)
                                : std::string();
  if (!right.empty())
    findings.push_back({"user", Verdict::Fail, user->name + " could become root: " + right,
                        std::string(supervise::instead_of_an_administrator)});
  else if (user)
    findings.push_back({"user", Verdict::Ok, user->name + ", at home in " + user->home, ""});
  else
    findings.push_back(
        {"user", Verdict::Fail, user.error().message, "make that user, or name another"});
  std::string present;
  for (const Tool& tool : tools_of(job)) {
    if (is_installed(tool.program))
      present += (present.empty() ? "" : ", ") + tool.program;
    else
      findings.push_back({"tools", Verdict::Fail, tool.program + " is not installed",
                          "install the package " + tool.package});
  }
  if (!present.empty()) findings.push_back({"tools", Verdict::Ok, present, ""});
  return findings;
}

// Containers have 64 MiB there, unless somebody asks for more.
Findings examine_shared_memory() {
  constexpr std::uint64_t enough = 512U << 20;
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) != 0) return {};
  const std::uint64_t bytes = std::uint64_t{shared.f_blocks} * shared.f_frsize;
  if (bytes >= enough) return {};
  return {{"shared memory", Verdict::Warn,
           "/dev/shm has " + std::to_string(bytes >> 20) +
               " MiB here: the workers of a data loader hand over their batches there, and die of "
               "a bus error where it is full",
           "docker run --shm-size=8g; Kubernetes: an emptyDir with medium: Memory on /dev/shm"}};
}

// Only reads: on a share the record is the trainer's, and not root's to trust.
Findings examine_checkpoints(const config::Job& job) {
  std::error_code ignored;
  const fs::path home = job.home();
  if (!fs::exists(home / ".spotter" / guard::record_name, ignored)) return {};  // not here
  const auto found = guard::inventory_of(home, job.storage.share.has_value());
  if (!found)
    return {{"checkpoints", Verdict::Warn, found.error().message,
             "`spotter checkpoints " + home.string() + "` needs it"}};
  const auto& generations = found->record.generations;
  const bool nothing =
      std::ranges::all_of(generations, &std::string::empty, &guard::Generation::name);
  if (nothing && found->record.away.empty()) return {};  // libspotter's job
  const std::string away = guard::away_text(found->record.away, home);
  return {{"checkpoints", Verdict::Ok,
           std::to_string(generations.size()) +
               (generations.size() == 1 ? " generation" : " generations") + " kept; " +
               (away.empty() ? "nothing is put away" : away),
           ""}};
}

}  // namespace spotter::command
