// spotter-train: the reference trainer. README.md says what it promises to whoever starts it. Its
// command line and environment, validated whole, and one run of it: resume, train, checkpoint, stop
// on request, finish.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <thread>

#include "trainer/library/files.hpp"
#include "trainer/library/link.hpp"
#include "trainer/library/s3_mirror.hpp"
#include "trainer/library/session.hpp"
#include "trainer/reference/feed.hpp"
#include "trainer/reference/network.hpp"
#include "trainer/reference/tensorboard.hpp"

namespace spotter::train {
namespace {

using checkpoint::Descriptor;
using checkpoint::environment;
using checkpoint::stop_requested;
using Clock = std::chrono::steady_clock;
using Time = std::chrono::nanoseconds;

struct Options {
  Parameters parameters;
  std::filesystem::path data;        // `pipe:...` where it is read from channels
  std::optional<Channels> channels;  // these
  std::uint32_t examples = 0;        // in an epoch of a channel; 0: as many as the data set has
  Order order = Order::Shuffled;     // of examples in memory
  std::filesystem::path checkpoints;
  std::filesystem::path result;
  // Threads: a network as small as the mlp gains nothing from more, and on busy cores is 9 x
  // slower.
  Hardware hardware;
  std::uint64_t checkpoint_every = 0;  // steps; 0: the ends of epochs, and when the agent asks
  std::size_t keep = 2;                // checkpoints
  std::filesystem::path tensorboard;   // default: below the result
  std::filesystem::path steps_log;     // empty: none
  unsigned slow_down = 0;              // milliseconds a step
};

enum class Outcome {
  Finished,  // the result is durable
  Stopped,   // a stop signal came; a checkpoint of the very step is durable
};

// The position of a training run, and its form in a checkpoint's parts and meta.

struct Position {
  std::uint64_t step = 0;  // executed since the start of the run
  Score epoch;             // of the training examples so far in this epoch
  Score test;              // after the last whole epoch
  std::string log;         // training.csv, one row each whole epoch
  // The consumed part of a channel, for the meta; an empty object where none is read.
  nlohmann::json consumed = nlohmann::json::object();
};

// The identity of a run; a checkpoint of another run must not be continued.
struct Identity {
  nlohmann::json parameters;  // without the number of epochs: a run may be prolonged
  std::string data;           // Dataset::sum
  unsigned threads = 1;
};

struct Saved {
  Position position;
  Identity identity;
};

constexpr std::string_view kModel = "model.safetensors";
constexpr std::string_view kOptimizer = "optimizer.safetensors";
constexpr std::string_view kLog = "training.csv";

// nlohmann-json writes the shortest digits that read back as the same double: the sums stay exact.
nlohmann::json to_json(const Score& score) {
  return {{"loss_sum", score.loss_sum}, {"correct", score.correct}, {"count", score.count}};
}

Score to_score(const nlohmann::json& json) {
  return {json.at("loss_sum").get<double>(), json.at("correct").get<std::uint64_t>(),
          json.at("count").get<std::uint64_t>()};
}

Result<std::string> part_of(const checkpoint::Loaded& loaded, std::string_view name) {
  for (const auto& part : loaded.parts) {
    if (part.name == name) return std::string(part.bytes);
  }
  return failure(loaded.checkpoint.path.string() + " has no part " + std::string(name));
}

nlohmann::json identity_parameters(const Parameters& parameters) {
  auto json = to_json(parameters);
  json.erase("epochs");
  return json;
}

// Returns as soon as the state is copied (Session::save()).
Result<checkpoint::Saved> save_snapshot(checkpoint::Session& session, const Network& network,
                                        const Position& position, const Identity& identity) {
  const std::string model = network.weights();
  const std::string optimizer = network.optimizer_state();
  const std::array<checkpoint::Source, 3> sources = {
      checkpoint::Source{std::string(kModel), {model}},
      checkpoint::Source{std::string(kOptimizer), {optimizer}},
      checkpoint::Source{std::string(kLog), {position.log}}};
  nlohmann::json meta = {{"trainer", "spotter-train"},
                         {"parameters", identity.parameters},
                         {"data", identity.data},
                         {"threads", identity.threads},
                         {"epoch", to_json(position.epoch)},
                         {"test", to_json(position.test)}};
  meta.update(position.consumed);
  return session.save(position.step, sources, meta);
}

// Reads all but the network itself.
Result<Saved> read_snapshot(const checkpoint::Loaded& loaded) {
  const auto log = TRY(part_of(loaded, kLog));
  if (!part_of(loaded, kModel) || !part_of(loaded, kOptimizer)) {
    return failure(loaded.checkpoint.path.string() +
                   " is of an earlier version of spotter-train, which had another format.\n"
                   "  Finish the run with that version, or start over with another --checkpoints.");
  }
  try {
    const auto& meta = loaded.checkpoint.meta;
    return Saved{
        {loaded.checkpoint.step, to_score(meta.at("epoch")), to_score(meta.at("test")), log},
        {meta.at("parameters"), meta.at("data").get<std::string>(),
         meta.at("threads").get<unsigned>()}};
  } catch (const nlohmann::json::exception&) {
    return failure(loaded.checkpoint.path.string() + " was not written by this trainer");
  }
}

Result<void> restore_network(const checkpoint::Loaded& loaded, Network& network) {
  const auto model = TRY(part_of(loaded, kModel));
  const auto optimizer = TRY(part_of(loaded, kOptimizer));
  TRY(network.set_weights(model));
  return network.set_optimizer_state(optimizer);
}

constexpr std::chrono::milliseconds kInterval{100};

constexpr std::uint64_t kWidth = 30;

double accuracy(const Score& score) {
  return score.count == 0 ? 0
                          : static_cast<double>(score.correct) / static_cast<double>(score.count);
}

std::string text(const char* format, auto... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

// The output for a person: a progress bar on a terminal, plain lines in a journal.
class Console {
 public:
  Console() : terminal_(::isatty(STDOUT_FILENO) == 1) {}

  // A line of its own, in both forms.
  void line(const std::string& text) {
    std::printf("%s%s\n", bar_shown_ ? "\r\x1b[K" : "", text.c_str());
    std::fflush(stdout);
    bar_shown_ = false;
  }

  // The bar, at most 10 times a second; nothing where standard output is no terminal.
  void progress(const checkpoint::Progress& now, std::uint64_t steps_per_epoch) {
    const auto at = std::chrono::steady_clock::now();
    if (!terminal_ || (last_ && at - *last_ < kInterval)) return;
    last_ = at;
    const std::uint64_t in_epoch = (now.step - 1) % steps_per_epoch + 1;
    const std::uint64_t filled = in_epoch * kWidth / steps_per_epoch;
    const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
    std::printf("\r\x1b[Kepoch %llu/%llu [%s] step %llu/%llu  loss %.4f  accuracy %.4f",
                static_cast<unsigned long long>(now.epoch),
                static_cast<unsigned long long>(now.epochs_total), bar.c_str(),
                static_cast<unsigned long long>(now.step),
                static_cast<unsigned long long>(now.steps_total), now.loss, now.accuracy);
    std::fflush(stdout);
    bar_shown_ = true;
  }

 private:
  bool terminal_;
  bool bar_shown_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

// The files of the result directory. All are functions of the run alone: no times, no names of
// machines.

double mean_loss(const Score& score) {
  return score.count == 0 ? 0 : score.loss_sum / static_cast<double>(score.count);
}

// training.csv: the header alone, and a row with its newline.
std::string log_header() { return "epoch,loss,accuracy,val_loss,val_accuracy\n"; }

std::string log_row(std::uint64_t epoch, const Score& training, const Score& test) {
  char row[160];
  std::snprintf(row, sizeof row, "%llu,%.9g,%.9g,%.9g,%.9g\n",
                static_cast<unsigned long long>(epoch), mean_loss(training), accuracy(training),
                mean_loss(test), accuracy(test));
  return row;
}

// training.csv, replaced as a whole: no duplicate and no missing row, however often the run was
// interrupted.
Result<void> write_log(const fs::path& directory, const Position& position) {
  TRY(checkpoint::make_directories(directory));
  return checkpoint::replace_file(directory / "training.csv", position.log);
}

// model.safetensors, model.pt, metrics.json and training.csv, durable when it returns.
Result<void> write_result(const fs::path& directory, const Parameters& parameters,
                          const Position& position, const Network& network) {
  const auto script = TRY(network.script());
  const nlohmann::json metrics = {{"accuracy", accuracy(position.test)},
                                  {"loss", mean_loss(position.test)},
                                  {"test_examples", position.test.count},
                                  {"epochs", parameters.epochs},
                                  {"steps", position.step},
                                  {"parameters", to_json(parameters)}};
  TRY(write_log(directory, position));
  auto written = checkpoint::replace_file(directory / "metrics.json", metrics.dump(2) + "\n");
  if (!written) return written;
  written = checkpoint::replace_file(directory / "model.pt", script);
  if (!written) return written;
  // Last: job.yaml names it as what must exist for the job to count as finished.
  return checkpoint::replace_file(directory / "model.safetensors", network.weights());
}

constexpr std::uint64_t kStepsARecord = 20;  // of TensorBoard's curve of the single steps
constexpr const char* kEpochLoss = "epoch_loss";
constexpr std::chrono::milliseconds kReadEvery{50};  // a GPU's scores, and what asks us to stop
constexpr std::chrono::milliseconds kNap{20};  // after which a stop is noticed while slowed down

tl::unexpected<Error> unwritten(const Error& error) {
  return failure("the checkpoint could not be written: " + error.message +
                 "\n  Older checkpoints are untouched. Make room or mend the volume, start again.");
}

// Trains once. REQUIRES: catch_stop_signals(). An error leaves what was durable before.
class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  Result<Outcome> operator()() {
    TRY(prepare());
    const auto step = static_cast<unsigned long long>(position_.step);
    const auto total = static_cast<unsigned long long>(steps_total_);
    console_.line(resumed_
                      ? text("resuming at step %llu of %llu from %s", step, total,
                             resumed_->path.filename().c_str())
                      : text("starting from scratch: %llu steps, %u training and %u test images",
                             total, data_.training.count, data_.test.count));
    return loop();
  }

 private:
  Result<void> find_checkpoint() {
    checkpoint::SessionOptions places;
    places.directory = options_.checkpoints;
    places.retention.last = options_.keep;
    places.open_mirror = [](auto settings) {
      return checkpoint::open_s3_mirror(std::move(settings));
    };
    session_ = TRY(checkpoint::Session::open(places));
    auto restored = session_->restore();
    if (!restored) {
      return failure("the checkpoints cannot be read: " + restored.error().message +
                     "\n  Give this user access to " + options_.checkpoints.string() + ".");
    }
    for (const auto& torn : restored->torn) {
      const bool moved = !torn.moved_to.empty();
      console_.line("torn checkpoint " + torn.path.filename().string() + ": " + torn.reason +
                    (moved ? "; moved to " + torn.moved_to.filename().string() : ""));
    }
    loaded_ = std::move(restored->newest);
    if (!loaded_) return {};
    resumed_ = loaded_->checkpoint;
    saved_ = TRY(read_snapshot(*loaded_));
    return {};
  }

  Result<void> check_identity() const {
    const std::string advice = "\n  Go on with the same, or start over with another --checkpoints.";
    std::string different;
    for (const auto& [name, value] : identity_.parameters.items()) {
      const auto before = saved_.identity.parameters.value(name, nlohmann::json());
      if (before != value)
        different += " " + name + " was " + before.dump() + ", is " + value.dump() + ";";
    }
    if (!different.empty()) {
      return failure(resumed_->path.string() +
                     " belongs to a run with other parameters:" + different + advice);
    }
    if (identity_.data != saved_.identity.data) {
      return failure(resumed_->path.string() + " belongs to a run on other data than " +
                     options_.data.string() + "." + advice);
    }
    if (position_.step > steps_total_) {
      return failure(text("the newest checkpoint is of step %llu, but %u epochs have only %llu.",
                          static_cast<unsigned long long>(position_.step),
                          options_.parameters.epochs,
                          static_cast<unsigned long long>(steps_total_)) +
                     advice);
    }
    return {};
  }

  Result<void> prepare() {
    TRY(find_checkpoint());
    data_ = TRY(options_.channels ? read_piped(*options_.channels, options_.examples)
                                  : read_dataset(options_.data));
    if (!options_.channels && options_.order == Order::AsItLies) data_.sum += ", unshuffled";
    identity_ = {identity_parameters(options_.parameters), data_.sum, options_.hardware.threads};
    const std::uint64_t batch = options_.parameters.batch_size;
    steps_per_epoch_ = (data_.training.count + batch - 1) / batch;
    steps_total_ = steps_per_epoch_ * options_.parameters.epochs;
    position_.log = log_header();
    if (resumed_) {
      position_ = saved_.position;
      TRY(check_identity());
      if (identity_.threads != saved_.identity.threads) {
        identity_.threads = saved_.identity.threads;
        console_.line(text("keeping the run's %u threads: another number would change the bits",
                           identity_.threads));
      }
    }
    Hardware hardware = options_.hardware;
    hardware.threads = identity_.threads;
    network_ = std::make_unique<Network>(options_.parameters, data_.shape, hardware);
    if (resumed_) {
      TRY(restore_network(*loaded_, *network_));
      loaded_.reset();
    }
    TRY(open_feed());
    board_ = TRY(
        TensorBoard::open(options_.tensorboard, position_.step, row_is_due() ? kEpochLoss : ""));
    if (!options_.steps_log.empty()) {
      steps_log_ = Descriptor(
          ::open(options_.steps_log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      if (!steps_log_) return checkpoint::system_failure("cannot open", options_.steps_log);
    }
    return {};
  }

  Result<Outcome> loop() {
    if (row_is_due()) TRY(end_epoch());
    trained_ = position_.step;
    while (trained_ < steps_total_) {
      const auto leaving = TRY(look_around());
      if (leaving) return stop();
      bool fed = true;
      begun_ = Clock::now();
      do {
        fed = TRY(step());
      } while (fed && !is_time_to_read());
      TRY(read_scores());
      if (fed) slow_down();
      if (!fed || (at_epoch_end() && !time_to_evaluate())) {
        TRY(save());
        return stop();
      }
      if (at_epoch_end()) {
        TRY(end_epoch());
      } else if (is_due()) {
        TRY(save());
      }
    }
    return finish();
  }

  Result<void> open_feed() {
    if (!options_.channels) {
      feed_ = feed_from_memory(data_.training, options_.order, options_.parameters.seed);
      return {};
    }
    const auto meta = resumed_ ? resumed_->meta : nlohmann::json::object();
    feed_ = TRY(feed_from_channel(options_.channels->training, data_, meta));
    return {};
  }

  // False: asked to stop while the data did not come.
  Result<bool> step() {
    const std::uint32_t size = options_.parameters.batch_size;
    const auto first = static_cast<std::uint32_t>(trained_ % steps_per_epoch_ * size);
    const auto batch = TRY(feed_->batch(trained_ / steps_per_epoch_, first,
                                        std::min(size, data_.training.count - first)));
    if (!batch) return false;
    network_->train(*batch->examples, batch->indices, trained_);
    ++trained_;
    return true;
  }

  // A CPU's at once; a GPU idles for it.
  bool is_time_to_read() const {
    return !network_->is_behind() || trained_ % steps_per_epoch_ == 0 || is_due() ||
           options_.slow_down != 0 || Clock::now() - begun_ >= kReadEvery;
  }

  Result<void> read_scores() {
    const auto scores = network_->scores();
    if (!scores.empty()) step_took_ = (Clock::now() - begun_) / scores.size();
    for (const Score& score : scores) TRY(count(score));
    return {};
  }

  Result<void> count(const Score& score) {
    const std::uint64_t epoch = epoch_index() + 1;
    if (!std::isfinite(score.loss_sum)) {
      return failure(text("the loss of step %llu is not finite; try a smaller --learning-rate",
                          static_cast<unsigned long long>(position_.step + 1)));
    }
    ++position_.step;
    position_.epoch.loss_sum += score.loss_sum;
    position_.epoch.correct += score.correct;
    position_.epoch.count += score.count;
    TRY(log_step());
    if (position_.step % kStepsARecord == 0) {
      const auto count = static_cast<double>(score.count);
      board_->add(position_.step, {{"batch_loss", score.loss_sum / count}});
    }
    const checkpoint::Progress progress{position_.step,
                                        steps_total_,
                                        epoch,
                                        options_.parameters.epochs,
                                        mean_loss(position_.epoch),
                                        accuracy(position_.epoch)};
    session_->progress(progress);
    console_.progress(progress, steps_per_epoch_);
    return {};
  }

  // The epoch's row is part of its last step: a run that resumes there has it from the checkpoint.
  Result<void> end_epoch() {
    const auto begun = Clock::now();
    position_.test = network_->evaluate(data_.test);
    evaluation_took_ = Clock::now() - begun;
    position_.log += log_row(epoch_index(), position_.epoch, position_.test);
    board_->add(position_.step, {{kEpochLoss, mean_loss(position_.epoch)},
                                 {"epoch_accuracy", accuracy(position_.epoch)},
                                 {"validation_loss", mean_loss(position_.test)},
                                 {"validation_accuracy", accuracy(position_.test)}});
    session_->progress({.step = position_.step,
                        .steps_total = steps_total_,
                        .epoch = epoch_index(),
                        .epochs_total = options_.parameters.epochs,
                        .loss = mean_loss(position_.epoch),
                        .accuracy = accuracy(position_.epoch),
                        .metrics = {{"val_loss", mean_loss(position_.test)},
                                    {"val_accuracy", accuracy(position_.test)}}});
    const std::string row =
        text("epoch %llu/%u: loss %.4f, accuracy %.4f; on the test images loss %.4f, accuracy %.4f",
             static_cast<unsigned long long>(epoch_index()), options_.parameters.epochs,
             mean_loss(position_.epoch), accuracy(position_.epoch), mean_loss(position_.test),
             accuracy(position_.test));
    position_.epoch = {};
    TRY(save());
    TRY(write_log(options_.result, position_));
    console_.line(row);
    return {};
  }

  // After a notice an evaluation must leave enough time for the last checkpoint.
  bool time_to_evaluate() {
    const auto batches =
        static_cast<Time::rep>(data_.test.count / options_.parameters.batch_size + 1);
    const bool measured = evaluation_took_ > Time::zero();
    return session_->has_time(measured ? evaluation_took_ : step_took_ * batches);
  }

  Result<void> save() {
    session_->begin_save();
    // First, so that every row from before the checkpoint is durable with it.
    TRY(board_->flush());
    position_.consumed = feed_->consumed();
    auto saved = save_snapshot(*session_, *network_, position_, identity_);
    return saved ? Result<void>() : unwritten(saved.error());
  }

  // Does what the clock, the agent or a signal asks for between two steps. True: stop now.
  Result<bool> look_around() {
    if (session_->should_checkpoint()) TRY(save());
    return session_->should_stop();
  }

  Result<Outcome> stop() {
    if (auto durable = session_->leave(); !durable) return unwritten(durable.error());
    const auto signal = stop_requested();
    console_.line(text("stopped by %s%s at step %llu; ", signal ? "SIG" : "a notice",
                       signal ? ::sigabbrev_np(*signal) : "",
                       static_cast<unsigned long long>(position_.step)) +
                  "the checkpoint is durable");
    return Outcome::Stopped;
  }

  // Also for a finished run that is started again: it writes the same result again.
  Result<Outcome> finish() {
    auto written = write_result(options_.result, options_.parameters, position_, *network_);
    if (!written) {
      return failure(
          "the result could not be written: " + written.error().message +
          "\n  The last checkpoint is durable: make room or mend the volume, start again.");
    }
    // With the result durable, a last checkpoint that could not be written is no failure.
    if (auto flushed = session_->finished(); !flushed) console_.line(flushed.error().message);
    console_.line(text("finished: %llu steps, accuracy %.4f on the test images; result in ",
                       static_cast<unsigned long long>(position_.step), accuracy(position_.test)) +
                  options_.result.string());
    return Outcome::Finished;
  }

  // One write a step: the line is there as soon as the step is done, even if SIGKILL follows.
  Result<void> log_step() {
    if (!steps_log_) return {};
    const std::string line = std::to_string(position_.step) + "\n";
    if (::write(steps_log_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return checkpoint::system_failure("cannot write", options_.steps_log);
    return {};
  }

  void slow_down() const {
    // Only a request that comes now ends the wait: what is trained after it keeps the pace.
    const auto before = stop_requested();
    auto left = std::chrono::milliseconds(options_.slow_down);
    while (left.count() > 0 && stop_requested() == before) {
      const auto nap = std::min(left, kNap);
      std::this_thread::sleep_for(nap);
      left -= nap;
    }
  }

  bool is_due() const {
    const auto every = options_.checkpoint_every;
    return every != 0 && trained_ % every == 0;
  }
  std::uint64_t epoch_index() const { return position_.step / steps_per_epoch_; }
  bool at_epoch_end() const { return position_.step % steps_per_epoch_ == 0; }
  // Stopped at the end of an epoch, without the time to evaluate: its row is still to be made.
  bool row_is_due() const { return at_epoch_end() && position_.epoch.count != 0; }

  const Options& options_;
  std::unique_ptr<checkpoint::Session> session_;
  Console console_;
  std::optional<checkpoint::Checkpoint> resumed_;
  std::optional<checkpoint::Loaded> loaded_;  // until the network has it
  Saved saved_;
  Position position_;
  Identity identity_;
  Dataset data_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<TensorBoard> board_;
  Descriptor steps_log_;
  std::uint64_t steps_per_epoch_ = 0;
  std::uint64_t steps_total_ = 0;
  std::uint64_t trained_ = 0;  // steps: those after position_.step a GPU may be at still
  Clock::time_point begun_;    // the steps whose scores are not read
  Time step_took_{};
  Time evaluation_took_{};  // zero: there was none yet
};

// The command line.

constexpr int kUsage = 2;

Result<std::string> parameters_text(const std::string& given) {
  const auto start = given.find_first_not_of(" \t\n");
  if (start != std::string::npos && given[start] == '{') return given;
  return checkpoint::read_whole(given);
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
  options.hardware.device = TRY(behind("--device", find_device(options.hardware.device)));
  return {};
}

// Each step needs the memory of the one before: what the kernel gets back in between it clears, a
// third of a step's time on a CPU.
void keep_memory() {
  constexpr int largest = 32 << 20;  // that glibc takes
  ::mallopt(M_MMAP_THRESHOLD, largest);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int run(int count, char** arguments) {
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
    return app.exit(error) == 0 ? 0 : kUsage;  // it prints; 0: --help
  }
  const auto failed = [](const std::string& why, int status) {
    std::cerr << "spotter-train: " << why << "\n";
    return status;
  };
  if (auto completed = complete(options, parameters, given); !completed)
    return failed(completed.error().message, kUsage);
  const auto outcome = Run(options)();  // an error's message says what to do
  if (!outcome) return failed(outcome.error().message, 1);
  return *outcome == Outcome::Finished ? 0 : checkpoint::kStoppedStatus;
}

}  // namespace
}  // namespace spotter::train

int main(int count, char** arguments) {
  // First of all: from here on a stop signal means "checkpoint", not "die".
  spotter::checkpoint::catch_stop_signals();
  spotter::train::keep_memory();
  try {
    return spotter::train::run(count, arguments);
  } catch (const std::exception& error) {  // libtorch's and the allocator's
    std::cerr << "spotter-train: " << error.what() << "\n";
    return 1;
  }
}
