#include "agent/config/launch.hpp"

#include <algorithm>
#include <cctype>

#include "agent/aws/formats/s3.hpp"
#include "agent/config/reader.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

bool is_image(std::string_view text) {
  constexpr std::string_view parameter = "resolve:ssm:";
  const bool known =
      text.starts_with("ami-") || (text.starts_with(parameter) && text.size() > parameter.size());
  return known && text.find_first_of(" \t\r\n") == text.npos;
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.find_first_of(" ,\t\r\n") == text.npos;
}

bool is_instance_type(std::string_view text) {
  const auto dot = text.find('.');
  return dot != text.npos && dot > 0 && dot + 1 < text.size() && InstanceType::fits(text) &&
         is_plain_name(text);
}

bool is_reservation(std::string_view text) { return is_id(text, "cr-"); }

const Scalar<std::string> image{.expected = "an image such as ami-0123 or resolve:ssm:/PARAMETER",
                                .fits = is_image};
const Scalar<std::string> plain_name{.expected = "a name without blanks and commas",
                                     .fits = is_plain_name};
const Scalar<std::string> instance_type{.expected = "an instance type such as g5.xlarge",
                                        .fits = is_instance_type};
const Scalar<std::string> reservation_id{
    .expected = "a capacity reservation's id such as cr-0123456789abcdef0", .fits = is_reservation};

const Scalar<bool> reservation_kind{
    .expected = "capacity-block or interruptible",
    .choices = {{"capacity-block", false}, {"interruptible", true}}};

Reader::Fields reservation_fields(Reader& reader, CapacityReservation& reservation) {
  return {{"id", required, reader.expanded(reservation.id, reservation_id)},
          {"kind", required, reader.scalar(reservation.interruptible, reservation_kind)}};
}

// launch.pools: the places where the job may run, by region.
//
//   pools: [{types: [g5.xlarge, g6.xlarge], zones: [us-west-2a, us-west-2b]},
//           {region: us-east-2, types: [g5.xlarge]}]
//
// An entry is a place: a region with its types, and what else is of one region only. One of the
// places has the job's instance; `spotter watch` moves it to another (launch/places.hpp).

bool is_region(std::string_view text) {
  return !text.empty() && Region::fits(text) &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos &&
         text.back() >= '0' && text.back() <= '9';
}
const Scalar<std::string> region{.expected = "a region such as us-east-2", .fits = is_region};

Reader::Fields place_fields(Reader& reader, Place& place) {
  return {{"region", optional, reader.expanded(place.region, region)},
          {"types", required, reader.texts(place.instance_types, instance_type)},
          {"zones", optional, reader.texts(place.zones, plain_name)},
          {"subnets", optional, reader.texts(place.subnets, plain_name)},
          {"security_groups", optional, reader.texts(place.security_groups, plain_name)},
          {"key", optional, reader.expanded(place.key, tag_value)},
          {"image", optional, reader.expanded(place.image, image)}};
}

bool has_own_image(const Place& place) { return !place.image.empty(); }

// Settings of one region cannot be given for all of them.
void check_shared(Reader& reader, const Launch& launch) {
  const auto problem = [&](const std::string& what) { reader.problem("launch.pools", what); };
  if (!launch.security_groups.empty() || !launch.key.empty())
    problem("security_groups and key are of one region: give them in each of pools");
  if (launch.image.starts_with("ami-") && !std::ranges::all_of(launch.places, has_own_image))
    problem("image: " + launch.image +
            " is of one region: give one in each of pools, or a parameter that all regions have: "
            "resolve:ssm:/aws/service/...");
  if (launch.type == FleetKind::AutoScalingGroup)
    problem(
        "an Auto Scaling group does not wait at target 0 while the job runs in another region: "
        "take `type: fleet` or `spot-fleet`");
  if (launch.on_demand.when != OnDemand::When::WhenNeeded)
    problem(
        "pools in several regions need `on_demand: when-needed`: `spotter watch` moves the job "
        "from one to another");
}

