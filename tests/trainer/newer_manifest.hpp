// A checkpoint as a later version of Spotter writes it: another format, members that nobody knows,
// its sum right.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/trainer/scratch.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::test {

inline std::string newer_manifest(const std::string& ours, int format = 2) {
  auto json = nlohmann::json::parse(ours);
  json.erase("xxh3_128");
  json["format"] = format;
  json["layout"] = "of another kind";
  json.erase("parts");
  std::string body = json.dump();
  body.pop_back();
  return body + ",\"xxh3_128\":\"" + checkpoint::sum_of(body) + "\"}\n";
}

inline void make_newer(const std::filesystem::path& checkpoint) {
  const auto path = checkpoint / "manifest.json";
  write_file(path, newer_manifest(read_file(path)));
}

}  // namespace spotter::test
