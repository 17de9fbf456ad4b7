// Answers in the form of the examples of the EC2 API reference.
#include <gtest/gtest.h>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {
namespace {

std::string answer(const std::string& action, const std::string& content) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<" + action +
         "Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\n"
         "  <requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>\n" +
         content + "</" + action + "Response>";
}

const std::string volume_item = R"(
    <volumeId>vol-1234567890abcdef0</volumeId>
    <size>80</size>
    <snapshotId>snap-1234567890abcdef0</snapshotId>
    <availabilityZone>us-east-1a</availabilityZone>
    <status>in-use</status>
    <createTime>2026-11-21T10:15:30.123Z</createTime>
    <attachmentSet>
      <item>
        <volumeId>vol-1234567890abcdef0</volumeId>
        <instanceId>i-1234567890abcdef0</instanceId>
        <device>/dev/sdh</device>
        <status>attached</status>
        <attachTime>2026-11-21T10:16:30.000Z</attachTime>
        <deleteOnTermination>false</deleteOnTermination>
      </item>
    </attachmentSet>
    <tagSet>
      <item><key>Name</key><value>a &amp; b</value></item>
      <item><key>empty</key><value/></item>
    </tagSet>
    <volumeType>gp3</volumeType>
    <iops>3000</iops>
    <throughput>125</throughput>
    <volumeInitializationRate>200</volumeInitializationRate>
    <encrypted>true</encrypted>
    <kmsKeyId>arn:aws:kms:us-east-1:1:key/k</kmsKeyId>
    <sseType>somethingNew</sseType>)";

const std::string volumes =
    answer("DescribeVolumes",
           "<volumeSet><item>" + volume_item + "</item></volumeSet><nextToken>more</nextToken>");

TEST(Ec2Answer, ReadsAVolume) {
  const auto page = decode<DescribeVolumes>(volumes);
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_EQ(page->next_token, "more");
  const Volume& volume = page->items[0];
  EXPECT_EQ(volume.id, VolumeId("vol-1234567890abcdef0"));
  EXPECT_EQ(volume.zone, Zone("us-east-1a"));
  EXPECT_EQ(volume.state, VolumeState::InUse);
  EXPECT_EQ(volume.type, "gp3");
  EXPECT_EQ(volume.size_gib, 80u);
  EXPECT_EQ(volume.iops, 3000u);
  EXPECT_EQ(volume.throughput, 125u);
  EXPECT_EQ(volume.initialization_rate, 200u);
  EXPECT_TRUE(volume.encrypted);
  EXPECT_EQ(volume.kms_key, "arn:aws:kms:us-east-1:1:key/k");
  EXPECT_EQ(volume.from_snapshot, SnapshotId("snap-1234567890abcdef0"));
  EXPECT_EQ(volume.tags, (Tags{{"Name", "a & b"}, {"empty", ""}}));
  EXPECT_EQ(to_rfc3339(volume.create_time), "2026-11-21T10:15:30Z");
  ASSERT_EQ(volume.attachments.size(), 1u);
  EXPECT_EQ(volume.attachments[0].instance, InstanceId("i-1234567890abcdef0"));
  EXPECT_EQ(volume.attachments[0].device, "/dev/sdh");
  EXPECT_EQ(volume.attachments[0].state, AttachmentState::Attached);
}

TEST(Ec2Answer, ReadsANewBlankVolume) {
  const auto volume = decode<CreateVolume>(answer("CreateVolume", R"(
    <volumeId>vol-1</volumeId><size>8</size><snapshotId/>
    <availabilityZone>us-east-1a</availabilityZone>
    <status>creating</status><createTime>2009-12-28T05:42:53.000Z</createTime>
    <volumeType>standard</volumeType>)"));
  ASSERT_TRUE(volume) << volume.error().message;
  EXPECT_EQ(volume->state, VolumeState::Creating);
  EXPECT_TRUE(volume->from_snapshot.empty());
  EXPECT_FALSE(volume->iops);
  EXPECT_FALSE(volume->initialization_rate);
  EXPECT_TRUE(volume->attachments.empty());
}

TEST(Ec2Answer, TellsAnEmptyListFromAMissingOne) {
  const auto none = decode<DescribeVolumes>(answer("DescribeVolumes", "<volumeSet/>"));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->items.empty());
  EXPECT_FALSE(decode<DescribeVolumes>(answer("DescribeVolumes", "")));
}

