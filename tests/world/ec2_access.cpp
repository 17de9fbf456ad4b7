#include "tests/world/ec2_access.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "tests/world/ec2_api.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/instances.hpp"
#include "tests/world/sts.hpp"

namespace spotter::world {
namespace {

// Collects what one call needs.
class Needs {
 public:
  Needs(const Cloud& cloud, const Call& call)
      : cloud_(cloud), call_(call), query_(call.parameters), action_("ec2:" + call.action) {}

  std::vector<AccessRequest> all();

 private:
  using Kind = void (Needs::*)();
  static const std::map<std::string, Kind>& kinds();

  void attach() {
    volume(query_.text("VolumeId"));
    instance(query_.text("InstanceId"));
  }
  void detach() {
    const Volume* held = cloud_.volumes.find(VolumeId(query_.text("VolumeId")));
    volume(query_.text("VolumeId"));
    std::string holder = query_.text("InstanceId");
    if (holder.empty() && held != nullptr && held->attachment)
      holder = held->attachment->instance.str();
    if (!holder.empty()) instance(holder);
  }
  void one_volume() { volume(query_.text("VolumeId")); }
  void one_snapshot() { snapshot(query_.text("SnapshotId")); }
  void create_volume() {
    made("volume", account() + "volume/*", query_.tags_for("volume"));
    if (query_.has("SnapshotId")) snapshot(query_.text("SnapshotId"));
  }
  void create_snapshot() {
    const Tags tags = query_.tags_for("snapshot");
    volume(query_.text("VolumeId"), tags);
    made("snapshot", anybodys() + "snapshot/*", tags);
  }
  void copy_snapshot() {
    snapshot(query_.text("SourceSnapshotId"));
    made("snapshot", anybodys() + "snapshot/*", query_.tags_for("snapshot"));
  }
  void tag() {
    const Tags tags = query_.tags("Tag");
    for (const std::string& id : query_.list("ResourceId")) existing(id, tags);
  }
  void instances() {
    for (const std::string& id : query_.list("InstanceId")) instance(id);
  }
  void spot_fleets() {
    for (const std::string& id : query_.list("SpotFleetRequestId")) fleet(id);
    if (query_.has("SpotFleetRequestId")) fleet(query_.text("SpotFleetRequestId"));
  }
  void ec2_fleets() {
    for (const std::string& id : query_.list("FleetId")) fleet(id);
    if (query_.has("FleetId")) fleet(query_.text("FleetId"));
  }
  void create_fleet() {
    made("fleet", account() + "fleet/*", query_.tags_for("fleet"));
    for (const Launch& launch : launches("LaunchTemplateConfigs")) use(launch);
    for (const Launch& launch : launches("LaunchTemplateConfigs")) run(launch, "RunInstances");
  }
  void request_spot_fleet() {
    const std::string config = "SpotFleetRequestConfig.";
    made("spot-fleet-request", account() + "spot-fleet-request/*",
         query_.tags_for("spot-fleet-request", config + "TagSpecification"));
    for (const Launch& launch : launches(config + "LaunchTemplateConfigs")) use(launch);
    pass_role(query_.text(config + "IamFleetRole"), "spotfleet.amazonaws.com");
  }
  void create_template() {
    made("launch-template", account() + "launch-template/*", query_.tags_for("launch-template"));
  }
  void create_placement_group() {
    const std::string arn = account() + "placement-group/" + query_.text("GroupName");
    made("placement-group", arn, query_.tags_for("placement-group"));
  }
  void placement_group() {
    const std::string it = query_.text("GroupName");
    add(account() + "placement-group/" + it, tags_of_placement_group(cloud_, it));
  }
  void templates() {
    const auto it = cloud_.templates.find(query_.text("LaunchTemplateId"));
    add(account() + "launch-template/" + query_.text("LaunchTemplateId", "*"),
        it == cloud_.templates.end() ? Tags() : it->second.tags);
  }
  // A launch, as far as it concerns access: by a template, or by the request alone.
  struct Launch {
    const LaunchTemplate* from = nullptr;
    TemplateVersion what;
    std::vector<std::string> subnets;
    std::vector<std::string> types = {};  // by the request alone
  };
  Launch launch_of(const std::string& prefix) const {
    Launch launch;
    const std::string id = query_.text(prefix + "LaunchTemplateId");
    const std::string name = query_.text(prefix + "LaunchTemplateName");
    for (const auto& [known, it] : cloud_.templates)
      if (known == id || (id.empty() && it.name == name)) launch.from = &it;
    if (launch.from == nullptr) return launch;
    const std::string number = query_.text(prefix + "Version", "$Default");
    for (const TemplateVersion& version : launch.from->versions)
      if (std::to_string(version.number) == number || number == "$Latest" ||
          (number == "$Default" && version.number == launch.from->default_version))
        launch.what = version;
    return launch;
  }
  std::vector<Launch> launches(const std::string& configs) const {
    std::vector<Launch> all;
    for (const std::string& config : query_.members(configs)) {
      Launch& launch = all.emplace_back(launch_of(config + "LaunchTemplateSpecification."));
      for (const std::string& it : query_.members(config + "Overrides")) {
        launch.what.image = query_.text(it + "ImageId", launch.what.image);
        launch.what.placement_group =
            query_.text(it + "Placement.GroupName", launch.what.placement_group);
        launch.subnets.push_back(query_.text(it + "SubnetId", "*"));
        if (query_.has(it + "InstanceType"))
          launch.types.push_back(query_.text(it + "InstanceType"));
      }
    }
    return all;
  }
  // Each thing that the instances are made of, connected to, or come with. EC2 leaves open which of
  // several subnets or security groups it takes where none is named: "*".
  void use(const Launch& launch, const Tags& instance_tags = {}) {
    const TemplateVersion& what = launch.what;
    const bool runs = action_ == "ec2:RunInstances";
    const auto one = [&](const std::string& resource, const Tags& tags = {},
                         const Tags& sent = {}) -> AccessRequest& {
      AccessRequest& it = add(resource, tags, sent);
      if (runs && launch.from != nullptr)
        it.know("ec2:LaunchTemplate", account() + "launch-template/" + launch.from->id);
      return it;
    };
    const auto each = [&](const std::string& kind, std::vector<std::string> names) {
      if (names.empty()) names.emplace_back("*");
      const std::string begin = account() + kind;
      for (const std::string& name : names) one(std::string(begin).append(name));
    };
    if (launch.from != nullptr)
      one(account() + "launch-template/" + launch.from->id, launch.from->tags);
    one(anybodys() + "image/" + (what.image.empty() ? "*" : what.image));
    one(anybodys() + "snapshot/*");
    if (!what.key_name.empty()) one(account() + "key-pair/" + what.key_name);
    if (what.reserved) one(account() + "capacity-reservation/" + what.reserved.id);
    if (const auto& group = what.placement_group; !group.empty())
      one(account() + "placement-group/" + group, tags_of_placement_group(cloud_, group));
    each("subnet/", launch.subnets);
    each("security-group/", groups_of(what));
    one(account() + "network-interface/*");
    for (const std::string& type :
         launch.types.empty() ? std::vector<std::string>{""} : launch.types) {
      AccessRequest& it = one(account() + "instance/*", {}, instance_tags);
      if (runs && !type.empty()) it.know("ec2:InstanceType", type);
    }
    one(account() + "volume/*", {}, runs ? what.volume_tags : Tags());
  }
  void run(const Launch& launch, const std::string& creator) {
    const TemplateVersion& what = launch.what;
    action_ = "ec2:RunInstances";
    use(launch, what.instance_tags);
    action_ = "ec2:CreateTags";
    const auto tag = [&](const std::string& kind, const Tags& tags) {
      if (!tags.empty()) add(account() + kind, {}, tags).know("ec2:CreateAction", creator);
    };
    tag("instance/*", what.instance_tags);
    tag("volume/*", what.volume_tags);
    const auto name = what.profile.substr(what.profile.rfind('/') + 1);
    pass_role(name.empty() ? "" : role_arn(cloud_, name),
              "ec2.amazonaws.com");  // a profile has that of its role
  }
  void pass_role(const std::string& role, const char* service) {
    if (role.empty()) return;
    action_ = "iam:PassRole";
    add(role).know("iam:PassedToService", service);
  }
  void run_instances() {
    Launch launch = launch_of("LaunchTemplate.");
    launch.what.image = query_.text("ImageId", launch.what.image);
    launch.what.profile = query_.text("IamInstanceProfile.Name", launch.what.profile);
    launch.what.key_name = query_.text("KeyName", launch.what.key_name);
    if (query_.has("SecurityGroupId.1"))
      launch.what.security_groups = query_.list("SecurityGroupId");
    if (query_.has("SubnetId")) launch.subnets = {query_.text("SubnetId")};
    if (query_.has("InstanceType")) launch.types = {query_.text("InstanceType")};
    launch.what.instance_tags.merge(query_.tags_for("instance"));
    launch.what.volume_tags.merge(query_.tags_for("volume"));
    run(launch, call_.action);
  }
  void nothing_special() { add("*"); }

