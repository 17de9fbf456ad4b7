#include "agent/aws/settings/settings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/aws/formats/partition.hpp"
#include "agent/aws/settings/credentials.hpp"
#include "agent/base/text.hpp"

extern char** environ;  // POSIX has no header that must declare it

namespace spotter::act {
namespace {

// A section of [quoted "names"] has the words' name, as botocore reads it.
std::string section_name(std::string_view line) {
  line = trimmed(line.substr(1, line.rfind(']') - 1));
  const auto words = command_words(line);
  std::string name;
  for (const auto& word : words.value_or(std::vector{std::string(line)}))
    name += (name.empty() ? "" : " ") + word;
  return name;
}

std::string file_path(const Environment& environment, std::string_view variable,
                      std::string_view name) {
  const std::string given = environment.get(variable);
  return expanded(environment, given.empty() ? "~/.aws/" + std::string(name) : given);
}

// In a unit of systemd the file may say which program root runs, and as whom the job is at AWS.
// So nobody else may write it, nor a folder on the way, by which another could take its place.
Result<std::string> believed(const Environment& environment, const std::string& path) {
  std::error_code absent;
  if (environment.get("SPOTTER_UNITS") != "yes" || !std::filesystem::exists(path, absent))
    return file_contents(path);
  const auto whole = std::filesystem::canonical(path, absent);
  for (auto at = whole; !absent; at = at.parent_path()) {
    struct stat status {};
    const bool looked = ::lstat(at.c_str(), &status) == 0 && !S_ISLNK(status.st_mode);
    const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;  // as /tmp
    const bool ours = looked && (status.st_uid == 0 || status.st_uid == ::geteuid()) &&
                      ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || sticky);
    if (!ours || at == "/proc")  // a process chooses what its files there say
      return failure(path + ": " + at.string() +
                     " is another user's to write: what it says of credentials is not believed");
    if (at == at.root_path()) return file_contents(whole);
  }
  return failure(path + " cannot be looked at: " + absent.message());
}

// Keys may be asked for in plain text only on this machine or its host.
bool is_trusted(std::string_view url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string_view rest = url.substr(7);
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (host.find('@') != std::string_view::npos) return false;
  host =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  const bool loopback =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
  return loopback || host == "localhost" || host == "[::1]" || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

// The service's id in variables: upper case, blanks and hyphens as underscores.
std::string variable(std::string_view service) {
  if (service == "autoscaling") return "AWS_ENDPOINT_URL_AUTO_SCALING";
  if (service == "elasticfilesystem") return "AWS_ENDPOINT_URL_EFS";
  if (service == "servicequotas") return "AWS_ENDPOINT_URL_SERVICE_QUOTAS";
  std::string name = "AWS_ENDPOINT_URL_";
  for (const char letter : service)
    name += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A')
            : letter == '-'                ? '_'
                                           : letter;
  return name;
}

// One host for all regions of a partition.
std::string iam_host(const wire::Partition& partition, bool fips, bool dual) {
  const bool gov = partition.name == "aws-us-gov";
  const bool global = partition.name == "aws" || partition.name == "aws-cn";
  std::string host(partition.iam_host);
  if (dual)
    host = (gov      ? "iam.us-gov."
            : global ? "iam.global."
                     : "iam.") +
           std::string(partition.dual_suffix);
  if (fips && !gov) host.insert(3, "-fips");
  return host;
}

// Each differs in its own way. Source: botocore's endpoint-rule-set-1.json of each service.
std::string host_of(std::string_view service, const Region& region, bool fips, bool dual) {
  const wire::Partition& partition = wire::partition_of(region.view());
  if (service == "iam") return iam_host(partition, fips, dual);
  const std::string place = "." + region.str() + ".";
  std::string name(service == "pricing"    ? "api.pricing"
                   : service == "sso"      ? "portal.sso"
                   : service == "sso-oidc" ? "oidc"
                                           : service);
  if (service == "s3") {
    return name + (fips ? "-fips" : "") + (dual ? ".dualstack" : "") + place +
           std::string(partition.suffix);
  }
  if (service == "elasticfilesystem" && dual) name = "efs";
  // GovCloud's own hosts are of FIPS, where the service has no other.
  constexpr std::array always_fips{"ec2", "sts", "sns", "autoscaling", "batch", "servicequotas"};
  const bool has_it = !dual && partition.name == "aws-us-gov" &&
                      std::ranges::find(always_fips, service) != always_fips.end();
  if (fips && !has_it)
    name = service == "batch" && !dual && partition.name == "aws" ? "fips." + name : name + "-fips";
  return name + place + std::string(dual ? partition.dual_suffix : partition.suffix);
}

// Returns that of the profile's `services`, else its own.
std::string configured_endpoint(const Environment& environment, std::string_view service) {
  constexpr std::string_view prefix = "AWS_ENDPOINT_URL_";
  const auto files = shared_files(environment);
  if (!files) return {};
  Profile profile = files->profile(files->name).value_or(Profile{});
  if (lower_case(profile["ignore_configured_endpoint_urls"]) == "true") return {};
  const std::string id = lower_case(variable(service).substr(prefix.size()));
  if (const auto own = files->config.find("services " + profile["services"]);
      own != files->config.end())
    if (const auto found = own->second.find(id + ".endpoint_url"); found != own->second.end())
      return found->second;
  return profile["endpoint_url"];
}

}  // namespace

Environment Environment::of_this_process() {
  std::map<std::string, std::string, std::less<>> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

Environment Environment::with(const std::vector<std::string>& variables) const {
  Environment all = *this;
  for (const std::string& each : variables)
    if (const auto equals = each.find('='); equals != each.npos)
      all.values_.insert_or_assign(each.substr(0, equals), each.substr(equals + 1));
  return all;
}

std::string Environment::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

bool is_set(const Environment& environment, const char* name) {
  return lower_case(environment.get(name)) == "true";
}

std::string expanded(const Environment& environment, std::string path) {
  for (auto at = path.find('$'); at != path.npos; at = path.find('$', at + 1)) {
    const std::size_t brace = path.compare(at + 1, 1, "{") == 0 ? 1 : 0;
    const std::size_t begin = at + 1 + brace;
    std::size_t end = begin;
    while (end < path.size() && (std::isalnum(path[end]) != 0 || path[end] == '_')) ++end;
    const std::string value = environment.get(path.substr(begin, end - begin));
    if (value.empty() || (brace != 0 && path.compare(end, 1, "}") != 0)) continue;
    path.replace(at, end + brace - at, value);
    at += value.size() - 1;
  }
  return path.starts_with("~/") ? environment.get("HOME") + path.substr(1) : path;
}

Sections parse_sections(std::string_view text) {
  Sections sections;
  Profile* section = nullptr;
  std::string* value = nullptr;
  std::string above;       // the name of `value`
  std::size_t indent = 0;  // of the line that began it, or the section
  while (!text.empty()) {
    const std::string_view raw = take_until(text, '\n');
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    const auto column = static_cast<std::size_t>(line.data() - raw.data());
    if (value != nullptr && column > indent) {
      // A long command may have several lines; below a name without a value are settings.
      if (const auto mark = line.find_first_of("=:"); value->empty() && mark != line.npos)
        (*section)[above + "." + lower_case(trimmed(line.substr(0, mark)))] =
            trimmed(line.substr(mark + 1));
      else if (!value->empty())
        *value += " " + std::string(line);
      continue;
    }
    indent = column;
    if (line.front() == '[') {
      section = line.find(']') == line.npos ? nullptr : &sections[section_name(line)];
      value = nullptr;
      continue;
    }
    const auto mark = line.find_first_of("=:");
    if (section == nullptr || mark == line.npos) continue;
    const std::string name = lower_case(trimmed(line.substr(0, mark)));
    if (name.empty()) continue;
    value = &((*section)[name] = trimmed(line.substr(mark + 1)));
    above = name;
  }
  return sections;
}

std::string file_contents(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<SharedFiles> shared_files(const Environment& environment) {
  SharedFiles files;
  for (const char* variable : {"AWS_DEFAULT_PROFILE", "AWS_PROFILE"})
    if (files.name.empty()) files.name = environment.get(variable);
  files.named = !files.name.empty();
  if (!files.named) files.name = "default";
  auto config = TRY(believed(environment, file_path(environment, "AWS_CONFIG_FILE", "config")));
  auto keys = TRY(
      believed(environment, file_path(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials")));
  files.config = parse_sections(config);
  files.credentials = parse_sections(keys);
  return files;
}

std::optional<Profile> SharedFiles::profile(const std::string& wanted) const {
  std::optional<Profile> merged;
  const auto add = [&merged](const Sections& from, const std::string& section) {
    if (const auto found = from.find(section); found != from.end()) {
      if (!merged) merged.emplace();
      merged->insert(found->second.begin(), found->second.end());
    }
  };
  add(credentials, wanted);
  if (wanted == "default") add(config, wanted);
  add(config, "profile " + wanted);
  return merged;
}

Profile own_profile(const Environment& environment) {
  const auto files = shared_files(environment);
  return files ? files->profile(files->name).value_or(Profile{}) : Profile{};
}

Result<std::optional<ContainerEndpoint>> container_endpoint(const Environment& environment) {
  const std::string relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  ContainerEndpoint endpoint{relative.empty()
                                 ? environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                                 : "http://169.254.170.2" + relative,
                             environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")};
  if (endpoint.url.empty()) return std::optional<ContainerEndpoint>();
  if (!is_trusted(endpoint.url))
    return failure("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor on this host");
  const std::string file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!file.empty()) endpoint.token = trimmed(file_contents(file));
  if (!file.empty() && endpoint.token.empty())
    return failure("there is no token in " + file + " (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE)");
  return std::optional(std::move(endpoint));
}

std::string endpoint(const Environment& environment, std::string_view service,
                     const Region& region) {
  std::string url;
  if (!is_set(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) {
    url = environment.get(variable(service));
    if (url.empty()) url = environment.get("AWS_ENDPOINT_URL");
    if (url.empty()) url = configured_endpoint(environment, service);
  }
  if (url.empty()) {
    url = "https://" + host_of(service, region, is_set(environment, "AWS_USE_FIPS_ENDPOINT"),
                               is_set(environment, "AWS_USE_DUALSTACK_ENDPOINT"));
  }
  while (url.ends_with('/')) url.pop_back();
  return url;
}

Region configured_region(const Environment& environment) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    const std::string region = environment.get(name);
    if (!region.empty()) return Region(region);
  }
  return Region(own_profile(environment)["region"]);
}

wire::WallTime system_time() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace spotter::act
