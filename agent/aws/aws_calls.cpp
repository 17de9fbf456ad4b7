#include "agent/aws/aws_calls.hpp"

#include <random>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/asio.hpp"

namespace spotter::command {
namespace {

act::AwsSettings settings_of(const act::Environment& environment, Region region) {
  return {.region = region,
          .environment = environment,
          .seed = std::random_device()(),
          .retry = act::retry_policy(environment)};
}

asio::awaitable<Result<std::optional<wire::Credentials>>> role_of(sense::ImdsClient& imds) {
  auto asking = imds.role_credentials();
  auto answer = co_await std::move(asking);
  if (!answer) co_return failure(answer.error().message);
  co_return std::move(*answer);
}

}  // namespace

sense::ImdsSettings imds_settings(const act::Environment& environment) {
  sense::ImdsSettings settings;
  const std::string endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (!endpoint.empty()) settings.endpoint = endpoint;
  return settings;
}

AwsAccess::AwsAccess(io::HttpClient& http, sense::ImdsClient& imds,
                     const act::Environment& environment, Region region)
    : credentials_(http, environment, [&imds] { return role_of(imds); }),
      client_(http, credentials_, settings_of(environment, region)) {}

namespace {

constexpr Duration limit{60'000};

std::string describe(const CallError& error, const std::string& action) {
  std::string text = action + ": " + error.message;
  if (!error.code.empty()) text += " (" + error.code + ")";
  if (error.unsettled()) text += "; it may have been carried out all the same";
  return text;
}

using Body = asio::awaitable<Result<std::string, CallError>>;

Body begin(act::AwsClient& client, wire::BatchCall call) {
  return client.batch(std::move(call), limit);
}
Body begin(act::AwsClient& client, wire::EfsCall call) {
  return client.efs(std::move(call), limit);
}
Body begin(act::AwsClient& client, wire::Query query) {
  return client.query(std::move(query), limit);
}

struct Parameter {
  std::string name;
};
Body begin(act::AwsClient& client, Parameter it) {
  return client.ssm_parameter(std::move(it.name), limit);
}

struct Quota {
  std::string code;
};
asio::awaitable<Result<double, CallError>> begin(act::AwsClient& client, Quota it) {
  return client.ec2_quota(std::move(it.code), limit);
}

struct OnDemand {
  InstanceType type;
  Region region;
};
asio::awaitable<Result<double, CallError>> begin(act::AwsClient& client, OnDemand it) {
  return client.on_demand_price(std::move(it.type), std::move(it.region), limit);
}

}  // namespace

struct AwsCalls::Parts {
  Parts(act::Environment given, Region region)
      : environment(std::move(given)),
        http(context),
        imds(http, imds_settings(environment)),
        aws(http, imds, environment, region) {}

  act::Environment environment;
  asio::io_context context{1};
  io::HttpClient http;
  sense::ImdsClient imds;
  AwsAccess aws;
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
  auto parts = std::make_unique<Parts>(act::Environment::of_this_process(), region);
  return std::unique_ptr<AwsCalls>(new AwsCalls(std::move(parts)));
}

std::optional<wire::Identity> AwsCalls::here() {
  const auto environment = act::Environment::of_this_process();
  if (environment.get("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  asio::io_context context{1};
  io::HttpClient http(context);
  sense::ImdsClient imds(http, imds_settings(environment));
  using Answer = Result<std::optional<wire::Identity>, CallError>;
  std::optional<Answer> answer;
  auto ask = [](sense::ImdsClient& from, std::optional<Answer>& to) -> asio::awaitable<void> {
    auto asking = from.identity();
    to = co_await std::move(asking);
  };
  auto asking = ask(imds, answer);
  asio::co_spawn(context, std::move(asking), asio::detached);
  while (!answer && context.run_one() > 0) {
  }
  if (!answer || !*answer) return std::nullopt;
  return **answer;
}

const Region& AwsCalls::region() const { return parts_->aws.client().region(); }

wire::WallTime AwsCalls::now() const { return parts_->aws.client().aws_time(); }

template <class T, class Call>
Result<T, CallError> AwsCalls::wait_for(const Call& call, const std::string& action) {
  using Answer = std::optional<Result<T, CallError>>;
  Answer answer;
  auto work = [](act::AwsClient& client, Call what, Answer& to) -> asio::awaitable<void> {
    auto pending = begin(client, std::move(what));
    to = co_await std::move(pending);
  };
  auto running = work(parts_->aws.client(), call, answer);
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
  return wait_for<std::string>(call, call.action);
}

Result<std::string, CallError> AwsCalls::perform(const wire::EfsCall& call) {
  return wait_for<std::string>(call, call.action);
}

Result<std::string, CallError> AwsCalls::perform(const wire::Query& query) {
  return wait_for<std::string>(query, query.action);
}

Result<std::string, CallError> AwsCalls::parameter(const std::string& name) {
  return wait_for<std::string>(Parameter{name}, "GetParameter " + name);
}

Result<double, CallError> AwsCalls::on_demand_price(const InstanceType& type,
                                                    const Region& region) {
  return wait_for<double>(OnDemand{type, region}, "GetProducts " + type.str());
}

Result<double, CallError> AwsCalls::ec2_quota(const std::string& code) {
  return wait_for<double>(Quota{code}, "GetServiceQuota " + code);
}

}  // namespace spotter::command
