#include "agent/aws/aws_calls.hpp"

#include <random>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/asio.hpp"

namespace spotter::command {

act::AwsSettings aws_settings(const act::Environment& environment, const Region& region) {
  return {.region = region,
          .environment = environment,
          .seed = std::random_device()(),
          .retry = act::retry_policy(environment)};
}

sense::ImdsSettings imds_settings(const act::Environment& environment) {
  sense::ImdsSettings settings;
  const std::string endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (!endpoint.empty()) settings.endpoint = endpoint;
  return settings;
}

namespace {

constexpr Duration limit{60'000};

std::string describe(const CallError& error, const std::string& action) {
  std::string text = action + ": " + error.message;
  if (!error.code.empty()) text += " (" + error.code + ")";
  if (error.unsettled()) text += "; it may have been carried out all the same";
  return text;
}

}  // namespace

struct AwsCalls::Parts {
  explicit Parts(act::AwsSettings settings) : client(http, std::move(settings)) {}

  asio::io_context context{1};
  io::HttpClient http{context};
  act::AwsClient client;
};

AwsCalls::AwsCalls(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
AwsCalls::~AwsCalls() = default;

Result<std::unique_ptr<AwsCalls>> AwsCalls::open() {
  const auto environment = act::Environment::of_this_process();
  Region region = act::configured_region(environment);
  if (region.empty())
    if (const auto instance = here()) region = instance->region;
  if (region.empty())
    return failure("no region is known: set AWS_REGION, or `region` in ~/.aws/config");
  return open(region);
}

std::unique_ptr<AwsCalls> AwsCalls::open(const Region& region) {
  auto parts = std::make_unique<Parts>(aws_settings(act::Environment::of_this_process(), region));
  return std::unique_ptr<AwsCalls>(new AwsCalls(std::move(parts)));
}

std::optional<wire::Identity> AwsCalls::here() {
  const auto environment = act::Environment::of_this_process();
  if (act::is_set(environment, "AWS_EC2_METADATA_DISABLED")) return std::nullopt;
  asio::io_context context{1};
  io::HttpClient http(context);
  sense::ImdsClient imds(http, imds_settings(environment));
  using Answer = Result<std::optional<wire::Identity>, CallError>;
  std::optional<Answer> answer;
  auto ask = [](sense::ImdsClient& from, std::optional<Answer>& to) -> asio::awaitable<void> {
    to = co_await from.identity();
  };
  auto asking = ask(imds, answer);
  asio::co_spawn(context, std::move(asking), asio::detached);
  while (!answer && context.run_one() > 0) {
  }
  if (!answer || !*answer) return std::nullopt;
  return **answer;
}

const Region& AwsCalls::region() const { return parts_->client.region(); }

wire::WallTime AwsCalls::now() const { return parts_->client.aws_time(); }

template <class T, class Call>
Result<T, CallError> AwsCalls::wait_for(const Call& call, const std::string& action) {
  using Answer = std::optional<Result<T, CallError>>;
  Answer answer;
  auto work = [](act::AwsClient& client, const Call& begin, Answer& to) -> asio::awaitable<void> {
    to = co_await begin(client);
  };
  auto running = work(parts_->client, call, answer);
  asio::co_spawn(parts_->context, std::move(running), asio::detached);
  parts_->context.restart();
  while (!answer && parts_->context.run_one() > 0) {
  }
  if (!answer)
    return tl::unexpected(
        CallError{.kind = CallError::Kind::Unknown, .message = action + ": no answer"});
  if (*answer) return std::move(**answer);
  CallError error = std::move(answer->error());
  error.message = describe(error, action);
  return tl::unexpected(std::move(error));
}

Result<std::string, CallError> AwsCalls::perform(const wire::BatchCall& call) {
  return wait_for<std::string>([&](auto& aws) { return aws.batch(call, limit); }, call.action);
}

Result<std::string, CallError> AwsCalls::perform(const wire::EfsCall& call) {
  return wait_for<std::string>([&](auto& aws) { return aws.efs(call, limit); }, call.action);
}

Result<std::string, CallError> AwsCalls::perform(const wire::Query& query) {
  return wait_for<std::string>([&](auto& aws) { return aws.query(query, limit); }, query.action);
}

Result<std::string, CallError> AwsCalls::parameter(const std::string& name) {
  return wait_for<std::string>([&](auto& aws) { return aws.ssm_parameter(name, limit); },
                               "GetParameter " + name);
}

Result<double, CallError> AwsCalls::on_demand_price(const InstanceType& type,
                                                    const Region& region) {
  return wait_for<double>([&](auto& aws) { return aws.on_demand_price(type, region, limit); },
                          "GetProducts " + type.str());
}

Result<double, CallError> AwsCalls::ec2_quota(const std::string& code) {
  return wait_for<double>([&](auto& aws) { return aws.ec2_quota(code, limit); },
                          "GetServiceQuota " + code);
}

}  // namespace spotter::command
