// One channel of a download: its listing, which of its files exist, and which are to be fetched.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "agent/data/catalogue.hpp"
#include "agent/data/download.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/partial.hpp"

namespace spotter::data {

class Wanted {
 public:
  // Reads the record of complete files. REQUIRES: `settings` and `client` outlive it; it does not
  // move.
  static Result<std::unique_ptr<Wanted>> open(const DownloadSettings& settings,
                                              const wire::Channel& channel, s3::Client& client);

  s3::Client& client() const { return client_; }
  Catalogue& catalogue() { return catalogue_; }
  const Catalogue& catalogue() const { return catalogue_; }
  const std::filesystem::path& folder() const { return folder_; }

  // To be called once the listing is complete. Appends the files that are missing, and removes
  // those that only an earlier listing had. Fails on names that cannot be files, before it removes
  // any.
  Result<void> choose(std::deque<partial::File>& files);
  // Also opens them.
  Result<void> make_folders();
  const Descriptor& disk() const { return disk_; }
  dev_t device() const { return device_; }

  // Renames a complete and durable file to its name. False: see errno, at path `at`.
  bool add_whole(const partial::File& file, std::filesystem::path& at);
  void add_begun(const partial::File& file, std::uint64_t bytes);
  // Writes what was added to the record.
  Result<void> keep() { return fetched_.keep(); }
  void came(std::size_t bytes) { done_.bytes += bytes; }

  // To be called when all of it is there.
  Downloaded finish() const;
  bool has_fetched() const { return done_.fetched > 0; }

  const std::string& bucket(const partial::File& file) const {
    return bucket_of(*file.entry, channel_);
  }
  std::string url(const partial::File& file) const {
    return wire::to_url({bucket(file), file.entry->key});
  }
  std::string wrong(const std::string& what) const {
    return "channel " + channel_.name + ": " + what;
  }

 private:
  Wanted(const DownloadSettings& settings, const wire::Channel& channel, s3::Client& client,
         Fetched fetched);
  Result<std::map<std::string, const Entry*>> names() const;
  void remove_others(const std::map<std::string, const Entry*>& names);
  void remove_partials(const std::deque<partial::File>& files) const;

  const wire::Channel& channel_;
  Shard shard_;
  s3::Client& client_;
  std::filesystem::path folder_;
  std::filesystem::path partials_;
  Descriptor disk_;
  dev_t device_ = 0;
  Fetched fetched_;
  Catalogue catalogue_;
  Downloaded done_;
};

}  // namespace spotter::data
