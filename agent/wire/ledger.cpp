#include "agent/wire/ledger.hpp"
#include "agent/base/json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace spotter::wire {
namespace {

using nlohmann::json;

constexpr std::uint64_t known_ledger = 1;

// Each key with its field, for both directions.
template <class File, class Visit>
void each_field(File& file, const Visit& visit) {
  decide::each_field(file.ledger, visit);
  visit("failures", file.failures);
  visit("trainers", file.trainers);
  visit("command", file.command);
}

template <class Count>
bool read_field(const json& value, Count& count) {
  if (!value.is_number_unsigned()) return false;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<Count>::max());
  count = static_cast<Count>(std::min(value.get<std::uint64_t>(), most));
  return true;
}

// A step. In the file 0 means: none.
bool read_field(const json& value, std::int64_t& step) {
  if (!read_field<std::int64_t>(value, step)) return false;
  if (step == 0) step = -1;
  return true;
}

bool read_field(const json& value, double& amount) {
  if (!value.is_number()) return false;
  amount = value.get<double>();
  return std::isfinite(amount) && amount >= 0;
}

bool read_field(const json& value, bool& flag) {
  if (!value.is_boolean()) return false;
  flag = value.get<bool>();
  return true;
}

// A sentence: a longer one is cut.
bool read_field(const json& value, ShortText<200>& text) {
  if (!value.is_string()) return false;
  text = std::string_view(value.get_ref<const std::string&>());
  return true;
}

bool read_field(const json& value, std::string& text) {
  if (!value.is_string()) return false;
  text = value.get<std::string>();
  return true;
}

template <class Value>
json shown(const Value& value) {
  return value;
}
json shown(const ShortText<200>& text) { return text.view(); }
json shown(const std::int64_t& step) { return static_cast<std::uint64_t>(std::max(step, {})); }

Result<LedgerFile> ledger_of(const json& object) {
  if (!object.is_object()) return failure("it is not a JSON object");
  if (auto newer = wire::newer(object, "version", known_ledger, "the job's ledger"))
    return tl::unexpected(std::move(*newer));
  LedgerFile file;
  bool whole = true;
  each_field(file, [&](const char* name, auto& field) {
    const auto at = object.find(name);
    whole = whole && (at == object.end() || read_field(*at, field));
  });
  if (!whole) return failure("a number, flag or text of it is none");
  return file;
}

}  // namespace

Result<LedgerFile> parse_ledger(std::string_view text) { return ledger_of(parsed_json(text)); }

std::string read_own(const json& object, LedgerFile& file) {
  auto ledger = ledger_of(object);
  if (!ledger) return " is no ledger: " + ledger.error().message;
  file = *std::move(ledger);
  return {};
}

json shown_own(const LedgerFile& file) {
  json object = {{"version", known_ledger}};
  each_field(file, [&](const char* name, const auto& field) { object[name] = shown(field); });
  return object;
}

std::string to_json(const LedgerFile& file) { return json_text(shown_own(file)); }

}  // namespace spotter::wire
