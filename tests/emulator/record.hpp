// `serve --record FILE`: each request and its answer as a line of JSON, which tests/shapes judges
// by the models of botocore.
#pragma once

#include <filesystem>

#include "tests/emulator/http.hpp"

namespace spotter::emulator {

// The same handler, which also appends to the file: service (of the signature; empty: unsigned),
// method, target, action (the header X-Amz-Target), body, status (0: no answer), answer. Without a
// file: the handler itself. Requests to S3, whose bodies are streamed, are not among them.
HttpHandler recorded(const std::filesystem::path& file, HttpHandler handler);

}  // namespace spotter::emulator