TEST(Ec2Answer, NeedsWhatItNeeds) {
  const std::string without_zone =
      answer("CreateVolume",
             "<volumeId>vol-1</volumeId><size>8</size><status>creating</status>"
             "<createTime>2009-12-28T05:42:53Z</createTime><volumeType>gp3</volumeType>");
  const auto volume = decode<CreateVolume>(without_zone);
  ASSERT_FALSE(volume);
  EXPECT_NE(volume.error().message.find("availabilityZone"), std::string::npos);
}

TEST(Ec2Answer, KeepsAWordThatIsNewToItApart) {
  std::string xml = volumes;
  xml.replace(xml.find("in-use"), 6, "asleep");
  const auto page = decode<DescribeVolumes>(xml);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->items[0].state, VolumeState::Unknown);
}

TEST(Ec2Answer, RefusesEveryBeginningOfADocument) {
  for (std::size_t length = 0; length < volumes.size(); ++length) {
    EXPECT_FALSE(decode<DescribeVolumes>(volumes.substr(0, length))) << length;
  }
  EXPECT_TRUE(decode<DescribeVolumes>(volumes));
}

TEST(Ec2Answer, SurvivesEveryDamagedByte) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < volumes.size(); ++at) {
    for (const char damage : {'<', '\0', '\xff', '&'}) {
      std::string xml = volumes;
      xml[at] = damage;
      if (!decode<DescribeVolumes>(xml)) ++refused;
    }
  }
  EXPECT_GT(refused, volumes.size());
}

TEST(Ec2Answer, RefusesAnotherActionsAnswerAndGarbage) {
  EXPECT_FALSE(decode<DescribeSnapshots>(volumes));
  EXPECT_FALSE(decode<DescribeVolumes>("<html><body>proxy</body></html>"));
  EXPECT_FALSE(decode<DescribeVolumes>("{\"volumeSet\": []}"));
  EXPECT_FALSE(decode<DescribeVolumes>(std::string(10'000, '<')));
}

TEST(Ec2Answer, RefusesNumbersTimesAndNamesThatAreNone) {
  const auto broken = [](const std::string& what, const std::string& with) {
    std::string xml = volumes;
    xml.replace(xml.find(what), what.size(), with);
    return decode<DescribeVolumes>(xml);
  };
  EXPECT_FALSE(broken("<size>80<", "<size>-80<"));
  EXPECT_FALSE(broken("<size>80<", "<size>99999999999999999999999<"));
  EXPECT_FALSE(broken("2026-11-21T10:15:30.123Z", "yesterday"));
  EXPECT_FALSE(broken("<volumeId>vol-", "<volumeId>vol-00000000000000000000000000000000"));
}

TEST(Ec2Answer, ReadsAttachAndDetach) {
  const std::string body =
      "<volumeId>vol-1</volumeId><instanceId>i-1</instanceId><device>/dev/sdh</device>"
      "<status>attaching</status><attachTime>2026-11-21T10:15:30.000Z</attachTime>";
  EXPECT_EQ(decode<AttachVolume>(answer("AttachVolume", body))->state, AttachmentState::Attaching);
  EXPECT_EQ(decode<DetachVolume>(answer("DetachVolume", body))->instance, InstanceId("i-1"));
}

TEST(Ec2Answer, TakesAllButFalseForAYes) {
  EXPECT_TRUE(decode<DeleteVolume>(answer("DeleteVolume", "<return>true</return>")));
  EXPECT_FALSE(decode<DeleteVolume>(answer("DeleteVolume", "<return>false</return>")));
  EXPECT_TRUE(decode<DeleteVolume>(answer("DeleteVolume", ""))) << "as moto answers";
  EXPECT_TRUE(decode<CreateTags>(answer("CreateTags", "")));
  EXPECT_FALSE(decode<CreateTags>(answer("DeleteTags", ""))) << "another action's answer";
  EXPECT_TRUE(decode<CreateTags>(answer("CreateTags", "<return>true</return>")));
  EXPECT_TRUE(decode<DeleteSnapshot>(answer("DeleteSnapshot", "<return>true</return>")));
  EXPECT_TRUE(decode<ModifyFleet>(answer("ModifyFleet", "<return>true</return>")));
  EXPECT_TRUE(decode<TerminateInstances>(answer("TerminateInstances", "")));
}

TEST(Ec2Answer, ReadsSnapshots) {
  const std::string item = R"(<snapshotId>snap-1</snapshotId><volumeId>vol-1</volumeId>
    <status>pending</status><startTime>2026-11-21T10:15:30.000Z</startTime><progress>60%</progress>
    <ownerId>111122223333</ownerId><volumeSize>80</volumeSize><description>Daily</description>
    <tagSet><item><key>spotter:parent</key><value>vol-1</value></item></tagSet>)";
  const auto made = decode<CreateSnapshot>(answer("CreateSnapshot", item));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->progress, 60);
  EXPECT_EQ(made->state, SnapshotState::Pending);
  EXPECT_EQ(made->tags.at("spotter:parent"), "vol-1");
  const auto page = decode<DescribeSnapshots>(
      answer("DescribeSnapshots", "<snapshotSet><item>" + item + "</item></snapshotSet>"));
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->items.at(0).volume, VolumeId("vol-1"));
}

