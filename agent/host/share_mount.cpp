// What mounts a share, and what its words mean when it does not. Pure.
#include <algorithm>
#include <array>

#include "agent/aws/formats/partition.hpp"
#include "agent/host/share.hpp"

namespace spotter::act::host {
namespace {

using Options = std::vector<std::string>;

Options split(const std::string& text) {
  Options options;
  for (std::size_t at = 0; at < text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    if (comma > at) options.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return options;
}

// Options that exclude one another have one name here.
std::string meaning(const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  if (name == "soft" || name == "softerr") return "hard";
  if (name == "resvport") return "noresvport";
  if (name == "vers" || name == "minorversion") return "nfsvers";
  return name;
}

// The user's own have precedence.
std::string merge(const std::string& defaults, const std::string& own) {
  Options all = split(own);
  std::string text;
  const auto add = [&text](const std::string& option) {
    text += (text.empty() ? "" : ",") + option;
  };
  for (const std::string& option : split(defaults)) {
    const bool given = std::any_of(all.begin(), all.end(), [&](const std::string& its) {
      return meaning(its) == meaning(option);
    });
    if (!given) add(option);
  }
  for (const std::string& option : all) add(option);
  return text;
}

constexpr const char* kNfsOptions =
    "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nosuid,nodev";

// ServerAlive: a dead server is noticed in 45 s, and then every call fails instead of hanging.
constexpr const char* kSshfsOptions =
    "reconnect,ServerAliveInterval=15,ServerAliveCountMax=3,ConnectTimeout=15,nosuid,nodev";

std::string efs_name(const verbs::Share& share) {
  if (share.server.find('.') != std::string::npos) return share.server;
  return share.server + ".efs." + share.region + "." +
         std::string(wire::partition_of(share.region).suffix);
}

// Plain NFS knows nothing of these.
bool needs_mount_efs(const verbs::Share& share) {
  constexpr std::array<std::string_view, 3> its = {"az", "iam", "tls"};
  const Options own = split(share.options);
  return share.tls || !share.access_point.empty() ||
         std::any_of(own.begin(), own.end(), [&](const std::string& option) {
           return std::find(its.begin(), its.end(), meaning(option)) != its.end();
         });
}

Result<std::vector<std::string>> efs_command(const verbs::Share& share, bool has_mount_efs) {
  if (has_mount_efs) {
    std::string options = "_netdev,nosuid,nodev";
    if (share.tls || !share.access_point.empty()) options += ",tls";
    if (!share.access_point.empty()) options += ",accesspoint=" + share.access_point;
    return std::vector<std::string>{
        "mount",          "-t", "efs", "-o", merge(options, share.options), share.server + ":/",
        share.mount_point};
  }
  if (needs_mount_efs(share)) {
    return fail("tool-missing",
                "storage.efs.tls, access_point and the options az, iam and tls need mount.efs, "
                "which is not installed: install amazon-efs-utils in the image "
                "(https://github.com/aws/efs-utils)");
  }
  if (share.region.empty() && share.server.find('.') == std::string::npos) {
    return fail("mount-failed",
                "the region is not known: set AWS_REGION, or give the DNS name of " + share.server +
                    " as storage.efs.id");
  }
  return std::vector<std::string>{"mount",
                                  "-t",
                                  "nfs4",
                                  "-o",
                                  merge(kNfsOptions, share.options),
                                  efs_name(share) + ":/",
                                  share.mount_point};
}

std::vector<std::string> sshfs_command(const verbs::Share& share, std::uint32_t uid,
                                       std::uint32_t gid, bool shown_to_all) {
  std::string options = kSshfsOptions;
  // To the trainer every file is its own; what the server's account may not do, it still may not.
  options += ",default_permissions,uid=" + std::to_string(uid) + ",gid=" + std::to_string(gid);
  if (shown_to_all) options += ",allow_other";
  options = merge(options, share.options);
  // Never asks, never believes a server whose key nobody vouched for.
  options += ",BatchMode=yes,PasswordAuthentication=no,StrictHostKeyChecking=yes";
  if (!share.known_hosts.empty()) options += ",UserKnownHostsFile=" + share.known_hosts;
  if (!share.key.empty()) options += ",IdentityFile=" + share.key + ",IdentitiesOnly=yes";
  return {"sshfs", share.server + ":" + share.path, share.mount_point,
          "-p",    std::to_string(share.port),      "-o",
          options};
}

bool says(const std::string& words, const char* what) {
  return words.find(what) != std::string::npos;
}

std::string scan_advice(const verbs::Share& share) {
  const std::string host = share.server.substr(share.server.find('@') + 1);
  const std::string file =
      share.known_hosts.empty() ? "known_hosts of root's or the agent's user" : share.known_hosts;
  return "; fetch it with `ssh-keyscan -p " + std::to_string(share.port) + " " + host +
         "`, compare its fingerprint with the server's own (ssh-keygen -lf), and add the line to " +
         file;
}

}  // namespace

Result<std::vector<std::string>> mount_command(const verbs::Share& share, std::uint32_t uid,
                                               std::uint32_t gid, bool shown_to_all,
                                               bool has_mount_efs) {
  if (share.kind == "sshfs") return sshfs_command(share, uid, gid, shown_to_all);
  if (share.kind == "efs") return efs_command(share, has_mount_efs);
  if (share.kind != "nfs") return fail("bad-request", "'" + share.kind + "' is not mounted");
  return std::vector<std::string>{"mount",
                                  "-t",
                                  "nfs4",
                                  "-o",
                                  merge(kNfsOptions, share.options),
                                  share.server + ":" + share.path,
                                  share.mount_point};
}

Error mount_failure(const verbs::Share& share, const std::string& words) {
  const std::string& source = share.server;
  const std::string what = "cannot mount: " + words;
  constexpr std::array changed = {"REMOTE HOST IDENTIFICATION HAS CHANGED", "host key has changed"};
  for (const char* each : changed) {
    if (says(words, each)) {
      return {"the key of " + source +
                  " is another than the one that is known: somebody may be "
                  "listening. Ask who runs the server before you change known_hosts",
              "host-key-unknown"};
    }
  }
  if (says(words, "Host key verification failed")) {
    return {"nobody vouched for the key of " + source + scan_advice(share), "host-key-unknown"};
  }
  constexpr std::array denied = {"Permission denied", "access denied", "Operation not permitted",
                                 "Too many authentication failures"};
  for (const char* each : denied) {
    if (says(words, each)) {
      return {what + (share.kind == "sshfs" ? "; is the public part of storage.sshfs.key in the "
                                              "server's authorized_keys?"
                                            : "; does the server export it to this machine, and to "
                                              "ports that are not root's (noresvport): `insecure` "
                                              "in its exports, or resvport in the options here?"),
              "share-denied"};
    }
  }
  if (says(words, "unknown filesystem type") || says(words, "No such device")) {
    return {what + "; the kernel or the image cannot mount " + share.kind +
                ": install nfs-common, and use a kernel that has NFS",
            "tool-missing"};
  }
  constexpr std::array silent = {"timed out",         "Connection refused", "No route to host",
                                 "unreachable",       "reset by peer",      "Connection closed",
                                 "Could not resolve", "Name or service",    "name resolution",
                                 "Failed to resolve", "not responding"};
  for (const char* each : silent) {
    if (says(words, each)) return {what, "share-silent"};
  }
  return {what, "mount-failed"};
}

}  // namespace spotter::act::host
