#include "agent/wire/output.hpp"

#include <algorithm>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

constexpr std::uint64_t format = 1;

}  // namespace

Mask::Mask(const std::vector<std::string>& secrets) : secrets_(secrets) {
  std::erase_if(secrets_, [](const std::string& it) { return it.size() < shortest; });
  // One may be a part of another.
  std::ranges::sort(secrets_, std::greater(), &std::string::size);
}

void Mask::cut() {
  text_.clear();
  cut_ = true;
}

// The longest end of the text that begins a secret.
std::size_t Mask::waiting() const {
  std::size_t longest = 0;
  for (const std::string& secret : secrets_)
    for (std::size_t size = std::min(secret.size() - 1, text_.size()); size > longest; --size)
      if (text_.ends_with(std::string_view(secret).substr(0, size))) longest = size;
  return longest;
}

// The longest beginning of the text that ends a secret.
std::size_t Mask::end_of_secret() const {
  std::size_t longest = 0;
  for (const std::string& secret : secrets_)
    for (std::size_t size = std::min(secret.size() - 1, text_.size());
         size > std::max(longest, shortest - 1); --size)
      if (text_.starts_with(std::string_view(secret).substr(secret.size() - size))) longest = size;
  return longest;
}

std::string Mask::feed(std::string_view bytes) {
  if (bytes.empty()) return {};
  text_ += bytes;
  if (std::exchange(cut_, false))
    if (const std::size_t size = end_of_secret(); size > 0) text_.replace(0, size, "***");
  for (const std::string& secret : secrets_)
    for (auto at = text_.find(secret); at != text_.npos; at = text_.find(secret, at))
      text_.replace(at, secret.size(), "***");
  std::string said = text_.substr(0, text_.size() - waiting());
  text_.erase(0, said.size());
  return said;
}

void TerminalLines::end_line(std::string& lines) {
  if (!std::exchange(skips_, false)) {
    for (const std::string& cell : cells_) lines += cell;
    lines += '\n';
  }
  cells_.clear();
  column_ = 0;
}

