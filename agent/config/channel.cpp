#include "agent/config/channel.hpp"

#include <algorithm>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

constexpr std::size_t most_of_sagemaker = 20;
// Each needs variables of the trainer's, of which execve(2) takes 2 MiB.
constexpr std::size_t most_channels = 1'000;
// Each is a mount with memory of its own; a user may have 1,000 mounts (mount_max of fuse.conf).
constexpr std::size_t most_views = 100;
constexpr std::size_t longest_entry = 200;  // of a wrong entry, in a message

tl::unexpected<Error> wrong(const std::string& channel, const std::string& what) {
  return failure("channel " + channel + ": " + what);
}

// A choice: its word in a description, its word in SageMaker's documents, and its value.
template <class T>
struct Choice {
  const char* word;
  const char* sage_maker;
  T meaning;
};
constexpr Choice<InputMode> modes[] = {{"pipe", "Pipe", InputMode::Pipe},
                                       {"file", "File", InputMode::File},
                                       {"fast_file", "FastFile", InputMode::FastFile}};
constexpr Choice<S3DataType> types[] = {
    {"prefix", "S3Prefix", S3DataType::S3Prefix},
    {"manifest", "ManifestFile", S3DataType::ManifestFile},
    {"augmented", "AugmentedManifestFile", S3DataType::AugmentedManifestFile}};
constexpr Choice<bool> compressions[] = {{"none", "None", false}, {"gzip", "Gzip", true}};
constexpr Choice<bool> wrappers[] = {{"none", "None", false}, {"recordio", "RecordIO", true}};
constexpr Choice<bool> distributions[] = {{"replicated", "FullyReplicated", false},
                                          {"sharded", "ShardedByS3Key", true}};

template <class T, std::size_t count>
Result<T> choose(std::string_view name, std::string_view given, const Choice<T> (&choices)[count]) {
  std::string known;
  for (const auto& each : choices) {
    if (given == each.word || given == each.sage_maker) return each.meaning;
    known += std::string(known.empty() ? "" : ", ") + each.sage_maker;
  }
  return failure(std::string(name) + " is '" + std::string(given.substr(0, longest_entry)) +
                 "'; there are: " + known);
}

template <class T, std::size_t count>
const Choice<T>& choice_of(T meaning, const Choice<T> (&choices)[count]) {
  return *std::ranges::find(choices, meaning, &Choice<T>::meaning);
}

template <class T, std::size_t count>
Result<void> set_choice(T& into, std::string_view name, std::string_view given,
                        const Choice<T> (&choices)[count]) {
  into = TRY(choose(name, given, choices));
  return {};
}

