// Files on their way to a bucket and back. Calls block.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <system_error>

#include "trainer/library/bucket.hpp"
#include "trainer/library/files.hpp"

namespace spotter::bucket {

// A file that is to be in the bucket.
struct Wanted {
  std::string path;                    // in the manifest
  std::string from;                    // where its bytes are; mostly the same
  std::string sum;                     // that they must have; empty: whatever is there
  std::optional<std::string> content;  // in the place of the file's own
};

class Sender {
 public:
  // Opens a file for reading; a link is none.
  using Open = std::function<Result<checkpoint::Descriptor, std::error_code>(const std::string&)>;

  // REQUIRES: the bucket outlives this.
  Sender(Bucket& bucket, std::string group, Open open)
      : bucket_(bucket), group_(std::move(group)), open_(std::move(open)) {}

  // The bucket has these: they are not sent again.
  void add_known(const Files& files);
  bool knows(const File& file) const { return known_.contains({file.sum, file.bytes}); }
  const std::map<std::pair<std::string, std::uint64_t>, File>& known() const { return known_; }

  // All of them, as a manifest names them, or an error that says which one cannot be: each is what
  // was sent, of the wanted sum, which is taken meanwhile; a log may have grown since. Large files
  // go as multipart uploads, several at once; one that becomes shorter meanwhile is a SIGBUS. Gives
  // up soon after `stop`, when given, has become true.
  Result<Files> send(const std::vector<Wanted>& files, const std::atomic<bool>* stop = nullptr);

  std::uint64_t sent() const { return sent_; }  // bytes

 private:
  class Content;
  struct OnItsWay {
    const Wanted* wanted;
    std::unique_ptr<Content> content;
    File file;
  };
  Result<std::unique_ptr<Content>> open(const Wanted& wanted) const;
  Result<void> send_together(const std::vector<OnItsWay>& files, const std::atomic<bool>* stop);

  Bucket& bucket_;
  std::string group_;
  Open open_;
  std::map<std::pair<std::string, std::uint64_t>, File> known_;
  std::uint64_t sent_ = 0;
};

// What becomes of files that are fetched, by their number. All but memory() is called by another
// thread while fetch() waits.
struct Receiver {
  // A new file, opened for writing; or, without that function, memory of the file's size.
  std::function<Result<checkpoint::Descriptor>(std::size_t)> make;
  std::function<std::span<char>(std::size_t)> memory;
  // Called as bytes come, by whatever file; may be empty.
  std::function<void(std::size_t)> received;
  // Called once for each file, in their order: it is verified, and has its time; or it is `torn`,
  // and whatever was made of it is to be removed. An error ends all.
  std::function<Result<void>(std::size_t, const Result<void>& verified)> ended;
};

// Asks for pieces of many files at once, and holds 64 MiB of them at most. Fails as failed() says,
// as the receiver does, and where a file cannot be written.
Result<void> fetch(Bucket& bucket, std::span<const Files::value_type* const> files,
                   const Receiver& receiver);

}  // namespace spotter::bucket