void read_pools(Reader& reader, const Node& node, const std::string& path, Launch& launch) {
  if (node.kind != Node::Kind::List || node.items.empty())
    return reader.problem(node, path,
                          "expected a list of pools, such as [{types: [g5.xlarge]}, {region: "
                          "us-east-2, types: [g5.xlarge]}]");
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    Place place;
    const std::string its = path + "[" + std::to_string(i) + "]";
    reader.map(node.items[i], its, place_fields(reader, place));
    const auto same = std::ranges::find(launch.places, place.region, &Place::region);
    if (same != launch.places.end())
      reader.problem(node.items[i], its,
                     (place.region.empty() ? "a second one without region"
                                           : place.region + " is there twice") +
                         std::string(": give all types and zones of a region in one entry"));
    launch.places.push_back(std::move(place));
  }
}

// Reports what does not fit together; then sets the launch to that of the first place, whatever the
// others are. REQUIRES: launch_fields() are read.
void settle_pools(Reader& reader, Launch& launch) {
  if (reader.given("launch.pools") == nullptr) {
    if (reader.given("launch.instance_types") == nullptr)
      reader.problem("launch", "the key 'instance_types' is missing");
    return;
  }
  for (const std::string key : {"launch.instance_types", "launch.zones", "launch.subnets"})
    if (reader.given(key) != nullptr)
      reader.problem("launch.pools", "has types, zones and subnets of its own: leave out " + key);
  if (launch.places.size() > 1) check_shared(reader, launch);
  for (Place& place : launch.places) {  // what all share, before the first one's is the launch's
    if (place.security_groups.empty()) place.security_groups = launch.security_groups;
    if (place.key.empty()) place.key = launch.key;
    if (place.image.empty()) place.image = launch.image;
  }
  if (!launch.places.empty()) static_cast<Place&>(launch) = launch.places[0];
}

using NodeKind = Node::Kind;

const Scalar<FleetKind> type{.expected = "fleet, spot-fleet or auto-scaling-group",
                             .choices = {{"fleet", FleetKind::Ec2Fleet},
                                         {"spot-fleet", FleetKind::SpotFleet},
                                         {"auto-scaling-group", FleetKind::AutoScalingGroup}}};

// In Spot Fleet's spelling; EC2 Fleet writes lowest-price.
const Scalar<Allocation> allocation{
    .expected = "a strategy such as priceCapacityOptimized",
    .choices = {{"priceCapacityOptimized", Allocation::PriceCapacityOptimized},
                {"price-capacity-optimized", Allocation::PriceCapacityOptimized},
                {"lowestPrice", Allocation::LowestPrice},
                {"lowest-price", Allocation::LowestPrice},
                {"capacityOptimized", Allocation::CapacityOptimized},
                {"capacity-optimized", Allocation::CapacityOptimized},
                {"diversified", Allocation::Diversified}}};

bool is_role_arn(std::string_view text) {
  return text.starts_with("arn:") && text.find(":role/") != text.npos;
}
const Scalar<std::string> fleet_role{.expected = "a role's ARN (arn:aws:iam::ACCOUNT:role/NAME)",
                                     .fits = is_role_arn};

Result<std::string> parse_price(std::string_view text) {
  TRY(positive_number.parse(text));
  if (text.find_first_not_of("0123456789.") == text.npos) return std::string(text);
  return failure("expected dollars an hour such as 0.50, found " + in_quotes(text));
}
const Scalar<std::string> price{"dollars an hour, such as 0.50", parse_price};

