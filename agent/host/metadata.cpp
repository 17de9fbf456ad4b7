#include "agent/host/metadata.hpp"

#include <algorithm>
#include <sstream>

namespace spotter::act::host {
namespace {

// Before all rules of others but the first, which is for addresses of this machine itself; by it
// ours are known.
constexpr const char* preference = "169";
constexpr int most_rules = 16;

Result<ToolResult> rule(const char* family, std::vector<std::string> words) {
  ToolRequest ip{.argv = {"ip", family, "rule"}};
  ip.argv.insert(ip.argv.end(), words.begin(), words.end());
  return run_tool(ip, "iproute2");
}

std::vector<std::string> selectors(const char* address, const std::string& users) {
  return {"pref", preference, "to", address, "uidrange", users};
}

std::string only(uid_t user) { return std::to_string(user) + "-" + std::to_string(user); }

// It is not added twice: the kernel says that it is there (EEXIST). systemd-networkd may remove
// rules that it does not know, but for the kernel's: networkd.conf(5),
// ManageForeignRoutingPolicyRules.
Result<void> add(const char* family, const char* address, uid_t user) {
  auto words = selectors(address, only(user));
  words.insert(words.begin(), "add");
  words.insert(words.end(), {"protocol", "kernel", "prohibit"});
  const auto added = TRY(rule(family, std::move(words)));
  if (added.status == 0 || added.errors.find("File exists") != std::string::npos) return {};
  return fail("host-error", "ip rule: " + last_words(added));
}

// Those of other users, as `ip rule show` has them: "169: from all to ... uidrange 7-7 prohibit".
void remove_but(const char* family, const char* address, uid_t user) {
  const auto shown = rule(family, {"show", "pref", preference});
  if (!shown) return;
  std::istringstream lines(shown->output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(std::min(line.size(), line.find("uidrange"))));
    std::string users;
    words >> users >> users;
    if (users.empty() || users == only(user)) continue;
    auto del = selectors(address, users);
    del.insert(del.begin(), "del");
    (void)rule(family, std::move(del));
  }
}

constexpr const char* four = "169.254.169.254/32";
constexpr const char* six = "fd00:ec2::254/128";

}  // namespace

Result<void> refuse_metadata_to(uid_t user) {
  TRY(add("-4", four, user));
  (void)add("-6", six, user);  // where there is no IPv6, nobody asks by it
  remove_but("-4", four, user);
  remove_but("-6", six, user);
  return {};
}

Result<void> refuse_bound_sockets_to(uid_t user) {
  const std::string add = "add rule inet spotter output meta skuid " + std::to_string(user);
  const std::string table =
      "add table inet spotter; delete table inet spotter; add table inet spotter; "
      "add chain inet spotter output { type filter hook output priority 0; }; " +
      add + " ip daddr " + four + " reject; " + add + " ip6 daddr " + six + " reject";
  const auto loaded = TRY(run_tool({.argv = {"nft", table}}, "nftables"));  // in one transaction
  if (loaded.status == 0) return {};
  return fail("host-error", "nft: " + last_words(loaded));
}

void release_metadata() {
  (void)run_tool({.argv = {"nft", "delete table inet spotter"}}, "nftables");
  for (const char* family : {"-4", "-6"})
    for (int rules = 0; rules < most_rules; ++rules) {
      const auto removed = rule(family, {"del", "pref", preference});
      if (!removed || removed->status != 0) break;
    }
}

}  // namespace spotter::act::host
