#include "agent/wire/verbs.hpp"

#include "agent/base/record.hpp"

namespace spotter::verbs {
namespace {

using wire::Json;
using wire::quoted_key;

template <class V>
Result<Verb> parse_as(const Json& json) {
  V verb;
  wire::Wrong wrong = wire::read_record(json, verb);
  if (wrong.empty()) wrong = wire::unknown_key<V>(json, {"verb", "as"});
  if (!wrong.empty()) return failure(std::string(V::traits.name) + wrong);
  return verb;
}

template <class... V>
Result<Verb> parse_verb(const Json& json, const std::string& name, const std::variant<V...>*) {
  Result<Verb> parsed = failure(quoted_key(name) + " is no verb");
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
          return it.share.mount;
        else
          return it.mount_point;
      },
      verb);
}

std::string to_json(const Request& request) {
  Json object = std::visit([](const auto& it) { return wire::object_of(it); }, request.verb);
  object["verb"] = traits_of(request.verb).name;
  if (!request.as.empty()) object["as"] = request.as;
  return wire::json_text(object);
}

Result<Request> parse_request(std::string_view text) {
  const auto json = wire::parse_json_object(text);
  if (!json) return failure("the request is no JSON object");  // its begin may be a secret
  const auto name = json->find("verb");
  if (name == json->end() || !name->is_string()) return failure("the request has no text \"verb\"");
  Request request;
  if (const auto as = json->find("as"); as != json->end())
    if (auto wrong = wire::read_value(*as, request.as); !wrong.empty())
      return failure("\"as\"" + wrong);
  request.verb =
      TRY(parse_verb(*json, name->get<std::string>(), static_cast<const Verb*>(nullptr)));
  return request;
}

}  // namespace spotter::verbs
