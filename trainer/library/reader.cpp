#include "trainer/library/reader.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "trainer/library/files.hpp"

namespace spotter::channel {
using std::chrono::milliseconds;

namespace {

namespace fs = std::filesystem;
using checkpoint::system_failure;

// Asks a channel's feeder to begin its stream in the middle: agent/data/stream.hpp.
class Request {
 public:
  // If the feeder takes no requests, does nothing, and is_granted() is true at once.
  static Result<Request> make(const fs::path& folder, const std::string& channel,
                              const Position& start) {
    Request request;
    const fs::path requests = folder / ".start";
    std::error_code unreadable;
    if (!fs::is_directory(requests, unreadable)) return request;
    const fs::path written = requests / ("." + channel + "." + std::to_string(::getpid()));
    const std::string text = std::to_string(start.epoch) + ":" + std::to_string(start.bytes) + "\n";
    const checkpoint::Descriptor file(
        ::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return system_failure("cannot make", written);
    const auto wrote = ::write(file.get(), text.data(), text.size());
    if (wrote != static_cast<ssize_t>(text.size())) return system_failure("cannot write", written);
    request.file_ = requests / channel;
    if (::rename(written.c_str(), request.file_.c_str()) != 0)
      return system_failure("cannot rename", written);
    return request;
  }

  // True: the next FIFO that is opened begins there, if the feeder takes requests.
  bool is_granted() const {
    return !was_made() || (::access(file_.c_str(), F_OK) != 0 && errno == ENOENT);
  }

  bool was_made() const { return !file_.empty(); }

 private:
  std::filesystem::path file_;
};

// The size of an ordinary user's largest pipe.
constexpr std::size_t kBuffer = std::size_t{1} << 20;
// The feeder may have to list a large bucket before it makes the first FIFO.
constexpr auto kAppears = std::chrono::minutes(10);
constexpr milliseconds kNap{5};

fs::path folder_of(const std::string& channel) {
  std::string variable = "SM_CHANNEL_" + channel;
  for (char& each : variable) {
    if (each >= 'a' && each <= 'z') each = static_cast<char>(each - 'a' + 'A');
    if (each == '-' || each == '.') each = '_';
  }
  const fs::path given = checkpoint::environment(variable.c_str());
  return given.empty() ? fs::path("/opt/ml/input/data") : given.parent_path();
}

}  // namespace

void record(nlohmann::json& meta, const std::string& channel, const Position& position) {
  meta[kPositions][channel] = {
      {"epoch", position.epoch}, {"bytes", position.bytes}, {"records", position.records}};
}

Result<Position> recorded(const nlohmann::json& meta, const std::string& channel) {
  const auto all = meta.find(kPositions);
  if (all == meta.end()) return Position{};
  const auto unreadable = [&] {
    return failure("the checkpoint's position in channel " + channel + " is not readable");
  };
  if (!all->is_object()) return unreadable();
  const auto found = all->find(channel);
  if (found == all->end()) return Position{};
  Position position;
  for (const auto& [name, value] :
       {std::pair("epoch", &position.epoch), std::pair("bytes", &position.bytes),
        std::pair("records", &position.records)}) {
    if (!found->is_object() || !found->contains(name)) return unreadable();
    const auto& number = (*found)[name];
    if (!number.is_number_unsigned()) return unreadable();
    *value = number.get<std::uint64_t>();
  }
  return position;
}
using checkpoint::Descriptor;
using Clock = std::chrono::steady_clock;

struct Reader::State {
  explicit State(ReaderSettings given)
      : settings(std::move(given)), framing(settings.format), position(settings.start) {}

  ReaderSettings settings;
  Framing framing;
  Position position;
  std::optional<Request> request;
  bool begun = false;  // the stream of the first epoch begins at settings.start
  Clock::time_point opening{};
  Descriptor file;
  bool ended = false;  // the epoch is read to its end
  std::vector<char> memory;
  std::size_t first = 0;  // of the bytes that are not consumed
  std::size_t last = 0;
  std::optional<Error> failed;

  std::string_view unread() const { return {memory.data() + first, last - first}; }
  fs::path path() const {
    return settings.folder / (settings.channel + "_" + std::to_string(position.epoch));
  }

  Result<Next> fail(const std::string& what) {
    failed = Error{"channel " + settings.channel + ", epoch " + std::to_string(position.epoch) +
                   ", byte " + std::to_string(position.bytes) + ": " + what};
    return tl::unexpected(*failed);
  }