  std::string account() const {
    return "arn:aws:ec2:" + cloud_.settings.region.str() + ":" + cloud_.settings.account + ":";
  }
  std::string anybodys() const { return "arn:aws:ec2:" + cloud_.settings.region.str() + "::"; }

  AccessRequest& add(const std::string& resource, const Tags& tags = {}, const Tags& sent = {}) {
    AccessRequest& it = needs_.emplace_back(AccessRequest{action_, resource});
    it.know("aws:RequestedRegion", cloud_.settings.region.str());
    it.know("ec2:Region", cloud_.settings.region.str());
    for (const auto& [key, value] : tags) {
      it.know("ec2:ResourceTag/" + key, value);
      it.know("aws:ResourceTag/" + key, value);
    }
    for (const auto& [key, value] : sent) {
      it.know("aws:RequestTag/" + key, value);
      it.know("aws:TagKeys", key);
    }
    return it;
  }
  // The thing that is made, and its tags: tagging is an action of its own.
  void made(const char*, const std::string& resource, const Tags& tags) {
    add(resource, {}, tags);
    if (tags.empty()) return;
    const std::string making = std::exchange(action_, "ec2:CreateTags");
    add(resource, {}, tags).know("ec2:CreateAction", call_.action);
    action_ = making;
  }
  void volume(const std::string& id, const Tags& sent = {}) {
    if (const Volume* it = cloud_.volumes.find(VolumeId(id)))
      add(account() + "volume/" + id, it->tags, sent);
  }
  void snapshot(const std::string& id, const Tags& sent = {}) {
    if (const Snapshot* it = cloud_.snapshots.find(SnapshotId(id)))
      add(anybodys() + "snapshot/" + id, it->tags, sent);
  }
  void instance(const std::string& id, const Tags& sent = {}) {
    const Instance* it = cloud_.instances.find(InstanceId(id));
    if (it == nullptr) return;
    AccessRequest& request = add(account() + "instance/" + id, it->tags, sent);
    if (!it->profile.empty()) request.know("ec2:InstanceProfile", profile_arn(cloud_, it->profile));
  }
  void fleet(const std::string& id, const Tags& sent = {}) {
    const FleetRequest* it = cloud_.fleets.find(FleetId(id));
    if (it == nullptr) return;
    const bool spot = it->fleet.kind == FleetKind::SpotFleet;
    add(account() + (spot ? "spot-fleet-request/" : "fleet/") + id, it->tags, sent);
  }
  void existing(const std::string& id, const Tags& sent) {
    if (id.starts_with("vol-")) return volume(id, sent);
    if (id.starts_with("snap-")) return snapshot(id, sent);
    if (id.starts_with("i-")) return instance(id, sent);
    if (id.starts_with("sfr-") || id.starts_with("fleet-")) return fleet(id, sent);
    add(account() + "*/" + id, {}, sent);
  }

