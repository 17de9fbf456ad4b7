#include "tests/world/batch/instance_types.hpp"

#include <algorithm>

namespace spotter::world::batch {
namespace {

// ECS and the operating system keep some of the memory: a job that asks for all of an instance's
// never starts. https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
constexpr int usable_memory_percent = 95;

struct Row {
  const char* type;
  int vcpus;
  int gibibytes;
  int gpus;
};

// https://aws.amazon.com/ec2/instance-types/
constexpr Row accelerated[] = {
    {"p3.2xlarge", 8, 61, 1},      {"p3.8xlarge", 32, 244, 4},    {"p3.16xlarge", 64, 488, 8},
    {"p4d.24xlarge", 96, 1152, 8}, {"p5.48xlarge", 192, 2048, 8}, {"g4dn.xlarge", 4, 16, 1},
    {"g4dn.2xlarge", 8, 32, 1},    {"g4dn.4xlarge", 16, 64, 1},   {"g4dn.8xlarge", 32, 128, 1},
    {"g4dn.12xlarge", 48, 192, 4}, {"g5.xlarge", 4, 16, 1},       {"g5.2xlarge", 8, 32, 1},
    {"g5.4xlarge", 16, 64, 1},     {"g5.8xlarge", 32, 128, 1},    {"g5.12xlarge", 48, 192, 4},
    {"g5.48xlarge", 192, 768, 8},  {"g6.xlarge", 4, 16, 1},       {"g6.2xlarge", 8, 32, 1},
    {"g6.4xlarge", 16, 64, 1},     {"g6.12xlarge", 48, 192, 4},   {"g6.48xlarge", 192, 768, 8}};

struct Family {
  const char* name;
  int gibibytes_a_vcpu;
};
constexpr Family families[] = {{"c4", 2}, {"c5", 2}, {"c6i", 2}, {"c6a", 2}, {"c7i", 2},
                               {"m4", 4}, {"m5", 4}, {"m6i", 4}, {"m6a", 4}, {"m7i", 4},
                               {"r4", 8}, {"r5", 8}, {"r6i", 8}, {"r6a", 8}, {"r7i", 8}};
struct Size {
  const char* name;
  int vcpus;
};
constexpr Size sizes[] = {{"large", 2},    {"xlarge", 4},   {"2xlarge", 8},
                          {"4xlarge", 16}, {"8xlarge", 32}, {"16xlarge", 64}};

TypeCapacity capacity(const std::string& type, int vcpus, int gibibytes, int gpus) {
  return {InstanceType(type), {vcpus, gibibytes * 1024 / 100 * usable_memory_percent, gpus}};
}

const std::vector<TypeCapacity>& all_types() {
  static const std::vector<TypeCapacity> all = [] {
    std::vector<TypeCapacity> made;
    for (const Row& it : accelerated) {
      made.push_back(capacity(it.type, it.vcpus, it.gibibytes, it.gpus));
    }
    for (const Family& family : families) {
      for (const Size& size : sizes) {
        made.push_back(capacity(std::string(family.name) + '.' + size.name, size.vcpus,
                                size.vcpus * family.gibibytes_a_vcpu, 0));
      }
    }
    return made;
  }();
  return all;
}

}  // namespace

std::vector<TypeCapacity> expand_types(const std::vector<std::string>& names) {
  std::vector<TypeCapacity> found;
  for (const TypeCapacity& it : all_types()) {
    const std::string type = it.type.str();
    const std::string family = type.substr(0, type.find('.'));
    const bool optimal = family == "c4" || family == "m4" || family == "r4";
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == type || name == family || (name == "optimal" && optimal);
    });
    if (named) found.push_back(it);
  }
  return found;
}

}  // namespace spotter::world::batch
