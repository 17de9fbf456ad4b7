#include "agent/service/sweep/attempts.hpp"

#include "agent/job/storage_name.hpp"
#include "agent/supervise/here.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter {

using sweep::attempt_name;

Attempts::Attempts(const config::Job& job, const decide::Policy& policy,
                   std::vector<sweep::Set> sets, const std::string& run_directory)
    : job_(job),
      policy_(policy),
      sets_(std::move(sets)),
      local_(job, command::own_program(), run_directory) {}

std::string Attempts::home(std::size_t index) const {
  return job_.home() + (job_.sweep ? "/" + std::to_string(index) : "");
}

std::string Attempts::name(std::size_t index) const {
  if (!job_.sweep) return "the job";
  return "experiment " + std::to_string(index) + " of " + std::to_string(sets_.size());
}

asio::awaitable<Result<void>> Attempts::mount_storage() {
  if (!job_.storage.share) co_return Result<void>();
  auto preparing = local_.prepare_share(policy_.prepare_share);
  const decide::Happening answer = co_await std::move(preparing);
  const auto* failed = std::get_if<decide::EffectFailed>(&answer);
  if (failed != nullptr) co_return failure(failed->detail.str());
  co_return Result<void>();
}

sweep::Owner Attempts::owner() const {
  const std::string storage = config::storage_name(job_);
  // With a volume for each experiment, no other job has the tag by which volumes are found.
  return {job_.storage.share ? local_.home_id() : storage, storage};
}

asio::awaitable<void> Attempts::release_storage() {
  if (!job_.storage.share) co_return;
  auto releasing = local_.release_share(policy_.release_share);
  co_await std::move(releasing);
}

asio::awaitable<Result<std::string>> Attempts::find_parent(sweep::FindParent ask) {
  if (!job_.storage.share) co_return std::string();
  auto finding = local_.find_parent(home(ask.index), ask.token, policy_.look);
  co_return co_await std::move(finding);
}

asio::awaitable<Result<std::string>> Attempts::begin(sweep::Begin begin) {
  if (!job_.storage.share) co_return std::string();
  auto copying = local_.begin_attempt(home(begin.index), attempt_name(begin.token), begin.parent,
                                      policy_.verify);
  co_return co_await std::move(copying);
}

asio::awaitable<Result<std::string>> Attempts::publish(sweep::Published published) {
  if (!job_.storage.share || !published.done) co_return std::string();
  auto linking =
      local_.publish_attempt(home(published.index), attempt_name(published.token), policy_.ledger);
  co_return co_await std::move(linking);
}

asio::awaitable<std::string> Attempts::sum_up(sweep::Published published) {
  if (!job_.storage.share) co_return "";
  auto asking =
      local_.sum_up(home(published.index), published.index, published.token, policy_.ledger);
  const auto text = co_await std::move(asking);
  auto summary = text ? sweep::parse_summary(*text) : tl::unexpected(text.error());
  if (!summary) co_return "";
  if (published.index < sets_.size()) summary->parameters = sets_[published.index];
  if (!published.done) summary->state = sweep::Summary::State::Failed;
  co_return sweep::to_json(*summary);
}

}  // namespace spotter