void TerminalLines::take_text(char byte) {
  const bool continues = (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  if (continues && column_ > 0 && cells_[column_ - 1].size() < 4) {
    cells_[column_ - 1] += byte;
    return;
  }
  if (column_ == cells_.size()) cells_.emplace_back();
  cells_[column_++] = std::string(1, byte);
}

// Erasing in the line is what progress bars do beside a carriage return.
void TerminalLines::end_sequence(char last) {
  state_ = State::Text;
  if (last != 'K' || parameters_ == "1") return;
  if (parameters_ == "2") {
    cells_.assign(column_, " ");
  } else {
    cells_.resize(column_);
  }
}

void TerminalLines::take(char byte, std::string& lines) {
  if (byte == '\n') {
    state_ = State::Text;
    return end_line(lines);
  }
  switch (state_) {
    case State::Escape:
      parameters_.clear();
      state_ = byte == '[' ? State::Sequence : byte == ']' ? State::Command : State::Text;
      return;
    case State::Sequence:
      if (byte >= '@' && byte <= '~') return end_sequence(byte);
      if (parameters_.size() < 16) parameters_ += byte;
      return;
    case State::Command:
      if (byte == '\a') state_ = State::Text;
      if (byte == '\x1b') state_ = State::Escape;
      return;
    case State::Text:
      break;
  }
  if (byte == '\x1b') state_ = State::Escape;
  if (byte == '\r') column_ = 0;
  if (byte == '\b' && column_ > 0) --column_;
  if ((static_cast<unsigned char>(byte) < ' ' && byte != '\t') || byte == '\x7f') return;
  take_text(byte);
  if (cells_.size() >= longest && column_ == cells_.size()) {
    const bool skips = skips_;
    end_line(lines);
    skips_ = skips;
  }
}

std::string TerminalLines::feed(std::string_view bytes) {
  std::string lines;
  for (const char byte : bytes) take(byte, lines);
  return lines;
}

std::string TerminalLines::rest() {
  std::string lines;
  if (!cells_.empty()) end_line(lines);
  return lines;
}

void TerminalLines::skip_to_next_line() {
  cells_.clear();
  column_ = 0;
  state_ = State::Text;
  skips_ = true;
}

std::string to_line(const OutputRecord& record) { return json_text(object_of(record)) + "\n"; }

std::optional<OutputPiece> parse_output(std::string_view bytes) {
  std::optional<OutputPiece> piece;
  while (!bytes.empty()) {
    const std::string_view line = take_until(bytes, '\n');
    const Json json = parsed_json(line);
    if (piece) {
      OutputRecord record;
      if (read_record(json, record).empty()) piece->records.push_back(std::move(record));
      continue;
    }
    if (!json.is_object()) return std::nullopt;
    piece.emplace();
    if (const auto later = newer(json, "version", format, "its output")) {
      piece->newer = later->message;
      return piece;
    }
    if (!read_record(json, *piece).empty()) return std::nullopt;
  }
  return piece;
}

std::uint64_t OutputPieces::slot_of(std::uint64_t piece) {
  return piece < first_pieces ? piece : first_pieces + (piece - first_pieces) % last_pieces;
}

void OutputPieces::put(const OutputRecord& record) {
  const std::string line = to_line(record);
  if (!bytes_.empty() && bytes_.size() + line.size() > piece_bytes) {
    full_[slot_of(number_++)] = std::exchange(bytes_, {});
  }
  if (bytes_.empty())
    bytes_ = document_of(OutputPiece{.job = job_, .number = number_, .records = {}, .newer = {}},
                         format);
  bytes_ += line;
  changed_ = true;
}

// A record that fits into no piece is parted behind a line.
void OutputPieces::add(OutputRecord record) {
  constexpr std::size_t most = piece_bytes / 8;  // JSON makes six bytes of one at most
  while (record.text.size() > most) {
    auto end = record.text.rfind('\n', most);
    end = end == record.text.npos ? record.text.find('\n') : end;
    if (end == record.text.npos || end + 1 == record.text.size()) break;
    put({record.time, record.text.substr(0, end + 1), 0, std::nullopt});
    record.text.erase(0, end + 1);
  }
  put(record);
}

std::map<std::uint64_t, std::string> OutputPieces::take_changed() {
  auto changed = std::exchange(full_, {});
  if (std::exchange(changed_, false)) changed[slot_of(number_)] = bytes_;
  return changed;
}

std::string to_text(const OutputName& name) {
  return name.attempt + printed("-%02llu.jsonl", static_cast<unsigned long long>(name.slot));
}

std::optional<OutputName> parse_output_name(std::string_view text) {
  constexpr std::string_view end = ".jsonl";
  const auto dash = text.rfind('-');
  if (!text.ends_with(end) || dash == text.npos || dash == 0) return std::nullopt;
  const auto digits = text.substr(dash + 1, text.size() - dash - 1 - end.size());
  if (digits.size() != 2 || digits.find_first_not_of("0123456789") != digits.npos)
    return std::nullopt;
  const auto slot = static_cast<std::uint64_t>((digits[0] - '0') * 10 + digits[1] - '0');
  return OutputName{std::string(text.substr(0, dash)), slot};
}

void OutputReader::add(const std::string& attempt, const OutputPiece& piece) {
  Attempt& its = attempts_[attempt];
  if (piece.number >= its.number) its.pieces[piece.number] = piece.records;
}

std::vector<OutputReader::Said> OutputReader::next() {
  std::vector<Said> all;
  for (auto& [name, its] : attempts_) {
    while (!its.pieces.empty()) {
      const auto& [number, records] = *its.pieces.begin();
      if (number > its.number) {  // the ring was faster than the reader
        const std::uint64_t bytes = (number - its.number) * OutputPieces::piece_bytes;
        const double time = records.empty() ? 0 : records.front().time;
        all.push_back({name, {time, "", bytes, std::nullopt}});
        its.number = number;
        its.said = 0;
      }
      for (; its.said < records.size(); ++its.said) all.push_back({name, records[its.said]});
      if (its.pieces.size() == 1) break;  // it may grow
      its.pieces.erase(its.pieces.begin());
      ++its.number;
      its.said = 0;
    }
  }
  return all;
}

}  // namespace spotter::wire
