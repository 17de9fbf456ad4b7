#include "agent/wire/verbs.hpp"

#include <concepts>
#include <limits>
#include <set>
#include <type_traits>

#include "agent/base/json.hpp"

namespace spotter::verbs {
namespace {

using wire::Json;

constexpr std::uint64_t longest_wait = 365ULL * 24 * 3600 * 1000;  // milliseconds

enum class Need { Optional, Required };
constexpr Need required = Need::Required;

template <class It, class Struct>
concept Of = std::same_as<std::remove_const_t<It>, Struct>;

// --- each key with its field, for both directions

void each_field(Of<FindDevice> auto& it, const auto& visit) {
  visit("volume", it.volume, required);
  visit("hint", it.hint);
  visit("wait_ms", it.wait);
}

void each_field(Of<Inspect> auto& it, const auto& visit) { visit("device", it.device, required); }

void each_field(Of<Format> auto& it, const auto& visit) {
  visit("device", it.device, required);
  visit("filesystem", it.filesystem, required);
}

void each_field(Of<Mount> auto& it, const auto& visit) {
  visit("device", it.device, required);
  visit("filesystem", it.filesystem, required);
  visit("mount_point", it.mount_point, required);
  visit("volume", it.volume, required);
  visit("user", it.user, required);
  visit("directories", it.directories);
  visit("container", it.container);
  visit("link", it.link);
  visit("read_only", it.read_only);
  visit("cache", it.cache);
}

void each_field(Of<MountData> auto& it, const auto& visit) {
  visit("device", it.device, required);
  visit("mount_point", it.mount_point, required);
}

void each_field(Of<Unmount> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
  visit("wait_ms", it.wait);
  visit("link", it.link);
  visit("volume", it.volume);
  visit("hint", it.hint);
}

void each_field(Of<Look> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
}

void each_field(Of<Share> auto& it, const auto& visit) {
  visit("kind", it.kind, required);
  visit("mount_point", it.mount_point, required);
  visit("server", it.server);
  visit("path", it.path);
  visit("options", it.options);
  visit("access_point", it.access_point);
  visit("key", it.key);
  visit("known_hosts", it.known_hosts);
  visit("port", it.port);
  visit("tls", it.tls);
  visit("region", it.region);
}

void each_field(Of<PrepareShare> auto& it, const auto& visit) {
  visit("share", it.share, required);
  visit("user", it.user, required);
  visit("job", it.job, required);
  visit("holder", it.holder, required);
  visit("directories", it.directories);
  visit("container", it.container);
  visit("link", it.link);
  visit("again", it.again);
  visit("identity", it.identity);
  visit("cache", it.cache);
}

void each_field(Of<ReleaseShare> auto& it, const auto& visit) {
  visit("share", it.share, required);
  visit("job", it.job, required);
  visit("holder", it.holder, required);
  visit("link", it.link);
}

void each_field(Of<LookShare> auto& it, const auto& visit) { visit("share", it.share, required); }

void each_field(Of<ProbeShare> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("mount_point", it.mount_point);
}

void each_field(Of<Home> auto& it, const auto& visit) {
  visit("folder", it.folder, required);
  visit("job", it.job, required);
  visit("checkpoints", it.checkpoints, required);
  visit("files", it.files);
  visit("folders", it.folders);
  visit("result", it.result);
  visit("log", it.log);
  visit("at", it.at, required);
  visit("epoch", it.epoch, required);
  visit("id", it.id);
  visit("identity", it.identity);
}

void each_field(Of<BringHome> auto& it, const auto& visit) {
  visit("home", it.home, required);
  visit("manifest", it.manifest);
  visit("held", it.held);
}

void each_field(Of<KeepHome> auto& it, const auto& visit) {
  visit("home", it.home, required);
  visit("committed", it.committed);
  visit("whole", it.whole);
  visit("trims", it.trims);
}

void each_field(Of<ReadLedger> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
}

void each_field(Of<WriteLedger> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
  visit("ledger", it.ledger, required);
}

void each_field(Of<Sync> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
  visit("tree", it.tree);
}

void each_field(Of<SendResult> auto& it, const auto& visit) {
  visit("home", it.home, required);
  visit("user", it.user, required);
  visit("paths", it.paths, required);
  visit("job", it.job, required);
  visit("to", it.to, required);
}

void each_field(Of<Verify> auto& it, const auto& visit) {
  visit("mount_point", it.mount_point, required);
  visit("checkpoints", it.checkpoints, required);
  visit("read_only", it.read_only);
  visit("proven", it.proven);
  visit("watched", it.watched);
  visit("user", it.user);
  visit("files", it.files);
  visit("folders", it.folders);
}

void each_field(Of<Checkout> auto& it, const auto& visit) {
  visit("repository", it.repository, required);
  visit("revision", it.revision, required);
  visit("directory", it.directory, required);
  visit("user", it.user, required);
  visit("token", it.token);
}

void each_field(Of<Source> auto& it, const auto& visit) {
  visit("from", it.from, required);
  visit("to", it.to, required);
  visit("sha256", it.sha256);
  visit("via", it.via);
}

void each_field(Of<Fill> auto& it, const auto& visit) {
  visit("job", it.job, required);
  visit("volume", it.volume, required);
  visit("mount_point", it.mount_point, required);
  visit("user", it.user, required);
  visit("sources", it.sources, required);
}

void each_field(Of<There> auto& it, const auto& visit) { visit("path", it.path, required); }

void each_field(Of<MarkDone> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("job", it.job, required);
}

void each_field(Of<KeepLog> auto& it, const auto& visit) {
  visit("from", it.from, required);
  visit("path", it.path, required);
  visit("end", it.end);
}

void each_field(Of<KeepMetrics> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("lines", it.lines, required);
  visit("resumed", it.resumed);
}

void each_field(Of<KeepLines> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("name", it.name, required);
  visit("lines", it.lines, required);
}

void each_field(Of<FindParent> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("token", it.token, required);
}

void each_field(Of<BeginAttempt> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("attempt", it.attempt, required);
  visit("parent", it.parent);
}

void each_field(Of<PublishAttempt> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("attempt", it.attempt, required);
}

void each_field(Of<SumUp> auto& it, const auto& visit) {
  visit("path", it.path, required);
  visit("index", it.index, required);
  visit("token", it.token, required);
  visit("copy_of", it.copy_of);
}

void each_field(Of<AwaitGpus> auto& it, const auto& visit) {
  visit("count", it.count, required);
  visit("wait_ms", it.wait);
}

// --- a value of each type, in both directions

// The mistake, in words behind the value's name: " is not a text", ": \"port\" is not ...". Empty:
// it was read.
using Wrong = std::string;

Wrong read_object(const Json& json, auto& it, std::set<std::string> known);

Wrong read(const Json& json, std::string& text) {
  if (!json.is_string()) return " is not a text";
  text = json.get<std::string>();
  return {};
}

Wrong read(const Json& json, bool& flag) {
  if (!json.is_boolean()) return " is neither true nor false";
  flag = json.get<bool>();
  return {};
}

Wrong read_count(const Json& json, std::uint64_t most, std::uint64_t& count) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most)
    return " is not a whole number from 0 to " + std::to_string(most);
  count = json.get<std::uint64_t>();
  return {};
}

