#include "trainer/snapshot.hpp"

#include <array>

namespace spotter::train {

namespace {

constexpr std::string_view kModel = "model.bin";
constexpr std::string_view kOptimizer = "optimizer.pt";
constexpr std::string_view kLog = "training.csv";

// nlohmann-json writes the shortest digits that read back as the same double: the sums stay exact.
nlohmann::json to_json(const Score& score) {
  return {{"loss_sum", score.loss_sum}, {"correct", score.correct}, {"count", score.count}};
}

Score to_score(const nlohmann::json& json) {
  return {json.at("loss_sum").get<double>(), json.at("correct").get<std::uint64_t>(),
          json.at("count").get<std::uint64_t>()};
}

}  // namespace

nlohmann::json identity_parameters(const Parameters& parameters) {
  auto json = to_json(parameters);
  json.erase("epochs");
  return json;
}

Result<std::filesystem::path> save_snapshot(const std::filesystem::path& directory,
                                            std::size_t keep, const Network& network,
                                            const Position& position, const Identity& identity) {
  const std::string model = network.weights();
  const std::string optimizer = network.optimizer_state();
  const std::array<checkpoint::Part, 3> parts = {
      checkpoint::Part{std::string(kModel), model},
      checkpoint::Part{std::string(kOptimizer), optimizer},
      checkpoint::Part{std::string(kLog), position.log}};
  const nlohmann::json meta = {{"trainer", "spotter-train"},    {"parameters", identity.parameters},
                               {"data", identity.data},         {"threads", identity.threads},
                               {"devices", identity.devices},   {"epoch", to_json(position.epoch)},
                               {"test", to_json(position.test)}};
  return checkpoint::save(directory, position.step, parts, meta, {.last = keep});
}

Result<Saved> read_snapshot(const checkpoint::Checkpoint& checkpoint) {
  auto log = checkpoint::read_part(checkpoint, kLog);
  if (!log) return tl::unexpected(log.error());
  try {
    const auto& meta = checkpoint.meta;
    return Saved{{checkpoint.step, to_score(meta.at("epoch")), to_score(meta.at("test")), *log},
                 {meta.at("parameters"), meta.at("data").get<std::string>(),
                  meta.at("threads").get<unsigned>(), meta.at("devices").get<std::size_t>()}};
  } catch (const nlohmann::json::exception&) {
    return failure(checkpoint.path.string() + " was not written by this trainer");
  }
}

Result<void> restore_network(const checkpoint::Checkpoint& checkpoint, Network& network) {
  const auto model = checkpoint::read_part(checkpoint, kModel);
  if (!model) return tl::unexpected(model.error());
  const auto optimizer = checkpoint::read_part(checkpoint, kOptimizer);
  if (!optimizer) return tl::unexpected(optimizer.error());
  if (auto set = network.set_weights(*model); !set) return set;
  return network.set_optimizer_state(*optimizer);
}

}  // namespace spotter::train
