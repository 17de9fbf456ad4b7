#include "agent/commands/machine/pipe_options.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/array_index.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;
using Variables = std::map<std::string, std::string>;

constexpr std::size_t longest_reason = 1024;  // SageMaker's limit

std::string host(std::size_t index) { return "algo-" + std::to_string(index + 1); }

Json hosts(const Container& container) {
  Json all = Json::array();
  for (std::size_t i = 0; i < container.host.count; ++i) all.push_back(host(i));
  return all;
}

std::string print(const Json& json) { return wire::to_python(json, true); }

std::string upper(std::string text) {
  for (char& each : text)
    if (each >= 'a' && each <= 'z') each = static_cast<char>(each - 'a' + 'A');
  return text;
}

void add(Variables& variables, const std::string& prefix, const std::string& name,
         const std::string& value) {
  std::string variable = prefix + upper(name);
  if (variable.find_first_of(std::string_view("=\0", 2)) != variable.npos) return;
  variables[variable] = value;
  for (char& each : variable)
    if (std::isalnum(static_cast<unsigned char>(each)) == 0) each = '_';
  variables.emplace(variable, value);
}

// Decodes values like the toolkit: "3" becomes a number, "relu" a text.
Ordered decoded(const Variables& hyperparameters) {
  Ordered object = Ordered::object();
  for (const auto& [name, value] : hyperparameters) {
    object[name] = wire::parsed_ordered_json(wire::from_python(value));
    if (object[name].is_discarded()) object[name] = value;
  }
  return object;
}

// Removes SageMaker's own, which it has for itself: sagemaker_program, sagemaker_region...
Json taken_out(Ordered& hyperparameters) {
  Json own = Json::object();
  for (auto at = hyperparameters.begin(); at != hyperparameters.end();) {
    const bool is_own = at.key().starts_with("sagemaker_") ||
                        at.key() == "_tuning_objective_metric" ||
                        at.key() == "default_user_module_name";
    if (is_own) own[at.key()] = Json(at.value());
    at = is_own ? hyperparameters.erase(at) : std::next(at);
  }
  return own;
}

// As the toolkit sets variables: a text as it is, all else as JSON.
std::string value_of(const Json& json) {
  return json.is_null() ? "" : wire::plain_text(json, true);
}

// A text's repr().
std::string repr(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char each : text) {
    const bool named = each == '\n' || each == '\t' || each == '\r';
    const bool control = (each >= 0 && each < ' ') || each == 0x7F;
    if (each == quote || each == '\\' || control) out += '\\';
    if (control && !named) out += 'x' + hexadecimal({&each, 1});
    if (named) out += each == '\n' ? 'n' : each == '\t' ? 't' : 'r';
    if (!control) out += each;
  }
  return out + quote;
}

// Python's str() of a value; within a list or a dictionary its repr().
std::string in_python(const Ordered& json, bool inside = false) {
  if (json.is_null()) return "None";
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_string()) {
    const auto text = json.get<std::string>();
    auto number = wire::marked_number(text);
    if (!number) return inside ? repr(text) : text;
    if (number->ends_with("inity")) number->resize(number->size() - 5);
    return lower_case(*number);  // nan, inf
  }
  if (!json.is_structured()) return json.dump();
  std::string items;
  for (const auto& [name, value] : json.items()) {
    if (!items.empty()) items += ", ";
    if (json.is_object()) items += in_python(name, true) + ": ";
    items += in_python(value, true);
  }
  return json.is_object() ? "{" + items + "}" : "[" + items + "]";
}

// An object becomes "a=1,b=2", in the order of its names; one inside keeps its own.
Json arguments(const Ordered& hyperparameters) {
  Json list = Json::array();
  for (const auto& [name, value] : hyperparameters.items()) {
    list.push_back((name.empty() ? "" : name.size() == 1 ? "-" : "--") + name);
    std::string pairs;
    const Json sorted = value;
    if (value.is_object())
      for (const auto& [key, _] : sorted.items())
        pairs += (pairs.empty() ? "" : ",") + key + "=" + in_python(value[key]);
    list.push_back(value.is_object() ? pairs : value.is_null() ? "" : in_python(value));
  }
  return list;
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(folder, error))
    names.push_back(each.path().filename());
  std::ranges::sort(names);
  return names;
}

const char* mode(wire::InputMode mode) {
  return mode == wire::InputMode::Pipe   ? "Pipe"
         : mode == wire::InputMode::File ? "File"
                                         : "FastFile";
}

