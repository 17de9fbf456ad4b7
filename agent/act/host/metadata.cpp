#include "agent/act/host/metadata.hpp"

#include "agent/act/host/tool.hpp"

namespace spotter::act::host {
namespace {

// Before all rules of others but the first, which is for addresses of this machine itself; by it
// ours are known.
constexpr const char* preference = "169";
constexpr int most_rules = 16;

Outcome<ToolResult> rule(const char* family, std::vector<std::string> words) {
  ToolRequest ip{.argv = {"ip", family, "rule"}};
  ip.argv.insert(ip.argv.end(), words.begin(), words.end());
  return run_tool(ip, "iproute2");
}

// systemd-networkd may remove rules that it does not know, but for the kernel's: networkd.conf(5),
// ManageForeignRoutingPolicyRules.
Outcome<ToolResult> add(const char* family, const char* address, uid_t user) {
  const std::string number = std::to_string(user);
  return rule(family, {"add", "pref", preference, "to", address, "uidrange", number + "-" + number,
                       "protocol", "kernel", "prohibit"});
}

}  // namespace

Outcome<void> refuse_metadata_to(uid_t user) {
  release_metadata();
  const auto added = add("-4", "169.254.169.254/32", user);
  if (!added) return tl::unexpected(added.error());
  if (added->status != 0) return fail("host-error", "ip rule: " + last_words(*added));
  (void)add("-6", "fd00:ec2::254/128", user);  // where there is no IPv6, nobody asks by it
  return {};
}

void release_metadata() {
  for (const char* family : {"-4", "-6"})
    for (int rules = 0; rules < most_rules; ++rules) {
      const auto removed = rule(family, {"del", "pref", preference});
      if (!removed || removed->status != 0) break;
    }
}

}  // namespace spotter::act::host
