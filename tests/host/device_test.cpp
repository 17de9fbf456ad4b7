// Finding the volume's disk in a /dev and /sys made for it; directories stand for device nodes.
#include "agent/host/device.hpp"

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* serial = "vol0123456789abcdef0";

class FindDevice : public Directory {
 protected:
  fs::path node(const std::string& name) const {
    fs::create_directories(directory_ / "dev" / name);
    return directory_ / "dev" / name;
  }
  void nvme(const std::string& name, const std::string& with_serial) const {
    write("sys/block/" + name + "/device/serial", with_serial);
    write("sys/block/" + name + "/device/model", "Amazon Elastic Block Store              \n");
  }
  void link(const std::string& name, const fs::path& target) const {
    fs::create_directories(directory_ / "dev/disk/by-id");
    fs::create_symlink(target, directory_ / "dev/disk/by-id" / name);
  }
  Result<fs::path> find(const std::string& hint = "") const {
    return find_as({.volume = volume_id, .hint = hint});
  }
  Result<fs::path> find_as(const verbs::FindDevice& asked) const {
    return find_device(asked, {directory_ / "dev", directory_ / "sys"});
  }
};

TEST_F(FindDevice, KnowsAnInstanceByItsFirmwareOrItsHypervisor) {
  const Machine machine{directory_ / "dev", directory_ / "sys"};
  EXPECT_FALSE(is_ec2(machine));
  write("sys/class/dmi/id/sys_vendor", "QEMU\n");
  EXPECT_FALSE(is_ec2(machine));
  write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  EXPECT_TRUE(is_ec2(machine));
  write("sys/class/dmi/id/sys_vendor", "Xen\n");
  write("sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n");
  EXPECT_TRUE(is_ec2(machine));
}

TEST_F(FindDevice, FollowsTheLinkOfItsSerial) {
  link(std::string("nvme-Amazon_Elastic_Block_Store_") + serial, node("nvme1n1"));
  EXPECT_EQ(find().value(), directory_ / "dev/nvme1n1");
  EXPECT_EQ(volume_of(directory_ / "dev/nvme1n1", directory_ / "dev", directory_ / "sys"),
            volume_id);
}

TEST_F(FindDevice, DoesNotBelieveALinkThatTheDiskContradicts) {
  nvme("nvme1n1", "vol0ffffffffffffffff\n");
  nvme("nvme2n1", std::string(serial) + "   \n");
  link(std::string("nvme-Amazon_Elastic_Block_Store_") + serial, node("nvme1n1"));
  node("nvme2n1");
  EXPECT_EQ(find().value(), directory_ / "dev/nvme2n1");
  EXPECT_EQ(volume_of(directory_ / "dev/nvme2n1", directory_ / "dev", directory_ / "sys"),
            volume_id);
}

TEST_F(FindDevice, ReadsThePaddedSerialFromSysfs) {
  nvme("nvme0n1", "vol0aaaaaaaaaaaaaaaa");
  nvme("nvme1n1", std::string("  ") + serial + "          \n");
  node("nvme0n1");
  node("nvme1n1");
  EXPECT_EQ(find().value(), directory_ / "dev/nvme1n1");
}

TEST_F(FindDevice, BelievesANameOnlyOnXen) {
  node("xvdf");
  EXPECT_EQ(kind_of(find()), "device-absent") << "nobody named it";
  EXPECT_EQ(find("/dev/sdf").value(), directory_ / "dev/xvdf");
  EXPECT_EQ(find("xvdf").value(), directory_ / "dev/xvdf");
  nvme("nvme0n1", "vol0aaaaaaaaaaaaaaaa");
  EXPECT_EQ(kind_of(find("/dev/sdf")), "device-absent") << "this is Nitro";
}

// An i3 before its metal: EBS by Xen's names, beside NVMe disks of its own.
TEST_F(FindDevice, DisksOfTheMachineItselfDoNotMakeItNitro) {
  write("sys/block/nvme0n1/device/serial", "AWS1A2B3C4D5E6F7A8B9");
  write("sys/block/nvme0n1/device/model", "Amazon EC2 NVMe Instance Storage        \n");
  node("nvme0n1");
  node("xvdf");
  EXPECT_EQ(find("/dev/sdf").value(), directory_ / "dev/xvdf");
  EXPECT_EQ(volume_of(directory_ / "dev/nvme0n1", directory_ / "dev", directory_ / "sys"), "");
  EXPECT_EQ(volume_of(directory_ / "dev/xvdf", directory_ / "dev", directory_ / "sys"), "");
}

TEST_F(FindDevice, SaysWhatIsAbsentAfterTheWait) {
  const auto found = find_as({.volume = volume_id, .wait = 150ms});
  EXPECT_EQ(kind_of(found), "device-absent");
  EXPECT_NE(words_of(found).find(volume_id), std::string::npos);
}

TEST_F(FindDevice, RefusesWhatIsNoVolumeId) {
  for (const char* wrong : {"", "vol-", "vol-../../x", "i-0123", "vol-xyz"})
    EXPECT_EQ(kind_of(find_as({.volume = wrong})), "bad-request") << wrong;
}

}  // namespace
}  // namespace spotter::act::host
