// `serve --record FILE`: each request and its answer as a line of JSON, which tests/shapes judges
// by the models of botocore.
#pragma once

#include <filesystem>
#include <memory>

#include "agent/io/files.hpp"
#include "tests/emulator/http.hpp"

namespace spotter::emulator {

// Appends to the file: service (of the signature; empty: unsigned), method, target, host, action
// (the header X-Amz-Target), headers (x-amz-... alone, without what signs), body, status (0: no
// answer), answer, answer_headers (x-amz-... alone). Leaves out an object's bytes, in either
// direction. Without a file nothing is recorded. From any thread.
class Record {
 public:
  explicit Record(const std::filesystem::path& file);

  // The same, which also appends.
  HttpHandler of(HttpHandler handler) const;
  HttpStreams of(HttpStreams streams) const;

 private:
  std::shared_ptr<const io::Descriptor> to_;
};

}  // namespace spotter::emulator
