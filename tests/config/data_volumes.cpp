// `storage` as a list: one state, and volumes of data beside it.
#include <gtest/gtest.h>

#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

const std::string state = "{state: {ebs: {tag: {Name: v}}}}";
const std::string data = "{data: {snapshot: snap-0d, mount: /mnt/data}}";

std::string with_data(const std::string& items, const std::string& more = "") {
  return "job: a\ntrainer: {command: x}\nstorage: [" + items + "]\n" + more;
}

void mentions(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(DataVolumes, StandBesideTheState) {
  const auto job = parse_job(
      with_data(state + ", {data: {snapshot: snap-0d, mount: '/mnt/${WHO}', type: io2, iops: 9000, "
                        "initialization_rate: 300}}, {data: {snapshot: snap-1, mount: /mnt/b}}"),
      as_root);
  ASSERT_TRUE(job) << describe(job.error(), "job.yaml");
  EXPECT_EQ(job->storage.ebs.tag.value, "v");
  EXPECT_EQ(job->home(), "/mnt/spotter");
  ASSERT_EQ(job->storage.data.size(), 2U);
  const DataVolume& one = job->storage.data[0];
  EXPECT_EQ(one.snapshot, "snap-0d");
  EXPECT_EQ(one.mount, "/mnt/me");
  EXPECT_EQ(one.type, "io2");
  EXPECT_EQ(one.iops, 9000U);
  EXPECT_EQ(one.initialization_rate, 300U);
  const DataVolume& other = job->storage.data[1];
  EXPECT_EQ(other.type, "gp3");
  EXPECT_FALSE(other.iops || other.throughput || other.initialization_rate);
}

TEST(DataVolumes, MayBeNone) {
  EXPECT_EQ(problems_of(with_data(state)), "");
  const auto job = parse_job(smallest, as_root);
  ASSERT_TRUE(job);
  EXPECT_TRUE(job->storage.data.empty()) << "a plain map is as it was";
}

TEST(DataVolumes, HaveExactlyOneStateBesideThemAndItIsAVolume) {
  mentions(problems_of(with_data(data)), "expected exactly one state, found 0");
  mentions(problems_of(with_data(state + ", " + state)), "expected exactly one state, found 2");
  mentions(problems_of(with_data("{state: {folder: {path: /d}}}, " + data)),
           "the state is kept on `ebs`");
  mentions(problems_of(with_data("{state: [" + state + "]}")), "is no list");
  mentions(problems_of(with_data("{ebs: {tag: {Name: v}}}")),
           "unknown key 'ebs'; valid here: state, data");
  mentions(problems_of(with_data("{state: {ebs: {tag: {Name: v}}}, data: {}}")),
           "expected exactly one of state, data, found 2");
}

TEST(DataVolumes, AreRefusedWithWhatIsWrong) {
  const auto wrong = [](const std::string& fields) {
    return problems_of(with_data(state + ", {data: {" + fields + "}}"));
  };
  mentions(wrong("mount: /m/d"), "storage[1].data: the key 'snapshot' is missing");
  mentions(wrong("snapshot: snap-1"), "the key 'mount' is missing");
  mentions(wrong("snapshot: vol-1, mount: /m/d"), "expected a snapshot's id such as");
  mentions(wrong("snapshot: snap-1, mount: d"), "storage[1].data.mount");
  mentions(wrong("snapshot: snap-1, mount: /m/d, initialization_rate: 99"), "from 100 to 300");
  mentions(wrong("snapshot: snap-1, mount: /m/d, initialization_rate: 301"), "from 100 to 300");
  mentions(wrong("snapshot: snap-1, mount: /m/d, type: io1"), "type io1 needs iops");
  mentions(wrong("snapshot: snap-1, mount: /m/d, type: gp2, iops: 100"), "type gp2 takes no iops");
  mentions(wrong("snapshot: snap-1, mount: /m/d, type: io2, iops: 9, throughput: 200"),
           "type io2 takes no throughput");
}

TEST(DataVolumes, KeepApart) {
  const auto both = [](const std::string& one, const std::string& other) {
    return problems_of(with_data(state + ", {data: {snapshot: snap-1, mount: " + one +
                                 "}}, {data: {snapshot: " + other + "}}"));
  };
  mentions(both("/mnt/spotter/data", "snap-2, mount: /m/e"), "lie within one another");
  mentions(both("/m/d", "snap-2, mount: /m/d/e"), "lie within one another");
  mentions(both("/m/d", "snap-1, mount: /m/e"), "snap-1 is there twice");
  EXPECT_EQ(both("/mnt/spotter-data", "snap-2, mount: /mnt/spotter-more"), "");
  std::string many = state;
  for (int i = 10; i <= 20; ++i) {
    const std::string number = std::to_string(i);
    many += ", {data: {snapshot: snap-" + number + ", mount: /m/" + number + "}}";
  }
  mentions(problems_of(with_data(many)), "at most 10 volumes of data, found 11");
}

TEST(DataVolumes, AreNotForClaimsNorForARun) {
  mentions(problems_of(with_data(state + ", " + data,
                                 "sweep: {grid: {lr: [1]}}\nclaims: {at: 's3://b/c'}\n")),
           "not for a job with claims");
  Environment foreground = as_root;
  foreground.foreground = true;
  mentions(problems_of(with_data(state + ", " + data), foreground),
           "spotter run attaches no volumes of data");
  EXPECT_EQ(problems_of(with_data(state), foreground), "");
  mentions(problems_of(with_data(state + ", " + data, "sagemaker: {link: /mnt/data/ml}\n")),
           "lies on a volume of data");
}

}  // namespace
}  // namespace spotter::config
