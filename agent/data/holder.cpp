#include "agent/data/holder.hpp"

namespace spotter::data {

Holder::News Holder::listen() {
  using Kind = News::Kind;
  while (true) {
    bool gone = false;
    auto word = hear(socket_.get(), gone);
    if (gone) return {Kind::Gone, {}};
    if (!word) return {};
    const auto blank = std::min(word->text.find(' '), word->text.size());
    const std::string verb = word->text.substr(0, blank);
    std::string rest = blank < word->text.size() ? word->text.substr(blank + 1) : "";
    if (verb == "ready") return {Kind::Ready, {}};
    if (verb == "failed") return {Kind::Failed, std::move(rest)};
    if (verb == "made") held_[rest] = std::move(word->file);
    if (verb == "ended") held_.erase(rest);
  }
}

void Holder::leave() {
  (void)say(socket_.get(), "bye");
  socket_.reset();
}

}  // namespace spotter::data
