#include "agent/config/deadline.hpp"

#include "agent/config/file.hpp"
#include "agent/config/reader.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

using GivesWay = Deadline::GivesWay;

// RFC 3339, of which the seconds may be left out.
Result<wire::WallTime> parse_moment(std::string_view text) {
  constexpr std::size_t minutes_end = std::string_view("2026-12-04T18:00").size();
  std::string whole(text);
  if (text.size() > minutes_end && text[minutes_end] != ':') whole.insert(minutes_end, ":00");
  if (const auto time = wire::parse_rfc3339(whole)) return *time;
  return failure(in_quotes(text) +
                 " is no time with its zone, such as 2026-12-04T18:00Z or 2026-12-04T18:00+01:00");
}
const Scalar<wire::WallTime> moment{"a time such as 2026-12-04T18:00Z", parse_moment};

const Scalar<GivesWay> gives_way{
    .expected = "deadline or dollars",
    .choices = {{"deadline", GivesWay::Deadline}, {"dollars", GivesWay::Dollars}}};

template <class Target, class T>
void read_key(Reader& reader, const Node* map, const char* key, const std::string& path, Target& to,
              const Scalar<T>& type) {
  const Node* node = map == nullptr ? nullptr : child(*map, key);
  if (node != nullptr) reader.scalar(to, type)(*node, path);
}

void check_when_needed(Reader& reader, const Node& node, const Deadline& deadline, const Job& job) {
  const auto problem = [&](const char* what) {
    reader.problem(node, "launch.on_demand", std::string("when-needed ") + what);
  };
  if (!deadline.is_set())
    problem("needs a deadline: `finish_by: 2026-12-04T18:00Z`, or `within: 36h`");
  if (!deadline.work)
    problem(
        "needs `launch.work`, about how long all of the training takes, such as 40h: by it the "
        "deadline is kept until the job's own pace is known");
  if (!job.publish)
    problem("needs `publish: s3://bucket/prefix`, where `spotter watch` sees what is left to do");
  if (job.launch->capacity > 1 || job.sweep || job.gang)
    problem("is for one instance and one training: no capacity above 1, no sweep and no gang");
}

}  // namespace

Deadline read_deadline(Reader& reader, const Node& root) {
  Deadline deadline;
  const Node* limits = child(root, "limits");
  const Node* launch = child(root, "launch");
  read_key(reader, &root, "finish_by", "finish_by", deadline.finish_by, moment);
  read_key(reader, &root, "within", "within", deadline.within, duration);
  read_key(reader, limits, "gives_way", "limits.gives_way", deadline.gives_way, gives_way);
  read_key(reader, launch, "work", "launch.work", deadline.work, duration);
  read_key(reader, launch, "start", "launch.start", deadline.start, duration);
  return deadline;
}

void check_deadline(Reader& reader, const Node& root, const Deadline& deadline, Job& job) {
  if (deadline.finish_by && deadline.within)
    reader.problem(*child(root, "within"), "within", "finish_by is given, too: which is it?");
  const Node* limits = child(root, "limits");
  const Node* first = limits == nullptr ? nullptr : child(*limits, "gives_way");
  if (first != nullptr && (!deadline.is_set() || !job.limits.dollars))
    reader.problem(*first, "limits.gives_way",
                   "is for a job with both, a deadline (finish_by or within) and limits.dollars");
  if (deadline.gives_way == GivesWay::Dollars) job.limits.dollars.reset();
  const Node* launch = child(root, "launch");
  if (launch != nullptr && job.launch && job.launch->on_demand.when == OnDemand::When::WhenNeeded)
    check_when_needed(reader, *launch, deadline, job);
}

Result<Deadline> load_deadline(const std::string& path) {
  const auto text = TRY(behind(path, read_small_file(path, job_size_limit)));
  const auto root = parse_yaml(text.content);
  std::vector<Problem> problems = root ? std::vector<Problem>() : root.error();
  if (root) {
    const Environment environment;
    Reader reader(environment, problems);
    Deadline deadline = read_deadline(reader, *root);
    const Node* limits = child(*root, "limits");
    read_key(reader, limits, "dollars", "limits.dollars", deadline.dollars, positive_number);
    if (problems.empty()) return deadline;
  }
  return failure(describe(problems, path));
}

}  // namespace spotter::config
