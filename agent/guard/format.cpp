#include "agent/guard/format.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "agent/guard/named.hpp"
#include "agent/guard/shape.hpp"
#include "agent/guard/zip.hpp"

namespace spotter::guard {
namespace {

constexpr std::uint64_t names_limit = 64U << 20;  // of 300,000 tensors' names
constexpr std::uint64_t json_piece = 1U << 20;

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [name](auto ending) { return name.ends_with(ending); });
}

std::string folder_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash + 1);
}

class Judge {
 public:
  Judge(const Place& place, const Beneath& folder, const Contents& contents)
      : place_(place), folder_(folder), contents_(contents) {}

  Result<Judgement, Refusal> of(const std::string& name) {
    if (has_ending(name, {".tmp"}) || name.starts_with("tmp-") ||
        name.find(".orbax-checkpoint-tmp") != std::string::npos)
      incomplete("by its name it is not finished");
    if (contents_.parts.empty()) incomplete("it is empty");
    if (has("checkpoint-is-incomplete.txt")) incomplete("checkpoint-is-incomplete.txt is in it");
    for (const Found& part : contents_.parts) look_into(part);
    if (is_transformers()) {
      judge_transformers();
    } else if (has("_CHECKPOINT_METADATA") || has("commit_success.txt")) {
      judge_orbax();
    } else {
      result_.known_format = has_any("random_states_", ".pkl") ||
                             has_any("mp_rank_", "_model_states.pt") || has(".metadata");
      if (has(".metadata")) prove_by(".metadata", {".distcp"});
    }
    judge_distributed();
    judge_indexes();
    if (refusal_) return tl::unexpected(*refusal_);
    return result_;
  }

 private:
  bool has(std::string_view name) const { return contents_.find(name) != nullptr; }
  bool has_any(std::string_view beginning, std::string_view ending) const {
    return std::ranges::any_of(contents_.parts, [&](const Found& part) {
      return part.name.starts_with(beginning) && part.name.ends_with(ending);
    });
  }

  // The first reason stays.
  void incomplete(std::string why) {
    if (result_.verdict == Judgement::Verdict::Incomplete) return;
    result_.verdict = Judgement::Verdict::Incomplete;
    result_.why = std::move(why);
  }
  void prove() {
    if (result_.verdict != Judgement::Verdict::Incomplete)
      result_.verdict = Judgement::Verdict::Proven;
  }
  void doubt() {
    if (result_.verdict == Judgement::Verdict::Proven)
      result_.verdict = Judgement::Verdict::Plausible;
  }
  void refuse_as(Refusal::Why why, std::string words) {
    if (!refusal_) refusal_ = Refusal{why, std::move(words)};
  }

  Descriptor open(const Found& part) {
    auto opened = folder_.file(part.name, O_RDONLY);
    if (opened) {
      struct stat status {};
      if (::fstat(opened->get(), &status) == 0 && place_.is_trainers(status))
        return *std::move(opened);
      refuse_as(Refusal::Why::Failed, part.name + " " + std::string(has_other_name));
      return Descriptor();
    }
    const int code = opened.error().value();
    if (is_out_of_place(code) || code == EINVAL) {
      refuse_as(Refusal::Why::Busy, "");  // it is another one by now
    } else {
      refuse_as(Refusal::Why::Failed, part.name + " cannot be read: " + opened.error().message());
    }
    return Descriptor();
  }

  void look_into(const Found& part) {
    if (refusal_) return;
    const bool weights = has_ending(part.name, {".safetensors", ".bin", ".pt", ".pth", ".ckpt",
                                                ".pkl", ".npz", ".h5", ".json"});
    if (part.bytes == 0) {  // a marker, or what DCP writes for a thread that had nothing to do
      if (weights) incomplete(part.name + ": it is empty");
      return;
    }
    const Descriptor file = open(part);
    if (!file) return;
    const Look look = look_at(file.get(), part.bytes, part.name);
    if (look.shape == Shape::Torn) incomplete(part.name + ": " + look.why);
    if (look.shape == Shape::Open) result_.sealed = false;
    if (has_ending(part.name, {".json"})) look_into_json(file.get(), part);
  }

  void look_into_json(int file, const Found& part) {
    Brackets brackets;
    for (std::uint64_t at = 0; at < part.bytes && at < names_limit;) {
      const auto piece = read_at(file, at, std::min(json_piece, part.bytes - at));
      if (!piece) return incomplete(part.name + ": it became shorter");
      brackets.add(*piece);
      at += piece->size();
    }
    if (part.bytes <= names_limit && !brackets.closed())
      incomplete(part.name + ": the end of its JSON is missing");
  }

