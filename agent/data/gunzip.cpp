#include <zlib.h>

#include <algorithm>

#include "agent/data/stream.hpp"

namespace spotter::data {

struct Gunzip::State {
  z_stream stream{};
  bool inside = false;  // a member
  bool any = false;     // a member has begun
  bool whole = false;   // a member has ended
};

Gunzip::Gunzip() : state_(std::make_unique<State>()) {
  inflateInit2(&state_->stream, 16 + MAX_WBITS);
}

Gunzip::~Gunzip() { inflateEnd(&state_->stream); }

Result<std::size_t> Gunzip::unpack(std::string_view in, std::string& out, std::size_t room) {
  z_stream& stream = state_->stream;
  const std::size_t before = out.size();
  out.resize(before + room);
  const auto limit = std::min<std::size_t>(in.size(), 1U << 30);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  stream.avail_in = static_cast<uInt>(limit);
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  stream.avail_out = static_cast<uInt>(room);
  int code = Z_OK;
  while (code == Z_OK && stream.avail_in > 0 && stream.avail_out > 0) {
    if (!state_->inside) {
      // Zeros behind a member are padding, as gzip(1) and Python have it.
      for (; state_->any && stream.avail_in > 0 && *stream.next_in == 0; --stream.avail_in)
        ++stream.next_in;
      if (stream.avail_in == 0) break;
      inflateReset(&stream);
    }
    state_->inside = state_->any = true;
    code = inflate(&stream, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      state_->inside = false;
      state_->whole = true;
      code = Z_OK;
    }
  }
  // inflate() may hold back output, which the next call returns without new input.
  if (code == Z_OK && state_->inside && stream.avail_in == 0 && stream.avail_out > 0) {
    code = inflate(&stream, Z_SYNC_FLUSH);
    if (code == Z_STREAM_END) state_->inside = false;
  }
  out.resize(out.size() - stream.avail_out);
  if (code == Z_DATA_ERROR || code == Z_NEED_DICT) {
    const std::string why = stream.msg == nullptr ? "not even a header" : stream.msg;
    const bool trails = state_->whole && why == "incorrect header check";
    return failure("it is no good gzip: " +
                   (trails ? "something else is behind its end, which gzip(1) leaves out" : why));
  }
  return limit - stream.avail_in;
}

Result<void> Gunzip::end() {
  const bool cut = state_->inside;
  state_->inside = state_->any = state_->whole = false;
  inflateReset(&state_->stream);
  if (cut) return failure("it is no good gzip: it is cut off");
  return {};
}

}  // namespace spotter::data
