#include "agent/data/stream.hpp"

#include <algorithm>
#include <deque>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/io/files.hpp"
#include "trainer/library/recordio.hpp"

namespace spotter::data {

// Parts of Stream that only its own sources share.

// A range of an object, while it is in memory.
struct Stream::Chunk {
  std::string bucket;
  std::string key;
  std::string etag;
  std::string object() const { return bucket + "/" + key; }
  std::optional<s3::Checksum> known;  // of a large object, in its first chunk, once S3 has sent it
  bool first = false;
  bool last = false;  // of its object
  bool sums = false;  // S3 has a checksum of a large object: a request of its own gets it
  std::size_t size = 0;
  Memory::Piece piece;
  std::atomic<std::size_t> arrived = 0;
  bool whole = false;     // all its bytes are here
  bool verified = false;  // compared with S3's checksum, as far as possible at this chunk
  std::size_t sent = 0;
  std::uint64_t spliced = 0;  // the stream's position up to which its own pages were moved
  std::string before;         // a record's header
  std::string after;          // its padding
  s3::Checksum checksum;
  s3::Client::CallId call = 0;
};

struct Stream::Epoch {
  Epoch(std::uint64_t number_, Fifo fifo_) : number(number_), fifo(std::move(fifo_)) {}

  std::uint64_t number;
  Fifo fifo;
  std::vector<std::uint32_t> order;  // of a shuffled channel
  std::size_t next = 0;              // the next object to plan, in the epoch's order
  std::uint64_t offset = 0;          // in it
  std::uint64_t skip = 0;  // bytes of the stream that are not planned: the reader has read them
  std::uint64_t drop = 0;  // bytes at the begin of what is planned that the reader has read, too
  std::deque<Chunk> chunks;
  std::vector<s3::Client::CallId> asked;
  s3::Digest digest{{}};
  std::string staged;          // bytes outside the memory, to be sent before all else
  std::string record;          // a gzip object that is to become one record
  std::uint64_t unpacked = 0;  // of the gzip object that is being sent
  std::uint64_t written = 0;   // into the FIFO
  struct InPipe {
    Memory::Region region;
    std::size_t size;
    std::uint64_t end;  // of `written`
  };
  std::deque<InPipe> in_pipe;
};

namespace fs = std::filesystem;

std::optional<Position> parse_position(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto epoch = wire::parse_count(text.substr(0, colon));
  const auto bytes = wire::parse_count(text.substr(colon + 1));
  if (!epoch || !bytes) return std::nullopt;
  return Position{*epoch, *bytes};
}

Result<Requests> Requests::make(const fs::path& fifos) {
  const fs::path folder = fifos / ".start";
  std::error_code wrong;
  fs::remove_all(folder, wrong);
  if (!wrong) fs::create_directory(folder, wrong);
  if (wrong) return failure("cannot make " + folder.string() + ": " + wrong.message());
  return Requests(folder);
}

Requests::~Requests() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<std::optional<Position>> Requests::asked(const std::string& channel) const {
  constexpr std::size_t longest = 100;
  const auto text = io::read_file(folder_ / channel, longest);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!text) return failure((folder_ / channel).string() + ": " + text.error().message());
  // Without a newline a shell is still writing it; inotify will report the end of that.
  if (!text->ends_with('\n')) return std::nullopt;
  const auto position = parse_position(std::string_view(*text).substr(0, text->size() - 1));
  if (!position) return failure((folder_ / channel).string() + " is not EPOCH:BYTES");
  return position;
}

void Requests::answer(const std::string& channel) const {
  std::error_code ignored;
  fs::remove(folder_ / channel, ignored);
}