TEST(Ec2Answer, ReadsInstancesOfAllReservations) {
  const std::string instance = R"(<item><instancesSet><item><instanceId>i-1</instanceId>
    <instanceState><code>16</code><name>running</name></instanceState>
    <placement><availabilityZone>us-west-2b</availabilityZone><groupName/></placement>
    <instanceType>p3.2xlarge</instanceType><instanceLifecycle>spot</instanceLifecycle>
    <launchTime>2026-11-21T10:15:30.000Z</launchTime>
    <tagSet><item><key>aws:ec2:fleet-id</key><value>fleet-1</value></item></tagSet>
    </item></instancesSet></item>)";
  const auto page = decode<DescribeInstances>(
      answer("DescribeInstances", "<reservationSet>" + instance + instance + "</reservationSet>"));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[1].state, InstanceState::Running);
  EXPECT_EQ(page->items[1].zone, Zone("us-west-2b"));
  EXPECT_EQ(page->items[1].lifecycle, "spot");
  EXPECT_EQ(page->items[1].tags.at("aws:ec2:fleet-id"), "fleet-1");
}

Result<Page<TypeSize>> type(const std::string& content) {
  return decode<DescribeInstanceTypes>(
      answer("DescribeInstanceTypes",
             "<instanceTypeSet><item><instanceType>x1.large</instanceType><vCpuInfo>"
             "<defaultVCpus>4</defaultVCpus></vCpuInfo>" +
                 content + "</item></instanceTypeSet>"));
}

std::string gpu(const std::string& maker, const std::string& count) {
  return "<item><name>any</name><manufacturer>" + maker + "</manufacturer><count>" + count +
         "</count></item>";
}

TEST(Ec2Answer, ReadsWhatAnInstanceTypeHas) {
  const auto page = type(
      "<processorInfo><supportedArchitectures><item>i386</item><item>x86_64</item>"
      "</supportedArchitectures></processorInfo><ebsInfo><attachmentLimitType>shared"
      "</attachmentLimitType><maximumEbsAttachments>25</maximumEbsAttachments></ebsInfo>"
      "<networkInfo><enaSupport>required</enaSupport></networkInfo><gpuInfo><gpus>" +
      gpu("NVIDIA", "2") + gpu("NVIDIA", "1") + "</gpus></gpuInfo>");
  ASSERT_TRUE(page) << page.error().message;
  const TypeSize& it = page->items.at(0);
  EXPECT_EQ(it.gpus, 3u);
  EXPECT_EQ(it.vcpus, 4u);
  EXPECT_EQ(it.architectures, (std::vector<std::string>{"i386", "x86_64"}));
  EXPECT_EQ(it.most_volumes, 25u);
  EXPECT_TRUE(it.needs_ena);
}

