// The rights of the user that the trainer runs as: groups, and whether it could become root.
#pragma once

#include <pwd.h>

#include <string_view>

#include "agent/io/child.hpp"

namespace spotter::supervise {

using Account = io::User;

// Kinds: "user-missing"; "not-permitted" when we are neither root nor that user.
Result<Account> find_user(const std::string& name);

// The user's groups without those of the system, whose rights reach beyond a trainer's work
// (docker, disk, adm, systemd-journal and all that we do not know): its own group `own`, those of
// people (numbers from 1000 on), and those of GPUs.
std::vector<gid_t> groups_of(const std::string& user, gid_t own);

// Names the right by which this user could become root: "it is in the group docker", "sudo lets it
// run commands". Empty: there is none that we know. Asks sudo(8), whose policy may come from a
// server: in doubt there is such a right. REQUIRES: called by root, in a process of one thread.
std::string administrators_right(const std::string& user);

// The folder of its files. The user that the package makes has no home in passwd(5), so that
// nothing which looks there for what to run as that user (a mail server, sshd) finds what a trainer
// wrote.
std::string home_of(const passwd& user);
inline constexpr std::string_view packages_home = "/var/lib/spotter";  // of that user

// False for nologin(8) and its like: a system account. An empty one is /bin/sh (passwd(5)).
bool is_login_shell(std::string_view shell);

// The first user of AWS's and the distributions' images (ubuntu, ec2-user...), whom cloud-init lets
// use sudo without a password.
bool is_images_administrator(std::string_view user);

// The advice that follows such a right.
inline constexpr std::string_view instead_of_an_administrator =
    "a trainer could take the machine over, and with it the instance's role: leave trainer.user "
    "out "
    "(it is `spotter` then), or name a user without such rights; `trust: administrator` below "
    "`trainer:` takes the risk";

}  // namespace spotter::supervise