  // False, here and below: it takes longer.
  Result<bool> begin(Clock::time_point until) {
    if (begun) return true;
    if (!request) {
      request = TRY(Request::make(settings.folder, settings.channel, settings.start));
    }
    while (!request->is_granted()) {
      if (Clock::now() - opening > kAppears)
        return failure("the process that feeds it does not answer");
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(kNap);
    }
    return begun = true;
  }

  Result<bool> open_epoch(Clock::time_point until) {
    if (file) return true;
    if (opening == Clock::time_point{}) opening = Clock::now();
    if (auto ready = begin(until); !ready || !*ready) return ready;
    // Without blocking: poll() distinguishes a writer that has closed from one that has not opened.
    while (!(file = Descriptor(::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)))) {
      if (errno != ENOENT && errno != EINTR)
        return failure(path().string() + ": " + std::strerror(errno));
      if (Clock::now() - opening > kAppears) return failure(path().string() + " does not appear");
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(kNap);
    }
    opening = {};
    struct stat status {};
    const bool asked = request && request->was_made();
    if (position.bytes == 0 || asked || ::fstat(file.get(), &status) != 0) return true;
    if (S_ISREG(status.st_mode)) {
      if (::lseek(file.get(), static_cast<off_t>(position.bytes), SEEK_SET) >= 0) return true;
    }
    return failure("whoever feeds it cannot begin in the middle: that needs `spotter pipe`");
  }

  Result<bool> fill(Clock::time_point until) {
    if (memory.empty()) memory.resize(kBuffer);
    if (first == last) first = last = 0;
    if (first > 0 && memory.size() - last < memory.size() / 4) {
      std::memmove(memory.data(), memory.data() + first, last - first);
      last -= std::exchange(first, 0);
    }
    // Grows only as the bytes of a long record really arrive.
    if (last == memory.size()) memory.resize(2 * memory.size());
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
      pollfd waiting{file.get(), POLLIN, 0};
      const int wait =
          static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(1000)).count());
      if (::poll(&waiting, 1, wait) > 0) {
        const ssize_t got = ::read(file.get(), memory.data() + last, memory.size() - last);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
          return failure(path().string() + ": " + std::strerror(errno));
        if (got >= 0) {
          last += static_cast<std::size_t>(got);
          ended = got == 0;
          return true;
        }
      }
      if (Clock::now() >= until) return false;
    }
  }

  Result<Next> end_epoch() {
    if (first != last) {
      const bool line = settings.format.kind == Format::Kind::Lines;
      return fail("the last record is cut off: the stream ends " + std::to_string(last - first) +
                  " bytes behind its begin" + (line ? ", without a newline" : ""));
    }
    file = Descriptor();
    ended = false;
    position = {position.epoch + 1, 0, 0};
    return Next{Next::Kind::EndOfEpoch, {}};
  }

  Result<Next> next(Clock::time_point until) {
    if (failed) return tl::unexpected(*failed);
    while (true) {
      const auto record = framing.cut(unread());
      if (!record) return fail(record.error().message);
      if (*record) {
        first += (*record)->taken;
        position.bytes += (*record)->taken;
        ++position.records;
        return Next{Next::Kind::Record, (*record)->bytes};
      }
      if (ended) return end_epoch();
      auto more = open_epoch(until);
      if (more && *more) more = fill(until);
      if (!more) return fail(more.error().message);
      if (!*more) return Next{};
    }
  }
};

Result<std::unique_ptr<Reader>> Reader::open(ReaderSettings settings) {
  const bool name = !settings.channel.empty() && settings.channel.find('/') == std::string::npos;
  if (!name) return failure("`" + settings.channel + "` is no channel's name");
  const bool fixed = settings.format.kind == Format::Kind::Fixed;
  if (fixed && (settings.format.bytes == 0 || settings.format.bytes > kLongest))
    return failure("records of a fixed size have 1 to 2^30 bytes");
  if (settings.folder.empty()) settings.folder = folder_of(settings.channel);
  return std::unique_ptr<Reader>(new Reader(std::make_unique<State>(std::move(settings))));
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::~Reader() = default;

Result<Next> Reader::next(milliseconds longest) { return state_->next(Clock::now() + longest); }

void Reader::move_to(const Position& position) {
  ReaderSettings settings = std::move(state_->settings);
  settings.start = position;
  state_ = std::make_unique<State>(std::move(settings));
}

const std::string& Reader::name() const { return state_->settings.channel; }
const Position& Reader::position() const { return state_->position; }

}  // namespace spotter::channel