  // The whole file; none: it is too large to be read, or cannot be.
  std::optional<std::string> text_of(const Found& part) {
    const Descriptor file = open(part);
    if (!file) return std::nullopt;
    if (part.bytes <= names_limit) return read_at(file.get(), 0, part.bytes);
    result_.known_format = false;
    doubt();
    return std::nullopt;
  }

  // It is written after all files with those endings.
  void prove_by(std::string_view name, std::initializer_list<std::string_view> endings) {
    const std::int64_t written = contents_.find(name)->mtime_ns;
    result_.stale = std::ranges::any_of(contents_.parts, [&](const Found& part) {
      // Other ranks write theirs whenever they come to it; without it training goes on, too.
      return has_ending(part.name, endings) && !part.name.starts_with("rng_state_") &&
             part.mtime_ns > written;
    });
    if (!result_.stale) prove();
  }

  bool is_transformers() const { return has("trainer_state.json") || has("training_args.bin"); }

  void judge_transformers() {
    result_.known_format = true;
    if (!has("trainer_state.json"))
      return incomplete("trainer_state.json, which Transformers writes last, is not there");
    if (!has_model()) return incomplete("there is no model in it");
    prove_by("trainer_state.json", {".safetensors", ".bin", ".pt", ".pth", ".distcp"});
  }

  // What Trainer._load_from_checkpoint looks for, and the folders of FSDP and DeepSpeed.
  bool has_model() const {
    return std::ranges::any_of(contents_.parts, [](const Found& part) {
      const std::string file = last_component(part.name);
      const bool top = file == part.name;
      return (top &&
              (file == "model.safetensors" || file == "pytorch_model.bin" ||
               file == "model.safetensors.index.json" || file == "pytorch_model.bin.index.json" ||
               file == "pytorch_model_fsdp.bin")) ||
             file == "adapter_model.safetensors" || file == "adapter_model.bin" ||
             part.name.starts_with("pytorch_model_fsdp") || part.name.starts_with("global_step");
    });
  }

  // Each index names the shards beside it.
  void judge_indexes() {
    for (const Found& part : contents_.parts) {
      if (!has_ending(part.name, {".safetensors.index.json", ".bin.index.json"})) continue;
      const auto text = text_of(part);
      if (!text) continue;
      const auto names = names_in_index(*text);
      if (!names) return incomplete(part.name + ": it is no JSON");
      lacks(*names, part.name);
    }
  }

  // Each .metadata names the files beside it.
  void judge_distributed() {
    for (const Found& part : contents_.parts) {
      if (last_component(part.name) != ".metadata") continue;
      const auto text = text_of(part);
      if (!text) continue;
      const auto names = names_in_pickle(*text, ".distcp");
      if (!names) return incomplete(part.name + ": its end is missing");
      lacks(*names, part.name);
    }
    const bool unnamed = has_any("", ".distcp") && !has_any("", ".metadata");
    if (unnamed) incomplete(".metadata, which is written last, is not there");
  }

  void lacks(const std::set<std::string>& names, const std::string& index) {
    for (const std::string& name : names) {
      const Found* named = contents_.find(folder_of(index) + name);
      if (named == nullptr)
        return incomplete(index + " names " + shown(name) + ", which is not there");
      if (named->bytes == 0)
        return incomplete(index + " names " + shown(name) + ", which is empty");
    }
  }
  static std::string shown(const std::string& name) {
    return is_plain(name) ? name.substr(0, 100) : "a file";
  }

  // {"commit_timestamp_nsecs": N, ...}: null until it is committed. Whoever commits by a file of
  // its own writes that one.
  void judge_orbax() {
    result_.known_format = true;
    if (has("commit_success.txt")) return prove();
    constexpr std::uint64_t longest = 1U << 20;
    const Found* part = contents_.find("_CHECKPOINT_METADATA");
    const auto text = part->bytes <= longest ? text_of(*part) : std::nullopt;
    const auto object = nlohmann::json::parse(text.value_or(""), nullptr, false);
    const bool committed = object.is_object() && object.contains("commit_timestamp_nsecs") &&
                           object["commit_timestamp_nsecs"].is_number();
    if (committed) prove();
  }

  const Place& place_;
  const Beneath& folder_;
  const Contents& contents_;
  Judgement result_;
  std::optional<Refusal> refusal_;
};

}  // namespace

Result<Judgement, Refusal> judge(const Place& place, const Beneath& folder, const std::string& name,
                                 const Contents& contents) {
  return Judge(place, folder, contents).of(name);
}

std::optional<std::uint64_t> step_in(const std::string& name) {
  constexpr std::size_t longest = 15;
  const auto before = name.find_last_not_of("0123456789");
  const std::string digits = name.substr(before == std::string::npos ? 0 : before + 1);
  if (digits.empty() || digits.size() > longest) return std::nullopt;
  return std::stoull(digits);
}

}  // namespace spotter::guard
