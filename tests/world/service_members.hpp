#pragma once

#include "tests/world/members.hpp"

namespace spotter::world {

// The tables of the services that have few operations, by boto3's name: iam, sts, sns, efs, ssm,
// service-quotas, pricing.
const std::map<std::string, MemberTable>& service_members();

// The member of the request that is not honoured, in words. REQUIRES: the service has the
// operation.
template <class Request>
std::optional<std::string> refuse_members(const std::string& service, const std::string& operation,
                                          const Request& request) {
  return refuse_members(service_members().at(service).at(operation), request);
}

}  // namespace spotter::world