Result<OnDemand> parse_on_demand(std::string_view text) {
  constexpr std::string_view after = "after ";
  if (text == "never") return OnDemand{};
  if (text == "always") return OnDemand{OnDemand::When::Always, {}};
  if (text == "when-needed") return OnDemand{OnDemand::When::WhenNeeded, {}};
  if (!text.starts_with(after))
    return failure(in_quotes(text) +
                   " is none of never, always, when-needed, or after and a duration: after 20m");
  const auto patience = TRY(duration.parse(text.substr(after.size())));
  if (patience < std::chrono::seconds(1))
    return failure(in_quotes(text) + ": it looks once a minute; wait for at least 1s");
  return OnDemand{OnDemand::When::After, patience};
}
const Scalar<OnDemand> on_demand{"never, always, when-needed or after 20m", parse_on_demand};

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html: "up to 255
// ASCII characters"
Result<std::string> parse_placement_group(std::string_view text) {
  if (text == "none") return std::string();
  const bool plain = std::ranges::all_of(text, [](char each) { return each > ' ' && each < 0x7f; });
  if (!text.empty() && text.size() <= 255 && plain) return std::string(text);
  return failure(in_quotes(text) + " is no name of a placement group, nor own or none");
}
const Scalar<std::string> placement_group{"none, own or a placement group's name",
                                          parse_placement_group};

