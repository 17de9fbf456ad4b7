// The EC2 Query layer: one function an operation, parameters -> typed core -> the XML inside the
// response. Element names: the EC2 API reference, checked against botocore's service model
// (tests/shapes).
#pragma once

#include "tests/world/query.hpp"
#include "tests/world/world.hpp"
#include "tests/world/xml.hpp"

namespace spotter::world {

struct Session {
  Cloud& cloud;
  const Query& query;
};

using Answer = Expected<Xml>;

inline constexpr const char* vpc = "vpc-00000000000000000";  // the only one

using Operation = Answer (*)(Session&);
using Operations = std::map<std::string, Operation>;

// The first problem of the parameters, as a return value.
#define SPOTTER_CHECK_QUERY(session) \
  if ((session).query.error()) return tl::unexpected(*(session).query.error())

void add_volume_operations(Operations& operations);
void add_snapshot_operations(Operations& operations);
void add_tag_operations(Operations& operations);
void add_instance_operations(Operations& operations);
void add_spot_operations(Operations& operations);
void add_spot_fleet_operations(Operations& operations);
void add_fleet_operations(Operations& operations);
void add_template_operations(Operations& operations);
void add_place_operations(Operations& operations);
void add_placement_operations(Operations& operations);
void add_security_group_operations(Operations& operations);
void add_network_operations(Operations& operations);
void add_reservation_operations(Operations& operations);
void add_image_operations(Operations& operations);

// Shared pieces of answers and requests.
Xml returned_true();  // <return>true</return>
void write_tags(Xml& xml, const Tags& tags, std::string_view name = "tagSet");
void write_id_error(Xml& xml, const ApiError& error);  // <error><code/><message/></error>
// Sent parameters ("LaunchSpecifications.1.ImageId") as nested elements
// (launchSpecifications/item/imageId).
// `lists`: what the element of a list is called, and each of its items, where that is not the
// parameter's name and "item".
using ListNames = std::map<std::string, std::pair<const char*, const char*>>;
void write_sent(Xml& xml, const std::map<std::string, std::string>& sent,
                const ListNames& lists = {});
std::string lower_first(std::string name);

// "It's possible for a page to have no items and a token" (API reference, "Pagination").
bool begins_empty(const Session& session);

// Rows by id (an unknown id answers `not_found`), filtered and cut into a page. `rows`: sorted by
// id.
template <class Row>
Expected<Page<Row>> select(Session& session, std::vector<Row> rows,
                           const std::vector<std::string>& ids, const std::string& not_found,
                           const std::vector<std::string>& known,
                           const std::function<Facts(const Row&)>& facts,
                           const std::function<std::string(const Row&)>& id_of) {
  const auto filters = session.query.filters();
  if (auto checked = check_filters(filters, known); !checked) {
    return tl::unexpected(checked.error());
  }
  for (const std::string& id : ids) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return id_of(row) == id; })) {
      return refusal(not_found, "The ID '" + id + "' does not exist");
    }
  }
  if (ids.empty() && begins_empty(session)) return Page<Row>{{}, "page-0"};
  std::erase_if(rows, [&](const Row& row) {
    const bool named = ids.empty() || std::find(ids.begin(), ids.end(), id_of(row)) != ids.end();
    return !named || (!filters.empty() && !passes(filters, facts(row), row.tags));
  });
  auto result = page(std::move(rows), session.query);
  SPOTTER_CHECK_QUERY(session);
  return result;
}

// Launches that RunInstances refuses even as a dry run: a caller that may launch learns so that EC2
// does not know the instance profile (yet).
std::optional<ApiError> refuse_run(Session& session);

// A zone and subnet in which a launch may go. sites(): the zones of a comma-separated list, those
// of subnets, else every zone.
struct Site {
  Zone zone;
  std::string subnet;
};
std::vector<Site> sites(Session& session, const std::string& zones, const std::string& subnets);
std::string zone_id(const Cloud& cloud, const Zone& zone);
// Of PREFIXAvailabilityZone or PREFIXAvailabilityZoneId; empty: neither is given.
std::string zone_parameter(Session& session, const std::string& prefix = {});
std::string reservation_of(const Instance& instance);
std::string subnet_of(const Cloud& cloud, const Zone& zone);
std::string block_of_subnet(const Cloud& cloud, const std::string& subnet);  // of IPv4 addresses
Zone zone_of_subnet(const Cloud& cloud, const std::string& subnet);          // REQUIRES: a name
// The network interfaces in the list `name`, as RunInstances and launch templates have it.
std::vector<Interface> interfaces_of(const Query& query, const std::string& name);
// The id of the security group that GroupId or GroupName means.
std::string security_group(Session& session);
// Those of SecurityGroupId.N and SecurityGroup.N, by name, below `prefix`.
std::vector<std::string> security_groups(Session& session, const std::string& prefix);
int hop_limit_parameter(const Query& query, const std::string& name);
// The block device mapping at `prefix`: a size, a type and speeds that a volume can have.
void check_disk(const Query& query, const std::string& prefix);
constexpr const char* root_device = "/dev/xvda";
// UnsupportedOperation where it has disks beside the root's: instances of fleets have none.
std::optional<ApiError> refuse_more_disks(const TemplateVersion& version);
// Those below `prefix` over those that there are.
LaunchExtras extras_parameters(const Query& query, const std::string& prefix,
                               LaunchExtras extras = {});
std::string public_address(const Instance& instance);  // empty: it has none
// How InstanceMarketOptions below `prefix` asks for spot capacity.
void read_market(Session& session, const std::string& prefix, LaunchOption& option, bool& spot);
// A maximum price, in dollars an hour.
std::string price_parameter(const Query& query, const std::string& name,
                            const std::string& otherwise = {});
InterruptionAction behaviour_parameter(const Query& query, const std::string& name);
void check_behaviour(const Query& query, const FleetRequest& request);  // when interrupted
const std::vector<std::string>& spot_strategies();  // in EC2 Fleet's words, the default first
const std::vector<std::string>& on_demand_strategies();
// The strategy in EC2 Fleet's words; refuses one that is none of `known`.
std::string strategy_parameter(const Query& query, const std::string& name,
                               const std::vector<std::string>& known);
std::optional<Rebalancing> rebalancing_parameter(const Query& query, const std::string& prefix,
                                                 FleetType type);
// A template's data as a place to launch (without its zone).
LaunchOption option_of(const LaunchTemplate& launch_template, const TemplateVersion& version);
// The template that is named below `prefix`, which has to name one.
TemplateReference template_reference(const Query& query, const std::string& prefix);
// The options of LaunchTemplateConfigs.N below `prefix`, as both kinds of fleets send them.
std::vector<LaunchOption> template_options(Session& session, const std::string& prefix);
// A KMS key's ARN; empty: the account's own for EBS.
std::string key_arn(const Cloud& cloud, const std::string& key);
std::optional<Time> time_parameter(Session& session, const std::string& name);

// The recorded history of a fleet and of its instances.
std::vector<HistoryEvent> events_of(const Cloud& cloud, const FleetRequest& fleet);
// The form in which a kind of fleet shows its history: the element with its id, and the type and
// subtype of each kind of event that it shows.
struct HistoryForm {
  const char* id;
  std::map<std::string, std::pair<std::string, std::string>> names;
};
Xml history_of(Session& session, const FleetRequest& fleet, Time start, const HistoryForm& form);

}  // namespace spotter::world
