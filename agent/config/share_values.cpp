// The values of storage.folder, nfs, efs and sshfs. They become arguments of mount tools, so none
// may begin with '-' or contain a second option.

#include "agent/config/scalars.hpp"

#include "agent/base/text.hpp"

namespace spotter::config {
namespace {

constexpr std::string_view kLettersAndDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

bool only_letters_digits(std::string_view text, const std::string& also) {
  return text.find_first_not_of(std::string(kLettersAndDigits) + also) == text.npos;
}

// False: it has a character that ends an option's value or a line.
bool is_plain(std::string_view text) {
  for (const char each : text)
    if (each == ',' || static_cast<unsigned char>(each) < 0x20 || each == 0x7f) return false;
  return true;
}

Result<std::string> parse_folder_path(std::string_view text) {
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  const std::string padded = std::string(text) + "/";
  if (text.empty() || text[0] != '/')
    return failure(in_quotes(text) + " is relative; give an absolute path");
  if (padded.find("/../") != padded.npos || !is_plain(text))
    return failure(in_quotes(text) + " must not have '..', a comma or a line break in it");
  return std::string(text);
}

Result<std::string> parse_host_name(std::string_view text) {
  // An IPv6 address is in brackets, as mount.nfs and ssh expect it.
  const bool good =
      !text.empty() && text.size() <= 255 && text[0] != '-' && only_letters_digits(text, ".-_:[]");
  if (good) return std::string(text);
  return failure(in_quotes(text) + " is not a host's name or address");
}

bool is_named(std::string_view option, std::string_view name) {
  return option == name || option.starts_with(std::string(name) + "=");
}

Result<std::string> parse_mount_options(std::string_view text) {
  if (text.empty() || !only_letters_digits(text, ",=._:/@%+-[]"))
    return failure(in_quotes(text) + " is not a list of options such as ro,timeo=600");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view option = take_until(rest, ',');
    if (option.empty() || option[0] == '-')
      return failure(in_quotes(text) + " has an empty option");
    for (const auto* ours : {"StrictHostKeyChecking", "UserKnownHostsFile", "IdentityFile",
                             "ssh_command", "directport", "ro"})
      if (is_named(option, ours))
        return failure(in_quotes(option) +
                       " is not an option to give here: the server's key is always checked (key, "
                       "known_hosts), and a job writes");
  }
  return std::string(text);
}

bool is_id(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
  return text.substr(prefix.size()).find_first_not_of("0123456789abcdef") == text.npos;
}

Result<std::string> parse_efs_id(std::string_view text) {
  const bool is_name = text.find('.') != text.npos && parse_host_name(text);
  if (is_id(text, "fs-") || is_name) return std::string(text);
  return failure(in_quotes(text) +
                 " is neither a file system's id (fs-0123456789abcdef0) nor its DNS "
                 "name");
}

Result<std::string> parse_efs_access_point(std::string_view text) {
  if (is_id(text, "fsap-")) return std::string(text);
  return failure(in_quotes(text) + " is not an access point's id (fsap-0123456789abcdef0)");
}

Result<std::string> parse_sshfs_source(std::string_view text) {
  const auto colon = text.find(":/");
  const auto wrong = failure(in_quotes(text) + " is not user@host:/path");
  if (colon == text.npos) return wrong;
  const auto host = text.substr(0, colon);
  const auto at = host.rfind('@');
  const auto user = at == host.npos ? std::string_view() : host.substr(0, at);
  const bool named =
      at == host.npos || (!user.empty() && user[0] != '-' && only_letters_digits(user, "._-"));
  const auto path = parse_folder_path(text.substr(colon + 1));
  if (!named || !path || !parse_host_name(host.substr(at == host.npos ? 0 : at + 1))) return wrong;
  return std::string(text.substr(0, colon + 1)) + *path;
}

Result<std::uint16_t> parse_port(std::string_view text) {
  if (const auto port = number_of_text<std::uint16_t>(text); port && *port > 0) return *port;
  return failure("expected a port from 1 to 65535, found " + in_quotes(text));
}

Result<bool> parse_yes_or_no(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return failure("expected true or false, found " + in_quotes(text));
}

}  // namespace

const Scalar<std::string> folder_path{"an absolute path", parse_folder_path};
const Scalar<std::string> host_name{"a host's name", parse_host_name};
const Scalar<std::string> mount_options{"mount options", parse_mount_options};
const Scalar<std::string> efs_id{"an EFS id or DNS name", parse_efs_id};
const Scalar<std::string> efs_access_point{"an access point's id", parse_efs_access_point};
const Scalar<std::string> sshfs_source{"user@host:/path", parse_sshfs_source};
const Scalar<std::uint16_t> port{"a port", parse_port};
const Scalar<bool> yes_or_no{"true or false", parse_yes_or_no};

}  // namespace spotter::config
