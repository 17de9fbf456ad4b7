// The page that shows a job, as one HTML document without anything from elsewhere: its policy
// (Content-Security-Policy) lets only its own script and style run, by their hashes. The model is
// agent/report/model.hpp's.
#pragma once

#include <string>
#include <string_view>

namespace spotter::page {

// Live: asks for `events` (feed.hpp) beside its own address, and for nothing else.
std::string html();
// With the model in it: asks for nothing at all. Whatever the model's texts hold stays text.
std::string document(std::string_view model_json);

}  // namespace spotter::page
