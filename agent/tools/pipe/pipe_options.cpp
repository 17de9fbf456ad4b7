#include "agent/tools/pipe/pipe_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "agent/io/files.hpp"
#include "agent/job/array_index.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_config = 1U << 20;
constexpr std::size_t most_listed = 10'000;  // lines; wire limits the channels
constexpr const char* default_root = "/opt/ml";

// "a SEPARATOR b" as two numbers.
std::optional<std::pair<std::uint64_t, std::uint64_t>> two(const std::string& text, char between) {
  const auto at = text.find(between);
  if (at == std::string::npos) return std::nullopt;
  const auto first = wire::parse_count(std::string_view(text).substr(0, at));
  const auto second = wire::parse_count(std::string_view(text).substr(at + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

Result<data::Shard> parse_shard(const std::string& text) {
  const auto given = two(text, '/');
  if (!given || given->second == 0 || given->first >= given->second) {
    return failure("--shard is INDEX/COUNT, counted from 0");
  }
  return data::Shard{given->first, given->second};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// This process's part of an array of jobs; without an array, all.
Result<data::Shard> shard_of_array() {
  const auto array = sweep::array_index(variable);
  if (array && !*array) return data::Shard{};
  if (array && (*array)->part) return data::Shard{(*array)->part->number, (*array)->part->of};
  return failure("a channel is sharded, but " +
                 (array ? (*array)->variable + "=" + std::to_string((*array)->index) +
                              " is no index below a count that the engine says"
                        : array.error().message) +
                 "; --shard INDEX/COUNT says it, too");
}

Result<void> add(std::vector<wire::Channel>& all, Result<wire::Channel> channel) {
  if (!channel) return tl::unexpected(channel.error());
  return wire::add_channel(all, std::move(*channel));
}

// At most 1 GiB for streams, however many: the machine must have it, as each is filled before it is
// read.
std::size_t default_budget(const std::vector<wire::Channel>& channels) {
  const auto of = [&](wire::InputMode mode) {
    return static_cast<std::size_t>(std::ranges::count(channels, mode, &wire::Channel::mode));
  };
  constexpr std::size_t least = 256U << 20;
  constexpr std::size_t most_for_streams = 1U << 30;
  const std::size_t streams = of(wire::InputMode::Pipe) * data::good_budget;
  const std::size_t views = of(wire::InputMode::FastFile) * data::good_budget;
  return std::max(least, std::min(streams, most_for_streams) + views);
}

}  // namespace

void PipeOptions::add_to(CLI::App& app) {
  app.add_option("--channel", channels,
                 "NAME=s3://bucket/prefix[,mode=pipe|file|fast_file][,type=manifest|augmented]"
                 "[,attributes=NAME:NAME][,gzip][,recordio]"
                 "[,shuffle=SEED][,sharded][,anonymous][,requester_pays]")
      ->allow_extra_args(false);
  app.add_option("--channels", list, "A file with one channel a line, in the form of --channel")
      ->check(CLI::ExistingFile);
  app.add_option("--input-data-config", config, "SageMaker's InputDataConfig, a JSON file")
      ->check(CLI::ExistingFile);
  app.add_option("--root", root,
                 "SageMaker's folder, with input/data, input/config, model, output, checkpoints; "
                 "/opt/ml, if no --directory is given");
  app.add_option("--directory", directory,
                 "Of the FIFOs NAME_0, NAME_1, ..., and of the files NAME/...; input/data below "
                 "the root");
  app.add_option("--hyperparameters", parameters,
                 "A JSON object, also in SPOTTER_PARAMETERS: passed to the command below the root "
                 "and as SM_HP_*")
      ->check(CLI::ExistingFile);
  app.add_option("--state", state,
                 "A folder that outlives this run: what was listed first is frozen there, and "
                 "which files are whole");
  app.add_option("--cache", cache,
                 "A folder on another disk, for the files of channels in mode `file`, where none "
                 "are in the directory yet; the directory gets links to it");
  app.add_option("--shard", shard,
                 "INDEX/COUNT: this instance's part of sharded channels; else that of an array of "
                 "AWS Batch or Slurm");
  app.add_option("--start", starts, "NAME=EPOCH:BYTES: the stream begins there")
      ->allow_extra_args(false);
  app.add_option(
      "--budget", budget,
      "Memory for all channels, MiB; if it is not given: 32 for each one that is streamed, 1024 at "
      "most, and 32 for each view; 256 at least");
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
  std::vector<std::string> texts = channels;
  if (!list.empty()) {
    const auto read = io::read_lines(list, longest_config, [&](std::string_view line, bool) {
      if (!line.empty()) texts.emplace_back(line);
      return texts.size() <= most_listed;
    });
    if (!read) return failure(list + ": " + read.error().message());
  }
  for (const auto& text : texts) {
    if (auto good = add(settings.channels, wire::parse_channel(text)); !good) {
      return tl::unexpected(good.error());
    }
  }
  if (settings.channels.empty() && root.empty())
    return failure("no channel is given: --channel NAME=s3://...");
  const auto part = shard.empty() ? shard_of_array() : parse_shard(shard);
  const bool needed =
      !shard.empty() || std::ranges::any_of(settings.channels, &wire::Channel::sharded);
  if (!part && needed) return tl::unexpected(part.error());
  settings.shard = part.value_or(data::Shard{});
  for (const auto& text : starts) {
    const auto equals = std::min(text.find('='), text.size());
    const auto given = data::parse_position(text.substr(std::min(equals + 1, text.size())));
    if (!given) return failure("--start is NAME=EPOCH:BYTES");
    settings.start[text.substr(0, equals)] = *given;
  }
  settings.directory = directory.empty() ? root_folder() / "input/data" : fs::path(directory);
  settings.state = state;
  settings.cache = cache.empty() ? fs::path() : fs::absolute(cache).lexically_normal();
  settings.budget = budget == 0 ? default_budget(settings.channels) : std::size_t{budget} << 20;
  settings.splice = !copy;
  settings.s3.environment = environment;
  return settings;
}

std::filesystem::path PipeOptions::root_folder() const {
  if (!root.empty()) return fs::absolute(root).lexically_normal();
  return directory.empty() ? default_root : "";
}

Result<Container> PipeOptions::container(const data::PlaneSettings& settings) const {
  Container container;
  container.root = root_folder();
  container.data = settings.directory;
  container.channels = settings.channels;
  container.host = settings.shard;
  container.checkpoints = variable("SPOTTER_CHECKPOINTS");
  for (const auto* name : {"SPOTTER_JOB", "TRAINING_JOB_NAME"})
    if (!variable(name).empty()) container.job = variable(name);
  // A file, or the JSON itself, as trainers get it.
  std::string text = parameters;
  if (text.empty() && !container.root.empty()) text = variable("SPOTTER_PARAMETERS");
  const auto begin = text.find_first_not_of(" \t\n\r");
  if (!parameters.empty() || (begin != text.npos && text[begin] != '{')) {
    const auto read = io::read_file(text, longest_config);
    if (!read) return failure(text + ": " + read.error().message());
    text = *read;
  }
  if (!text.empty()) {
    if (auto taken = container.take_hyperparameters(text); !taken)
      return tl::unexpected(taken.error());
  }
  container.look_around();
  return container;
}

}  // namespace spotter::command
