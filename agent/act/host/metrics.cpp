#include "agent/act/host/metrics.hpp"

#include "agent/io/beneath.hpp"

namespace spotter::act::host {
namespace {

constexpr std::size_t most_points = 4096;
constexpr std::size_t file_limit = 4U << 20;

}  // namespace

Outcome<void> keep_metrics(const std::filesystem::path& path, std::string_view lines,
                           std::optional<std::uint64_t> resumed, mode_t mode) {
  const auto home = io::Beneath::open(path.parent_path());
  if (!home) return fail_errno(home.error(), "cannot open " + path.parent_path().string());
  const std::string name = path.filename();
  const auto text = home->read(name, file_limit);
  if (!text && text.error() != std::errc::no_such_file_or_directory &&
      text.error() != std::errc::file_too_large)
    return fail_errno(text.error(), "cannot read " + path.string());
  auto kept = wire::parse_curve(text.value_or(std::string()));
  if (!kept.newer.empty()) return fail("newer-format", path.string() + ": " + kept.newer);
  wire::Curve curve = std::move(kept.curve);
  if (resumed) curve.resume(*resumed);
  curve.append(wire::parse_curve(lines).curve);
  if (curve.points().size() > most_points) curve.thin(most_points / 2);
  const auto written = home->write(name, to_lines(curve), mode);
  if (!written) return fail_errno(written.error(), "cannot write " + path.string());
  return {};
}

wire::Curve read_metrics(const std::filesystem::path& path) {
  const auto home = io::Beneath::open(path.parent_path());
  const auto text = home ? home->read(path.filename(), file_limit) : tl::unexpected(home.error());
  return text ? wire::parse_curve(*text).curve : wire::Curve();
}

}  // namespace spotter::act::host
