// What the requests for fleets (requests.cpp) and for Auto Scaling groups (group_requests.cpp)
// share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "agent/launch/requests.hpp"

namespace spotter::launch {

using OrderedJson = nlohmann::ordered_json;

wire::AwsCommand command(std::string service, std::string action, const OrderedJson& input,
                         wire::Repeatable repeatable);

// All below REQUIRE job.launch.
wire::Tags own_tags(const config::Job& job);
wire::Tags fleet_tags(const config::Job& job, const std::string& digest);
std::string hyphenated(config::Allocation allocation);  // EC2 Fleet's spelling: lowest-price
bool is_always_on_demand(const config::Launch& launch);
OrderedJson template_of(const TemplateVersion& it);
wire::AwsCommand create_group(const config::Job& job, const TemplateVersion& it,
                              const wire::Tags& tags);

}  // namespace spotter::launch