// A member of SageMaker's documents; absent means the first choice.
template <class T, std::size_t count>
Result<T> word(const Json& object, const char* name, const Choice<T> (&choices)[count]) {
  const std::string given = text_field(object, name);
  if (given.empty()) return choices[0].meaning;
  return choose(name, given, choices);
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

std::optional<std::uint64_t> seed_of(const Json& shuffle) {
  if (!shuffle.contains("Seed")) return std::nullopt;
  const Json& seed = shuffle["Seed"];
  if (seed.is_number_unsigned()) return seed.get<std::uint64_t>();
  return seed.is_string() ? parse_count(seed.get<std::string>()) : std::nullopt;  // a text, from
                                                                                  // YAML
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
  channel.content_type = text_field(object, "ContentType");
  std::string problem;
  take(parse_s3_url(text_field(source, "S3Uri")), channel.source, problem);
  take(word(source, "S3DataType", types), channel.type, problem);
  take(word(source, "S3DataDistributionType", distributions), channel.sharded, problem);
  take(word(object, "CompressionType", compressions), channel.gzip, problem);
  take(word(object, "RecordWrapperType", wrappers), channel.recordio, problem);
  take(word(object, "InputMode", modes), channel.mode, problem);
  const Json& shuffle = member(object, "ShuffleConfig");
  channel.shuffle_seed = seed_of(shuffle);
  if (object.contains("ShuffleConfig") && !channel.shuffle_seed) {
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

// The separators of a description, as they are written inside of its parts.
constexpr std::pair<char, const char*> escapes[] = {{'%', "%25"}, {',', "%2C"}, {':', "%3A"}};

std::string unescape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto* it = std::ranges::find_if(
        escapes, [&](const auto& each) { return text.starts_with(each.second); });
    const bool plain = it == std::end(escapes);
    out += plain ? text.front() : it->first;
    text.remove_prefix(plain ? 1 : 3);
  }
  return out;
}

std::string escape(std::string_view text, bool colon) {
  std::string out;
  for (const char each : text) {
    const auto* it = std::ranges::find(escapes, each, &std::pair<char, const char*>::first);
    const bool plain = it == std::end(escapes) || (each == ':' && !colon);
    out += plain ? std::string(1, each) : it->second;
  }
  return out;
}

std::vector<std::string> split_attributes(std::string_view value) {
  std::vector<std::string> names;
  while (!value.empty()) {
    names.push_back(unescape(take_until(value, ':')));
  }
  return names;
}

// One ,NAME or ,NAME=VALUE of parse_channel().
Result<void> apply_option(Channel& channel, std::string_view option) {
  const auto equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string_view value =
      equals < option.size() ? option.substr(equals + 1) : std::string_view();
  if (option == "gzip") return set_setting(channel, "compression", "gzip");
  if (option == "recordio") return set_setting(channel, "record_wrapper", "recordio");
  if (option == "sharded") return set_setting(channel, "distribution", "sharded");
  if (option == "anonymous" || option == "requester_pays")
    return set_setting(channel, option, "true");
  if (name == "shuffle") return set_setting(channel, "shuffle_seed", value);
  if (name == "content_type") return set_setting(channel, name, unescape(value));
  if (name == "attributes") {
    channel.attributes = split_attributes(value);
    return {};
  }
  return set_setting(channel, name, value);
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

Result<void> add_channel(std::vector<Channel>& all, Channel channel) {
  // A streamed channel's FIFOs are NAME_0, NAME_1, ... beside the folders of other channels.
  const auto is_epoch = [](const Channel& folder, const Channel& streamed) {
    if (folder.mode == InputMode::Pipe || streamed.mode != InputMode::Pipe) return false;
    const std::string begin = streamed.name + "_";
    return folder.name.starts_with(begin) &&
           parse_count(std::string_view(folder.name).substr(begin.size())).has_value();
  };
  for (const auto& other : all) {
    if (other.name == channel.name) return wrong(other.name, "it is there twice");
    if (is_epoch(channel, other) || is_epoch(other, channel)) {
      return wrong(other.name, "it cannot be beside " + channel.name +
                                   ": one is the name of an epoch of the other, which is streamed");
    }
  }
  if (all.size() >= most_channels)
    return wrong(channel.name, "there are more than " + std::to_string(most_channels) +
                                   " channels: let one be of a prefix that several share");
  const auto views = std::ranges::count(all, InputMode::FastFile, &Channel::mode);
  if (channel.mode == InputMode::FastFile && static_cast<std::size_t>(views) >= most_views)
    return wrong(channel.name, "there are more than " + std::to_string(most_views) +
                                   " channels of mode fast_file: let one be of a prefix that "
                                   "several share, or let their mode be file");
  all.push_back(std::move(channel));
  return {};
}

Result<void> set_setting(Channel& channel, std::string_view name, std::string_view value) {
  if (name == "mode") return set_choice(channel.mode, name, value, modes);
  if (name == "type") return set_choice(channel.type, name, value, types);
  if (name == "compression") return set_choice(channel.gzip, name, value, compressions);
  if (name == "record_wrapper") return set_choice(channel.recordio, name, value, wrappers);
  if (name == "distribution") return set_choice(channel.sharded, name, value, distributions);
  if (name == "anonymous" || name == "requester_pays") {
    if (value != "true" && value != "false")
      return failure(std::string(name) + " is true or false");
    (name == "anonymous" ? channel.anonymous : channel.requester_pays) = value == "true";
    return {};
  }
  if (name == "content_type") {
    channel.content_type = value;
    return {};
  }
  if (name == "shuffle_seed") {
    channel.shuffle_seed = parse_count(value);
    if (!channel.shuffle_seed) return failure("shuffle_seed is a whole number, not negative");
    return {};
  }
  return failure("'" + std::string(name.substr(0, longest_entry)) +
                 "' is not known; there are: mode=pipe|file|fast_file "
                 "type=prefix|manifest|augmented attributes=NAME:NAME gzip recordio shuffle=SEED "
                 "sharded anonymous requester_pays");
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
  const auto none = [](const std::string& name) { return name.empty(); };
  if (std::ranges::any_of(channel.attributes, none)) {
    return wrong(channel.name, "an attribute has no name");
  }
  if ((channel.source.key + channel.content_type).find('\0') != std::string::npos) {
    return wrong(channel.name, "a byte of it is zero");
  }
  if (!augmented && !channel.attributes.empty()) {
    return wrong(channel.name, "attributes are those of an AugmentedManifestFile");
  }
  if (augmented && (channel.mode != InputMode::Pipe || channel.gzip)) {
    return wrong(channel.name,
                 "an AugmentedManifestFile is streamed: mode pipe, without compression");
  }
  if (channel.mode != InputMode::Pipe && (channel.recordio || channel.gzip)) {
    return wrong(channel.name, "RecordIO and Gzip are for the mode Pipe; files stay as they are");
  }
  if (channel.anonymous && channel.requester_pays) {
    return wrong(channel.name, "who pays has to say who it is: not anonymous and requester_pays");
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
  auto source = parse_s3_url(unescape(text.substr(0, comma)));
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

std::string describe(const Channel& channel) {
  std::string text = channel.name + "=" + escape(to_url(channel.source), false);
  const auto add = [&text](const std::string& option) { text += "," + option; };
  if (channel.mode != InputMode::Pipe)
    add(std::string("mode=") + choice_of(channel.mode, modes).word);
  if (channel.type != S3DataType::S3Prefix)
    add(std::string("type=") + choice_of(channel.type, types).word);
  for (const auto& each : channel.attributes)
    text += (&each == channel.attributes.data() ? ",attributes=" : ":") + escape(each, true);
  if (channel.gzip) add("gzip");
  if (channel.recordio) add("recordio");
  if (channel.shuffle_seed) add("shuffle=" + std::to_string(*channel.shuffle_seed));
  if (channel.sharded) add("sharded");
  if (channel.anonymous) add("anonymous");
  if (channel.requester_pays) add("requester_pays");
  if (!channel.content_type.empty()) add("content_type=" + escape(channel.content_type, false));
  return text;
}

Result<std::vector<Channel>> parse_input_data_config(std::string_view text) {
  auto json = TRY(parse_json(text));
  if (json.is_object() && json.contains("InputDataConfig")) json = Json(json["InputDataConfig"]);
  if (json.is_object()) {
    return failure(
        "this is what a container gets, without any S3Uri: CreateTrainingJob's InputDataConfig, "
        "an array of channels, is read");
  }
  if (!json.is_array()) return failure("InputDataConfig is a JSON array of channels");
  std::vector<Channel> channels;
  for (const auto& each : json) {
    if (!each.is_object()) return failure("InputDataConfig holds something that is no channel");
    auto channel = TRY(channel_of(each));
    TRY(add_channel(channels, std::move(channel)));
    if (channels.size() > most_of_sagemaker)
      return failure("more than 20 channels, which are all that SageMaker has");
  }
  return channels;
}

Result<Manifest> parse_manifest(std::string_view text) {
  const auto json = TRY(parse_foreign_json(text));
  if (!json.is_array() || json.empty() || !json.front().is_object()) {
    return failure("a manifest is a JSON array that begins with {\"prefix\": \"s3://...\"}");
  }
  const std::string prefix = text_field(json.front(), "prefix");
  auto location = TRY(parse_s3_url(prefix));
  Manifest manifest{std::move(location), {}};
  for (std::size_t i = 1; i < json.size(); ++i) {
    const Json& entry = json[i];
    const std::string at = "entry " + std::to_string(i) + " of the manifest";
    if (!entry.is_string()) return failure(at + " is no text");
    auto object = parse_s3_url(prefix + entry.get<std::string>());
    if (!object || object->key.empty() || object->bucket != manifest.prefix.bucket) {
      return failure(at + " names no object");
    }
    manifest.keys.push_back(std::move(object->key));
  }
  return manifest;
}

Result<std::vector<ManifestEntry>> parse_augmented_line(
    std::string_view line, const std::vector<std::string>& attributes) {
  const auto json = TRY(parse_foreign_json(line));
  if (!json.is_object()) return failure("not a JSON object");
  std::vector<ManifestEntry> entries;
  for (const auto& name : attributes) {
    if (!json.contains(name)) return failure("there is no attribute '" + name + "'");
    const Json& value = json[name];
    ManifestEntry entry;
    if (name.ends_with("-ref")) {
      auto location = parse_s3_url(value.is_string() ? value.get<std::string>() : "");
      if (!location || location->key.empty()) return failure("'" + name + "' names no object");
      entry.object = std::move(*location);
    } else {
      entry.value = plain_text(value, false);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace spotter::wire
