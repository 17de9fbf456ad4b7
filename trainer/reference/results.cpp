#include "trainer/reference/results.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "trainer/library/files.hpp"

namespace spotter::train {

double accuracy(const Score& score) {
  return score.count == 0 ? 0
                          : static_cast<double>(score.correct) / static_cast<double>(score.count);
}

double mean_loss(const Score& score) {
  return score.count == 0 ? 0 : score.loss_sum / static_cast<double>(score.count);
}

std::string log_header() { return "epoch,loss,accuracy,val_loss,val_accuracy\n"; }

std::string log_row(std::uint64_t epoch, const Score& training, const Score& test) {
  char row[160];
  std::snprintf(row, sizeof row, "%llu,%.9g,%.9g,%.9g,%.9g\n",
                static_cast<unsigned long long>(epoch), mean_loss(training), accuracy(training),
                mean_loss(test), accuracy(test));
  return row;
}

Result<void> write_log(const std::filesystem::path& directory, const Position& position) {
  if (auto made = checkpoint::make_directories(directory); !made) return made;
  return checkpoint::replace_file(directory / "training.csv", position.log);
}

Result<void> write_result(const std::filesystem::path& directory, const Parameters& parameters,
                          const Position& position, const Network& network) {
  const auto script = network.script();
  if (!script) return tl::unexpected(script.error());
  const nlohmann::json metrics = {{"accuracy", accuracy(position.test)},
                                  {"loss", mean_loss(position.test)},
                                  {"test_examples", position.test.count},
                                  {"epochs", parameters.epochs},
                                  {"steps", position.step},
                                  {"parameters", to_json(parameters)}};
  if (auto written = write_log(directory, position); !written) return written;
  auto written = checkpoint::replace_file(directory / "metrics.json", metrics.dump(2) + "\n");
  if (!written) return written;
  written = checkpoint::replace_file(directory / "model.pt", *script);
  if (!written) return written;
  // Last: job.yaml names it as what must exist for the job to count as finished.
  return checkpoint::replace_file(directory / "model.safetensors", network.weights());
}

}  // namespace spotter::train
