#include "agent/tools/pipe/container.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <thread>

#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Variables = std::map<std::string, std::string>;

constexpr std::size_t longest_reason = 1024;  // SageMaker's limit

std::string host(std::size_t index) { return "algo-" + std::to_string(index + 1); }

Json hosts(const Container& container) {
  Json all = Json::array();
  for (std::size_t i = 0; i < container.host.count; ++i) all.push_back(host(i));
  return all;
}

std::string print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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
Json decoded(const Variables& hyperparameters) {
  Json object = Json::object();
  for (const auto& [name, value] : hyperparameters) {
    Json read = Json::parse(value, nullptr, false);
    object[name] = read.is_discarded() ? Json(value) : std::move(read);
  }
  return object;
}

Json arguments(const Variables& hyperparameters) {
  Json list = Json::array();
  for (const auto& [name, value] : hyperparameters) {
    list.push_back((name.size() == 1 ? "-" : "--") + name);
    list.push_back(value);
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

}  // namespace

Result<void> Container::take_hyperparameters(std::string_view json) {
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return failure("hyperparameters are a JSON object of names and values");
  for (const auto& [name, value] : object.items())
    hyperparameters[name] = value.is_string() ? value.get<std::string>() : print(value);
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

std::map<std::string, Json> documents(const Container& container) {
  return {{"hyperparameters.json", Json(container.hyperparameters)},
          {"resourceconfig.json",
           {{"current_host", host(container.host.index)},
            {"hosts", hosts(container)},
            {"network_interface_name", container.network}}},
          {"inputdataconfig.json", input_data_config(container)}};
}

Variables channel_variables(const Container& container) {
  Variables result;
  Json names = Json::array();
  for (const auto& channel : container.channels) {
    names.push_back(channel.name);
    add(result, "SM_CHANNEL_", channel.name, container.data / channel.name);
  }
  result["SM_CHANNELS"] = print(names);
  return result;
}

Variables variables(const Container& container) {
  const fs::path& root = container.root;
  const auto files = documents(container);
  const Json hyperparameters = decoded(container.hyperparameters);
  Json folders = Json::object();
  for (const auto& channel : container.channels)
    folders[channel.name] = (container.data / channel.name).string();
  Json all = {{"channel_input_dirs", folders},
              {"current_host", host(container.host.index)},
              {"hosts", hosts(container)},
              {"hyperparameters", hyperparameters},
              {"input_config_dir", (root / "input/config").string()},
              {"input_data_config", files.at("inputdataconfig.json")},
              {"input_dir", (root / "input").string()},
              {"is_master", container.host.index == 0},
              {"job_name", container.job},
              {"log_level", 20},
              {"master_hostname", host(0)},
              {"model_dir", (root / "model").string()},
              {"network_interface_name", container.network},
              {"num_cpus", container.processors},
              {"num_gpus", container.accelerators},
              {"output_data_dir", (root / "output/data").string()},
              {"output_dir", (root / "output").string()},
              {"output_intermediate_dir", (root / "output/intermediate").string()},
              {"resource_config", files.at("resourceconfig.json")}};
  Variables result = channel_variables(container);
  for (const auto& [name, value] : container.hyperparameters) add(result, "SM_HP_", name, value);
  for (const auto* name :
       {"current_host", "input_config_dir", "input_dir", "log_level", "model_dir",
        "network_interface_name", "num_cpus", "num_gpus", "output_data_dir", "output_dir",
        "output_intermediate_dir", "hosts", "input_data_config", "resource_config"})
    result["SM_" + upper(name)] =
        all[name].is_string() ? all[name].get<std::string>() : print(all[name]);
  result["SM_HPS"] = print(hyperparameters);
  result["SM_USER_ARGS"] = print(arguments(container.hyperparameters));
  result["SM_TRAINING_ENV"] = print(all);
  result["TRAINING_JOB_NAME"] = container.job;
  result["SAGEMAKER_BASE_DIR"] = root;
  return result;
}

Result<void> prepare(const Container& container) {
  if (auto made = io::make_directories(container.root, 0755); !made)
    return wrong(container.root, made.error());
  if (auto linked = link_checkpoints(container); !linked) return linked;
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

}  // namespace spotter::command
