#include "tests/guard/units.hpp"

#include <algorithm>

namespace spotter::guard {

std::string safetensors(const std::string& content) {
  const std::string header = R"({"w":{"dtype":"U8","shape":[)" + std::to_string(content.size()) +
                             R"(],"data_offsets":[0,)" + std::to_string(content.size()) + "]}}";
  return number(header.size(), 8) + header + content;
}

Keeper Units::keeper() const {
  auto opened = Keeper::open(where());
  EXPECT_TRUE(opened) << opened.error().message;
  return *std::move(opened);
}

Settled Units::settle() const {
  auto settled = keeper().settle(true);
  EXPECT_TRUE(settled) << settled.error().message;
  return settled.value_or(Settled{});
}

void Units::rename(const std::string& from, const std::string& to) const {
  std::filesystem::rename(path(from), path(to));
}

void Units::both_halves(Steps& steps, const std::string& name, const std::string& bytes) const {
  steps.emplace_back([=, this] { write(name, bytes.substr(0, bytes.size() / 2)); });
  steps.emplace_back([=, this] { write(name, bytes); });
}

// Trainer._save_checkpoint: save_model(), then the optimizer, scheduler, RNG, and the state.
Units::Steps Units::transformers(const std::string& name, bool sharded) const {
  Steps steps;
  both_halves(steps, name + "/config.json", R"({"model_type": "gpt2"})");
  if (sharded) {
    both_halves(steps, name + "/model-00001-of-00002.safetensors", safetensors("one"));
    both_halves(steps, name + "/model-00002-of-00002.safetensors", safetensors("two"));
    both_halves(steps, name + "/model.safetensors.index.json",
                R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors",)"
                R"( "b": "model-00002-of-00002.safetensors"}})");
  } else {
    both_halves(steps, name + "/model.safetensors", safetensors("weights"));
  }
  for (const char* file : {"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"})
    both_halves(steps, name + "/" + file, zip(file));
  both_halves(steps, name + "/trainer_state.json", R"({"log_history": [{"loss": NaN}]})");
  return steps;
}

// FileSystemWriter: a file each rank; .metadata.tmp; an older .metadata goes; the rename.
Units::Steps Units::distributed(const std::string& name) const {
  Steps steps;
  both_halves(steps, name + "/__0_0.distcp", zip("rank 0"));
  both_halves(steps, name + "/__1_0.distcp", zip("rank 1"));
  steps.emplace_back([=, this] { write(name + "/__1_1.distcp", ""); });
  both_halves(steps, name + "/.metadata.tmp", "a pickle that names them");
  steps.emplace_back([=, this] { remove(name + "/.metadata"); });
  steps.emplace_back([=, this] { rename(name + "/.metadata.tmp", name + "/.metadata"); });
  return steps;
}

// save_accelerator_state(), then the custom objects.
Units::Steps Units::accelerate(const std::string& name) const {
  Steps steps;
  both_halves(steps, name + "/model.safetensors", safetensors("weights"));
  for (const char* file :
       {"optimizer.bin", "scheduler.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl"})
    both_halves(steps, name + "/" + file, zip(file));
  return steps;
}

void Units::run(const Steps& steps, std::size_t count) {
  for (std::size_t i = 0; i < std::min(count, steps.size()); ++i) steps[i]();
}

}  // namespace spotter::guard
