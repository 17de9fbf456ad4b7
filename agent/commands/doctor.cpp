#include "agent/commands/doctor.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/aws/settings/credentials.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/machines.hpp"

namespace spotter::command {
namespace {

const char* word(Verdict verdict) {
  constexpr const char* words[] = {"ok", "warn", "fail"};
  return words[static_cast<int>(verdict)];
}

Finding name(const Result<wire::CallerIdentity, CallError>& who, const Region& region) {
  if (who)
    return {"credentials", Verdict::Ok,
            who->arn + ", account " + who->account + ", region " + region.str(), ""};
  // A source that is named, and has none, says itself what to do.
  const bool none = who.error().message.find(act::no_credentials) != std::string::npos;
  return {
      "credentials", Verdict::Fail, who.error().message,
      none ? "give this machine credentials: `aws configure`, AWS_PROFILE, or an instance profile"
           : ""};
}

// The session of an instance's role is named after the instance.
bool is_instance(const wire::CallerIdentity& who) {
  const auto slash = who.arn.rfind('/');
  return who.arn.find(":assumed-role/") != std::string::npos &&
         std::string_view(who.arn).substr(slash + 1).starts_with("i-");
}

struct DoctorOptions {
  std::string job = "job.yaml";
  bool json = false;
  DoctorScope scope;
};

// All checks that are possible from here. With an instance's role it also checks the machine.
Findings examine_as(const Result<wire::CallerIdentity, CallError>& who, AwsCalls& calls,
                    const config::Job& job, const DoctorScope& scope) {
  Findings findings{name(who, calls.region())};
  const bool here = who && is_instance(*who);
  if (who) {
    append(findings, examine_storage(calls, job, scope));
    // An instance checks only itself; its role need not know about other places.
    append(findings, here ? examine_permissions(calls, job) : examine_places(calls, job, scope));
    if (!here) append(findings, examine_file_system(calls, job, scope));
    append(findings, examine_buckets(job, here));
    if (!here && job.sweep && job.sweep->batch)
      append(findings, examine_room(calls, *job.sweep->batch));
    append(findings, examine_policies(*who, calls.region(), job));
    append(findings, examine_batch(job));
  }
  append(findings, examine_code(calls, job, here));
  if (here) append(findings, examine_trainers_role(calls, job));
  if (here) append(findings, examine_machine(job));
  return findings;
}

// Checks for what a launch needs in the other places, too: image, types, quotas.
Findings examine_other_places(const LaunchedJob& launched) {
  Findings all;
  if (launched.job.launch->places.size() < 2) return all;
  const auto places = places_of(launched.job);
  if (!places) return {{"places", Verdict::Fail, places.error().message, ""}};
  for (std::size_t i = 1; i < places->size(); ++i) {
    const JobPlace& it = (*places)[i];
    Findings findings = examine_machines(*it.calls, it.job, launched.packages);
    append(findings, examine_launching(*it.calls, launched_at(launched, it.job, true)));
    for (Finding& each : findings) each.check += " in " + it.calls->region().str();
    append(all, std::move(findings));
  }
  return all;
}

// Options of the command line replace values of `launch:`.
Findings examine(AwsCalls& calls, config::Job job, const DoctorOptions& options) {
  if (job.launch) (void)name_zones(calls, *job.launch);  // an id that is left fails as a zone
  DoctorScope scope = scope_of(job);
  if (!options.scope.types.empty()) scope.types = options.scope.types;
  if (!options.scope.zones.empty()) scope.zones = options.scope.zones;
  if (!options.scope.subnets.empty()) scope.subnets = options.scope.subnets;
  const auto who = calls.ask(wire::GetCallerIdentity{});
  if (!job.launch || !who || is_instance(*who)) return examine_as(who, calls, job, scope);
  auto launched = launched_job(options.job);
  const bool packed = launched && launched->code;  // once: it may take a while
  if (packed) job.code = launched->job.code;
  Findings findings = examine_as(who, calls, job, scope);
  if (packed) append(findings, examine_archive(*launched->code, job.code->folder));
  append(findings, examine_watchers(job));
  if (launched) launched->job.launch = job.launch;
  append(findings,
         examine_machines(calls, job,
                          launched ? launched->packages : std::vector<launch::SentPackage>{}));
  if (launched)
    append(findings, examine_launching(calls, *launched));
  else
    findings.push_back(
        {"user data", Verdict::Fail, launched.error().message, "`spotter launch` will refuse it"});
  if (launched) append(findings, examine_other_places(*launched));
  return findings;
}

Result<int> run(const DoctorOptions& options) {
  const auto job = TRY(job_here(options.job));
  Findings findings;
  const auto calls = calls_in(job.launch ? job.launch->region : "");
  if (calls)
    findings = examine(**calls, job, options);
  else
    findings = {{"credentials", Verdict::Fail, calls.error().message, "set AWS_REGION"}};
  append(findings, examine_shared_memory());
  append(findings, examine_variables(job));
  append(findings, examine_checkpoints(job));
  if (!options.json) {
    std::fputs(describe(findings).c_str(), stdout);
    return status_of(findings);
  }
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const Finding& it : findings)
    document.push_back({{"check", it.check},
                        {"verdict", word(it.verdict)},
                        {"what", it.what},
                        {"advice", it.advice}});
  std::printf("%s\n", wire::json_text(document, 2).c_str());
  return status_of(findings);
}

}  // namespace

Findings without_ok(Findings findings) {
  std::erase_if(findings, [](const Finding& it) { return it.verdict == Verdict::Ok; });
  return findings;
}

bool passes(const Findings& findings) {
  const auto doubts = without_ok(findings);
  if (!doubts.empty()) std::fputs(describe(doubts).c_str(), stderr);
  return status_of(doubts) < 2;
}

int status_of(const Findings& findings) {
  int worst = 0;
  for (const Finding& it : findings) worst = std::max(worst, static_cast<int>(it.verdict));
  return worst;
}

std::string describe(const Findings& findings) {
  std::size_t widest = 0;
  for (const Finding& it : findings) widest = std::max(widest, it.check.size());
  std::string text;
  for (const Finding& it : findings) {
    std::string line = word(it.verdict);
    line.resize(6, ' ');
    line += it.check + std::string(widest - it.check.size() + 2, ' ') + it.what;
    if (!it.advice.empty()) line += ": " + it.advice;
    text += line + "\n";
  }
  return text;
}

void add_doctor(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<DoctorOptions>(
      app, "doctor",
      "Checks that all is there that the job needs, and says what to do about what is not; "
      "exit status 0: it is, 1: there are warnings, 2: the job will not run",
      status, run);
  DoctorScope& scope = options->scope;
  command->add_flag("--json", options->json, "As a list of {check, verdict, what, advice}");
  command->add_option("--types", scope.types, "Instance types to check")->delimiter(',');
  command->add_option("--zones", scope.zones, "Zones in which it may run; default: all")
      ->delimiter(',');
  command->add_option("--subnets", scope.subnets, "Default: each zone's default one")
      ->delimiter(',');
}

}  // namespace spotter::command
