// EC2's answers. The first line names the action that was asked for, the rest is the answer.
#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/aws/formats/ec2_places.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using namespace wire;

void sound(const Volume& volume) {
  must(!volume.id.empty() && !volume.zone.empty(), "a volume has an id and a zone");
  for (const Attachment& attachment : volume.attachments) {
    must(!attachment.volume.empty(), "an attachment names its volume");
  }
}
void sound(const Attachment& attachment) { must(!attachment.volume.empty(), "names its volume"); }
void sound(const Snapshot& snapshot) {
  must(!snapshot.id.empty() && !snapshot.volume.empty(), "a snapshot has an id and a volume");
  must(snapshot.progress >= 0 && snapshot.progress <= 100, "progress is 0 to 100 per cent");
}
void sound(const Instance& instance) { must(!instance.id.empty(), "an instance has an id"); }
void sound(const FleetStatus& fleet) {
  must(!fleet.id.empty() && fleet.target_capacity >= 0, "a fleet has an id and a capacity");
}
void sound(const SpotPrice& price) {
  must(!price.zone.empty() && std::isfinite(price.dollars_per_hour), "a price is a number");
}
void sound(const auto&) {}  // anything may be in it
template <class T>
void sound(const std::vector<T>& items) {
  for (const T& item : items) sound(item);
}
template <class T>
void sound(const Page<T>& page) {
  sound(page.items);
}

template <class Request>
bool reads(std::string_view xml) {
  const auto answer = decode<Request>(xml);
  if (answer) {
    sound(*answer);
  } else {
    must(!answer.error().message.empty(), "an error says what is wrong");
  }
  return answer.has_value();
}

using Reader = bool (*)(std::string_view);
using Readers = std::vector<std::pair<std::string, Reader>>;

template <class... Requests>
Readers readers_of(std::type_identity<std::tuple<Requests...>>) {
  return {{encode(Requests{}).action, reads<Requests>}...};
}

const Readers& readers() {
  static const Readers all = [] {
    Readers of_ec2 = readers_of(std::type_identity<Ec2Requests>());
    for (auto& each : readers_of(std::type_identity<PlaceRequests>()))
      of_ec2.push_back(std::move(each));
    return of_ec2;
  }();
  return all;
}

}  // namespace

void examine(std::string_view bytes) {
  const auto line = bytes.find('\n');
  if (line == bytes.npos) return;
  const std::string_view action = bytes.substr(0, line);
  const std::string_view xml = bytes.substr(line + 1);
  const Readers& all = readers();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [name, read] = all[i];
    if (name != action || !read(xml)) continue;
    const auto closing = xml.rfind("</");
    if (closing != xml.npos) must(!read(xml.substr(0, closing)), "half an answer is none");
    must(!all[(i + 1) % all.size()].second(xml), "an answer is of one action only");
  }
}

}  // namespace spotter::fuzz
