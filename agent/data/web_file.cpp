#include "agent/data/web_file.hpp"

#include <fcntl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/text.hpp"
#include "agent/curl/easy.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long most_redirects = 10;
constexpr std::chrono::seconds connect_limit{15};
constexpr std::chrono::milliseconds pause{500};  // before a try; doubled up to 8 s

struct FreeDigest {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};

class Fetch final : public curl::Sink {
 public:
  Fetch(const WebFile& file, const std::function<bool()>& stop, Fetched& fetched)
      : file_(file),
        stop_(stop),
        fetched_(fetched),
        name_(name_of_url(file.url)),
        partial_(file.folder / (".spotter-" + wire::sha256_hex(file.url).substr(0, 16))) {}

  Result<WebFetched> run() {
    if (is_known()) return WebFetched{true, 0};
    auto wait = pause;
    for (;;) {
      switch (attempt()) {
        case Tried::Whole:
          return finish();
        case Tried::Same:
          return WebFetched{true, 0};
        case Tried::Failed:
          return failure(wrong_);
        case Tried::Again:
          break;
      }
      for (const auto until = Clock::now() + wait; Clock::now() < until;) {
        if (stop_()) return failure(file_.url + ": it was stopped");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      wait = std::min(wait * 2, std::chrono::milliseconds(8'000));
    }
  }

 private:
  enum class Tried { Whole, Same, Again, Failed };
  Fetch::Tried attempt() {
    curl::Easy easy(curl::TrustStore::of_this_machine(),
                    {.connect = connect_limit,
                     .silence = std::chrono::floor<std::chrono::seconds>(file_.patience / 2)});
    status_ = 0;
    body_ = false;
    easy.hand_to(*this);
    easy.set_url(file_.url);
    easy.set_headers(condition());
    easy.set_method("GET");
    easy.follow_redirects(most_redirects, file_.url.starts_with("https:"));
    easy.stop_when(stop_);
    const CURLcode code = easy.perform();
    if (body_ && code != CURLE_OK) {
      keep_begun();
      resumed_ = etag_;
      if (etag_.empty()) written_ = noted_ = 0;
    }
    return judge(code);
  }

  Fetch::Tried judge(CURLcode code) {
    if (!wrong_.empty()) return Tried::Failed;
    if (code == CURLE_ABORTED_BY_CALLBACK) return wrong("it was stopped");
    if (code == CURLE_OK && status_ == 304) return Tried::Same;
    if (code == CURLE_OK && status_ == 416) {  // the partial file is no part of it
      resumed_.clear();
      written_ = noted_ = 0;
      return Tried::Again;
    }
    if (code == CURLE_OK && (status_ == 200 || status_ == 206)) {
      if (!body_ && !begin_body()) return Tried::Failed;  // an empty file
      return Tried::Whole;
    }
    const bool passes = status_ == 429 || status_ >= 500;
    if (code == CURLE_OK && !passes)
      return wrong("the server answers " + std::to_string(status_) +
                   (status_ == 404 ? ": there is no such file" : ""));
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
        code == CURLE_TOO_MANY_REDIRECTS || code == CURLE_PEER_FAILED_VERIFICATION)
      return wrong(curl::words_for(code));
    if (Clock::now() - progress_ > file_.patience)
      return wrong(code == CURLE_OK ? "the server answers " + std::to_string(status_)
                                    : curl::words_for(code));
    return Tried::Again;
  }

  bool begin_body() {
    body_ = true;
    if (status_ == 206 && from_ != written_) {
      wrong_ = file_.url + ": the server sends other bytes than it was asked for";
      return false;
    }
    if (status_ != 206) written_ = noted_ = 0;  // the server sends the whole file
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    if (!open_) open_ = Descriptor(::open(partial_.c_str(), flags, 0644));
    if (open_ && ::ftruncate(open_.get(), static_cast<off_t>(written_)) == 0) return true;
    wrong_ = partial_.string() + ": " + std::strerror(errno);
    return false;
  }

  // Asks for the rest of what is there, or for what is newer than that.
  curl::Headers condition() const {
    if (written_ > 0 && !resumed_.empty())
      return {{"Range", "bytes=" + std::to_string(written_) + "-"}, {"If-Range", resumed_}};
    if (before_.empty()) return {};
    return {{before_[0] == '"' ? "If-None-Match" : "If-Modified-Since", before_}};
  }

  bool take_header(std::string_view line) override {
    if (const auto status = curl::parse_status(line)) {
      status_ = *status;
      etag_.clear();
      from_.reset();
    } else if (const auto header = curl::parse_header(line)) {
      const auto& [name, value] = *header;
      // A weak ETag promises only the same meaning, not the same bytes.
      if (name == "etag" && value.starts_with('"')) etag_ = value;
      if (name == "last-modified" && etag_.empty()) etag_ = value;
      if (name == "content-range" && value.starts_with("bytes "))
        from_ = std::strtoull(value.c_str() + 6, nullptr, 10);
    }
    return true;
  }

  bool take_body(std::string_view bytes) override {
    if (status_ != 200 && status_ != 206) return true;
    if (!body_ && !begin_body()) return false;
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::pwrite(open_.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(written_));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        wrong_ = partial_.string() + ": " + std::strerror(errno);
        return false;
      }
      done += static_cast<std::size_t>(put);
      written_ += static_cast<std::uint64_t>(put);
    }
    came_ += bytes.size();
    progress_ = Clock::now();
    if (written_ - noted_ >= bytes_at_risk) keep_begun();
    return true;
  }