namespace {

// The part of the next epoch that is fetched before a reader opens it.
constexpr std::size_t ahead_of_the_reader = 16U << 20;
constexpr std::size_t most_chunks = 8192;  // also limits chunks that use none of our memory
// A reader may take so much at once without waiting: a block of 16 MiB, as in AWS's example. More
// would leave the processor's caches before it is read.
constexpr std::size_t least_ahead = 16U << 20;
// A tenth of a second of what one processor takes from TLS: a busy machine's rates make windows
// grow that give nothing, and clearing their memory costs as much as decrypting what comes into it.
constexpr std::size_t most_ahead = 80U << 20;
// So that as many slow connections as a network bears fit into it, each with one.
constexpr std::size_t most_piece = 2U << 20;
// Requests beyond the client's places, by which the client sees that more are wanted.
constexpr std::size_t waiting = 2;
constexpr std::size_t least_pieces = 4;  // that fit into the memory
// The windows of answers that a slow one may hold up.
constexpr std::size_t pieces_ahead = 2;

std::filesystem::path beside(std::filesystem::path listing) {
  return listing.empty() ? listing : listing.replace_extension(".unpacked");
}

// Writes a stream's bytes from memory into the pipe.

constexpr std::size_t page = 4096;
constexpr std::size_t staged_at_most = 1U << 20;
// More than a pipe of ours holds: once so much was written after a page, the page was read.
constexpr std::size_t pipe_at_most = 1U << 20;

}  // namespace

Result<std::unique_ptr<Stream>> Stream::make(StreamSettings settings, s3::Client& client,
                                             Callbacks callbacks) {
  // The rest is for the program itself.
  auto memory = TRY(Memory::make(settings.budget - settings.budget / 16));
  std::unique_ptr<Stream> stream(
      new Stream(std::move(settings), client, std::move(callbacks), std::move(memory)));
  TRY(stream->make_epochs());
  stream->catalogue_.begin(client, [it = stream.get()] { return it->needed_first(); });
  return stream;
}

Result<void> Stream::make_epochs() {
  for (auto* epoch : {&current_, &following_}) {
    *epoch = TRY(make_epoch(settings_.start.epoch + (epoch == &following_ ? 1 : 0)));
  }
  current_->skip = settings_.start.bytes;
  return {};
}

bool Stream::begin_at(Position start) {
  const auto is_read = [this] {
    return current_->fifo.has_reader() || following_->fifo.has_reader();
  };
  if (failed_) return true;
  if (is_read()) return false;
  const bool first = current_->number == settings_.start.epoch;
  const Position now{current_->number, first ? settings_.start.bytes : 0};
  if (start == now && current_->written == 0) return true;  // keeps what was fetched
  for (auto* epoch : {current_.get(), following_.get()}) epoch->fifo.remove_name();
  if (is_read()) {
    fail("somebody reads it whose begin was not asked for");
    return true;
  }
  drop(*current_);
  drop(*following_);
  settings_.start = start;
  if (auto made = make_epochs(); !made) fail(made.error().message);
  catalogue_.reorder();
  return true;
}

Stream::Stream(StreamSettings settings, s3::Client& client, Callbacks callbacks, Memory memory)
    : settings_(std::move(settings)),
      client_(client),
      callbacks_(std::move(callbacks)),
      memory_(std::move(memory)),
      catalogue_(settings_.channel, settings_.frozen),
      unpacked_(Fetched::open(settings_.channel.gzip ? beside(settings_.frozen) : fs::path())
                    .value_or(*Fetched::open({}))) {}

Stream::~Stream() {
  for (auto* epoch : {current_.get(), following_.get()}) {
    if (epoch == nullptr) continue;
    epoch->fifo.remove_name();
    client_.drop(calls_of(*epoch));
  }
  catalogue_.abandon();
}

std::vector<s3::Client::CallId> Stream::calls_of(const Epoch& epoch) {
  std::vector<s3::Client::CallId> calls(epoch.asked.begin(), epoch.asked.end());
  for (const Chunk& chunk : epoch.chunks) calls.push_back(chunk.call);
  return calls;
}

std::string Stream::name_of(const Epoch& epoch) const {
  return settings_.channel.name + "_" + std::to_string(epoch.number);
}

Result<std::unique_ptr<Stream::Epoch>> Stream::make_epoch(std::uint64_t number) const {
  const std::string name = settings_.channel.name + "_" + std::to_string(number);
  auto fifo = TRY(Fifo::make(settings_.directory / name));
  callbacks_.made(name, fifo.descriptor());
  return std::make_unique<Epoch>(number, std::move(fifo));
}

void Stream::fail(const std::string& what) {
  if (!failed_) failed_ = "channel " + settings_.channel.name + ": " + what;
}

