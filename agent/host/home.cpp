#include "agent/host/home.hpp"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <map>
#include <string_view>

#include "agent/aws/formats/s3.hpp"
#include "agent/host/failure.hpp"

namespace spotter::act::host {
namespace {

// A mapped file has fewer bytes than when it was mapped. Nothing is committed.
void became_shorter(int) {
  constexpr std::string_view words =
      "{\"ok\":false,\"kind\":\"home-changed\",\"error\":\"a file of the home became shorter while "
      "it was copied\"}\n";
  [[maybe_unused]] const auto written = ::write(1, words.data(), words.size());
  ::_exit(1);
}

// This process's, and in it who we are at AWS.
Environment environment_with(const std::vector<std::string>& identity) {
  std::map<std::string, std::string, std::less<>> values;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const auto equals = variable.find('=');
    if (equals == variable.npos) continue;
    values.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  for (const std::string& variable : identity) {
    const auto equals = variable.find('=');
    if (equals != variable.npos)
      values.insert_or_assign(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return Environment(std::move(values));
}

}  // namespace

Result<tier::Home> home_of(const verbs::Home& it) {
  auto at = wire::parse_s3_url(it.at);
  if (!at) return tl::unexpected<Error>(at.error());
  std::signal(SIGBUS, became_shorter);
  tier::Home home{it.folder, it.job,         it.checkpoints, it.files, it.folders, it.result,
                  it.log,    *std::move(at), it.epoch,       it.id,    {}};
  home.s3.environment = environment_with(it.identity);
  return home;
}

}  // namespace spotter::act::host
