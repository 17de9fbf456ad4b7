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
  if (!in_folders()) co_return Result<void>();
  auto preparing = local_.prepare_share(policy_.prepare_share);
  const decide::Happening answer = co_await std::move(preparing);
  const auto* failed = std::get_if<decide::EffectFailed>(&answer);
  if (failed != nullptr) co_return failure(failed->detail.str());
  co_return Result<void>();
}

sweep::Owner Attempts::owner() const {
  const std::string storage = config::storage_name(job_);
  // With a volume for each experiment, no other job has the tag by which volumes are found; and a
  // bucket's prefix has one home of a name.
  return {in_folders() ? local_.home_id() : storage, storage};
}

asio::awaitable<void> Attempts::release_storage() {
  if (!in_folders()) co_return;
  auto releasing = local_.release_share(policy_.release_share);
  co_await std::move(releasing);
}

asio::awaitable<Result<std::string>> Attempts::find_parent(sweep::FindParent ask) {
  if (!in_folders()) co_return std::string();
  auto finding = local_.find_parent(home(ask.index), ask.token, policy_.look);
  co_return co_await std::move(finding);
}

asio::awaitable<Result<std::string>> Attempts::begin(sweep::Begin begin) {
  if (!in_folders()) co_return std::string();
  auto copying = local_.begin_attempt(home(begin.index), attempt_name(begin.token), begin.parent,
                                      policy_.verify);
  co_return co_await std::move(copying);
}

asio::awaitable<Result<std::string>> Attempts::publish(sweep::Published published) {
  if (!in_folders() || !published.done) co_return std::string();
  auto linking =
      local_.publish_attempt(home(published.index), attempt_name(published.token), policy_.ledger);
  co_return co_await std::move(linking);
}

std::optional<std::string> Attempts::home_in_bucket(std::size_t index) const {
  auto home = job_.kept_at();
  if (!home) return std::nullopt;
  if (job_.sweep) home->key += std::to_string(index) + "/";
  return wire::to_url(*home);
}

asio::awaitable<void> Attempts::end(sweep::Begin begun) {
  const auto home = home_in_bucket(begun.index);
  if (!home) co_return;
  auto asking = local_.sum_up({.path = job_.storage.mount() + "/" + job_.folder_in_turn(),
                               .index = begun.index,
                               .token = begun.token,
                               .copy_of = *home},
                              policy_.ledger);
  const auto text = co_await std::move(asking);
  if (text) read_[begun.index] = {begun.token, *text};
}

// What a copy here says of an experiment that was ended elsewhere may be old.
asio::awaitable<std::string> Attempts::sum_up(sweep::Published published) {
  Result<std::string> text = std::string();
  if (const auto read = read_.extract(published.index);
      !read.empty() && read.mapped().token == published.token)
    text = std::move(read.mapped().text);
  if (in_folders()) {
    auto asking = local_.sum_up({.path = home(published.index),
                                 .index = published.index,
                                 .token = published.token,
                                 .copy_of = {}},
                                policy_.ledger);
    text = co_await std::move(asking);
  }
  auto summary = text ? sweep::parse_summary(*text) : tl::unexpected(text.error());
  const bool done = summary && summary->state == sweep::Summary::State::Done;
  if (!summary || (published.done && !done && !in_folders())) co_return "";
  // The copy is another's soon.
  if (!summary->model.empty() && !in_folders())
    if (const auto home = home_in_bucket(published.index)) summary->model = *home;
  if (published.index < sets_.size()) summary->parameters = sets_[published.index];
  if (!published.done) summary->state = sweep::Summary::State::Failed;
  co_return sweep::to_json(*summary);
}

}  // namespace spotter