  // A later try resumes there, if the server still has the same file.
  void keep_begun() {
    if (!open_ || etag_.empty() || written_ == 0 || ::fdatasync(open_.get()) != 0) return;
    noted_ = written_;
    fetched_.add_begun(name_, written_, identity());
    (void)fetched_.keep();
  }

  // No request is needed: the file was compared with this SHA-256, and is unchanged since.
  bool is_known() {
    const auto known = fetched_.files().find(name_);
    if (known == fetched_.files().end()) return false;
    const auto file = known->second;
    if (!file.etag.starts_with(prefix())) return false;
    const std::string etag = file.etag.substr(prefix().size());
    if (etag.starts_with("sha256=")) return false;
    if (fetched_.is_whole(file_.folder, name_, file.size, file.etag)) {
      before_ = etag;
      return !file_.sha256.empty();
    }
    if (file.modified || etag.empty()) return false;
    written_ = noted_ = fetched_.begun(partial_, name_, UINT64_MAX, file.etag);
    if (written_ > 0) resumed_ = etag;
    return false;
  }

  Result<void> check_sum() const {
    if (file_.sha256.empty()) return {};
    const std::unique_ptr<EVP_MD_CTX, FreeDigest> digest(EVP_MD_CTX_new());
    EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
    std::string block(4U << 20, '\0');
    for (std::uint64_t at = 0; at < written_;) {
      if (stop_()) return failure(file_.url + ": it was stopped");
      const ssize_t got = ::pread(open_.get(), block.data(), block.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return failure(partial_.string() + ": " + std::strerror(got < 0 ? errno : EIO));
      EVP_DigestUpdate(digest.get(), block.data(), static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
    unsigned size = 0;
    EVP_DigestFinal_ex(digest.get(), sum.data(), &size);
    const std::string found = hexadecimal({reinterpret_cast<const char*>(sum.data()), size});
    if (found == file_.sha256) return {};
    ::unlink(partial_.c_str());  // so that the next try does not continue it
    return failure(file_.url + " has the SHA-256 " + found + ", not " + file_.sha256 +
                   ": it is another file, or job.yaml is wrong");
  }

  Result<WebFetched> finish() {
    TRY(check_sum());
    const fs::path path = file_.folder / name_;
    const bool done = ::fsync(open_.get()) == 0 && ::rename(partial_.c_str(), path.c_str()) == 0 &&
                      fetched_.add_whole(file_.folder, name_, identity());
    if (!done) return failure(path.string() + ": " + std::strerror(errno));
    TRY(behind(file_.folder.string(), io::fsync_directory(file_.folder)));
    TRY(fetched_.keep());
    return WebFetched{false, came_};
  }

  std::string identity() const { return prefix() + etag_; }
  std::string prefix() const { return file_.sha256.empty() ? "" : "sha256=" + file_.sha256 + " "; }
  Tried wrong(const std::string& what) {
    wrong_ = file_.url + ": " + what;
    return Tried::Failed;
  }

  const WebFile& file_;
  const std::function<bool()>& stop_;
  Fetched& fetched_;
  std::string name_;
  fs::path partial_;
  Descriptor open_;
  std::string etag_;                   // of the current answer; without an ETag its time
  std::string before_;                 // of the complete file; empty: there is none
  std::string resumed_;                // of the partial file
  std::uint64_t written_ = 0;          // of the partial file
  std::uint64_t noted_ = 0;            // of it, durable
  std::uint64_t came_ = 0;             // received over the network
  int status_ = 0;                     // of the current answer
  bool body_ = false;                  // its first byte was received
  std::optional<std::uint64_t> from_;  // of a 206: where the bytes belong
  std::string wrong_;
  Clock::time_point progress_ = Clock::now();
};

}  // namespace

std::string name_of_url(const std::string& url) {
  const std::string path = url.substr(0, std::min(url.find_first_of("?#"), url.size()));
  return path.substr(path.rfind('/') + 1);
}

Result<WebFetched> fetch_web(const WebFile& file, const std::function<bool()>& stop) {
  auto fetched = TRY(Fetched::open(file.ledger));
  return Fetch(file, stop, fetched).run();
}

}  // namespace spotter::data
