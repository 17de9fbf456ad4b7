#include "agent/job/channels.hpp"

#include <nlohmann/json.hpp>

namespace spotter::config {
namespace {

using Json = nlohmann::json;
using wire::Channel;

// Without the channel's name, which is in the path already.
std::string plain(const std::string& message, const std::string& name) {
  const std::string own = "channel " + name + ": ";
  return message.starts_with(own) ? message.substr(own.size()) : message;
}

std::optional<std::string> text_of(Reader& reader, const Node& node, const std::string& path) {
  std::optional<std::string> text;
  reader.expanded(text, environment_value)(node, path);
  return text;
}

Reader::Take source(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const auto location = wire::parse_s3_url(text.value_or(""));
    good = good && location;
    if (location) channel.source = *location;
    if (text && !location) reader.problem(node, path, location.error().message);
  };
}

Reader::Take setting(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    const auto text = text_of(reader, node, path);
    const std::string name = path.substr(path.rfind('.') + 1);
    const auto set = text ? wire::set_setting(channel, name, *text) : failure("");
    good = good && set;
    if (text && !set) reader.problem(node, path, set.error().message);
  };
}

Reader::Take attributes(Reader& reader, Channel& channel, bool& good) {
  return [&](const Node& node, const std::string& path) {
    good = good && node.kind == Node::Kind::List;
    if (node.kind != Node::Kind::List)
      return reader.problem(node, path, "expected a list of names, found " + describe(node));
    for (const Node& each : node.items) {
      const auto name = text_of(reader, each, path);
      good = good && name;
      if (name) channel.attributes.push_back(*name);
    }
  };
}

// False: problems were reported.
bool read_map(Reader& reader, const Node& node, const std::string& path, Channel& channel) {
  bool good = true;
  Reader::Fields fields{{"source", required, source(reader, channel, good)},
                        {"attributes", optional, attributes(reader, channel, good)}};
  for (const auto* name : {"mode", "type", "compression", "record_wrapper", "shuffle_seed",
                           "distribution", "anonymous", "requester_pays", "content_type"})
    fields.push_back({name, optional, setting(reader, channel, good)});
  reader.map(node, path, fields);
  return good && !channel.source.bucket.empty();
}

void read_one(Reader& reader, const Node& key, const Node& value, const std::string& path,
              Channels& channels) {
  if (!wire::is_channel_name(key.text))
    return reader.problem(key, path, "a channel's name has letters, digits, `.`, `-` and `_`");
  Channel channel;
  channel.name = key.text;
  Result<Channel> read = failure("");
  if (value.kind == Node::Kind::Map) {
    if (!read_map(reader, value, path, channel)) return;
    read = wire::validated(std::move(channel));
  } else {
    const auto text = text_of(reader, value, path);
    if (!text) return;
    read = wire::parse_channel(key.text + "=" + *text);
  }
  if (!read) return reader.problem(value, path, plain(read.error().message, key.text));
  if (auto added = wire::add_channel(channels.all, std::move(*read)); !added)
    reader.problem(value, path, plain(added.error().message, key.text));
}

// The same text as JSON, except that numbers stay texts.
Json json_of_texts(const Node& node) {
  if (node.kind == Node::Kind::Text) return node.text;
  Json json;
  if (node.kind == Node::Kind::List) {
    json = Json::array();
    for (const Node& each : node.items) json.push_back(json_of_texts(each));
  } else if (node.kind == Node::Kind::Map) {
    json = Json::object();
    for (std::size_t i = 0; i < node.keys.size(); ++i)
      json[node.keys[i].text] = json_of_texts(node.items[i]);
  }
  return json;
}

}  // namespace

Reader::Take channels(Reader& reader, Channels& channels) {
  const auto each = [&](const Node& key, const Node& value, const std::string& path) {
    read_one(reader, key, value, path, channels);
  };
  return [&, each](const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::Text) {
      channels.document = text_of(reader, node, path).value_or("");
      if (channels.document.empty() || channels.document.starts_with("s3://"))
        reader.problem(node, path, "channels have names: {train: s3://bucket/prefix}");
    } else if (node.kind == Node::Kind::List) {
      auto read = wire::parse_input_data_config(
          json_of_texts(node).dump(-1, ' ', false, Json::error_handler_t::replace));
      if (!read) return reader.problem(node, path, read.error().message);
      channels.all = std::move(*read);
    } else {
      reader.pairs("channels, such as {train: s3://bucket/prefix}", each)(node, path);
    }
  };
}

}  // namespace spotter::config
