#include "agent/aws/formats/services.hpp"

#include <array>

#include "agent/aws/formats/ec2_xml.hpp"
#include "agent/aws/formats/partition.hpp"
#include "agent/base/record.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

// It must begin with a letter, a digit or a mark, and have no line break: else SNS refuses it all.
std::string plain(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string subject;
  for (const char each : text.substr(0, longest))
    subject += each >= ' ' && each <= '~' ? each : '?';
  return subject;
}

// The region of an ARN: us-west-2 of arn:aws:sns:us-west-2:123456789012:training.
Region region_of(std::string_view arn) {
  for (int field = 0; field < 3; ++field) arn.remove_prefix(arn.find(':') + 1);
  return Region(arn.substr(0, arn.find(':')));
}

// Nothing: it is none in dollars, or nothing is to be paid.
std::optional<double> dollars_of(const Json& dimension) {
  if (!dimension.is_object() || text_field(dimension, "unit") != "Hrs") return std::nullopt;
  const std::string text = text_field(object_field(dimension, "pricePerUnit"), "USD");
  const auto dollars = number_of_text<double>(text);
  return dollars && *dollars > 0 ? dollars : std::nullopt;
}

// A product is a document of its own, as a text: terms.OnDemand.<offer>.priceDimensions.<rate>.
void find_prices(const Json& product, std::optional<double>& lowest) {
  for (const Json& offer : object_field(object_field(product, "terms"), "OnDemand")) {
    if (!offer.is_object()) continue;
    for (const Json& dimension : object_field(offer, "priceDimensions"))
      if (const auto dollars = dollars_of(dimension); dollars && (!lowest || *dollars < *lowest))
        lowest = dollars;
  }
}

// Quotas that count for instances of these families, on the spot market and on demand. A name with
// a number is of that generation alone.
struct Quotas {
  std::string_view families;
  InstanceQuota spot, on_demand;
};
constexpr InstanceQuota running_p{"L-417A185B", "Running On-Demand P instances"};
constexpr Quotas quotas[] = {
    {"a c d h i m r t z im is",
     {"L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"},
     {"L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"}},
    {"dl",
     {"L-85EED4F7", "All DL Spot Instance Requests"},
     {"L-6E869C2A", "Running On-Demand DL instances"}},
    {"f",
     {"L-88CF9481", "All F Spot Instance Requests"},
     {"L-74FC7D96", "Running On-Demand F instances"}},
    {"g gr vt",
     {"L-3819A6DF", "All G and VT Spot Instance Requests"},
     {"L-DB2E81BA", "Running On-Demand G and VT instances"}},
    {"inf",
     {"L-B5D1601B", "All Inf Spot Instance Requests"},
     {"L-1945791B", "Running On-Demand Inf instances"}},
    {"p2 p3 p4", {"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"}, running_p},
    {"p5", {"L-C4BD4855", "All P5 Spot Instance Requests"}, running_p},
    {"trn",
     {"L-6B0D517C", "All Trn Spot Instance Requests"},
     {"L-2C3B7624", "Running On-Demand Trn instances"}},
    {"x",
     {"L-E3A00192", "All X Spot Instance Requests"},
     {"L-7295265B", "Running On-Demand X instances"}}};

const Quotas* quotas_of(std::string_view instance_type) {
  const auto letters = instance_type.substr(0, instance_type.find_first_of("0123456789"));
  const auto with_generation = instance_type.substr(0, letters.size() + 1);
  for (const Quotas& each : quotas)
    if (is_among(letters, each.families) || is_among(with_generation, each.families)) return &each;
  return nullptr;
}

// JSON 1.1, of an action that only reads. `region`: empty: the client's.
HttpCall json_call(const char* service, const char* target, const Json& body, std::string subject,
                   std::string_view region = {}) {
  const std::string action(target);
  return {.service = service,
          .action = action.substr(action.find('.') + 1),
          .headers = {{"Content-Type", "application/x-amz-json-1.1"}, {"X-Amz-Target", target}},
          .body = json_text(body),
          .region = Region(region),
          .subject = std::move(subject)};
}

// Its words never quote a value.
template <class Record>
Result<Record> answer_of(std::string_view json, const char* action) {
  const auto document = parse_json_object(json);
  if (!document) return failure("the answer of " + std::string(action) + " is no JSON object");
  Record record;
  const Wrong wrong = read_record(*document, record);
  if (!wrong.empty()) return failure("the answer of " + std::string(action) + wrong);
  return record;
}

template <class T>
struct ValueOf {
  static constexpr std::string_view keys = "Value!";
  T value{};
};
struct ParameterAnswer {
  static constexpr std::string_view keys = "Parameter!";
  ValueOf<std::string> parameter;
};
struct QuotaAnswer {
  static constexpr std::string_view keys = "Quota!";
  ValueOf<double> quota;
};

HttpCall efs_call(const char* action, const char* what, const std::string& file_system,
                  const std::string& marker) {
  std::string path = "/2015-02-01/" + std::string(what) + "?FileSystemId=" + escape(file_system);
  if (!marker.empty()) path += "&Marker=" + escape(marker);
  return {
      .service = "elasticfilesystem", .action = action, .method = "GET", .target = std::move(path)};
}

template <class Item>
Result<Page<Item>> efs_page(std::string_view json, const char* list) {
  const auto document = TRY(parse_json_object(json));
  Page<Item> page;
  const auto wrong = read_value(document.value(list, Json()), page.items);
  if (!wrong.empty()) return failure("EFS answers with strange " + std::string(list) + wrong);
  page.next_token = text_field(document, "NextMarker");
  return page;
}

}  // namespace

