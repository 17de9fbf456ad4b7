#include "agent/data/fast_file/cache.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "agent/aws/s3/objects.hpp"

namespace spotter::fastfile {

Result<Tree> Tree::make(const std::vector<File>& files) {
  Tree tree;
  auto& nodes = tree.nodes_;
  nodes.emplace_back();
  std::unordered_map<std::string, Number> known{{"", root}};  // by path
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i].name;
    Number parent = root;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const bool last = end == path.size();
      const auto [at, added] =
          known.emplace(path.substr(0, end), static_cast<Number>(nodes.size()));
      if (added) {
        nodes.push_back({.name = path.substr(begin, end - begin), .parent = parent});
        nodes[parent].children.push_back(at->second);
        if (last) nodes.back().file = i;
      } else if (last || nodes[at->second].file) {
        return failure("the name " + at->first + " is that of a file and of another, or a folder");
      }
      parent = at->second;
      nodes[parent].modified = std::max(nodes[parent].modified, files[i].modified);
      begin = end + 1;
    }
    nodes[root].modified = std::max(nodes[root].modified, files[i].modified);
  }
  for (Node& node : nodes)
    std::ranges::sort(node.children, {},
                      [&](Number child) -> const std::string& { return nodes[child].name; });
  return tree;
}

std::optional<Tree::Number> Tree::find(Number folder, std::string_view name) const {
  const auto& children = nodes_[folder].children;
  const auto name_of = [this](Number child) -> std::string_view { return nodes_[child].name; };
  const auto found = std::ranges::lower_bound(children, name, {}, name_of);
  if (found == children.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

namespace {

// The kernel splits its own read-ahead into several requests, which may arrive out of order, and
// leaves out what it has.
constexpr std::uint64_t tolerance = 512U << 10;
constexpr std::size_t most_readers = 64;
constexpr std::uint64_t least_window = 2U << 20;
constexpr std::uint64_t growth = 2;
constexpr std::chrono::seconds forgotten{10};

using Clock = std::chrono::steady_clock;

// The first bytes of a file, in one request: most opened files are read on, or are short.
constexpr std::uint64_t first_piece = 1U << 20;
// After a jump: so much takes hardly longer than a page.
constexpr std::uint64_t jump_piece = 256U << 10;
// Part of the memory for reading ahead; the rest is for readers that jump.
constexpr std::uint64_t ahead_share(std::size_t capacity) { return capacity / 4 * 3; }

}  // namespace

const ReadAhead::Reader& ReadAhead::read(std::uint64_t begin, std::uint64_t bytes, bool waits,
                                         Instant now) {
  const std::uint64_t end = begin + bytes;
  const auto fits = [&](const Reader& reader) {
    return begin + tolerance >= reader.next && begin <= reader.next + tolerance;
  };
  // Takes the nearest, as two readers may be close to one another.
  auto found = readers_.end();
  const auto distance = [&](const Reader& reader) {
    return std::max(begin, reader.next) - std::min(begin, reader.next);
  };
  for (auto each = readers_.begin(); each != readers_.end(); ++each) {
    if (fits(*each) && (found == readers_.end() || distance(*each) < distance(*found)))
      found = each;
  }
  if (found == readers_.end()) {
    if (readers_.size() >= most_readers) readers_.pop_back();
    found = readers_.insert(readers_.end(), {.next = begin, .planned = end});
  }
  if (end > found->next) {
    found->run += end - std::max(begin, found->next);
    found->next = end;
  }
  found->planned = std::max(found->planned, found->next);
  if (reads_on(*found) && waits && begin >= found->grown) {
    found->window = std::min(std::max(growth * found->window, least_window), room_);
    found->grown = found->next + found->window;
  }
  found->seen = now;
  std::rotate(readers_.begin(), found, found + 1);
  return readers_.front();
}

std::uint64_t ReadAhead::window(const Reader& reader, Instant now) const {
  if (!reads_on(reader)) return 0;
  const auto alive = static_cast<std::uint64_t>(std::ranges::count_if(
      readers_, [&](const Reader& each) { return reads_on(each) && now - each.seen < forgotten; }));
  const std::uint64_t most = room_ / std::max<std::uint64_t>(1, alive);
  return std::min(most, std::max(least_window, reader.window));
}

// A range of one file, while it is in memory.
struct Cache::Piece {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::size_t size = 0;
  data::Memory::Piece memory;
  std::atomic<std::size_t> arrived = 0;
  bool whole = false;  // all of it is here and verified
  bool sums = false;   // must be verified before it is handed out
  bool ahead = false;  // no read has asked for it yet
  std::size_t served = 0;
  s3::Client::CallId call = 0;
  std::optional<s3::Failure> failed;
  std::list<std::uint64_t>::iterator used;

  std::uint64_t end() const { return begin + size; }
  bool is_here() const { return call == 0 && !failed && arrived == size; }
  bool has(std::uint64_t until) const {
    return whole || (!sums && arrived >= std::min<std::uint64_t>(until - begin, size));
  }
};

Cache::Cache(const std::vector<RemoteFile>& files, s3::Client& client, data::Memory memory)
    : files_(files),
      client_(client),
      memory_(std::move(memory)),
      longest_piece_(std::clamp(memory_.capacity() / 16, std::size_t{jump_piece}, s3::piece_bytes)),
      ahead_(ahead_share(memory_.capacity())) {
  std::uint64_t at = 0;
  for (const auto& file : files) {
    begins_.push_back(at);
    at += file.size;
  }
  begins_.push_back(at);
}

Cache::~Cache() {
  std::vector<s3::Client::CallId> calls;
  for (const auto& [file, check] : checks_)
    calls.insert(calls.end(), check.calls.begin(), check.calls.end());
  for (const auto& [at, piece] : pieces_) calls.push_back(piece.call);
  client_.drop(calls);
}

void Cache::erase(Pieces::iterator piece) {
  if (is_awaited(piece->second)) drop_check(piece->second.file);
  if (piece->second.call != 0) client_.drop(piece->second.call);
  memory_.give_back(piece->second.memory.region);
  used_.erase(piece->second.used);
  pieces_.erase(piece);
}

Cache::ReadId Cache::read(std::size_t file, std::uint64_t offset, std::size_t bytes, Done done) {
  assert(bytes > 0 && offset + bytes <= files_[file].size);
  const std::uint64_t begin = begins_[file] + offset;
  waiting_.push_back({++last_read_, file, begin, begin + bytes, std::move(done)});
  ahead_.read(begin, bytes, !is_there(begin, begin + bytes), Clock::now());
  return last_read_;
}

void Cache::forget(ReadId read) {
  waiting_.remove_if([read](const Read& each) { return each.id == read; });
}

Cache::Piece* Cache::piece_at(std::uint64_t position) {
  auto after = pieces_.upper_bound(position);
  if (after == pieces_.begin()) return nullptr;
  Piece& piece = std::prev(after)->second;
  return position < piece.end() ? &piece : nullptr;
}

bool Cache::is_there(std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t at = begin; at < end;) {
    const Piece* piece = piece_at(at);
    if (piece == nullptr || !piece->has(end)) return false;
    at = piece->end();
  }
  return true;
}

std::uint64_t Cache::next_begin(std::uint64_t position) const {
  const auto after = pieces_.upper_bound(position);
  return after == pieces_.end() ? begins_.back() : after->first;
}

// Empty files have no position.
std::size_t Cache::file_at(std::uint64_t position) const {
  const auto after = std::ranges::upper_bound(begins_, position);
  return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

// The oldest waiting read may take the memory of all others, so that one always makes progress.
bool Cache::may_leave(const Piece& piece, const Read* read) const {
  const auto needs = [&](const Read& each) {
    return each.begin < piece.end() && each.end > piece.begin;
  };
  if (read != nullptr && read->id == waiting_.front().id) return !needs(*read);
  return std::ranges::none_of(waiting_, needs);
}

bool Cache::make_room(std::size_t bytes, const Read* read) {
  for (const bool also_ahead : {false, true}) {
    if (also_ahead && read == nullptr) return false;
    for (auto each = used_.begin(); each != used_.end();) {
      const auto piece = pieces_.find(*each);
      ++each;  // erase() invalidates the old one
      if ((piece->second.ahead && !also_ahead) || !may_leave(piece->second, read)) continue;
      erase(piece);
      const auto room = memory_.take(bytes);
      if (room.memory == nullptr) continue;
      memory_.give_back(room.region);
      return true;
    }
  }
  return false;
}

bool Cache::fetch(std::size_t file, std::uint64_t begin, std::uint64_t end, bool ahead) {
  const auto memory = memory_.take(static_cast<std::size_t>(end - begin));
  if (memory.memory == nullptr) return false;
  const RemoteFile& object = files_[file];
  Piece& piece = pieces_[begin];
  piece.file = file;
  piece.begin = begin;
  piece.size = static_cast<std::size_t>(end - begin);
  piece.memory = memory;
  piece.ahead = ahead;
  piece.used = used_.insert(used_.end(), begin);
  s3::Request request{.bucket = object.bucket, .key = object.key};
  request.into = {memory.memory, piece.size};
  request.offset = begin - begins_[file];
  request.etag = object.etag;
  request.arrived = &piece.arrived;
  request.whole = piece.size == object.size;
  if (object.checksum && request.whole) request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  if (object.checksum && !request.whole && request.offset == 0) begin_check(file);
  piece.sums =
      object.checksum && (request.whole || (checks_.contains(file) && end == begins_[file + 1]));
  piece.call = client_.start(std::move(request),
                             [this, &piece](const auto& answer) { arrived(piece, answer); });
  return true;
}

s3::Failure Cache::corrupt(std::size_t file) const {
  return {
      .kind = s3::Failure::Kind::Corrupt, .bucket = files_[file].bucket, .key = files_[file].key};
}

void Cache::arrived(Piece& piece, const Result<s3::Answer, s3::Failure>& answer) {
  piece.call = 0;
  ended_.push_back(piece.begin);
  if (!answer) {
    piece.failed = answer.error();
    return;
  }
  const bool at_once = piece.size == files_[piece.file].size;
  piece.whole = !piece.sums || at_once || !checks_.contains(piece.file);
  if (!at_once) return go_on(piece.file);
  if (!piece.sums) return;
  const s3::Checksum checksum = s3::checksum_of(*answer);
  if (checksum.lacks_borders()) {  // of an upload in parts: S3 has to say where they begin
    piece.whole = false;
    return begin_check(piece.file);
  }
  s3::Digest digest(checksum);
  digest.add({piece.memory.memory, piece.size});
  if (!digest.matches()) piece.failed = corrupt(piece.file);
}

void Cache::begin_check(std::size_t file) {
  const RemoteFile& object = files_[file];
  if (!checks_.emplace(file, Check{.next = begins_[file]}).second) return;
  s3::ask_for_checksum(
      client_, {object.bucket, object.key, object.size, object.etag, {}},
      [this, file](s3::Client::CallId call) { checks_.at(file).calls.push_back(call); },
      [this, file](Result<s3::Checksum, s3::Failure> answer) {
        if (!answer) broken_.emplace(file, answer.error());
        const bool none = !answer || answer->header.empty();
        if (none || answer->lacks_borders()) return drop_check(file);
        checks_.at(file).digest.emplace(std::move(*answer));
        go_on(file);
      });
}

// Adds to the digest what has arrived in the file's order.
void Cache::go_on(std::size_t file) {
  const auto found = checks_.find(file);
  if (found == checks_.end() || !found->second.digest) return;
  auto& [next, digest, calls] = found->second;
  for (Piece* piece = piece_at(next); piece != nullptr && piece->begin == next && piece->is_here();
       piece = piece_at(next)) {
    digest->add({piece->memory.memory, piece->size});
    next = piece->end();
    ended_.push_back(piece->begin);  // it may have been handed out
    if (next < begins_[file + 1]) continue;
    piece->whole = digest->matches();
    if (!piece->whole) {
      piece->failed = corrupt(file);
      spoiled_.insert(file);  // the piece may be fetched again, and is then compared with nothing
    }
    checks_.erase(found);
    return;
  }
}

// The file is not read from begin to end, or S3 has no checksum after all.
void Cache::drop_check(std::size_t file) {
  const auto found = checks_.find(file);
  if (found == checks_.end()) return;
  client_.drop(found->second.calls);
  checks_.erase(found);
  Piece* last = piece_at(begins_[file + 1] - 1);
  if (last != nullptr && last->is_here()) last->whole = true;
}

bool Cache::is_awaited(const Piece& piece) const {
  const auto check = checks_.find(piece.file);
  return check != checks_.end() && piece.begin >= check->second.next;
}

// All that the check still lacks is here or under way.
bool Cache::can_end(std::size_t file) {
  const auto check = checks_.find(file);
  if (check == checks_.end()) return true;
  for (std::uint64_t at = check->second.next; at < begins_[file + 1];) {
    const Piece* piece = piece_at(at);
    if (piece == nullptr || piece->begin != at) return false;
    at = piece->end();
  }
  return true;
}

bool Cache::fetch_for(const Read& read, std::uint64_t position) {
  // A short file is fetched whole, wherever it is read.
  const std::uint64_t begin = begins_[read.file];
  if (files_[read.file].size <= std::min<std::uint64_t>(first_piece, longest_piece_) &&
      piece_at(begin) == nullptr && next_begin(begin) >= begins_[read.file + 1])
    position = begin;
  const std::uint64_t least = position == begins_[read.file] ? first_piece : jump_piece;
  const std::uint64_t wanted = std::max(read.end - position, least);
  const std::uint64_t end = std::min({position + std::min<std::uint64_t>(wanted, longest_piece_),
                                      begins_[read.file + 1], next_begin(position)});
  return fetch(read.file, position, end, false) ||
         (make_room(static_cast<std::size_t>(end - position), &read) &&
          fetch(read.file, position, end, false));
}

// True: the read was answered.
bool Cache::step(const Read& read) {
  if (const auto broken = broken_.find(read.file); broken != broken_.end()) {
    read.done({}, &broken->second);
    return true;
  }
  if (spoiled_.contains(read.file) && read.end == begins_[read.file + 1]) {
    read.done({}, &broken_.emplace(read.file, corrupt(read.file)).first->second);
    return true;
  }
  bool ready = true;
  for (std::uint64_t at = read.begin; at < read.end;) {
    Piece* piece = piece_at(at);
    if (piece == nullptr) {
      if (!fetch_for(read, at)) return false;
      piece = piece_at(at);
    }
    piece->ahead = false;
    if (piece->failed) {
      read.done({}, &broken_.emplace(read.file, *piece->failed).first->second);
      return true;
    }
    ready = ready && piece->has(read.end);
    at = piece->end();
  }
  // A reader that jumps to the end does not wait for bytes that nobody asks for.
  const Piece* last = ready ? nullptr : piece_at(begins_[read.file + 1] - 1);
  if (last != nullptr && last->begin < read.end && !can_end(read.file)) {
    drop_check(read.file);
    ready = is_there(read.begin, read.end);
  }
  if (ready) hand_out(read);
  return ready;
}

void Cache::hand_out(const Read& read) {
  std::vector<iovec> bytes;
  for (std::uint64_t at = read.begin; at < read.end;) {
    Piece& piece = *piece_at(at);
    const auto offset = static_cast<std::size_t>(at - piece.begin);
    const auto size = static_cast<std::size_t>(std::min(read.end, piece.end()) - at);
    bytes.push_back({piece.memory.memory + offset, size});
    piece.served += size;
    at += size;
  }
  read.done(bytes, nullptr);
  for (std::uint64_t at = read.begin; at < read.end;) {
    Piece& piece = *piece_at(at);
    at = piece.end();
    if (piece.served >= piece.size && piece.whole && !is_awaited(piece)) {
      erase(pieces_.find(piece.begin));
    } else {
      used_.splice(used_.end(), used_, piece.used);
    }
  }
}

// Drops pieces fetched ahead that failed, silently: a read fetches them again. Also drops pieces
// that were handed out while their last bytes arrived.
void Cache::clear_ended() {
  for (const auto begin : ended_) {
    const auto found = pieces_.find(begin);
    if (found == pieces_.end() || found->second.call != 0) continue;
    const Piece& piece = found->second;
    if (piece.failed || (piece.served >= piece.size && !is_awaited(piece))) erase(found);
  }
  ended_.clear();
}

// False: there is no memory now, or enough requests are under way.
bool Cache::plan_for(ReadAhead::Reader& reader, std::uint64_t window) {
  const std::uint64_t limit = std::min(reader.next + window, begins_.back());
  const std::uint64_t longest =
      std::min<std::uint64_t>(longest_piece_, std::max<std::uint64_t>(window / 2, jump_piece));
  while (reader.planned < limit) {
    const std::uint64_t begin = reader.planned;
    if (const Piece* there = piece_at(begin)) {
      reader.planned = there->end();
      continue;
    }
    const std::size_t file = file_at(begin);
    const std::uint64_t border = std::min(begins_[file + 1], next_begin(begin));
    const std::uint64_t end = std::min(begin + longest, border);
    if (end > limit && end != border) return true;  // waits until a whole piece is wanted
    if (client_.under_way() >= client_.width() + client_.width() / 2 + 4) return false;
    const auto size = static_cast<std::size_t>(end - begin);
    if (!fetch(file, begin, end, true) &&
        !(make_room(size, nullptr) && fetch(file, begin, end, true)))
      return false;
    reader.planned = end;
  }
  return true;
}

void Cache::plan() {
  const auto now = Clock::now();
  for (auto& reader : ahead_.readers()) {
    const auto window = ahead_.window(reader, now);
    if (window > 0 && !plan_for(reader, window)) return;
  }
}

void Cache::advance() {
  for (auto read = waiting_.begin(); read != waiting_.end();)
    read = step(*read) ? waiting_.erase(read) : std::next(read);
  clear_ended();
  plan();
}

}  // namespace spotter::fastfile
