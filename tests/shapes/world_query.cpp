// Puts calls to one world, a JSON object a line: {"service", "action", "parameters", "now" (ms)} ->
// {"status", "body"}. Used by shapes_test.py, which checks the answers against botocore's service
// model.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/world/world.hpp"

int main() {
  using namespace spotter;
  using namespace spotter::world;
  World world({}, 1);
  for (std::string line; std::getline(std::cin, line);) {
    const auto asked = nlohmann::json::parse(line, nullptr, false);
    if (asked.is_discarded()) return 2;
    const Call call{.action = asked["action"], .parameters = asked["parameters"]};
    const Time now{Duration{asked["now"].get<Duration::rep>()}};
    const bool ec2 = asked["service"] == "ec2";
    const Reply reply = ec2 ? world.ec2(call, now) : world.auto_scaling(call, now);
    world.advance(now);
    std::cout << nlohmann::json{{"status", reply.status}, {"body", reply.body}}.dump() << std::endl;
  }
}
