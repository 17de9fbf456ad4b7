#include "agent/wire/channels.hpp"

#include <algorithm>

#include "agent/wire/json.hpp"

namespace spotter::wire {
namespace {

constexpr std::size_t most_channels = 20;   // as SageMaker
constexpr std::size_t longest_entry = 200;  // of a bad one, in a message

tl::unexpected<Error> wrong(const std::string& channel, const std::string& what) {
  return failure("channel " + channel + ": " + what);
}

// What one of SageMaker's words means; an absent one is the first.
template <class T>
Result<T> word(const Json& object, const char* name,
               std::initializer_list<std::pair<const char*, T>> meanings) {
  const std::string given = text_field(object, name);
  if (given.empty()) return meanings.begin()->second;
  std::string known;
  for (const auto& [each, meaning] : meanings) {
    if (given == each) return meaning;
    known += std::string(known.empty() ? "" : ", ") + each;
  }
  return failure(std::string(name) + " is '" + given.substr(0, longest_entry) +
                 "'; there are: " + known);
}

template <class T>
bool take(Result<T> read, T& into, std::string& problem) {
  if (read) {
    into = std::move(*read);
  } else if (problem.empty()) {
    problem = read.error().message;
  }
  return read.has_value();
}

Result<Channel> channel_of(const Json& object) {
  Channel channel;
  channel.name = text_field(object, "ChannelName");
  if (!is_channel_name(channel.name)) return failure("a channel without a usable ChannelName");
  const Json empty = Json::object();
  const auto member = [&](const Json& of, const char* name) -> const Json& {
    return of.contains(name) && of[name].is_object() ? of[name] : empty;
  };
  const Json& source = member(member(object, "DataSource"), "S3DataSource");
  std::string problem;
  take(parse_s3_url(text_field(source, "S3Uri")), channel.source, problem);
  take(word<S3DataType>(source, "S3DataType",
                        {{"S3Prefix", S3DataType::S3Prefix},
                         {"ManifestFile", S3DataType::ManifestFile},
                         {"AugmentedManifestFile", S3DataType::AugmentedManifestFile}}),
       channel.type, problem);
  take(word<bool>(source, "S3DataDistributionType",
                  {{"FullyReplicated", false}, {"ShardedByS3Key", true}}),
       channel.sharded, problem);
  take(word<bool>(object, "CompressionType", {{"None", false}, {"Gzip", true}}), channel.gzip,
       problem);
  take(word<bool>(object, "RecordWrapperType", {{"None", false}, {"RecordIO", true}}),
       channel.recordio, problem);
  take(word<InputMode>(object, "InputMode",
                       {{"Pipe", InputMode::Pipe},
                        {"File", InputMode::File},
                        {"FastFile", InputMode::FastFile}}),
       channel.mode, problem);
  const Json& shuffle = member(object, "ShuffleConfig");
  if (shuffle.contains("Seed") && shuffle["Seed"].is_number_integer()) {
    channel.shuffle_seed = shuffle["Seed"].get<std::uint64_t>();
  } else if (object.contains("ShuffleConfig")) {
    problem = "ShuffleConfig has no Seed that is a number";
  }
  if (source.contains("AttributeNames") && source["AttributeNames"].is_array()) {
    for (const auto& each : source["AttributeNames"]) {
      if (each.is_string()) channel.attributes.push_back(each.get<std::string>());
    }
  }
  if (!problem.empty()) return wrong(channel.name, problem);
  return validated(std::move(channel));
}

std::string unescape_comma(std::string_view text) {
  std::string out(text);
  for (auto at = out.find("%2C"); at != out.npos; at = out.find("%2C", at + 1)) {
    out.replace(at, 3, ",");
  }
  return out;
}

// One ,word or ,word=value of parse_channel().
Result<void> apply_option(Channel& channel, std::string_view option) {
  const auto equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string_view value =
      equals < option.size() ? option.substr(equals + 1) : std::string_view();
  if (name == "gzip" && value.empty()) {
    channel.gzip = true;
  } else if (name == "recordio" && value.empty()) {
    channel.recordio = true;
  } else if (name == "sharded" && value.empty()) {
    channel.sharded = true;
  } else if (name == "anonymous" && value.empty()) {
    channel.anonymous = true;
  } else if (name == "shuffle" && parse_count(value)) {
    channel.shuffle_seed = parse_count(value);
  } else if (option == "mode=pipe") {
    channel.mode = InputMode::Pipe;
  } else if (option == "mode=file") {
    channel.mode = InputMode::File;
  } else if (option == "type=prefix") {
    channel.type = S3DataType::S3Prefix;
  } else if (option == "type=manifest") {
    channel.type = S3DataType::ManifestFile;
  } else {
    return failure("'" + std::string(option.substr(0, longest_entry)) +
                   "' is not known; there are: mode=pipe|file type=prefix|manifest gzip recordio "
                   "shuffle=SEED sharded anonymous");
  }
  return {};
}

}  // namespace

bool is_channel_name(std::string_view name) {
  const auto fits = [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           (each >= '0' && each <= '9') || each == '.' || each == '-' || each == '_';
  };
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         std::ranges::all_of(name, fits);
}

Result<Channel> validated(Channel channel) {
  const bool augmented = channel.type == S3DataType::AugmentedManifestFile;
  if (!is_channel_name(channel.name)) return failure("a channel's name has letters, digits, .-_");
  if (channel.type != S3DataType::S3Prefix && channel.source.key.empty()) {
    return wrong(channel.name, "a manifest is an object: s3://bucket/key");
  }
  if (augmented && channel.attributes.empty()) {
    return wrong(channel.name, "an AugmentedManifestFile needs AttributeNames");
  }
  if (augmented && (channel.mode != InputMode::Pipe || !channel.recordio || channel.gzip)) {
    return wrong(channel.name,
                 "an AugmentedManifestFile is streamed: InputMode Pipe, RecordWrapperType "
                 "RecordIO, CompressionType None");
  }
  if (channel.mode != InputMode::Pipe && (channel.recordio || channel.gzip)) {
    return wrong(channel.name, "RecordIO and Gzip are for the mode Pipe; files stay as they are");
  }
  return channel;
}

Result<Channel> parse_channel(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == text.npos) return failure("a channel is NAME=s3://bucket/prefix");
  Channel channel;
  channel.name = text.substr(0, equals);
  text.remove_prefix(equals + 1);
  const auto comma = std::min(text.find(','), text.size());
  auto source = parse_s3_url(unescape_comma(text.substr(0, comma)));
  if (!source) return wrong(channel.name.substr(0, 64), source.error().message);
  channel.source = std::move(*source);
  text.remove_prefix(comma);
  while (!text.empty()) {
    text.remove_prefix(1);
    const auto end = std::min(text.find(','), text.size());
    if (auto good = apply_option(channel, text.substr(0, end)); !good) {
      return wrong(channel.name.substr(0, 64), good.error().message);
    }
    text.remove_prefix(end);
  }
  return validated(std::move(channel));
}

