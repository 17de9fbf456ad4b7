// Updates of a page: server-sent events with what has changed in the model since the last event of
// the same connection. Pure; one Feed for each connection.
//
//   event: model    {...}: top-level keys of the model that changed, each with its whole value,
//                   without curves. A connection's first has them all, "version" included.
//   event: points   {"experiment": null or the place in sweep.experiments, "from": index,
//                   "step": [...], "loss": [...], "accuracy": [...], "time": [...], and a list of
//                   each other metric}: the curve from that index on, replacing the page's own (the
//                   trainer may have gone back).
//
// So a curve of 50,000 points is sent once a connection, and afterwards only its new points.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace spotter::page {

class Feed {
 public:
  // The events that make the page show this model, with the keys of `besides` in place of its own;
  // empty: nothing has changed. A change of "now" alone does not count; `besides` has it for a
  // model that was made earlier.
  std::string next(const nlohmann::json& model,
                   const nlohmann::json& besides = nlohmann::json::object());

 private:
  std::string points(int experiment, const nlohmann::json& curve);

  nlohmann::json sent_ = nlohmann::json::object();  // without curves
  std::map<int, nlohmann::json> curves_;            // by experiment; -1: the job's own
};

// Keeps a connection open, and lets the server notice that the page is gone.
inline constexpr std::string_view heartbeat = ":\n\n";

// Lets in only pages of this machine: false for DNS rebinding, and for requests by pages of another
// origin. `host`, `origin`: the headers; an absent origin is empty.
// is_local_name: any name without a domain, and any address. is_loopback_name: this machine's own
// alone, for a server that listens on loopback.
bool is_local_name(std::string_view host);
bool is_loopback_name(std::string_view host);
bool is_same_origin(std::string_view host, std::string_view origin);

}  // namespace spotter::page