bool Stream::is_planned(const Epoch& epoch) const {
  return catalogue_.counted() && epoch.next >= share(units(), settings_.shard) * unit_size();
}

// The number of entries that are shuffled and split into shards as one: an object, or a line of an
// augmented manifest.
std::size_t Stream::unit_size() const {
  return std::max<std::size_t>(1, settings_.channel.attributes.size());
}

std::size_t Stream::units() const { return catalogue_.entries().size() / unit_size(); }

// Null: all are planned, or the listing has not come so far. A shuffled epoch needs all names, and
// is sharded after the shuffle, so that an instance gets another part each epoch.
const Entry* Stream::next_entry(Epoch& epoch) const {
  const auto& entries = catalogue_.entries();
  const auto& shard = settings_.shard;
  std::size_t unit = epoch.next / unit_size() * shard.count + shard.index;
  if (settings_.channel.shuffle_seed) {
    if (!catalogue_.counted() || is_planned(epoch)) return nullptr;
    if (epoch.order.empty())
      epoch.order = shuffled(units(), *settings_.channel.shuffle_seed, epoch.number);
    unit = epoch.order[unit];
  }
  const std::size_t index = unit * unit_size() + epoch.next % unit_size();
  // Entries of a manifest become known in any order.
  const bool there = index < entries.size() && entries[index].known();
  return there ? &entries[index] : nullptr;
}

// The manifest's objects with which this epoch begins: looking at a million others takes long.
std::vector<std::uint32_t> Stream::needed_first() const {
  const auto& shard = settings_.shard;
  const auto& seed = settings_.channel.shuffle_seed;
  std::vector<std::uint32_t> order;
  if (!seed && shard.count == 1) return order;
  const auto by_epoch = seed ? shuffled(units(), *seed, current_->number) : order;
  for (std::size_t part = 0; part < shard.count; ++part) {
    for (std::size_t i = (shard.index + part) % shard.count; i < units(); i += shard.count) {
      const std::size_t unit = seed ? by_epoch[i] : i;
      for (std::size_t k = 0; k < unit_size(); ++k)
        order.push_back(static_cast<std::uint32_t>(unit * unit_size() + k));
    }
  }
  return order;
}

void Stream::plan(Epoch& epoch, std::size_t limit) {
  while (!failed_ && memory_.used() - in_pipe_ < limit && epoch.chunks.size() < most_chunks &&
         client_.under_way() < client_.width() + waiting) {
    const Entry* entry = next_entry(epoch);
    if (entry == nullptr) return;
    skip(epoch, *entry);
    const bool skipped = epoch.offset == 0 && next_entry(epoch) != entry;
    if (!skipped && !plan_one(epoch, *entry)) return;
  }
}

// Fetches nothing of an object that the reader has read. Begins in the middle of one by a ranged
// request; what is packed or framed is fetched whole, and its begin dropped.
void Stream::skip(Epoch& epoch, const Entry& entry) const {
  const auto& channel = settings_.channel;
  if (epoch.skip == 0 || epoch.offset != 0) return;
  const bool packed = channel.gzip && !entry.value;
  std::optional<std::uint64_t> size = entry.size;
  if (packed) {
    const auto known = unpacked_.files().find(entry.etag);
    size = known == unpacked_.files().end() ? std::nullopt : std::optional(known->second.size);
  }
  const std::uint64_t bytes =
      channel.recordio ? wire::record_size(size.value_or(0)) : size.value_or(0);
  if (size && epoch.skip >= bytes) {
    epoch.skip -= bytes;
    ++epoch.next;
  } else {
    const bool whole = channel.recordio || channel.gzip || entry.value;
    (whole ? epoch.drop : epoch.offset) = std::exchange(epoch.skip, 0);
  }
}

// Plans bytes that are here already.
bool Stream::plan_value(Epoch& epoch, const std::string& value) {
  Chunk& chunk = epoch.chunks.emplace_back();
  chunk.first = chunk.last = chunk.whole = chunk.verified = true;
  chunk.before = settings_.channel.recordio ? wire::whole_record(value) : value;
  ++epoch.next;
  return true;
}

