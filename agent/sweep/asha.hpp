// Early stopping by asynchronous successive halving, with a bucket alone. Li et al., "A System for
// Massively Parallel Hyperparameter Tuning" (arXiv:1810.05934).
//
// An experiment that reports the sweep's objective at a rung is compared with all that came there
// before it. It goes on if it is among the best 1/reduction of them (rounded up, so the first one
// always does), else it ends with what it has: the variant that stops, as Ray Tune's ASHAScheduler.
// The paper's own promotes instead: it pauses each at a rung and resumes the best. That would give
// claims back and take them up again, on other machines, for what one comparison does here; its
// advantage is that nothing goes on only because it came early.
//
//   <prefix>/rungs/<rule>/<rung>/<index>   what became of it there; written once, never changed
//
// So an experiment has one verdict at a rung, whoever writes it: a holder that was interrupted
// behind the rung, its successor (whose training has the same bits), or one that lost its claim.
#pragma once

#include "agent/base/result.hpp"
#include "agent/config/parameters.hpp"
#include "agent/io/asio.hpp"

namespace spotter::sweep {

// The highest rung at or before that step; none before the first one, at the end, or where neither
// `first` nor the trainer says where the rungs are.
std::optional<std::uint32_t> rung_at(const Asha& rule, std::uint64_t step,
                                     std::optional<std::uint64_t> steps_total);

// `better` of the `compared` experiments at a rung are better than this one, which counts, too.
bool goes_on(const Asha& rule, std::size_t better, std::size_t compared);

struct RungRecord {
  static constexpr std::string_view keys = "step! metric value! better! compared! goes_on!";
  std::uint64_t step = 0;  // of the report, at the rung or soon after it
  std::string metric;
  double value = 0;
  std::size_t better = 0, compared = 1;  // when it came
  bool goes_on = true;
  bool operator==(const RungRecord&) const = default;
};

std::string to_json(const RungRecord& record);
// Fails for what is no record, and for a later `version`.
Result<RungRecord> parse_rung_record(std::string_view json);

// "rungs/val_accuracy-max-500-3/": with another rule or objective nothing is compared.
std::string rungs_folder(const Asha& rule, const Objective& objective);
// Within it: "2/00042"; "2/" is what all of that rung begin with.
std::string rung_folder(std::uint32_t rung);
std::string rung_name(std::uint32_t rung, std::size_t index);

// The place of the records: S3, or a test's bucket. Names as above. A failure says nothing of what
// is there.
class RungStore {
 public:
  template <class Value>
  using Answer = asio::awaitable<Result<Value>>;

  virtual ~RungStore() = default;
  virtual Answer<std::optional<std::string>> read(std::string name) = 0;
  virtual Answer<std::vector<std::string>> list(std::string folder) = 0;
  // False: there is one already, which stays as it is.
  virtual Answer<bool> write_once(std::string name, std::string text) = 0;
};

struct Measured {
  std::size_t index = 0;
  std::uint32_t rung = 0;    // reached now
  std::uint32_t judged = 0;  // rungs below this one are settled, as far as the caller knows
  std::uint64_t step = 0;
  double value = 0;
};

// With more at a rung a sample of them is compared: each is an object to be read.
inline constexpr std::size_t most_compared = 300;

// The verdict at `measured.rung`, or the earlier one that ended it. A verdict that is there is
// returned, else made and recorded. Fails when the store does not answer: nothing is decided then,
// and the same may be asked again.
asio::awaitable<Result<RungRecord>> settle(RungStore& store, Asha rule, Objective objective,
                                           Measured measured);

// Why it ended, for a person. REQUIRES: !record.goes_on.
std::string why_stopped(const Asha& rule, const RungRecord& record);

}  // namespace spotter::sweep