Json input_data_config(const Container& container) {
  Json config = Json::object();
  for (const auto& channel : container.channels) {
    Json& one = config[channel.name];
    one = {{"TrainingInputMode", mode(channel.mode)},
           {"S3DistributionType", channel.sharded ? "ShardedByS3Key" : "FullyReplicated"},
           {"RecordWrapperType", channel.recordio ? "RecordIO" : "None"}};
    if (!channel.content_type.empty()) one["ContentType"] = channel.content_type;
  }
  return config;
}

tl::unexpected<Error> wrong(const fs::path& path, const std::error_code& error) {
  return failure(path.string() + ": " + error.message());
}

// Replaces a link made for another mount point. Keeps a folder.
Result<void> link_checkpoints(const Container& container) {
  const fs::path link = container.root / "checkpoints";
  std::error_code error;
  const auto status = fs::symlink_status(link, error);
  if (container.checkpoints.empty() || (fs::exists(status) && !fs::is_symlink(status))) return {};
  const fs::path target = fs::absolute(container.checkpoints).lexically_normal();
  if (target == link.lexically_normal()) return {};
  if (auto made = io::make_directories(target, 0755); !made) return wrong(target, made.error());
  if (fs::read_symlink(link, error) == target) return {};
  fs::remove(link, error);
  fs::create_directory_symlink(target, link, error);
  if (error) return wrong(link, error);
  return {};
}

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
  if (!given || given->second == 0 || given->first >= given->second)
    return failure("--shard is INDEX/COUNT, counted from 0");
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
  return wire::add_channel(all, TRY(std::move(channel)));
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

Json without(Json object, std::initializer_list<const char*> names) {
  for (const auto* name : names) object.erase(name);
  return object;
}

constexpr std::string_view of_one_group = R"({
  "current_instance_group": "homogeneousCluster", "current_instance_group_hosts": [],
  "current_instance_type": "local", "distribution_instance_groups": [], "instance_groups": [],
  "instance_groups_dict": {}, "is_hetero": false, "is_smddpmprun_installed": false,
  "is_smddprun_installed": false, "num_neurons": 0, "topology": []})";

// Below root/input/config, by name.
std::map<std::string, Json> documents(const Container& container) {
  return {{"hyperparameters.json", Json(container.hyperparameters)},
          {"resourceconfig.json",
           {{"current_host", host(container.host.index)},
            {"current_instance_type", "local"},
            {"current_group_name", "homogeneousCluster"},
            {"hosts", hosts(container)},
            {"network_interface_name", container.network}}},
          {"inputdataconfig.json", input_data_config(container)}};
}

// Makes SM_TRAINING_ENV.
Json training_env(const Container& container, const Json& hyperparameters, const Json& own) {
  const fs::path& root = container.root;
  const auto files = documents(container);
  const Json program = own.value("sagemaker_program", Json());
  std::string module = in_python(program);
  if (module.ends_with(".py")) module.resize(module.size() - 3);
  const std::string framework = variable("SAGEMAKER_TRAINING_MODULE");
  const Json for_framework =
      without(own, {"sagemaker_program", "sagemaker_submit_directory",
                    "sagemaker_enable_cloudwatch_metrics", "sagemaker_region",
                    "sagemaker_container_log_level", "sagemaker_job_name", "sagemaker_s3_output",
                    "default_user_module_name", "_tuning_objective_metric"});
  Json folders = Json::object();
  for (const auto& channel : container.channels)
    folders[channel.name] = (container.data / channel.name).string();
  Json all = {
      {"additional_framework_parameters", for_framework},
      {"channel_input_dirs", folders},
      {"current_host", host(container.host.index)},
      {"distribution_hosts", hosts(container)},
      {"framework_module", framework.empty() ? Json() : Json(framework)},
      {"hosts", hosts(container)},
      {"hyperparameters", hyperparameters},
      {"input_config_dir", (root / "input/config").string()},
      {"input_data_config", files.at("inputdataconfig.json")},
      {"input_dir", (root / "input").string()},
      {"is_master", container.host.index == 0},
      {"job_name", container.job},
      {"log_level", own.value("sagemaker_container_log_level", Json(20))},
      {"master_hostname", host(0)},
      {"model_dir", (root / "model").string()},
      {"module_dir", own.value("sagemaker_submit_directory", Json((root / "code").string()))},
      {"module_name", module},
      {"network_interface_name", container.network},
      {"num_cpus", container.processors},
      {"num_gpus", container.accelerators},
      {"output_data_dir", (root / "output/data").string()},
      {"output_dir", (root / "output").string()},
      {"output_intermediate_dir", (root / "output/intermediate").string()},
      {"resource_config", files.at("resourceconfig.json")},
      {"user_entry_point", program}};
  all.update(Json::parse(of_one_group));
  return all;
}

}  // namespace

