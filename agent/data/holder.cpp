#include "agent/data/holder.hpp"

namespace spotter::data {

Holder::Report Holder::listen() {
  using Kind = Report::Kind;
  while (true) {
    bool gone = false;
    auto message = receive_message(socket_.get(), gone);
    if (gone) return {Kind::Gone, {}};
    if (!message) return {};
    const auto blank = std::min(message->text.find(' '), message->text.size());
    const std::string verb = message->text.substr(0, blank);
    std::string rest = blank < message->text.size() ? message->text.substr(blank + 1) : "";
    if (verb == "ready") return {Kind::Ready, {}};
    if (verb == "failed") return {Kind::Failed, std::move(rest)};
    if (verb == "made") held_[rest] = std::move(message->file);
    if (verb == "ended") held_.erase(rest);
  }
}

void Holder::leave() {
  (void)send_message(socket_.get(), "bye");
  socket_.close();
}

}  // namespace spotter::data
