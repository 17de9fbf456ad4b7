// Downloads one file by HTTP(S) into a folder, for data sets that are published at a URL.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "agent/base/result.hpp"

namespace spotter::data {

struct WebFile {
  std::string url;                             // http(s)
  std::filesystem::path folder;                // must exist; the file's name is the URL's last part
  std::filesystem::path ledger;                // of complete and partial files: data/fetched.hpp
  std::string sha256;                          // lower case; empty: only its length is compared
  std::chrono::milliseconds patience{60'000};  // without a byte of progress
};

struct WebFetched {
  bool was_there = false;   // the server says that it is unchanged, or its SHA-256 is known
  std::uint64_t bytes = 0;  // received over the network
};

// The last part of the URL's path.
std::string name_of_url(const std::string& url);

// Returns when the file is complete and durable under its name. Fails also soon after `stop`
// returns true. After a broken connection, and in the next call, it resumes where it stopped, if
// the server identifies versions (a strong ETag, or a time); else it starts over.
Result<WebFetched> fetch_web(const WebFile& file, const std::function<bool()>& stop);

}  // namespace spotter::data
