#include "agent/host/metrics.hpp"

#include "agent/io/beneath.hpp"

namespace spotter::act::host {
namespace {

constexpr std::size_t most_points = 4096;

// Nothing of it is lost, nor is what was moved aside before.
Result<std::string> move_aside(const io::Beneath& home, const std::string& name) {
  const auto path = (home.path() / name).string();
  const std::string aside = name + ".before";
  const auto taken = home.look(aside);
  if (taken)
    return fail("layout-unusable", path + " is not Spotter's, and " + aside +
                                       " is there already: move one of them away, and let the "
                                       "trainer write its own under another name");
  if (taken.error() != std::errc::no_such_file_or_directory)
    return fail_errno(taken.error(), "cannot look at " + path + ".before");
  if (const auto moved = home.rename(name, home, aside); !moved)
    return fail_errno(moved.error(), "cannot move " + path + " aside");
  return path + " was not Spotter's, which keeps the learning curve there: it is " + aside +
         " now, and nothing of it is lost. Let the trainer write its own under another name";
}

}  // namespace

Result<std::string> keep_metrics(const std::filesystem::path& path, std::string_view lines,
                                 std::optional<std::uint64_t> resumed, mode_t mode) {
  const auto home = io::Beneath::open(path.parent_path());
  if (!home) return fail_errno(home.error(), "cannot open " + path.parent_path().string());
  const std::string name = path.filename();
  const auto text = home->read(name, metrics_limit);
  const bool absent = !text && text.error() == std::errc::no_such_file_or_directory;
  if (!text && !absent && text.error() != std::errc::file_too_large)
    return fail_errno(text.error(), "cannot read " + path.string());
  auto kept = wire::parse_curve(text.value_or(std::string()));
  if (!kept.newer.empty()) return fail("newer-format", path.string() + ": " + kept.newer);
  wire::Curve curve = std::move(kept.curve);
  std::string said;
  if (!absent && (!text || to_lines(curve) != *text)) {
    auto moved = move_aside(*home, name);
    if (!moved) return moved;
    said = *std::move(moved);
  }
  if (resumed) curve.resume(*resumed);
  curve.append(wire::parse_curve(lines).curve);
  if (curve.points().size() > most_points) curve.thin(most_points / 2);
  const auto written = home->write(name, to_lines(curve), mode);
  if (!written) return fail_errno(written.error(), "cannot write " + path.string());
  return said;
}

wire::Curve read_metrics(const std::filesystem::path& path) {
  const auto home = io::Beneath::open(path.parent_path());
  const auto text =
      home ? home->read(path.filename(), metrics_limit) : tl::unexpected(home.error());
  return text ? wire::parse_curve(*text).curve : wire::Curve();
}

}  // namespace spotter::act::host
