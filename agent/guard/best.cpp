#include "agent/guard/best.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "agent/base/record.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t best_limit = 64U << 10;

double seconds(Best::Clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

std::string shortened(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.begin(), text.end(), value, std::chars_format::general, 6).ptr;
  return {text.begin(), end};
}

bool is_better(const BestRule& rule, double value, double than) {
  return rule.largest_is_best ? value > than : value < than;
}

}  // namespace

std::string encode(const BestRecord& record) {
  auto object = wire::object_of(record);
  object["format"] = 1;
  return seal(std::move(object));
}

std::optional<BestRecord> decode_best(std::string_view bytes) {
  const auto object = unseal(bytes);
  BestRecord record;
  if (!object || object->value("format", nlohmann::json()) != 1 ||
      !wire::read_record(*object, record).empty())
    return std::nullopt;
  const bool plain = !record.kept.empty() && record.kept.find('/') == std::string::npos &&
                     record.kept != "." && record.kept != "..";
  return plain ? std::optional(std::move(record)) : std::nullopt;
}

Best::Best(const Keeper& keeper, std::optional<BestRule> rule, Values values,
           Clock::time_point began)
    : keeper_(keeper), rule_(std::move(rule)), values_(std::move(values)), began_(began) {
  for (const Generation& one : keeper_.record().generations) {
    const Clock::time_point finished{std::chrono::seconds(one.time)};
    if (!one.name.empty() && finished >= began_) offer(one.name, finished);
  }
}

void Best::offer(const std::string& name, Clock::time_point finished) {
  if (!rule_ || !has_weights(name)) return;
  std::erase_if(offered_, [&name](const Offered& one) { return one.name == name; });
  offered_.push_back({name, finished});
}

// A few settings, or a list, beside something larger are none.
bool Best::has_weights(const std::string& name) const {
  const Record& record = keeper_.record();
  std::uint64_t bytes = 0;
  for (const Part& part : record.parts_of(name)) bytes += part.bytes;
  return bytes > companion_limit ||
         std::ranges::none_of(record.rows_of(record.newest_number()), [](const Row* row) {
           return !row->companion && !row->grows && row->bytes > companion_limit;
         });
}

std::optional<milliseconds> Best::wait(Clock::time_point now) const {
  if (offered_.empty()) return std::nullopt;
  const auto next = std::ranges::min_element(offered_, {}, &Offered::finished)->finished + moment;
  return std::clamp(std::chrono::ceil<milliseconds>(next - now), milliseconds(0), moment);
}

std::vector<Best::Word> Best::look(Clock::time_point now, bool all, const Stopped& stopped) {
  std::vector<Word> words;
  for (const Offered& one : std::exchange(offered_, {})) {
    const bool early = !all && now < one.finished + moment;
    auto said = early || (stopped && stopped()) ? std::nullopt : consider(one, stopped);
    if (early || (stopped && stopped())) {
      offered_.push_back(one);
    } else if (said) {
      words.push_back(*std::move(said));
    }
  }
  return words;
}

std::optional<supervise::ReportedValue> Best::value_of(const Offered& one) const {
  const supervise::ReportedValues values = values_();
  // The digits of a file's name may be anything's: yolov3.pt.
  const auto parts = keeper_.record().parts_of(one.name);
  const bool folder = !(parts.size() == 1 && parts.front().name == one.name);
  const auto number = folder ? step_in(one.name) : std::nullopt;
  std::optional<supervise::ReportedValue> last;
  std::optional<supervise::ReportedValue> of_step;
  for (const auto& each : values.all()) {
    if (each.time < seconds(began_) || !std::isfinite(each.value)) continue;
    const bool in_time = each.time <= seconds(one.finished + moment);
    if (in_time) last = each;
    if (number && each.step == *number) of_step = each;
  }
  return of_step ? of_step : last;
}