Result<std::vector<Channel>> parse_input_data_config(std::string_view text) {
  auto json = parse_json(text);
  if (!json) return tl::unexpected(json.error());
  if (json->is_object() && json->contains("InputDataConfig"))
    *json = Json((*json)["InputDataConfig"]);
  if (!json->is_array()) return failure("InputDataConfig is a JSON array of channels");
  std::vector<Channel> channels;
  for (const auto& each : *json) {
    if (!each.is_object()) return failure("InputDataConfig holds something that is no channel");
    auto channel = channel_of(each);
    if (!channel) return tl::unexpected(channel.error());
    for (const auto& other : channels) {
      if (other.name == channel->name) return wrong(other.name, "it is there twice");
    }
    channels.push_back(std::move(*channel));
    if (channels.size() > most_channels) return failure("more than 20 channels");
  }
  return channels;
}

Result<std::vector<S3Location>> parse_manifest(std::string_view text) {
  const auto json = parse_json(text);
  if (!json) return tl::unexpected(json.error());
  if (!json->is_array() || json->empty() || !json->front().is_object()) {
    return failure("a manifest is a JSON array that begins with {\"prefix\": \"s3://...\"}");
  }
  const std::string prefix = text_field(json->front(), "prefix");
  if (auto good = parse_s3_url(prefix); !good) return tl::unexpected(good.error());
  std::vector<S3Location> objects;
  for (std::size_t i = 1; i < json->size(); ++i) {
    const Json& entry = (*json)[i];
    const std::string at = "entry " + std::to_string(i) + " of the manifest";
    if (!entry.is_string()) return failure(at + " is no text");
    auto location = parse_s3_url(prefix + entry.get<std::string>());
    if (!location || location->key.empty()) return failure(at + " names no object");
    objects.push_back(std::move(*location));
  }
  return objects;
}

Result<std::vector<ManifestEntry>> parse_augmented_line(
    std::string_view line, const std::vector<std::string>& attributes) {
  const auto json = parse_json_object(line);
  if (!json) return tl::unexpected(json.error());
  std::vector<ManifestEntry> entries;
  for (const auto& name : attributes) {
    if (!json->contains(name)) return failure("there is no attribute '" + name + "'");
    const Json& value = (*json)[name];
    ManifestEntry entry;
    if (name.ends_with("-ref")) {
      auto location = parse_s3_url(value.is_string() ? value.get<std::string>() : "");
      if (!location || location->key.empty()) return failure("'" + name + "' names no object");
      entry.object = std::move(*location);
    } else {
      entry.value = value.is_string() ? value.get<std::string>()
                                      : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace spotter::wire
