#include "agent/tools/gang/gang_reporter.hpp"

#include <chrono>
#include <cstdlib>

#include "agent/supervise/run_directory.hpp"
#include "agent/tools/gang/gang_copies.hpp"
#include "agent/wire/gang_report.hpp"

namespace spotter::command {
namespace {

constexpr Duration again_every{10'000};
// An agent that takes nothing just now gets the next one.
constexpr std::chrono::milliseconds patience_with_the_agent{5};

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

wire::GangReport report_of(const gang::Account& account, const gang::Accountant& accountant) {
  wire::GangReport report{.members = account.members.size(),
                          .machines = account.machines,
                          .round = account.round,
                          .leader = account.leader,
                          .waits_for = account.waits_for,
                          .rounds = account.rounds,
                          .trained = seconds_of(accountant.trained()),
                          .between = seconds_of(accountant.between())};
  for (const auto& [name, does] : account.members)
    report.by_name.push_back({name, std::string(gang::to_text(does))});
  if (account.rounds == 0) return report;
  report.why = gang::to_text(account.why);
  report.who = account.who;
  report.took = seconds_of(account.took);
  return report;
}

}  // namespace

GangReporter::GangReporter() {
  if (const char* socket = std::getenv("NOTIFY_SOCKET"); socket != nullptr) socket_ = socket;
}

void GangReporter::report(Time now, const gang::Participant& participant, bool asks) {
  const gang::Account& account = accountant_.look(now, participant, asks);
  if (socket_.empty()) return;
  const bool due = !said_at_ || now - *said_at_ >= again_every;
  if (!due && account == said_) return;
  said_ = account;
  said_at_ = now;
  wire::GangReport report = report_of(account, accountant_);
  report.hung = hung_;
  if (const GangCopy copy = newest_copy(copies_); copy.machines > 0) {
    report.copy_step = static_cast<std::uint64_t>(copy.step);
    report.copy_machines = copy.machines;
  }
  const std::string lines = wire::to_lines(report);
  (void)supervise::send_datagram(socket_, lines, patience_with_the_agent);
}

}  // namespace spotter::command