std::optional<Best::Word> Best::consider(const Offered& one, const Stopped& stopped) {
  const auto value = value_of(one);
  const std::vector<Part> parts = keeper_.record().parts_of(one.name);
  const auto own = keeper_.place().own();
  if (!value || parts.empty() || !own) return std::nullopt;
  const auto text = own->read(best_name, best_limit);
  const auto before = text ? decode_best(*text) : std::nullopt;
  const bool none = !text && text.error() == std::errc::no_such_file_or_directory;
  // The best copy so far is then not known, and none may be removed.
  if (!before && !none)
    return trouble(keeper_.place().shown_own(best_name).string() +
                   " cannot be read, or a newer Spotter wrote it: no best checkpoint is kept until "
                   "it and the folder best beside it are moved away");
  const std::string mode = rule_->largest_is_best ? "max" : "min";
  const bool same = before && before->metric == rule_->metric && before->mode == mode;
  if (same && !is_better(*rule_, value->value, before->value)) return std::nullopt;
  const std::string of = keeper_.place().shown(one.name) + " is the best so far by " +
                         rule_->metric + " (" + shortened(value->value) + " at step " +
                         std::to_string(value->step) + ")";
  const std::string sum = parts.size() == 1 ? parts.front().sum : sum_of_parts(parts);
  BestRecord record{rule_->metric, mode, value->value, value->step, one.name, sum.substr(0, 8)};
  record.kept += "-" + last_component(one.name);
  const std::string kept = (keeper_.place().shown_own(best_directory) / record.kept).string();
  const auto done = keep(parts, record, before, stopped);
  if (done) return Word{of + ": kept as " + kept, false};
  return trouble(of + ", and is not kept: " + done.error().message);
}

// The same once.
std::optional<Best::Word> Best::trouble(const std::string& words) {
  return std::exchange(last_trouble_, words) == words ? std::nullopt : std::optional(Word{words});
}

// The new one is whole and durable before the record names it, and the old one stays until then.
Result<void> Best::keep(const std::vector<Part>& parts, const BestRecord& record,
                        const std::optional<BestRecord>& before, const Stopped& stopped) const {
  const auto own = keeper_.place().own();
  const auto to = keeper_.place().own(best_directory);
  if (!own || !to) return failure("cannot use " + std::string(best_directory));
  std::size_t left = removals_limit;
  const auto clear_but = [&](const std::string& kept) {
    const auto names = to->names();
    for (const std::string& name : names ? *names : std::vector<std::string>())
      if (name != kept) remove_any(*to, name, left);
  };
  // A guard that was killed here left these copies. Without a record nobody knows which is whole.
  if (before) clear_but(before->kept);
  const bool same = before && record.kept == before->kept;  // these bytes: the value is better
  if (auto copied = same ? Result<void>() : copy(parts, record.name, *to, record.kept, stopped);
      !copied) {
    remove_any(*to, record.kept, left);
    return copied;
  }
  if (const auto written = own->write(best_name, encode(record), 0644); !written)
    return failure("cannot write " + (own->path() / best_name).string() + ": " +
                   written.error().message());
  clear_but(record.kept);
  return {};
}

// Only what has the recorded sum is called that checkpoint: its trainer may write to it, or remove
// it, meanwhile. The kept content is nobody's to change.
Result<void> Best::copy(const std::vector<Part>& parts, const std::string& name,
                        const SafeDirectory& to, const std::string& as,
                        const Stopped& stopped) const {
  const Place& place = keeper_.place();
  const bool file = parts.size() == 1 && parts.front().name == name;
  const auto folder = file ? to.folder("") : to.make_folder(as, 0755);
  if (!folder) return failure("cannot make its folder: " + folder.error().message());
  for (const Part& part : parts) {
    const std::string path = file ? name : name + "/" + part.name;
    const Row* row = keeper_.record().row(path);
    const auto kept = place.own(kept_directory);
    const Descriptor opened = row != nullptr && !row->kept.empty() && kept
                                  ? kept->file(row->kept, O_RDONLY).value_or(Descriptor())
                                  : place.open(path, O_RDONLY);
    struct stat status {};
    if (!opened || ::fstat(opened.get(), &status) != 0)
      return failure(part.name + " is not there any more, or cannot be read");
    if (!place.is_trainers(status)) return failure(part.name + " " + std::string(has_other_name));
    const std::string new_name = file ? as : part.name;
    const auto above = make_above(*folder, new_name);
    if (!above) return failure("cannot make its folders: " + above.error().message());
    const std::string last = last_component(new_name);
    TRY(copy_file(opened.get(), status, *above, last, stopped));
    const auto copied = above->file(last, O_RDONLY);
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    const auto its = copied ? sum_of_file(copied->get(), bytes, stopped) : Result<std::string>("");
    if (!its || *its != part.sum) return failure(part.name + " was changed meanwhile");
    if (!above->sync()) return failure("cannot make it durable");
  }
  if (!folder->sync() || !to.sync()) return failure("cannot make it durable");
  return {};
}

}  // namespace spotter::guard
