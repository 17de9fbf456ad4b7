// What the files of a folder say of it as a checkpoint: is something missing? Each framework has
// its own order of writing, and none of those below writes a folder at once:
//   Transformers (Trainer._save_checkpoint): model.safetensors, or shards and then
//     model.safetensors.index.json; training_args.bin, optimizer.pt, scheduler.pt, rng_state*.pth,
//     and at last trainer_state.json, all under their final names
//   torch.distributed.checkpoint (filesystem.py): __RANK_N.distcp, then .metadata.tmp, renamed to
//     .metadata once every rank has written
//   Accelerate (save_state): model.safetensors, optimizer.bin, scheduler.bin,
//   random_states_RANK.pkl,
//     custom_checkpoint_N.pkl; nothing says which is the last
//   DeepSpeed: mp_rank_*_model_states.pt, *_optim_states.pt; then `latest` beside the folder
//   Orbax: a folder NAME.orbax-checkpoint-tmp* that is renamed, or commit_success.txt, written last
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/guard/contents.hpp"

namespace spotter::guard {

struct Judgement {
  enum class Verdict : std::uint8_t {
    Incomplete,  // a file is missing or torn
    Plausible,   // nothing is, as far as the format tells
    Proven,      // the file that its format writes last is there, and newer than the others
  };
  Verdict verdict = Verdict::Plausible;
  std::string why;            // of an incomplete one, for a person
  bool known_format = false;  // one of the above
  bool stale =
      false;  // that last file is older than others: they are being written over, or copies
  bool sealed = true;  // each file's own format has its end written last (shape.hpp)
};

// Reads the heads and ends of files, and whole those that name others (up to 64 MiB each: more
// names are no one's; then the format tells nothing). `name` is the folder's own. Refuses as Failed
// what cannot be read, or is not the trainer's (Place::is_trainers()): it may be whole.
Result<Judgement, Refusal> judge(const Place& place, const Beneath& folder, const std::string& name,
                                 const Contents& contents);

// checkpoint-500, step_500, 500: the number that the name ends with, up to 15 digits.
std::optional<std::uint64_t> step_in(const std::string& name);

}  // namespace spotter::guard
