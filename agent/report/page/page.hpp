// The page that shows a job: one HTML document that loads nothing else. Its policy
// (Content-Security-Policy) allows only its own script and style, by their hashes. The model is
// agent/report/model.hpp's.
#pragma once

#include <string>
#include <string_view>

namespace spotter::page {

// Live: requests only `events` (feed.hpp), relative to its own address.
std::string html();
// Contains the model and requests nothing. The model's texts cannot become markup.
std::string document(std::string_view model_json);

}  // namespace spotter::page
