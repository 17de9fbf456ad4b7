// One file of the web, into a folder: for data sets that are published at a URL.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::data {

struct WebFile {
  std::string url;               // http(s)
  std::filesystem::path folder;  // it is there; the file has the URL's last name in it
  std::filesystem::path ledger;  // what is whole, or begun: data/fetched.hpp
  std::string sha256;            // lower case; empty: only its length is compared
  std::chrono::milliseconds patience{60'000};  // without a byte of progress
};

struct WebFetched {
  bool was_there = false;   // the server says that it is the same, or its SHA-256 is known
  std::uint64_t bytes = 0;  // that came over the network
};

// The last part of the URL's path.
std::string name_of_url(const std::string& url);

// Returns when the file is whole and durable under its name, or fails, or ends soon after `stop`
// says true, as a failure. A broken connection goes on at the byte where it broke, as does the next
// call, where the server names its versions (a strong ETag, or a time); else from the begin.
Result<WebFetched> fetch_web(const WebFile& file, const std::function<bool()>& stop);

}  // namespace spotter::data