template <std::unsigned_integral Count>
Wrong read(const Json& json, Count& count) {
  std::uint64_t read = 0;
  Wrong wrong = read_count(json, std::numeric_limits<Count>::max(), read);
  if (wrong.empty()) count = static_cast<Count>(read);
  return wrong;
}

Wrong read(const Json& json, std::chrono::milliseconds& time) {
  std::uint64_t read = 0;
  Wrong wrong = read_count(json, longest_wait, read);
  if (wrong.empty()) time = std::chrono::milliseconds(read);
  return wrong;
}

Wrong read(const Json& json, std::optional<std::uint64_t>& it) { return read(json, it.emplace()); }

Wrong read(const Json& json, wire::LedgerFile& file) {
  auto ledger = wire::parse_ledger(json.dump());
  if (!ledger) return " is no ledger: " + ledger.error().message;
  file = *std::move(ledger);
  return {};
}

Wrong read(const Json& json, Share& share) { return read_object(json, share, {}); }
Wrong read(const Json& json, Home& home) { return read_object(json, home, {}); }
Wrong read(const Json& json, Source& source) { return read_object(json, source, {}); }

template <class Value>
Wrong read(const Json& json, std::vector<Value>& list) {
  if (!json.is_array()) return " is not a list";
  list.clear();
  for (const Json& each : json)
    if (Wrong wrong = read(each, list.emplace_back()); !wrong.empty())
      return "[" + std::to_string(list.size() - 1) + "]" + wrong;
  return {};
}

