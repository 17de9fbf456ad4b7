#include "agent/systemd/message.hpp"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

namespace spotter::units {
namespace {

enum class Form {
  YesNo,
  Text,
  Path,  // one path, with any characters
  Words,
  Allowed,  // a list; a "~" before it would forbid
  Count,    // or infinity
  Seconds,  // on D-Bus the name ends with USec
  Octal,
  Signed,
  Errno,
  Level,  // of syslog(3)
  Capabilities,
  Namespaces,  // yes: none may be made
  Device,
  Memory,  // "48G", or a percentage, which has another name
  Quota,   // percent of one CPU
  ExitStatuses,
  Addresses,  // each of one host
};

struct Known {
  std::string_view name;
  Form form;
};

constexpr Known kKnown[] = {{"After", Form::Words},
                            {"Before", Form::Words},
                            {"CPUQuota", Form::Quota},
                            {"CPUWeight", Form::Count},
                            {"CapabilityBoundingSet", Form::Capabilities},
                            {"CollectMode", Form::Text},
                            {"DefaultDependencies", Form::YesNo},
                            {"Description", Form::Text},
                            {"DeviceAllow", Form::Device},
                            {"DevicePolicy", Form::Text},
                            {"IPAddressDeny", Form::Addresses},
                            {"KeyringMode", Form::Text},
                            {"KillMode", Form::Text},
                            {"LimitMEMLOCK", Form::Count},
                            {"LimitNOFILE", Form::Count},
                            {"LockPersonality", Form::YesNo},
                            {"LogLevelMax", Form::Level},
                            {"MemoryMax", Form::Memory},
                            {"NoNewPrivileges", Form::YesNo},
                            {"NotifyAccess", Form::Text},
                            {"OOMPolicy", Form::Text},
                            {"OOMScoreAdjust", Form::Signed},
                            {"PrivateMounts", Form::YesNo},
                            {"PrivateTmp", Form::YesNo},
                            {"ProtectClock", Form::YesNo},
                            {"ProtectControlGroups", Form::YesNo},
                            {"ProtectHome", Form::Text},
                            {"ProtectHostname", Form::YesNo},
                            {"ProtectKernelLogs", Form::YesNo},
                            {"ProtectKernelModules", Form::YesNo},
                            {"ProtectKernelTunables", Form::YesNo},
                            {"ProtectSystem", Form::Text},
                            {"ReadWritePaths", Form::Path},
                            {"RemainAfterExit", Form::YesNo},
                            {"RequiresMountsFor", Form::Path},
                            {"RestrictAddressFamilies", Form::Allowed},
                            {"RestrictNamespaces", Form::Namespaces},
                            {"RestrictRealtime", Form::YesNo},
                            {"RestrictSUIDSGID", Form::YesNo},
                            {"SuccessExitStatus", Form::ExitStatuses},
                            {"SyslogIdentifier", Form::Text},
                            {"SystemCallArchitectures", Form::Words},
                            {"SystemCallErrorNumber", Form::Errno},
                            {"SystemCallFilter", Form::Allowed},
                            {"TasksMax", Form::Count},
                            {"TimeoutStartSec", Form::Seconds},
                            {"TimeoutStopSec", Form::Seconds},
                            {"Type", Form::Text},
                            {"UMask", Form::Octal}};

constexpr std::pair<std::string_view, int> kCapabilities[] = {
    {"CAP_CHOWN", CAP_CHOWN},   {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
    {"CAP_FOWNER", CAP_FOWNER}, {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
    {"CAP_KILL", CAP_KILL},     {"CAP_SETGID", CAP_SETGID},
    {"CAP_SETUID", CAP_SETUID}, {"CAP_SYS_ADMIN", CAP_SYS_ADMIN}};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::uint64_t number_of(const std::string& text) {
  if (text == "infinity") return std::numeric_limits<std::uint64_t>::max();
  return std::strtoull(text.c_str(), nullptr, 10);
}

int append_words(sd_bus_message* message, const std::vector<std::string>& words) {
  int result = sd_bus_message_open_container(message, 'a', "s");
  for (const auto& word : words)
    if (result >= 0) result = sd_bus_message_append(message, "s", word.c_str());
  return result < 0 ? result : sd_bus_message_close_container(message);
}

int append_allowed(sd_bus_message* message, const std::string& value) {
  int result = sd_bus_message_open_container(message, 'r', "bas");
  if (result >= 0) result = sd_bus_message_append(message, "b", 1);
  if (result >= 0) result = append_words(message, words_of(value));
  return result < 0 ? result : sd_bus_message_close_container(message);
}

int append_capabilities(sd_bus_message* message, const std::string& value) {
  std::uint64_t mask = 0;
  for (const auto& word : words_of(value)) {
    const auto before = mask;
    for (const auto& [name, number] : kCapabilities)
      if (word == name) mask |= std::uint64_t{1} << number;
    if (mask == before) return -EINVAL;
  }
  return sd_bus_message_append(message, "t", mask);
}

int append_statuses(sd_bus_message* message, const std::string& value) {
  int result = sd_bus_message_open_container(message, 'r', "aiai");
  if (result >= 0) result = sd_bus_message_open_container(message, 'a', "i");
  for (const auto& word : words_of(value))
    if (result >= 0) result = sd_bus_message_append(message, "i", std::stoi(word));
  if (result >= 0) result = sd_bus_message_close_container(message);
  if (result >= 0) result = sd_bus_message_append(message, "ai", 0);
  return result < 0 ? result : sd_bus_message_close_container(message);
}

int append_addresses(sd_bus_message* message, const std::string& value) {
  int result = sd_bus_message_open_container(message, 'a', "(iayu)");
  for (const auto& word : words_of(value)) {
    if (result < 0) return result;
    const int family = word.find(':') == word.npos ? AF_INET : AF_INET6;
    const std::size_t size = family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
    unsigned char bytes[sizeof(in6_addr)];
    if (::inet_pton(family, word.c_str(), bytes) != 1) return -EINVAL;
    result = sd_bus_message_open_container(message, 'r', "iayu");
    if (result >= 0) result = sd_bus_message_append(message, "i", family);
    if (result >= 0) result = sd_bus_message_append_array(message, 'y', bytes, size);
    if (result >= 0)
      result = sd_bus_message_append(message, "u", static_cast<std::uint32_t>(8 * size));
    if (result >= 0) result = sd_bus_message_close_container(message);
  }
  return result < 0 ? result : sd_bus_message_close_container(message);
}

std::uint64_t bytes_of(const std::string& value) {
  const auto unit = std::string_view("KMG").find(value.back());
  return number_of(value) << (unit == std::string_view::npos ? 0 : 10 * (unit + 1));
}

struct Carried {
  std::string name;
  const char* signature;
};

Carried carried(const Setting& setting, Form form) {
  const auto& [name, value] = setting;
  switch (form) {
    case Form::YesNo:
      return {name, "b"};
    case Form::Text:
      return {name, "s"};
    case Form::Path:
    case Form::Words:
      return {name, "as"};
    case Form::Allowed:
      return {name, "(bas)"};
    case Form::Seconds:
      return {name.substr(0, name.rfind("Sec")) + "USec", "t"};
    case Form::Octal:
      return {name, "u"};
    case Form::Signed:
    case Form::Errno:
    case Form::Level:
      return {name, "i"};
    case Form::Device:
      return {name, "a(ss)"};
    case Form::Memory:
      return value.ends_with('%') ? Carried{name + "Scale", "u"} : Carried{name, "t"};
    case Form::Quota:
      return {name + "PerSecUSec", "t"};
    case Form::ExitStatuses:
      return {name, "(aiai)"};
    case Form::Addresses:
      return {name, "a(iayu)"};
    case Form::Count:
    case Form::Capabilities:
    case Form::Namespaces:
      break;
  }
  return {name, "t"};
}

int append_value(sd_bus_message* message, const std::string& value, Form form) {
  constexpr std::uint64_t second = 1'000'000;
  constexpr std::uint64_t whole = std::numeric_limits<std::uint32_t>::max();
  const bool share = value.ends_with('%');
  switch (form) {
    case Form::YesNo:
      return sd_bus_message_append(message, "b", value == "yes" ? 1 : 0);
    case Form::Text:
      return sd_bus_message_append(message, "s", value.c_str());
    case Form::Path:
      return append_words(message, {value});
    case Form::Words:
      return append_words(message, words_of(value));
    case Form::Allowed:
      return append_allowed(message, value);
    case Form::Count:
      return sd_bus_message_append(message, "t", number_of(value));
    case Form::Seconds:
      return sd_bus_message_append(message, "t", number_of(value) * second);
    case Form::Octal:
      return sd_bus_message_append(message, "u", std::strtoul(value.c_str(), nullptr, 8));
    case Form::Signed:
      return sd_bus_message_append(message, "i", std::atoi(value.c_str()));
    case Form::Errno:
      return value == "EPERM" ? sd_bus_message_append(message, "i", EPERM) : -EINVAL;
    case Form::Level:
      return value == "warning" ? sd_bus_message_append(message, "i", 4) : -EINVAL;
    case Form::Capabilities:
      return append_capabilities(message, value);
    case Form::Namespaces:
      return value == "yes" ? sd_bus_message_append(message, "t", std::uint64_t{0}) : -EINVAL;
    case Form::Device: {
      const auto words = words_of(value);
      if (words.size() != 2) return -EINVAL;
      return sd_bus_message_append(message, "a(ss)", 1, words[0].c_str(), words[1].c_str());
    }
    case Form::Memory:
      if (!share) return sd_bus_message_append(message, "t", bytes_of(value));
      return sd_bus_message_append(message, "u",
                                   static_cast<std::uint32_t>(whole * number_of(value) / 100));
    case Form::Quota:
      return sd_bus_message_append(message, "t", number_of(value) * second / 100);
    case Form::ExitStatuses:
      return append_statuses(message, value);
    case Form::Addresses:
      return append_addresses(message, value);
  }
  return -EINVAL;
}

}  // namespace

int append(sd_bus_message* message, const Setting& setting) {
  for (const auto& [name, form] : kKnown) {
    if (setting.name != name) continue;
    const Carried as = carried(setting, form);
    int result = sd_bus_message_open_container(message, 'r', "sv");
    if (result >= 0) result = sd_bus_message_append(message, "s", as.name.c_str());
    if (result >= 0) result = sd_bus_message_open_container(message, 'v', as.signature);
    if (result >= 0) result = append_value(message, setting.value, form);
    if (result >= 0) result = sd_bus_message_close_container(message);
    return result < 0 ? result : sd_bus_message_close_container(message);
  }
  return -EINVAL;
}

}  // namespace spotter::units
