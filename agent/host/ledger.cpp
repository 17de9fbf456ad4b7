#include "agent/host/ledger.hpp"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "agent/host/own.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t ledger_limit = 64U << 10;
constexpr std::uint64_t known_ledger = 1;
constexpr const char* ledger_name = "ledger.json";

bool read_count(const json& object, const char* name, std::uint64_t& count) {
  const auto at = object.find(name);
  if (at == object.end()) return true;
  if (!at->is_number_unsigned()) return false;
  count = at->get<std::uint64_t>();
  return true;
}

bool read_amount(const json& object, const char* name, double& amount) {
  const auto at = object.find(name);
  if (at == object.end()) return true;
  if (!at->is_number()) return false;
  amount = at->get<double>();
  return std::isfinite(amount) && amount >= 0;
}

bool read_flag(const json& object, const char* name, bool& flag) {
  const auto at = object.find(name);
  if (at == object.end()) return true;
  if (!at->is_boolean()) return false;
  flag = at->get<bool>();
  return true;
}

Outcome<LedgerRead> set_aside(const io::Beneath& own) {
  const std::string aside = "ledger.damaged-" + std::to_string(std::time(nullptr));
  const auto path = (own.path() / ledger_name).string();
  const auto moved = own.rename(ledger_name, own, aside);
  if (!moved) return fail_errno(moved.error(), "cannot move the damaged " + path + " aside");
  return LedgerRead{{},
                    path + " was damaged; it was moved to " + (own.path() / aside).string() +
                        " and counting starts again from zero"};
}

Outcome<LedgerRead> read_in(const io::Beneath& own) {
  const auto text = own.read(ledger_name, ledger_limit);
  if (!text) {
    if (text.error() == std::errc::no_such_file_or_directory) return LedgerRead{};
    if (text.error() == std::errc::file_too_large) return set_aside(own);
    return fail_errno(text.error(), "cannot read " + (own.path() / ledger_name).string());
  }
  const auto ledger = parse_ledger(*text);
  if (ledger) return LedgerRead{*ledger, {}};
  if (ledger.error().newer)
    return fail("newer-format",
                (own.path() / ledger_name).string() + ": " + ledger.error().message);
  return set_aside(own);
}

}  // namespace

wire::Decoded<Ledger> parse_ledger(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return failure("it is not a JSON object");
  if (auto newer = wire::newer(object, "version", known_ledger, "the job's account")) {
    return tl::unexpected(std::move(*newer));
  }
  Ledger ledger;
  if (!read_flag(object, "done", ledger.done) || !read_flag(object, "running", ledger.running) ||
      !read_flag(object, "speaks", ledger.speaks) ||
      !read_count(object, "attempts_without_progress", ledger.attempts_without_progress) ||
      !read_count(object, "newest_step", ledger.newest_step) ||
      !read_count(object, "starts", ledger.starts) ||
      !read_count(object, "failures", ledger.failures) ||
      !read_count(object, "losses", ledger.losses) ||
      !read_count(object, "releases", ledger.releases) ||
      !read_count(object, "trainers", ledger.trainers) ||
      !read_count(object, "reached", ledger.reached) ||
      !read_count(object, "repeated", ledger.repeated) ||
      !read_amount(object, "stall", ledger.stall) ||
      !read_amount(object, "seconds", ledger.seconds) ||
      !read_amount(object, "dollars", ledger.dollars)) {
    return failure("a number or flag of it is none");
  }
  return ledger;
}

std::string to_json(const Ledger& ledger) {
  return json{{"version", known_ledger},
              {"attempts_without_progress", ledger.attempts_without_progress},
              {"newest_step", ledger.newest_step},
              {"seconds", ledger.seconds},
              {"dollars", ledger.dollars},
              {"starts", ledger.starts},
              {"failures", ledger.failures},
              {"losses", ledger.losses},
              {"releases", ledger.releases},
              {"stall", ledger.stall},
              {"running", ledger.running},
              {"speaks", ledger.speaks},
              {"trainers", ledger.trainers},
              {"reached", ledger.reached},
              {"repeated", ledger.repeated},
              {"done", ledger.done}}
      .dump();
}

Outcome<LedgerRead> read_ledger(const fs::path& mount_point) {
  const auto own = open_own(mount_point);
  if (own) return read_in(*own);
  if (own.error().kind == "not-mounted") return LedgerRead{};
  return tl::unexpected<Failure>(own.error());
}

Outcome<void> write_ledger(const fs::path& mount_point, Ledger ledger) {
  const auto own = open_own(mount_point);
  if (!own) return tl::unexpected<Failure>(own.error());
  const auto before = read_in(*own);
  if (!before) return tl::unexpected<Failure>(before.error());
  const Ledger& old = before->ledger;
  // Of one that was lost while nobody looked no end was ever written.
  const bool started = ledger.running && (!old.running || ledger.losses > old.losses);
  ledger.trainers = old.trainers + (started ? 1 : 0);
  const auto written = own->write(ledger_name, to_json(ledger) + "\n", 0644);
  if (!written)
    return fail_errno(written.error(), "cannot write " + (own->path() / ledger_name).string());
  return {};
}

}  // namespace spotter::act::host