const Scalar<int> capacity{"how many instances", parse_between<1, 10'000>};
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
const Scalar<int> gibibytes{"a size in GiB, such as 100", parse_between<1, 65'536>};

Result<std::string> parse_sha256(std::string_view text) {
  const std::string digest = lower_case(text);
  if (digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == digest.npos)
    return digest;
  return failure(in_quotes(text) + " is no SHA-256, 64 hexadecimal digits: sha256sum FILE");
}

// It is put in single quotes of a shell, and its last part names the file. "s3://bucket/prefix/" is
// where the launching machine puts its own.
Result<std::string> parse_object(std::string_view text) {
  const auto location = TRY(wire::parse_s3_url(text));
  const std::string& key = location.key;
  const bool known = text.ends_with('/') || key.ends_with(".deb") || key.ends_with(".rpm") ||
                     key.ends_with(".tar.gz");
  if (known && text.find_first_of("'\\\r\n") == text.npos) return std::string(text);
  return failure(in_quotes(text) + " is no package: s3://bucket/ and a name that ends with .deb, " +
                 ".rpm or .tar.gz; or s3://bucket/prefix/, where `spotter launch` puts its own");
}

const Scalar<std::string> object{"where in S3, such as s3://bucket/spotter.deb", parse_object};

bool is_file(std::string_view text) {
  return !text.empty() && text.find_first_of("\r\n") == text.npos;
}
const Scalar<std::string> file_name{
    .expected = "a file such as build/packages/spotter_1.0_amd64.deb", .fits = is_file};

const Scalar<std::string> package_source{.expected = "baked, apt or {s3: s3://bucket/prefix/}",
                                         .choices = {{"baked", "baked"}, {"apt", "apt"}}};

void read_package(Reader& reader, const Node& node, const std::string& path, Package& to) {
  if (node.kind != NodeKind::Map) return reader.scalar(to.source, package_source)(node, path);
  reader.map(node, path,
             {{"s3", required, reader.expanded(to.source, object)},
              {"file", optional, reader.expanded(to.file, file_name)},
              {"sha256", optional, reader.scalar(to.sha256, sha256)}});
  if (!to.source.starts_with("s3://")) return;
  if (to.is_sent() && !to.sha256.empty())
    reader.problem(node, path, "sha256: `spotter launch` takes that of what it sends");
  if (!to.is_sent() && !to.file.empty())
    reader.problem(node, path,
                   "file: it is sent to a place that ends with '/', such as s3://bucket/prefix/");
  if (!to.is_sent() && child(node, "sha256") == nullptr)
    reader.problem(node, path,
                   "the key 'sha256' is missing: an object is installed only if it has that "
                   "checksum (for your own package: s3://bucket/prefix/)");
}

// Instances get them, and read their tags in the metadata service: EC2 then launches none with
// another key, and a fleet says so nowhere but in its history.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-tags.html#tag-restrictions
std::string wrong_in_metadata(std::string_view key) {
  const auto allowed = [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
           std::string_view("-_+=,.@:").find(each) != std::string_view::npos;
  };
  if (key != "." && key != ".." && key != "_index" && std::ranges::all_of(key, allowed)) return {};
  return in_quotes(key) +
         ": EC2 would launch no instance: of letters, digits and -_+=,.@: alone is the key of a " +
         "tag that an instance can read, and not . or .. or _index";
}

Reader::Take tags(Reader& reader, std::map<std::string, std::string>& to) {
  return reader.pairs("tags, such as {project: speech}",
                      [&](const Node& key, const Node& value, const std::string& path) {
                        auto wrong = wrong_tag_key(key.text);
                        if (wrong.empty()) wrong = wrong_in_metadata(key.text);
                        if (!wrong.empty()) return reader.problem(key, path, wrong);
                        reader.expanded(to[key.text], tag_value)(value, path);
                      });
}

using Rate = std::optional<std::uint32_t>;
Result<Rate> parse_rate(std::string_view text) {
  if (text == "auto") return Rate();
  if (text == "none") return Rate(0);
  if (const auto rate = parse_between<100, 300>(text)) return Rate(*rate);
  return failure(in_quotes(text) + " is not auto, none or a whole number from 100 to 300");
}
const Scalar<Rate> rate{"auto, none or MiB/s such as 200", parse_rate};

Reader::Fields new_volume_fields(Reader& reader, NewVolume& volume) {
  return {{"size", required, reader.scalar(volume.size_gib, gibibytes)},
          {"type", optional, reader.scalar(volume.type, volume_type)},
          {"zone", optional, reader.expanded(volume.zone, plain_name)},
          {"iops", optional, reader.scalar(volume.iops, volume_rate)},
          {"throughput", optional, reader.scalar(volume.throughput, volume_rate)},
          {"encrypted", optional, reader.scalar(volume.encrypted, yes_or_no)},
          {"kms_key", optional, reader.expanded(volume.kms_key, plain_name)},
          {"initialization_rate", optional, reader.scalar(volume.initialization_rate, rate)}};
}

Reader::Fields disk_fields(Reader& reader, RootDisk& disk) {
  return {{"size", required, reader.scalar(disk.size_gib, gibibytes)},
          {"throughput", optional, reader.scalar(disk.throughput, volume_rate)}};
}

Reader::Fields launch_fields(Reader& reader, Job& job) {
  Launch& launch = *job.launch;
  return {{"type", optional, reader.scalar(launch.type, type)},
          {"image", required, reader.expanded(launch.image, image)},
          {"instance_types", optional, reader.texts(launch.instance_types, instance_type)},
          {"zones", optional, reader.texts(launch.zones, plain_name)},
          {"subnets", optional, reader.texts(launch.subnets, plain_name)},
          {"security_groups", optional, reader.texts(launch.security_groups, plain_name)},
          {"key", optional, reader.expanded(launch.key, tag_value)},
          {"profile", required, reader.expanded(launch.profile, instance_profile)},
          {"fleet_role", optional, reader.expanded(launch.fleet_role, fleet_role)},
          {"allocation", optional, reader.scalar(launch.allocation, allocation)},
          {"max_price", optional, reader.scalar(launch.max_price, price)},
          {"capacity", optional, reader.scalar(launch.capacity, capacity)},
          {"placement_group", optional, reader.scalar(launch.placement_group, placement_group)},
          {"efa", optional, reader.scalar(launch.efa, yes_or_no)},
          {"on_demand", optional, reader.scalar(launch.on_demand, on_demand)},
          {"capacity_reservation", optional, reader.object(launch.reservation, reservation_fields)},
          {"work", optional, reader.scalar(job.deadline.work, duration)},
          {"start", optional, reader.scalar(job.deadline.start, duration)},
          {"pools", optional, reader.by(read_pools, launch)},
          {"package", optional, reader.by(read_package, launch.package)},
          {"volume", optional, reader.object(launch.volume, new_volume_fields)},
          {"disk", optional, reader.object(launch.disk, disk_fields)},
          {"tags", optional, tags(reader, launch.tags)}};
}

// Each would be a pool of its own, with the same instances in it; EC2 refuses some of these.
std::string repeated(const std::vector<std::string>& names) {
  for (auto it = names.begin(); it != names.end(); ++it)
    if (std::find(names.begin(), it, *it) != it) return *it;
  return {};
}

void check_repetitions(Reader& reader, const Launch& launch) {
  for (const auto& [key, names] :
       {std::pair{"instance_types", &launch.instance_types}, std::pair{"zones", &launch.zones},
        std::pair{"subnets", &launch.subnets}})
    if (const std::string name = repeated(*names); !name.empty())
      reader.problem("launch", std::string(key) + ": " + name + " is there twice");
}

// It is of one type in one zone, has its price, and nothing else comes in its place.
void check_reservation(Reader& reader, const Launch& launch) {
  if (!launch.reservation) return;
  const auto wrong = [&](const std::string& why) {
    reader.problem("launch.capacity_reservation", why);
  };
  if (launch.type != FleetKind::Ec2Fleet) wrong("only `type: fleet` launches into one");
  if (launch.instance_types.size() > 1) wrong("is of one instance type: name no other");
  if (launch.zones.size() + launch.subnets.size() != 1)
    wrong("is in one zone: name it in zones, or one of its subnets");
  if (launch.places.size() > 1) wrong("is in one region, and so are launch.pools beside it");
  for (const std::string key : {"allocation", "max_price", "on_demand"})
    if (reader.given("launch." + key) != nullptr)
      wrong(key + " is of other capacity: a fleet of reserved capacity has no other");
}

void check_kind(Reader& reader, const Launch& launch) {
  const auto problem = [&](const std::string& what) { reader.problem("launch", what); };
  if (!launch.zones.empty() && !launch.subnets.empty())
    problem("zones and subnets: give one of them, a subnet is in one zone");
  if (launch.type == FleetKind::SpotFleet && launch.fleet_role.empty())
    problem(
        "a Spot Fleet needs fleet_role, such as arn:aws:iam::ACCOUNT:role/"
        "aws-ec2-spot-fleet-tagging-role");
  if (launch.on_demand.when == OnDemand::When::Always && !launch.max_price.empty())
    problem("max_price is of spot instances, and on_demand is always");
  if (launch.type != FleetKind::AutoScalingGroup) return;
  if (launch.zones.empty() && launch.subnets.empty())
    problem("an Auto Scaling group needs zones or subnets");
  if (launch.allocation == Allocation::Diversified)
    problem("an Auto Scaling group knows no allocation 'diversified'");
}

void check_when_needed(Reader& reader, const Job& job) {
  const auto problem = [&](const char* what) {
    reader.problem("launch.on_demand", std::string("when-needed ") + what);
  };
  if (!job.deadline.is_set())
    problem("needs a deadline: `finish_by: 2026-12-04T18:00Z`, or `within: 36h`");
  if (!job.deadline.work)
    problem(
        "needs `launch.work`, about how long all of the training takes, such as 40h: by it the "
        "deadline is kept until the job's own pace is known");
  if (!job.publish)
    problem("needs `publish: s3://bucket/prefix`, where `spotter watch` sees what is left to do");
  if (job.launch->capacity > 1 || job.sweep || job.gang)
    problem("is for one instance and one training: no capacity above 1, no sweep and no gang");
}

}  // namespace

std::optional<RootDisk> root_disk(const Job& job) {
  constexpr std::uint64_t working_copy_gib = 100;
  if (job.launch->disk || !job.storage.in_bucket()) return job.launch->disk;
  return RootDisk{working_copy_gib, {}};
}

Launch launch_at(const Launch& launch, std::size_t place) {
  Launch there = launch;
  there.places.clear();
  if (place < launch.places.size()) static_cast<Place&>(there) = launch.places[place];
  return there;
}

const Scalar<std::string> sha256{"a SHA-256", parse_sha256};
const Scalar<std::string> volume_type{.expected = "a volume's type such as gp3",
                                      .choices = {{"gp3", "gp3"},
                                                  {"gp2", "gp2"},
                                                  {"io1", "io1"},
                                                  {"io2", "io2"},
                                                  {"st1", "st1"},
                                                  {"sc1", "sc1"}}};
const Scalar<int> volume_rate{"a number such as 3000", parse_between<1, 256'000>};

void read_launch(Reader& reader, const Node& node, const std::string& path, Job& job) {
  Launch& launch = job.launch.emplace();
  reader.map(node, path, launch_fields(reader, job));
  if (node.kind != NodeKind::Map) return;
  settle_pools(reader, launch);
  check_kind(reader, launch);
  check_reservation(reader, launch);
  check_repetitions(reader, launch);
  if (!launch.volume) return;
  if (launch.volume->zone.empty() && !launch.zones.empty()) launch.volume->zone = launch.zones[0];
  if (launch.volume->zone.empty())
    reader.problem("launch.volume",
                   "the key 'zone' is missing: no zones are named from which to take it");
  if (!launch.volume->kms_key.empty()) launch.volume->encrypted = true;
}

void check_launch(Reader& reader, const Job& job) {
  if (!job.launch) return;
  const Launch& launch = *job.launch;
  if (launch.capacity > 1 && !job.claims && !job.gang)
    reader.problem("launch.capacity",
                   "more than one instance needs `claims:`, which say who does what, or `gang:`");
  if (!launch.placement_group.empty() && !job.gang)
    reader.problem("launch.placement_group",
                   "is for a job with `gang:`: one instance has none to be near to");
  if (launch.efa && !job.gang)
    reader.problem("launch.efa", "is for a job with `gang:`: one instance talks to no other");
  // EBS attaches a volume to one of the two fleets' instances; on a share nothing else tells them
  // who writes.
  const bool unlocked = job.storage.share && !job.storage.in_bucket() && !job.claims && !job.gang;
  if (launch.on_demand.needs_watcher() && unlocked)
    reader.problem("launch.on_demand",
                   "an on-demand instance needs `claims:` here, which say who writes while it and "
                   "a spot instance are there at once");
  if (launch.places.size() > 1 && !job.storage.in_bucket())
    reader.problem("launch.pools",
                   "several regions need `storage: {s3: s3://bucket/prefix}`: a volume is in one "
                   "zone, and a share in one region");
  if (job.storage.share && launch.volume)
    reader.problem("launch.volume", "the job's storage is no EBS volume");
  // Instances and root volumes get these tags, too, and would be taken for the job's volume.
  if (!job.storage.share && launch.tags.contains(job.storage.ebs.tag.key))
    reader.problem("launch.tags",
                   "'" + job.storage.ebs.tag.key + "' is the tag by which storage.ebs is found");
}

void check_deadline(Reader& reader, Job& job) {
  Deadline& deadline = job.deadline;
  deadline.dollars = job.limits.dollars;
  if (deadline.finish_by && deadline.within)
    reader.problem("within", "finish_by is given, too: which is it?");
  const bool gives_way = reader.given("limits.gives_way") != nullptr;
  if (gives_way && (!deadline.is_set() || !job.limits.dollars))
    reader.problem("limits.gives_way",
                   "is for a job with both, a deadline (finish_by or within) and limits.dollars");
  if (deadline.gives_way == Deadline::GivesWay::Dollars) job.limits.dollars.reset();
  if (job.launch && job.launch->on_demand.when == OnDemand::When::WhenNeeded)
    check_when_needed(reader, job);
}

}  // namespace spotter::config
