// Descriptions of channels, and what their objects may hold: documents, manifests, frozen listings,
// gzip, RecordIO.
#include "agent/config/channel.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/data/catalogue.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/stream.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "trainer/library/recordio.hpp"

namespace spotter::fuzz {
namespace {

void descriptions(std::string_view bytes) {
  if (const auto channel = wire::parse_channel(bytes)) {
    must(wire::is_channel_name(channel->name), "a channel's name is a part of a path");
    must(wire::validated(*channel) == *channel, "what was read is valid");
    must(wire::parse_channel(describe(*channel)) == *channel, "one described reads the same");
  }
  const auto all = wire::parse_input_data_config(bytes);
  if (!all) return must(!all.error().message.empty(), "an error is reported");
  for (const auto& channel : *all) {
    must(wire::is_channel_name(channel.name), "a channel's name is a part of a path");
    must(wire::validated(channel) == channel, "what was read is valid");
    must(wire::parse_channel(describe(channel)) == channel, "a channel described reads the same");
  }
}

void manifests(std::string_view bytes) {
  if (const auto manifest = wire::parse_manifest(bytes)) {
    for (const auto& key : manifest->keys) {
      must(key.starts_with(manifest->prefix.key), "a manifest's keys are below its prefix");
    }
  }
  if (const auto entries = wire::parse_augmented_line(bytes, {"a", "b-ref"})) {
    must(entries->size() == 2 && (*entries)[1].object, "each attribute has its value");
  }
}

void listings(std::string_view bytes) {
  const auto channel = wire::parse_channel("train=s3://bucket/p");
  static const auto file = std::filesystem::temp_directory_path() /
                           ("fuzzed-" + std::to_string(::getpid()) + ".listing");
  std::ofstream(file, std::ios::binary) << bytes;
  const auto listing = data::read_listing(file, *channel);
  if (listing) {
    must(data::write_listing(file, *channel, **listing).has_value(), "a listing is written");
    must(data::read_listing(file, *channel).value() == *listing, "and reads the same");
  }
  std::filesystem::remove(file);
}

// A key never leads out of the channel's folder.
void names(std::string_view bytes) {
  const auto cut = bytes.size() / 2;
  const auto name = data::file_name(bytes.substr(0, cut), bytes);
  if (!name) return;
  must(!name->empty() && name->front() != '/', "the name is a relative path");
  must(("/" + *name + "/").find("/../") == name->npos, "that stays where it is");
}

// A ledger that is cut off says less, and nothing else.
void ledgers(std::string_view bytes) {
  const auto line = bytes.substr(0, bytes.find('\n'));
  must(data::Fetched::parse(line).empty(), "a line without its end says nothing");
  must(data::Fetched::parse(bytes).size() <= std::size_t(std::ranges::count(bytes, '\n')),
       "a line speaks of one file");
}

// However it is cut, it is the same bytes, or an error.
Result<std::string> unpacked(std::string_view in, std::size_t piece) {
  data::Gunzip gunzip;
  std::string out;
  std::size_t at = 0;
  for (bool more = true; more && out.size() < 100'000;) {
    const std::size_t before = out.size();
    const auto used = gunzip.unpack(in.substr(at, piece), out, 4096);
    if (!used) return tl::unexpected(used.error());
    at += *used;
    more = *used > 0 || out.size() > before;
  }
  if (auto ended = gunzip.end(); !ended) return tl::unexpected(ended.error());
  return out;
}

void packed(std::string_view bytes) {
  const auto whole = unpacked(bytes, bytes.size() + 1);
  const auto cut = unpacked(bytes, 3);
  must(whole.has_value() == cut.has_value(), "cuts make no gzip good or bad");
  if (whole) must(*whole == *cut, "cuts do not change what comes out");
}

void records(std::string_view bytes) {
  const auto header = wire::parse_record_header(bytes);
  if (!header || header->part != wire::RecordHeader::Part::Whole) return;
  must(wire::record_header(header->bytes) == bytes.substr(0, wire::recordio_header),
       "a header printed reads the same");
  must(wire::record_size(header->bytes) % 4 == 0, "records are padded");
}

}  // namespace

void examine(std::string_view bytes) {
  descriptions(bytes);
  manifests(bytes);
  listings(bytes);
  names(bytes);
  ledgers(bytes);
  packed(bytes);
  records(bytes);
}

}  // namespace spotter::fuzz
