#include "agent/aws/s3/address.hpp"

#include "agent/aws/formats/partition.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/settings/settings.hpp"

namespace spotter::s3 {

Addresses::Addresses(const Settings& settings)
    : environment_(settings.environment), region_(settings.region), style_(settings.style) {
  if (region_.empty()) region_ = act::configured_region(environment_);
  if (region_.empty()) region_ = "us-east-1";
}

Address Addresses::of(const std::string& bucket, const std::string& key) const {
  Address address;
  const auto home = homes_.find(bucket);
  const bool moved = home != homes_.end();
  address.region = moved && !home->second.region.empty() ? Region(home->second.region) : region_;
  address.path = "/" + wire::escape_path(key);
  const auto [known, is_new] = endpoints_.try_emplace(address.region.str());
  if (is_new) known->second = act::endpoint(environment_, "s3", address.region);
  const std::string& url = known->second;
  const auto scheme = url.find("://") == url.npos ? 0 : url.find("://") + 3;
  address.host = url.substr(scheme);
  const auto slash = address.host.find('/');
  const std::string prefix = slash == std::string::npos ? "" : address.host.substr(slash);
  address.host.resize(address.host.size() - prefix.size());
  const bool encrypted = url.starts_with("https://");
  using Style = Settings::Style;
  const bool of_host =
      style_ == Style::Host || (style_ == Style::Automatic && wire::is_of_aws(address.host));
  if (moved && !home->second.host.empty()) {
    address.host = home->second.host;
    if (!address.host.starts_with(bucket + ".")) address.path = "/" + bucket + address.path;
  } else if (of_host && wire::fits_into_host(bucket, encrypted)) {
    address.host = bucket + "." + address.host;
  } else {
    address.path = "/" + wire::escape_path(bucket) + address.path;
  }
  address.path = prefix + address.path;
  address.base = url.substr(0, scheme) + address.host;
  address.host = wire::host_header(std::move(address.host), encrypted);
  return address;
}

bool Addresses::redirect(const std::string& bucket, const std::string& region,
                         const std::string& endpoint) {
  Home& home = homes_[bucket];
  const bool known_region =
      region.empty() || region == (home.region.empty() ? region_.str() : home.region);
  if (!known_region && Region::fits(region)) {
    home = {.region = region, .host = {}};
    return true;
  }
  if (!wire::is_of_aws(endpoint) || endpoint == home.host) return false;
  home.host = endpoint;
  return true;
}

}  // namespace spotter::s3