TEST(Ec2Answer, WhatAnInstanceTypesAnswerLacksIsUnknown) {
  const auto page = type("");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->items.at(0).gpus, 0u);
  EXPECT_TRUE(page->items.at(0).architectures.empty());
  EXPECT_EQ(page->items.at(0).most_volumes, std::nullopt);
}

TEST(Ec2Answer, ReadsHowMuchEfaAnInstanceTypeHas) {
  const auto efas = [](const std::string& network) {
    const auto page = type("<networkInfo>" + network + "</networkInfo>");
    EXPECT_TRUE(page) << page.error().message;
    return page->items.at(0).efas;
  };
  EXPECT_EQ(efas(""), std::nullopt);
  EXPECT_EQ(efas("<efaSupported>false</efaSupported>"), 0u);
  EXPECT_EQ(efas("<efaSupported>true</efaSupported>"), std::nullopt);
  EXPECT_EQ(efas("<efaSupported>true</efaSupported><efaInfo><maximumEfaInterfaces>4"
                 "</maximumEfaInterfaces></efaInfo>"),
            4u);
  const auto page = type(
      "<networkInfo><networkCards><item><networkCardIndex>0</networkCardIndex>"
      "</item><item><networkCardIndex>1</networkCardIndex></item></networkCards></networkInfo>");
  EXPECT_EQ(page.value().items.at(0).cards, (std::vector<std::uint64_t>{0, 1}));
}

TEST(Ec2Answer, ReadsWhetherASecurityGroupLetsItselfThrough) {
  const auto groups = [](const std::string& rules) {
    return decode<DescribeSecurityGroups>(
        answer("DescribeSecurityGroups", "<securityGroupInfo><item><groupId>sg-1</groupId>" +
                                             rules + "</item></securityGroupInfo>"));
  };
  const auto rule = [](const std::string& where, const std::string& protocol,
                       const std::string& group) {
    return "<" + where + "><item><ipProtocol>" + protocol + "</ipProtocol><groups><item><groupId>" +
           group + "</groupId></item></groups></item></" + where + ">";
  };
  const std::string in = "ipPermissions", out = "ipPermissionsEgress";
  const auto all = groups(rule(in, "-1", "sg-1") + rule(out, "-1", "sg-1"));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_TRUE(all->items.at(0).lets_itself_in && all->items.at(0).lets_itself_out);
  EXPECT_FALSE(groups(rule(in, "tcp", "sg-1")).value().items.at(0).lets_itself_in);
  EXPECT_FALSE(groups(rule(in, "-1", "sg-2")).value().items.at(0).lets_itself_in);
  EXPECT_FALSE(groups(rule(in, "-1", "sg-1")).value().items.at(0).lets_itself_out);
}

TEST(Ec2Answer, ReadsWhoReachesTheOtherPortsOfASecurityGroup) {
  const auto in = [](const std::string& rule) {
    return decode<DescribeSecurityGroups>(
               answer("DescribeSecurityGroups",
                      "<securityGroupInfo><item><groupId>sg-1</groupId><ipPermissions><item>" +
                          rule +
                          "<groups><item><groupId>sg-1</groupId></item></groups><ipRanges><item>"
                          "<cidrIp>10.0.0.0/8</cidrIp></item></ipRanges></item></ipPermissions>"
                          "</item></securityGroupInfo>"))
        .value()
        .items.at(0)
        .lets_in;
  };
  const auto ports = [](const std::string& least, const std::string& most) {
    return "<ipProtocol>tcp</ipProtocol><fromPort>" + least + "</fromPort><toPort>" + most +
           "</toPort>";
  };
  const std::vector<std::string> others = {"10.0.0.0/8"};
  EXPECT_EQ(in("<ipProtocol>-1</ipProtocol>"), others);
  EXPECT_EQ(in(ports("0", "65535")), others);
  EXPECT_EQ(in(ports("40000", "40001")), others);
  EXPECT_TRUE(in(ports("22", "22")).empty());
  EXPECT_TRUE(in("<ipProtocol>udp</ipProtocol>").empty());
}

