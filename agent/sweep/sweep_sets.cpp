#include "agent/sweep/sweep_sets.hpp"

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/config/sweep.hpp"

namespace spotter::command {
namespace {

bool is_passing(s3::Failure::Kind kind) {
  using enum s3::Failure::Kind;
  return kind == Unavailable || kind == NoCredentials || kind == Corrupt;
}

}  // namespace

Result<std::vector<sweep::Set>, config::Problem> sets_of(const config::Job& job) {
  const std::string& source = job.sweep->source;
  if (source.empty()) return job.sweep->sets;
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto text = s3::read(client, *wire::parse_s3_url(source));
  if (!text) {
    return tl::unexpected(config::Problem{.message = "sweep.parameters: " + text.error().text(),
                                          .passing = is_passing(text.error().kind)});
  }
  auto sets = config::read_sets(text->bytes, source, job.trainer);
  if (!sets) return tl::unexpected(config::Problem{.message = sets.error().message});
  return std::move(*sets);
}

}  // namespace spotter::command
