#include "trainer/reference/snapshot.hpp"

#include <array>

namespace spotter::train {

namespace {

constexpr std::string_view kModel = "model.safetensors";
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

Result<std::string> part_of(const checkpoint::Loaded& loaded, std::string_view name) {
  for (const auto& part : loaded.parts) {
    if (part.name == name) return std::string(part.bytes);
  }
  return failure(loaded.checkpoint.path.string() + " has no part " + std::string(name));
}

}  // namespace

nlohmann::json identity_parameters(const Parameters& parameters) {
  auto json = to_json(parameters);
  json.erase("epochs");
  return json;
}

Result<checkpoint::Saved> save_snapshot(checkpoint::Session& session, const Network& network,
                                        const Position& position, const Identity& identity) {
  const std::string model = network.weights();
  const std::string optimizer = network.optimizer_state();
  const std::array<checkpoint::Source, 3> sources = {
      checkpoint::Source{std::string(kModel), {model}},
      checkpoint::Source{std::string(kOptimizer), {optimizer}},
      checkpoint::Source{std::string(kLog), {position.log}}};
  nlohmann::json meta = {{"trainer", "spotter-train"},    {"parameters", identity.parameters},
                         {"data", identity.data},         {"threads", identity.threads},
                         {"devices", identity.devices},   {"epoch", to_json(position.epoch)},
                         {"test", to_json(position.test)}};
  meta.update(position.consumed);
  return session.save(position.step, sources, meta);
}

Result<Saved> read_snapshot(const checkpoint::Loaded& loaded) {
  const auto log = part_of(loaded, kLog);
  if (!log) return tl::unexpected(log.error());
  if (!part_of(loaded, kModel)) {
    return failure(loaded.checkpoint.path.string() +
                   " is of an earlier version of spotter-train, which had another format.\n"
                   "  Finish the run with that version, or start over with another --checkpoints.");
  }
  try {
    const auto& meta = loaded.checkpoint.meta;
    return Saved{
        {loaded.checkpoint.step, to_score(meta.at("epoch")), to_score(meta.at("test")), *log},
        {meta.at("parameters"), meta.at("data").get<std::string>(),
         meta.at("threads").get<unsigned>(), meta.at("devices").get<std::size_t>()}};
  } catch (const nlohmann::json::exception&) {
    return failure(loaded.checkpoint.path.string() + " was not written by this trainer");
  }
}

Result<void> restore_network(const checkpoint::Loaded& loaded, Network& network) {
  const auto model = part_of(loaded, kModel);
  if (!model) return tl::unexpected(model.error());
  const auto optimizer = part_of(loaded, kOptimizer);
  if (!optimizer) return tl::unexpected(optimizer.error());
  if (auto set = network.set_weights(*model); !set) return set;
  return network.set_optimizer_state(*optimizer);
}

}  // namespace spotter::train