TEST(Ec2Answer, ReadsWhomASecurityGroupLetsAskByHttps) {
  const auto to = [](const std::string& rules) {
    return decode<DescribeSecurityGroups>(
               answer("DescribeSecurityGroups",
                      "<securityGroupInfo><item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId>"
                      "<ipPermissionsEgress>" +
                          rules + "</ipPermissionsEgress></item></securityGroupInfo>"))
        .value()
        .items.at(0)
        .https_to;
  };
  const auto rule = [](const std::string& what) {
    return "<item>" + what + "<ipRanges><item><cidrIp>10.0.0.0/8</cidrIp></item></ipRanges></item>";
  };
  using All = std::vector<std::string>;
  EXPECT_EQ(to(""), All());
  EXPECT_EQ(to(rule("<ipProtocol>-1</ipProtocol>")), All{"10.0.0.0/8"});
  EXPECT_EQ(to(rule("<ipProtocol>udp</ipProtocol>")), All());
  const std::string tcp = "<ipProtocol>tcp</ipProtocol>";
  EXPECT_EQ(to(rule(tcp + "<fromPort>400</fromPort><toPort>443</toPort>")), All{"10.0.0.0/8"});
  EXPECT_EQ(to(rule(tcp + "<fromPort>444</fromPort><toPort>500</toPort>")), All());
  EXPECT_EQ(to("<item><ipProtocol>-1</ipProtocol><prefixListIds><item><prefixListId>pl-1"
               "</prefixListId></item></prefixListIds><ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6>"
               "</item></ipv6Ranges></item>"),
            (All{"::/0", "pl-1"}));
}

TEST(Ec2Answer, ReadsTheWaysOutOfANetwork) {
  const auto tables = decode<DescribeRouteTables>(
      answer("DescribeRouteTables",
             "<routeTableSet><item><routeTableId>rtb-1</routeTableId><vpcId>vpc-1</vpcId><routeSet>"
             "<item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1"
             "</natGatewayId><state>blackhole</state></item><item><destinationPrefixListId>pl-1"
             "</destinationPrefixListId><gatewayId>vpce-1</gatewayId><state>active</state></item>"
             "</routeSet><associationSet><item><main>true</main></item><item><main>false</main>"
             "<subnetId>subnet-1</subnetId></item></associationSet></item></routeTableSet>"));
  ASSERT_TRUE(tables) << tables.error().message;
  const RouteTable& table = tables->items.at(0);
  EXPECT_TRUE(table.is_main && table.vpc == "vpc-1");
  EXPECT_EQ(table.subnets, std::vector<std::string>{"subnet-1"});
  EXPECT_EQ(table.routes.at(0).through, "nat-1");
  EXPECT_TRUE(table.routes.at(0).leads_nowhere);
  EXPECT_EQ(table.routes.at(1).to, "pl-1");
  EXPECT_EQ(table.routes.at(1).through, "vpce-1");
  const auto endpoints = decode<DescribeVpcEndpoints>(answer(
      "DescribeVpcEndpoints",
      "<vpcEndpointSet><item><vpcEndpointId>vpce-1</vpcEndpointId><vpcId>vpc-1</vpcId>"
      "<vpcEndpointType>Gateway</vpcEndpointType><serviceName>com.amazonaws.us-west-2.s3"
      "</serviceName><state>Available</state><routeTableIdSet><item>rtb-1</item></routeTableIdSet>"
      "<groupSet><item><groupId>sg-1</groupId></item></groupSet></item></vpcEndpointSet>"));
  ASSERT_TRUE(endpoints) << endpoints.error().message;
  EXPECT_EQ(endpoints->items.at(0).state, "available");
  EXPECT_EQ(endpoints->items.at(0).route_tables, std::vector<std::string>{"rtb-1"});
  EXPECT_EQ(endpoints->items.at(0).groups, std::vector<std::string>{"sg-1"});
  const auto nats = decode<DescribeNatGateways>(
      answer("DescribeNatGateways",
             "<natGatewaySet><item><natGatewayId>nat-1</natGatewayId><state>available</state>"
             "<connectivityType>private</connectivityType></item></natGatewaySet>"));
  ASSERT_TRUE(nats) << nats.error().message;
  EXPECT_FALSE(nats->items.at(0).is_public);
  const auto acls = decode<DescribeNetworkAcls>(answer(
      "DescribeNetworkAcls",
      "<networkAclSet><item><networkAclId>acl-1</networkAclId><entrySet><item><ruleNumber>100"
      "</ruleNumber><protocol>6</protocol><ruleAction>allow</ruleAction><egress>true</egress>"
      "<cidrBlock>0.0.0.0/0</cidrBlock><portRange><from>443</from><to>443</to></portRange></item>"
      "</entrySet><associationSet><item><subnetId>subnet-1</subnetId></item></associationSet>"
      "</item></networkAclSet>"));
  ASSERT_TRUE(acls) << acls.error().message;
  const AclEntry& entry = acls->items.at(0).entries.at(0);
  EXPECT_TRUE(entry.is_out && entry.allows && entry.least == 443 && entry.most == 443);
}

