#include "trainer/reference/options.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "trainer/library/files.hpp"

namespace spotter::train {

namespace fs = std::filesystem;
using checkpoint::environment;

namespace {

constexpr int kUsage = 2;

Result<std::string> parameters_text(const std::string& given) {
  const auto start = given.find_first_not_of(" \t\n");
  if (start != std::string::npos && given[start] == '{') return given;
  std::string text;
  TRY(checkpoint::read_pieces(given, [&](std::string_view piece) { text.append(piece); }));
  return text;
}

// The values given on the command line, by the parameter's name.
using Given = std::map<std::string, std::string>;

void add_parameters(CLI::App& app, Given& given) {
  const auto add = [&](const char* flags, const char* name, const char* text) {
    app.add_option(flags, given[name], text)->group("Hyper-parameters");
  };
  add("--model", "model", "mlp|resnet50|resnet18|resnet8 (mlp)");
  add("--batch-size,--batch_size", "batch_size", "examples a step (128; resnet: 512)");
  add("--epochs", "epochs", "passes over the training set (20; resnet: 50)");
  add("--hidden,--hidden-nodes,--hidden_nodes", "hidden_nodes",
      "mlp: nodes of the layers after the first one of 512 (10,20,30)");
  add("--dropout,--dropout-rate,--dropout_rate", "dropout_rate", "mlp: 0 .. 0.999 (0.2)");
  add("--activation,--activate-fn,--activate_fn", "activate_fn",
      "mlp: relu|tanh|sigmoid|elu (relu)");
  add("--optimizer", "optimizer", "rmsprop|adam|sgd (rmsprop; resnet: adam)");
  add("--learning-rate,--learning_rate", "learning_rate", "(0.001)");
  add("--seed", "seed", "of weights, order and dropout (1)");
  app.add_flag_callback(
         "--amp", [&given] { given["amp"] = "true"; },
         "mixed precision: train in bfloat16 where it is exact enough")
      ->group("Hyper-parameters");
}

void add_places(CLI::App& app, Options& options, std::string& parameters) {
  app.add_option("--data", options.data,
                 "directory of the files of MNIST or CIFAR-10, or pipe:TRAIN[,TEST]: channels of\n"
                 "the records that scripts/pack-records makes (TEST: test)")
      ->required();
  app.add_option("--examples", options.examples,
                 "in an epoch of the channel (as many as MNIST or CIFAR-10 has)")
      ->check(CLI::Range(1U, 1U << 31));
  app.add_flag_callback(
      "--unshuffled", [&options] { options.order = Order::AsItLies; },
      "examples in the order in which they lie; those of channels always come as they are");
  app.add_option("--checkpoints", options.checkpoints, "directory ($SPOTTER_CHECKPOINTS)");
  app.add_option("--result", options.result, "directory ($SPOTTER_STORAGE/result)");
  app.add_option("--parameters", parameters,
                 "JSON file, or JSON itself, of hyper-parameters ($SPOTTER_PARAMETERS)");
  app.add_option("--threads", options.hardware.threads,
                 "of a new run; a resumed one keeps its own (1)")
      ->check(CLI::Range(1U, 1024U));
  app.add_option("--device", options.hardware.device, "cpu, or cuda:N (the first GPU, or cpu)");
  app.add_flag_callback(
      "--any-bits", [&options] { options.hardware.deterministic = false; },
      "a GPU's quickest ways, which do not give the same bits twice");
  app.add_option("--tensorboard", options.tensorboard, "directory (tensorboard/ in the result's)");
  app.add_option("--checkpoint-every", options.checkpoint_every,
                 "steps, beside the end of each epoch (0: none)");
  app.add_option("--keep", options.keep, "checkpoints kept (2)")->check(CLI::Range(1, 1000));
  app.add_option("--steps-log", options.steps_log, "append each executed step's number");
  app.add_option("--slow-down", options.slow_down, "milliseconds to wait in each step (0)")
      ->check(CLI::Range(0U, 60'000U));
}

// The defaults of the other parameters depend on the model.
Result<Parameters> begin_with(const Given& given, const std::string& json) {
  std::string name = given.at("model");
  if (name.empty()) {
    const auto object = nlohmann::json::parse(json, nullptr, false);
    if (object.is_object() && object.contains("model") && object["model"].is_string())
      name = object["model"].get<std::string>();
  }
  const Result<Architecture> architecture =
      name.empty() ? Architecture::Mlp : read_architecture(name);
  if (!architecture) return failure("model: " + architecture.error().message);
  return defaults(*architecture);
}

Result<void> read_channels(Options& options) {
  const std::string text = options.data.string();
  constexpr std::string_view prefix = "pipe:";
  if (!text.starts_with(prefix)) return {};
  const auto comma = std::min(text.find(','), text.size());
  const std::string training = text.substr(prefix.size(), comma - prefix.size());
  const std::string test = comma == text.size() ? "test" : text.substr(comma + 1);
  if (training.empty() || test.empty() || training == test)
    return failure("--data pipe:TRAIN,TEST names two channels");
  options.channels = Channels{training, test};
  return {};
}

Result<void> complete(Options& options, const std::string& parameters, const Given& given) {
  TRY(read_channels(options));
  if (options.checkpoints.empty()) options.checkpoints = environment("SPOTTER_CHECKPOINTS");
  if (options.checkpoints.empty())
    return failure("where do checkpoints go? Give --checkpoints or set SPOTTER_CHECKPOINTS");
  const fs::path storage = environment("SPOTTER_STORAGE");
  if (options.result.empty() && !storage.empty()) options.result = storage / "result";
  if (options.result.empty())
    return failure("where does the result go? Give --result or set SPOTTER_STORAGE");
  if (options.tensorboard.empty()) options.tensorboard = options.result / "tensorboard";
  const std::string source = parameters.empty() ? environment("SPOTTER_PARAMETERS") : parameters;
  Result<std::string> text;
  if (!source.empty()) text = parameters_text(source);
  if (!text) return tl::unexpected(text.error());
  options.parameters = TRY(begin_with(given, *text));
  if (!source.empty()) TRY(merge(options.parameters, *text));
  for (const auto& [name, value] : given) {
    if (value.empty()) continue;
    TRY(set(options.parameters, name, value));
  }
  auto device = TRY(behind("--device", find_device(options.hardware.device)));
  options.hardware.device = std::move(device);
  return {};
}

}  // namespace

std::variant<Options, Exit> read_options(int count, char** arguments) {
  CLI::App app(
      "Trains a network on MNIST or CIFAR-10, so that it can be interrupted at any step.\n"
      "Exit status: 0 finished, the result is durable; 75 stopped on request behind a durable\n"
      "checkpoint, start again to go on; 1 failed; 2 bad usage.",
      "spotter-train");
  // The last one counts, so that a script can put defaults before its own arguments.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Options options;
  std::string parameters;
  Given given;
  add_places(app, options, parameters);
  add_parameters(app, given);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return Exit{app.exit(error) == 0 ? 0 : kUsage};
  }
  if (auto completed = complete(options, parameters, given); !completed) {
    std::cerr << "spotter-train: " << completed.error().message << "\n";
    return Exit{kUsage};
  }
  return options;
}

}  // namespace spotter::train
