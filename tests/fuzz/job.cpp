// job.yaml, and the small languages in it.
#include "agent/config/job.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <tuple>

#include "agent/config/sweep.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/summary.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using namespace config;

const Environment as_root{
    .variables = {{"WHO", "me"}, {"EMPTY", ""}}, .user = "root", .root = true};

// A double-quoted YAML text; JSON's escapes are a subset of YAML's.
std::string literal(std::string_view text) { return nlohmann::json(text).dump(); }

// The same for a value in which ${NAME} would be expanded.
std::string unexpanded(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    escaped += text.substr(i).starts_with("${") ? "$$" : std::string(1, text[i]);
  }
  return literal(escaped);
}

std::string text(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string text(Duration value) { return std::to_string(value.count()) + "ms"; }

std::string signal_name(std::optional<int> signal) {
  if (!signal) return "none";
  return "SIG" + std::string(sigabbrev_np(*signal));
}

std::string print(const Trainer& trainer) {
  std::string yaml = "trainer:\n  command: " + literal(trainer.command) + "\n";
  yaml += "  user: " + literal(trainer.user) + "\n";
  yaml += "  environment: " + unexpanded(to_text(trainer.environment)) + "\n  env: {";
  for (const auto& [name, value] : trainer.env)
    yaml += literal(name) + ": " + literal(value) + ", ";
  yaml += "}\n  secrets: {";
  for (const auto& [name, reference] : trainer.secrets) {
    yaml += literal(name) + ": " + literal(describe(reference)) + ", ";
  }
  yaml += "}\n  stop_signal: " + signal_name(trainer.stop_signal) + "\n";
  if (trainer.stop_grace) yaml += "  stop_grace: " + text(*trainer.stop_grace) + "\n";
  if (!trainer.result.empty()) yaml += "  result: " + literal(trainer.result) + "\n";
  return yaml;
}

std::string print(const EbsStorage& ebs) {
  std::string yaml = "{ebs: {tag: {" + literal(ebs.tag.key) + ": ";
  yaml += unexpanded(ebs.tag.value) + "}, mount: " + unexpanded(ebs.mount);
  yaml += ", filesystem: " + std::string(to_text(ebs.filesystem));
  if (ebs.consistency_bound) yaml += ", consistency_bound: " + text(*ebs.consistency_bound);
  return yaml + "}}\n";
}

std::string print(const config::DataVolume& data) {
  std::string yaml = "  - data: {snapshot: " + literal(data.snapshot);
  yaml += ", mount: " + unexpanded(data.mount) + ", type: " + literal(data.type);
  const auto add = [&yaml](const char* key, const std::optional<std::uint64_t>& number) {
    if (number) yaml += std::string(", ") + key + ": " + std::to_string(*number);
  };
  add("iops", data.iops);
  add("throughput", data.throughput);
  add("initialization_rate", data.initialization_rate);
  return yaml + "}\n";
}

std::string print(const config::Storage& storage) {
  if (storage.data.empty()) return "storage: " + print(storage.ebs);
  std::string yaml = "storage:\n  - state: " + print(storage.ebs);
  for (const config::DataVolume& data : storage.data) yaml += print(data);
  return yaml;
}

std::string print(const Share& share) {
  using Kind = Share::Kind;
  std::string yaml = "storage:\n  " + std::string(to_text(share.kind)) + ":\n";
  const auto add = [&yaml](const char* key, const std::string& value) {
    if (!value.empty()) yaml += std::string("    ") + key + ": " + unexpanded(value) + "\n";
  };
  add(share.kind == Kind::Folder ? "path" : "mount", share.mount);
  if (share.kind == Kind::Nfs) add("server", share.server);
  if (share.kind == Kind::Nfs) add("path", share.path);
  if (share.kind == Kind::Efs) add("id", share.server);
  if (share.kind == Kind::Sshfs) add("source", share.server + ":" + share.path);
  add("access_point", share.access_point);
  add("options", share.options);
  add("key", share.key);
  add("known_hosts", share.known_hosts);
  if (share.kind == Kind::Efs) yaml += share.tls ? "    tls: true\n" : "    tls: false\n";
  if (share.kind == Kind::Sshfs) yaml += "    port: " + std::to_string(share.port) + "\n";
  return yaml;
}

std::string print(const Fleet& fleet) {
  const char* kind = fleet.kind == FleetKind::SpotFleet  ? "spot-fleet"
                     : fleet.kind == FleetKind::Ec2Fleet ? "ec2-fleet"
                                                         : "auto-scaling-group";
  return std::string("fleet: {kind: ") + kind + ", id: " + literal(fleet.id.view()) + "}\n";
}

std::string print(const config::Channels& channels) {
  if (!channels.document.empty()) return "channels: " + unexpanded(channels.document) + "\n";
  std::string yaml = "channels: {";
  for (const auto& channel : channels.all) {
    const std::string text = describe(channel);
    const auto equals = text.find('=');
    yaml += literal(text.substr(0, equals)) + ": " + unexpanded(text.substr(equals + 1)) + ", ";
  }
  return yaml + "}\n";
}

std::string print(const config::SageMaker& sagemaker) {
  std::string yaml = "sagemaker: {";
  if (!sagemaker.link.empty()) yaml += "link: " + unexpanded(sagemaker.link) + ", ";
  yaml += "hyperparameters: {";
  for (const auto& [name, value] : sagemaker.hyperparameters)
    yaml += literal(name) + ": " + literal(value) + ", ";
  return yaml + "}}\n";
}

std::string print(const std::vector<sweep::Set>& sets) {
  std::string yaml = "[";
  for (const auto& set : sets) yaml += sweep::to_json(set) + ",\n    ";
  return yaml + "]\n";
}

std::string print(const config::Sweep& sweep) {
  return "sweep:\n  parameters: " +
         (sweep.source.empty() ? print(sweep.sets) : unexpanded(sweep.source) + "\n");
}

// The job as the user would have written it without defaults and variables.
std::string print(const Job& job) {
  std::string yaml = "job: " + literal(job.name.view()) + "\n";
  yaml += job.storage.share ? print(*job.storage.share) : print(job.storage);
  if (job.code) {
    yaml += "code:\n  repository: " + unexpanded(job.code->repository) + "\n";
    yaml += "  revision: " + literal(job.code->revision) + "\n";
    if (job.code->token) yaml += "  token: " + literal(describe(*job.code->token)) + "\n";
  }
  yaml += print(job.trainer);
  yaml += "checkpoints: {directory: " + literal(job.checkpoints.directory);
  if (!job.checkpoints.files.empty()) yaml += ", files: " + literal(job.checkpoints.files);
  if (!job.checkpoints.folders.empty()) yaml += ", folders: " + literal(job.checkpoints.folders);
  yaml += "}\n" + print(job.channels);
  if (job.sagemaker) yaml += print(*job.sagemaker);
  if (job.sweep) yaml += print(*job.sweep);
  yaml += "on_failure:\n";
  yaml +=
      "  attempts_without_progress: " + std::to_string(job.on_failure.attempts_without_progress) +
      "\n  then: ";
  yaml += job.on_failure.then == GiveUp::Hold          ? "hold\n"
          : job.on_failure.then == GiveUp::ScaleToZero ? "scale-to-zero\n"
                                                       : "cancel\n";
  yaml += "limits: {";
  if (job.limits.hours) yaml += "hours: " + text(*job.limits.hours) + ", ";
  if (job.limits.dollars) yaml += "dollars: " + text(*job.limits.dollars);
  yaml += "}\n";
  return job.fleet ? yaml + print(*job.fleet) : yaml;
}

// Checks for what would harm the machine or the user if it came through.
void sound(const Job& job) {
  const auto& mount = job.storage.mount();
  const auto& share = job.storage.share;
  const bool folder = share && share->kind == Share::Kind::Folder;
  if (share) {
    must(share->server.empty() || share->server[0] != '-', "a mount tool takes it for no option");
    must(share->options.find("StrictHostKeyChecking") == mount.npos, "keys are checked");
  }
  must(folder || mount.size() > 1, "nothing is mounted over all");
  must(mount[0] == '/' && mount != "/etc", "the mount is a place of its own");
  must((mount + "/").find("/../") == mount.npos, "and stays there");
  for (const config::DataVolume& data : job.storage.data) {
    must(!share && data.mount.size() > 1 && data.mount[0] == '/', "data has a place of its own");
    must(!(mount + "/").starts_with(data.mount + "/"), "and it is not around the state's");
  }
  if (job.code) {
    must(job.code->revision.size() == 40, "the commit is pinned");
    must(job.code->repository[0] != '-', "git takes the repository for no option");
  }
  for (const auto& variable : job.trainer.env) {
    must(!variable.first.starts_with("SPOTTER_") && variable.first != "NOTIFY_SOCKET",
         "Spotter's own variables are its own");
    must(!job.trainer.secrets.contains(variable.first), "a variable has one value");
  }
}

void check(const std::vector<Problem>& problems) {
  must(!problems.empty(), "a refusal has a reason");
  const auto before = [](const Problem& a, const Problem& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  };
  must(std::ranges::is_sorted(problems, before), "mistakes are reported in the file's order");
  for (const Problem& problem : problems) {
    must(problem.line >= 0 && problem.column >= 0 && !problem.message.empty(), "with a place");
  }
}

void small_languages(std::string_view bytes) {
  const auto environment = parse_python_environment(bytes);
  if (environment) {
    must(parse_python_environment(to_text(*environment)) == *environment, "printed it is the same");
  }
  const auto reference = parse_secret_reference(bytes);
  if (reference) {
    must(parse_secret_reference(describe(*reference)) == *reference, "printed it is the same");
  } else {
    must(reference.error().message.starts_with("a secret is not written here"),
         "what may be a secret is not repeated");
  }
}

void sweeps(std::string_view bytes) {
  if (const auto sets = parse_sets(bytes)) {
    const std::string printed = print(*sets);
    const auto again = parse_sets(printed);
    must(again.has_value() || printed.size() > sets_size_limit, "a list printed is a list");
    must(!again || print(*again) == printed, "and the same one");
  } else {
    check(sets.error());
  }
  if (const auto summary = sweep::parse_summary(bytes)) {
    const std::string printed = sweep::to_json(*summary);
    const auto again = sweep::parse_summary(printed);
    must(again && sweep::to_json(*again) == printed, "a summary printed reads the same");
  }
  if (const auto claim = sweep::parse_claim(bytes)) {
    must(sweep::parse_claim(sweep::to_json(*claim)) == *claim, "a claim printed is the same");
  }
}

}  // namespace

void examine(std::string_view bytes) {
  small_languages(bytes);
  sweeps(bytes);
  const auto job = parse_job(bytes, as_root);
  if (!job) return check(job.error());
  sound(*job);
  const std::string printed = print(*job);
  const auto again = parse_job(printed, as_root);
  must(again.has_value(), "a job printed is a job");
  must(print(*again) == printed, "and the same one");
}

}  // namespace spotter::fuzz
