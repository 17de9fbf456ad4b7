#include "agent/launch/request_parts.hpp"

#include "agent/aws/formats/tags.hpp"
#include "agent/job/storage_name.hpp"

namespace spotter::launch {

using wire::AwsCommand;
using wire::Repeatable;

AwsCommand command(std::string service, std::string action, const OrderedJson& input,
                   Repeatable repeatable) {
  return {std::move(service), std::move(action),
          input.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), repeatable};
}

wire::Tags own_tags(const config::Job& job) {
  wire::Tags tags(job.launch->tags.begin(), job.launch->tags.end());
  tags[tag::job] = job.name.str();
  if (const auto storage = config::storage_name(job); !storage.empty())
    tags[tag::storage] = storage;
  return tags;
}

wire::Tags fleet_tags(const config::Job& job, const std::string& digest) {
  wire::Tags tags = own_tags(job);
  tags.emplace("Name", resource_name(job));
  tags[tag::request] = digest;
  return tags;
}

std::string hyphenated(config::Allocation allocation) {
  switch (allocation) {
    case config::Allocation::LowestPrice:
      return "lowest-price";
    case config::Allocation::Diversified:
      return "diversified";
    case config::Allocation::CapacityOptimized:
      return "capacity-optimized";
    case config::Allocation::PriceCapacityOptimized:
      break;
  }
  return "price-capacity-optimized";
}

bool is_always_on_demand(const config::Launch& launch) {
  return launch.on_demand.when == config::OnDemand::When::Always;
}

OrderedJson template_of(const TemplateVersion& it) {
  return {{"LaunchTemplateId", it.id}, {"Version", it.version}};
}

}  // namespace spotter::launch