TEST(Ec2Answer, OnlyWhatNvidiaSmiCountsIsAGpu) {
  EXPECT_EQ(type("<gpuInfo><gpus>" + gpu("Habana", "8") + gpu("AMD", "1") + "</gpus></gpuInfo>")
                ->items.at(0)
                .gpus,
            0u);
  EXPECT_EQ(type("<neuronInfo><neuronDevices><item><count>16</count></item></neuronDevices>"
                 "</neuronInfo>")
                ->items.at(0)
                .gpus,
            0u);
  const auto part = type(
      "<gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>0</count>"
      "<logicalGpuCount>1</logicalGpuCount></item></gpus></gpuInfo>");
  EXPECT_EQ(part->items.at(0).gpus, 1u) << "a part of a GPU is a device";
  EXPECT_FALSE(type("<gpuInfo><gpus>" + gpu("NVIDIA", "many") + "</gpus></gpuInfo>"));
}

TEST(Ec2Answer, ReadsAnImage) {
  const std::string content =
      "<imagesSet><item><imageId>ami-1</imageId><imageState>available</imageState>"
      "<creationDate>2025-11-21T10:15:30.000Z</creationDate>"
      "<deprecationTime>2027-11-21T10:15:00.000Z</deprecationTime>"
      "<architecture>arm64</architecture><enaSupport>true</enaSupport><blockDeviceMapping>"
      "<item><deviceName>/dev/xvda</deviceName><ebs><volumeSize>8</volumeSize></ebs></item>"
      "<item><deviceName>/dev/xvdb</deviceName><virtualName>ephemeral0</virtualName></item>"
      "</blockDeviceMapping></item><item><imageId>ami-2</imageId><imageState>pending</imageState>"
      "<architecture>x86_64</architecture></item></imagesSet>";
  const auto page = decode<DescribeImages>(answer("DescribeImages", content));
  ASSERT_TRUE(page) << page.error().message;
  const Image& first = page->items.at(0);
  EXPECT_EQ(first.id, "ami-1");
  EXPECT_EQ(first.architecture, "arm64");
  EXPECT_EQ(first.created, parse_rfc3339("2025-11-21T10:15:30Z").value());
  EXPECT_EQ(first.deprecated, parse_rfc3339("2027-11-21T10:15:00Z").value());
  EXPECT_EQ(first.volumes, 1u);
  EXPECT_TRUE(first.ena);
  EXPECT_EQ(page->items.at(1).state, "pending");
  EXPECT_EQ(page->items.at(1).created, std::nullopt);
  EXPECT_FALSE(decode<DescribeImages>(answer("DescribeImages", "")));
}

TEST(Iam, OfAnInstanceProfileItsRoleIsRead) {
  const auto profile = [](const std::string& roles) {
    return decode<GetInstanceProfile>(
        answer("GetInstanceProfile",
               "<GetInstanceProfileResult><InstanceProfile><InstanceProfileName>p"
               "</InstanceProfileName>" +
                   roles + "</InstanceProfile></GetInstanceProfileResult>"));
  };
  const auto with =
      profile("<Roles><member><Path>/</Path><RoleName>spotter</RoleName></member></Roles>");
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(with->role, "spotter");
  const auto without = profile("<Roles/>");
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_EQ(without->role, "");
  EXPECT_FALSE(profile("")) << "silence is no answer";
}

}  // namespace
}  // namespace spotter::wire