std::string quoted(const std::string& key) { return "\"" + key + "\""; }

Wrong read_object(const Json& json, auto& it, std::set<std::string> known) {
  if (!json.is_object()) return " is not an object";
  Wrong wrong;
  each_field(it, [&](const char* name, auto& field, Need need = Need::Optional) {
    known.insert(name);
    const auto at = json.find(name);
    if (!wrong.empty() || (at == json.end() && need == Need::Optional)) return;
    if (at == json.end())
      wrong = " has no " + quoted(name);
    else if (const Wrong its = read(*at, field); !its.empty())
      wrong = ": " + quoted(name) + its;
  });
  for (const auto& each : json.items())
    if (wrong.empty() && !known.contains(each.key()))
      wrong = " does not know " + quoted(each.key());
  return wrong;
}

Json object_of(const auto& it);

template <class Value>
Json shown(const Value& value) {
  return value;
}
Json shown(const std::chrono::milliseconds& time) { return time.count(); }
Json shown(const wire::LedgerFile& file) { return Json::parse(wire::to_json(file)); }
Json shown(const std::optional<std::uint64_t>& count) { return count ? Json(*count) : Json(); }
Json shown(const Share& share) { return object_of(share); }
Json shown(const Home& home) { return object_of(home); }
Json shown(const std::vector<Source>& sources) {
  Json list = Json::array();
  for (const Source& each : sources) list.push_back(object_of(each));
  return list;
}

Json object_of(const auto& it) {
  Json object = Json::object();
  each_field(it, [&](const char* name, const auto& field, Need = Need::Optional) {
    if (Json value = shown(field); !value.is_null()) object[name] = std::move(value);
  });
  return object;
}

template <class V>
Result<Verb> parse_as(const Json& json) {
  V verb;
  const Wrong wrong = read_object(json, verb, {"verb", "as"});
  if (!wrong.empty()) return failure(std::string(V::traits.name) + wrong);
  return verb;
}

template <class... V>
Result<Verb> parse_verb(const Json& json, const std::string& name, const std::variant<V...>*) {
  Result<Verb> parsed = failure(quoted(name) + " is no verb");
  (void)((V::traits.name == name && (parsed = parse_as<V>(json), true)) || ...);
  return parsed;
}

}  // namespace

const Traits& traits_of(const Verb& verb) {
  return std::visit([](const auto& it) -> const Traits& { return it.traits; }, verb);
}

std::string mounts_on(const Verb& verb) {
  return std::visit(
      []<class V>(const V& it) -> std::string {
        if constexpr (!V::traits.mounts)
          return {};
        else if constexpr (requires { it.share; })
          return it.share.mount_point;
        else
          return it.mount_point;
      },
      verb);
}

std::string to_json(const Request& request) {
  Json object = std::visit([](const auto& it) { return object_of(it); }, request.verb);
  object["verb"] = traits_of(request.verb).name;
  if (!request.as.empty()) object["as"] = request.as;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Request> parse_request(std::string_view text) {
  const auto json = wire::parse_json_object(text);
  if (!json) return failure("the request is no JSON object");  // its begin may be a secret
  const auto name = json->find("verb");
  if (name == json->end() || !name->is_string()) return failure("the request has no text \"verb\"");
  Request request;
  if (const auto as = json->find("as"); as != json->end())
    if (const Wrong wrong = read(*as, request.as); !wrong.empty()) return failure("\"as\"" + wrong);
  auto verb = parse_verb(*json, name->get<std::string>(), static_cast<const Verb*>(nullptr));
  if (!verb) return tl::unexpected(verb.error());
  request.verb = *std::move(verb);
  return request;
}

}  // namespace spotter::verbs