bool Stream::plan_one(Epoch& epoch, const Entry& entry) {
  if (entry.value) return plan_value(epoch, *entry.value);
  const auto& channel = settings_.channel;
  const bool framed = channel.recordio && !channel.gzip;
  if (framed && entry.size > wire::longest_record) {
    fail(wire::to_url({bucket_of(entry, channel), entry.key}) +
         " is too large for one RecordIO record: 512 MiB at most");
    return false;
  }
  const std::uint64_t offset = epoch.offset;
  const std::size_t most = std::min(memory_.capacity() / least_pieces, most_piece);
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(most, entry.size - offset));
  Memory::Piece piece;
  if (size > 0) {
    piece = memory_.take(size);
    starved_ = piece.memory == nullptr;
    if (starved_) return false;
  }
  Chunk& chunk = epoch.chunks.emplace_back();
  chunk.bucket = bucket_of(entry, channel);
  chunk.key = entry.key;
  chunk.etag = entry.etag;
  chunk.size = size;
  chunk.piece = piece;
  chunk.first = offset == 0;
  chunk.last = offset + size == entry.size;
  if (framed && chunk.first) chunk.before = wire::record_header(entry.size);
  if (framed && chunk.last) chunk.after.assign(wire::record_padding(entry.size), '\0');
  chunk.whole = chunk.verified = size == 0;
  if (size > 0) fetch(epoch, chunk, entry, offset);
  epoch.offset = chunk.last ? 0 : offset + size;
  if (chunk.last) ++epoch.next;
  return true;
}

void Stream::fetch(Epoch& epoch, Chunk& chunk, const Entry& entry, std::uint64_t offset) {
  s3::Request request{.bucket = chunk.bucket, .key = entry.key};
  request.into = {chunk.piece.memory, chunk.size};
  request.offset = offset;
  request.arrived = &chunk.arrived;
  request.etag = entry.etag;
  request.whole = chunk.first && chunk.last;
  if (request.whole) {
    request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  } else if (chunk.first && entry.checksum) {
    ask_for_checksum(epoch, chunk, entry.size);
  }
  chunk.call = client_.start(std::move(request), [this, &epoch, &chunk](const auto& answer) {
    if (!answer) return fail(answer.error().text());
    chunk.whole = true;
    if (!chunk.first || !chunk.last) return;
    chunk.checksum = s3::checksum_of(*answer);
    if (chunk.checksum.lacks_borders()) ask_for_checksum(epoch, chunk, chunk.size);
  });
}

void Stream::ask_for_checksum(Epoch& epoch, Chunk& chunk, std::uint64_t object_bytes) {
  chunk.sums = true;
  s3::ask_for_checksum(
      client_, {chunk.bucket, chunk.key, object_bytes, chunk.etag, {}},
      [&epoch](s3::Client::CallId call) { epoch.asked.push_back(call); },
      [this, &chunk](Result<s3::Checksum, s3::Failure> checksum) {
        if (!checksum) return fail(checksum.error().text());
        chunk.known = std::move(*checksum);
      });
}

void Stream::advance() {
  if (catalogue_.failed() && !failed_) failed_ = catalogue_.failed();
  if (failed_) return;
  measure();
  full_ = draining_ = false;
  take_following();
  // Each send into the pipe makes room for more, and no event would call this again.
  for (bool sent = true; sent && !failed_;) {
    reclaim(*current_);
    starved_ = false;
    plan_ahead();
    sent = false;
    while (!failed_ && !full_ && emit()) sent = true;
  }
}

// Counts the time since the last turn: what was lacking then came in this turn at the earliest.
void Stream::measure() {
  const auto now = std::chrono::steady_clock::now();
  if (hungry_since_) stalled_ += now - *hungry_since_;
  const bool hungry =
      !full_ && !draining_ && current_->fifo.has_reader() && current_->fifo.unread() == 0;
  hungry_since_ = hungry ? std::optional(now) : std::nullopt;
}

void Stream::plan_ahead() {
  const std::size_t ahead =
      std::clamp(pieces_ahead * client_.width() * most_piece, least_ahead, most_ahead);
  plan(*current_, ahead);
  if (is_planned(*current_)) plan(*following_, std::min(ahead, ahead_of_the_reader));
}

