// Writes a stream's bytes from memory into the pipe.
#include <algorithm>

#include "agent/data/epoch.hpp"
#include "trainer/library/recordio.hpp"

namespace spotter::data {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t staged_at_most = 1U << 20;
// More than a pipe of ours holds: once so much was written after a page, the page was read.
constexpr std::size_t pipe_at_most = 1U << 20;

}  // namespace

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
      chunk.verified ? chunk.size : std::min(chunk.arrived, chunk.size - 1) / page * page;
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
  unpacked_.learn(chunk.etag, std::exchange(epoch.unpacked, 0));
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
