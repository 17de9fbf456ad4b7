// How a page is kept up to date: server-sent events that say what has changed of the model since
// the last one of the same connection. Pure; one Feed a connection.
//
//   event: model    {...}: top-level keys of the model that changed, each with its whole value,
//                   without curves. A connection's first has them all ("version" is among them).
//   event: points   {"experiment": null or the place in sweep.experiments, "from": index,
//                   "step": [...], "loss": [...], "accuracy": [...], "time": [...]}: the curve from
//                   that index on; what the page has there goes (the trainer went back).
//
// So a curve of 50,000 points is sent once a connection, and then only what is new of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace spotter::page {

class Feed {
 public:
  // What to send so that the page shows this model, and the keys of `besides` in the place of its
  // own; empty: nothing has changed. "now" alone is no change; of
  // a model that was made a while ago `besides` says it.
  std::string next(const nlohmann::json& model,
                   const nlohmann::json& besides = nlohmann::json::object());

 private:
  std::string points(int experiment, const nlohmann::json& curve);

  nlohmann::json sent_ = nlohmann::json::object();  // without curves
  std::map<int, nlohmann::json> curves_;            // by experiment; -1: the job's own
};

// Keeps a connection, and tells the server that the page has gone.
inline constexpr std::string_view heartbeat = ":\n\n";

// Of a page that only this machine may see: false where a browser was led here under a name that
// somebody else's DNS answers for, or a page of another origin asks. `host`: the header;
// `origin`: the header, or empty.
// is_local_name: any name without a domain, and any address. is_loopback_name: this machine's own
// alone, for what listens there.
bool is_local_name(std::string_view host);
bool is_loopback_name(std::string_view host);
bool is_same_origin(std::string_view host, std::string_view origin);

}  // namespace spotter::page