// If the reader has left this epoch and opened the next one, goes on to that.
void Stream::take_following() {
  const auto left = [this] {
    return !current_->fifo.has_reader() && following_->fifo.has_reader();
  };
  if (!left()) return;
  current_->fifo.remove_name();
  if (!left()) return;  // a reader opened it in between
  drop(*current_);
  follow();
}

void Stream::drop(Epoch& epoch) {
  client_.drop(calls_of(epoch));
  for (auto& chunk : epoch.chunks) {
    if (chunk.piece.memory != nullptr) memory_.give_back(chunk.piece.region);
  }
  // They cannot be read any more: no reader is left, and the name is gone.
  for (const auto& each : epoch.in_pipe) memory_.give_back(each.region);
  in_pipe_ = 0;
  (void)gunzip_.end();
  callbacks_.ended(name_of(epoch));
}

void Stream::follow() {
  current_ = std::move(following_);
  auto next = make_epoch(current_->number + 1);
  if (next) {
    following_ = std::move(*next);
  } else {
    fail(next.error().message);
  }
}

pollfd Stream::poll_for() const {
  const bool waits = full_ && !failed_ && current_->fifo.has_reader();
  return {waits ? current_->fifo.descriptor() : -1, POLLOUT, 0};
}

// Frees pages whose bytes were read. Asking takes the pipe's lock, which the reader holds while it
// copies, so it is done only when it pays.
void Stream::reclaim(Epoch& epoch) {
  if (epoch.in_pipe.empty()) return;
  const bool needed = starved_ || draining_;
  if (!needed && epoch.written - epoch.in_pipe.front().end < 2 * pipe_at_most) return;
  const std::uint64_t read = epoch.written - epoch.fifo.unread();
  while (!epoch.in_pipe.empty() && epoch.in_pipe.front().end <= read) {
    memory_.give_back(epoch.in_pipe.front().region);
    in_pipe_ -= epoch.in_pipe.front().size;
    epoch.in_pipe.pop_front();
  }
}

bool Stream::emit() {
  Epoch& epoch = *current_;
  if (!epoch.staged.empty()) return send_staged();
  if (epoch.chunks.empty()) return is_planned(epoch) && end_epoch();
  Chunk& chunk = epoch.chunks.front();
  if (!chunk.before.empty()) {
    epoch.staged = std::exchange(chunk.before, {});
    return true;
  }
  if (!emit_chunk(chunk)) return !epoch.staged.empty();
  finish_chunk();
  return true;
}

bool Stream::emit_chunk(Chunk& chunk) {
  if (chunk.whole) verify(chunk);
  // The last bytes are sent only once they are verified: a damaged object never ends.
  const std::size_t until =
      chunk.verified ? chunk.size : std::min(chunk.arrived.load(), chunk.size - 1) / page * page;
  if (settings_.channel.gzip) {
    unpack(chunk, until);
  } else if (!send_bytes(chunk, until)) {
    return false;
  }
  return chunk.verified && chunk.sent == chunk.size && !failed_ &&
         (!settings_.channel.gzip || current_->staged.empty());
}

void Stream::verify(Chunk& chunk) {
  if (chunk.verified || failed_) return;
  Epoch& epoch = *current_;
  if (chunk.first) {
    if (chunk.sums && !chunk.known) return;  // S3 has not answered yet
    epoch.digest = s3::Digest(chunk.sums ? *chunk.known : chunk.checksum);
  }
  epoch.digest.add({chunk.piece.memory, chunk.size});
  if (chunk.last && !epoch.digest.matches()) {
    const s3::Failure corrupt{
        .kind = s3::Failure::Kind::Corrupt, .bucket = chunk.bucket, .key = chunk.key};
    return fail(corrupt.text());
  }
  chunk.verified = true;
}

bool Stream::send(char* bytes, std::size_t size, bool splice, std::size_t& sent) {
  Epoch& epoch = *current_;
  const iovec piece{bytes, size};
  const Fifo::Sent result = epoch.fifo.send({&piece, 1}, splice, sent);
  epoch.written += sent;
  bytes_ += sent;
  full_ = result == Fifo::Sent::Full;
  return result == Fifo::Sent::Some;
}

