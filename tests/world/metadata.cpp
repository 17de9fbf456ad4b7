#include "tests/world/metadata.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tests/world/ec2_api.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/metadata_versions.hpp"
#include "tests/world/reservations.hpp"
#include "tests/world/sts.hpp"

namespace spotter::world {

namespace {

constexpr Duration renew_before{10 * 60000};  // "at least five minutes prior to the expiration"

Reply plain(int status, std::string body) {
  return {.status = status, .body = std::move(body), .content_type = "text/plain"};
}

Reply html(int status, const std::string& title) {
  return {.status = status,
          .body =
              "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n"
              "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n"
              "\t\"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n"
              "<html xmlns=\"http://www.w3.org/1999/xhtml\" xml:lang=\"en\" lang=\"en\">\n"
              " <head>\n  <title>" +
              std::to_string(status) + " - " + title + "</title>\n </head>\n <body>\n  <h1>" +
              std::to_string(status) + " - " + title + "</h1>\n </body>\n</html>\n",
          .content_type = "text/html"};
}

std::string header(const MetadataRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

std::optional<MetadataFault> fault_of(const Cloud& cloud, const InstanceId& id) {
  for (const InstanceId& key : {id, InstanceId{}}) {
    const auto found = cloud.metadata_faults.find(key);
    if (found != cloud.metadata_faults.end() && cloud.now < found->second.until) {
      return found->second;
    }
  }
  return std::nullopt;
}

std::string_view name(InterruptionAction action) {
  constexpr std::string_view names[] = {"terminate", "stop", "hibernate"};
  return names[static_cast<std::size_t>(action)];
}

std::string hex_of(const Instance& instance) {  // 17 digits
  std::string hex = instance.id.str().substr(2);
  hex.resize(17, '0');
  return hex;
}

std::string dashed(std::string address) {
  std::replace(address.begin(), address.end(), '.', '-');
  return address;
}

}  // namespace

Reply World::metadata(const InstanceId& instance, const MetadataRequest& request, Time now) {
  enter(now);
  Reply reply = Metadata(cloud_, instance).answer(request);
  reply.headers["Date"] = http_date(cloud_.wall(cloud_.now));
  reply.headers["Server"] = "EC2ws";
  return reply;
}

Reply Metadata::answer(const MetadataRequest& request) {
  const Instance* instance = cloud_.instances.find(id_);
  if (!instance || !instance->started) return {.drop = true};
  const auto fault = fault_of(cloud_, id_);
  const std::string mode = fault ? fault->mode : "";
  const bool is_token = request.path == "/latest/api/token";
  if (mode == "down") return {.drop = true};
  if (mode == "403" || instance->extras.metadata_off) return html(403, "Forbidden");
  if (mode == "429") return html(429, "Too Many Requests");
  if (mode == "500") return html(500, "Internal Server Error");
  if (mode == "empty") return plain(200, "");
  if (mode == "garbage") return plain(200, "\x7f{[\"<<<\x01");
  if (mode == "401" && !is_token) return html(401, "Unauthorized");
  Reply reply;
  if (is_token) {
    reply = token(request);
  } else if (!may_ask(request, *instance)) {
    reply = html(401, "Unauthorized");
  } else if (request.method != "GET" && request.method != "HEAD") {
    reply = html(405, "Method Not Allowed");
  } else {
    reply = get(request.path);
  }
  if (mode == "slow") reply.delay = fault->delay;
  if (mode == "half") reply.body.resize(reply.body.size() / 2);
  return reply;
}

// "PUT requests with an X-Forwarded-For header are rejected"; TTL 1 s to 6 h. 400: "missing or
// invalid parameters" (instancedata-data-retrieval.html)
Reply Metadata::token(const MetadataRequest& request) {
  if (request.method != "PUT") return html(405, "Method Not Allowed");
  if (request.headers.count("x-forwarded-for")) return html(403, "Forbidden");
  const std::string text = header(request, "x-aws-ec2-metadata-token-ttl-seconds");
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 1 || seconds > 21600) {
    return html(400, "Bad Request");
  }
  const std::string made = "AQAEA" + cloud_.random.hex(47) + "==";
  cloud_.metadata_tokens[made] = {id_, cloud_.now + Duration{seconds * 1000LL}};
  Reply reply = plain(200, made);
  reply.headers["X-Aws-Ec2-Metadata-Token-Ttl-Seconds"] = text;
  return reply;
}

// Version 1 is a request without a token; a wrong token is refused in both.
bool Metadata::may_ask(const MetadataRequest& request, const Instance& instance) const {
  if (instance.tokens_optional && !request.headers.contains("x-aws-ec2-metadata-token"))
    return true;
  const auto found = cloud_.metadata_tokens.find(header(request, "x-aws-ec2-metadata-token"));
  return found != cloud_.metadata_tokens.end() && found->second.instance == id_ &&
         cloud_.now < found->second.expires;
}

// A document, else the listing of a directory (names one a line, directories with a slash), else
// 404.
Reply Metadata::get(const std::string& path) {
  if (path == "/" || path.empty()) return plain(200, metadata_versions());
  const std::size_t end = std::min(path.find('/', 1), path.size());
  const std::string version = path.substr(1, end - 1);
  if (!is_metadata_version(version)) return html(404, "Not Found");
  std::string wanted = path.substr(end);
  wanted.erase(0, wanted.find_first_not_of('/'));
  auto all = documents(wanted).found;
  std::erase_if(all, [&](const auto& each) { return released_with(each.first) > version; });
  const auto found = all.find(wanted);
  if (found != all.end()) return plain(200, found->second);
  if (!wanted.empty() && wanted.back() != '/') wanted += '/';
  std::string listing, last;
  for (auto it = all.lower_bound(wanted); it != all.end() && it->first.rfind(wanted, 0) == 0;
       ++it) {
    const std::size_t slash = it->first.find('/', wanted.size());
    const std::size_t behind = wanted.empty() ? 0 : 1;  // a version's own list has no slashes
    const std::string entry = it->first.substr(
        wanted.size(), slash == std::string::npos ? slash : slash + behind - wanted.size());
    if (entry == last) continue;
    listing += (listing.empty() ? "" : "\n") + entry;
    last = entry;
  }
  return listing.empty() ? html(404, "Not Found") : plain(200, listing);
}

// The signatures of the identity have the usual form, but no key made them: they do not verify.
Documents Metadata::documents(const std::string& wanted) {
  const Instance& instance = *cloud_.instances.find(id_);
  const std::string region = cloud_.settings.region.str();
  const auto host = [&] {
    return "ip-" + dashed(instance.address) + '.' + region + ".compute.internal";
  };
  const std::string role = role_of_profile(cloud_, instance.profile);
  Documents all(wanted);
  const auto add = [&](std::string_view path, const auto& text) {
    all.add("meta-data/", path, text);
  };
  add("ami-id", instance.image);
  add("ami-launch-index", "0");
  add("ami-manifest-path", "(unknown)");
  add("block-device-mapping/ami", root_device);
  add("block-device-mapping/root", root_device);
  add("profile", "default-hvm");
  add("system", "nitro");
  add("hostname", host);
  add("local-hostname", host);
  add("instance-action", "none");
  add("instance-id", id_.str());
  add("instance-type", instance.type.str());
  add("instance-life-cycle", lifecycle_of(instance));
  add("local-ipv4", instance.address);
  add("placement/availability-zone", instance.zone.str());
  add("placement/availability-zone-id", [&] { return zone_id(cloud_, instance.zone); });
  add("placement/region", region);
  add("reservation-id", [&] { return reservation_of(instance); });
  add("security-groups", "default");
  add("events/maintenance/scheduled", "[]");
  add("events/maintenance/history", "[]");
  add("services/domain", "amazonaws.com");
  add("services/partition", "aws");
  add("iam/info", [&] {
    const std::string of = "arn:aws:iam::" + cloud_.settings.account + ":instance-profile/" + role;
    return nlohmann::json{{"Code", "Success"},
                          {"LastUpdated", metadata_time(cloud_.wall(instance.launched))},
                          {"InstanceProfileArn", of},
                          {"InstanceProfileId", "AIPAEMULATOR000000000"}}
        .dump(2);
  });
  add("iam/security-credentials/" + role, [&] { return credential_document(); });
  add_network(instance, all);
  add_spot(instance, all);
  if (instance.fleet.kind == FleetKind::AutoScalingGroup)
    add("autoscaling/target-lifecycle-state", instance.departure ? "Terminated" : "InService");
  // Keys with a slash or a blank cannot be instance tags in IMDS (work-with-tags-in-IMDS.html).
  if (instance.metadata_tags)
    for (const auto& [key, value] : instance.tags)
      if (key.find_first_of("/ ") == std::string::npos) add("tags/instance/" + key, value);
  const std::string_view identity = "dynamic/instance-identity/";
  all.add(identity, "document", [&] { return identity_document(instance); });
  for (const char* name : {"pkcs7", "rsa2048", "signature"})
    all.add(identity, name, [&] {
      std::string signature = hex_of(instance);
      while (signature.size() < 170) signature += signature;
      return signature.substr(0, 170) + "==";
    });
  if (!instance.user_data.empty()) all.add("", "user-data", instance.user_data);
  return all;
}

// One interface, in the account's default network.
void Metadata::add_network(const Instance& instance, Documents& documents) const {
  const std::string hex = hex_of(instance);
  std::string mac = "06";
  for (std::size_t i = 0; i < 10; i += 2) mac += ':' + hex.substr(i, 2);
  documents.add("meta-data/", "mac", mac);
  if (const auto address = public_address(instance); !address.empty())
    documents.add("meta-data/", "public-ipv4", address);
  const std::string below = "meta-data/network/interfaces/macs/" + mac + '/';
  documents.add(below, "device-number", "0");
  documents.add(below, "interface-id", "eni-" + hex);
  documents.add(below, "local-hostname", [&] {
    return "ip-" + dashed(instance.address) + '.' + cloud_.settings.region.str() +
           ".compute.internal";
  });
  documents.add(below, "local-ipv4s", instance.address);
  documents.add(below, "mac", mac);
  documents.add(below, "owner-id", cloud_.settings.account);
  documents.add(below, "security-groups", "default");
  documents.add(below, "vpc-id", vpc);
  documents.add(below, "vpc-ipv4-cidr-block", "172.31.0.0/16");  // of every default VPC
  documents.add(below, "vpc-ipv4-cidr-blocks", "172.31.0.0/16");
  std::string groups;
  for (const std::string& id : instance.security_groups)
    groups += (groups.empty() ? "" : "\n") + id;
  documents.add(below, "security-group-ids", groups.empty() ? "sg-00000000000000000" : groups);
  const auto subnet = [&] {
    return instance.subnet.empty() ? subnet_of(cloud_, instance.zone) : instance.subnet;
  };
  documents.add(below, "subnet-id", subnet);
  documents.add(below, "subnet-ipv4-cidr-block", [&] { return block_of_subnet(cloud_, subnet()); });
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html:
// instance-action for all three actions, termination-time (kept for compatibility) only when it
// will be terminated.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
void Metadata::add_spot(const Instance& instance, Documents& documents) const {
  const auto& notice = instance.notice;
  if (notice) {
    const std::string time = metadata_time(cloud_.wall(notice->deadline));
    documents.add(
        "meta-data/", "spot/instance-action",
        "{\"action\": \"" + std::string(name(notice->action)) + "\", \"time\": \"" + time + "\"}");
    if (notice->action == InterruptionAction::Terminate)
      documents.add("meta-data/", "spot/termination-time", time);
  }
  if (instance.rebalance)
    documents.add("meta-data/", "events/recommendations/rebalance",
                  "{\"noticeTime\": \"" + metadata_time(cloud_.wall(*instance.rebalance)) + "\"}");
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-identity-documents.html
std::string Metadata::identity_document(const Instance& instance) const {
  return nlohmann::json{{"accountId", cloud_.settings.account},
                        {"architecture", "x86_64"},
                        {"availabilityZone", instance.zone.str()},
                        {"billingProducts", nullptr},
                        {"devpayProductCodes", nullptr},
                        {"marketplaceProductCodes", nullptr},
                        {"imageId", instance.image},
                        {"instanceId", instance.id.str()},
                        {"instanceType", instance.type.str()},
                        {"kernelId", nullptr},
                        {"pendingTime", metadata_time(cloud_.wall(instance.launched))},
                        {"privateIp", instance.address},
                        {"ramdiskId", nullptr},
                        {"region", cloud_.settings.region.str()},
                        {"version", "2017-09-30"}}
      .dump(2);
}

// In an account that began empty an instance has the rights of its profile's role; in any other
// all of them have the same.
Credential Metadata::credential() {
  const std::string role = role_of_profile(cloud_, cloud_.instances.find(id_)->profile);
  const std::string caller =
      cloud_.settings.empty_account ? "role/" + role + "/" + id_.str() : id_.str();
  for (auto it = cloud_.credentials.begin(); it != cloud_.credentials.end();) {
    const Credential& have = it->second;
    if (have.expires && *have.expires <= cloud_.now) {
      it = cloud_.credentials.erase(it);
      continue;
    }
    if (have.caller == caller && have.expires && *have.expires - cloud_.now > renew_before)
      return have;
    ++it;
  }
  return issue(cloud_, caller, cloud_.settings.credentials_lifetime);
}

std::string Metadata::credential_document() {
  const Credential it = credential();
  const Time issued = *it.expires - cloud_.settings.credentials_lifetime;
  return nlohmann::json{{"Code", "Success"},
                        {"LastUpdated", metadata_time(cloud_.wall(issued))},
                        {"Type", "AWS-HMAC"},
                        {"AccessKeyId", it.access_key},
                        {"SecretAccessKey", it.secret},
                        {"Token", it.session_token},
                        {"Expiration", metadata_time(cloud_.wall(*it.expires))}}
      .dump(2);
}

}  // namespace spotter::world
