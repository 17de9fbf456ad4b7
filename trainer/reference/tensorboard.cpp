#include "trainer/reference/tensorboard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <chrono>
#include <cstring>
#include <string_view>

namespace spotter::train {

namespace {

constexpr const char* kFile = "events.out.tfevents.0.spotter";
constexpr std::size_t kFrame = 8 + 4 + 4;
constexpr std::uint32_t kMask = 0xa282ead8U;

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t masked_sum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return (sum >> 15 | sum << 17) + kMask;
}

void append_varint(std::string& bytes, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

// Protocol buffers: a field's number and wire type (0 varint, 1 eight bytes, 2 text, 5 four bytes).
void append_key(std::string& bytes, int field, int type) {
  append_varint(bytes, static_cast<std::uint64_t>(field << 3 | type));
}

void append_text(std::string& bytes, int field, std::string_view text) {
  append_key(bytes, field, 2);
  append_varint(bytes, text.size());
  bytes += text;
}

std::string event_head(std::uint64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  append_key(event, 1, 1);
  append(event, std::chrono::duration<double>(now).count());
  append_key(event, 2, 0);
  append_varint(event, step);
  return event;
}

// The head is written by ourselves: nine bytes of time, the key, then the step.
std::uint64_t step_of(std::string_view event) {
  std::uint64_t step = 0;
  int shift = 0;
  for (std::size_t at = 10; at < event.size() && shift < 64; ++at, shift += 7) {
    step |= static_cast<std::uint64_t>(event[at] & 0x7f) << shift;
    if ((event[at] & 0x80) == 0) break;
  }
  return step;
}

// The number of bytes with whole records of steps up to `step`, ending before that of `step` with
// the tag.
std::size_t good_length(std::string_view bytes, std::uint64_t step, std::string_view to_come) {
  std::size_t at = 0;
  while (bytes.size() - at >= kFrame) {
    std::uint64_t length = 0;
    std::uint32_t sum = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    std::memcpy(&sum, bytes.data() + at + 8, sizeof sum);
    if (sum != masked_sum(bytes.substr(at, 8)) || length > bytes.size() - at - kFrame) break;
    const std::string_view event = bytes.substr(at + 12, length);
    std::memcpy(&sum, event.data() + length, sizeof sum);
    if (sum != masked_sum(event) || step_of(event) > step) break;
    if (step_of(event) == step && !to_come.empty() && event.find(to_come) != event.npos) break;
    at += kFrame + length;
  }
  return at;
}

}  // namespace

std::string tensorboard_record(const std::string& event) {
  std::string record;
  append(record, static_cast<std::uint64_t>(event.size()));
  append(record, masked_sum(record));
  record += event;
  append(record, masked_sum(event));
  return record;
}

Result<std::unique_ptr<TensorBoard>> TensorBoard::open(const fs::path& directory,
                                                       std::uint64_t step,
                                                       const std::string& to_come) {
  TRY(checkpoint::make_directories(directory));
  const fs::path path = directory / kFile;
  checkpoint::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return checkpoint::system_failure("cannot open", path);
  const std::string bytes = TRY(checkpoint::read_whole(path));
  const std::size_t length = good_length(bytes, step, to_come);
  if (::ftruncate(file.get(), static_cast<off_t>(length)) != 0)
    return checkpoint::system_failure("cannot shorten", path);
  std::unique_ptr<TensorBoard> board(new TensorBoard(std::move(file), path));
  if (length == 0) {
    std::string first = event_head(0);
    append_text(first, 3, "brain.Event:2");
    board->pending_ = tensorboard_record(first);
  }
  return board;
}

void TensorBoard::add(std::uint64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    append_text(value, 1, tag);
    append_key(value, 2, 5);
    append(value, static_cast<float>(number));
    append_text(summary, 1, value);
  }
  std::string event = event_head(step);
  append_text(event, 5, summary);
  pending_ += tensorboard_record(event);
}

Result<void> TensorBoard::flush() {
  while (!pending_.empty()) {
    const auto written = ::write(file_.get(), pending_.data(), pending_.size());
    if (written < 0) return checkpoint::system_failure("cannot write", path_);
    pending_.erase(0, static_cast<std::size_t>(written));
  }
  if (::fsync(file_.get()) != 0) return checkpoint::system_failure("cannot sync", path_);
  return {};
}

}  // namespace spotter::train