bool Stream::send_staged() {
  Epoch& epoch = *current_;
  const auto dropped = std::min<std::uint64_t>(epoch.drop, epoch.staged.size());
  epoch.drop -= dropped;
  std::size_t done = dropped;
  bool more = true;
  while (more && done < epoch.staged.size()) {
    std::size_t sent = 0;
    more = send(epoch.staged.data() + done, epoch.staged.size() - done, false, sent);
    done += sent;
  }
  epoch.staged.erase(0, done);
  return more;
}

std::size_t Stream::left_to_send() const {
  std::size_t left = 0;
  for (const auto& chunk : current_->chunks) {
    left += chunk.size - chunk.sent;
    if (left > pipe_at_most) break;
  }
  return left;
}

bool Stream::send_bytes(Chunk& chunk, std::size_t until) {
  Epoch& epoch = *current_;
  const auto dropped = std::min<std::uint64_t>(epoch.drop, until - chunk.sent);
  epoch.drop -= dropped;
  chunk.sent += dropped;
  while (chunk.sent < until) {
    // The end of an epoch is copied, so that at its end none of our pages is left in the pipe.
    const std::size_t left = is_planned(epoch) ? left_to_send() : pipe_at_most + 1;
    const bool splice = settings_.splice && left > pipe_at_most;
    std::size_t size = until - chunk.sent;
    if (splice && left != pipe_at_most + 1) size = std::min(size, left - pipe_at_most);
    std::size_t sent = 0;
    if (!send(chunk.piece.memory + chunk.sent, size, splice, sent)) return false;
    chunk.sent += sent;
    if (splice) chunk.spliced = epoch.written;
  }
  return true;
}

void Stream::unpack(Chunk& chunk, std::size_t until) {
  Epoch& epoch = *current_;
  const bool framed = settings_.channel.recordio;
  std::string& out = framed ? epoch.record : epoch.staged;
  const auto failed = [&](const std::string& what) {
    fail("s3://" + chunk.object() + ": " + what);
  };
  bool more = true;
  while (more && (framed || out.size() < staged_at_most)) {
    const std::size_t before = out.size();
    const std::string_view in(chunk.piece.memory + chunk.sent, until - chunk.sent);
    const auto used = gunzip_.unpack(in, out, staged_at_most);
    if (!used) return failed(used.error().message);
    chunk.sent += *used;
    epoch.unpacked += out.size() - before;
    more = *used > 0 || out.size() > before;
    if (framed && out.size() > wire::longest_record) return failed("no record is so large");
  }
  // It ends when no more output comes, and not as soon as all input was taken.
  if (more || !chunk.verified || chunk.sent < chunk.size || !chunk.last) return;
  if (!framed && !out.empty()) return;
  if (auto ended = gunzip_.end(); !ended) return failed(ended.error().message);
  const auto bytes = std::exchange(epoch.unpacked, 0);
  if (!chunk.etag.empty() && !unpacked_.files().contains(chunk.etag)) {
    unpacked_.add_begun(chunk.etag, bytes, "");
    (void)unpacked_.keep();  // else it is fetched once more
  }
  if (framed) {
    chunk.after = wire::whole_record(out);
    out.clear();
  }
}

void Stream::finish_chunk() {
  Epoch& epoch = *current_;
  Chunk& chunk = epoch.chunks.front();
  epoch.staged += chunk.after;
  if (chunk.piece.memory != nullptr) {
    if (chunk.spliced != 0) {
      epoch.in_pipe.push_back({chunk.piece.region, chunk.size, chunk.spliced});
      in_pipe_ += chunk.size;
    } else {
      memory_.give_back(chunk.piece.region);
    }
  }
  epoch.chunks.pop_front();
}

bool Stream::end_epoch() {
  Epoch& epoch = *current_;
  if (epoch.skip + epoch.drop > 0) {
    fail("it was to begin " + std::to_string(epoch.skip + epoch.drop) +
         " bytes behind the end of " + name_of(epoch));
    return false;
  }
  if (!epoch.fifo.has_reader() && epoch.written == 0) return false;  // nobody has read it yet
  if (!catalogue_.confirmed()) return false;
  draining_ = true;
  reclaim(epoch);
  draining_ = !epoch.in_pipe.empty();
  if (draining_) return false;
  epoch.fifo.remove_name();
  callbacks_.ended(name_of(epoch));
  follow();
  return !failed_;
}

}  // namespace spotter::data
