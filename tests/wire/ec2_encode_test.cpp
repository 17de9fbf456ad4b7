// Requests against what botocore 1.29.27 serializes for the same calls:
//   serializer = botocore.serialize.create_serializer(model.metadata['protocol'], False)
//   body = serializer.serialize_to_request({...}, model.operation_model(ACTION))['body']
// then sorted by name and escaped with urllib.parse.quote(text, safe='-_.~').
#include <gtest/gtest.h>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {
namespace {

struct Sample {
  Query query;
  std::string body;
};

const std::vector<Filter> filters{{"tag:Name", {"mnist-volume", "b"}}, {"status", {"available"}}};

std::vector<Sample> volumes_and_snapshots() {
  return {
      {encode(
           DescribeVolumes{.volumes = {"vol-1", "vol-2"}, .filters = filters, .next_token = "t"}),
       "Action=DescribeVolumes&Filter.1.Name=tag%3AName&Filter.1.Value.1=mnist-volume"
       "&Filter.1.Value.2=b&Filter.2.Name=status&Filter.2.Value.1=available"
       "&NextToken=t&Version=2016-11-15&VolumeId.1=vol-1&VolumeId.2=vol-2"},
      {encode(CreateVolume{.zone = "us-west-2b",
                           .from = "snap-1",
                           .type = "gp3",
                           .size_gib = 10,
                           .iops = 3000,
                           .throughput = 125,
                           .initialization_rate = 200,
                           .encrypted = true,
                           .kms_key = "k",
                           .tags = {{"a", "1"}, {"b", ""}},
                           .client_token = "c"}),
       "Action=CreateVolume&AvailabilityZone=us-west-2b&ClientToken=c&Encrypted=true"
       "&Iops=3000&KmsKeyId=k&Size=10&SnapshotId=snap-1"
       "&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=a"
       "&TagSpecification.1.Tag.1.Value=1&TagSpecification.1.Tag.2.Key=b"
       "&TagSpecification.1.Tag.2.Value=&Throughput=125&Version=2016-11-15"
       "&VolumeInitializationRate=200&VolumeType=gp3"},
      {encode(AttachVolume{.volume = "vol-1", .instance = "i-1", .device = "/dev/sdf"}),
       "Action=AttachVolume&Device=%2Fdev%2Fsdf&InstanceId=i-1&Version=2016-11-15"
       "&VolumeId=vol-1"},
      {encode(DetachVolume{.volume = "vol-1", .instance = "i-1"}),
       "Action=DetachVolume&InstanceId=i-1&Version=2016-11-15&VolumeId=vol-1"},
      {encode(CreateSnapshot{.volume = "vol-1", .description = "d", .tags = {{"a", "1"}}}),
       "Action=CreateSnapshot&Description=d&TagSpecification.1.ResourceType=snapshot"
       "&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=1"
       "&Version=2016-11-15&VolumeId=vol-1"},
      {encode(DescribeSnapshots{.snapshots = {"snap-1"}, .filters = filters}),
       "Action=DescribeSnapshots&Filter.1.Name=tag%3AName"
       "&Filter.1.Value.1=mnist-volume&Filter.1.Value.2=b&Filter.2.Name=status"
       "&Filter.2.Value.1=available&Owner.1=self&SnapshotId.1=snap-1"
       "&Version=2016-11-15"},
      {encode(DeleteSnapshot{.snapshot = "snap-1"}),
       "Action=DeleteSnapshot&SnapshotId=snap-1&Version=2016-11-15"},
  };
}

std::vector<Sample> tags_and_instances() {
  return {
      {encode(CreateTags{.resources = {"vol-1", "snap-1"}, .tags = {{"a", "1"}}}),
       "Action=CreateTags&ResourceId.1=vol-1&ResourceId.2=snap-1&Tag.1.Key=a"
       "&Tag.1.Value=1&Version=2016-11-15"},
      {encode(DescribeInstances{.instances = {"i-1"}, .filters = filters}),
       "Action=DescribeInstances&Filter.1.Name=tag%3AName"
       "&Filter.1.Value.1=mnist-volume&Filter.1.Value.2=b&Filter.2.Name=status"
       "&Filter.2.Value.1=available&InstanceId.1=i-1&Version=2016-11-15"},
      {encode(DescribeCapacityReservations{.reservations = {"cr-1"}}),
       "Action=DescribeCapacityReservations&CapacityReservationId.1=cr-1&Version=2016-11-15"},
      {encode(TerminateInstances{.instances = {"i-1", "i-2"}}),
       "Action=TerminateInstances&InstanceId.1=i-1&InstanceId.2=i-2&Version=2016-11-15"},
  };
}

std::vector<Sample> fleets_and_groups() {
  return {
      {encode(CancelSpotFleetRequests{.fleets = {"sfr-1"}, .terminate_instances = true}),
       "Action=CancelSpotFleetRequests&SpotFleetRequestId.1=sfr-1"
       "&TerminateInstances=true&Version=2016-11-15"},
      {encode(ModifySpotFleetRequest{.fleet = "sfr-1", .target_capacity = 0}),
       "Action=ModifySpotFleetRequest&ExcessCapacityTerminationPolicy=default"
       "&OnDemandTargetCapacity=0&SpotFleetRequestId=sfr-1&TargetCapacity=0&Version=2016-11-15"},
      {encode(DeleteFleets{.fleets = {"fleet-1"}, .terminate_instances = false}),
       "Action=DeleteFleets&FleetId.1=fleet-1&TerminateInstances=false"
       "&Version=2016-11-15"},
      {encode(ModifyFleet{.fleet = "fleet-1", .target_capacity = 0}),
       "Action=ModifyFleet&ExcessCapacityTerminationPolicy=termination&FleetId=fleet-1"
       "&TargetCapacitySpecification.OnDemandTargetCapacity=0"
       "&TargetCapacitySpecification.TotalTargetCapacity=0&Version=2016-11-15"},
      {encode(DescribeSpotFleetRequests{.fleets = {"sfr-1"}}),
       "Action=DescribeSpotFleetRequests&SpotFleetRequestId.1=sfr-1&Version=2016-11-15"},
      {encode(DescribeFleets{.fleets = {"fleet-1"}}),
       "Action=DescribeFleets&FleetId.1=fleet-1&Version=2016-11-15"},
      {encode(DescribeSpotPriceHistory{.types = {"p3.2xlarge"},
                                       .zone = "us-west-2a",
                                       .start = parse_rfc3339("2026-11-21T10:15:30Z").value()}),
       "Action=DescribeSpotPriceHistory&AvailabilityZone=us-west-2a"
       "&InstanceType.1=p3.2xlarge&ProductDescription.1=Linux%2FUNIX"
       "&StartTime=2026-11-21T10%3A15%3A30Z&Version=2016-11-15"},
      {encode(SetDesiredCapacity{.group = "g", .desired_capacity = 0}),
       "Action=SetDesiredCapacity&AutoScalingGroupName=g&DesiredCapacity=0"
       "&HonorCooldown=false&Version=2011-01-01"},
      {encode(DescribeAutoScalingGroups{.groups = {"g"}}),
       "Action=DescribeAutoScalingGroups&AutoScalingGroupNames.member.1=g&Version=2011-01-01"},
      {encode(TerminateInGroup{"i-1"}),
       "Action=TerminateInstanceInAutoScalingGroup&InstanceId=i-1"
       "&ShouldDecrementDesiredCapacity=true&Version=2011-01-01"},
      {encode(CompleteLifecycleAction{.group = "g", .instance = "i-1"}),
       "Action=CompleteLifecycleAction&AutoScalingGroupName=g&InstanceId=i-1"
       "&LifecycleActionResult=CONTINUE&LifecycleHookName=spotter-checkpoint&Version=2011-01-01"},
      {encode(DescribeSecurityGroups{{}, {{"vpc-id", {"vpc-1"}}, {"group-name", {"default"}}}}),
       "Action=DescribeSecurityGroups&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1"
       "&Filter.2.Name=group-name&Filter.2.Value.1=default&Version=2016-11-15"},
      {encode(DescribeRouteTables{{"vpc-1", "vpc-2"}}),
       "Action=DescribeRouteTables&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1"
       "&Filter.1.Value.2=vpc-2&Version=2016-11-15"},
      {encode(DescribeNatGateways{{"vpc-1"}, "t"}),
       "Action=DescribeNatGateways&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1&NextToken=t"
       "&Version=2016-11-15"},
      {encode(DescribeImages{.images = {"ami-1"}, .next_token = "t"}),
       "Action=DescribeImages&ImageId.1=ami-1&IncludeDeprecated=true&IncludeDisabled=true"
       "&NextToken=t&Version=2016-11-15"},
      {encode(GetInstanceProfile{"spotter", Region("cn-northwest-1")}),
       "Action=GetInstanceProfile&InstanceProfileName=spotter&Version=2010-05-08"},
  };
}

TEST(Ec2Query, EncodesEachRequestAsBotocoreDoes) {
  for (const auto& samples : {volumes_and_snapshots(), tags_and_instances(), fleets_and_groups()}) {
    for (const Sample& sample : samples) EXPECT_EQ(form_body(sample.query), sample.body);
  }
}

TEST(Ec2Query, OfIamIsSignedForTheOneRegionOfItsPartition) {
  const auto region = [](const char* own) {
    return encode(GetInstanceProfile{"p", Region(own)}).region.str();
  };
  EXPECT_EQ(region("eu-west-1"), "us-east-1");
  EXPECT_EQ(region("cn-northwest-1"), "cn-north-1");
  EXPECT_EQ(region("us-gov-east-1"), "us-gov-west-1");
}

TEST(Ec2Query, EscapesAsRfc3986Says) {
  EXPECT_EQ(escape("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(escape("a b+c/d=&\xc3\xa9"), "a%20b%2Bc%2Fd%3D%26%C3%A9");
}

TEST(Ec2Query, AFiltersValueCanMeanOneTextAlone) {
  EXPECT_EQ(exactly("mnist-volume"), "mnist-volume");
  EXPECT_EQ(exactly("a*b?c\\"), "a\\*b\\?c\\\\");
}

TEST(Ec2Query, MayRepeatOnlyWhatReadsOrCarriesAToken) {
  EXPECT_EQ(encode(DescribeVolumes{}).repeatable, Repeatable::Read);
  EXPECT_EQ(encode(CreateVolume{.client_token = "c"}).repeatable, Repeatable::Token);
  EXPECT_EQ(encode(CreateVolume{}).repeatable, Repeatable::No);
  EXPECT_EQ(encode(AttachVolume{}).repeatable, Repeatable::No);
  EXPECT_EQ(encode(CreateSnapshot{}).repeatable, Repeatable::No);
  EXPECT_EQ(encode(CreateTags{}).repeatable, Repeatable::No);
}

TEST(Ec2Query, AddressesAutoScalingAsAServiceOfItsOwn) {
  const Query query = encode(SetDesiredCapacity{.group = "g"});
  EXPECT_EQ(query.service, "autoscaling");
  EXPECT_NE(form_body(query).find("&Version=2011-01-01"), std::string::npos);
}

}  // namespace
}  // namespace spotter::wire
