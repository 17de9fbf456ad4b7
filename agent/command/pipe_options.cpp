#include "agent/command/pipe_options.hpp"

#include <CLI/CLI.hpp>

#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t longest_config = 1U << 20;

// "a SEPARATOR b" as two numbers.
std::optional<std::pair<std::uint64_t, std::uint64_t>> two(const std::string& text, char between) {
  const auto at = text.find(between);
  if (at == std::string::npos) return std::nullopt;
  const auto first = wire::parse_count(std::string_view(text).substr(0, at));
  const auto second = wire::parse_count(std::string_view(text).substr(at + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

Result<void> add(std::vector<wire::Channel>& all, Result<wire::Channel> channel) {
  if (!channel) return tl::unexpected(channel.error());
  for (const auto& each : all) {
    if (each.name == channel->name) return failure("channel " + each.name + " is there twice");
  }
  if (channel->type == wire::S3DataType::AugmentedManifestFile) {
    return failure("channel " + channel->name + ": AugmentedManifestFile is not there yet");
  }
  all.push_back(std::move(*channel));
  return {};
}

}  // namespace

void PipeOptions::add_to(CLI::App& app) {
  app.add_option("--channel", channels,
                 "NAME=s3://bucket/prefix[,mode=pipe|file][,type=manifest][,gzip][,recordio]"
                 "[,shuffle=SEED][,sharded][,anonymous]")
      ->allow_extra_args(false);
  app.add_option("--input-data-config", config, "SageMaker's InputDataConfig, a JSON file")
      ->check(CLI::ExistingFile);
  app.add_option("--directory", directory,
                 "Of the FIFOs NAME_0, NAME_1, ..., and of the files NAME/...")
      ->capture_default_str();
  app.add_option("--state", state,
                 "A folder that outlives this run: what was listed first is frozen there, and "
                 "which files are whole");
  app.add_option("--shard", shard, "INDEX/COUNT: this instance's part of sharded channels");
  app.add_option("--start", starts, "NAME=EPOCH:BYTES: the stream begins there")
      ->allow_extra_args(false);
  app.add_option("--budget", budget, "Memory for all channels, MiB")->capture_default_str();
  app.add_flag("--copy", copy, "Write copies into the pipe, not the pages themselves");
  app.add_option("command", command, "What is run, after --")->required();
}

Result<data::PlaneSettings> PipeOptions::settings(const act::Environment& environment) const {
  data::PlaneSettings settings;
  if (!config.empty()) {
    const auto text = io::read_file(config, longest_config);
    if (!text) return failure(config + ": " + text.error().message());
    const auto read = wire::parse_input_data_config(*text);
    if (!read) return failure(config + ": " + read.error().message);
    for (const auto& channel : *read) {
      if (auto good = add(settings.channels, channel); !good) return tl::unexpected(good.error());
    }
  }
  for (const auto& text : channels) {
    if (auto good = add(settings.channels, wire::parse_channel(text)); !good) {
      return tl::unexpected(good.error());
    }
  }
  if (settings.channels.empty()) return failure("no channel is given: --channel NAME=s3://...");
  if (!shard.empty()) {
    const auto given = two(shard, '/');
    if (!given || given->second == 0 || given->first >= given->second) {
      return failure("--shard is INDEX/COUNT, counted from 0");
    }
    settings.shard = {given->first, given->second};
  }
  for (const auto& text : starts) {
    const auto equals = std::min(text.find('='), text.size());
    const auto given = data::parse_position(text.substr(std::min(equals + 1, text.size())));
    if (!given) return failure("--start is NAME=EPOCH:BYTES");
    settings.start[text.substr(0, equals)] = *given;
  }
  settings.directory = directory;
  settings.state = state;
  settings.budget = std::size_t{budget} << 20;
  settings.splice = !copy;
  settings.s3.environment = environment;
  return settings;
}

}  // namespace spotter::command