Result<void> Container::take_hyperparameters(std::string_view json) {
  const Json object = wire::parsed_json(wire::from_python(json));
  if (!object.is_object()) return failure("hyperparameters are a JSON object of names and values");
  for (const auto& [name, value] : object.items())
    hyperparameters[name] = wire::plain_text(value, true);
  return {};
}

void Container::look_around() {
  processors = std::max(1U, std::thread::hardware_concurrency());
  accelerators =
      static_cast<std::size_t>(std::ranges::count_if(names_in("/dev"), [](const std::string& name) {
        return name.starts_with("nvidia") && name.size() > 6 &&
               name.find_first_not_of("0123456789", 6) == name.npos;
      }));
  for (const auto& name : names_in("/sys/class/net")) {
    if (name == "lo") continue;
    network = name;
    break;
  }
}

Variables channel_variables(const Container& container) {
  Variables result;
  std::vector<std::string> names;
  for (const auto& channel : container.channels) {
    names.push_back(channel.name);
    add(result, "SM_CHANNEL_", channel.name, container.data / channel.name);
  }
  std::ranges::sort(names);
  result["SM_CHANNELS"] = print(Json(names));
  return result;
}

Variables variables(const Container& container) {
  Ordered hyperparameters = decoded(container.hyperparameters);
  const Json own = taken_out(hyperparameters);
  const Json all = training_env(container, hyperparameters, own);
  Variables result = channel_variables(container);
  for (const auto& [name, value] : hyperparameters.items())
    add(result, "SM_HP_", name, value_of(value));
  const Json alone =
      without(all, {"additional_framework_parameters", "channel_input_dirs", "distribution_hosts",
                    "hyperparameters", "is_master", "is_smddpmprun_installed",
                    "is_smddprun_installed", "job_name", "master_hostname", "topology"});
  for (const auto& [name, value] : alone.items()) result["SM_" + upper(name)] = value_of(value);
  result["SM_HPS"] = print(hyperparameters);
  result["SM_USER_ARGS"] = print(arguments(hyperparameters));
  result["SM_CHECKPOINT_DIR"] = container.root / "checkpoints";
  result["SM_FRAMEWORK_PARAMS"] = print(all["additional_framework_parameters"]);
  result["SM_TRAINING_ENV"] = print(all);
  result["TRAINING_JOB_NAME"] = container.job;
  result["SAGEMAKER_BASE_DIR"] = container.root;
  return result;
}

Result<void> prepare(const Container& container) {
  if (auto made = io::make_directories(container.root, 0755); !made)
    return wrong(container.root, made.error());
  TRY(link_checkpoints(container));
  for (const auto* name :
       {"input/config", "model", "checkpoints", "output/data", "output/intermediate", "code"}) {
    if (auto made = io::make_directories(container.root / name, 0755); !made)
      return wrong(container.root / name, made.error());
  }
  // A reason of an earlier run.
  std::error_code error;
  fs::remove(container.root / "output/failure", error);
  if (error) return wrong(container.root / "output/failure", error);
  for (const auto& [name, json] : documents(container)) {
    const fs::path path = container.root / "input/config" / name;
    if (auto written = io::atomic_write(path, print(json) + "\n", 0644); !written)
      return wrong(path, written.error());
  }
  return {};
}

std::string reason_of_failure(const Container& container) {
  const fs::path path = container.root / "output/failure";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string reason(longest_reason, '\0');
  file.read(reason.data(), static_cast<std::streamsize>(reason.size()));
  reason.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return reason;
}

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
    const auto text = TRY(behind(config, io::read_file(config, longest_config)));
    const auto read = TRY(behind(config, wire::parse_input_data_config(text)));
    for (const auto& channel : read) TRY(add(settings.channels, channel));
  }
  std::vector<std::string> texts = channels;
  if (!list.empty()) {
    TRY(behind(list, io::read_lines(list, longest_config, [&](std::string_view line, bool) {
                 if (!line.empty()) texts.emplace_back(line);
                 return texts.size() <= most_listed;
               })));
  }
  for (const auto& text : texts) TRY(add(settings.channels, wire::parse_channel(text)));
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

fs::path PipeOptions::root_folder() const {
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
    const auto read = TRY(behind(text, io::read_file(text, longest_config)));
    text = read;
  }
  if (!text.empty()) TRY(container.take_hyperparameters(text));
  container.look_around();
  return container;
}

}  // namespace spotter::command
