#include "agent/wire/ledger.hpp"

#include <algorithm>
#include <limits>

#include "agent/base/record.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t known_ledger = 1;

// The file's fields beside the core's ledger.
struct Beside {
  static constexpr std::string_view keys = "failures trainers command";
  std::uint64_t failures = 0, trainers = 0;
  std::string command;
};

// A ledger is stricter than other records (null is damage, and so is what is below 0), and takes
// what is too large or too long as the most that fits. False: damage.
template <class Record>
bool read_fields(Json& object, Record& record) {
  bool whole = true;
  std::string_view left = Record::keys;
  boost::pfr::for_each_field(record, [&]<class Field>(const Field&) {
    const auto at = object.find(take_key(left).name);
    if (at == object.end()) return;
    whole = whole && !at->is_null() && !(at->is_number() && at->template get<double>() < 0);
    if constexpr (HasLimit<Field>) {
      if (at->is_string()) *at = Field(at->template get_ref<const std::string&>()).view();
    } else if constexpr (std::integral<Field> && !std::same_as<Field, bool>) {
      constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<Field>::max());
      whole = whole && at->is_number_unsigned();
      if (whole) *at = std::min(at->template get<std::uint64_t>(), most);
    }
  });
  return whole && read_record(object, record).empty();
}

Result<LedgerFile> ledger_of(Json object) {
  if (!object.is_object()) return failure("it is not a JSON object");
  if (auto newer = wire::newer(object, "version", known_ledger, "the job's ledger"))
    return tl::unexpected(std::move(*newer));
  decide::Ledger ledger;
  Beside beside;
  if (!read_fields(object, ledger) || !read_fields(object, beside))
    return failure("a number, flag or text of it is none");
  for (std::int64_t* const step : {&ledger.newest_step, &ledger.reached})
    if (*step == 0) *step = -1;
  return LedgerFile{ledger, beside.failures, beside.trainers, std::move(beside.command)};
}

}  // namespace

Result<LedgerFile> parse_ledger(std::string_view text) { return ledger_of(parsed_json(text)); }

std::string read_own(const Json& object, LedgerFile& file) {
  auto ledger = ledger_of(object);
  if (!ledger) return " is no ledger: " + ledger.error().message;
  file = *std::move(ledger);
  return {};
}

Json shown_own(const LedgerFile& file) {
  Json object = object_of(file.ledger);
  object.update(object_of(Beside{file.failures, file.trainers, file.command}));
  for (const char* const step : {"newest_step", "reached"})  // in the file 0 means: none
    object[step] = std::max(object[step].get<std::int64_t>(), std::int64_t{0});
  object["version"] = known_ledger;
  return object;
}

std::string to_json(const LedgerFile& file) { return json_text(shown_own(file)); }

}  // namespace spotter::wire