  const Cloud& cloud_;
  const Call& call_;
  Query query_;
  std::string action_;
  std::vector<AccessRequest> needs_;
};

const std::map<std::string, Needs::Kind>& Needs::kinds() {
  static const std::map<std::string, Kind> known = {
      {"AttachVolume", &Needs::attach},
      {"CancelSpotFleetRequests", &Needs::spot_fleets},
      {"CopySnapshot", &Needs::copy_snapshot},
      {"CreateFleet", &Needs::create_fleet},
      {"CreateLaunchTemplate", &Needs::create_template},
      {"CreateLaunchTemplateVersion", &Needs::templates},
      {"CreatePlacementGroup", &Needs::create_placement_group},
      {"CreateSnapshot", &Needs::create_snapshot},
      {"CreateTags", &Needs::tag},
      {"CreateVolume", &Needs::create_volume},
      {"DeleteFleets", &Needs::ec2_fleets},
      {"DeleteLaunchTemplate", &Needs::templates},
      {"DeletePlacementGroup", &Needs::placement_group},
      {"DeleteSnapshot", &Needs::one_snapshot},
      {"DeleteTags", &Needs::tag},
      {"DeleteVolume", &Needs::one_volume},
      {"DetachVolume", &Needs::detach},
      {"ModifyFleet", &Needs::ec2_fleets},
      {"ModifyVolume", &Needs::one_volume},
      {"ModifySpotFleetRequest", &Needs::spot_fleets},
      {"RequestSpotFleet", &Needs::request_spot_fleet},
      {"RunInstances", &Needs::run_instances},
      {"StartInstances", &Needs::instances},
      {"StopInstances", &Needs::instances},
      {"TerminateInstances", &Needs::instances}};
  return known;
}

std::vector<AccessRequest> Needs::all() {
  const auto kind = kinds().find(call_.action);
  (this->*(kind == kinds().end() ? &Needs::nothing_special : kind->second))();
  return std::move(needs_);
}

// Hexadecimal of a document that says what was refused, as a person may have it decoded
// (sts:DecodeAuthorizationMessage; AWS's own is encrypted).
std::string encoded(const AccessRequest& request) {
  const nlohmann::json document = {
      {"allowed", false},
      {"context", {{"action", request.action}, {"resource", request.resource}}}};
  std::string text;
  for (const char byte : document.dump()) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// IAM counts a policy without its white space: those in a role together, of a user each as a
// managed one, which alone has room for what a person needs.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
constexpr std::size_t longest_of_a_role = 10240, longest_managed = 6144;
std::size_t counted_characters(const std::string& document) {
  return static_cast<std::size_t>(std::ranges::count_if(
      document, [](unsigned char letter) { return std::isspace(letter) == 0; }));
}

}  // namespace

std::vector<AccessRequest> needed_access(const Cloud& cloud, const Call& call) {
  return Needs(cloud, call).all();
}

std::string denial(const Cloud& cloud, const std::string& caller, const AccessRequest& request) {
  return "User: " + arn_of(cloud, caller) + " is not authorized to perform: " + request.action +
         (request.resource == "*" ? "" : " on resource: " + request.resource) +
         " because no identity-based policy allows the " + request.action + " action";
}

std::optional<ApiError> refuse_access(const Cloud& cloud, const Call& call) {
  if (!cloud.access) return std::nullopt;
  for (const AccessRequest& request : needed_access(cloud, call)) {
    if (cloud.access->allows(call.caller, request)) continue;
    return ApiError{"UnauthorizedOperation",
                    "You are not authorized to perform this operation. " +
                        denial(cloud, call.caller, request) +
                        ". Encoded authorization failure message: " + encoded(request),
                    403};
  }
  return std::nullopt;
}

bool may_use_key(const Cloud& cloud, const Call& call) {
  const Query query(call.parameters);
  const std::string key = query.text("KmsKeyId");
  // The account's own key for EBS allows everybody in the account.
  const bool own = key.empty() || key == "alias/aws/ebs" || key == key_arn(cloud, "");
  if (!cloud.access || call.action != "CreateVolume" || own) return true;
  const std::string region = cloud.settings.region.str();
  const std::string arn = key.starts_with("arn:") ? key
                                                  : "arn:aws:kms:" + region + ":" +
                                                        cloud.settings.account + ":key/" + key;
  for (const char* action :
       {"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom", "kms:ReEncryptTo"}) {
    AccessRequest request{action, arn};
    request.know("kms:ViaService", "ec2." + region + ".amazonaws.com");
    request.know("kms:GrantIsForAWSResource", "true");
    if (!cloud.access->allows(call.caller, request)) return false;
  }
  return true;
}

Expected<std::vector<Policy>> read_policies(const std::string& who,
                                            const std::vector<std::string>& documents) {
  std::vector<Policy> policies;
  const bool of_a_role = who == "instance" || who.starts_with("role/");
  std::size_t characters = 0;
  for (const std::string& document : documents) {
    auto policy = Policy::parse(document);
    if (!policy) return refusal("MalformedPolicyDocument", policy.error().message);
    characters = counted_characters(document) + (of_a_role ? characters : 0);
    if (characters > (of_a_role ? longest_of_a_role : longest_managed))
      return refusal("LimitExceeded",
                     of_a_role ? "Maximum policy size of 10240 bytes exceeded for role " + who
                               : "Cannot exceed quota for PolicySize: 6144",
                     409);
    policies.push_back(std::move(*policy));
  }
  return policies;
}

Expected<void> put_policies(Cloud& cloud, const std::string& who,
                            const std::vector<std::string>& documents) {
  auto read = read_policies(who, documents);
  if (!read) return tl::unexpected(read.error());
  auto policies = cloud.access ? cloud.access->policies() : Access::Policies();
  policies[who] = std::move(*read);
  auto sessions = cloud.access ? cloud.access->sessions() : Access::Sessions();
  cloud.access = std::make_shared<const Access>(std::move(policies), std::move(sessions));
  return {};
}

Expected<void> World::set_policies(const std::string& who,
                                   const std::vector<std::string>& documents) {
  if (auto put = put_policies(cloud_, who, documents); !put) return put;
  if (documents.empty()) {  // without policies everything is allowed again
    auto policies = cloud_.access->policies();
    policies.erase(who);
    cloud_.access = std::make_shared<const Access>(std::move(policies), cloud_.access->sessions());
  }
  if (who == "instance" || who == "user" || who.starts_with("role/")) return {};
  std::string key = "AKIA";
  for (const char letter : who)
    key += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  key.resize(20, '0');
  cloud_.credentials[key] = {key, cloud_.settings.user_secret, "", who, std::nullopt};
  return {};
}

}  // namespace spotter::world