HttpCall as_http(const Query& query) {
  return {.service = query.service,
          .action = query.action,
          .headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}},
          .body = form_body(query),
          .repeatable = query.repeatable,
          .region = query.region};
}

Query encode(const Publish& request) {
  return {.service = "sns",
          .action = "Publish",
          // A message that comes twice is better than one that does not come.
          .repeatable = Repeatable::Token,
          .parameters = {{"TopicArn", request.topic},
                         {"Subject", plain(request.subject)},
                         {"Message", request.message}},
          .region = region_of(request.topic)};
}

template <>
Result<std::string> decode<Publish>(std::string_view xml) {
  return read_answer(xml, "Publish", [](const Fields& fields) {
    return fields.child("PublishResult").text("MessageId");
  });
}

HttpCall encode(const GetParameter& request) {
  return json_call("ssm", "AmazonSSM.GetParameter",
                   {{"Name", request.name}, {"WithDecryption", true}}, request.name);
}

template <>
Result<std::string> decode<GetParameter>(std::string_view json) {
  return TRY(answer_of<ParameterAnswer>(json, "GetParameter")).parameter.value;
}

Query encode(const AssumeRole& request) {
  Query query{.service = "sts",
              .action = "AssumeRole",
              .repeatable = Repeatable::Read,
              .parameters = {{"RoleArn", request.role},
                             {"RoleSessionName", request.session},
                             {"DurationSeconds", std::to_string(request.duration.count())}}};
  if (!request.policy.empty()) query.parameters.emplace("Policy", request.policy);
  return query;
}

Result<Credentials> decode_assumed_role(std::string_view xml, const std::string& action) {
  return read_answer(xml, action, [&action](const Fields& fields) {
    const Fields keys = fields.child((action + "Result").c_str()).child("Credentials");
    return Credentials{keys.text("AccessKeyId"), keys.text("SecretAccessKey"),
                       keys.text("SessionToken"), keys.time("Expiration")};
  });
}

template <>
Result<Credentials> decode<AssumeRole>(std::string_view xml) {
  return decode_assumed_role(xml, "AssumeRole");
}

std::string container_credentials(const Credentials& credentials, std::string_view role) {
  Json document = {{"AccessKeyId", credentials.access_key_id},
                   {"SecretAccessKey", credentials.secret_access_key},
                   {"Token", credentials.session_token},
                   {"Expiration", to_rfc3339(credentials.expiration.value())}};
  if (!role.empty()) document["RoleArn"] = std::string(role);
  return json_text(document);
}

std::string container_error(std::string_view code, std::string_view message) {
  return json_text({{"code", std::string(code)}, {"message", std::string(message)}});
}

HttpCall encode(const GetProducts& request) {
  const std::array<std::pair<const char*, std::string>, 6> wanted = {
      {{"instanceType", request.type.str()},
       {"regionCode", request.region.str()},
       {"operatingSystem", "Linux"},
       {"preInstalledSw", "NA"},
       {"tenancy", "Shared"},
       {"capacitystatus", "Used"}}};
  Json body = {{"ServiceCode", "AmazonEC2"}, {"FormatVersion", "aws_v1"}, {"MaxResults", 10}};
  for (const auto& [field, value] : wanted)
    body["Filters"].push_back({{"Type", "TERM_MATCH"}, {"Field", field}, {"Value", value}});
  // In one region for all of a partition:
  // https://docs.aws.amazon.com/general/latest/gr/billing.html
  return json_call("pricing", "AWSPriceListService.GetProducts", body, request.type.str(),
                   partition_of(request.region.view()).price_list);
}

template <>
Result<double> decode<GetProducts>(std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document) return failure("the answer of GetProducts is no JSON object");
  const auto list = document->find("PriceList");
  if (list == document->end() || !list->is_array())
    return failure("the answer of GetProducts has no PriceList");
  std::optional<double> lowest;
  for (const Json& product : *list) {
    if (!product.is_string()) continue;
    if (const auto parsed = parse_json_object(product.get<std::string>()))
      find_prices(*parsed, lowest);
  }
  if (!lowest) return failure("the price list has no such machine with a price in dollars");
  return *lowest;
}

const InstanceQuota* spot_quota_of(std::string_view instance_type) {
  const Quotas* found = quotas_of(instance_type);
  return found != nullptr ? &found->spot : nullptr;
}

const InstanceQuota* on_demand_quota_of(std::string_view instance_type) {
  const Quotas* found = quotas_of(instance_type);
  return found != nullptr ? &found->on_demand : nullptr;
}

HttpCall encode(const GetEc2Quota& request) {
  return json_call("servicequotas", "ServiceQuotasV20190624.GetServiceQuota",
                   {{"ServiceCode", "ec2"}, {"QuotaCode", request.code}}, request.code);
}

template <>
Result<double> decode<GetEc2Quota>(std::string_view json) {
  return TRY(answer_of<QuotaAnswer>(json, "GetServiceQuota")).quota.value;
}

HttpCall encode(const DescribeFileSystems& request) {
  return efs_call("DescribeFileSystems", "file-systems", request.id, request.next_token);
}

HttpCall encode(const DescribeMountTargets& request) {
  return efs_call("DescribeMountTargets", "mount-targets", request.file_system, request.next_token);
}

template <>
Result<Page<FileSystem>> decode<DescribeFileSystems>(std::string_view json) {
  return efs_page<FileSystem>(json, "FileSystems");
}

template <>
Result<Page<MountTarget>> decode<DescribeMountTargets>(std::string_view json) {
  return efs_page<MountTarget>(json, "MountTargets");
}

}  // namespace spotter::wire
