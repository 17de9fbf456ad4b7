#include "agent/launch/machines.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include "agent/base/text.hpp"

namespace spotter::launch {

Interfaces interfaces_of(const wire::TypeSize& type) {
  const std::uint64_t most = type.efas.value_or(0);
  if (most == 0) return {};
  std::vector<std::uint64_t> cards = type.cards;
  if (cards.empty()) cards.push_back(0);
  std::ranges::sort(cards);
  Interfaces made;
  // With a card more than EFAs, as p6-b300.48xlarge has, the first card has none.
  if (cards.size() == most + 1) {
    made.push_back({cards.front(), "interface"});
    cards.erase(cards.begin());
  }
  for (const std::uint64_t card : cards) {
    if (count_efas(made) == most) break;
    made.push_back({card, made.empty() ? "efa" : "efa-only"});
  }
  return made;
}

Result<Interfaces> shared_interfaces(const std::vector<wire::TypeSize>& types) {
  Interfaces shared;
  std::string names;
  for (const wire::TypeSize& it : types) {
    Interfaces own = interfaces_of(it);
    if (&it == &types.front()) shared = own;
    const auto [end, other] = std::ranges::mismatch(shared, own);
    shared.erase(end, shared.end());
    names += (names.empty() ? "" : ", ") + it.type.str();
  }
  if (count_efas(shared) > 0) return shared;
  return failure("no network interface with EFA fits each of " + names);
}

std::size_t count_efas(const Interfaces& interfaces) {
  return static_cast<std::size_t>(std::ranges::count_if(
      interfaces, [](const Interface& it) { return it.type.starts_with("efa"); }));
}

namespace {

using wire::TypeSize;
using wire::WallTime;

constexpr std::chrono::days old_image{365};
constexpr std::chrono::days soon{90};  // time enough to choose another image

struct Misfit {
  std::string names;     // "g5.xlarge, g4dn.xlarge"
  std::string with_why;  // "g5.xlarge has 1, g4dn.xlarge has 1"
  bool all = true;       // no type fits
};

// The types that do not fit, each with the reason why(type).
Misfit misfits(
    const std::vector<TypeSize>& types, const std::function<bool(const TypeSize&)>& fits,
    const std::function<std::string(const TypeSize&)>& why = [](const TypeSize&) { return ""; }) {
  Misfit found;
  for (const TypeSize& it : types) {
    if (fits(it)) {
      found.all = false;
      continue;
    }
    found.names += (found.names.empty() ? "" : ", ") + it.type.str();
    found.with_why += (found.with_why.empty() ? "" : ", ") + it.type.str() + why(it);
  }
  return found;
}

std::string remove_them(const Misfit& it) {
  return "remove " + it.names +
         " from launch.instance_types: a fleet may choose any of those named there";
}

std::string counted(std::uint64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string has_gpus(const TypeSize& it) {
  return it.gpus == 0 ? " has none" : " has " + std::to_string(it.gpus);
}

void judge_gpus(Findings& findings, const config::Job& job, const Machines& machines) {
  const bool any = job.trainer.gpus == all_gpus;
  const std::uint64_t wanted = any ? 1 : static_cast<std::uint64_t>(job.trainer.gpus);
  if (wanted == 0 || machines.types.empty()) return;
  const Misfit found = misfits(
      machines.types, [wanted](const TypeSize& it) { return it.gpus >= wanted; }, has_gpus);
  const std::string key =
      any ? "trainer.gpus is auto" : "trainer.gpus is " + std::to_string(wanted);
  if (found.names.empty()) {
    findings.push_back({"gpus", Verdict::Ok, key + ", and each instance type has as many", ""});
    return;
  }
  std::string advice = found.all ? "name instance types with " + counted(wanted, "GPU") + " or more"
                                 : remove_them(found);
  const auto most = std::ranges::max(machines.types, {}, &TypeSize::gpus).gpus;
  if (found.all && most > 0) advice += ", or say `gpus: " + std::to_string(most) + "`";
  findings.push_back(
      {"gpus", any ? Verdict::Warn : Verdict::Fail, key + ", and " + found.with_why, advice});
}

void judge_types(Findings& findings, const std::string& what, const std::string& architecture,
                 const Machines& machines) {
  const auto fits = [&](const TypeSize& it) {
    return it.architectures.empty() || std::ranges::count(it.architectures, architecture) > 0;
  };
  const Misfit found = misfits(machines.types, fits, [](const TypeSize& it) {
    return " is of " + joined(it.architectures, " or ");
  });
  if (found.names.empty()) {
    if (!machines.types.empty())
      findings.push_back(
          {"architecture", Verdict::Ok, what + " and the instance types: " + architecture, ""});
    return;
  }
  findings.push_back(
      {"architecture", Verdict::Fail, what + " is of " + architecture + ", and " + found.with_why,
       found.all ? "name another, or instance types of " + architecture : remove_them(found)});
}

// Empty where it is unknown, or the instances choose among several.
std::string architecture_of_packages(const config::Launch& launch, const Machines& machines) {
  if (machines.packages.empty()) return std::string(architecture_of_package(launch.package.source));
  const std::string first(architecture_of_package(machines.packages.front()));
  const bool one = std::ranges::all_of(machines.packages, [&first](const std::string& file) {
    return architecture_of_package(file) == first;
  });
  return one ? first : "";
}

void judge_architectures(Findings& findings, const config::Launch& launch, const wire::Image* image,
                         const Machines& machines) {
  const std::string package = architecture_of_packages(launch, machines);
  if (image == nullptr) {
    if (!package.empty()) judge_types(findings, "launch.package", package, machines);
    return;
  }
  judge_types(findings, "the image " + image->id, image->architecture, machines);
  if (!package.empty() && package != image->architecture)
    findings.push_back({"architecture", Verdict::Fail,
                        "launch.package is of " + package + ", and the image " + image->id +
                            " is of " + image->architecture,
                        "name the package of " + image->architecture +
                            " (scripts/package makes packages), or an "
                            "image and instance types of " +
                            package});
}

std::string day(WallTime time) { return wire::to_rfc3339(time).substr(0, 10); }

void judge_age(Findings& findings, const wire::Image& image, WallTime now) {
  const char* const newer = "name a newer one in launch.image";
  const std::string what = image.id + ", " + image.architecture +
                           (image.created ? ", made on " + day(*image.created) : "");
  if (image.deprecated && *image.deprecated <= now)
    findings.push_back(
        {"image", Verdict::Warn, what + ", is deprecated since " + day(*image.deprecated), newer});
  else if (image.deprecated && *image.deprecated - now <= soon)
    findings.push_back({"image", Verdict::Warn,
                        what + ", will be deprecated on " + day(*image.deprecated), newer});
  else if (image.created && now - *image.created > old_image)
    findings.push_back({"image", Verdict::Warn, what + ", is older than a year", newer});
  else
    findings.push_back({"image", Verdict::Ok, what, ""});
}

// Systems on which our user data does nothing, or our programs do not start, by the names that who
// makes them gives their images: all that EC2 tells. An image of one's own may have any name.
struct UnfitSystem {
  std::string_view name;  // a part of the image's
  std::string_view is;
  Verdict verdict;  // nothing would end a machine without cloud-init; with it, it ends itself
};
constexpr std::string_view no_cloud_init = "has no cloud-init, which alone runs user data";
constexpr std::string_view old_libc =
    "has a C library before 2.34, without which no program of "
    "Spotter's starts";
constexpr UnfitSystem unfit_systems[] = {
    {"bottlerocket-", no_cloud_init, Verdict::Fail},  {"Flatcar-", no_cloud_init, Verdict::Fail},
    {"fedora-coreos-", no_cloud_init, Verdict::Fail}, {"talos-", no_cloud_init, Verdict::Fail},
    {"macos", no_cloud_init, Verdict::Fail},          {"amzn2-ami-", old_libc, Verdict::Warn},
    {"(Amazon Linux 2)", old_libc, Verdict::Warn},    {"ubuntu-focal-", old_libc, Verdict::Warn},
    {"(Ubuntu 20.04)", old_libc, Verdict::Warn},      {"debian-11-", old_libc, Verdict::Warn}};

void judge_system(Findings& findings, const wire::Image& image) {
  const char* const other =
      "name an image of Debian, Ubuntu or Amazon Linux 2023: spotter-aws(7), IMAGES";
  if (image.is_windows)
    findings.push_back({"image", Verdict::Fail, image.id + " is Windows", other});
  for (const UnfitSystem& it : unfit_systems)
    if (image.name.find(it.name) != image.name.npos)
      return findings.push_back({"image", it.verdict,
                                 image.id + " is " + image.name + ", which " + std::string(it.is),
                                 other});
}

void judge_image(Findings& findings, const wire::Image& image, const Machines& machines) {
  if (image.state != "available") {
    findings.push_back({"image", Verdict::Fail, image.id + " is " + image.state,
                        image.state == "pending" ? "launch when it is available"
                                                 : "name another in launch.image"});
    return;
  }
  const Misfit found =
      misfits(machines.types, [&](const TypeSize& it) { return image.ena || !it.needs_ena; });
  if (!found.names.empty())
    findings.push_back({"image", Verdict::Fail,
                        image.id + " has no ENA support, and does not start on " + found.names,
                        "name an image that has it in launch.image"});
  judge_system(findings, image);
  judge_age(findings, image, machines.now);
}

void judge_placement(Findings& findings, const config::Job& job, const Machines& machines) {
  const std::string& group = job.launch->placement_group;
  const bool own = group == config::own_placement_group;
  const std::string strategy = own ? "cluster" : group.empty() ? "" : machines.named_strategy;
  if (strategy.empty()) return;
  const Misfit found = misfits(machines.types, [&](const TypeSize& it) {
    return it.placements.empty() || std::ranges::count(it.placements, strategy) > 0;
  });
  if (found.names.empty()) return;
  const std::string other = own ? "" : "name a group of another strategy, or ";
  findings.push_back({"placement group", Verdict::Fail,
                      "a " + strategy + " placement group does not take " + found.names,
                      found.all ? other + "say `placement_group: none`" : remove_them(found)});
}

void judge_efa(Findings& findings, const config::Job& job, const Machines& machines) {
  if (!job.launch->efa || machines.types.empty()) return;
  const Misfit found = misfits(machines.types, [](const TypeSize& it) { return it.efas != 0U; });
  if (!found.names.empty()) {
    findings.push_back({"efa", Verdict::Fail, "there is no EFA on " + found.names,
                        found.all ? "name instance types that have it, or leave out launch.efa"
                                  : remove_them(found)});
    return;
  }
  const auto shared = shared_interfaces(machines.types);
  if (!shared) {
    findings.push_back({"efa", Verdict::Fail, shared.error().message,
                        "name types whose network cards are alike, or leave out launch.efa"});
    return;
  }
  const std::size_t efas = count_efas(*shared);
  const std::string each = "each instance gets " + counted(efas, "EFA interface");
  const Misfit more = misfits(
      machines.types, [&](const TypeSize& it) { return count_efas(interfaces_of(it)) == efas; },
      [](const TypeSize& it) { return " has " + std::to_string(count_efas(interfaces_of(it))); });
  if (!more.names.empty())
    findings.push_back({"efa", Verdict::Warn,
                        each + ", as many as all types have, and " + more.with_why,
                        "name types with equally many"});
  else
    findings.push_back({"efa", Verdict::Ok, each, ""});
}

// The system's volumes, the job's own, and those of data.
void judge_volumes(Findings& findings, const config::Job& job, const wire::Image* image,
                   const Machines& machines) {
  const std::uint64_t systems = image == nullptr ? 1 : std::max<std::uint64_t>(image->volumes, 1);
  const std::uint64_t all = systems + (job.storage.share ? 0 : 1) + job.storage.data.size();
  const Misfit found = misfits(
      machines.types, [&](const TypeSize& it) { return it.most_volumes.value_or(all) >= all; },
      [](const TypeSize& it) { return " takes " + std::to_string(*it.most_volumes); });
  if (found.names.empty()) return;
  findings.push_back({"attachments", Verdict::Fail,
                      "an instance gets " + counted(all, "volume") +
                          ", the system's included, and " + found.with_why,
                      found.all ? "name fewer volumes of data, or instance types that take more"
                                : remove_them(found)});
}

}  // namespace

std::string_view architecture_of_package(std::string_view file) {
  for (const std::string_view end : {"amd64.deb", "x86_64.rpm", "x86_64.tar.gz"})
    if (file.ends_with(end)) return "x86_64";
  for (const std::string_view end : {"arm64.deb", "aarch64.rpm", "aarch64.tar.gz"})
    if (file.ends_with(end)) return "arm64";
  return {};
}

Findings judge_machines(const config::Job& job, const Machines& machines) {
  Findings findings;
  const wire::Image* image = nullptr;
  if (machines.seen && !machines.seen->empty()) image = &machines.seen->front();
  if (machines.seen && image == nullptr)
    findings.push_back({"image", Verdict::Fail,
                        "this account sees no image " + machines.image + " in this region",
                        "name one of this region in launch.image"});
  if (image != nullptr) judge_image(findings, *image, machines);
  judge_architectures(findings, *job.launch, image, machines);
  judge_gpus(findings, job, machines);
  judge_volumes(findings, job, image, machines);
  judge_placement(findings, job, machines);
  judge_efa(findings, job, machines);
  return findings;
}

namespace {

struct Room {
  std::uint64_t most;  // MiB that a container can have at the very most
  std::uint64_t sure;  // and those that it has in all likelihood
};

// Linux needs 64 bytes to describe each page of 4096, ECS's agent keeps 32 MiB. The firmware
// and the kernel were seen to take up to 5 % and 200 MiB beside.
Room room_of(const TypeSize& it) {
  constexpr std::uint64_t pages = 64, agent = 32, percent = 95, kernel = 200;
  const auto less = [](std::uint64_t of, std::uint64_t by) { return of - std::min(of, by); };
  return {less(it.mebibytes, it.mebibytes / pages + agent),
          less(it.mebibytes * percent / 100, kernel)};
}

}  // namespace

Findings judge_batch(const config::Batch& batch, const std::vector<TypeSize>& types) {
  const auto vcpus = static_cast<std::uint64_t>(batch.definition.vcpus);
  const auto gpus = static_cast<std::uint64_t>(batch.definition.gpus);
  const auto memory = static_cast<std::uint64_t>(batch.definition.memory);
  const std::string asked = "one set asks for " + counted(vcpus, "vCPU") + ", " +
                            counted(gpus, "GPU") + " and " + std::to_string(memory) + " MiB";
  bool possible = false;
  std::uint64_t sure = 0;
  std::string why;
  for (const TypeSize& it : types) {
    const Room room = room_of(it);
    why += (why.empty() ? "" : ", ") + it.type.str() + " has " + counted(it.vcpus, "vCPU") + ", " +
           counted(it.gpus, "GPU") + " and " +
           (it.mebibytes == 0 ? "a memory of unknown size" : std::to_string(it.mebibytes) + " MiB");
    if (it.vcpus < vcpus || it.gpus < gpus) continue;
    if (it.mebibytes == 0 || memory <= room.sure)
      return {{"batch", Verdict::Ok, asked + ", and there is a type with that", ""}};
    sure = std::max(sure, room.sure);
    possible = possible || memory <= room.most;
  }
  constexpr std::size_t enough = 300;
  if (why.size() > enough) why = why.substr(0, why.rfind(", ", enough)) + ", ...";
  if (types.empty()) why = "EC2 knows no such type";
  return {{"batch", possible ? Verdict::Warn : Verdict::Fail,
           asked + ", and of sweep.batch.instance_types " + why +
               (sure > 0 ? ", of which Linux and ECS keep some percent" : "") + ": the sets " +
               (possible ? "may wait" : "would wait") + " for ever as RUNNABLE",
           sure > 0 ? "say `memory: " + std::to_string(sure) + "` or less, or name larger types"
                    : "ask for less, or name larger types"}};
}

}  // namespace spotter::launch
